-- Large values, kept apart from the rows that refer to them, each once; and the rules by which finished runs are deleted.

CREATE TABLE holdfast.payload (
    digest BLOB PRIMARY KEY,   -- what it is known by: of its content, and of its key when it is encrypted
    key TEXT NOT NULL,         -- the id of the key that it is encrypted with, or nothing
    form TEXT NOT NULL,        -- p as it was, z compressed
    size INTEGER NOT NULL,     -- of the value
    stored INTEGER NOT NULL,   -- as it is kept, in all its parts
    parts INTEGER NOT NULL,
    kept_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE holdfast.payload_part (
    digest BLOB NOT NULL,
    part INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (digest, part)
);

-- Which run refers to which payload. One that no run refers to is gone with the last that did.
CREATE TABLE holdfast.payload_use (
    run_id TEXT NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (run_id, digest)
) WITHOUT ROWID;
CREATE INDEX holdfast.payload_use_digest ON holdfast.payload_use (digest);

CREATE TABLE holdfast.retention (
    name TEXT PRIMARY KEY,
    what TEXT NOT NULL,        -- runs, or what of their history goes while they stay
    workflow TEXT,
    statuses TEXT NOT NULL,    -- with commas; none means all that are final
    older_than INTEGER,
    keep_last INTEGER,
    max_bytes INTEGER
) WITHOUT ROWID;

-- Duties that one worker at a time does for all.
CREATE TABLE holdfast.upkeep (
    name TEXT PRIMARY KEY,
    session_id TEXT,
    until INTEGER NOT NULL,    -- the duty is somebody's until then, or not due before
    done_at INTEGER
) WITHOUT ROWID;
