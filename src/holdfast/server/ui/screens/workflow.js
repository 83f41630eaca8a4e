/** One workflow: its diagram without a run, its versions and which of them are served, its last outcomes, a start form. */

import { addressOf } from '../lib/address.js'
import { path } from '../lib/api.js'
import { count, duration } from '../lib/format.js'
import { Resource } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { facts, grid, problemBox, state, td, tr } from '../parts/common.js'
import { diagramKeys, diagramView, Viewport } from '../parts/diagram.js'
import { start } from './workflows.js'

const { a, button, div, h1, h2 } = tags

/** @param {any} app @param {import('../lib/address.js').Address} address */
export function open(app, address) {
  const name = address.path[1] ?? ''
  let query = address.query
  const viewport = new Viewport()
  const workflow = new Resource(() => [path`workflows/${name}`], app.redraw)
  const diagram = new Resource(() => [path`workflows/${name}/diagram`, { version: query.version, open: viewport.opened }], app.redraw)
  const parts = [workflow, diagram]
  parts.forEach((part) => part.load())
  return {
    title: () => name,
    moved(/** @type {any} */ to) {
      const isOther = to.query.version !== query.version
      query = to.query
      if (isOther) diagram.load()
    },
    heard: () => parts.forEach((part) => part.refresh()),
    close: () => parts.forEach((part) => part.close()),
    keys: () => diagramKeys(viewport, app.redraw),
    view: () => [
      div({ class: 'bar' }, h1(name), div({ class: 'row' },
        a({ class: 'button', href: addressOf(['runs'], { workflow: name }) }, 'Runs'),
        workflow.data && app.may('start') && button({ class: 'primary', onclick: () => start(app, workflow.data) }, 'Start'))),
      // A model that was deployed and never started is known by its diagram alone.
      !diagram.data && problemBox(workflow.problem, a({ class: 'button', href: '#/workflows' }, 'All workflows')),
      workflow.data && facts({
        Kind: workflow.data.kind, 'Live runs': count(workflow.data.live ?? 0),
        'Last outcomes': Object.entries(workflow.data.outcomes ?? {}).map(([outcome, number]) => `${number} ${outcome}`).join(', '),
        'Median time': workflow.data.median_seconds == null ? null : duration(workflow.data.median_seconds * 1000),
      }),
      drawing(),
      workflow.data && versions(),
    ],
  }

  function drawing() {
    const title = h2(query.version ? `Diagram of version ${query.version}` : 'Diagram')
    if (!diagram.data) return diagram.problem ? workflow.data && [title, problemBox(diagram.problem)] : div({ class: 'panel empty', 'aria-busy': 'true' }, 'Reading …')
    if (!diagram.data.nodes.length) return [title, div({ class: 'panel empty' }, 'Python code is drawn from its runs, and none of them has completed yet.')]
    return [title, div({ class: 'panel' }, diagramView(diagram.data, viewport, { selected: null, pick: () => {}, redraw: app.redraw, reread: () => diagram.load() }))]
  }

  function versions() {
    return [h2('Versions'), grid(['Version', '>Live runs', 'Workers', ''], (workflow.data.versions ?? []).map((/** @type {any} */ version) => tr({ key: version.version },
      td({ class: 'wide mono' }, version.version), td({ class: 'right mono' }, count(version.live)), td(version.served ? state('alive') : version.live ? state('silent') : 'none needed'),
      td({ class: 'line' }, a({ href: addressOf(['workflow', name], { version: version.version }) }, 'diagram'), ' · ', a({ href: addressOf(['runs'], { workflow: name, version: version.version }) }, 'runs')))), { label: 'Versions' })]
  }
}
