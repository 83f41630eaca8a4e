/**
 * The verbs of an operator on one run that are rarely needed, each with what it does and the fields that it asks for.
 * The frequent ones are buttons of the page of the run.
 */

import { patch, path, post, remove, urlOf } from '../lib/api.js'
import { tags } from '../lib/view.js'
import { ask } from './dialogs.js'

const { a, button } = tags

/**
 * @typedef {{id: string, run: any, isFinal: boolean, isModel: boolean, may: (right: string) => boolean, done: () => void, gone: () => void}} Subject
 * @typedef {{title: string, text: string, when: (on: Subject) => any, danger?: boolean, typed?: boolean, schema?: any, value?: (run: any) => any, act: (on: Subject, value: any) => Promise<any>}} Verb
 */

const REASON = { type: 'string', title: 'Reason' }
const isLive = (/** @type {Subject} */ on) => !on.isFinal && on.may('operate')
const isLiveModel = (/** @type {Subject} */ on) => isLive(on) && on.isModel

/** @param {Record<string, any>} properties @param {string[]} [required] */
const fields = (properties, required = []) => ({ type: 'object', required, properties })
/** @param {string} verb @returns {Verb['act']} */
const send = (verb) => (on, value) => post(path`runs/${on.id}/` + verb, value)

/** @type {Verb[]} */
const VERBS = [
  {
    title: 'Priority', text: 'One point is worth a minute of waiting.', when: isLive, schema: fields({ priority: { type: 'integer', title: 'Priority' } }, ['priority']),
    value: (run) => ({ priority: run.priority }), act: send('prioritise'),
  },
  { title: 'Release', text: 'Ends the delay, the retry or the wait of the run now.', when: (on) => isLive(on) && (on.run.waits.length > 0 || on.run.wake_at), schema: fields({ step: { type: 'string', title: 'Step', description: 'empty: the only one that waits' } }), act: send('release') },
  { title: 'Revoke', text: 'The worker that holds the run loses it; another worker takes it over.', when: (on) => isLive(on) && on.run.session_id, schema: fields({ reason: REASON }), act: send('revoke') },
  {
    title: 'Override', text: 'The run ends now by your decision, without its remaining steps and without compensation.', when: isLive, danger: true, typed: true,
    schema: fields({ reason: REASON, failed: { type: 'boolean', title: 'It has failed' }, result: { title: 'Result', description: 'of a run that has not failed' } }, ['reason']), act: send('override'),
  },
  { title: 'Cancel at once', text: 'The run and its children end at once. Completed steps are not compensated.', when: isLive, danger: true, typed: true, schema: fields({ reason: REASON }), act: (on, value) => post(path`runs/${on.id}/cancel`, { ...value, force: true }) },
  {
    title: 'Tags', text: 'An empty value removes a tag.', when: (on) => on.may('operate'), schema: fields({ name: { type: 'string', title: 'Name' }, value: { type: 'string', title: 'Value' } }, ['name']),
    act: (on, { name, value }) => patch(path`runs/${on.id}/tags`, { tags: { [name ?? '']: value ?? null } }),
  },
  { title: 'Suspend', text: 'The tokens of the run stay where they are until it is resumed.', when: isLiveModel, schema: fields({ reason: REASON }), act: send('tokens/suspend') },
  { title: 'Resume tokens', text: 'The tokens of a suspended run move again.', when: isLiveModel, schema: fields({ reason: REASON }), act: send('tokens/resume') },
  { title: 'Trigger', text: 'An event that waits happens now.', when: isLiveModel, schema: fields({ element: { type: 'string', title: 'Element' } }, ['element']), act: send('trigger') },
  { title: 'Start an activity', text: 'An activity of an ad-hoc sub-process begins.', when: isLiveModel, schema: fields({ scope: { type: 'string', title: 'Sub-process' }, activity: { type: 'string', title: 'Activity' } }, ['scope', 'activity']), act: send('activities') },
  { title: 'Variables', text: 'The variables of the run, or of one element, get new values. The others stay.', when: isLiveModel, schema: fields({ variables: { title: 'Variables', description: 'a JSON object' }, element: { type: 'string', title: 'Element' } }, ['variables']), act: send('variables') },
  { title: 'Delete', text: 'The run, its children and their histories are deleted for ever.', when: (on) => on.isFinal && on.may('admin'), danger: true, typed: true, act: (on) => remove(path`runs/${on.id}`).then(on.gone) },
]

/** Return the buttons of the verbs that apply to a run. @param {Subject} on */
export function verbButtons(on) {
  return [
    VERBS.filter((verb) => verb.when(on)).map((verb) => button({ key: verb.title, class: verb.danger ? 'danger' : null, onclick: (/** @type {any} */ event) => { event.target.closest('details').open = false; begin(verb, on) } }, verb.title)),
    on.may('operate') && a({ key: 'export', class: 'button', href: urlOf(path`runs/${on.id}/export`).href, download: '' }, 'Export'),
  ]
}

/** @param {Verb} verb @param {Subject} on */
function begin(verb, on) {
  ask({
    title: `${verb.title}: ${on.id}`, text: verb.text, verb: verb.title, danger: verb.danger, type: verb.typed ? on.id : undefined,
    schema: verb.schema, value: verb.value?.(on.run),
    act: async (value) => {
      await verb.act(on, value)
      on.done()
    },
  })
}
