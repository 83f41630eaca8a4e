/** Versions: every version of every workflow, its live runs, whether a worker serves it, and what to do if none does. */

import { addressOf } from '../lib/address.js'
import { post } from '../lib/api.js'
import { brief, count, plural } from '../lib/format.js'
import { List } from '../lib/resource.js'
import { tags } from '../lib/view.js'
import { code, listOf, problemBox, runLink, shape, td, tr } from '../parts/common.js'

const { a, button, div, h1, p, span } = tags

/** A verdict as a shape and words. @param {string} colour @param {string} text */
function mark(colour, text) {
  return span({ class: `state ${colour}` }, shape(colour), text)
}

/** @param {any} app */
export function open(app) {
  const workflows = new List(() => ['workflows'], app.redraw)
  workflows.load()
  // A row per version: the list of workflows, flattened.
  const rows = new List(() => null, app.redraw, 0)
  const flatten = () => {
    rows.problem = workflows.problem
    rows.data = workflows.data
    rows.next = workflows.next
    rows.more = () => workflows.more()
    rows.items = workflows.items.flatMap((workflow) => (workflow.versions ?? []).map((/** @type {any} */ version) => ({ ...version, id: `${workflow.name} ${version.version}`, workflow: workflow.name, kind: workflow.kind })))
  }
  /** What the code of the server says about the newest live runs, by workflow and version. @type {Record<string, any> | null} */
  let judged = null
  let isChecking = false
  /** @type {any} */
  let problem = null
  const check = async () => {
    isChecking = true
    app.redraw()
    try {
      const answer = await post('versions/check')
      judged = Object.fromEntries((answer.items ?? answer).map((/** @type {any} */ one) => [`${one.workflow} ${one.version}`, one]))
      problem = null
    } catch (refusal) {
      problem = refusal
    }
    isChecking = false
    app.redraw()
  }
  const upgrade = (/** @type {any} */ row) => {
    const one = judged?.[row.id]
    if (!one) return ''
    if (one.verdict === 'unknown') return [mark('quiet', 'not judged'), ' this server does not have the code']
    if (one.verdict === 'fits') return [mark('completed', 'fits'), ` ${plural(one.judged, 'live run')}`]
    const reasons = Object.entries(one.objections)
    return [mark('failed', 'does not fit'), ` ${reasons.length} of ${plural(one.judged, 'live run')}: `, runLink(reasons[0][0]), ` ${brief(reasons[0][1], 160)}`]
  }
  const verdict = (/** @type {any} */ row) => {
    if (row.served) return mark('completed', 'a worker serves it')
    return row.live ? [mark('failed', 'no worker'), ` ${plural(row.live, 'live run')} ${row.live === 1 ? 'waits' : 'wait'}: start a worker that has this version`] : mark('quiet', 'no run needs it')
  }
  return {
    title: () => 'Versions',
    heard: () => workflows.refresh(),
    close: () => workflows.close(),
    view: () => {
      flatten()
      return [
        div({ class: 'bar' }, h1('Versions'), app.may('operate') && button({ disabled: isChecking, onclick: check }, isChecking ? 'Checking …' : 'Check the live runs')),
        problemBox(problem),
        p({ class: 'soft' }, 'A run keeps the version that it was started with. The check replays the newest live runs of each version with the code of this server and changes nothing; ', code('holdfast check'), ' does it with new code.'),
        listOf(rows, ['Workflow', 'Kind', 'Version', '>Live runs', 'Workers', judged ? 'Upgrade check' : ''], (row) => tr({ key: row.id },
          td({ class: 'line' }, a({ href: addressOf(['workflow', row.workflow]) }, row.workflow)), td(row.kind ?? ''), td({ class: 'line mono' }, row.version),
          td({ class: 'right mono' }, a({ href: addressOf(['runs'], { workflow: row.workflow, version: row.version }) }, count(row.live))), td({ class: 'wide' }, verdict(row)), td({ class: judged ? 'wide' : null }, upgrade(row))), { label: 'Versions', empty: 'No workflow is known: no worker offers one, and no run exists.' }),
      ]
    },
  }
}
