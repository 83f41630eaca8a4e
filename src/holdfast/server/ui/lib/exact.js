/**
 * JSON with exact numbers. `JSON.parse` rounds a number of more than 15 digits; an operator who compares an
 * account number needs every digit. Such numbers become `ExactNumber`s, which print as they were sent.
 */

export class ExactNumber {
  /** @param {string} digits */
  constructor(digits) {
    this.digits = digits
  }

  toString() {
    return this.digits
  }

  /** `exactText` removes the mark. */
  toJSON() {
    return MARK + this.digits
  }
}

const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g
/** Only a text that matches can have a number that is not exact: a large answer is not read twice. */
const SUSPECT = /\d[\d.]{15}|\d[eE][+-]?\d{3}/
const MARK = '\u0000exact:'

/** Return whether a number keeps its digits as a number of JavaScript. @param {string} token */
function isExact(token) {
  const digits = token.replace(/[eE].*$/, '').replace(/\D/g, '').replace(/^0+/, '')
  return digits.length <= 15 && Number.isFinite(Number(token))
}

/** @param {string} text @returns {any} */
export function parseExact(text) {
  if (!SUSPECT.test(text)) return JSON.parse(text)
  let inexact = false
  const marked = text.replace(TOKENS, (token) => {
    if (token[0] === '"' || isExact(token)) return token
    inexact = true
    return JSON.stringify(MARK + token)
  })
  if (!inexact) return JSON.parse(text)
  return JSON.parse(marked, (_, value) => {
    return typeof value === 'string' && value.startsWith(MARK) ? new ExactNumber(value.slice(MARK.length)) : value
  })
}

/** Return the number of a text, with all its digits; the text if it is none. @param {string} text @returns {any} */
export function exactNumber(text) {
  const digits = text.trim()
  if (!/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/.test(digits)) return text
  return isExact(digits) ? Number(digits) : new ExactNumber(digits)
}

/** Return a value as JSON text with its exact numbers. @param {any} value @param {number} [indent] */
export function exactText(value, indent = 2) {
  const text = JSON.stringify(value, null, indent)
  return text?.replace(/"\\u0000exact:([^"]*)"/g, '$1') ?? ''
}
