/** What holds a run up, as one line from its record: the wait, the error, or the worker that is missing. */

import { brief, duration, instant, clock } from '../lib/format.js'

/** @param {any} run @param {any[]} [unserved] routes that no worker serves */
export function holdup(run, unserved = []) {
  if (run.status === 'waiting' || run.status === 'blocked') return run.waits.map(wait).join(', ') || run.status
  if (run.status === 'pending') return pending(run, unserved)
  if (run.status === 'cancelling') return `is being cancelled${run.cancel_reason ? `: ${run.cancel_reason}` : ''}`
  if (run.error && ['failed', 'stuck', 'expired'].includes(run.status)) return cause(run.error)
  if (run.status === 'cancelled' && run.cancel_reason) return run.cancel_reason
  return ''
}

/** @param {any} error */
export function cause(error) {
  return brief(error.cause || `${error.type}: ${error.message}`, 120)
}

/** @param {any} run @param {any[]} unserved */
function pending(run, unserved) {
  const due = instant(run.wake_at)
  if (due != null && due > clock.now()) return `starts in ${duration(due - clock.now())}`
  const route = unserved.find((one) => one.workflow === run.workflow && one.version === run.version && one.lane === run.lane)
  return route ? `no live worker serves ${route.missing}` : 'waits for a worker'
}

/** @param {any} wait */
function wait(wait) {
  const until = instant(wait.until)
  const time = until == null ? '' : until > clock.now() ? `, ${duration(until - clock.now())} left` : ', due'
  const name = wait.name ?? wait.step ?? ''
  const texts = {
    timer: () => `sleeps${time}`,
    signal: () => `signal ${name}${time}`,
    gate: () => `decision “${brief(wait.prompt ?? name, 48)}”${time}`,
    retry: () => `retry ${wait.attempt ?? ''} of ${wait.step}${time}`,
    child: () => `child run ${wait.run ?? ''}`,
    children: () => ('done' in wait ? `${wait.done} of ${wait.of} children have ended` : `${wait.of} children`),
    children_end: () => 'its children to end',
    budget: () => `room in budget ${name}`,
    wait: () => `${wait.escalated_at ? 'needs an operator' : name || 'a wait'}${time}`,
  }
  return (texts[/** @type {keyof typeof texts} */ (wait.kind)] ?? (() => `${wait.kind} ${name}${time}`))()
}
