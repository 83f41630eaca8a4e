/** Storage: sizes, retention rules and what they would delete now, keys in use, the check of the database. */

import { addressOf } from '../lib/address.js'
import { post } from '../lib/api.js'
import { count, plural, size } from '../lib/format.js'
import { List, Resource } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { facts, grid, listOf, meter, problemBox, since, td, tr } from '../parts/common.js'
import { ask } from '../parts/dialogs.js'

const { a, button, div, h1, h2, li, p, span, ul } = tags

/** @param {any} app */
export function open(app) {
  const info = new Resource(() => ['storage'], app.redraw)
  const rules = new List(() => ['retention'], app.redraw, 0)
  const keys = new List(() => (app.may('admin') ? ['keys'] : null), app.redraw, 0)
  /** The sizes of tables are read on request: the database has to be read for them. */
  const tables = new List(() => ['storage/tables'], app.redraw, 0)
  const workflows = new List(() => ['storage/workflows'], app.redraw, 0)
  const parts = [info, rules, keys]
  /** What each rule would delete, by the name of the rule. @type {Record<string, any> | null} */
  let preview = null
  /** @type {any} */
  let checked = null
  /** @type {any} */
  let problem = null
  parts.forEach((part) => part.load())

  /** @param {() => Promise<void>} action */
  const attempt = async (action) => {
    try {
      await action()
      problem = null
    } catch (refusal) {
      problem = refusal
      checked = null
    }
    app.redraw()
  }
  const check = () => {
    checked = 'Checking …'
    app.redraw()
    return attempt(async () => {
      const answer = await post('storage/check')
      checked = answer.items ?? answer.value ?? answer
    })
  }
  const foresee = () => attempt(async () => {
    const answer = await post('storage/preview')
    preview = Object.fromEntries((answer.items ?? answer).map((/** @type {any} */ line) => [line.name, line]))
  })
  const apply = () => ask({
    title: 'Apply the retention rules now?', verb: 'Delete', danger: true,
    text: preview ? `The rules delete ${plural(Object.values(preview).reduce((sum, line) => sum + line.runs, 0), 'run')} of finished work, with their history.` : 'The rules delete what they match, with its history.',
    act: async () => {
      const answer = await post('storage/apply')
      app.say(`${plural(answer.runs, 'run')} deleted or trimmed.`)
      preview = null
      info.load()
    },
  })

  return {
    title: () => 'Storage',
    close: () => [...parts, tables, workflows].forEach((part) => part.close()),
    view: () => [
      div({ class: 'bar' }, h1('Storage'), app.may('admin') && button({ onclick: check }, 'Check the database')),
      problemBox(problem),
      checked && div({ class: 'panel notice', role: 'status' }, typeof checked === 'string' ? checked : checked.length ? div(p(plural(checked.length, 'finding')), ul(checked.slice(0, 100).map((/** @type {any} */ finding, /** @type {number} */ index) => li({ key: index }, typeof finding === 'string' ? finding : finding.text ?? JSON.stringify(finding))))) : 'The check found nothing.'),
      database(), tableSizes(), retention(),
      keys.data && [h2('Signing keys'), listOf(keys, ['Key', 'State', 'Created'], (key) => tr({ key: key.id ?? key.kid }, td({ class: 'mono' }, key.id ?? key.kid), td(key.state ?? ''), td(since(key.created_at))), { label: 'Signing keys', empty: 'No key has been made yet.' })],
    ],
  }

  function database() {
    if (!info.data) return problemBox(info.problem)
    const { store, database: place, bytes, payloads, payload_bytes: stored, schema, encrypted, sealed, warnings } = info.data.value
    return [
      facts({ Database: `${store}: ${place}`, Size: size(bytes), 'Large values': payloads ? `${count(payloads)}, ${size(stored)}` : null, Schema: schema, Encrypted: encrypted && 'yes', Sealed: sealed }),
      (warnings ?? []).map((/** @type {string} */ warning) => div({ key: warning, class: 'panel why attention' }, warning)),
    ]
  }

  function tableSizes() {
    const isMeasuring = tables.isLoading || workflows.isLoading
    const measure = () => { tables.load(); workflows.load(); app.redraw() }
    if (!tables.data) return [h2('Tables and workflows'), problemBox(tables.problem), button({ disabled: isMeasuring, onclick: measure }, isMeasuring ? 'Measuring …' : 'Measure'), p({ class: 'soft' }, 'The whole database is read for it.')]
    const whole = tables.items.reduce((sum, table) => sum + table.bytes, 0)
    return [byWorkflow(), h2('Tables'), grid(['Table', '>Size', 'Part of all'], tables.items.filter((table) => table.bytes).slice(0, 20).map((table) => tr({ key: table.name }, td({ class: 'mono' }, table.name), td({ class: 'right mono line' }, size(table.bytes)), td({ class: 'wide' }, meter(table.bytes, whole, `${Math.round((100 * table.bytes) / whole)} %`)))), { label: 'Sizes of tables' })]
  }

  function byWorkflow() {
    if (!workflows.data) return problemBox(workflows.problem)
    const all = workflows.items.reduce((sum, item) => sum + item.bytes, 0)
    for (const item of workflows.items) item.key = `${item.namespace} ${item.workflow}`
    return [h2('Workflows'), listOf(workflows, ['Workflow', '>Runs', '>Events', '>Size', '>Last day', 'Part of all'], (item) => tr({ key: item.key },
      td({ class: 'line' }, a({ href: addressOf(['workflow', item.workflow]) }, item.workflow), item.namespace !== 'default' && span({ class: 'soft' }, ` ${item.namespace}`)), td({ class: 'right mono' }, count(item.runs)), td({ class: 'right mono' }, count(item.events)),
      td({ class: 'right mono line' }, size(item.bytes)), td({ class: 'right mono line' }, item.last_day ? `+${size(item.last_day)}` : ''), td({ class: 'wide' }, meter(item.bytes, all, `${Math.round((100 * item.bytes) / all)} %`))), { label: 'Sizes of workflows', empty: 'There is no run.' })]
  }

  function retention() {
    return [
      div({ class: 'row apart' }, h2('Retention'), app.may('admin') && rules.items.length > 0 && div({ class: 'row' }, button({ onclick: foresee }, 'What would they delete?'), button({ class: 'danger', onclick: apply }, 'Apply now'))),
      listOf(rules, ['Rule', 'Deletes', 'Keeps', 'Of', '>Would delete'], (rule) => tr({ key: rule.name },
        td({ class: 'line' }, rule.name), td(rule.target), td({ class: 'line' }, keeps(rule)), td({ class: 'wide' }, [rule.workflow ?? 'all workflows', ...rule.status].join(' ')),
        td({ class: 'right mono line' }, preview?.[rule.name] ? `${plural(preview[rule.name].runs, 'run')}, ${size(preview[rule.name].bytes)}` : '')), { label: 'Retention rules', empty: 'No rule deletes anything: finished runs stay.' }),
    ]
  }
}

/** @param {any} rule */
function keeps(rule) {
  return [rule.older_than && String(rule.older_than), rule.keep_last != null && `the last ${count(rule.keep_last)}`, rule.max_bytes != null && `up to ${size(rule.max_bytes)}`].filter(Boolean).join(', ')
}
