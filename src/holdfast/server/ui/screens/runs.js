/**
 * Runs: tabs by status, filters in the address, saved views, what holds each run up, bulk verbs.
 *
 * Rows change in place. Runs that were started after the list was read are announced and do not move the rows.
 */

import { addressOf } from '../lib/address.js'
import { get, path, post } from '../lib/api.js'
import { between, count, duration, plural } from '../lib/format.js'
import { preference, setPreference } from '../lib/preferences.js'
import { List, Resource } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { listOf, rowWindow, runLink, state, td, tr, when } from '../parts/common.js'
import { ask } from '../parts/dialogs.js'
import { holdup } from '../parts/holdup.js'

const { a, button, div, h1, input, label, option, select, span } = tags

const TABS = ['failed', 'stuck', 'waiting', 'running', 'pending', 'blocked', 'completed']
const FILTERS = ['workflow', 'version', 'lane', 'worker', 'namespace', 'tag', 'key', 'id_prefix', 'since', 'parent_id']
const NAMED_ALIKE = [...FILTERS.filter((name) => name !== 'tag'), 'status']
const VERBS = {
  cancel: { text: 'Cancel', danger: true, says: 'asks each run to stop; its completed steps are compensated' },
  replay: { text: 'Replay', danger: false, says: 'runs the failed steps again; completed steps keep their results' },
  resume: { text: 'Resume', danger: false, says: 'lets stuck runs continue' },
  release: { text: 'Release', danger: false, says: 'ends the delay or the wait of each run now' },
  delete: { text: 'Delete', danger: true, says: 'deletes finished runs with their history and children' },
}

/** @param {any} app @param {import('../lib/address.js').Address} address */
export function open(app, address) {
  let query = address.query
  /** @type {Set<string>} */
  let chosen = new Set()
  let allChosen = false
  let current = -1
  let newer = 0
  let filterOpen = Object.keys(query).some((name) => FILTERS.includes(name))

  const alike = () => Object.fromEntries(NAMED_ALIKE.filter((name) => query[name]).map((name) => [name, query[name]]))
  const filters = () => ({ ...alike(), ...(query.tag ? { tags: query.tag } : {}) })
  const runs = new List(() => ['runs', filters()], app.redraw)
  const unserved = new Resource(() => ['workers/unserved'], app.redraw)
  runs.load()
  unserved.load()

  const readAgain = () => {
    newer = 0
    runs.load()
  }

  /** Read rows again that events name, and announce new runs. @param {any[] | null} events */
  const heard = async (events) => {
    if (!events) return readAgain()
    const shown = new Set(runs.items.map((run) => run.id))
    const page = await get('runs', { ...filters(), limit: Math.min(Math.max(runs.items.length, 50), 500) }).catch(() => null)
    if (!page) return
    const fresh = new Map(page.items.map((/** @type {any} */ run) => [run.id, run]))
    newer = runs.items.length ? page.items.filter((/** @type {any} */ run) => !shown.has(run.id)).length : 0
    if (!runs.items.length) runs.take(page)
    else runs.items = runs.items.map((run) => fresh.get(run.id) ?? run)
    if (events.some((event) => shown.has(event.run_id) && !fresh.has(event.run_id))) await rereadMoved(fresh)
    app.redraw()
  }

  /** A row whose run no longer matches the filter stays, with its new state. @param {Map<string, any>} fresh */
  const rereadMoved = async (fresh) => {
    const moved = runs.items.filter((run) => !fresh.has(run.id)).slice(0, 20)
    const answers = await Promise.all(moved.map((run) => get(`runs/${encodeURIComponent(run.id)}`).catch(() => run)))
    const byId = new Map(answers.map((run) => [run.id, run]))
    runs.items = runs.items.map((run) => byId.get(run.id) ?? run)
  }

  const choose = (/** @type {string} */ id) => {
    allChosen = false
    if (chosen.has(id)) chosen.delete(id)
    else chosen.add(id)
    app.redraw()
  }

  const target = () => ({ filters: allChosen ? { ...alike(), ...(query.tag ? { tags: tagOf(query.tag) } : {}) } : { ids: [...chosen] } })

  /** Ask with a dry run that says how many runs would really change. @param {keyof typeof VERBS} verb */
  const bulk = async (verb) => {
    const { text, danger, says } = VERBS[verb]
    let preview
    try {
      preview = await post(path`operations/${verb}`, { dry_run: true, ...target() })
    } catch (problem) {
      return app.say(String(/** @type {any} */ (problem).message))
    }
    const refused = Object.entries(preview.refused ?? {}).slice(0, 5)
    ask({
      title: `${text} ${plural(preview.changed, 'run')}?`,
      text: div(tags.p(`${text} ${says}.`),
        preview.refusals ? tags.p(`${plural(preview.refusals, 'run')} would be refused:`) : null,
        tags.ul(refused.map(([id, why]) => tags.li({ key: id }, tags.code(id), ': ', String(why))))),
      verb: text, danger,
      act: async () => {
        const report = await post(path`operations/${verb}`, target())
        chosen = new Set()
        allChosen = false
        app.go(['operation', report.id])
      },
    })
  }

  const row = (/** @type {any} */ run, /** @type {number} */ index) => {
    return tr({ key: run.id, class: index === current ? 'current' : chosen.has(run.id) || allChosen ? 'chosen' : null },
      td(input({ type: 'checkbox', checked: allChosen || chosen.has(run.id), 'aria-label': `Select ${run.id}`, onchange: () => choose(run.id) })),
      td({ class: 'line id', title: run.id }, runLink(run.id)),
      td({ class: 'line' }, run.workflow),
      td(state(run.status)),
      td({ class: 'wide soft' }, holdup(run, unserved.data?.items ?? [])),
      td({ class: 'line' }, when(run.created_at)),
      td({ class: 'line right mono' }, run.started_at ? duration(between(run.started_at, run.finished_at)) : ''))
  }

  const move = (/** @type {number} */ step) => {
    current = Math.max(0, Math.min(runs.items.length - 1, current + step))
    app.redraw()
    rowWindow(runs).reveal(current)
    requestAnimationFrame(() => document.querySelector('tr.current')?.scrollIntoView({ block: 'nearest' }))
  }

  return {
    title: () => (query.status ? `${query.status} runs` : 'Runs'),
    moved(/** @type {any} */ next) {
      query = next.query
      current = -1
      chosen = new Set()
      allChosen = false
      runs.clear()
      runs.load()
    },
    heard,
    close: () => { runs.close(); unserved.close() },
    keys: () => [
      { keys: 'j', text: 'Next row', run: () => move(1) },
      { keys: 'k', text: 'Previous row', run: () => move(-1) },
      { keys: 'Enter', text: 'Open the run', run: () => runs.items[current] && app.go(['run', runs.items[current].id]) },
      { keys: 'x', text: 'Select the row', run: () => runs.items[current] && choose(runs.items[current].id) },
      { keys: '/', text: 'Filter', run: () => { filterOpen = true; app.redraw(); setTimeout(() => document.getElementById('filter-workflow')?.focus(), 50) } },
    ],
    view: () => [
      div({ class: 'bar' }, h1('Runs'),
        div({ class: 'row' }, savedViews(app, query),
          button({ 'aria-expanded': String(filterOpen), onclick: () => { filterOpen = !filterOpen; app.redraw() } }, 'Filter'))),
      div({ class: 'bar' }, tabs(app, query)),
      filterOpen && filterForm(app, query),
      newer > 0 && div({ class: 'panel notice', role: 'status' },
        span(plural(newer, 'newer run')), button({ onclick: readAgain }, 'Show')),
      (chosen.size > 0 || allChosen) && selection(),
      listOf(runs, ['', 'Run', 'Workflow', 'Status', 'What holds it up', 'Created', '>Took'], row, {
        label: 'Runs',
        empty: Object.keys(filters()).length
          ? ['No run matches. ', a({ class: 'link', href: '#/runs' }, 'Show all runs')]
          : ['No run yet. Start one from Python with ', tags.code('engine.start(workflow)'), ', or run ', tags.code('holdfast demo'), '.'],
      }),
    ],
  }

  function selection() {
    const text = allChosen ? 'all runs that match' : plural(chosen.size, 'selected run')
    return div({ class: 'panel notice' },
      span(text),
      div({ class: 'row' },
        !allChosen && runs.next && button({ class: 'link', onclick: () => { allChosen = true; app.redraw() } }, 'Select all that match'),
        app.may('operate') && Object.entries(VERBS).map(([verb, { text: name, danger }]) =>
          button({ key: verb, class: danger ? 'danger' : null, onclick: () => bulk(/** @type {any} */ (verb)) }, name)),
        button({ class: 'link', onclick: () => { chosen = new Set(); allChosen = false; app.redraw() } }, 'Clear')))
  }
}

/** @param {any} app @param {Record<string, string>} query */
function tabs(app, query) {
  const counts = app.overview?.live ?? {}
  const tab = (/** @type {string | null} */ status, /** @type {string} */ text) => a({
    key: text, href: addressOf(['runs'], { ...query, status }), 'aria-current': (query.status ?? null) === status ? 'page' : null,
  }, text, status && counts[status] ? span({ class: 'count' }, count(counts[status])) : null)
  return div({ class: 'tabs', role: 'navigation', 'aria-label': 'Status' }, tab(null, 'all'), TABS.map((status) => tab(status, status)))
}

/** @param {any} app @param {Record<string, string>} query */
function filterForm(app, query) {
  const field = (/** @type {string} */ name, /** @type {string} */ text, /** @type {string} */ hint) => label({ key: name }, text,
    input({ id: `filter-${name}`, value: query[name] ?? '', placeholder: hint, onchange: (/** @type {any} */ event) => app.adjust({ [name]: event.target.value.trim() }) }))
  return div({ class: 'panel padded row', role: 'search' },
    field('workflow', 'Workflow', 'checkout'), field('tag', 'Tag', 'customer=7'), field('since', 'Since', '1d'), field('lane', 'Lane', 'default'),
    field('worker', 'Worker', ''), field('version', 'Version', ''), field('namespace', 'Namespace', ''), field('id_prefix', 'Id begins with', ''),
    button({ class: 'link', onclick: () => app.go(['runs'], { status: query.status }) }, 'Clear filters'))
}

/** Filters that a person has named; they stay in this browser. @param {any} app @param {Record<string, string>} query */
function savedViews(app, query) {
  /** @type {Record<string, Record<string, string>>} */
  const saved = preference('views', {})
  const pick = (/** @type {any} */ event) => {
    const name = event.target.value
    event.target.value = ''
    if (name === '+') return save()
    if (saved[name]) app.go(['runs'], saved[name])
  }
  const save = () => ask({
    title: 'Save this view', verb: 'Save', schema: { type: 'object', properties: { name: { type: 'string', title: 'Name' } }, required: ['name'] },
    act: async ({ name }) => { if (name) setPreference('views', { ...saved, [name]: query }); app.redraw() },
  })
  return label({ class: 'inline' }, span({ class: 'hidden' }, 'Saved views'), select({ onchange: pick, value: '' },
    option({ value: '' }, 'Views …'), Object.keys(saved).map((name) => option({ key: name, value: name }, name)), option({ value: '+' }, 'Save this view …')))
}

/** Return a tag such as `customer=7` as a body has it. @param {string} text @returns {Record<string, string>} */
function tagOf(text) {
  const [name, ...value] = text.split('=')
  return { [name]: value.join('=') }
}
