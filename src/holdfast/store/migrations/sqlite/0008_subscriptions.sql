-- Who reads the events of all runs, and how far they have come.

-- By this name cursors know whose they are.
INSERT INTO holdfast.setting (name, value) VALUES ('installation', LOWER(HEX(RANDOMBLOB(8))));

-- Differs from Postgres: here the number of a row that was the last one, and was deleted, would be given out once more, and
-- who has read up to it would never see the next event. So a row without a run holds the place of the last number.
CREATE TRIGGER holdfast.event_numbered AFTER DELETE ON holdfast.event
WHEN OLD.run_id <> '' AND OLD.id > COALESCE((SELECT MAX(id) FROM holdfast.event), 0)
BEGIN
    DELETE FROM holdfast.event WHERE run_id = '';
    INSERT INTO holdfast.event (id, run_id, seq, kind, attempt, at) VALUES (OLD.id, '', OLD.id, 'numbered', 1, OLD.at);
END;

CREATE TABLE holdfast.subscription (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL,            -- cursor or webhook
    which BLOB NOT NULL,           -- which events
    after_tx INTEGER NOT NULL,     -- up to where it has read; see the event table of Postgres
    after_id INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    moved_at INTEGER,
    url TEXT,
    secret TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    attempt_limit INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER,
    error TEXT,
    session_id TEXT
) WITHOUT ROWID;

-- What a webhook could not deliver.
CREATE TABLE holdfast.dead_letter (
    subscription TEXT NOT NULL,
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    body BLOB NOT NULL,
    attempts INTEGER NOT NULL,
    error TEXT NOT NULL,
    at INTEGER NOT NULL,
    again INTEGER NOT NULL DEFAULT 0,   -- whether it is to be delivered once more
    PRIMARY KEY (subscription, run_id, seq)
) WITHOUT ROWID;
