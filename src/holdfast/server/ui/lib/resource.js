/** Data that a screen reads: what was read, when, and why it could not be read. */

import { get } from './api.js'

/** The longest time in which changes are not read, in milliseconds. */
const LONGEST_WAIT = 10_000

/** One answer of the server. A second call of `load` replaces a first that is still on its way. */
export class Resource {
  /**
   * @param {() => [string, Record<string, any>?] | null} request the path and the query; null: read nothing
   * @param {() => void} redraw
   */
  constructor(request, redraw) {
    this.request = request
    this.redraw = redraw
    /** @type {any} */
    this.data = null
    /** @type {any} */
    this.problem = null
    this.isLoading = false
    /** @type {AbortController | null} */
    this.reading = null
    /** When the last answer came, and how long it took, in milliseconds. */
    this.readAt = 0
    this.took = 0
    this.later = 0
    /** Whether something has changed since the read that is on its way began. */
    this.isStale = false
  }

  /** Read again after a change. An answer that takes long is read less often, so that the server has nine tenths of its time for others. */
  refresh() {
    if (this.later) return
    // An answer that is on its way is not thrown away: with events all the time, none would ever arrive.
    if (this.reading) {
      this.isStale = true
      return
    }
    const wait = this.readAt + Math.min(9 * this.took, LONGEST_WAIT) - performance.now()
    if (wait <= 0) return this.load()
    this.later = setTimeout(() => { this.later = 0; this.load() }, wait)
  }

  async load() {
    const request = this.request()
    if (!request) return
    this.reading?.abort()
    const reading = new AbortController()
    this.reading = reading
    this.isLoading = true
    this.isStale = false
    const begun = performance.now()
    try {
      this.take(await get(request[0], request[1], reading.signal))
      this.problem = null
    } catch (problem) {
      if (reading.signal.aborted) return
      this.problem = problem
    }
    this.isLoading = false
    this.reading = null
    this.readAt = performance.now()
    this.took = this.problem ? 0 : this.readAt - begun // a server that is gone says nothing about its speed
    this.redraw()
    if (this.isStale) this.refresh()
  }

  /** @param {any} answer */
  take(answer) {
    this.data = answer
  }

  close() {
    this.reading?.abort()
    clearTimeout(this.later)
  }
}

const MOST = 500

/** Return what identifies a row of any list. @param {any} item */
export function keyOf(item) {
  return String(item.key ?? item.id ?? item.seq ?? item.name)
}

/**
 * A list that is read in pages; with a page of 0, a list that is always whole. `load` reads the first rows again, as
 * many as are shown and one answer can have; the rows below them stay as they were read.
 */
export class List extends Resource {
  /**
   * @param {() => [string, Record<string, any>?] | null} request @param {() => void} redraw @param {number} [page]
   * @param {{field?: string, place?: string, number?: string}} [names] the field with the rows, the parameter with the
   *   place to continue from, and the field of a row that is its place, where the server sends none
   */
  constructor(request, redraw, page = 50, { field = 'items', place = 'cursor', number } = {}) {
    super(() => {
      const wanted = request()
      const limit = page ? Math.min(Math.max(this.items.length, page), MOST) : null
      return wanted && [wanted[0], { limit, ...wanted[1] }]
    }, redraw)
    this.base = request
    this.page = page
    this.field = field
    this.place = place
    this.number = number
    this.isReadingMore = false
    /** @type {any[]} */
    this.items = []
    /** @type {string | null} */
    this.next = null
  }

  /** @param {any} answer */
  take(answer) {
    const rows = answer[this.field] ?? answer
    const next = this.nextOf(answer, rows, Math.min(Math.max(this.items.length, this.page), MOST))
    const below = next && this.items.length > rows.length ? this.below(rows) : []
    this.data = answer
    this.items = [...rows, ...below]
    this.next = below.length ? this.next : next
  }

  /** Return the place of the next page; null at the end. @param {any} answer @param {any[]} rows @param {number} limit */
  nextOf(answer, rows, limit) {
    if (!this.number) return answer.next ?? null
    return rows.length && rows.length >= limit ? rows[rows.length - 1][this.number] : null
  }

  /** Return the rows that were read before and come after *rows*. @param {any[]} rows */
  below(rows) {
    const last = rows.length ? keyOf(rows[rows.length - 1]) : null
    const place = this.items.findIndex((item) => keyOf(item) === last)
    if (place >= 0) return this.items.slice(place + 1)
    const shown = new Set(rows.map(keyOf))
    return this.items.filter((item) => !shown.has(keyOf(item)))
  }

  /** Forget the rows, because the filter has changed. */
  clear() {
    this.items = []
    this.next = null
    this.data = null
  }

  async more() {
    const wanted = this.base()
    if (!wanted || !this.next || this.isReadingMore) return
    this.isReadingMore = true
    const limit = Math.min(MOST, this.page * 10)
    try {
      const answer = await get(wanted[0], { ...wanted[1], limit, [this.place]: this.next })
      const rows = answer[this.field] ?? answer
      const shown = new Set(this.items.map(keyOf))
      this.items = [...this.items, ...rows.filter((/** @type {any} */ item) => !shown.has(keyOf(item)))]
      this.next = this.nextOf(answer, rows, limit)
      this.problem = null
    } catch (problem) {
      this.problem = problem
    }
    this.isReadingMore = false
    this.redraw()
  }
}
