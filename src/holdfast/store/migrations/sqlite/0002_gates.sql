-- Keys that sign tokens for those who answer from outside. Times are microseconds since 1970.

CREATE TABLE holdfast.key (
    kid TEXT PRIMARY KEY,
    secret BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER         -- none: it is the current one, and signs
) WITHOUT ROWID;

-- There is one current key at most, whoever makes the first one.
CREATE UNIQUE INDEX holdfast.key_current ON holdfast.key ((expires_at IS NULL)) WHERE expires_at IS NULL;

-- Decisions that are asked of people. What was agreed on at the opening is in `terms`; the rest changes.
CREATE TABLE holdfast.gate (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    step TEXT NOT NULL,
    status TEXT NOT NULL,
    prompt TEXT NOT NULL,
    terms BLOB NOT NULL,
    assignees BLOB NOT NULL,
    roles BLOB NOT NULL,
    data BLOB,
    hash TEXT,
    opened_at INTEGER NOT NULL,
    deadline INTEGER,
    reminded INTEGER NOT NULL DEFAULT 0,
    reminded_at INTEGER,
    escalated INTEGER NOT NULL DEFAULT 0,
    closed_at INTEGER,
    choice TEXT,
    reason TEXT
) WITHOUT ROWID;
CREATE INDEX holdfast.gate_run ON holdfast.gate (run_id, id);
CREATE INDEX holdfast.gate_open ON holdfast.gate (id) WHERE closed_at IS NULL;

-- What was done to a gate, line by line: decisions, delegations, reminders.
CREATE TABLE holdfast.gate_entry (
    gate_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    person TEXT,
    at INTEGER NOT NULL,
    lapsed INTEGER NOT NULL DEFAULT 0,
    detail BLOB NOT NULL,
    PRIMARY KEY (gate_id, number)
) WITHOUT ROWID;
CREATE INDEX holdfast.gate_entry_run ON holdfast.gate_entry (run_id, gate_id, number);

-- In whose inbox an open gate is. Closed ones are in none, so that they cost nobody anything.
CREATE TABLE holdfast.gate_seat (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    gate_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (kind, name, gate_id)
) WITHOUT ROWID;
CREATE INDEX holdfast.gate_seat_gate ON holdfast.gate_seat (gate_id);
CREATE INDEX holdfast.gate_seat_run ON holdfast.gate_seat (run_id);
