/**
 * All screens, in the order of the navigation. A screen is loaded when it is first opened.
 *
 * `key` follows `g`; `count` is the number beside the name; `rights` are the rights of which the screen needs one,
 * to view unless it names others.
 *
 * @typedef {{name: string, title: string, load: () => Promise<any>, entry?: string, key?: string, rights?: string[],
 *   alarming?: boolean, count?: (overview: any) => number | undefined}} ScreenEntry
 */

const LIVE = ['pending', 'blocked', 'running', 'waiting', 'cancelling', 'stuck']

/** @param {any} overview */
function liveRuns(overview) {
  return LIVE.reduce((sum, status) => sum + (overview?.live?.[status] ?? 0), 0)
}

/** @param {any} overview */
function needsPerson(overview) {
  return overview && overview.stuck + overview.overdue_gates + overview.escalated_waits + (overview.incidents ?? 0) + overview.unserved.length
}

/** @type {ScreenEntry[]} */
export const SCREENS = [
  { name: 'overview', title: 'Overview', key: 'o', load: () => import('./overview.js') },
  { name: 'runs', title: 'Runs', key: 'r', load: () => import('./runs.js'), count: liveRuns },
  { name: 'attention', title: 'Needs a person', key: 's', load: () => import('./attention.js'), alarming: true, count: needsPerson },
  { name: 'inbox', title: 'Inbox', key: 'i', rights: ['view', 'decide'], load: () => import('./inbox.js'), count: (overview) => overview?.open_gates },
  { name: 'schedules', title: 'Schedules', key: 'c', load: () => import('./schedules.js') },
  { name: 'lanes', title: 'Lanes and workers', key: 'l', load: () => import('./lanes.js') },
  { name: 'workflows', title: 'Workflows', key: 'w', load: () => import('./workflows.js') },
  { name: 'versions', title: 'Versions', key: 'v', load: () => import('./versions.js') },
  { name: 'models', title: 'Models', key: 'm', load: () => import('./models.js') },
  { name: 'graphs', title: 'Graphs', key: 'd', load: () => import('./graphs.js'), entry: 'openList' },
  { name: 'flows', title: 'Flows', key: 'f', load: () => import('./flows.js') },
  { name: 'budgets', title: 'Budgets', key: 'b', load: () => import('./budgets.js') },
  { name: 'operations', title: 'Bulk operations', load: () => import('./operation.js'), entry: 'openList' },
  { name: 'subscriptions', title: 'Subscriptions', load: () => import('./subscriptions.js') },
  { name: 'storage', title: 'Storage', load: () => import('./storage.js') },
  { name: 'api-keys', title: 'API keys', rights: ['admin'], load: () => import('./api_keys.js') },
  { name: 'run', title: '', load: () => import('./run.js') },
  { name: 'workflow', title: '', load: () => import('./workflow.js') },
  { name: 'graph', title: '', load: () => import('./graphs.js') },
  { name: 'operation', title: '', load: () => import('./operation.js') },
  { name: 'forbidden', title: '', rights: [], load: () => import('./missing.js'), entry: 'openForbidden' },
  { name: 'missing', title: '', rights: [], load: () => import('./missing.js') },
]
