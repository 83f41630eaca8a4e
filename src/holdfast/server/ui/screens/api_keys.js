/** API keys and login sessions. A new secret is shown once. */

import { path, post, remove } from '../lib/api.js'
import { List } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { listOf, since, td, tr, when } from '../parts/common.js'
import { ask } from '../parts/dialogs.js'

const { button, code, div, h1, h2, p, strong } = tags

const SCHEMA = {
  type: 'object', required: ['name', 'role'],
  properties: {
    name: { type: 'string', title: 'Name' },
    role: { enum: ['viewer', 'starter', 'approver', 'worker', 'operator', 'admin'], title: 'Role' },
    namespace: { type: 'string', title: 'Namespace', description: 'empty: all' },
    expires: { type: 'string', title: 'Expires after', description: 'such as 90d; empty: never' },
  },
}

/** @param {any} app */
export function open(app) {
  const keys = new List(() => ['api-keys'], app.redraw, 0)
  const logins = new List(() => ['logins'], app.redraw, 0)
  /** @type {any} */
  let added = null
  const read = () => { keys.load(); logins.load() }
  read()
  const add = () => ask({
    title: 'Add an API key', verb: 'Add', schema: SCHEMA,
    act: async (value) => {
      added = await post('api-keys', { name: value.name, roles: [value.role], ...(value.namespace ? { namespace: value.namespace } : {}), ...(value.expires ? { expires: value.expires } : {}) })
      read()
    },
  })
  const revoke = (/** @type {any} */ key) => ask({ title: `Revoke API key ${key.name}?`, text: 'Programs that use it are refused at once.', verb: 'Revoke', danger: true, act: async () => { await remove(path`api-keys/${key.name}`); read() } })
  const end = (/** @type {any} */ login) => ask({ title: `End the login session of ${login.name}?`, verb: 'End', danger: true, act: async () => { await remove(path`logins/${login.id}`); read() } })
  return {
    title: () => 'API keys',
    close: () => { keys.close(); logins.close() },
    view: () => [
      div({ class: 'bar' }, h1('API keys'), button({ class: 'primary', onclick: add }, 'Add')),
      added && div({ class: 'panel notice' }, div({ class: 'grow' }, strong('Copy the secret now; it is not shown again.'), p(code(added.api_key))), button({ onclick: () => { added = null; app.redraw() } }, 'Done')),
      listOf(keys, ['Name', 'Roles', 'Namespace', 'Created', 'Last use', 'Expires', ''], (key) => tr({ key: key.id ?? key.name }, td({ class: 'wide' }, key.name), td((key.roles ?? []).join(', ')), td(key.namespace ?? 'all'), td({ class: 'line' }, since(key.created_at)), td({ class: 'line' }, key.used_at ? since(key.used_at) : 'never'), td({ class: 'line' }, key.revoked_at ? 'revoked' : key.expires_at ? when(key.expires_at) : ''), td(!key.revoked_at && button({ class: 'danger', onclick: () => revoke(key) }, 'Revoke'))), { label: 'API keys', empty: 'There is no API key. Browsers log in with the one-time link that the server prints.' }),
      logins.data && [h2('Login sessions'), listOf(logins, ['Name', 'Since', 'Until', ''], (login) => tr({ key: login.id }, td({ class: 'wide' }, login.name), td({ class: 'line' }, since(login.created_at)), td({ class: 'line' }, when(login.expires_at)), td(button({ onclick: () => end(login) }, 'End'))), { label: 'Login sessions', empty: 'No browser is logged in.' })],
    ],
  }
}
