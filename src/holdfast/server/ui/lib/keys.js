/**
 * Keyboard: single keys and sequences such as `g r`. A key that is typed into a field belongs to the field.
 *
 * @typedef {{keys: string, text: string, run: () => void}} KeyBinding
 */

const SEQUENCE_WITHIN = 1000

/** @param {() => KeyBinding[]} bindings @returns {(event: KeyboardEvent) => void} */
export function keyHandler(bindings) {
  let first = ''
  let firstAt = 0
  return (event) => {
    if (event.altKey || event.metaKey || isTyping(event)) return
    const key = (event.ctrlKey ? 'ctrl ' : '') + event.key
    const sequence = Date.now() - firstAt < SEQUENCE_WITHIN ? `${first} ${key}` : key
    const known = bindings()
    const binding = known.find((one) => one.keys === sequence) ?? known.find((one) => one.keys === key)
    first = key
    firstAt = Date.now()
    if (!binding) return
    event.preventDefault()
    firstAt = 0
    binding.run()
  }
}

/** @param {KeyboardEvent} event */
function isTyping(event) {
  const target = /** @type {HTMLElement} */ (event.target)
  if (event.ctrlKey && event.key === 'k') return false
  if (target?.closest?.('dialog')) return true
  return Boolean(target?.matches?.('input, textarea, select, [contenteditable]'))
}
