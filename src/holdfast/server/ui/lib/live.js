/**
 * Live updates: one stream of events for the page.
 *
 * An event names a run; the screen reads its rows again, at most twice a second. A hidden tab reads nothing.
 * After a pause, a restart of the server or the sleep of a laptop, the stream continues from its cursor, and the
 * screen reads everything again.
 */

import { connection, urlOf } from './api.js'

const READ_EVERY = 500
const RETRY_AFTER = 2000

/** @typedef {{run_id: string, kind: string, workflow: string, step: string | null}} LiveEvent */

export class Live {
  /** @param {(events: LiveEvent[] | null) => void} heard called with events; null: anything may have changed */
  constructor(heard) {
    this.heard = heard
    this.paused = false
    /** Whether the caller may read events; until it is known, as after a login, it is tried. */
    this.mayListen = true
    this.isOpen = false
    /** Whether the page has caught up after an interruption; shown for a moment. */
    this.caughtUpAt = 0
    /** @type {EventSource | null} */
    this.source = null
    /** @type {LiveEvent[]} */
    this.waiting = []
    this.timer = 0
    this.wasLost = false
    document.addEventListener('visibilitychange', () => this.follow())
  }

  /** Open or close the stream, as the page is visible, live and logged in. */
  follow() {
    const wanted = !document.hidden && !this.paused && !connection.needsLogin && this.mayListen
    if (wanted && !this.source) this.open()
    if (!wanted && this.source) this.close()
  }

  /** @param {boolean} paused */
  pause(paused) {
    this.paused = paused
    this.follow()
  }

  open() {
    // `after=now`: what happened before is read by the screen itself.
    const source = new EventSource(urlOf('events/stream', { after: 'now' }))
    this.source = source
    source.onopen = () => {
      this.isOpen = true
      if (this.wasLost) this.caughtUpAt = Date.now()
      this.wasLost = false
      // Between the last read and the opening of the stream anything may have happened.
      this.heard(null)
    }
    source.onmessage = (message) => this.take(message)
    source.addEventListener('behind', () => this.restart(0))
    source.onerror = () => {
      this.isOpen = false
      this.wasLost = true
      connection.changed()
      if (source.readyState === EventSource.CLOSED) this.restart(RETRY_AFTER)
    }
  }

  /** @param {number} after milliseconds */
  restart(after) {
    this.close()
    setTimeout(() => this.follow(), after)
  }

  close() {
    this.source?.close()
    this.source = null
    this.isOpen = false
    clearTimeout(this.timer)
    this.timer = 0
    this.wasLost = true
  }

  /** @param {MessageEvent} message */
  take(message) {
    try {
      this.waiting.push(JSON.parse(message.data))
    } catch {
      return // a line that this version of the page does not know
    }
    if (!this.timer) this.timer = setTimeout(() => this.deliver(), READ_EVERY)
  }

  deliver() {
    const events = this.waiting
    this.waiting = []
    this.timer = 0
    this.heard(events)
  }
}
