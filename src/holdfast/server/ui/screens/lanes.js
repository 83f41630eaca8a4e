/** Lanes and workers: limits against use, pause, drain and edit; workers and what they serve. */

import { addressOf } from '../lib/address.js'
import { patch, path, post } from '../lib/api.js'
import { count } from '../lib/format.js'
import { List, Resource } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { code, grid, listOf, meter, runLink, shape, since, state, td, tr } from '../parts/common.js'
import { ask } from '../parts/dialogs.js'

const { a, button, div, h1, h2, span } = tags

const LANE_SCHEMA = {
  type: 'object',
  properties: {
    concurrency: { type: 'integer', title: 'Runs at once', description: 'empty: no limit' },
    rate: { type: 'string', title: 'Starts per time', description: 'such as 10/s; empty: no limit' },
    per_share: { type: 'integer', title: 'Runs at once of one share' },
    rate_per_share: { type: 'string', title: 'Starts per time of one share' },
  },
}

/** @param {any} app */
export function open(app) {
  const lanes = new List(() => ['lanes'], app.redraw)
  const workers = new List(() => ['workers'], app.redraw, 0)
  const unserved = new Resource(() => ['workers/unserved'], app.redraw)
  const parts = [lanes, workers, unserved]
  const read = () => parts.forEach((part) => part.load())
  read()

  const change = async (/** @type {string} */ name, /** @type {any} */ body) => {
    await patch(path`lanes/${name}`, body)
    await lanes.load()
  }

  const edit = (/** @type {any} */ lane) => ask({
    title: `Limits of lane ${lane.name}`, verb: 'Save', schema: LANE_SCHEMA,
    value: { concurrency: lane.concurrency ?? undefined, rate: lane.rate ?? undefined, per_share: lane.per_share ?? undefined, rate_per_share: lane.rate_per_share ?? undefined },
    act: (value) => change(lane.name, { concurrency: value.concurrency ?? null, rate: value.rate ?? null, per_share: value.per_share ?? null, rate_per_share: value.rate_per_share ?? null }),
  })

  const laneRow = (/** @type {any} */ lane) => tr({ key: lane.name },
    td({ class: 'line' }, a({ href: addressOf(['runs'], { lane: lane.name }) }, lane.name)),
    td(lane.state === 'open' ? span({ class: 'state completed' }, shape('completed'), 'open') : state(lane.state)),
    td({ class: 'line mono' }, lane.concurrency ? `${count(lane.running)} of ${count(lane.concurrency)}` : count(lane.running),
      meter(lane.running, lane.concurrency, `${lane.running} of ${lane.concurrency} places are in use`)),
    td({ class: 'right mono' }, lane.ready ? a({ href: addressOf(['runs'], { lane: lane.name, status: 'pending' }) }, count(lane.ready)) : '0'),
    td({ class: 'line' }, lane.oldest_ready ? since(lane.oldest_ready) : ''),
    td({ class: 'line' }, [lane.rate, lane.per_share && `${lane.per_share} per share`, lane.rate_per_share && `${lane.rate_per_share} per share`].filter(Boolean).join(', ')),
    td({ class: 'wide' }, sharesOf(lane)),
    td({ class: 'line' }, app.may('operate') && div({ class: 'row' },
      button({ onclick: () => app.attempt(() => change(lane.name, { paused: !lane.paused })) }, lane.paused ? 'Resume' : 'Pause'),
      button({ onclick: () => app.attempt(() => change(lane.name, { draining: !lane.draining })) }, lane.draining ? 'Stop draining' : 'Drain'),
      button({ onclick: () => edit(lane) }, 'Edit'))))

  const declareDead = (/** @type {any} */ worker) => ask({
    title: `Declare worker ${worker.worker} dead?`,
    text: `Its ${worker.at_work} running runs go to other workers at once. If the process is still alive, its next write is refused.`,
    verb: 'Declare dead', danger: true,
    act: async () => { await post(path`workers/${worker.worker}/remove`); read() },
  })

  const workerRow = (/** @type {any} */ worker) => tr({ key: worker.session },
    td({ class: 'line' }, worker.worker, div({ class: 'soft' }, worker.pid ? `pid ${worker.pid} on ${worker.host}` : `leases, on ${worker.host}`)),
    td(state(worker.state)),
    td({ class: 'line right mono' }, a({ href: addressOf(['runs'], { worker: worker.worker }) }, `${count(worker.at_work)} of ${count(worker.concurrency)}`)),
    td({ class: 'line' }, since(worker.beat_at)),
    td({ class: 'wide' }, serves(worker)),
    td(app.may('operate') && worker.state !== 'alive' && button({ class: 'danger', onclick: () => declareDead(worker) }, 'Declare dead')))

  return {
    title: () => 'Lanes and workers',
    heard: () => parts.forEach((part) => part.refresh()),
    close: () => parts.forEach((part) => part.close()),
    view: () => [
      div({ class: 'bar' }, h1('Lanes and workers')),
      h2('Lanes'),
      listOf(lanes, ['Lane', 'State', 'Running', '>Waiting', 'Oldest ready', 'Limits', 'Shares', ''], laneRow, { label: 'Lanes', empty: 'No lane has a limit, and none is in use.' }),
      h2('Workers'),
      listOf(workers, ['Worker', 'State', '>At work', 'Last heartbeat', 'Serves', ''], workerRow, { label: 'Workers', empty: ['No worker is known. ', code('holdfast worker MODULE'), ' starts one.'] }),
      unserved.data?.items?.length > 0 && [h2('Runs that no worker serves'), grid(['Workflow', 'Version', 'Lane', '>Runs', 'What helps'], unserved.data.items.map((/** @type {any} */ route) => tr({ key: route.example },
        td(route.workflow), td(route.version), td(route.lane), td({ class: 'right mono' }, runLink(route.example, String(route.runs))), td({ class: 'wide' }, code(route.remedy)))), { label: 'Runs that no worker serves' })],
    ],
  }
}

/** The running runs of each share, and the weights of shares that have one. @param {any} lane */
function sharesOf(lane) {
  const names = [...new Set([...Object.keys(lane.shares), ...Object.keys(lane.weights)])].sort()
  return names.map((name) => `${name}: ${count(lane.shares[name] ?? 0)} running${lane.weights[name] ? `, weight ${lane.weights[name]}` : ''}`).join('; ')
}

/** @param {any} worker */
function serves(worker) {
  if (!worker.claims) return 'only the runs that it has leased'
  const workflows = worker.workflows == null ? 'any workflow' : Object.entries(worker.workflows)
    .map(([name, versions]) => (Array.isArray(versions) ? `${name} (${versions.join(', ')})` : name)).join(', ') || 'nothing'
  return [workflows, worker.lanes && `in ${worker.lanes.join(', ')}`, worker.capabilities?.length && `with ${worker.capabilities.join(', ')}`].filter(Boolean).join(' ')
}
