-- Schedules, and which run each of their ticks has. Times are microseconds since 1970.

CREATE TABLE holdfast.schedule (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    workflow TEXT NOT NULL,
    version TEXT NOT NULL,
    lane TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    input BLOB NOT NULL,
    priority INTEGER NOT NULL,
    tags TEXT NOT NULL,
    deadline INTEGER,          -- how long each run may take
    rule TEXT NOT NULL,
    zone TEXT NOT NULL,
    overlap TEXT NOT NULL,
    queue_limit INTEGER NOT NULL,
    misfire TEXT NOT NULL,
    catch_up INTEGER NOT NULL,
    grace INTEGER NOT NULL,
    jitter INTEGER NOT NULL,
    origin TEXT NOT NULL,      -- who made it: a decorator in the code, or somebody's call
    paused TEXT,               -- why it is paused
    anchor INTEGER NOT NULL,   -- from when intervals are counted
    next_at INTEGER,           -- the next tick that nothing was done about
    wake_at INTEGER,           -- when somebody must see to it
    last_at INTEGER,           -- the last tick that has a run
    queued TEXT,               -- ticks that wait for a run to end
    started INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    note TEXT,                 -- what became of the last tick that has no run
    created_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;
CREATE INDEX holdfast.schedule_wake ON holdfast.schedule (wake_at) WHERE wake_at IS NOT NULL;

-- The runs that schedules have started.
CREATE TABLE holdfast.tick (
    run_id TEXT PRIMARY KEY,
    namespace TEXT NOT NULL,
    schedule TEXT NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,        -- tick, trigger or backfill
    live INTEGER NOT NULL,     -- whether others may have to wait for it
    solo INTEGER NOT NULL      -- whether it was to be the only one
) WITHOUT ROWID;
CREATE INDEX holdfast.tick_live ON holdfast.tick (namespace, schedule) WHERE live = 1;
CREATE UNIQUE INDEX holdfast.tick_solo ON holdfast.tick (namespace, schedule) WHERE live = 1 AND solo = 1;
