/** Overview: live counts, items that need a person, the oldest ready run, outcomes of the last hour. */

import { addressOf } from '../lib/address.js'
import { between, count, duration, time } from '../lib/format.js'
import { tags } from '../lib/view.js'
import { runLink, state } from '../parts/common.js'

const { a, div, h1, h2, p, rect, span, svg } = tags

const STATUSES = ['running', 'waiting', 'pending', 'blocked', 'cancelling', 'stuck']

/** @param {any} app */
export function open(app) {
  app.readOverview()
  return {
    title: () => 'Overview',
    view: () => {
      const overview = app.overview
      if (!overview) return div({ class: 'panel empty', 'aria-busy': 'true' }, 'Reading …')
      return [
        div({ class: 'bar' }, h1('Overview')),
        div({ class: 'cards small' }, STATUSES.map((status) => a({ key: status, class: 'panel padded', href: addressOf(['runs'], { status }) },
          state(status), div({ class: 'number' }, count(overview.live?.[status] ?? 0))))),
        div({ class: 'cards small' },
          card('Open decisions', overview.open_gates, '#/inbox'),
          card('Overdue decisions', overview.overdue_gates, addressOf(['inbox'], { show: 'overdue' }), 'failed'),
          card('Escalated waits', overview.escalated_waits, '#/attention', 'failed'),
          card('Served by no worker', overview.unserved.reduce((/** @type {number} */ sum, /** @type {any} */ route) => sum + route.runs, 0), '#/attention', 'failed'),
          card('Workers alive', overview.workers, '#/lanes')),
        overview.oldest_ready && p('The longest waiting run has been ready for ', duration(between(overview.oldest_ready)), overview.oldest_ready_run && [': ', runLink(overview.oldest_ready_run)], '.'),
        overview.outcomes?.length > 0 && [h2('Ended in the last hour, by minute'), chart(overview.outcomes, overview.outcomes_since)],
      ]
    },
  }
}

/** @param {string} title @param {number | undefined} number @param {string} href @param {string} [alarm] the colour of a number above 0 */
function card(title, number, href, alarm = '') {
  return a({ key: title, class: 'panel padded', href }, span({ class: 'soft' }, title), div({ class: `number ${number ? alarm : ''}` }, count(number ?? 0)))
}

/** @param {{minute: string, completed: number, failed: number, cancelled: number, expired: number}[]} outcomes @param {string} since */
function chart(outcomes, since) {
  const sum = (/** @type {(one: any) => number} */ of) => outcomes.reduce((total, one) => total + of(one), 0)
  const bad = (/** @type {any} */ one) => one.failed + (one.expired ?? 0)
  const most = Math.max(1, ...outcomes.map((one) => one.completed + bad(one)))
  const [completed, failed, cancelled] = [sum((one) => one.completed), sum(bad), sum((one) => one.cancelled ?? 0)]
  // The server counts the newest events only: on a busy installation they cover less than an hour.
  const isPart = since && outcomes.length > 0 && since > outcomes[0].minute
  return div({ class: 'panel padded' },
    svg({ class: 'chart', viewBox: '0 0 600 80', preserveAspectRatio: 'none', role: 'img', 'aria-label': `${completed} runs completed and ${failed} failed in the last hour` },
      outcomes.map((one, index) => {
        const high = (one.completed / most) * 78
        const low = (bad(one) / most) * 78
        return [
          rect({ key: `c${index}`, x: index * 10 + 1, y: 79 - high, width: 8, height: high, rx: 1, fill: 'var(--completed)' }),
          rect({ key: `f${index}`, x: index * 10 + 1, y: 79 - high - low, width: 8, height: low, rx: 1, fill: 'var(--failed)' }),
        ]
      }),
      rect({ x: 0, y: 79, width: 600, height: 1, fill: 'var(--line)' })),
    div({ class: 'row apart soft' }, span(time(outcomes[0].minute)), div({ class: 'row' }, span({ class: 'completed' }, `${count(completed)} completed`), span({ class: 'failed' }, `${count(failed)} failed`), cancelled > 0 && span(`${count(cancelled)} cancelled`), isPart && span(`counted since ${time(since)}`)), span('now')))
}
