/** Times, durations, counts and values for people. Times come from the clock of the database. */

import { ExactNumber, exactText } from './exact.js'

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** How times are shown; a person chooses UTC or the time of this computer. */
export const clock = {
  utc: false,
  /** Milliseconds that the clock of the database is ahead of the clock of this computer. */
  ahead: 0,
  now: () => Date.now() + clock.ahead,
}

/** @param {string | null | undefined} text @returns {number | null} milliseconds */
export function instant(text) {
  const value = text ? Date.parse(text) : NaN
  return Number.isNaN(value) ? null : value
}

/** Return a time of day, with its date if it is not today. @param {string | null | undefined} text */
export function time(text) {
  const at = instant(text)
  if (at == null) return ''
  const zone = clock.utc ? { timeZone: 'UTC' } : {}
  const date = new Date(at)
  const day = date.toLocaleDateString('sv-SE', zone)
  const hour = date.toLocaleTimeString('sv-SE', zone)
  return day === new Date(clock.now()).toLocaleDateString('sv-SE', zone) ? hour : `${day} ${hour}`
}

/** Return an instant in full, for tooltips and copies. @param {string | null | undefined} text */
export function exactTime(text) {
  return text ? text.replace('T', ' ').replace('Z', ' UTC').replace('+00:00', ' UTC') : ''
}

/** Return a duration: `151 ms`, `4.1 s`, `2 min`, `3 h 20 min`, `12 d 4 h`. @param {number | null} milliseconds */
export function duration(milliseconds) {
  if (milliseconds == null) return ''
  const span = Math.max(0, milliseconds)
  if (span < SECOND) return `${Math.round(span)} ms`
  if (span < 10 * SECOND) return `${(span / SECOND).toFixed(1)} s`
  if (span < MINUTE) return `${Math.round(span / SECOND)} s`
  if (span < HOUR) return pair(span, MINUTE, 'min', SECOND, 's', 10 * MINUTE)
  if (span < DAY) return pair(span, HOUR, 'h', MINUTE, 'min', DAY)
  return pair(span, DAY, 'd', HOUR, 'h', 30 * DAY)
}

/**
 * @param {number} span @param {number} large @param {string} largeName @param {number} small
 * @param {string} smallName @param {number} limit beyond it, the small unit is left out
 */
function pair(span, large, largeName, small, smallName, limit) {
  const whole = Math.floor(span / large)
  const rest = Math.floor((span - whole * large) / small)
  return rest && span < limit ? `${whole} ${largeName} ${rest} ${smallName}` : `${whole} ${largeName}`
}

/** Return the time between two instants; an open end is now. @param {string?} from @param {string?} [to] */
export function between(from, to) {
  const start = instant(from)
  return start == null ? null : (instant(to) ?? clock.now()) - start
}

/** @param {string | null | undefined} text */
export function ago(text) {
  const at = instant(text)
  return at == null ? '' : `${duration(clock.now() - at)} ago`
}

/** Return how far away an instant is: `3 h left`, `overdue 2 h`. @param {string | null | undefined} text */
export function left(text) {
  const at = instant(text)
  if (at == null) return ''
  const span = at - clock.now()
  return span >= 0 ? `${duration(span)} left` : `overdue ${duration(-span)}`
}

/** @param {number | string | null | undefined} value */
export function count(value) {
  if (value == null || value === '') return ''
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ',')
}

/** @param {number | null | undefined} bytes */
export function size(bytes) {
  if (bytes == null) return ''
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let value = bytes
  let unit = 0
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000
    unit += 1
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`
}

/** @param {number} number @param {string} one @param {string} [many] */
export function plural(number, one, many = one + 's') {
  return `${count(number)} ${number === 1 ? one : many}`
}

/** Return a value as one short line. @param {any} value @param {number} [longest] */
export function brief(value, longest = 80) {
  const text = typeof value === 'string' ? value : value instanceof ExactNumber ? value.digits : exactText(value, 0)
  const line = (text ?? '').replace(/\s+/g, ' ')
  return line.length > longest ? line.slice(0, longest - 1) + '…' : line
}

/** Return an identifier as words: `run_failed` as `run failed`. @param {string} name */
export function words(name) {
  return String(name).replaceAll('_', ' ')
}
