/** An address that no screen has. */

import { tags } from '../lib/view.js'
import { SCREENS } from './index.js'

const { a, code, div, h1, p } = tags

/** @param {any} app */
export function open(app) {
  return {
    title: () => 'No such page',
    view: () => div({ class: 'panel padded' },
      h1('There is no such page'),
      p(`No screen has the address “${app.address.path.join('/')}”.`),
      a({ class: 'button', href: '#/runs' }, 'Go to the runs')),
  }
}

/** A screen that the caller has no right to see. @param {any} app */
export function openForbidden(app) {
  const roles = (app.me?.roles ?? []).join(', ')
  const screens = SCREENS.filter((screen) => screen.title && app.maySee(screen))
  return {
    title: () => 'No right',
    view: () => div({ class: 'panel padded' },
      h1('You may not see this page'),
      p(`${app.me?.name ?? 'This API key'} has ${roles ? `the role ${roles}` : 'no role'}. A page shows runs and their state, for which an API key needs the role viewer, operator or admin.`),
      screens.length > 0 ? div({ class: 'row' }, screens.map((screen) => a({ key: screen.name, class: 'button', href: `#/${screen.name}` }, screen.title))) : p('Programs use this API key over HTTP. ', code('holdfast api-keys add NAME --role viewer'), ' makes one for a person.')),
  }
}
