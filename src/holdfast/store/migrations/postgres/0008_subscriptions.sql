-- Who reads the events of all runs, and how far they have come.

-- By this name cursors know whose they are.
INSERT INTO holdfast.setting (name, value)
VALUES ('installation', SUBSTR(REPLACE(CAST(gen_random_uuid() AS TEXT), '-', ''), 1, 16));

-- Differs from SQLite: here a number from a sequence may become visible after a higher one, and who reads on from the last
-- number it saw would never see it. So events are in the order of their transactions, and read only up to the oldest
-- transaction that is still open. One key takes the place of another: a step costs as much as before.
ALTER TABLE holdfast.event ADD COLUMN tx xid8 NOT NULL DEFAULT pg_current_xact_id();
ALTER TABLE holdfast.event DROP CONSTRAINT event_pkey;
ALTER TABLE holdfast.event ADD CONSTRAINT event_pkey PRIMARY KEY (tx, id);

CREATE TABLE holdfast.subscription (
    name TEXT COLLATE "C" PRIMARY KEY,
    kind TEXT COLLATE "C" NOT NULL,            -- cursor or webhook
    which BYTEA NOT NULL,                      -- which events
    after_tx BIGINT NOT NULL,                  -- up to where it has read
    after_id BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    moved_at BIGINT,
    url TEXT COLLATE "C",
    secret TEXT COLLATE "C",
    attempts BIGINT NOT NULL DEFAULT 0,
    attempt_limit BIGINT NOT NULL DEFAULT 0,
    next_at BIGINT,
    error TEXT COLLATE "C",
    session_id TEXT COLLATE "C"
);

-- What a webhook could not deliver.
CREATE TABLE holdfast.dead_letter (
    subscription TEXT COLLATE "C" NOT NULL,
    run_id TEXT COLLATE "C" NOT NULL,
    seq BIGINT NOT NULL,
    body BYTEA NOT NULL,
    attempts BIGINT NOT NULL,
    error TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    again BIGINT NOT NULL DEFAULT 0,           -- whether it is to be delivered once more
    PRIMARY KEY (subscription, run_id, seq)
);
