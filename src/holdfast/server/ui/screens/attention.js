/**
 * Needs a person: stuck and failed runs, overdue decisions, escalated waits and runs that no worker serves,
 * grouped by cause. One button repairs a group; the page then shows the outcome.
 */

import { addressOf } from '../lib/address.js'
import { get, path, post } from '../lib/api.js'
import { left, plural } from '../lib/format.js'
import { List, Resource } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { grid, listOf, problemBox, runLink, since, state, td, tr } from '../parts/common.js'
import { ask } from '../parts/dialogs.js'

const { a, button, code, div, h1, h2, span } = tags

const MOST = 10_000

/** Return the ids of the runs of a group: the same cause, but for numbers. @param {any} group @param {Record<string, any>} filters */
async function runsOf(group, filters) {
  const alike = (/** @type {string} */ text) => text.replace(/\s+/g, ' ').replace(/0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d+/gi, '#')
  const ids = []
  let cursor = null
  do {
    const page = /** @type {any} */ (await get('runs', { ...filters, workflow: group.workflow, limit: 500, cursor }))
    ids.push(...page.items.filter((/** @type {any} */ run) => run.error && alike(run.error.cause || `${run.error.type}: ${run.error.message}`) === alike(group.error)).map((/** @type {any} */ run) => run.id))
    cursor = page.next
  } while (cursor && ids.length < MOST)
  return ids
}

/** @param {any} app */
export function open(app) {
  const stuck = new Resource(() => ['runs/groups', { status: 'stuck' }], app.redraw)
  const failed = new Resource(() => ['runs/groups', { status: 'failed', since: '1d' }], app.redraw)
  const overdue = new List(() => ['gates', { overdue: true }], app.redraw)
  const waits = new List(() => ['waits', { escalated: true }], app.redraw)
  const unserved = new Resource(() => ['workers/unserved'], app.redraw)
  const incidents = new List(() => ['incidents'], app.redraw)
  const parts = [stuck, failed, overdue, waits, unserved, incidents]
  const read = () => parts.forEach((part) => part.load())
  read()

  const repair = (/** @type {any} */ group, /** @type {string} */ verb, /** @type {Record<string, any>} */ filters) => ask({
    title: `${verb === 'resume' ? 'Resume' : 'Replay'} ${plural(group.count, 'run')}?`,
    text: verb === 'resume' ? 'The runs continue where they are stuck.' : 'Failed steps run again; completed steps keep their results.',
    verb: verb === 'resume' ? 'Resume' : 'Replay',
    act: async () => {
      const ids = await runsOf(group, filters)
      const report = await post(path`operations/${verb}`, { filters: { ids } })
      app.go(['operation', report.id])
    },
  })

  const groups = (/** @type {string} */ title, /** @type {Resource} */ part, /** @type {string} */ status, /** @type {string} */ verb, /** @type {Record<string, any>} */ filters) => {
    const items = part.data?.items ?? []
    if (part.problem && !part.data) return problemBox(part.problem)
    if (!items.length) return null
    return [h2(title), grid(['Cause', 'Workflow', 'Step', '>Runs', 'Last', 'Example', ''], items.map((/** @type {any} */ group) => tr({ key: group.workflow + group.step + group.error },
      td({ class: 'wide' }, span({ class: 'failed' }, group.error)), td({ class: 'line' }, group.workflow), td({ class: 'line' }, group.step ?? ''),
      td({ class: 'right mono' }, a({ href: addressOf(['runs'], { status, workflow: group.workflow }) }, String(group.count))), td({ class: 'line' }, since(group.last_at)), td({ class: 'line' }, runLink(group.example)),
      td(app.may('operate') && button({ onclick: () => repair(group, verb, { status, ...filters }) }, verb === 'resume' ? 'Resume all' : 'Replay all')))), { label: title })]
  }

  return {
    title: () => 'Needs a person',
    heard: () => parts.forEach((part) => part.refresh()),
    close: () => parts.forEach((part) => part.close()),
    view: () => {
      const escalated = waits.items.filter((wait) => wait.name !== 'incident') // incidents have their own section
      const sections = [
        groups('Stuck', stuck, 'stuck', 'resume', {}),
        groups('Failed in the last day', failed, 'failed', 'replay', { since: '1d' }),
        overdue.items.length > 0 && [h2('Overdue decisions'), listOf(overdue, ['Decision', 'Run', 'Asks', 'Deadline', ''], (gate) => tr({ key: gate.id },
          td({ class: 'wide' }, gate.prompt), td({ class: 'line' }, runLink(gate.run)), td(gate.who), td({ class: 'line' }, left(gate.deadline)),
          td(a({ class: 'button', href: addressOf(['inbox'], { gate: gate.id }) }, 'Decide'))), { label: 'Overdue decisions', empty: '' })],
        escalated.length > 0 && [h2('Escalated waits'), listOf(waits, ['Wait', 'Run', 'Since', 'Reason', ''], (wait) => tr({ key: `${wait.run_id} ${wait.step}` },
          td(wait.name), td({ class: 'line' }, runLink(wait.run_id)), td({ class: 'line' }, since(wait.escalated_at)), td({ class: 'wide' }, wait.reason ?? ''),
          td(a({ class: 'button', href: addressOf(['run', wait.run_id]) }, 'Open'))), { label: 'Escalated waits', empty: '' })],
        incidents.items.length > 0 && [h2('Incidents'), listOf(incidents, ['Element', 'Run', 'Error', 'Since', ''], (incident) => tr({ key: incident.id },
          td(incident.element), td({ class: 'line' }, runLink(incident.run_id)), td({ class: 'wide' }, incident.error?.message ?? String(incident.error)), td({ class: 'line' }, since(incident.since)),
          td(a({ class: 'button', href: '#/models' }, 'Repair'))), { label: 'Incidents', empty: '' })],
        unservedRuns(),
      ].filter((section) => section)
      return [
        div({ class: 'bar' }, h1('Needs a person')),
        sections.length ? sections : div({ class: 'panel empty' }, parts.some((part) => part.isLoading && !part.data) ? 'Reading …' : [state('completed'), ' Nothing needs a person.']),
      ]
    },
  }

  function unservedRuns() {
    const items = unserved.data?.items ?? []
    if (!items.length) return null
    return [h2('No worker serves'), grid(['Workflow', 'Version', 'Lane', '>Runs', 'Missing', 'What helps'], items.map((/** @type {any} */ route) => tr({ key: `${route.workflow} ${route.version} ${route.lane} ${route.namespace} ${route.capabilities}` },
      td({ class: 'line' }, route.workflow), td(route.version), td(route.lane), td({ class: 'right mono' }, runLink(route.example, String(route.runs))), td({ class: 'line' }, route.missing), td({ class: 'wide' }, code(route.remedy)))), { label: 'Runs that no worker serves' })]
  }
}
