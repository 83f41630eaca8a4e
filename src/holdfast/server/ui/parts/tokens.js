/** The tokens of the run of a model: where it is, as of any event, and the modification of its tokens with a dry run. */

import { get, path, post } from '../lib/api.js'
import { brief } from '../lib/format.js'
import { List } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { grid, listOf, problemBox, since, state, td, tr } from './common.js'
import { ask } from './dialogs.js'

const { button, div, form, h2, input, label, li, p, ul } = tags

/** A change of tokens that a person puts together. @typedef {{kind: string, token?: string, element?: string}} Move */

const REASON = { type: 'string', title: 'Reason' }

export class Tokens {
  /** @param {string} id @param {any} app */
  constructor(id, app) {
    this.id = id
    this.app = app
    /** The number of the event as of which the tokens are shown; empty: now. */
    this.at = ''
    this.list = new List(() => [path`runs/${id}/tokens`, { at: this.at || null }], app.redraw, 0)
    /** Whether the run is that of a model; others have no tokens. */
    this.isModel = false
    /** Why the run is to be migrated. */
    this.reason = ''
  }

  /** @param {string} kind of the diagram of the run */
  know(kind) {
    if (kind !== 'bpmn' || this.isModel) return
    this.isModel = true
    this.list.load()
  }

  load() {
    if (this.isModel) this.list.load()
  }

  refresh() {
    if (this.isModel) this.list.refresh()
  }

  close() {
    this.list.close()
  }

  /** Ask for changes, show what they would lead to, then make them. @param {string[]} elements */
  modify(elements) {
    const running = this.list.items.filter((token) => token.status !== 'completed')
    const schema = {
      type: 'object', required: ['kind'],
      properties: {
        kind: { enum: ['move', 'add', 'cancel'], title: 'Change' },
        token: { enum: ['', ...running.map((token) => token.id)], title: 'Token', description: 'to move or to cancel' },
        element: elements.length ? { enum: ['', ...elements], title: 'Element', description: 'to move to, or to add a token at' } : { type: 'string', title: 'Element' },
        reason: REASON,
      },
    }
    ask({
      title: `Modify ${this.id}`, verb: 'Show what happens', schema, value: { kind: 'move', token: running[0]?.id },
      act: async ({ kind, token, element, reason }) => {
        const move = { kind, ...(kind !== 'add' && token ? { token } : {}), ...(kind !== 'cancel' && element ? { element } : {}) }
        const preview = await post(path`runs/${this.id}/tokens/modify`, { moves: [move], dry_run: true })
        setTimeout(() => this.confirm(move, reason, preview.items ?? preview), 0)
      },
    })
  }

  /** @param {Move} move @param {string | undefined} reason @param {any[]} tokens the tokens that the run would have */
  confirm(move, reason, tokens) {
    ask({
      title: `${move.kind === 'add' ? 'Add a token' : `${move.kind === 'move' ? 'Move' : 'Cancel'} token ${move.token}`}?`, verb: 'Modify', danger: true,
      text: div(p(tokens.length ? 'The run would have these tokens:' : 'The run would have no token, and end.'),
        tokens.length > 0 && grid(['Element', 'State', 'Waits for'], tokens.map((token) => tr({ key: token.id }, td(token.element), td(state(token.status)), td({ class: 'wide' }, token.waits_for ?? ''))), { label: 'Tokens after the change' })),
      act: async () => {
        await post(path`runs/${this.id}/tokens/modify`, { moves: [move], ...(reason ? { reason } : {}) })
        this.list.load()
      },
    })
  }

  /** Whether the tokens stay where they are until the run is resumed. */
  get isSuspended() {
    return this.list.items.some((token) => token.status === 'suspended')
  }

  /** Let the tokens stay where they are, or move again. */
  suspend() {
    const verb = this.isSuspended ? 'Resume' : 'Suspend'
    ask({
      title: `${verb} ${this.id}?`, verb, schema: { type: 'object', properties: { reason: REASON } },
      text: this.isSuspended ? 'Its tokens move again.' : 'Its tokens stay where they are until it is resumed.',
      act: async ({ reason }) => {
        await post(path`runs/${this.id}/tokens/${verb.toLowerCase()}`, reason ? { reason } : {})
        this.list.load()
      },
    })
  }

  /** Ask for another version, show the tokens that cannot move, then change to it. @param {any} run */
  async migrate(run) {
    const models = await get('models')
    const versions = (models.items ?? models).filter((/** @type {any} */ model) => model.name === run.workflow && String(model.version) !== run.version)
    ask({
      title: `Migrate ${this.id}`, verb: 'Show what happens', text: versions.length ? null : 'No other version of this model is deployed.',
      schema: { type: 'object', required: ['to'], properties: { to: { enum: versions.map((/** @type {any} */ model) => String(model.version)), title: 'Version' }, reason: REASON } },
      act: async ({ to, reason }) => {
        this.reason = reason ?? ''
        const target = await get(path`workflows/${run.workflow}/diagram`, { version: to, open: '*' })
        const elements = target.nodes.filter((/** @type {any} */ node) => node.shape !== 'lane').map((/** @type {any} */ node) => node.id)
        await this.preview(to, {}, elements)
      },
    })
  }

  /** Show what a migration would do, and let the user choose an element of the new version for each element that it lacks. @param {string} to @param {Record<string, string>} mapping @param {string[]} elements of the new version */
  async preview(to, mapping, elements) {
    const preview = await post(path`runs/${this.id}/migrate`, { to: Number(to), mapping, dry_run: true })
    const missing = [...new Set([...this.list.items.map((token) => token.element), ...Object.keys(mapping)])].filter((element) => !elements.includes(element)).sort()
    setTimeout(() => this.confirmMigration(to, preview, { mapping, missing, elements }), 0)
  }

  /** @param {string} to @param {any} preview @param {{mapping: Record<string, string>, missing: string[], elements: string[]}} names */
  confirmMigration(to, preview, { mapping, missing, elements }) {
    const obstacles = [...(preview.problems ?? []), ...Object.entries(preview.refused ?? {}).map(([token, reason]) => `${token}: ${reason}`)]
    const isPossible = obstacles.length === 0
    const renamed = missing.length > 0 && { type: 'object', properties: Object.fromEntries(missing.map((element) => [element, { enum: elements, title: `${element} is now`, description: 'an element of the new version' }])) }
    ask({
      title: `Migrate ${this.id} to version ${to}?`, verb: isPossible ? 'Migrate' : 'Show what happens', danger: isPossible,
      text: isPossible ? 'All tokens of the run move to the new version.' : div(p('These tokens cannot move; nothing would change:'), ul(obstacles.map((text) => li({ key: text }, brief(text, 300)))), missing.length > 0 && p('Name the elements that have another id in the new version.')),
      schema: renamed || null, value: mapping,
      act: async (value) => {
        const chosen = renamed ? value : {}
        if (!isPossible || JSON.stringify(chosen) !== JSON.stringify(mapping)) return this.preview(to, chosen, elements)
        const answer = await post(path`runs/${this.id}/migrate`, { to: Number(to), mapping, ...(this.reason ? { reason: this.reason } : {}) })
        const [refusal] = Object.entries(answer.refused ?? {})
        if (refusal) throw { title: 'Nothing was changed.', detail: refusal.join(': '), remedy: 'Move or cancel this token first.' }
        this.list.load()
      },
    })
  }
}

/**
 * @param {Tokens} tokens @param {string[]} elements the elements of the model
 * @param {{may: boolean, run: any, isFinal: boolean}} options
 */
export function tokensView(tokens, elements, { may, run, isFinal }) {
  if (!tokens.isModel) return null
  const change = (/** @type {Event} */ event) => {
    event.preventDefault()
    tokens.list.load()
  }
  return [
    div({ class: 'row apart' }, h2('Tokens'), div({ class: 'row' },
      form({ class: 'row', onsubmit: change }, label({ class: 'inline' }, 'As of event', input({ value: tokens.at, inputmode: 'numeric', size: 6, placeholder: 'now', oninput: (/** @type {any} */ event) => { tokens.at = event.target.value.trim() } })), button({ type: 'submit' }, 'Show')),
      may && !isFinal && [button({ key: 'modify', onclick: () => tokens.modify(elements) }, 'Modify'), button({ key: 'migrate', onclick: () => tokens.migrate(run) }, 'Migrate'), button({ key: 'suspend', onclick: () => tokens.suspend() }, tokens.isSuspended ? 'Resume tokens' : 'Suspend tokens')])),
    problemBox(tokens.list.data ? tokens.list.problem : null),
    listOf(tokens.list, ['Element', 'Kind', 'State', 'Waits for', 'Since'], (token) => tr({ key: token.id }, td({ class: 'line' }, token.element), td(token.kind), td(state(token.status)), td({ class: 'wide' }, token.waits_for ?? ''), td({ class: 'line' }, since(token.since))), { label: 'Tokens', empty: tokens.at ? 'The run had no token then.' : 'The run has no token.' }),
  ]
}
