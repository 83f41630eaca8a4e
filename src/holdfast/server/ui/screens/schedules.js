/** Schedules: in words, last and next ticks in their time zone, lateness, pause, trigger, backfill with preview. */

import { addressOf } from '../lib/address.js'
import { get, path, post, remove } from '../lib/api.js'
import { clock, count, duration, instant, left, plural, time } from '../lib/format.js'
import { List } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { facts, listOf, problemBox, runLink, since, state, STATES, shape, td, tr, when } from '../parts/common.js'
import { ask } from '../parts/dialogs.js'

const { a, button, div, h1, h2, li, ol, span } = tags

/** @param {any} app @param {import('../lib/address.js').Address} address */
export function open(app, address) {
  let selected = address.query.name
  /** @type {any} */
  let details = null
  const schedules = new List(() => ['schedules'], app.redraw)

  const readDetails = async () => {
    const name = selected
    if (!name) return
    // A schedule that the address names may be on a page that was not read.
    const schedule = schedules.items.find((item) => item.name === name) ?? await get(path`schedules/${name}`).catch((problem) => ({ name, problem }))
    const [next, runs] = schedule.problem ? [[], { items: [] }] : await Promise.all([
      get(path`schedules/${name}/next`, { count: 5 }).catch((problem) => ({ problem })),
      get('runs', { workflow: schedule.workflow, limit: 200 }).catch(() => ({ items: [] })),
    ])
    if (name !== selected) return // the person has chosen another one meanwhile
    details = { name, schedule, next: next.items ?? next, runs: runs.items.filter((/** @type {any} */ run) => run.schedule === name).slice(0, 10) }
    app.redraw()
  }
  schedules.load().then(readDetails)

  const act = async (/** @type {string} */ name, /** @type {string} */ verb, /** @type {any} */ body) => {
    const answer = await post(path`schedules/${name}/${verb}`, body)
    await schedules.load()
    await readDetails()
    return answer
  }

  const pause = (/** @type {any} */ schedule) => (schedule.paused != null ? app.attempt(() => act(schedule.name, 'resume', {})) : ask({
    title: `Pause ${schedule.name}?`, text: 'No run is started until the schedule is resumed.', verb: 'Pause',
    schema: { type: 'object', properties: { reason: { type: 'string', title: 'Reason' } } },
    act: ({ reason }) => act(schedule.name, 'pause', { reason: reason ?? '' }),
  }))

  const trigger = (/** @type {any} */ schedule) => ask({
    title: `Start a run of ${schedule.name} now?`, verb: 'Start',
    act: async () => {
      const tick = await act(schedule.name, 'trigger', {})
      app.say(tick?.run ? `Started ${tick.run}.` : 'No run was started: the overlap rule of the schedule does not allow it now.')
    },
  })

  const backfill = (/** @type {any} */ schedule) => ask({
    title: `Backfill ${schedule.name}`, verb: 'Preview', text: 'Start the runs of past ticks. The next page says how many.',
    schema: { type: 'object', required: ['since', 'until'], properties: { since: { type: 'string', format: 'date-time', title: 'From' }, until: { type: 'string', format: 'date-time', title: 'Until' } } },
    act: async (range) => {
      const body = { since: utc(range.since), until: utc(range.until) }
      const ticks = await post(path`schedules/${schedule.name}/backfill`, { ...body, dry_run: true })
      const items = ticks.items ?? ticks
      setTimeout(() => ask({
        title: `Start ${plural(items.length, 'run')}?`, verb: 'Start',
        text: items.length ? `From ${time(items[0].at)} to ${time(items.at(-1).at)}.` : 'The schedule has no tick in this time.',
        act: () => (items.length ? act(schedule.name, 'backfill', body) : Promise.resolve()),
      }), 0)
    },
  })

  const row = (/** @type {any} */ schedule) => {
    const isSelected = schedule.name === selected
    const due = instant(schedule.next_at)
    const late = due != null && schedule.paused == null && clock.now() - due > 5000
    return [
      tr({ key: schedule.name, class: isSelected ? 'current' : null },
        td({ class: 'line' }, button({ class: 'link', 'aria-expanded': String(isSelected), onclick: () => app.adjust({ name: isSelected ? '' : schedule.name }) }, schedule.name)),
        td({ class: 'wide' }, ...ruleOf(schedule), schedule.note && div({ class: 'soft' }, schedule.note)),
        td({ class: 'line' }, a({ href: addressOf(['runs'], { workflow: schedule.workflow }) }, schedule.workflow)),
        td(schedule.paused != null ? [state('paused'), schedule.paused && div({ class: 'soft' }, schedule.paused)] : late ? span({ class: 'state attention' }, shape('attention'), `late by ${duration(clock.now() - /** @type {number} */ (due))}`) : span({ class: 'state completed' }, shape('completed'), 'on time')),
        td({ class: 'line' }, schedule.next_at && [when(schedule.next_at), div({ class: 'soft' }, left(schedule.next_at))], schedule.last_at && div({ class: 'soft' }, 'last tick ', since(schedule.last_at))),
        td({ class: 'right mono' }, count(schedule.started)),
        td({ class: 'line' }, app.may('operate') && div({ class: 'row' },
          button({ onclick: () => pause(schedule) }, schedule.paused != null ? 'Resume' : 'Pause'),
          button({ onclick: () => trigger(schedule) }, 'Trigger'), button({ onclick: () => backfill(schedule) }, 'Backfill')))),
      isSelected && tr({ key: `${schedule.name} details` }, td({ colspan: '7' }, detailsOf(schedule))),
    ]
  }

  return {
    title: () => 'Schedules',
    moved(/** @type {any} */ to) {
      if (to.query.name === selected) return
      selected = to.query.name
      details = null
      readDetails()
    },
    heard: () => { schedules.refresh(); readDetails() },
    close: () => schedules.close(),
    view: () => [
      div({ class: 'bar' }, h1('Schedules')),
      elsewhere(),
      listOf(schedules, ['Name', 'When', 'Workflow', 'State', 'Next tick', '>Started', ''], row, { label: 'Schedules', empty: 'There is no schedule.' }),
    ],
  }

  /** The chosen schedule, if it is not among the rows that were read. */
  function elsewhere() {
    if (!details || details.name !== selected || schedules.items.some((item) => item.name === selected)) return null
    if (details.schedule.problem) return problemBox(details.schedule.problem, button({ onclick: () => app.adjust({ name: '' }) }, 'Close'))
    return div({ class: 'panel padded' }, h2(details.name), detailsOf(details.schedule))
  }

  function detailsOf(/** @type {any} */ schedule) {
    if (details?.name !== schedule.name) return div({ class: 'soft' }, 'Reading …')
    const next = Array.isArray(details.next) ? details.next : []
    const removeIt = () => ask({ title: `Remove ${schedule.name}?`, text: 'Its runs stay.', verb: 'Remove', danger: true, type: schedule.name, act: async () => { await remove(path`schedules/${schedule.name}`); app.adjust({ name: '' }); await schedules.load() } })
    return div(
      facts({ Overlap: schedule.overlap, Misfire: schedule.misfire, Lane: schedule.lane, Version: schedule.version, Skipped: count(schedule.skipped), Waiting: schedule.waiting?.length || null, Zone: schedule.zone }),
      details.runs.length > 0 && [h2('Last ticks'), div({ class: 'row' }, details.runs.map((/** @type {any} */ run) => a({ key: run.id, class: `state ${STATES[/** @type {keyof typeof STATES} */ (run.status)] ?? 'quiet'}`, href: addressOf(['run', run.id]), title: `${run.id} ${run.status}` }, shape(STATES[/** @type {keyof typeof STATES} */ (run.status)] ?? 'quiet'), time(run.tick_at ?? run.created_at))))],
      next.length > 0 && [h2(`Next ticks (${schedule.zone})`), ol(next.map((/** @type {string} */ tick) => li({ key: tick, class: 'mono' }, inZone(tick, schedule.zone))))],
      details.runs[0] && div('Newest run: ', runLink(details.runs[0].id)),
      app.may('admin') && button({ class: 'danger', onclick: removeIt }, 'Remove'))
  }
}

/** The rule in words, with its expression below them. @param {any} schedule */
function ruleOf(schedule) {
  const [, words, expression] = schedule.text.match(/^(.*) \((cron .*)\)$/) ?? [null, schedule.text, '']
  return [words, schedule.zone !== 'UTC' && ` ${schedule.zone}`, expression && div({ class: 'soft mono' }, expression)]
}

/** @param {string} text @param {string} zone */
function inZone(text, zone) {
  const at = instant(text)
  if (at == null) return ''
  try {
    return new Date(at).toLocaleString('sv-SE', { timeZone: zone })
  } catch {
    return new Date(at).toISOString() // a zone that this browser does not know
  }
}

/** Return the time that a person entered in local time, in UTC. @param {string} text */
function utc(text) {
  const at = Date.parse(text)
  return Number.isNaN(at) ? text : new Date(at).toISOString()
}
