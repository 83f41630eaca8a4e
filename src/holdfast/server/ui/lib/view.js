/**
 * The view layer: elements as plain data, and a page that follows them.
 *
 * A view is a function from state to elements. `show` changes the page so that it agrees with them, and keeps
 * the nodes that fit: focus, selection, scroll positions and the text in a field stay. Text is only ever text:
 * nothing in this file, or in any other file of the UI, parses markup.
 *
 * @typedef {{tag: string, props: Record<string, any>, kids: View[]}} ElementView
 * @typedef {ElementView | string | number} View
 * @typedef {View | null | undefined | false | Views[]} Views
 * @typedef {(...args: any[]) => ElementView} Tag
 */

const SVG = 'http://www.w3.org/2000/svg'

/**
 * Elements by name: `tags.div({class: 'x', onclick}, 'text', tags.b('bold'))`. The properties may be left out.
 * @type {Record<string, Tag>}
 */
export const tags = new Proxy({}, {
  get: (_, tag) => (/** @type {any[]} */ ...args) => {
    const hasProps = args[0]?.constructor === Object && !('tag' in args[0])
    return { tag, props: hasProps ? args[0] : {}, kids: flat(hasProps ? args.slice(1) : args) }
  },
})

/**
 * Make the children of *parent* agree with *wanted*. Elements with a `key` are found by it wherever they are;
 * the others are matched by their position.
 * @param {any} parent
 * @param {Views} wanted
 */
export function show(parent, wanted) {
  agree(parent, flat([wanted]))
}

/** @param {any} parent @param {View[]} views */
function agree(parent, views) {
  const only = parent.firstChild
  // Most elements of a table have one text.
  if (views.length === 1 && typeof views[0] !== 'object' && only?.nodeType === Node.TEXT_NODE && !only.nextSibling) return update(only, views[0])
  const keyed = new Map()
  for (let node = only; node; node = node.nextSibling) if (node.view?.props?.key != null) keyed.set(node.view.props.key, node)
  const wantedKeys = keyed.size ? new Set(views.map((view) => (typeof view === 'object' ? view.props.key : null))) : null
  let next = parent.firstChild
  for (const view of views) {
    // Nodes that go are removed first: the others need not move, and a node that moves loses the focus.
    while (wantedKeys && next?.view?.props?.key != null && !wantedKeys.has(next.view.props.key)) {
      const gone = next
      next = next.nextSibling
      gone.remove()
    }
    const key = typeof view === 'object' ? view.props.key : null
    const known = key == null ? next : keyed.get(key)
    const node = known && fits(known, view) ? known : created(view, parent)
    if (node === next) next = next.nextSibling
    else parent.insertBefore(node, next)
    update(node, view)
  }
  while (next) {
    const after = next.nextSibling
    next.remove()
    next = after
  }
}

/** @param {Views[]} views @returns {View[]} */
function flat(views) {
  return /** @type {any[]} */ (/** @type {any[]} */ (views).flat(Infinity)).filter((view) => view != null && view !== false && view !== '')
}

/** @param {any} node @param {View} view */
function fits(node, view) {
  if (typeof view !== 'object') return node.nodeType === Node.TEXT_NODE
  return node.view?.tag === view.tag && node.view.props.key === view.props.key
}

/** @param {View} view @param {any} parent */
function created(view, parent) {
  if (typeof view !== 'object') return document.createTextNode('')
  const inSvg = view.tag === 'svg' || (parent.namespaceURI === SVG && parent.localName !== 'foreignObject')
  return inSvg ? document.createElementNS(SVG, view.tag) : document.createElement(view.tag)
}

/** @param {any} node @param {View} view */
function update(node, view) {
  if (typeof view !== 'object') {
    if (node.data !== String(view)) node.data = String(view)
    return
  }
  const before = node.view?.props ?? {}
  node.view = view
  for (const name in before) if (!(name in view.props)) setProperty(node, name, null)
  for (const name in view.props) if (before[name] !== view.props[name]) setProperty(node, name, view.props[name])
  agree(node, view.kids)
  if (!('value' in view.props) && !('checked' in view.props)) return
  // A select has its options only now, and a field takes its value last.
  for (const name of ['value', 'checked']) {
    if (name in view.props && node[name] !== view.props[name] && !(isTyped(node, name) && before[name] === view.props[name])) {
      node[name] = view.props[name] ?? ''
    }
  }
}

/** Whether a person is typing into a field: a view that has not changed must not take the text away. @param {any} node @param {string} name */
function isTyped(node, name) {
  return name === 'value' && node === document.activeElement && (node.localName === 'input' || node.localName === 'textarea')
}

/** @param {any} node @param {string} name @param {any} value */
function setProperty(node, name, value) {
  if (name === 'key' || name === 'value' || name === 'checked') return
  if (name.startsWith('on')) node[name] = value ?? null
  // The policy of the page forbids style attributes; single properties may be set by scripts.
  else if (name === 'style') for (const rule in value ?? {}) node.style.setProperty(rule, value[rule])
  else if (value == null || value === false) node.removeAttribute(name)
  else node.setAttribute(name, value === true ? '' : value)
}
