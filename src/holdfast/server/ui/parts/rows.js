/**
 * Long lists: only the rows near the visible part of the page are in the document. Two spacers take the place of the
 * others, so that the page scrolls as if all rows were there.
 *
 * Rows may have different heights: the rows on the screen are measured, the others count as the average.
 */

import { tags } from '../lib/view.js'

const { div, li, td, tr } = tags

/** Shorter lists are shown whole. */
const WHOLE = 40
/** How far beyond the window rows are shown, in pixels. */
const MARGIN = 600

/** @type {Set<RowWindow>} */
const windows = new Set()
let frame = 0
let numbers = 0

function follow() {
  if (frame) return
  frame = requestAnimationFrame(() => {
    frame = 0
    for (const part of windows) part.follow()
  })
}

window.addEventListener('scroll', follow, { passive: true })
window.addEventListener('resize', follow)

export class RowWindow {
  /** @param {() => void} redraw @param {number} height the height of a row that was not measured yet, in pixels */
  constructor(redraw, height = 39) {
    this.redraw = redraw
    this.average = height
    this.id = String(++numbers)
    this.first = 0
    this.last = WHOLE
    /** @type {Map<string, number>} */
    this.heights = new Map()
    /** @type {string[]} */
    this.keys = []
    /** Called when the end of the list comes into sight. @type {(() => void) | null} */
    this.atEnd = null
  }

  /** @param {number} index */
  height(index) {
    return this.heights.get(this.keys[index]) ?? this.average
  }

  /** @param {number} from @param {number} to */
  sum(from, to) {
    let total = 0
    for (let index = from; index < to; index += 1) total += this.height(index)
    return total
  }

  /**
   * Return the rows near the visible part, between two spacers.
   * @param {string[]} keys @param {(index: number) => any} row
   * @param {(height: number, id: string | null) => any} spacer
   */
  view(keys, row, spacer) {
    this.keys = keys
    if (keys.length <= WHOLE) return keys.map((_, index) => row(index))
    if (!windows.has(this)) follow()
    windows.add(this)
    const last = Math.min(this.last, keys.length)
    const first = Math.max(0, Math.min(this.first, last - 1))
    const rows = []
    for (let index = first; index < last; index += 1) rows.push(row(index))
    return [spacer(this.sum(0, first), this.id), rows, spacer(this.sum(last, keys.length), null)]
  }

  /** Show the rows that are in sight now. */
  follow() {
    const start = document.querySelector(`[data-window="${this.id}"]`)
    if (!start) return windows.delete(this)
    this.measure(start.parentElement)
    const top = -start.getBoundingClientRect().top - MARGIN
    const bottom = top + window.innerHeight + 2 * MARGIN
    let first = 0
    let place = 0
    while (first < this.keys.length && place + this.height(first) < top) place += this.height(first++)
    let last = first
    while (last < this.keys.length && place < bottom) place += this.height(last++)
    if (last === this.keys.length) this.atEnd?.()
    if (first === this.first && last === this.last) return
    this.first = first
    this.last = last
    this.redraw()
  }

  /** @param {Element | null} parent */
  measure(parent) {
    for (const node of parent?.querySelectorAll(':scope > [data-row]') ?? []) {
      const { height } = node.getBoundingClientRect()
      if (height) this.heights.set(/** @type {HTMLElement} */ (node).dataset.row ?? '', height)
    }
    if (!this.heights.size) return
    let total = 0
    for (const height of this.heights.values()) total += height
    this.average = total / this.heights.size
  }

  /** Scroll so that a row is in sight. @param {number} index */
  reveal(index) {
    const start = document.querySelector(`[data-window="${this.id}"]`)
    if (!start) return
    const top = start.getBoundingClientRect().top + this.sum(0, index)
    if (top < 0) window.scrollBy(0, top - 120)
    else if (top + this.height(index) > window.innerHeight) window.scrollBy(0, top + this.height(index) - window.innerHeight + 120)
  }
}

/** The place of rows of a table that are not in the document. @param {number} height @param {string | null} id */
export function rowSpacer(height, id) {
  return tr({ key: id ? 'above' : 'below', class: 'spacer', 'aria-hidden': 'true', 'data-window': id }, td({ colspan: 99, style: { height: `${Math.round(height)}px` } }))
}

/** The place of items of a list. @param {number} height @param {string | null} id */
export function itemSpacer(height, id) {
  return li({ key: id ? 'above' : 'below', class: 'spacer', 'aria-hidden': 'true', 'data-window': id, style: { height: `${Math.round(height)}px` } })
}

/** The place of rows of a timeline. @param {number} height @param {string | null} id */
export function lineSpacer(height, id) {
  return div({ key: id ? 'above' : 'below', class: 'spacer', 'aria-hidden': 'true', 'data-window': id, style: { height: `${Math.round(height)}px` } })
}
