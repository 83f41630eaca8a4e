/**
 * Dialogs: confirmation, text and forms. One dialog is open at a time.
 *
 * A dialog stays open until its action has succeeded. A refusal appears inside it, and the typed text stays.
 */

import { connection } from '../lib/api.js'
import { show, tags } from '../lib/view.js'
import { problemBox } from './common.js'
import { formView, valueOf } from './form.js'
import { loginPanel } from './login.js'

const { button, dialog, div, form, h2, input, label, p } = tags

/**
 * @typedef {{title: string, text?: any, verb: string, danger?: boolean, type?: string, schema?: any, value?: any,
 *   extra?: () => any, act: (value: any) => Promise<any>}} Question
 */

/** @type {{question: Question, value: any, typed: string, problem: any, busy: boolean} | null} */
let open = null

/** Ask before an action. `type` is a text that the person must type first. @param {Question} question */
export function ask(question) {
  open = { question, value: question.value ?? {}, typed: '', problem: null, busy: false }
  draw()
  const element = /** @type {HTMLDialogElement} */ (document.querySelector('#overlay dialog'))
  if (element && !element.open) element.showModal()
}

/** Close the dialog without its action, as when the person goes to another screen. */
export function close() {
  const element = /** @type {HTMLDialogElement | null} */ (document.querySelector('#overlay dialog'))
  open = null
  element?.close()
  show(document.querySelector('#overlay'), null)
}

async function act() {
  const current = open
  if (!current || current.busy) return
  current.busy = true
  current.problem = null
  draw()
  try {
    const { schema, act: action } = current.question
    await action(schema ? valueOf(schema, current.value) : current.value)
    if (open === current) close()
  } catch (problem) {
    current.problem = problem
    current.busy = false
    if (open === current) draw()
  }
}

function draw() {
  if (!open) return
  const current = open
  const { title, text, verb, danger, type, schema, extra } = current.question
  const mayAct = !current.busy && (!type || current.typed === type)
  show(document.querySelector('#overlay'),
    dialog({ 'aria-labelledby': 'dialog-title', oncancel: (/** @type {Event} */ event) => { event.preventDefault(); close() } },
      form({ method: 'dialog', onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); if (mayAct) act() } },
        h2({ id: 'dialog-title' }, title),
        text && (typeof text === 'string' ? p(text) : text),
        schema && formView(schema, current.value, (value) => { current.value = value; draw() }, wrongFields(current.problem)),
        extra?.(),
        type && label({ class: 'field' }, `Type ${type} to confirm`,
          input({ value: current.typed, autocomplete: 'off', oninput: (/** @type {any} */ event) => { current.typed = event.target.value; draw() } })),
        problemBox(current.problem),
        div({ class: 'row end' },
          button({ type: 'button', onclick: close }, 'Close'),
          button({ type: 'submit', class: danger ? 'primary danger-action' : 'primary', disabled: !mayAct }, current.busy ? 'Working …' : verb))),
      // The dialog is above the page: a login session that ends meanwhile is renewed here, and the typed text stays.
      connection.needsLogin && loginPanel(loggedIn, draw)))
}

async function loggedIn() {
  if (open) open.problem = null
  draw()
}

/**
 * Return the messages of a refusal by the path of the field. The facts name one field and the reason, or several and
 * their reasons in one text: `$.amount: the field is missing; $.note: ...`.
 * @param {any} problem
 * @returns {Record<string, string>}
 */
export function wrongFields(problem) {
  const { field, fields, why } = problem?.facts ?? {}
  if (typeof why !== 'string') return {}
  if (typeof field === 'string') return { [pathOf(field)]: why }
  const names = typeof fields === 'string' ? fields.split(', ').filter(Boolean) : []
  const begins = names.map((name) => why.indexOf(`${name}: `))
  return Object.fromEntries(names.map((name, index) => {
    if (begins[index] < 0) return [pathOf(name), why]
    const end = index + 1 < names.length ? begins[index + 1] - 2 : why.length
    return [pathOf(name), why.slice(begins[index] + name.length + 2, end)]
  }))
}

/** Return the path of a field of a form from its place in the value, such as `$.items[0].name`. @param {string} place */
function pathOf(place) {
  return place.replace(/^\$\.?/, '').replaceAll(/\[(\d+)\]/g, '.$1')
}
