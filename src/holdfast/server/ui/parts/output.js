/**
 * The output of a run: its last part, earlier parts on request, and new frames as they are emitted.
 *
 * New frames come by a stream of their own, which is open only while the run lives, the page is visible and the
 * person follows. A person who scrolls up stops following. The document has a bounded part of the output.
 */

import { get, path, urlOf } from '../lib/api.js'
import { brief, count } from '../lib/format.js'
import { tags } from '../lib/view.js'
import { problemBox } from './common.js'

const { a, button, div, h2, span } = tags

const PAGE = 500
/** The frames that are shown; older ones are read again on request. */
const MOST = 2000
const LONGEST = 20_000

export class Output {
  /** @param {string} id @param {any} app */
  constructor(id, app) {
    this.id = id
    this.app = app
    this.isFollowing = true
    /** @type {any[]} */
    this.frames = []
    /** The number of the frame before the first frame on the page. */
    this.before = 0
    /** @type {any} */
    this.problem = null
    /** @type {EventSource | null} */
    this.source = null
    this.isRead = false
    this.isReading = false
    this.sync = this.sync.bind(this)
    document.addEventListener('visibilitychange', this.sync)
  }

  /** Read the last frames; with a stream open, they arrive by themselves. */
  async load() {
    if (this.isReading || this.source) return
    this.isReading = true
    try {
      if (!this.isRead) this.before = await this.lastPart()
      const last = this.frames.at(-1)?.seq ?? this.before
      this.add(await this.read({ after: last, limit: PAGE }))
      this.isRead = true
      this.problem = null
    } catch (problem) {
      this.problem = problem
    }
    this.isReading = false
    this.sync()
    this.app.redraw()
  }

  refresh() {
    return this.load()
  }

  /** Return the number of the frame after which the last page begins. */
  async lastPart() {
    const streams = await get(path`runs/${this.id}/streams`)
    const frames = (streams.items ?? streams).reduce((/** @type {number} */ sum, /** @type {any} */ stream) => sum + stream.frames, 0)
    return Math.max(0, frames - PAGE)
  }

  /** @param {Record<string, any>} query */
  async read(query) {
    const answer = await get(path`runs/${this.id}/output`, query)
    return answer.items ?? answer
  }

  async earlier() {
    const after = Math.max(0, this.before - PAGE)
    try {
      const frames = await this.read({ after, until: this.before, limit: PAGE })
      this.frames = [...frames, ...this.frames].slice(0, MOST)
      this.before = after
      this.isFollowing = false
    } catch (problem) {
      this.problem = problem
    }
    this.sync()
    this.app.redraw()
  }

  /** @param {any[]} frames */
  add(frames) {
    const last = this.frames.at(-1)?.seq ?? 0
    this.frames.push(...frames.filter((frame) => frame.seq > last))
    if (this.frames.length > MOST) {
      this.frames = this.frames.slice(-MOST)
      this.before = this.frames[0].seq - 1
    }
    if (this.isFollowing) requestAnimationFrame(() => requestAnimationFrame(scrollToEnd))
  }

  /** @param {boolean} isFollowing */
  follow(isFollowing) {
    this.isFollowing = isFollowing
    if (isFollowing) {
      this.load()
      requestAnimationFrame(scrollToEnd)
    }
    this.sync()
    this.app.redraw()
  }

  /** Whether the run can still emit frames; the screen says so. */
  isLive = true

  /** Open or close the stream. */
  sync() {
    const wanted = this.isFollowing && this.isLive && this.isRead && !document.hidden && !this.app.live.paused
    if (wanted && !this.source) this.open()
    if (!wanted && this.source) this.shut()
  }

  open() {
    const after = this.frames.at(-1)?.seq ?? this.before
    const source = new EventSource(urlOf(path`runs/${this.id}/output/stream`, { after }))
    this.source = source
    source.onmessage = (message) => {
      this.add([JSON.parse(message.data)])
      this.app.redraw()
    }
    source.addEventListener('end', () => { this.isLive = false; this.shut() })
    source.onerror = () => { if (source.readyState === EventSource.CLOSED) this.shut() }
  }

  shut() {
    this.source?.close()
    this.source = null
  }

  close() {
    this.isLive = false
    this.shut()
    document.removeEventListener('visibilitychange', this.sync)
  }
}

function scrollToEnd() {
  const box = document.querySelector('.output')
  if (box) box.scrollTop = box.scrollHeight
}

/** @param {Output} output */
export function outputView(output) {
  if (!output.frames.length) return output.problem ? [h2('Output'), problemBox(output.problem)] : null
  const scrolled = (/** @type {any} */ event) => {
    const { scrollHeight, scrollTop, clientHeight } = event.target
    if (output.isFollowing && scrollHeight - scrollTop - clientHeight > 60) output.follow(false)
  }
  return [
    h2('Output'),
    problemBox(output.problem),
    div({ class: 'panel' },
      div({ class: 'row more apart' },
        output.before > 0 ? button({ class: 'link', onclick: () => output.earlier() }, `Show earlier output (${count(output.before)} frames)`) : span(),
        div({ class: 'row' },
          output.isLive && button({ role: 'switch', 'aria-checked': String(output.isFollowing), onclick: () => output.follow(!output.isFollowing) }, output.isFollowing ? 'following' : 'follow'),
          a({ class: 'link', href: urlOf(path`runs/${output.id}/output`).href, download: `${output.id}.json` }, 'download'))),
      div({ class: 'output', tabindex: '0', role: 'log', 'aria-label': 'Output of the run', onscroll: scrolled }, parts(output.frames))),
  ]
}

/** Return the frames, with a line where another attempt begins. @param {any[]} frames */
function parts(frames) {
  /** @type {Map<string, number>} */
  const newest = new Map()
  for (const frame of frames) newest.set(frame.step ?? '', Math.max(frame.attempt, newest.get(frame.step ?? '') ?? 0))
  const views = []
  let stream = null
  for (const frame of frames) {
    const isOld = frame.superseded_by != null || frame.attempt < (newest.get(frame.step ?? '') ?? 0)
    if (frame.stream !== stream) {
      stream = frame.stream
      const text = `${frame.step || 'workflow'}, attempt ${frame.attempt}${isOld ? ', superseded' : ''}`
      views.push(div({ key: `stream ${frame.seq}`, class: 'soft' }, text))
    }
    views.push(span({ key: frame.seq, class: isOld ? 'superseded' : frame.kind === 'stderr' ? 'failed' : null }, textOf(frame)))
  }
  return views
}

/** @param {any} frame */
function textOf(frame) {
  const { value } = frame
  if (typeof value !== 'string') return `${frame.name ? `${frame.name}: ` : ''}${brief(value, 2000)}\n`
  const text = value.length > LONGEST ? `${value.slice(0, LONGEST)} … ${count(value.length - LONGEST)} more characters; download to see all\n` : value
  return frame.kind === 'event' ? `${frame.name ? `${frame.name}: ` : ''}${text}\n` : text
}
