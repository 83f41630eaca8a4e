/** Managed flows: state, owner, what they wait for. */

import { path, post } from '../lib/api.js'
import { brief } from '../lib/format.js'
import { List } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { listOf, since, state, td, tr } from '../parts/common.js'
import { ask } from '../parts/dialogs.js'

const { button, div, h1 } = tags

/** @param {any} app */
export function open(app) {
  const flows = new List(() => ['flows'], app.redraw)
  flows.load()
  const cancel = (/** @type {any} */ flow) => ask({ title: `Cancel flow ${flow.id}?`, verb: 'Cancel', danger: true, act: async () => { await post(path`flows/${flow.id}/request-cancel`); flows.load() } })
  return {
    title: () => 'Flows',
    heard: () => flows.refresh(),
    close: () => flows.close(),
    view: () => [div({ class: 'bar' }, h1('Flows')), listOf(flows, ['Flow', 'Status', 'Goal', 'Owner', 'Step', 'Updated', ''], (flow) => tr({ key: flow.id },
      td({ class: 'line mono' }, flow.id), td(state(flow.status)), td({ class: 'wide' }, brief(flow.goal ?? '', 160)), td(flow.owner ?? ''), td(flow.current_step ?? flow.step ?? ''), td({ class: 'line' }, since(flow.updated_at)), td(app.may('operate') && !['finished', 'failed', 'cancelled'].includes(flow.status) && button({ class: 'danger', onclick: () => cancel(flow) }, 'Cancel'))), { label: 'Flows', empty: 'There is no flow.' })],
  }
}
