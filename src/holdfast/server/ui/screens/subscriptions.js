/** Subscriptions and webhooks: where they stand, dead letters and their delivery. */

import { path, post, remove } from '../lib/api.js'
import { brief, count } from '../lib/format.js'
import { List } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { listOf, runLink, since, td, tr } from '../parts/common.js'
import { ask } from '../parts/dialogs.js'

const { button, code, div, h1, h2, span } = tags

const READ_EVERY = 700

/** @param {any} app @param {import('../lib/address.js').Address} address */
export function open(app, address) {
  let selected = address.query.webhook ?? ''
  const webhooks = new List(() => ['webhooks'], app.redraw, 0)
  /** Readers with a stored cursor; the answer has the webhooks, too. */
  const subscriptions = new List(() => ['subscriptions'], () => { subscriptions.items = subscriptions.items.filter((item) => item.kind !== 'webhook'); app.redraw() }, 0)
  /** The dead letters of one webhook. */
  const letters = new List(() => (selected ? [path`webhooks/${selected}/dead-letters`] : null), () => { letters.items.forEach((letter) => { letter.key = `${letter.run} ${letter.seq}` }); app.redraw() }, 0)
  const parts = [webhooks, subscriptions, letters]
  // No event tells that a letter was delivered again: the letters are read until it is.
  const timer = setInterval(() => { if (letters.items.some((letter) => letter.again) && !document.hidden) letters.refresh() }, READ_EVERY)
  const read = () => parts.forEach((part) => part.load())
  const select = (/** @type {string} */ name) => {
    app.adjust({ webhook: name === selected ? '' : name })
    letters.clear()
    letters.load()
  }
  read()
  const redeliver = (/** @type {any} */ hook) => ask({ title: `Deliver the dead letters of ${hook.name} again?`, verb: 'Deliver', act: async () => { await post(path`webhooks/${hook.name}/redeliver`); read() } })
  const removeHook = (/** @type {any} */ hook) => ask({ title: `Remove webhook ${hook.name}?`, text: 'Nothing more is delivered to it, and its dead letters are deleted.', verb: 'Remove', danger: true, act: async () => { await remove(path`webhooks/${hook.name}`); if (hook.name === selected) select(hook.name); read() } })
  const unsubscribe = (/** @type {any} */ item) => ask({ title: `Remove subscription ${item.name}?`, text: 'Its cursor is lost: a reader of this name begins again.', verb: 'Remove', danger: true, act: async () => { await remove(path`subscriptions/${item.name}`); read() } })
  return {
    title: () => 'Subscriptions',
    moved: (/** @type {any} */ to) => { selected = to.query.webhook ?? ''; app.redraw() },
    heard: () => parts.forEach((part) => part.refresh()),
    close: () => { clearInterval(timer); parts.forEach((part) => part.close()) },
    view: () => [
      div({ class: 'bar' }, h1('Subscriptions')), h2('Webhooks'),
      listOf(webhooks, ['Webhook', 'URL', 'State', '>Dead letters', ''], (hook) => tr({ key: hook.name }, td({ class: 'line' }, hook.name), td({ class: 'wide' }, code(hook.url)), td(hook.error ? span({ class: 'failed' }, hook.error) : span({ class: 'completed' }, 'delivers')), td({ class: 'right mono' }, button({ class: 'link', 'aria-expanded': String(hook.name === selected), onclick: () => select(hook.name) }, 'Show')), td({ class: 'line' }, app.may('admin') && div({ class: 'row' }, button({ onclick: () => redeliver(hook) }, 'Deliver again'), button({ class: 'danger', onclick: () => removeHook(hook) }, 'Remove')))), { label: 'Webhooks', empty: 'There is no webhook.' }),
      selected && [h2(`Dead letters of ${selected}`), listOf(letters, ['Run', '>Event', '>Attempts', 'Error', 'At', 'Body'], (letter) => tr({ key: `${letter.run} ${letter.seq}` }, td({ class: 'line' }, runLink(letter.run)), td({ class: 'right mono' }, String(letter.seq)), td({ class: 'right mono' }, count(letter.attempts)), td(letter.error, letter.again && div({ class: 'soft' }, 'is delivered again')), td({ class: 'line' }, since(letter.at)), td({ class: 'wide mono' }, brief(letter.body, 160))), { label: 'Dead letters', empty: 'Every event was delivered.' })],
      h2('Readers'),
      listOf(subscriptions, ['Name', 'Cursor', 'Created', ''], (item) => tr({ key: item.name }, td({ class: 'line' }, item.name), td({ class: 'wide mono' }, item.cursor ?? ''), td({ class: 'line' }, since(item.created_at)), td(app.may('admin') && button({ class: 'danger', onclick: () => unsubscribe(item) }, 'Remove'))), { label: 'Readers', empty: 'There is no stored reader of events.' }),
    ],
  }
}
