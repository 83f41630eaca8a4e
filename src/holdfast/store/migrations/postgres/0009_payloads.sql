-- Large values, kept apart from the rows that refer to them, each once; and the rules by which finished runs are deleted.

CREATE TABLE holdfast.payload (
    digest BYTEA PRIMARY KEY,   -- what it is known by: of its content, and of its key when it is encrypted
    key TEXT COLLATE "C" NOT NULL,         -- the id of the key that it is encrypted with, or nothing
    form TEXT COLLATE "C" NOT NULL,        -- p as it was, z compressed
    size BIGINT NOT NULL,     -- of the value
    stored BIGINT NOT NULL,   -- as it is kept, in all its parts
    parts BIGINT NOT NULL,
    kept_at BIGINT NOT NULL
);

CREATE TABLE holdfast.payload_part (
    digest BYTEA NOT NULL,
    part BIGINT NOT NULL,
    data BYTEA NOT NULL,
    PRIMARY KEY (digest, part)
);

-- Which run refers to which payload. One that no run refers to is gone with the last that did.
CREATE TABLE holdfast.payload_use (
    run_id TEXT COLLATE "C" NOT NULL,
    digest BYTEA NOT NULL,
    PRIMARY KEY (run_id, digest)
);
CREATE INDEX payload_use_digest ON holdfast.payload_use (digest);

CREATE TABLE holdfast.retention (
    name TEXT COLLATE "C" PRIMARY KEY,
    what TEXT COLLATE "C" NOT NULL,        -- runs, or what of their history goes while they stay
    workflow TEXT COLLATE "C",
    statuses TEXT COLLATE "C" NOT NULL,    -- with commas; none means all that are final
    older_than BIGINT,
    keep_last BIGINT,
    max_bytes BIGINT
);

-- Duties that one worker at a time does for all.
CREATE TABLE holdfast.upkeep (
    name TEXT COLLATE "C" PRIMARY KEY,
    session_id TEXT COLLATE "C",
    until BIGINT NOT NULL,    -- the duty is somebody's until then, or not due before
    done_at BIGINT
);

-- The parts are compressed already, or cannot be.
ALTER TABLE holdfast.payload_part ALTER COLUMN data SET STORAGE EXTERNAL;
