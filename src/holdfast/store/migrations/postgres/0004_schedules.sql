-- Schedules, and which run each of their ticks has. Times are microseconds since 1970.

CREATE TABLE holdfast.schedule (
    namespace TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    workflow TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    lane TEXT COLLATE "C" NOT NULL,
    capabilities TEXT COLLATE "C" NOT NULL,
    input BYTEA NOT NULL,
    priority BIGINT NOT NULL,
    tags TEXT COLLATE "C" NOT NULL,
    deadline BIGINT,          -- how long each run may take
    rule TEXT COLLATE "C" NOT NULL,
    zone TEXT COLLATE "C" NOT NULL,
    overlap TEXT COLLATE "C" NOT NULL,
    queue_limit BIGINT NOT NULL,
    misfire TEXT COLLATE "C" NOT NULL,
    catch_up BIGINT NOT NULL,
    grace BIGINT NOT NULL,
    jitter BIGINT NOT NULL,
    origin TEXT COLLATE "C" NOT NULL,      -- who made it: a decorator in the code, or somebody's call
    paused TEXT COLLATE "C",               -- why it is paused
    anchor BIGINT NOT NULL,   -- from when intervals are counted
    next_at BIGINT,           -- the next tick that nothing was done about
    wake_at BIGINT,           -- when somebody must see to it
    last_at BIGINT,           -- the last tick that has a run
    queued TEXT COLLATE "C",               -- ticks that wait for a run to end
    started BIGINT NOT NULL,
    skipped BIGINT NOT NULL,
    note TEXT COLLATE "C",                 -- what became of the last tick that has no run
    created_at BIGINT NOT NULL,
    PRIMARY KEY (namespace, name)
);
CREATE INDEX schedule_wake ON holdfast.schedule (wake_at) WHERE wake_at IS NOT NULL;

-- The runs that schedules have started.
CREATE TABLE holdfast.tick (
    run_id TEXT COLLATE "C" PRIMARY KEY,
    namespace TEXT COLLATE "C" NOT NULL,
    schedule TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,        -- tick, trigger or backfill
    live BIGINT NOT NULL,     -- whether others may have to wait for it
    solo BIGINT NOT NULL      -- whether it was to be the only one
);
CREATE INDEX tick_live ON holdfast.tick (namespace, schedule) WHERE live = 1;
CREATE UNIQUE INDEX tick_solo ON holdfast.tick (namespace, schedule) WHERE live = 1 AND solo = 1;
