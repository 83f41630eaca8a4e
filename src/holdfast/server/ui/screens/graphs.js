/** Graphs: the list, and one graph with its diagram and members. */

import { addressOf } from '../lib/address.js'
import { path, post } from '../lib/api.js'
import { brief } from '../lib/format.js'
import { List, Resource } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { grid, listOf, problemBox, runLink, since, state, td, tr, windowRows } from '../parts/common.js'
import { diagramKeys, diagramView, Viewport } from '../parts/diagram.js'
import { ask } from '../parts/dialogs.js'
import { RowWindow } from '../parts/rows.js'

const { a, button, div, h1, h2 } = tags

/** The statuses of a graph that can be cancelled. */
const OPEN = ['running', 'cancelling']

/** All graphs. @param {any} app */
export function openList(app) {
  const graphs = new List(() => ['graphs'], app.redraw)
  graphs.load()
  return {
    title: () => 'Graphs',
    heard: () => graphs.refresh(),
    close: () => graphs.close(),
    view: () => [div({ class: 'bar' }, h1('Graphs')), listOf(graphs, ['Graph', 'Status', 'Created'], (graph) => tr({ key: graph.id }, td({ class: 'wide' }, a({ class: 'mono', href: addressOf(['graph', graph.id]) }, graph.id)), td(state(graph.status)), td({ class: 'line' }, since(graph.created_at))), { label: 'Graphs', empty: 'There is no graph.' })],
  }
}

/** One graph. @param {any} app @param {import('../lib/address.js').Address} address */
export function open(app, address) {
  const id = address.path[1] ?? ''
  const viewport = new Viewport()
  const lines = new RowWindow(app.redraw)
  const graph = new Resource(() => [path`graphs/${id}`], app.redraw)
  const diagram = new Resource(() => [path`graphs/${id}/diagram`, { open: viewport.opened }], app.redraw)
  const read = () => { graph.load(); diagram.load() }
  read()
  const cancel = () => ask({ title: `Cancel graph ${id}?`, text: 'All members that have not ended are cancelled.', verb: 'Cancel', danger: true, act: async () => { await post(path`graphs/${id}/cancel`); read() } })
  const pick = (/** @type {any} */ node) => { if (node.run && (node.state ?? 'not reached') !== 'not reached') app.go(['run', node.run]) }
  return {
    title: () => `Graph ${id}`,
    heard: () => { graph.refresh(); diagram.refresh() },
    close: () => { graph.close(); diagram.close() },
    keys: () => diagramKeys(viewport, app.redraw),
    view: () => {
      if (!graph.data) return graph.problem ? [div({ class: 'bar' }, h1(id)), problemBox(graph.problem, a({ class: 'button', href: '#/graphs' }, 'All graphs'))] : div({ class: 'panel empty', 'aria-busy': 'true' }, 'Reading …')
      return [
        div({ class: 'bar' }, div({ class: 'row' }, h1(`Graph ${id}`), state(graph.data.status)), app.may('operate') && OPEN.includes(graph.data.status) && button({ class: 'danger', onclick: cancel }, 'Cancel')),
        diagram.data && div({ class: 'panel' }, diagramView(diagram.data, viewport, { selected: null, pick, redraw: app.redraw, reread: () => diagram.load() })),
        h2('Members'),
        grid(['Member', 'State', 'Waits for', 'Workflow', 'Run'], windowRows(lines, graph.data.members, memberRow), { label: 'Members', count: graph.data.members.length + 1 }),
      ]
    },
  }
}

/** One member. Before it has started, it has no run, and waits for other members. @param {any} member */
function memberRow(member) {
  const isStarted = member.started_at != null
  const open = isStarted ? [] : member.needs.filter((/** @type {any} */ need) => need.state === 'open')
  const needs = open.map((/** @type {any} */ need) => `${need.need < need.of.length ? `${need.need} of ` : ''}${need.of.join(', ')}`)
  return tr({ key: member.name },
    td({ class: 'wide' }, member.name), td(state(member.status ?? (member.state === 'waiting' ? 'not started' : member.state))),
    td({ class: 'soft' }, brief(needs.join(' and '), 120)), td({ class: 'line' }, member.workflow ?? ''), td({ class: 'line' }, isStarted && member.run ? runLink(member.run) : ''))
}
