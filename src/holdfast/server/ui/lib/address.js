/**
 * Addresses of the UI: the part of the URL after `#`, such as `#/runs?status=failed`.
 *
 * The fragment works below any mount prefix without a route of the server, and every state has an address:
 * the screen, its subject, filters, the selected step and unfolded rows.
 *
 * @typedef {{path: string[], query: Record<string, string>}} Address
 */

/** @param {string} hash @returns {Address} */
export function parseAddress(hash) {
  const text = hash.replace(/^#\/?/, '')
  const mark = text.indexOf('?')
  const path = (mark < 0 ? text : text.slice(0, mark)).split('/').filter(Boolean).map(decoded)
  const query = Object.fromEntries(new URLSearchParams(mark < 0 ? '' : text.slice(mark + 1)))
  return { path, query }
}

/** @param {string[]} path @param {Record<string, any>} [query] @returns {string} */
export function addressOf(path, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value != null && value !== '' && value !== false)
  const search = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString()
  return '#/' + path.map(encodeURIComponent).join('/') + (search ? '?' + search : '')
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part)
  } catch {
    return part // an address that a person typed may have a lone percent sign
  }
}
