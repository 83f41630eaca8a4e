/** A bulk operation: progress, refusals by run, stop. */

import { path, post } from '../lib/api.js'
import { count, plural } from '../lib/format.js'
import { List, Resource } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { code, facts, grid, listOf, meter, problemBox, runLink, since, state, td, tr, when } from '../parts/common.js'
import { ask } from '../parts/dialogs.js'

const { a, button, div, h1, h2 } = tags

const READ_EVERY = 700

/** One operation. @param {any} app @param {import('../lib/address.js').Address} address */
export function open(app, address) {
  const id = address.path[1] ?? ''
  const report = new Resource(() => [path`operations/${id}`], app.redraw)
  const isDone = () => report.data && report.data.status !== 'running'
  report.load()
  // The runs of an operation change in portions: its own progress is read until it has ended.
  const timer = setInterval(() => { if (!isDone() && !document.hidden) report.load() }, READ_EVERY)
  const stop = () => ask({ title: 'Stop this operation?', text: 'Runs that it has changed stay changed.', verb: 'Stop', act: async () => { await post(path`operations/${id}/stop`); report.load() } })
  return {
    title: () => 'Operation',
    heard: () => { if (!isDone()) report.load() },
    close: () => { clearInterval(timer); report.close() },
    view: () => {
      const { data } = report
      if (!data) return report.problem ? [h1('Operation'), problemBox(report.problem)] : div({ class: 'panel empty', 'aria-busy': 'true' }, 'Reading …')
      const ended = data.changed + data.refusals
      return [
        div({ class: 'bar' }, h1(`${data.verb} ${plural(data.total, 'run')}`), div({ class: 'row' }, state(data.status ?? ''), data.status === 'running' && app.may('operate') && button({ class: 'danger', onclick: stop }, 'Stop'))),
        div({ class: 'panel padded' }, meter(ended, data.total, `${ended} of ${data.total}`), `${count(data.changed)} changed, ${count(data.refusals)} refused, ${count(data.total - ended)} left`),
        data.operation && facts({ Id: code(id), By: data.operation.by, Started: when(data.operation.created_at), Ended: data.operation.finished_at && when(data.operation.finished_at) }),
        Object.keys(data.refused).length > 0 && [h2('Refused'), grid(['Run', 'Reason'], Object.entries(data.refused).slice(0, 500).map(([run, reason]) => tr({ key: run }, td({ class: 'line' }, runLink(run)), td({ class: 'wide' }, String(reason)))), { label: 'Refused runs' })],
        data.done.length > 0 && [h2('Changed'), div({ class: 'panel padded row' }, data.done.slice(0, 200).map((/** @type {string} */ run) => runLink(run)), data.done.length > 200 && `and ${count(data.changed - 200)} more`)],
      ]
    },
  }
}

/** All operations. @param {any} app */
export function openList(app) {
  const operations = new List(() => ['operations'], app.redraw)
  operations.load()
  return {
    title: () => 'Bulk operations',
    heard: () => operations.refresh(),
    close: () => operations.close(),
    view: () => [div({ class: 'bar' }, h1('Bulk operations')), listOf(operations, ['Operation', 'Verb', 'Status', '>Runs', '>Changed', '>Refused', 'By', 'Started'], (item) => tr({ key: item.id },
      td({ class: 'line' }, a({ class: 'mono', href: `#/operation/${encodeURIComponent(item.id)}` }, item.id)), td(item.verb), td(state(item.status)), td({ class: 'right mono' }, count(item.total)), td({ class: 'right mono' }, count(item.changed)), td({ class: 'right mono' }, count(item.refusals)), td(item.by ?? ''), td({ class: 'line' }, since(item.created_at))), { label: 'Bulk operations', empty: 'No bulk operation was started. Select runs in the list of runs to start one.' })],
  }
}
