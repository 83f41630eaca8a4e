/** The login panel: an API key opens a login session. The screen behind it stays open, with the typed text. */

import { connection, post } from '../lib/api.js'
import { tags } from '../lib/view.js'
import { problemBox } from './common.js'

const { button, code, div, form, h1, input, label, p } = tags

let typed = ''
/** @type {any} */
let problem = null

/** @param {() => Promise<void>} loggedIn called when the login session is open @param {() => void} [redraw] */
export function loginPanel(loggedIn, redraw = () => {}) {
  const logIn = async (/** @type {Event} */ event) => {
    event.preventDefault()
    try {
      await post('login', { api_key: typed })
      typed = ''
      problem = null
      connection.needsLogin = false
      connection.changed()
      await loggedIn()
    } catch (refusal) {
      problem = refusal
    }
    redraw()
  }
  return div({ class: 'panel padded', key: 'login' },
    h1('Log in'),
    p('Open the one-time link that ', code('holdfast serve'), ' prints, or enter an API key. ',
      code('holdfast api-keys add NAME --role operator'), ' makes one.'),
    problemBox(problem),
    form({ class: 'row', onsubmit: logIn },
      label({ class: 'grow' }, 'API key', input({
        type: 'password', value: typed, autocomplete: 'current-password', required: true,
        oninput: (/** @type {any} */ event) => { typed = event.target.value },
      })),
      button({ class: 'primary', type: 'submit' }, 'Log in')))
}
