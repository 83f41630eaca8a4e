/**
 * Run: the blocker and its remedy, diagram, timeline, output, values, children, budget and history on one page.
 *
 * Sections without content are absent. The selected step and the unfolded rows are in the address.
 */

import { addressOf } from '../lib/address.js'
import { get, path, post, urlOf } from '../lib/api.js'
import { between, brief, duration, left, plural, time, words } from '../lib/format.js'
import { List, Resource } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { facts, grid, problemBox, rowsOf, runLink, state, td, tr, valuePanel, when } from '../parts/common.js'
import { diagramKeys, diagramView, Viewport } from '../parts/diagram.js'
import { ask } from '../parts/dialogs.js'
import { Output, outputView } from '../parts/output.js'
import { RowWindow } from '../parts/rows.js'
import { timelineView } from '../parts/timeline.js'
import { Tokens, tokensView } from '../parts/tokens.js'
import { verbButtons } from '../parts/verbs.js'

const { a, button, code, details, div, h1, h2, p, pre, span, strong, summary } = tags

/** The rows of a timeline that are read at first: more than a screen, and less than 200 kB. */
const ROWS = 100
const TIMELINE = { field: 'rows', place: 'after' }
const FINAL = ['completed', 'failed', 'cancelled', 'expired', 'skipped']

/** @param {any} app @param {import('../lib/address.js').Address} address */
export function open(app, address) {
  const id = address.path[1] ?? ''
  let query = address.query
  const viewport = new Viewport()
  const run = new Resource(() => [path`runs/${id}`], app.redraw)
  const why = new Resource(() => [path`runs/${id}/why`], app.redraw)
  const timeline = new List(() => [path`runs/${id}/timeline`], app.redraw, ROWS, TIMELINE)
  const diagram = new Resource(() => [path`runs/${id}/diagram`, { open: viewport.opened }], app.redraw)
  const children = new List(() => ['runs', { parent_id: id }], app.redraw, 20)
  const usage = new Resource(() => [path`runs/${id}/usage`], app.redraw)
  const output = new Output(id, app)
  const tokens = new Tokens(id, app)
  const history = new List(() => (query.history ? [path`runs/${id}/history`] : null), app.redraw, 100, { place: 'after', number: 'seq' })
  /** Unfolded rows of the timeline, by the id of the row. @type {Map<string, List>} */
  const unfolded = new Map()
  const lines = new RowWindow(app.redraw, 32)
  const parts = [run, why, timeline, diagram, children, usage, output, history, tokens]

  const all = () => [...parts, ...openRows().map(rowsBelow)]
  const read = () => all().forEach((part) => part.load())
  const openRows = () => (query.open ? query.open.split(' ').map(decodeURIComponent) : [])

  /** Return the rows below an unfolded row. @param {string} row */
  const rowsBelow = (row) => {
    const known = unfolded.get(row) ?? new List(() => [path`runs/${id}/timeline`, { open: row }], app.redraw, ROWS, TIMELINE)
    unfolded.set(row, known)
    return known
  }

  const toggle = (/** @type {any} */ row) => {
    const rows = openRows()
    const isOpen = rows.includes(row.id)
    app.adjust({ open: (isOpen ? rows.filter((one) => one !== row.id) : [...rows, row.id]).map(encodeURIComponent).join(' ') })
    if (!isOpen) rowsBelow(row.id).load()
  }

  const select = (/** @type {string | null} */ step) => app.adjust({ step })

  const act = (/** @type {string} */ verb, /** @type {any} */ body = {}) => post(path`runs/${id}/${verb}`, body).then((answer) => { read(); return answer })

  read()
  return {
    title: () => (run.data ? `${run.data.workflow} ${id}` : id),
    moved(/** @type {any} */ to) {
      const before = query.history
      query = to.query
      if (query.history && !before) history.load()
    },
    heard(/** @type {any} */ events) {
      if (!events) read()
      else if (events.some((/** @type {any} */ event) => event.run_id === id)) all().forEach((part) => part.refresh())
      else if (events.some((/** @type {any} */ event) => children.items.some((child) => child.id === event.run_id))) children.refresh()
    },
    close: () => [...parts, ...unfolded.values()].forEach((part) => part.close()),
    keys: () => [
      { keys: 'c', text: 'Cancel the run', run: () => cancel() },
      ...diagramKeys(viewport, app.redraw),
      { keys: 'h', text: 'Show the history', run: () => app.adjust({ history: query.history ? '' : '1' }) },
    ],
    view: () => {
      if (!run.data) {
        return run.problem
          ? [div({ class: 'bar' }, h1(id)), problemBox(run.problem, a({ class: 'button', href: '#/runs' }, 'All runs'))]
          : div({ class: 'panel empty', 'aria-busy': 'true' }, 'Reading …')
      }
      return [
        header(), problemBox(run.problem), blocker(), factList(),
        section('Diagram', diagram, () => diagram.data.nodes.length > 2, () => div({ class: 'panel' }, diagramView(diagram.data, viewport, { selected: query.step ?? null, pick: pickNode, redraw: app.redraw, reread: () => diagram.load() }))),
        tokensSection(),
        section('Timeline', timeline, () => timeline.items.length > 0, timelineSection),
        selectedStep(),
        outputSection(), values(), childrenSection(), budgetSection(), historySection(),
      ]
    },
  }

  function tokensSection() {
    if (!diagram.data) return null
    tokens.know(diagram.data.kind)
    const elements = diagram.data.nodes.filter((/** @type {any} */ node) => !['box', 'lane'].includes(node.shape)).map((/** @type {any} */ node) => node.id)
    return tokensView(tokens, elements, { may: app.may('operate'), run: run.data, isFinal: FINAL.includes(run.data.status) })
  }

  function pickNode(/** @type {any} */ node) {
    select(node.steps?.[0] ?? node.id)
  }

  function header() {
    const { data } = run
    const isFinal = FINAL.includes(data.status)
    const may = app.may('operate')
    return div({ class: 'bar' },
      div({ class: 'row' }, h1(data.workflow, ' ', code(id)), state(data.status)),
      div({ class: 'row' },
        !isFinal && app.may('start') && button({ onclick: signal }, 'Signal'),
        may && data.status === 'stuck' && button({ class: 'primary', onclick: () => confirm('Resume', 'resume', 'The run continues where it is stuck.') }, 'Resume'),
        may && isFinal && button({ onclick: () => replay() }, 'Replay'),
        may && button({ onclick: () => fork() }, query.step ? 'Fork from here' : 'Fork'),
        may && !isFinal && button({ class: 'danger', onclick: cancel }, 'Cancel'),
        may && details({ class: 'menu' }, summary({ class: 'button' }, 'More'), div({ class: 'panel' },
          verbButtons({ id, run: data, isFinal, isModel: tokens.isModel, may: (right) => app.may(right), done: read, gone: () => app.go(['runs']) })))))
  }

  function confirm(/** @type {string} */ title, /** @type {string} */ verb, /** @type {string} */ text, /** @type {any} */ body = {}) {
    ask({ title: `${title} ${id}?`, text, verb: title, act: () => act(verb, body) })
  }

  async function cancel() {
    if (FINAL.includes(run.data?.status)) return
    await timeline.load() // the question names the steps that are undone
    const completed = (timeline.items).filter((/** @type {any} */ row) => row.kind === 'step' && row.state === 'completed').map((/** @type {any} */ row) => row.name)
    ask({
      title: `Cancel ${id}?`, verb: 'Cancel the run', danger: true,
      text: !timeline.data ? 'The run stops. Compensations of completed steps run.' : completed.length ? `The run stops. Compensations of completed steps run: ${brief(completed.join(', '), 200)}.` : 'The run stops. It has completed no step.',
      schema: { type: 'object', properties: { reason: { type: 'string', title: 'Reason' } } },
      act: ({ reason }) => act('cancel', reason ? { reason } : {}),
    })
  }

  function replay() {
    ask({
      title: `Replay ${id}?`, verb: 'Replay',
      text: query.step ? `Everything from ${query.step} on runs again.` : 'Failed steps run again; completed steps keep their results.',
      act: () => act('replay', query.step ? { from_step: query.step } : {}),
    })
  }

  function fork() {
    ask({
      title: `Fork ${id}?`, verb: 'Fork',
      text: query.step ? `A new run keeps the results before ${query.step} and continues from there.` : 'A new run starts with the same input.',
      act: async () => {
        const answer = await post(path`runs/${id}/fork`, query.step ? { from_step: query.step } : {})
        app.go(['run', answer.id])
      },
    })
  }

  function signal() {
    const wait = run.data.waits.find((/** @type {any} */ one) => one.kind === 'signal')
    ask({
      title: `Send a signal to ${id}`, verb: 'Send', value: { name: wait?.name },
      schema: { type: 'object', required: ['name'], properties: { name: { type: 'string', title: 'Name' }, payload: { title: 'Payload' } } },
      act: ({ name, payload }) => act('signals', { name, payload: payload ?? null }),
    })
  }

  function retry(/** @type {string} */ element) {
    ask({
      title: `Retry ${element}?`, verb: 'Retry', text: 'The element is executed again. Give it other variables first if they were the cause.',
      schema: { type: 'object', properties: { variables: { title: 'Variables', description: 'a JSON object; empty: they stay as they are' } } },
      act: async ({ variables }) => {
        if (variables != null) await post(path`runs/${id}/variables`, { variables })
        const incidents = (await get('incidents', { run: id })).items.filter((/** @type {any} */ one) => one.element === element)
        for (const incident of incidents) await post(path`incidents/${incident.id}/retry`)
        read()
      },
    })
  }

  function blocker() {
    if (FINAL.includes(run.data.status)) return errorBox()
    if (!why.data) return problemBox(why.problem)
    const { reason, blockers, remedy } = why.data
    const needsPerson = blockers.some((/** @type {any} */ one) => one.kind === 'incident')
    const colour = needsPerson ? 'failed' : { stuck: 'failed', running: 'running', waiting: '' }[/** @type {string} */ (run.data.status)] ?? 'attention'
    return div({ class: `panel why ${colour}` },
      div({ class: 'grow' }, strong(sentence(reason)),
        blockers.map((/** @type {any} */ one, /** @type {number} */ index) => p({ key: index }, one.text === reason ? null : sentence(one.text),
          div({ class: 'soft' }, [one.holder && !one.text.includes(one.holder) && `held up by ${one.holder}`, one.since && `since ${time(one.since)}`, one.until && left(one.until)].filter(Boolean).join(' · ')))),
        remedy && div({ class: 'remedy' }, remedy)),
      remedyButton())
  }

  function remedyButton() {
    const gate = run.data.waits.find((/** @type {any} */ wait) => wait.kind === 'gate')
    if (gate && app.may('decide')) return a({ class: 'button primary', href: addressOf(['inbox'], { run: id }) }, 'Decide')
    const incident = run.data.waits.find((/** @type {any} */ wait) => wait.kind === 'incident')
    if (incident && app.may('operate')) return button({ class: 'primary', onclick: () => retry(incident.element) }, 'Retry')
    const signalled = run.data.waits.some((/** @type {any} */ wait) => wait.kind === 'signal')
    if (signalled && app.may('start')) return button({ class: 'primary', onclick: signal }, 'Send the signal')
    if (!app.may('operate')) return null
    if (run.data.status === 'stuck') return button({ class: 'primary', onclick: () => confirm('Resume', 'resume', 'The run continues where it is stuck.') }, 'Resume')
    const released = run.data.waits.some((/** @type {any} */ wait) => ['retry', 'timer', 'wait'].includes(wait.kind)) || (run.data.status === 'pending' && run.data.wake_at)
    return released && button({ class: 'primary', onclick: () => confirm('Release', 'release', 'The run does not wait any longer.') }, 'Release')
  }

  function errorBox() {
    const { error, status, cancel_reason: reason, cancelled_by: by } = run.data
    if (error) {
      return div({ class: 'panel why failed' }, div({ class: 'grow' }, strong(error.cause || `${error.type}: ${error.message}`), error.step && p({ class: 'soft' }, `in step ${error.step}`),
        error.traceback && details(summary({ class: 'soft' }, 'traceback'), pre(error.traceback))),
        app.may('operate') && button({ class: 'primary', onclick: replay }, 'Replay'))
    }
    return status === 'cancelled' && (reason || by) ? div({ class: 'panel why attention' }, `Cancelled${by ? ` by ${by}` : ''}${reason ? `: ${reason}` : ''}`) : null
  }

  function factList() {
    const { data } = run
    return facts({
      Created: when(data.created_at), Took: data.started_at && span({ class: 'mono' }, duration(between(data.started_at, data.finished_at))), Version: data.version,
      Lane: data.lane === 'default' ? null : data.lane, Worker: data.worker ?? (FINAL.includes(data.status) ? null : 'no worker holds it'), Namespace: data.namespace === 'default' ? null : data.namespace,
      Tags: Object.entries(data.tags).map(([name, value]) => `${name}=${value}`).join(' '), Parent: data.parent_id && runLink(data.parent_id), 'Forked from': data.forked_from && runLink(data.forked_from),
      Graph: data.graph_id && a({ href: addressOf(['graph', data.graph_id]) }, data.graph_id), Schedule: data.schedule && a({ href: addressOf(['schedules'], { name: data.schedule }) }, data.schedule),
      Deadline: data.deadline && span(when(data.deadline), ' ', left(data.deadline)), Priority: data.priority || null, Crashes: data.crashes || null, Key: data.key,
    })
  }

  function section(/** @type {string} */ title, /** @type {Resource} */ part, /** @type {() => boolean} */ hasContent, /** @type {() => any} */ content) {
    if (part.problem && !part.data) return [h2(title), problemBox(part.problem)]
    return part.data && hasContent() ? [h2(title), content()] : null
  }

  /** The names for people of the steps of a model, as its diagram has them. @returns {Map<string, string>} */
  function elementNames() {
    const nodes = diagram.data?.kind === 'bpmn' ? diagram.data.nodes : []
    return new Map(nodes.flatMap((/** @type {any} */ node) => (node.steps ?? []).map((/** @type {string} */ step) => [step, node.label || node.id])))
  }

  function timelineSection() {
    const isOpen = (/** @type {any} */ row) => openRows().includes(row.id)
    /** @type {any[]} */
    const rows = []
    const names = elementNames()
    const add = (/** @type {any} */ row, /** @type {number} */ depth) => {
      rows.push({ ...row, name: names.get(row.id) ?? row.name, depth: row.depth + depth })
      const inner = isOpen(row) ? unfolded.get(row.id) : null
      inner?.items.forEach((below) => add({ ...below, page: row.id }, depth + 1))
      if (inner?.next) rows.push({ id: `${row.id} more`, kind: 'note', name: 'show more', state: 'recorded', depth: row.depth + depth + 1, opens: true, more: inner })
    }
    timeline.items.forEach((/** @type {any} */ row) => add(row, 0))
    const unfold = (/** @type {any} */ row) => (row.more ? row.more.more() : toggle(row))
    return div({ class: 'panel' }, timelineView(timeline.data, rows, lines, { selected: query.step ?? null, select: (row) => select(row.id === query.step ? null : row.id), unfold, isOpen }),
      timeline.next && div({ class: 'more' }, button({ onclick: () => timeline.more() }, 'Show later rows')))
  }

  function selectedStep() {
    const step = query.step
    if (!step || !timeline.data) return null
    const known = [...timeline.items, ...[...unfolded.values()].flatMap((part) => part.items)]
    const row = known.find((one) => one.id === step)
    if (!row) return div({ class: 'panel notice' }, span('The step ', code(step), ' is not in this run, or not unfolded.'), button({ onclick: () => select(null) }, 'Deselect'))
    return div({ class: 'panel padded step', role: 'region', 'aria-label': `Step ${row.name}` },
      div({ class: 'row apart' }, h2(code(row.id)), div({ class: 'row' },
        app.may('operate') && FINAL.includes(run.data.status) && button({ onclick: replay }, 'Replay from here'), app.may('operate') && button({ onclick: fork }, 'Fork from here'), button({ class: 'link', onclick: () => select(null) }, 'Deselect'))),
      facts({ State: state(row.state), Started: when(row.started_at), Took: row.started_at && duration(between(row.started_at, row.ended_at)), Attempt: row.attempt, Worker: row.worker, Run: row.run && runLink(row.run), Outcome: row.error || row.note }),
      (row.attempts ?? []).length > 0 && grid(['Attempt', 'State', 'Ended', 'Error'], row.attempts.map((/** @type {any} */ attempt) => tr({ key: attempt.number }, td(String(attempt.number)), td(state(attempt.state)), td(when(attempt.ended_at)), td({ class: 'wide' }, attempt.error ?? ''))), { label: 'Failed attempts' }),
      a({ class: 'link', href: urlOf(path`runs/${id}/values/step/${step}`).href }, 'result as stored'))
  }

  function outputSection() {
    output.isLive = output.isLive && !FINAL.includes(run.data.status)
    return outputView(output)
  }

  function values() {
    const { data } = run
    const shown = Object.entries({ input: data.input, result: data.result }).filter(([, value]) => value != null)
    return shown.length > 0 && [h2('Values'), div({ class: 'cards' }, shown.map(([name, value]) => valuePanel(name, value, urlOf(path`runs/${id}/values/${name}`).href)))]
  }

  function childrenSection() {
    if (!children.items.length) return null
    return [h2('Children'), grid(['Run', 'Workflow', 'Status', 'Step', 'Created', '>Took'], rowsOf(children, (child) => tr({ key: child.id },
      td({ class: 'line' }, runLink(child.id)), td(child.workflow), td(state(child.status)), td({ class: 'wide' }, child.parent_step ?? ''), td({ class: 'line' }, when(child.created_at)), td({ class: 'line right mono' }, child.started_at ? duration(between(child.started_at, child.finished_at)) : ''))), { label: 'Children' }),
      children.next && button({ onclick: () => children.more() }, 'Show more')]
  }

  function budgetSection() {
    const total = Object.entries(usage.data?.total ?? {})
    if (!total.length && !run.data.budgets.length) return null
    return [h2('Spending'), facts({ ...Object.fromEntries(total.map(([name, amount]) => [name, String(amount)])), Budgets: run.data.budgets.map((/** @type {string} */ name) => a({ key: name, href: addressOf(['budgets'], { name }) }, name, ' ')) })]
  }

  function historySection() {
    const isOpen = Boolean(query.history)
    return [h2('History'), div({ class: 'panel' },
      div({ class: 'more' }, button({ class: 'link', 'aria-expanded': String(isOpen), onclick: () => app.adjust({ history: isOpen ? '' : '1' }) }, isOpen ? 'Hide' : `Show ${timeline.data ? plural(timeline.data.events, 'event') : 'the events'}`)),
      isOpen && history.data && grid(['>#', 'Event', 'Step', 'At', 'Data'], rowsOf(history, (event) => tr({ key: event.seq, class: event.void ? 'soft' : null },
        td({ class: 'right mono' }, String(event.seq)), td({ class: 'line' }, words(event.kind), event.void && ' (void)'), td({ class: 'line' }, event.step ?? ''), td({ class: 'line' }, when(event.at)),
        td({ class: 'wide mono' }, event.error ? brief(`${event.error.type}: ${event.error.message}`, 200) : event.data == null ? '' : brief(event.data, 200)))), { label: 'History' }),
      isOpen && problemBox(history.problem),
      isOpen && history.next && div({ class: 'more' }, button({ onclick: () => history.more() }, 'Show more')))]
  }
}

/** @param {string} text */
function sentence(text) {
  return text ? text[0].toUpperCase() + text.slice(1) : ''
}

