-- Keys that sign tokens for those who answer from outside. Times are microseconds since 1970.

CREATE TABLE holdfast.key (
    kid TEXT COLLATE "C" PRIMARY KEY,
    secret BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT         -- none: it is the current one, and signs
);

-- There is one current key at most, whoever makes the first one.
CREATE UNIQUE INDEX key_current ON holdfast.key ((expires_at IS NULL)) WHERE expires_at IS NULL;

-- Decisions that are asked of people. What was agreed on at the opening is in `terms`; the rest changes.
CREATE TABLE holdfast.gate (
    id TEXT COLLATE "C" PRIMARY KEY,
    run_id TEXT COLLATE "C" NOT NULL,
    step TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    prompt TEXT COLLATE "C" NOT NULL,
    terms BYTEA NOT NULL,
    assignees BYTEA NOT NULL,
    roles BYTEA NOT NULL,
    data BYTEA,
    hash TEXT COLLATE "C",
    opened_at BIGINT NOT NULL,
    deadline BIGINT,
    reminded BIGINT NOT NULL DEFAULT 0,
    reminded_at BIGINT,
    escalated BIGINT NOT NULL DEFAULT 0,
    closed_at BIGINT,
    choice TEXT COLLATE "C",
    reason TEXT COLLATE "C"
);
CREATE INDEX gate_run ON holdfast.gate (run_id, id);
CREATE INDEX gate_open ON holdfast.gate (id) WHERE closed_at IS NULL;

-- What was done to a gate, line by line: decisions, delegations, reminders.
CREATE TABLE holdfast.gate_entry (
    gate_id TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    run_id TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    person TEXT COLLATE "C",
    at BIGINT NOT NULL,
    lapsed BIGINT NOT NULL DEFAULT 0,
    detail BYTEA NOT NULL,
    PRIMARY KEY (gate_id, number)
);
CREATE INDEX gate_entry_run ON holdfast.gate_entry (run_id, gate_id, number);

-- In whose inbox an open gate is. Closed ones are in none, so that they cost nobody anything.
CREATE TABLE holdfast.gate_seat (
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    gate_id TEXT COLLATE "C" NOT NULL,
    run_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (kind, name, gate_id)
);
CREATE INDEX gate_seat_gate ON holdfast.gate_seat (gate_id);
CREATE INDEX gate_seat_run ON holdfast.gate_seat (run_id);
