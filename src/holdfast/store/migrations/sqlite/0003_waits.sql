-- Waits that others may resume, and what is known of a signal besides its name. Times are microseconds since 1970.

-- What a run waits for, or will. One with an id was handed out with a token.
CREATE TABLE holdfast.wait (
    run_id TEXT NOT NULL,
    step TEXT NOT NULL,
    id TEXT,
    name TEXT NOT NULL,
    kid TEXT,                  -- the key that signed its token
    opened_at INTEGER NOT NULL,
    until INTEGER,            -- when it expires, or gives up
    escalated_at INTEGER,     -- since when it needs a person
    closed_at INTEGER,
    closed_by TEXT,
    PRIMARY KEY (run_id, step)
) WITHOUT ROWID;
CREATE UNIQUE INDEX holdfast.wait_id ON holdfast.wait (id) WHERE id IS NOT NULL;
CREATE INDEX holdfast.wait_open ON holdfast.wait (opened_at, run_id) WHERE closed_at IS NULL;
CREATE INDEX holdfast.wait_escalated ON holdfast.wait (escalated_at) WHERE escalated_at IS NOT NULL AND closed_at IS NULL;

ALTER TABLE holdfast.signal ADD COLUMN number INTEGER NOT NULL DEFAULT 0;  -- the how-manieth of its run
ALTER TABLE holdfast.signal ADD COLUMN wait_id TEXT;
ALTER TABLE holdfast.signal ADD COLUMN source TEXT;
ALTER TABLE holdfast.signal ADD COLUMN step TEXT;      -- the wait that a person lets go
ALTER TABLE holdfast.signal ADD COLUMN effect TEXT;    -- what was answered

UPDATE holdfast.signal SET number = counted.place
  FROM (SELECT id AS signal_id, ROW_NUMBER() OVER (PARTITION BY run_id ORDER BY id) AS place FROM holdfast.signal) AS counted
 WHERE id = counted.signal_id;

-- How many signals of each kind no wait has taken: asked whenever one more comes.
CREATE INDEX holdfast.signal_kind ON holdfast.signal (run_id, name, wait_id, source) WHERE taken = 0 AND step IS NULL;
