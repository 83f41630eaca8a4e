/** Workflows: versions, live runs, whether a worker serves them; a start form from the signature. */

import { addressOf } from '../lib/address.js'
import { post } from '../lib/api.js'
import { count, duration } from '../lib/format.js'
import { List } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { listOf, td, tr } from '../parts/common.js'
import { ask } from '../parts/dialogs.js'

const { a, button, div, h1, span } = tags

/** Ask for the input of a workflow, by the schema of its signature, and start it. @param {any} app @param {any} workflow */
export function start(app, workflow) {
  ask({
    title: `Start ${workflow.name}`, verb: 'Start', schema: workflow.input ?? { type: 'object', properties: { args: { type: 'array', title: 'Arguments', items: {} } } },
    act: async (value) => {
      const body = workflow.input ? { kwargs: value } : { args: value.args ?? [] }
      const run = await post('runs', { workflow: workflow.name, ...body })
      app.go(['run', run.id])
    },
  })
}

/** @param {any} app */
export function open(app) {
  const workflows = new List(() => ['workflows'], app.redraw)
  workflows.load()
  const row = (/** @type {any} */ workflow) => tr({ key: `${workflow.name} ${workflow.namespace ?? ''}` },
    td({ class: 'line' }, a({ href: addressOf(['workflow', workflow.name]) }, workflow.name), workflow.kind && div({ class: 'soft' }, workflow.kind)),
    td((workflow.versions ?? []).map((/** @type {any} */ version) => div({ key: version.version }, version.version, ' ', span({ class: 'soft' }, version.served ? 'served' : 'no worker'), version.live ? `, ${count(version.live)} live` : ''))),
    td({ class: 'right mono' }, count(workflow.live ?? 0)),
    td(workflow.outcomes ? Object.entries(workflow.outcomes).map(([name, number]) => `${number} ${name}`).join(', ') : ''),
    td({ class: 'right mono' }, workflow.median_seconds == null ? '' : duration(workflow.median_seconds * 1000)),
    td(app.may('start') && button({ onclick: () => start(app, workflow) }, 'Start')))
  return {
    title: () => 'Workflows',
    heard: () => workflows.refresh(),
    close: () => workflows.close(),
    view: () => [div({ class: 'bar' }, h1('Workflows')), listOf(workflows, ['Workflow', 'Versions', '>Live', 'Last outcomes', '>Median time', ''], row, { label: 'Workflows', empty: 'No workflow is known: no worker offers one, and no run exists.' })],
  }
}

