/**
 * The diagram: one drawing for every kind of workflow. The server sends nodes with their places and edges with
 * their corners (`views/diagram.py`); this file draws them, and lets a person pan, zoom and select.
 *
 * A table below the drawing has the same facts for people who do not see it.
 */

import { plural } from '../lib/format.js'
import { tags } from '../lib/view.js'
import { state } from './common.js'

const { button, circle, defs, details, div, g, marker, path, rect, summary, svg, table, tbody, td, text, th, thead, tr } = tags

/** @typedef {{x: number, y: number, width: number, height: number}} Box */

const FRAMES = ['box', 'lane']
const ACTIVE = ['failed', 'running', 'waiting']

/** The smallest scale at which a diagram is shown unless a person asks for it. */
const READABLE = 0.6
/** The height of a diagram in the page, in pixels, as in the style sheet. */
const HIGHEST = 480

const ICONS = {
  message: 'M-7-5h14v10h-14zl7 6 7-6', timer: 'M0-7a7 7 0 1 0 .1 0M0-4v4l3 2', signal: 'M0-6l6 10h-12z',
  error: 'M-6 6l3-12 4 7 4-7', terminate: 'M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0', parallel: 'M-8 0H8M0-8V8',
  exclusive: 'M-6-7L6 7M6-7L-6 7', inclusive: 'M-7 0a7 7 0 1 0 14 0a7 7 0 1 0-14 0', event: 'M0-8l8 6-3 9h-10l-3-9z',
  compensation: 'M0-5v10l-7-5zM7-5v10L0 0z', escalation: 'M0-7l5 13-5-5-5 5z', link: 'M-6-3h6v-4l7 7-7 7v-4h-6z',
  conditional: 'M-5-6h10v12h-10zM-3-3h6M-3 0h6M-3 3h6', cancel: 'M-5-5L5 5M5-5L-5 5',
}

/** How a person has moved the drawing. */
export class Viewport {
  constructor() {
    /** @type {Box | null} */
    this.box = null
    /** The part of a large drawing that is shown at first. @type {Box | null} */
    this.start = null
    /** Whether a person wants to see the whole drawing, however small its text is. */
    this.isWhole = false
    /** The whole drawing, as it was drawn last. @type {Box | null} */
    this.whole = null
    /** The boxes of a large diagram that a person has unfolded; `*`: all. @type {string[]} */
    this.opened = []
  }

  /** Show the whole drawing. */
  fit() {
    this.box = null
    this.isWhole = true
  }

  /** Show the part that is shown at first, because the drawing has become another one. */
  reset() {
    this.box = null
    this.start = null
    this.isWhole = false
  }

  /** Return the part that is in sight. @param {Box} whole @param {any[]} nodes */
  shown(whole, nodes) {
    this.whole = whole
    if (!this.isWhole) this.start ??= readablePart(whole, nodes)
    return this.box ?? (this.isWhole ? whole : this.start ?? whole)
  }

  /** Show a part of another size around the same centre. @param {number} factor */
  zoom(factor) {
    const box = this.box ?? (this.isWhole ? null : this.start) ?? this.whole
    if (!box) return
    const width = box.width * factor
    const height = box.height * factor
    this.box = { x: box.x + (box.width - width) / 2, y: box.y + (box.height - height) / 2, width, height }
  }

  /** Move the visible part by tenths of its size. @param {number} right @param {number} down */
  pan(right, down) {
    const box = this.box ?? (this.isWhole ? null : this.start) ?? this.whole
    if (box) this.box = { ...box, x: box.x + (box.width * right) / 10, y: box.y + (box.height * down) / 10 }
  }
}

/** The keys of a screen with a diagram. @param {Viewport} viewport @param {() => void} redraw @returns {import('../lib/keys.js').KeyBinding[]} */
export function diagramKeys(viewport, redraw) {
  const key = (/** @type {string} */ keys, /** @type {string} */ text, /** @type {() => void} */ change) => ({ keys, text, run: () => { change(); redraw() } })
  return [
    key('f', 'Fit the diagram', () => viewport.fit()),
    key('+', 'Zoom in', () => viewport.zoom(0.8)), key('-', 'Zoom out', () => viewport.zoom(1.25)),
    key('H', 'Move the diagram to the left', () => viewport.pan(-1, 0)), key('L', 'Move the diagram to the right', () => viewport.pan(1, 0)),
    key('K', 'Move the diagram up', () => viewport.pan(0, -1)), key('J', 'Move the diagram down', () => viewport.pan(0, 1)),
  ]
}

/**
 * @param {any} diagram @param {Viewport} viewport
 * @param {{selected: string | null, pick: (node: any) => void, redraw: () => void, reread?: () => void}} options
 *   `reread` reads a diagram again whose boxes were folded or unfolded
 */
export function diagramView(diagram, viewport, { selected, pick, redraw, reread }) {
  const nodes = diagram.nodes.filter((/** @type {any} */ node) => node.at)
  const unfold = (/** @type {string[]} */ boxes) => { viewport.opened = boxes; viewport.reset(); reread?.() }
  const open = (/** @type {any} */ node) => (node.folded && reread ? unfold([...viewport.opened, node.id]) : pick(node))
  const hidden = nodes.reduce((/** @type {number} */ sum, /** @type {any} */ node) => sum + (node.folded ?? 0), 0)
  if (!nodes.length) return div({ class: 'empty' }, 'Nothing has been recorded that could be drawn.')
  const ids = new Set(nodes.map((/** @type {any} */ node) => node.id))
  const whole = extent(nodes, diagram.edges)
  const box = viewport.shown(whole, nodes)
  const zoomBy = (/** @type {number} */ factor) => { viewport.zoom(factor); redraw() }
  return [
    svg({
      class: 'diagram', viewBox: `${box.x} ${box.y} ${box.width} ${box.height}`, role: 'group', 'aria-label': 'Diagram of the workflow',
      style: { 'max-width': `${Math.max(320, whole.width * 1.25)}px` },
      onwheel: (/** @type {WheelEvent} */ event) => zoom(event, viewport, box, redraw),
      onpointerdown: (/** @type {PointerEvent} */ event) => drag(event, viewport, box, redraw),
    },
      defs(marker({ id: 'tip', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: 'userSpaceOnUse', orient: 'auto' }, path({ class: 'tip', d: 'M0 0L8 4L0 8z' }))),
      nodes.filter((/** @type {any} */ node) => FRAMES.includes(node.shape)).map(frame),
      diagram.edges.filter((/** @type {any} */ edge) => ids.has(edge.from) && ids.has(edge.to)).map(edgeView),
      nodes.filter((/** @type {any} */ node) => !FRAMES.includes(node.shape)).map((/** @type {any} */ node) => nodeView(node, isSelected(node, selected), open))),
    div({ class: 'row more' },
      button({ class: 'link', 'aria-label': 'zoom in', onclick: () => zoomBy(0.8) }, '+'), button({ class: 'link', 'aria-label': 'zoom out', onclick: () => zoomBy(1.25) }, '−'),
      box !== whole && button({ class: 'link', onclick: () => { viewport.fit(); redraw() } }, 'fit'),
      hidden > 0 && reread && button({ class: 'link', onclick: () => unfold(['*']) }, `unfold ${hidden} more nodes`),
      viewport.opened.length > 0 && button({ class: 'link', onclick: () => unfold([]) }, 'fold boxes'),
      details(summary({ class: 'soft' }, 'as a table'), asTable(diagram))),
  ]
}

/** @param {any} node @param {string | null} selected */
function isSelected(node, selected) {
  return selected != null && (node.id === selected || (node.steps ?? []).includes(selected))
}

/** @param {any[]} nodes @param {any[]} edges @returns {Box} */
function extent(nodes, edges) {
  let [left, top, right, low] = [Infinity, Infinity, -Infinity, -Infinity]
  const reach = (/** @type {number} */ x, /** @type {number} */ y) => {
    left = Math.min(left, x)
    top = Math.min(top, y)
    right = Math.max(right, x)
    low = Math.max(low, y)
  }
  for (const { at } of nodes) { reach(at.x, at.y); reach(at.x + at.width, at.y + at.height + 20) }
  for (const edge of edges) for (const [x, y] of edge.points ?? []) reach(x, y)
  return { x: left - 16, y: top - 16, width: right - left + 32, height: low - top + 32 }
}

/**
 * Return the part of a large drawing to begin with, at a scale at which its text can be read: around the first node at
 * which something happens, else at the start. Null if all of the drawing can be read at once.
 * @param {Box} whole @param {any[]} nodes @returns {Box | null}
 */
function readablePart(whole, nodes) {
  const room = document.querySelector('main')?.clientWidth ?? 1000
  const width = Math.min(whole.width, room / READABLE)
  const height = Math.min(whole.height, HIGHEST / READABLE)
  if (width >= whole.width && height >= whole.height) return null
  const active = nodes.filter((node) => ACTIVE.includes(node.state) && !FRAMES.includes(node.shape))
  const { at } = active[0] ?? nodes.reduce((first, node) => (node.at.x < first.at.x ? node : first))
  const within = (/** @type {number} */ middle, /** @type {number} */ size, /** @type {number} */ from, /** @type {number} */ all) => Math.max(from, Math.min(middle - size / 2, from + all - size))
  return { x: within(at.x + at.width / 2, width, whole.x, whole.width), y: within(at.y + at.height / 2, height, whole.y, whole.height), width, height }
}

/** @param {any} node */
function frame(node) {
  return g({ key: node.id },
    rect({ class: `frame ${(node.state ?? 'not reached').replace(' ', '-')}`, x: node.at.x, y: node.at.y, width: node.at.width, height: node.at.height, rx: node.shape === 'box' ? 10 : 0 }),
    node.shape === 'lane' ? upwards(node) : text({ class: 'soft', x: node.at.x + 10, y: node.at.y + 18 }, node.count > 1 ? `${node.label} ×${node.count}` : node.label))
}

/** The label of a lane, at its left side. @param {any} node */
function upwards(node) {
  const x = node.at.x + 19
  const y = node.at.y + node.at.height / 2
  return text({ class: 'soft', x, y, 'text-anchor': 'middle', transform: `rotate(-90 ${x} ${y})` }, node.label)
}

/** @param {any} edge @param {number} index */
function edgeView(edge, index) {
  const points = edge.points ?? []
  if (points.length < 2) return null
  const [x, y] = labelPlace(points)
  return g({ key: `${edge.from} ${edge.to} ${index}` },
    path({ class: `edge ${edge.kind ?? ''}${edge.taken ? ' taken' : ''}`, d: 'M' + points.map((/** @type {number[]} */ point) => point.join(' ')).join('L'), 'marker-end': 'url(#tip)' }),
    edge.label && text({ class: 'soft', x, y }, edge.label.length > 24 ? edge.label.slice(0, 23) + '…' : edge.label))
}

/** The label of an edge is behind its first turn, where it has left the other edges. @param {number[][]} points */
function labelPlace(points) {
  const [[x, y], [, next]] = points
  if (Math.abs(next - y) > 1) return [x + 4, (y + next) / 2 + 4]
  if (points.length >= 4 && points[2][0] < points[3][0]) return [points[2][0] + 4, points[2][1] - 5]
  return [x + 4, y - 5]
}

/** @param {any} node @param {boolean} chosen @param {(node: any) => void} pick */
function nodeView(node, chosen, pick) {
  const { x, y, width, height } = node.at
  const middle = x + width / 2
  const centre = y + height / 2
  const name = node.label || node.icon || node.id
  const inside = !['event', 'gateway'].includes(node.shape)
  const isAbove = node.shape === 'gateway' // edges leave it below
  const status = node.state ?? 'not reached'
  const label = `${name}${node.count > 1 ? ` ×${node.count}` : ''}, ${status}${node.folded ? `, folded, ${node.folded} nodes` : ''}${node.tokens ? `, ${plural(node.tokens, 'instance')} here` : ''}${node.incidents ? `, ${plural(node.incidents, 'incident')}` : ''}`
  return g({
    key: node.id, class: `node ${node.shape} ${status.replace(' ', '-')}${chosen ? ' selected' : ''}`, tabindex: 0, role: 'button', 'aria-label': label, 'aria-pressed': String(chosen),
    onclick: () => pick(node),
    onkeydown: (/** @type {KeyboardEvent} */ event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); pick(node) } },
  },
    outline(node, middle, centre),
    ICONS[/** @type {keyof typeof ICONS} */ (node.icon)] && path({ class: 'icon', d: ICONS[/** @type {keyof typeof ICONS} */ (node.icon)], transform: inside ? `translate(${x + 14} ${y + 14}) scale(.7)` : `translate(${middle} ${centre})` }),
    lines(inside ? name : node.label ?? '', inside ? width / 7.2 : 18).map((line, index, all) => text({
      key: `line ${index}`, x: middle, y: inside ? centre + 4.5 + (index - (all.length - 1) / 2) * 15 : isAbove ? y - 7 - (all.length - 1 - index) * 14 : y + height + 14 + index * 14, 'text-anchor': 'middle',
    }, line)),
    node.folded > 0 && text({ key: 'folded', class: 'times', x: x + width - 12, y: y + height - 8, 'text-anchor': 'middle' }, `+${node.folded}`),
    node.count > 1 && [rect({ key: 'badge', class: 'badge', x: x + width - 20, y: y - 9, width: 34, height: 18, rx: 9 }), text({ key: 'times', class: 'times', x: x + width - 3, y: y + 4, 'text-anchor': 'middle' }, `×${node.count}`)],
    badge(node.tokens, 'instances', x - 14, y + height - 9), badge(node.incidents, 'incidents', x + width - 20, y + height - 9))
}

/** A number at a corner of a node. @param {number | undefined} number @param {string} kind @param {number} x @param {number} y */
function badge(number, kind, x, y) {
  if (!number) return null
  const shown = number > 9999 ? `${Math.floor(number / 1000)}k` : String(number)
  const width = Math.max(22, shown.length * 7 + 12)
  return [rect({ key: kind, class: `badge ${kind}`, x, y, width, height: 18, rx: 9 }), text({ key: `${kind} number`, class: `times ${kind}`, x: x + width / 2, y: y + 13, 'text-anchor': 'middle' }, shown)]
}

/** @param {any} node @param {number} middle @param {number} centre */
function outline(node, middle, centre) {
  const { x, y, width, height } = node.at
  if (node.shape === 'event') return circle({ key: 'shape', class: 'shape', cx: middle, cy: centre, r: width / 2, 'stroke-width': node.icon === 'end' ? 3.5 : null })
  if (node.shape === 'gateway') return path({ key: 'shape', class: 'shape', d: `M${middle} ${y}L${x + width} ${centre}L${middle} ${y + height}L${x} ${centre}z` })
  const corner = { wait: height / 2, gate: 2, run: 8 }[/** @type {string} */ (node.shape)] ?? 8
  return [
    rect({ key: 'shape', class: 'shape', x, y, width, height, rx: corner }),
    node.shape === 'run' && rect({ key: 'inner', class: 'icon', x: x + 4, y: y + 4, width: width - 8, height: height - 8, rx: 5 }),
    node.shape === 'gate' && path({ key: 'inner', class: 'icon', d: `M${x + 8} ${y + 4}h${width - 16}M${x + 8} ${y + height - 4}h${width - 16}` }),
  ]
}

/** Break a name into at most three lines. @param {string} name @param {number} room characters per line */
function lines(name, room) {
  const broken = ['']
  for (const word of String(name).split(/\s+/)) {
    const last = broken[broken.length - 1]
    if (last && (last + ' ' + word).length > room) broken.push(word)
    else broken[broken.length - 1] = (last + ' ' + word).trim()
  }
  return broken.slice(0, 3).map((line) => (line.length > room ? line.slice(0, Math.max(3, room - 1)) + '…' : line))
}

/** @param {WheelEvent} event @param {Viewport} viewport @param {Box} box @param {() => void} redraw */
function zoom(event, viewport, box, redraw) {
  if (!event.ctrlKey) return
  event.preventDefault()
  const factor = event.deltaY > 0 ? 1.15 : 1 / 1.15
  const area = /** @type {Element} */ (event.currentTarget).getBoundingClientRect()
  const x = box.x + ((event.clientX - area.left) / area.width) * box.width
  const y = box.y + ((event.clientY - area.top) / area.height) * box.height
  viewport.box = { x: x - (x - box.x) * factor, y: y - (y - box.y) * factor, width: box.width * factor, height: box.height * factor }
  redraw()
}

/** @param {PointerEvent} event @param {Viewport} viewport @param {Box} box @param {() => void} redraw */
function drag(event, viewport, box, redraw) {
  if (/** @type {Element} */ (event.target).closest('.node')) return
  const element = /** @type {SVGElement} */ (event.currentTarget)
  const area = element.getBoundingClientRect()
  element.setPointerCapture(event.pointerId)
  element.onpointermove = (move) => {
    const scale = box.width / area.width
    viewport.box = { ...box, x: box.x - (move.clientX - event.clientX) * scale, y: box.y - (move.clientY - event.clientY) * scale }
    redraw()
  }
  element.onpointerup = () => { element.onpointermove = null }
  element.onpointercancel = element.onpointerup
}

/** @param {any} diagram */
function asTable(diagram) {
  const hasTokens = diagram.nodes.some((/** @type {any} */ node) => node.tokens)
  return table({ 'aria-label': 'Nodes of the diagram' }, thead(tr(th({ scope: 'col' }, 'Node'), th({ scope: 'col' }, 'Kind'), th({ scope: 'col' }, 'State'), th({ scope: 'col' }, 'Times'), hasTokens && th({ scope: 'col' }, 'Instances here'), th({ scope: 'col' }, 'Leads to'))),
    tbody(diagram.nodes.map((/** @type {any} */ node) => tr({ key: node.id }, td(node.label || node.id), td(node.shape), td(state(node.state ?? 'not reached')), td(String(node.count ?? 1)), hasTokens && td(node.tokens ? [String(node.tokens), node.incidents ? `, ${plural(node.incidents, 'incident')}` : ''] : ''),
      td(diagram.edges.filter((/** @type {any} */ edge) => edge.from === node.id).map((/** @type {any} */ edge) => edge.to).join(', '))))))
}
