-- Runs, their history, and who works on them. Times are microseconds since 1970.

CREATE TABLE holdfast.setting (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- What a worker must offer to serve a run. Runs point here, so that claiming never looks at what it cannot serve.
CREATE TABLE holdfast.route (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    workflow TEXT NOT NULL,
    version TEXT NOT NULL,
    lane TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    UNIQUE (namespace, workflow, version, lane, capabilities)
);

CREATE TABLE holdfast.run (
    id TEXT PRIMARY KEY,
    route_id INTEGER NOT NULL,
    status TEXT NOT NULL,
    priority INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    revision INTEGER NOT NULL DEFAULT 0,  -- grows when something reaches the run from outside
    seen_revision INTEGER,     -- the revision that its holder had seen when it parked
    session_id TEXT,
    rank INTEGER,              -- set when it can be claimed now; the smallest goes first
    wake_at INTEGER,           -- when it becomes claimable by itself
    deadline INTEGER,
    input BLOB NOT NULL,
    result BLOB,
    error BLOB,
    waits BLOB,                -- what it is parked on
    key TEXT,
    parent_id TEXT,
    parent_step TEXT,
    parent_index INTEGER,
    on_parent_end TEXT,
    root_id TEXT,
    forked_from TEXT,
    cancel_reason TEXT,
    crashes INTEGER NOT NULL DEFAULT 0,
    crash_seq INTEGER,         -- the last event when it crashed: no newer one, no progress
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER
) WITHOUT ROWID;

-- Partial: they hold only what is live, so that finished runs cost the living nothing.
CREATE INDEX holdfast.run_ready ON holdfast.run (route_id, rank) WHERE rank IS NOT NULL AND crashes < 2;
CREATE INDEX holdfast.run_suspect ON holdfast.run (route_id, rank) WHERE rank IS NOT NULL AND crashes >= 2;
CREATE INDEX holdfast.run_wake ON holdfast.run (wake_at) WHERE wake_at IS NOT NULL AND session_id IS NULL;
CREATE INDEX holdfast.run_held ON holdfast.run (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX holdfast.run_deadline ON holdfast.run (deadline)
    WHERE deadline IS NOT NULL AND finished_at IS NULL AND session_id IS NULL AND status <> 'cancelling';
CREATE INDEX holdfast.run_child ON holdfast.run (parent_id, parent_step, parent_index) WHERE parent_id IS NOT NULL;
CREATE INDEX holdfast.run_root ON holdfast.run (root_id) WHERE root_id IS NOT NULL;
CREATE INDEX holdfast.run_notable ON holdfast.run (status, id)
    WHERE status IN ('blocked', 'stuck', 'failed', 'cancelled', 'expired', 'skipped', 'cancelling');
CREATE UNIQUE INDEX holdfast.run_key ON holdfast.run (key) WHERE key IS NOT NULL;

CREATE TABLE holdfast.event (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    step TEXT,
    attempt INTEGER NOT NULL,
    data BLOB,
    error BLOB,
    started_at INTEGER,
    at INTEGER NOT NULL
);
CREATE UNIQUE INDEX holdfast.event_run ON holdfast.event (run_id, seq);

CREATE TABLE holdfast.signal (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    name TEXT NOT NULL,
    payload BLOB NOT NULL,
    key TEXT,
    at INTEGER NOT NULL,
    taken INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX holdfast.signal_run ON holdfast.signal (run_id, id);
CREATE UNIQUE INDEX holdfast.signal_key ON holdfast.signal (run_id, key) WHERE key IS NOT NULL;

CREATE TABLE holdfast.tag (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (name, value, run_id)
) WITHOUT ROWID;
CREATE INDEX holdfast.tag_run ON holdfast.tag (run_id);

-- How many children of a map are still open.
CREATE TABLE holdfast.fanout (
    run_id TEXT NOT NULL,
    step TEXT NOT NULL,
    remaining INTEGER NOT NULL,
    eager INTEGER NOT NULL,
    PRIMARY KEY (run_id, step)
) WITHOUT ROWID;

CREATE TABLE holdfast.session (
    id TEXT PRIMARY KEY,
    worker TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    beat_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    serves BLOB NOT NULL
) WITHOUT ROWID;

-- Runs that were touched from outside while a session held them.
CREATE TABLE holdfast.knock (
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    run_id TEXT NOT NULL
);
CREATE INDEX holdfast.knock_session ON holdfast.knock (session_id, id);

CREATE TABLE holdfast.lane (
    name TEXT PRIMARY KEY,
    concurrency INTEGER,
    rate_limit INTEGER,
    rate_per INTEGER,
    free_at INTEGER NOT NULL DEFAULT 0,
    paused INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
