/** Budgets: used, reserved and limit of each dimension; raise limits, reset. */

import { path, post } from '../lib/api.js'
import { List } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { listOf, meter, since, td, tr, when } from '../parts/common.js'
import { ask } from '../parts/dialogs.js'

const { button, div, h1, span } = tags

/** @param {any} app */
export function open(app) {
  const budgets = new List(() => ['budgets'], app.redraw)
  budgets.load()
  const raise = (/** @type {any} */ budget) => ask({
    title: `Raise the limits of ${budget.name}`, verb: 'Raise', text: 'The amounts are added to the limits.',
    schema: { type: 'object', properties: Object.fromEntries(Object.keys(budget.dimensions).map((name) => [name, { type: 'number', title: name }])) },
    act: async (amounts) => { await post(path`budgets/${budget.name}/raise-limits`, { amounts }); budgets.load() },
  })
  const reset = (/** @type {any} */ budget) => ask({ title: `Reset ${budget.name}?`, text: 'The amounts used become zero; waiting runs continue.', verb: 'Reset', danger: true, act: async () => { await post(path`budgets/${budget.name}/reset`); budgets.load() } })
  const row = (/** @type {any} */ budget) => tr({ key: budget.name },
    td({ class: 'line' }, budget.name),
    td({ class: 'wide' }, Object.entries(budget.dimensions).map(([name, line]) => div({ key: name, class: 'row' }, span({ class: 'mono' }, `${name} ${line.used} of ${line.hard ?? 'no limit'}${Number(line.reserved) ? `, ${line.reserved} reserved` : ''}`), line.hard != null && div({ class: 'grow' }, meter(Number(line.used), Number(line.hard), `${line.used} of ${line.hard} ${name}`))))),
    td(budget.on_breach), td({ class: 'line' }, budget.next_reset ? when(budget.next_reset) : ''), td({ class: 'line' }, budget.breaches ? [`${budget.breaches}× `, since(budget.last_breach)] : ''),
    td({ class: 'line' }, app.may('operate') && div({ class: 'row' }, button({ onclick: () => raise(budget) }, 'Raise limits'), button({ onclick: () => reset(budget) }, 'Reset'))))
  return {
    title: () => 'Budgets',
    heard: () => budgets.refresh(),
    close: () => budgets.close(),
    view: () => [div({ class: 'bar' }, h1('Budgets')), listOf(budgets, ['Budget', 'Use', 'If used up', 'Next reset', 'Breaches', ''], row, { label: 'Budgets', empty: 'There is no budget.' })],
  }
}
