/** Choices of a person that outlive the page: theme, time zone, saved views. Without storage, they last as long as the page. */

const PREFIX = 'holdfast.'

/** @type {Record<string, any>} */
const memory = {}

/** @param {string} name @param {any} fallback */
export function preference(name, fallback) {
  try {
    const text = localStorage.getItem(PREFIX + name)
    return text == null ? memory[name] ?? fallback : JSON.parse(text)
  } catch {
    return memory[name] ?? fallback
  }
}

/** @param {string} name @param {any} value */
export function setPreference(name, value) {
  memory[name] = value
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value))
  } catch {
    // a private window may have no storage: the choice lasts as long as the page
  }
}
