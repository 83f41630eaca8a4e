/**
 * Forms from a JSON Schema: text, number, date, choice, switch, list and nested objects.
 *
 * A schema that the form cannot draw becomes a text field for JSON, so that every value can be entered.
 */

import { exactNumber, exactText, parseExact } from '../lib/exact.js'
import { tags } from '../lib/view.js'

const { button, div, fieldset, input, label, legend, option, select, span, textarea } = tags

/** @typedef {(value: any) => void} Change */
/** Changes a part of the value by a function of what it is. @typedef {(edit: (value: any) => any) => void} Edit */

/** References deeper than this are not followed: a schema may contain itself. The rest is entered as JSON. */
const DEEPEST = 8

/**
 * Draw the form of a schema.
 * @param {any} schema @param {any} value @param {Change} change
 * @param {Record<string, string>} [wrong] messages by the path of a field
 */
export function formView(schema, value, change, wrong = {}) {
  let latest = value // several fields may change before the form is drawn again
  const edit = (/** @type {(value: any) => any} */ changed) => { latest = changed(latest); change(latest) }
  return fieldsOf(plain(schema, schema), value, edit, wrong, '')
}

/**
 * Return a part of a schema without references, and with the only alternative to null in place of both.
 * @param {any} part @param {any} root @param {number} [depth]
 * @returns {any}
 */
function plain(part, root, depth = 0) {
  if (!part || typeof part !== 'object') return part
  if (depth > DEEPEST) return {}
  if (typeof part.$ref === 'string') {
    const target = part.$ref.split('/').slice(1).reduce((/** @type {any} */ at, /** @type {string} */ name) => at?.[name.replaceAll('~1', '/').replaceAll('~0', '~')], root)
    const { title: _, ...rest } = target ?? {} // the name of the type says less than the name of the field
    const { $ref: __, ...own } = part
    return plain({ ...rest, ...own }, root, depth + 1)
  }
  const others = (part.anyOf ?? part.oneOf ?? []).filter((/** @type {any} */ one) => one?.type !== 'null')
  if (others.length === 1) {
    const { anyOf: _, oneOf: __, ...own } = part
    return plain({ ...others[0], ...own }, root, depth + 1)
  }
  const inner = (/** @type {any} */ one) => plain(one, root, depth + 1)
  return {
    ...part,
    ...(part.properties && { properties: Object.fromEntries(Object.entries(part.properties).map(([name, one]) => [name, inner(one)])) }),
    ...(part.items && { items: inner(part.items) }),
  }
}

/**
 * @param {any} schema @param {any} value @param {Edit} edit
 * @param {Record<string, string>} wrong @param {string} path
 * @returns {any}
 */
function fieldsOf(schema, value, edit, wrong, path) {
  const kind = kindOf(schema)
  if (kind === 'object') {
    const required = new Set(schema.required ?? [])
    return Object.entries(schema.properties).map(([name, part]) => {
      const place = path ? `${path}.${name}` : name
      const inside = (/** @type {(value: any) => any} */ changed) => edit((whole) => ({ ...whole, [name]: changed(whole?.[name]) }))
      return field(name, part, value?.[name], inside, wrong, place, required.has(name))
    })
  }
  return field(schema.title ?? 'value', schema, value, edit, wrong, path, true)
}

/**
 * @param {string} name @param {any} schema @param {any} value @param {Edit} edit
 * @param {Record<string, string>} wrong @param {string} path @param {boolean} required
 * @returns {any}
 */
function field(name, schema, value, edit, wrong, path, required) {
  const title = (schema.title ?? name) + (required ? '' : ' (optional)')
  const kind = kindOf(schema)
  const message = wrong[path] && div({ class: 'wrong', role: 'alert' }, wrong[path])
  const hint = schema.description && span({ class: 'soft' }, schema.description)
  if (kind === 'object') {
    return fieldset({ key: path, class: 'field' }, legend(title), hint, fieldsOf(schema, value ?? {}, edit, wrong, path), message)
  }
  if (kind === 'boolean') {
    return div({ key: path, class: 'field' },
      label({ class: 'inline' }, input({ type: 'checkbox', checked: Boolean(value), onchange: (/** @type {any} */ event) => edit(() => event.target.checked) }), title),
      hint, message)
  }
  if (kind === 'array') return listField(title, schema, value ?? [], edit, wrong, path, message)
  return div({ key: path, class: 'field' }, label(title, hint, control(kind, schema, value, edit)), message)
}

/**
 * @param {string} kind @param {any} schema @param {any} value @param {Edit} edit
 */
function control(kind, schema, value, edit) {
  const changed = (/** @type {any} */ event) => edit(() => (event.target.value === '' ? undefined : event.target.value))
  if (kind === 'choice') {
    return select({ value: value ?? '', onchange: changed },
      option({ value: '' }, 'choose …'), schema.enum.map((/** @type {any} */ choice) => option({ value: String(choice) }, String(choice))))
  }
  if (kind === 'json') {
    const text = typeof value === 'string' ? value : value === undefined ? '' : exactText(value)
    return textarea({ value: text, spellcheck: 'false', oninput: changed, placeholder: 'JSON' })
  }
  const types = { number: 'text', integer: 'text', date: 'date', 'date-time': 'datetime-local', email: 'email', string: 'text' }
  return input({
    type: types[/** @type {keyof typeof types} */ (kind)] ?? 'text', value: value ?? '', oninput: changed, autocomplete: 'off',
    inputmode: kind === 'number' || kind === 'integer' ? 'decimal' : null, maxlength: schema.maxLength ?? null,
  })
}

/**
 * @param {string} title @param {any} schema @param {any[]} value @param {Edit} edit
 * @param {Record<string, string>} wrong @param {string} path @param {any} message
 * @returns {any}
 */
function listField(title, schema, value, edit, wrong, path, message) {
  const items = schema.items ?? {}
  const inside = (/** @type {number} */ index) => (/** @type {(value: any) => any} */ changed) =>
    edit((list = []) => list.map((/** @type {any} */ item, /** @type {number} */ at) => (at === index ? changed(item) : item)))
  return fieldset({ key: path, class: 'field' }, legend(title),
    value.map((item, index) => div({ key: index, class: 'row' },
      div({ class: 'grow' }, field(`${index + 1}`, items, item, inside(index), wrong, `${path}.${index}`, true)),
      button({ type: 'button', onclick: () => edit((list = []) => list.filter((/** @type {any} */ _, /** @type {number} */ at) => at !== index)) }, 'Remove'))),
    button({ type: 'button', onclick: () => edit((list = []) => [...list, undefined]) }, 'Add'), message)
}

/** @param {any} schema */
function kindOf(schema) {
  if (!schema || typeof schema !== 'object') return 'json'
  if (Array.isArray(schema.enum)) return 'choice'
  const type = Array.isArray(schema.type) ? schema.type.find((/** @type {string} */ one) => one !== 'null') : schema.type
  if (type === 'object') return schema.properties ? 'object' : 'json'
  if (type === 'string') return ['date', 'date-time', 'email'].includes(schema.format) ? schema.format : 'string'
  return ['number', 'integer', 'boolean', 'array'].includes(type) ? type : 'json'
}

/**
 * Return the typed texts as the value that the server expects. The server judges it; here nothing is refused.
 * @param {any} schema @param {any} typed
 */
export function valueOf(schema, typed) {
  const whole = plain(schema, schema)
  return typedValue(whole, typed === undefined && kindOf(whole) === 'object' ? {} : typed)
}

/**
 * @param {any} schema @param {any} typed
 * @returns {any}
 */
function typedValue(schema, typed) {
  const kind = kindOf(schema)
  if (typed === undefined) return undefined
  if (kind === 'object') {
    const value = Object.entries(schema.properties).map(([name, part]) => [name, typedValue(part, typed?.[name])])
    return Object.fromEntries(value.filter(([, part]) => part !== undefined))
  }
  if (kind === 'array') return typed.map((/** @type {any} */ item) => typedValue(schema.items ?? {}, item))
  if (kind === 'number' || kind === 'integer') return numberOf(typed)
  if (kind === 'choice') return schema.enum.find((/** @type {any} */ choice) => String(choice) === String(typed)) ?? typed
  return kind === 'json' ? parsed(typed) : typed
}

/** @param {any} typed */
function numberOf(typed) {
  return typeof typed === 'string' ? exactNumber(typed) : typed
}

/** Return JSON text as its value, and any other text as a text. @param {any} typed */
function parsed(typed) {
  if (typeof typed !== 'string') return typed
  try {
    return parseExact(typed)
  } catch {
    return typed
  }
}
