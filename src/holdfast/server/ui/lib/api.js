/**
 * Reading and writing over the HTTP API: the only file that calls `fetch`.
 *
 * All URLs are relative to the page, so that the UI works below any mount prefix. A refusal is a `Problem`
 * with the title, detail and remedy that the server sent.
 */

import { exactText, parseExact } from './exact.js'
import { clock } from './format.js'

const ROOT = new URL('../../api/v1/', import.meta.url)

/** A refusal of the server, or a server that does not answer. */
export class Problem extends Error {
  /** @param {number} status 0 if there was no answer @param {Record<string, any>} body */
  constructor(status, body) {
    super(body.detail || body.title || `The server answered ${status}.`)
    this.status = status
    this.title = body.title || ''
    this.detail = body.detail || ''
    this.remedy = body.remedy || ''
    this.facts = body.facts || {}
    this.kind = String(body.type || '').split('/').pop() || ''
  }
}

/** What the UI knows about its connection; the shell shows it. */
export const connection = {
  /** When data was last read, in milliseconds of this computer. */
  readAt: 0,
  /** @type {Problem | null} */
  problem: null,
  needsLogin: false,
  /** @type {(() => void)} */
  changed: () => {},
}

/** @param {string} path @param {Record<string, any>} [query] @returns {URL} */
export function urlOf(path, query = {}) {
  const url = new URL(path, ROOT)
  for (const [name, value] of Object.entries(query)) {
    for (const part of Array.isArray(value) ? value : [value]) {
      if (part != null && part !== '') url.searchParams.append(name, String(part))
    }
  }
  return url
}

/** Return a path with its parts encoded. @param {TemplateStringsArray} texts @param {...any} parts */
export function path(texts, ...parts) {
  return texts.reduce((whole, text, index) => whole + encodeURIComponent(String(parts[index - 1])) + text)
}

/** @param {string} target @param {Record<string, any>} [query] @param {AbortSignal} [signal] @returns {Promise<any>} */
export function get(target, query, signal) {
  return send('GET', urlOf(target, query), undefined, signal)
}

/** @param {string} target @param {any} [body] @param {Record<string, any>} [query] @returns {Promise<any>} */
export function post(target, body = {}, query) {
  return send('POST', urlOf(target, query), body)
}

/** @param {string} target @param {any} body @returns {Promise<any>} */
export function put(target, body) {
  return send('PUT', urlOf(target), body)
}

/** @param {string} target @param {any} body @returns {Promise<any>} */
export function patch(target, body) {
  return send('PATCH', urlOf(target), body)
}

/** @param {string} target @returns {Promise<any>} */
export function remove(target) {
  return send('DELETE', urlOf(target))
}

/** @param {string} method @param {URL} url @param {any} [body] @param {AbortSignal} [signal] */
async function send(method, url, body, signal) {
  const answer = await answerOf(method, url, body, signal)
  const text = await answer.text()
  note(answer)
  if (!answer.ok) throw refusal(answer, text)
  connection.needsLogin = false
  connection.problem = null
  return text ? parseExact(text) : null
}

/** @param {string} method @param {URL} url @param {any} body @param {AbortSignal} [signal] */
async function answerOf(method, url, body, signal) {
  try {
    return await fetch(url, {
      method,
      signal,
      credentials: 'same-origin',
      // The server accepts changes with a cookie only as JSON, which another site cannot send; this includes DELETE.
      headers: method === 'GET' ? {} : { 'Content-Type': 'application/json' },
      body: body === undefined ? undefined : exactText(body, 0),
    })
  } catch (error) {
    if (signal?.aborted) throw error
    const problem = new Problem(0, {
      title: 'The server does not answer.',
      remedy: 'The page tries again by itself. If the server has stopped, start `holdfast serve` again.',
    })
    connection.problem = problem
    connection.changed()
    throw problem
  }
}

/** @param {Response} answer */
function note(answer) {
  connection.readAt = Date.now()
  const sent = Date.parse(answer.headers.get('Date') ?? '')
  // The header has whole seconds: a difference below two seconds says nothing.
  if (!Number.isNaN(sent) && Math.abs(sent - Date.now()) > 2000) clock.ahead = sent - Date.now()
}

/** Return whether the server has another version of this page. */
export async function isOutdated() {
  const own = new URL('..', import.meta.url).pathname.split('/').at(-2)
  try {
    const page = await (await fetch(new URL('../../', import.meta.url), { cache: 'no-store' })).text()
    const [, current] = page.match(/"([^"/]+)\/app\.js"/) ?? []
    return Boolean(current) && current !== own
  } catch {
    return false // the problem of the connection is shown elsewhere
  }
}

/** @param {Response} answer @param {string} text */
function refusal(answer, text) {
  let body = {}
  try {
    body = JSON.parse(text)
  } catch {
    body = { title: `The server answered ${answer.status} ${answer.statusText}.` }
  }
  const problem = new Problem(answer.status, body)
  if (answer.status === 401) {
    connection.needsLogin = true
    connection.changed()
  }
  return problem
}
