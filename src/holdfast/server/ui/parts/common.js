/** Small parts that every screen uses: states, problems, times, tables, values. */

import { addressOf } from '../lib/address.js'
import { ExactNumber, exactText } from '../lib/exact.js'
import { ago, brief, count, exactTime, time, words } from '../lib/format.js'
import { keyOf } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { RowWindow, rowSpacer } from './rows.js'

/** @typedef {import('../lib/resource.js').List} List */

const { a, button, code, details, div, p, pre, span, strong, summary, svg, path, table, tbody, td, th, thead, tr } = tags

/** The colour of each status; the shape makes it readable without colours. */
export const STATES = {
  pending: 'attention', blocked: 'attention', running: 'running', waiting: 'waiting', cancelling: 'attention',
  stuck: 'failed', completed: 'completed', failed: 'failed', cancelled: 'quiet', expired: 'failed', skipped: 'quiet',
  open: 'waiting', approved: 'completed', rejected: 'failed', alive: 'completed', silent: 'attention', gone: 'failed',
  dead: 'failed', paused: 'attention', draining: 'attention', stopped: 'quiet', succeeded: 'completed', active: 'completed', deprecated: 'quiet',
}

const SHAPES = {
  completed: 'M1 5l3 3 5-6-1-1-4 5-2-2z', failed: 'M2 1L5 4 8 1l1 1-3 3 3 3-1 1-3-3-3 3-1-1 3-3-3-3z',
  running: 'M2 1l7 4-7 4z', waiting: 'M2 1h2v8H2zM6 1h2v8H6z', attention: 'M5 0l5 9H0z', quiet: 'M1 4h8v2H1z',
}

/** @param {string} status */
export function state(status) {
  const colour = STATES[/** @type {keyof typeof STATES} */ (status)] ?? 'quiet'
  return span({ class: `state ${colour}` }, shape(colour), words(status))
}

/** @param {string} colour */
export function shape(colour) {
  return svg({ viewBox: '0 0 10 10', 'aria-hidden': 'true' }, path({ d: SHAPES[/** @type {keyof typeof SHAPES} */ (colour)] ?? SHAPES.quiet }))
}

/** Show a refusal with its remedy. @param {any} problem @param {any} [action] */
export function problemBox(problem, action) {
  if (!problem) return null
  const rest = factsOf(problem)
  return div({ class: 'panel problem', role: 'alert' },
    div({ class: 'grow' },
      strong(problem.title || problem.message),
      rest && p(rest),
      problem.remedy && p({ class: 'remedy' }, quoted(problem.remedy))),
    action)
}

/** Return a text whose commands, in backticks, are marked as code. @param {string} text */
function quoted(text) {
  return text.split('`').map((part, index) => (index % 2 ? code(part) : part))
}

/** Return what the detail of a refusal says beyond its title and its remedy. @param {any} problem */
function factsOf({ title = '', detail = '', remedy = '' }) {
  let rest = detail
  for (const known of [title, remedy]) if (known && rest.startsWith(known)) rest = rest.slice(known.length).replace(/^[:.]?\s*/, '')
  return rest.replace(/^\((.*)\)$/, '$1')
}

/** @param {any} text an instant */
export function when(text) {
  return text ? span({ class: 'mono', title: exactTime(text) }, time(text)) : ''
}

/** @param {any} text an instant */
export function since(text) {
  return text ? span({ title: exactTime(text) }, ago(text)) : ''
}

/** @param {string} id @param {string} [text] */
export function runLink(id, text) {
  return a({ class: 'mono', href: addressOf(['run', id]) }, text ?? id)
}

/** @param {string[]} heads @param {any} rows @param {{label: string, count?: number}} options the number of all rows; -1: unknown */
export function grid(heads, rows, { label, count: all }) {
  return div({ class: 'panel scroll' },
    table({ 'aria-label': label, 'aria-rowcount': all ?? null },
      thead(tr(heads.map((head) => th({ scope: 'col', class: head.startsWith('>') ? 'right' : null }, head.replace(/^>/, '') || span({ class: 'hidden' }, 'Actions'))))),
      tbody(rows)))
}

/** The window of each long list. @type {WeakMap<object, RowWindow>} */
const windowOf = new WeakMap()

/** Return the part of a list that is in sight. @param {List} list @returns {RowWindow} */
export function rowWindow(list) {
  const known = windowOf.get(list) ?? new RowWindow(list.redraw)
  windowOf.set(list, known)
  known.atEnd = () => { if (list.next && !list.problem) list.more() }
  return known
}

/** Return the rows of a list that are in sight. @param {List} list @param {(item: any, index: number) => any} row */
export function rowsOf(list, row) {
  return windowRows(rowWindow(list), list.items, row)
}

/** Return the rows of a table that are in sight. @param {RowWindow} part @param {any[]} items @param {(item: any, index: number) => any} row */
export function windowRows(part, items, row) {
  return part.view(items.map(keyOf), (index) => {
    const view = row(items[index], index)
    const { props } = Array.isArray(view) ? view[0] : view
    props['data-row'] = part.keys[index]
    if (items.length > part.last - part.first) props['aria-rowindex'] = index + 2
    return view
  }, rowSpacer)
}

/** Show a list, its emptiness, its problem and the way to its next page. */
export function listOf(/** @type {List} */ list, /** @type {string[]} */ heads,
  /** @type {(item: any, index: number) => any} */ row, /** @type {{label: string, empty: any}} */ { label, empty }) {
  if (!list.data && list.problem) return problemBox(list.problem)
  if (!list.data) return div({ class: 'panel empty', 'aria-busy': 'true' }, 'Reading …')
  return [
    problemBox(list.problem),
    list.items.length ? grid(heads, rowsOf(list, row), { label, count: list.next ? -1 : list.items.length + 1 }) : div({ class: 'panel empty' }, empty),
    list.next && div({ class: 'row more' }, button({ onclick: () => list.more() }, 'Show more'),
      span({ class: 'soft' }, `${count(list.items.length)} are read`)),
  ]
}

/**
 * Show a value as a folded tree; exact numbers and any text stay as they were stored.
 * @param {any} value @param {number} [depth]
 * @returns {any}
 */
export function valueTree(value, depth = 0) {
  if (value === null || typeof value !== 'object' || value instanceof ExactNumber) return leaf(value)
  const entries = Object.entries(value)
  const isList = Array.isArray(value)
  if (!entries.length) return span(isList ? '[]' : '{}')
  const shown = entries.slice(0, 200)
  return details({ open: depth < 1 },
    summary(span({ class: 'soft' }, isList ? `list of ${entries.length}` : `{${brief(Object.keys(value).join(', '), 60)}}`)),
    shown.map(([key, part]) => div({ key }, span({ class: 'key' }, key), ': ', valueTree(part, depth + 1))),
    entries.length > shown.length && div({ class: 'soft' }, `and ${count(entries.length - shown.length)} more; download to see all`))
}

/** @param {any} value */
function leaf(value) {
  if (typeof value === 'string' && value.length > 2000) {
    return details(summary(span({ class: 'soft' }, `text of ${count(value.length)} characters`)), pre(value.slice(0, 200_000)))
  }
  return span(value instanceof ExactNumber ? value.digits : typeof value === 'string' ? JSON.stringify(value) : String(value))
}

/** @param {string} title @param {any} value @param {string} [href] where the stored text can be downloaded */
export function valuePanel(title, value, href) {
  return div({ class: 'panel padded', key: title },
    div({ class: 'row apart' }, strong(title),
      div({ class: 'row' },
        button({ class: 'link', onclick: () => navigator.clipboard?.writeText(exactText(value)) }, 'copy'),
        href && a({ class: 'link', href, download: '' }, 'download'))),
    div({ class: 'json' }, valueTree(value)))
}

/** @param {Record<string, any>} entries name to text or element; empty ones are left out */
export function facts(entries) {
  return tags.dl({ class: 'facts' }, Object.entries(entries)
    .filter(([, value]) => value != null && value !== '' && value !== false)
    .map(([name, value]) => div({ key: name }, tags.dt(name), tags.dd(value))))
}

/** @param {number} used @param {number | null} limit @param {string} label */
export function meter(used, limit, label) {
  if (!limit) return null
  const part = Math.min(1, Number(used) / Number(limit))
  return div({ class: part >= 1 ? 'meter full' : 'meter', role: 'img', 'aria-label': label },
    tags.i({ style: { width: `${(part * 100).toFixed(1)}%` } }))
}

export { code, td, tr }
