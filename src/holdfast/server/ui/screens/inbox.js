/**
 * Inbox: the decisions that people are asked for. The list is on the left, the open decision on the right; after
 * a decision the next one opens by itself. If another person decides first, the page shows that decision.
 */

import { get, path, post } from '../lib/api.js'
import { left, plural } from '../lib/format.js'
import { List } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { facts, problemBox, rowWindow, runLink, since, state, valueTree, when } from '../parts/common.js'
import { ask, wrongFields } from '../parts/dialogs.js'
import { formView, valueOf } from '../parts/form.js'
import { itemSpacer } from '../parts/rows.js'

const { a, button, code, div, h1, h2, input, label, li, p, span, strong, textarea, ul } = tags

const SHOWN = { mine: 'Mine', overdue: 'Overdue', all: 'All' }

/** @param {any} app @param {import('../lib/address.js').Address} address */
export function open(app, address) {
  let query = address.query
  /** @type {any} */
  let gate = null
  /** @type {any} */
  let problem = null
  let isLeft = false
  /** Whether the problem is the refusal of a decision: it stays until the gate changes, however often that is read. */
  let isRefused = false
  /** What the person has typed; it survives refusals and a login. */
  let typed = { feedback: '', form: /** @type {any} */ (undefined), selections: /** @type {string[]} */ ([]) }
  /** @type {Set<string>} */
  let chosen = new Set()

  const shown = () => /** @type {keyof typeof SHOWN} */ (query.show && query.show in SHOWN ? query.show : 'all')
  const gates = new List(() => ['gates', {
    mine: shown() === 'mine' ? app.me?.name : null, role: shown() === 'mine' ? app.me?.gate_roles : null, overdue: shown() === 'overdue' ? true : null, run: query.run,
  }], () => { pickFirst(); app.redraw() })

  const pickFirst = () => {
    const wanted = query.gate ?? gates.items[0]?.id
    if (wanted && gate?.id !== wanted) read(wanted)
  }

  const read = async (/** @type {string} */ id) => {
    try {
      const answer = await get(path`gates/${id}`)
      const isAnother = gate?.id !== id
      if (isAnother) typed = { feedback: '', form: undefined, selections: [] }
      if (isAnother || answer.status !== gate.status) isRefused = false
      if (!isRefused) problem = null
      gate = answer
    } catch (refusal) {
      isRefused = false
      problem = refusal
      gate = gate?.id === id ? gate : null
    }
    app.redraw()
  }

  const pick = (/** @type {string} */ id) => {
    read(id)
    app.adjust({ gate: id })
  }

  const next = () => {
    if (isLeft) return
    const index = gates.items.findIndex((item) => item.id === gate?.id)
    const following = gates.items.filter((item) => item.id !== gate?.id)[Math.max(0, index)] ?? gates.items.find((item) => item.id !== gate?.id)
    gate = null
    app.adjust({ gate: following?.id })
    if (following) read(following.id)
    gates.load()
  }

  const decide = async (/** @type {string} */ choice) => {
    const needsForm = gate.form && choice !== rejection(gate) // a form that is not complete would refuse the rejection
    const body = {
      choice, feedback: typed.feedback || null, selections: typed.selections, form: needsForm ? valueOf(gate.form, typed.form) ?? null : null, expect: gate.hash,
    }
    try {
      await post(path`gates/${gate.id}/decisions`, body)
      app.say(`“${gate.prompt}”: ${choice}.`)
      next()
    } catch (refusal) {
      problem = refusal
      if (/** @type {any} */ (refusal).status === 409) await read(gate.id) // another person was faster: show the decision
      problem = refusal
      isRefused = true
      app.redraw()
    }
  }

  const decideAll = (/** @type {string} */ verb) => ask({
    title: `${verb === 'approve' ? 'Approve' : 'Reject'} ${plural(chosen.size, 'decision')}?`,
    verb: verb === 'approve' ? 'Approve' : 'Reject',
    act: async () => {
      const refused = []
      for (const id of chosen) {
        const item = gates.items.find((one) => one.id === id)
        try {
          await post(path`gates/${id}/decisions`, { choice: choiceOf(item, verb), expect: item?.hash })
        } catch (refusal) {
          refused.push(`${item?.prompt ?? id}: ${/** @type {any} */ (refusal).message}`)
        }
      }
      chosen = new Set()
      await gates.load()
      app.say(refused.length ? `Refused: ${refused.join('; ')}` : 'Decided.')
    },
  })

  const people = (/** @type {string} */ verb, /** @type {string} */ title) => ask({
    title, verb: title,
    schema: { type: 'object', required: ['names'], properties: { names: { type: 'string', title: 'People, separated by commas' }, reason: { type: 'string', title: 'Reason' } } },
    act: async ({ names, reason }) => {
      const list = String(names ?? '').split(',').map((name) => name.trim()).filter(Boolean)
      await post(path`gates/${gate.id}/${verb}`, verb === 'delegate' ? { to: list[0] ?? '', by: app.me?.name, reason } : { assignees: list, reason })
      await read(gate.id)
      gates.load()
    },
  })

  gates.load()
  const move = (/** @type {number} */ step) => {
    const index = gates.items.findIndex((item) => item.id === gate?.id)
    const place = Math.max(0, Math.min(gates.items.length - 1, index + step))
    const next = gates.items[place]
    if (!next) return
    pick(next.id)
    rowWindow(gates).reveal(place)
  }

  return {
    title: () => 'Inbox',
    moved(/** @type {any} */ to) {
      const before = shown()
      query = to.query
      if (shown() !== before) gates.load()
    },
    heard(/** @type {any} */ events) {
      gates.refresh()
      if (gate && (!events || events.some((/** @type {any} */ event) => event.run_id === gate.run))) read(gate.id)
    },
    close: () => { isLeft = true; gates.close() },
    keys: () => [
      { keys: 'j', text: 'Next decision', run: () => move(1) },
      { keys: 'k', text: 'Previous decision', run: () => move(-1) },
      { keys: 'a', text: 'Approve', run: () => gate?.status === 'open' && decide(choiceOf(gate, 'approve')) },
      { keys: 'r', text: 'Reject', run: () => gate?.status === 'open' && rejection(gate) && decide(rejection(gate)) },
      { keys: 'x', text: 'Select the decision', run: () => gate && choose(gate.id) },
    ],
    view: () => [
      div({ class: 'bar' }, h1('Inbox'),
        div({ class: 'tabs', role: 'navigation', 'aria-label': 'Which decisions' }, Object.entries(SHOWN).map(([name, text]) =>
          a({ key: name, href: `#/inbox?show=${name}`, 'aria-current': shown() === name ? 'page' : null }, text)))),
      chosen.size > 0 && div({ class: 'panel notice' }, plural(chosen.size, 'selected decision'),
        div({ class: 'row' }, button({ class: 'primary', onclick: () => decideAll('approve') }, 'Approve'), button({ class: 'danger', onclick: () => decideAll('reject') }, 'Reject'))),
      gates.problem && problemBox(gates.problem),
      gates.data && !gates.items.length && !gate
        ? [problemBox(problem), div({ class: 'panel empty' }, shown() === 'all' ? 'No decision is open.' : ['No decision is open here. ', a({ class: 'link', href: '#/inbox?show=all' }, 'Show all')])]
        : div({ class: 'split' }, div(list(), gates.next && button({ onclick: () => gates.more() }, 'Show more')), div(problemBox(problem), gate && decision())),
    ],
  }

  function choose(/** @type {string} */ id) {
    if (chosen.has(id)) chosen.delete(id)
    else chosen.add(id)
    app.redraw()
  }

  function list() {
    return ul({ class: 'panel palette', 'aria-label': 'Open decisions' }, rowWindow(gates).view(gates.items.map((item) => item.id), item, itemSpacer))
  }

  function item(/** @type {number} */ index) {
    const item = gates.items[index]
    return li({ key: item.id, class: 'row', 'data-row': item.id },
      input({ type: 'checkbox', checked: chosen.has(item.id), 'aria-label': `Select ${item.prompt}`, onchange: () => choose(item.id) }),
      div({ class: 'grow' }, button({ 'aria-current': gate?.id === item.id ? 'true' : null, onclick: () => pick(item.id) },
        strong(item.prompt), div({ class: 'soft' }, [item.run, left(item.deadline), item.quorum > 1 && `${item.quorum - item.missing} of ${item.quorum} answers`].filter(Boolean).join(' · ')))))
  }

  function decision() {
    const isOpen = gate.status === 'open'
    return div({ class: 'panel padded', key: gate.id },
      div({ class: 'row apart' }, h2({ class: 'ink' }, gate.prompt), state(gate.status)),
      facts({
        Run: runLink(gate.run), Asks: gate.who, Answers: gate.quorum > 1 && `${gate.quorum - gate.missing} of ${gate.quorum}`, Opened: since(gate.opened_at),
        Deadline: gate.deadline && span(when(gate.deadline), div({ class: 'soft' }, left(gate.deadline))), Decided: gate.choice,
      }),
      gate.data != null && [h2('What will be done'), gate.hash && p({ class: 'soft' }, 'hash ', code(gate.hash.slice(0, 16))), div({ class: 'json' }, valueTree(gate.data))],
      gate.entries?.length > 0 && [h2('So far'), ul(gate.entries.map((/** @type {any} */ entry, /** @type {number} */ index) => li({ key: index },
        [entry.kind, entry.choice, entry.person && `by ${entry.person}`, entry.feedback || entry.reason, entry.lapsed && '(no longer counts)'].filter(Boolean).join(' '), ' ', when(entry.at))))],
      isOpen && app.may('decide') && answerForm())
  }

  function answerForm() {
    const set = (/** @type {Partial<typeof typed>} */ changes) => { typed = { ...typed, ...changes }; app.redraw() }
    // Options that neither approve nor reject can also be selected together.
    const selectable = gate.options.filter((/** @type {any} */ option) => !option.means && !['approve', 'reject'].includes(option.value))
    return [
      gate.form && formView(gate.form, typed.form, (form) => set({ form }), wrongFields(problem)),
      selectable.length > 1 && div({ class: 'field', role: 'group', 'aria-label': 'Select several' }, selectable.map((/** @type {any} */ option) => label({ key: option.value, class: 'inline' },
        input({ type: 'checkbox', checked: typed.selections.includes(option.value), onchange: () => set({ selections: typed.selections.includes(option.value) ? typed.selections.filter((one) => one !== option.value) : [...typed.selections, option.value] }) }), option.label ?? option.value))),
      label({ class: 'field' }, 'Comment', textarea({ value: typed.feedback, oninput: (/** @type {any} */ event) => { typed.feedback = event.target.value } })),
      div({ class: 'row' },
        optionsOf(gate).map((/** @type {any} */ option) => button({
          key: option.value, class: classOf(option), onclick: () => decide(option.value),
        }, option.label ?? option.value)),
        typed.selections.length > 0 && button({ class: 'primary', onclick: () => decide('approve') }, `Approve ${typed.selections.length} selected`),
        button({ class: 'link', onclick: () => people('delegate', 'Delegate') }, 'Delegate'),
        app.may('operate') && button({ class: 'link', onclick: () => people('reassign', 'Reassign') }, 'Reassign')),
    ]
  }
}

/** Return the options of a gate; one that names none, such as one with a form, is approved or rejected. @param {any} gate */
function optionsOf(gate) {
  return gate.options.length ? gate.options : gate.choices.map((/** @type {string} */ value) => ({ value }))
}

/** Return the option of a gate that rejects; undefined if it has none. @param {any} gate */
function rejection(gate) {
  return optionsOf(gate).find((/** @type {any} */ option) => (option.means ?? option.value) === 'reject')?.value
}

/** @param {any} option */
function classOf(option) {
  const means = option.means ?? option.value
  if (means === 'approve') return 'primary'
  return means === 'reject' ? 'danger' : null
}

/** Return the option of a gate that approves or rejects. @param {any} gate @param {string} verb */
function choiceOf(gate, verb) {
  return gate?.options?.find((/** @type {any} */ option) => option.means === verb)?.value ?? verb
}
