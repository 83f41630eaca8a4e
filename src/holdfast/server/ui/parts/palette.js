/** The palette (`ctrl k`): go to a screen, a workflow or a run by typing a part of its name. */

import { get } from '../lib/api.js'
import { show, tags } from '../lib/view.js'
import { SCREENS } from '../screens/index.js'

const { button, dialog, div, h2, input, kbd, label, li, table, tbody, td, tr, ul } = tags

/** @typedef {{text: string, go: () => void}} Target */

/** @param {any} app */
export function openPalette(app) {
  let typed = ''
  let at = 0
  /** @type {string[]} */
  let runs = []
  let readFor = ''

  /** @returns {Target[]} */
  const targets = () => {
    const text = typed.trim().toLowerCase()
    const screens = SCREENS.filter((screen) => screen.title && app.maySee(screen) && screen.title.toLowerCase().includes(text))
      .map((screen) => ({ text: screen.title, go: () => app.go([screen.name]) }))
    const known = runs.map((id) => ({ text: `run ${id}`, go: () => app.go(['run', id]) }))
    const exact = text ? [{ text: `run ${typed.trim()}`, go: () => app.go(['run', typed.trim()]) },
      { text: `runs of workflow ${typed.trim()}`, go: () => app.go(['runs'], { workflow: typed.trim() }) }] : []
    const all = [...screens, ...known, ...exact]
    return all.filter((target, index) => all.findIndex((other) => other.text === target.text) === index).slice(0, 12)
  }

  const read = async () => {
    const text = typed.trim()
    if (text.length < 3 || text === readFor) return
    readFor = text
    try {
      const page = await get('runs', { id_prefix: text, limit: 8 })
      runs = page.items.map((/** @type {any} */ run) => run.id)
    } catch {
      runs = [] // the exact id can still be opened, and its page says what is wrong
    }
    if (document.querySelector('#overlay dialog.palette input')) draw() // not after the person has chosen
  }

  const pick = (/** @type {Target | undefined} */ target) => {
    closeOverlay()
    target?.go()
  }

  const pressed = (/** @type {KeyboardEvent} */ event) => {
    const list = targets()
    const steps = { ArrowDown: 1, ArrowUp: -1 }
    const step = steps[/** @type {keyof typeof steps} */ (event.key)]
    if (step) at = (at + step + list.length) % list.length
    else if (event.key === 'Enter') return pick(list[at])
    else return
    event.preventDefault()
    draw()
  }

  const draw = () => {
    overlay([
      label('Go to a screen, a workflow or a run', input({
        value: typed, autofocus: true, autocomplete: 'off', onkeydown: pressed,
        oninput: (/** @type {any} */ event) => { typed = event.target.value; at = 0; draw(); read() },
      })),
      ul(targets().map((target, index) => li({ key: target.text },
        button({ type: 'button', 'aria-current': index === at ? 'true' : null, onclick: () => pick(target) }, target.text)))),
    ], 'Go to')
  }
  draw()
}

/** @param {import('../lib/keys.js').KeyBinding[]} bindings */
export function showKeys(bindings) {
  overlay([
    h2('Keys'),
    table({ 'aria-label': 'Keys' }, tbody(bindings.map((binding) => tr({ key: binding.keys }, td(kbd({ class: 'mono' }, binding.keys)), td(binding.text))))),
    div({ class: 'row end' }, button({ onclick: closeOverlay, autofocus: true }, 'Close')),
  ], 'Keys')
}

/** @param {any} content @param {string} name */
function overlay(content, name) {
  const place = document.querySelector('#overlay')
  show(place, dialog({ class: 'palette', 'aria-label': name, oncancel: (/** @type {Event} */ event) => { event.preventDefault(); closeOverlay() } }, content))
  const element = /** @type {HTMLDialogElement} */ (place?.querySelector('dialog'))
  if (!element.open) element.showModal()
}

function closeOverlay() {
  const place = document.querySelector('#overlay')
  place?.querySelector('dialog')?.close()
  show(place, null)
}
