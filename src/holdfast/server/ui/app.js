/**
 * The shell of the UI: navigation, the current screen, keys, live updates, login.
 *
 * A screen is a function `open(app, address)` that returns a `Screen`. State lives in the screen and in its
 * address; the shell only knows which screen is open.
 *
 * @typedef {{
 *   title: () => string,
 *   view: () => any,
 *   heard?: (events: import('./lib/live.js').LiveEvent[] | null) => void,
 *   moved?: (address: import('./lib/address.js').Address) => void,
 *   keys?: () => import('./lib/keys.js').KeyBinding[],
 *   close?: () => void,
 * }} Screen
 */

import { addressOf, parseAddress } from './lib/address.js'
import { connection, get, isOutdated, post } from './lib/api.js'
import { clock, count, duration } from './lib/format.js'
import { keyHandler } from './lib/keys.js'
import { Live } from './lib/live.js'
import { preference, setPreference } from './lib/preferences.js'
import { show, tags } from './lib/view.js'
import { problemBox } from './parts/common.js'
import { close as closeDialog } from './parts/dialogs.js'
import { loginPanel } from './parts/login.js'
import { openPalette, showKeys } from './parts/palette.js'
import { SCREENS } from './screens/index.js'

const { a, button, div, main, nav, path, span, svg } = tags
const root = /** @type {HTMLElement} */ (document.querySelector('#app'))
const POLL_EVERY = 5000
const THEMES = ['system', 'light', 'dark']

/** What a screen may use of the shell. */
class App {
  constructor() {
    this.address = parseAddress(location.hash)
    /** @type {Screen | null} */
    this.screen = null
    this.screenName = ''
    /** The person or API key that is logged in, with its rights. @type {any} */
    this.me = null
    /** Live counts for the navigation. @type {any} */
    this.overview = null
    this.notice = ''
    /** Why the last action without a dialog was refused. @type {any} */
    this.refusal = null
    this.isDrawing = false
    /** Whether the navigation of a small window is open. */
    this.menuOpen = false
    this.polling = 0
    this.redraw = this.redraw.bind(this)
    /** Whether the server has another version of this page. */
    this.isOld = false
    this.live = new Live((events) => this.heard(events))
  }

  /** @param {string} right */
  may(right) {
    return !this.me || (this.me.rights ?? []).includes(right)
  }

  /** @param {import('./screens/index.js').ScreenEntry} screen */
  maySee(screen) {
    const rights = screen.rights ?? ['view']
    return !rights.length || rights.some((right) => this.may(right))
  }

  /** The screen that a person sees first. */
  first() {
    return SCREENS.find((screen) => screen.title && this.maySee(screen))?.name ?? 'forbidden'
  }

  redraw() {
    if (this.isDrawing) return
    this.isDrawing = true
    requestAnimationFrame(() => {
      this.isDrawing = false
      show(root, shell(this))
      document.title = this.screen ? `${this.screen.title()} · Holdfast` : 'Holdfast'
    })
  }

  /** Go to an address, as a new entry of the browser's history. @param {string[]} to @param {Record<string, any>} [query] */
  go(to, query) {
    location.hash = addressOf(to, query)
  }

  /** Change the query of this address without a new entry. @param {Record<string, any>} changes */
  adjust(changes) {
    // The person may have gone on, before the browser reports it: an answer that comes late must not lead back.
    if (parseAddress(location.hash).path.join('/') !== this.address.path.join('/')) return
    const query = { ...this.address.query, ...changes }
    history.replaceState(null, '', addressOf(this.address.path, query))
    this.moved()
  }

  /** Show a sentence for a few seconds. @param {string} text */
  say(text) {
    this.notice = text
    this.redraw()
    setTimeout(() => { if (this.notice === text) { this.notice = ''; this.redraw() } }, 6000)
  }

  /** Carry out an action that has no dialog. A refusal is shown until the next action, or until another screen is open. @param {() => Promise<any>} action */
  async attempt(action) {
    this.refusal = null
    try {
      await action()
    } catch (problem) {
      this.refusal = problem
    }
    this.redraw()
  }

  moved() {
    const address = parseAddress(location.hash)
    const name = address.path[0] ?? this.first()
    const subject = address.path.join('/')
    this.menuOpen = false
    const isSame = name === this.screenName && subject === this.address.path.join('/')
    this.address = address
    if (isSame && this.screen?.moved) this.screen.moved(address)
    else this.open(name)
    this.redraw()
  }

  /** @param {string} name */
  async open(name) {
    this.screen?.close?.()
    this.screen = null
    this.refusal = null
    this.screenName = name
    closeDialog() // it belongs to the screen that is left
    const address = this.address
    const known = SCREENS.find((one) => one.name === name) ?? SCREENS[SCREENS.length - 1]
    const entry = this.maySee(known) ? known : SCREENS[SCREENS.length - 2]
    try {
      const module = await entry.load()
      if (address.path.join('/') !== this.address.path.join('/')) return // the person has gone on meanwhile
      this.screen = module[entry.entry ?? 'open'](this, this.address)
    } catch (error) {
      // A server of another version has other files: a new page fits it.
      this.screen = { title: () => 'Reload', view: () => problemBox({ title: 'This page could not be loaded.', detail: String(error), remedy: 'Reload the page: the server may have been updated.' }) }
    }
    window.scrollTo(0, 0)
    this.redraw()
  }

  /** @param {import('./lib/live.js').LiveEvent[] | null} events */
  heard(events) {
    this.screen?.heard?.(events)
    this.readOverview()
    if (!events && this.live.mayListen) this.compareVersions() // after an interruption
    this.redraw()
  }

  async compareVersions() {
    this.isOld = await isOutdated()
    if (this.isOld) this.redraw()
  }

  async readOverview() {
    if (!this.may('view')) return
    try {
      this.overview = await get('overview')
    } catch {
      // the shell shows the problem of the connection; the counts stay as they were
    }
    this.redraw()
  }

  /** Read the live counts, and the screen if they have changed: the start of a run that no worker claims is no event. */
  async compareCounts() {
    const before = JSON.stringify(this.overview?.live)
    await this.readOverview()
    if (JSON.stringify(this.overview?.live) !== before) this.screen?.heard?.([])
  }

  /** Use the token of a one-time link, which is in the address, and take it out of the address. */
  async useLink() {
    const parameters = new URLSearchParams(location.hash.slice(1))
    const link = parameters.get('login')
    if (!link) return
    history.replaceState(null, '', addressOf((parameters.get('to') ?? '').split('/').filter(Boolean)))
    await post('login', { link })
  }

  async logIn() {
    try {
      await this.useLink()
      this.me = await get('me')
      await this.readOverview()
    } catch {
      // the login panel or the problem of the connection is shown
    }
    this.moved()
    this.screen?.heard?.(null)
    // Only callers who may view receive events: the inbox of the others is read again now and then.
    this.live.mayListen = this.may('view')
    this.live.follow()
    clearInterval(this.polling)
    this.polling = setInterval(() => {
      if (document.hidden || this.live.paused) return
      if (!this.may('view')) this.screen?.heard?.(null)
      else if (this.live.isOpen) this.compareCounts()
    }, POLL_EVERY)
  }
}

/** @param {App} app */
function shell(app) {
  return [
    a({ class: 'skip', href: '#content', onclick: (/** @type {Event} */ event) => { event.preventDefault(); document.getElementById('content')?.focus() } }, 'Skip to the content'),
    div({ class: 'shell' },
      navigation(app),
      main({ id: 'content', tabindex: '-1' },
        app.notice && div({ class: 'panel notice', role: 'status' }, app.notice),
        app.isOld && div({ class: 'panel notice', role: 'status' }, 'The server was updated, and this page is of the version before.', button({ onclick: () => location.reload() }, 'Reload')),
        connection.problem ? problemBox(connection.problem) : problemBox(app.refusal),
        connection.needsLogin ? loginPanel(() => app.logIn(), app.redraw) : app.screen?.view())),
  ]
}

/** @param {App} app */
function navigation(app) {
  const current = app.screenName === 'run' ? 'runs' : app.screenName
  return nav({ 'aria-label': 'Screens', class: app.menuOpen ? null : 'closed' },
    a({ class: 'brand', href: '#/overview' },
      svg({ viewBox: '0 0 16 16', 'aria-hidden': 'true' }, path({ d: 'M8 2v12M8 9c-3 0-4-1.500-4-4M8 11c3 0 4-1.500 4-4' })), 'Holdfast'),
    button({ class: 'open-menu', 'aria-expanded': String(app.menuOpen), onclick: () => { app.menuOpen = !app.menuOpen; app.redraw() } }, 'Menu'),
    SCREENS.filter((screen) => screen.title && app.maySee(screen)).map((screen) => {
      const number = screen.count?.(app.overview)
      return a({ key: screen.name, href: addressOf([screen.name]), 'aria-current': screen.name === current ? 'page' : null },
        screen.title, number ? span({ class: screen.alarming ? 'count failed' : 'count' }, count(number)) : null)
    }),
    div({ class: 'foot' },
      div({ class: 'row apart' }, span({ class: 'age', role: 'status' }, ageText(app)),
        button({ class: 'link', onclick: () => togglePause(app) }, app.live.paused ? 'go live' : 'pause')),
      div({ class: 'row apart' },
        button({ class: 'link', onclick: () => nextTheme(app) }, `${preference('theme', 'system')} theme`),
        button({ class: 'link', onclick: () => toggleUtc(app) }, clock.utc ? 'UTC' : 'local time')),
      div({ class: 'row apart' }, span({ class: 'brief' }, app.me?.name ?? ''),
        button({ class: 'link', onclick: () => showKeys(bindings(app)) }, 'keys'))))
}

/** @param {App} app */
function ageText(app) {
  const age = connection.readAt ? duration(Math.floor((Date.now() - connection.readAt) / 1000) * 1000) : ''
  const data = age ? `${age === '0 ms' ? '0 s' : age} old` : ''
  if (app.live.paused) return `paused · ${data}`
  if (!app.live.mayListen) return data
  if (!app.live.isOpen) return connection.problem ? `no connection · ${data}` : `connecting · ${data}`
  return Date.now() - app.live.caughtUpAt < 10_000 ? `caught up · ${data}` : `live · ${data}`
}

/** @param {App} app */
function togglePause(app) {
  app.live.pause(!app.live.paused)
  app.redraw()
}

/** @param {App} app */
function nextTheme(app) {
  setPreference('theme', THEMES[(THEMES.indexOf(preference('theme', 'system')) + 1) % THEMES.length])
  applyTheme()
  app.redraw()
}

function applyTheme() {
  document.documentElement.dataset.theme = preference('theme', 'system')
}

/** @param {App} app */
function toggleUtc(app) {
  clock.utc = !clock.utc
  setPreference('utc', clock.utc)
  app.redraw()
}

/** @param {App} app @returns {import('./lib/keys.js').KeyBinding[]} */
function bindings(app) {
  const screens = SCREENS.filter((screen) => screen.key && app.maySee(screen))
  return [
    ...(app.screen?.keys?.() ?? []),
    ...screens.map((screen) => ({ keys: `g ${screen.key}`, text: `Go to ${screen.title}`, run: () => app.go([screen.name]) })),
    { keys: '.', text: 'Pause or continue live updates', run: () => togglePause(app) },
    { keys: 't', text: 'Change the theme', run: () => nextTheme(app) },
    { keys: 'u', text: 'Show times in UTC or local time', run: () => toggleUtc(app) },
    { keys: 'ctrl k', text: 'Go to anything', run: () => openPalette(app) },
    { keys: '?', text: 'Show all keys', run: () => showKeys(bindings(app)) },
  ]
}

function begin() {
  clock.utc = preference('utc', false)
  applyTheme()
  const app = new App()
  connection.changed = () => {
    app.live.follow()
    app.redraw()
  }
  window.addEventListener('hashchange', () => app.moved())
  document.addEventListener('keydown', keyHandler(() => bindings(app)))
  setInterval(() => { if (!document.hidden) app.redraw() }, 1000)
  app.logIn()
}

begin()
