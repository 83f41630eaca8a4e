/** The timeline: one line per row of the server's folded history. Steps are bars, waits are thin lines. */

import { addressOf } from '../lib/address.js'
import { between, clock, duration, instant } from '../lib/format.js'
import { tags } from '../lib/view.js'
import { lineSpacer } from './rows.js'

const { a, button, div, i, span } = tags

const COLOURS = {
  completed: 'completed', running: 'running', waiting: 'waiting', failed: 'failed', lost: 'failed', compensated: 'attention', left: 'quiet', recorded: 'quiet',
}
const THIN = ['sleep', 'signal', 'wait', 'gate', 'incident']

/**
 * @param {any} timeline @param {any[]} rows the rows with the unfolded ones in their places
 * @param {import('./rows.js').RowWindow} lines
 * @param {{selected: string | null, select: (row: any) => void, unfold: (row: any) => void, isOpen: (row: any) => boolean}} options
 */
export function timelineView(timeline, rows, lines, { selected, select, unfold, isOpen }) {
  const scale = scaleOf(timeline, rows)
  return div({ class: 'timeline', role: 'list', 'aria-label': 'Timeline' },
    span({ class: 'scale' }), div({ class: 'scale', 'aria-hidden': 'true' }, div({ class: 'bar-space' }, ticks(scale).map(([place, label]) => span({ key: label, style: { left: `${place}%` } }, label)))), span({ class: 'scale' }),
    lines.view(rows.map((row) => row.id + (row.page ?? '')), (index) => line(rows[index]), lineSpacer))

  /** @param {any} row */
  function line(row) {
    return div({ key: row.id + (row.page ?? ''), class: row.id === selected ? 'line selected' : 'line', role: 'listitem' },
      nameOf(row, unfold, isOpen),
      div({ class: 'track', onclick: () => select(row) }, div({ class: 'bar-space' }, bars(row, scale))),
      button({ class: row.error || row.kind === 'crash' ? 'outcome failed' : 'outcome', title: textOf(row), 'aria-pressed': String(row.id === selected), onclick: () => select(row) }, textOf(row) || row.state))
  }
}

/** @param {any} row @param {(row: any) => void} unfold @param {(row: any) => boolean} isOpen */
function nameOf(row, unfold, isOpen) {
  const name = row.count > 1 ? `${row.name} ×${row.count}` : row.name
  return div({ class: 'name', style: { 'padding-left': `${16 + row.depth * 16}px` }, title: row.id },
    row.opens ? button({ class: 'link', 'aria-expanded': String(isOpen(row)), onclick: () => unfold(row) }, `${isOpen(row) ? '▾' : '▸'} ${name}`) : row.run ? a({ class: 'link', href: addressOf(['run', row.run]) }, name) : name)
}

/** @param {any} timeline @param {any[]} rows @returns {{start: number, span: number}} */
function scaleOf(timeline, rows) {
  const starts = [timeline.started_at, ...rows.map((row) => row.started_at)].map(instant).filter((at) => at != null)
  const start = /** @type {number[]} */ (starts).reduce((least, at) => Math.min(least, at), Infinity)
  const ends = rows.map((row) => instant(row.ended_at) ?? (row.state === 'running' || row.state === 'waiting' ? clock.now() : instant(row.started_at)))
  const end = /** @type {number[]} */ ([...ends, instant(timeline.ended_at)].filter((at) => at != null)).reduce((most, at) => Math.max(most, at), start + 1)
  return { start: Number.isFinite(start) ? start : clock.now(), span: Math.max(1, end - start) }
}

/** @param {{start: number, span: number}} scale @returns {[number, string][]} */
function ticks(scale) {
  return [0, 0.25, 0.5, 0.75, 1].map((part) => [part * 100, part === 0 ? '0' : duration(scale.span * part)])
}

/** @param {any} row @param {{start: number, span: number}} scale */
function bars(row, scale) {
  const colour = row.kind === 'incident' && row.state === 'waiting' ? 'failed' : COLOURS[/** @type {keyof typeof COLOURS} */ (row.state)] ?? 'quiet'
  const start = instant(row.started_at)
  if (start == null) return null
  const isOpen = row.state === 'running' || row.state === 'waiting'
  const last = (row.attempts ?? []).at(-1)
  const from = instant(last?.ended_at) ?? start
  const end = instant(row.ended_at) ?? (isOpen ? clock.now() : start)
  return [
    (row.attempts ?? []).map((/** @type {any} */ attempt) => bar(attempt.started_at ?? row.started_at, attempt.ended_at, scale, `failed pale`, `attempt ${attempt.number}`)),
    row.kind === 'note' ? null : bar(new Date(Math.min(from, end)).toISOString(), new Date(end).toISOString(), scale, colour + (THIN.includes(row.kind) ? ' thin' : '') + (row.kind === 'crash' ? ' gap' : ''), 'bar'),
  ]
}

/** @param {any} from @param {any} to @param {{start: number, span: number}} scale @param {string} kind @param {string} key */
function bar(from, to, scale, kind, key) {
  const start = instant(from)
  const end = instant(to) ?? clock.now()
  if (start == null) return null
  const left = Math.max(0, ((start - scale.start) / scale.span) * 100)
  return i({ key: key + from, class: `bar ${kind}`, style: { left: `${left.toFixed(3)}%`, width: `${Math.max(0.3, ((end - start) / scale.span) * 100).toFixed(3)}%` } })
}

/** @param {any} row */
function textOf(row) {
  const time = row.started_at && row.kind !== 'note' ? duration(between(row.started_at, row.ended_at)) : ''
  const counts = Object.entries(row.counts ?? {}).map(([name, number]) => `${number} ${name}`).join(', ')
  return [time, counts, row.worker && `worker ${row.worker}`, row.error || row.note].filter(Boolean).join(' · ').replace('· →', '→')
}
