/** Models: deployed definitions and their versions, and incidents that need an operator. */

import { addressOf } from '../lib/address.js'
import { path, post } from '../lib/api.js'
import { brief, count } from '../lib/format.js'
import { List, Resource } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { listOf, runLink, since, state, td, tr } from '../parts/common.js'
import { ask } from '../parts/dialogs.js'

const { a, button, div, h1, h2, span } = tags

/** @param {any} app */
export function open(app) {
  const models = new List(() => ['models'], app.redraw, 0)
  const incidents = new List(() => ['incidents'], app.redraw)
  const live = new Resource(() => ['versions'], app.redraw)
  const parts = [models, incidents, live]
  const read = () => parts.forEach((part) => part.load())
  const liveRuns = (/** @type {any} */ model) => live.data?.items.find((/** @type {any} */ one) => one.workflow === model.name && one.version === String(model.version))?.live ?? 0
  read()

  const change = (/** @type {any} */ model, /** @type {string} */ verb) => ask({
    title: `${verb === 'activate' ? 'Activate' : 'Deprecate'} version ${model.version} of ${model.name}?`,
    text: verb === 'activate' ? 'New runs use this version. Running ones keep theirs.' : 'No new run uses this version. Running ones keep it.',
    verb: verb === 'activate' ? 'Activate' : 'Deprecate',
    schema: { type: 'object', properties: { reason: { type: 'string', title: 'Reason' } } },
    act: async ({ reason }) => { await post(path`models/${model.name}/${verb}`, { version: model.version, ...(reason ? { reason } : {}) }); read() },
  })

  const resolve = (/** @type {any} */ incident, /** @type {string} */ verb) => ask({
    title: `${verb === 'retry' ? 'Retry' : 'Skip'} ${incident.element}?`,
    text: verb === 'retry' ? 'The element is executed again.' : 'The element counts as completed, without its work.',
    verb: verb === 'retry' ? 'Retry' : 'Skip', danger: verb === 'skip',
    act: async () => { await post(path`incidents/${incident.id}/${verb}`); read() },
  })

  const modelRow = (/** @type {any} */ model) => tr({ key: `${model.name} ${model.version}` },
    td({ class: 'wide' }, a({ href: addressOf(['workflow', model.name], { version: model.version }) }, model.name)),
    td(model.kind), td({ class: 'right mono' }, String(model.version)), td(state(model.state)),
    td({ class: 'right mono' }, a({ href: addressOf(['runs'], { workflow: model.name, version: model.version }) }, count(liveRuns(model)))),
    td({ class: 'line' }, since(model.deployed_at), model.by && span({ class: 'soft' }, ` by ${model.by}`)),
    td(app.may('operate') && div({ class: 'row' },
      model.state !== 'active' && button({ onclick: () => change(model, 'activate') }, 'Activate'),
      model.state === 'active' && button({ onclick: () => change(model, 'deprecate') }, 'Deprecate'))))

  const incidentRow = (/** @type {any} */ incident) => tr({ key: incident.id },
    td({ class: 'line' }, incident.element), td({ class: 'line' }, runLink(incident.run_id)),
    td({ class: 'wide' }, brief(incident.error?.message ?? incident.error ?? '', 200)), td({ class: 'line' }, since(incident.since)),
    td({ class: 'line' }, app.may('operate') && div({ class: 'row' },
      button({ class: 'primary', onclick: () => resolve(incident, 'retry') }, 'Retry'), button({ class: 'danger', onclick: () => resolve(incident, 'skip') }, 'Skip'))))

  return {
    title: () => 'Models',
    heard: () => parts.forEach((part) => part.refresh()),
    close: () => parts.forEach((part) => part.close()),
    view: () => [
      div({ class: 'bar' }, h1('Models')),
      incidents.items.length > 0 && [h2('Incidents'), listOf(incidents, ['Element', 'Run', 'Error', 'Since', ''], incidentRow, { label: 'Incidents', empty: '' })],
      h2('Deployed'),
      listOf(models, ['Name', 'Kind', '>Version', 'State', '>Live runs', 'Deployed', ''], modelRow, { label: 'Deployed models', empty: 'No model is deployed.' }),
    ],
  }
}
