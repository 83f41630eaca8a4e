-- What runs put out while they work. A stream is what one attempt at a step has put out, or the code of the workflow itself.

-- How far the output of a run has come, and how far the run says that it is.
CREATE TABLE holdfast.output (
    run_id TEXT PRIMARY KEY,
    last_seq INTEGER NOT NULL,     -- of its last frame
    streams INTEGER NOT NULL,      -- how many there are
    percent REAL,
    message TEXT,
    progress_at INTEGER
) WITHOUT ROWID;

CREATE TABLE holdfast.stream (
    run_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    step TEXT NOT NULL,            -- of the workflow's own code: the branch, '' for its trunk
    attempt INTEGER NOT NULL,
    generation INTEGER NOT NULL,   -- 0 for the workflow's own code, which goes on under the next one
    supersedes INTEGER,            -- the number of the stream whose step was done again by this one
    frames INTEGER NOT NULL,       -- ever appended
    said INTEGER NOT NULL,         -- how often its code has put out anything: so often a replay says nothing
    kept_durable INTEGER NOT NULL,
    kept_summary INTEGER NOT NULL,
    kept_best_effort INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,    -- no frame of it is before this one
    summary BLOB,
    version INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    closed_at INTEGER,
    reason TEXT,
    PRIMARY KEY (run_id, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX holdfast.stream_attempt ON holdfast.stream (run_id, step, attempt, generation);
CREATE INDEX holdfast.stream_open ON holdfast.stream (run_id) WHERE closed_at IS NULL;

CREATE TABLE holdfast.frame (
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    kind TEXT NOT NULL,
    mode TEXT NOT NULL,
    name TEXT,
    data BLOB NOT NULL,
    nulls BLOB,                    -- of a patch: the paths whose null is a value
    version INTEGER,               -- of the summary, after this patch
    at INTEGER NOT NULL,
    PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
CREATE INDEX holdfast.frame_passing ON holdfast.frame (run_id, stream, mode, seq) WHERE mode <> 'durable';
