-- What runs put out while they work. A stream is what one attempt at a step has put out, or the code of the workflow itself.

-- How far the output of a run has come, and how far the run says that it is.
CREATE TABLE holdfast.output (
    run_id TEXT COLLATE "C" PRIMARY KEY,
    last_seq BIGINT NOT NULL,     -- of its last frame
    streams BIGINT NOT NULL,      -- how many there are
    percent DOUBLE PRECISION,
    message TEXT COLLATE "C",
    progress_at BIGINT
);

CREATE TABLE holdfast.stream (
    run_id TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    step TEXT COLLATE "C" NOT NULL,            -- of the workflow's own code: the branch, '' for its trunk
    attempt BIGINT NOT NULL,
    generation BIGINT NOT NULL,   -- 0 for the workflow's own code, which goes on under the next one
    supersedes BIGINT,            -- the number of the stream whose step was done again by this one
    frames BIGINT NOT NULL,       -- ever appended
    said BIGINT NOT NULL,         -- how often its code has put out anything: so often a replay says nothing
    kept_durable BIGINT NOT NULL,
    kept_summary BIGINT NOT NULL,
    kept_best_effort BIGINT NOT NULL,
    first_seq BIGINT NOT NULL,    -- no frame of it is before this one
    summary BYTEA,
    version BIGINT NOT NULL,
    opened_at BIGINT NOT NULL,
    written_at BIGINT NOT NULL,
    closed_at BIGINT,
    reason TEXT COLLATE "C",
    PRIMARY KEY (run_id, number)
);
CREATE UNIQUE INDEX stream_attempt ON holdfast.stream (run_id, step, attempt, generation);
CREATE INDEX stream_open ON holdfast.stream (run_id) WHERE closed_at IS NULL;

CREATE TABLE holdfast.frame (
    run_id TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    stream BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    mode TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C",
    data BYTEA NOT NULL,
    nulls BYTEA,                    -- of a patch: the paths whose null is a value
    version BIGINT,               -- of the summary, after this patch
    at BIGINT NOT NULL,
    PRIMARY KEY (run_id, seq)
);
CREATE INDEX frame_passing ON holdfast.frame (run_id, stream, mode, seq) WHERE mode <> 'durable';
