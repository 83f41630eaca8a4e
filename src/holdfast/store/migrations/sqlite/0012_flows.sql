-- Managed flows: work that somebody outside drives.

CREATE TABLE holdfast.flow (
    id TEXT PRIMARY KEY,
    namespace TEXT NOT NULL,
    controller TEXT NOT NULL,
    goal TEXT NOT NULL,
    owner TEXT NOT NULL,
    requester TEXT NOT NULL,
    current_step TEXT NOT NULL,
    state BLOB NOT NULL,
    wait BLOB,
    wake_at INTEGER,              -- when time does something to it
    status TEXT NOT NULL,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    revision INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX holdfast.flow_owner ON holdfast.flow (namespace, owner, id);
CREATE INDEX holdfast.flow_status ON holdfast.flow (status, updated_at);
CREATE INDEX holdfast.flow_wake ON holdfast.flow (wake_at) WHERE wake_at IS NOT NULL;

CREATE TABLE holdfast.flow_step (
    flow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    task TEXT NOT NULL,
    status TEXT NOT NULL,
    runtime TEXT NOT NULL,
    child_session TEXT,
    result BLOB,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (flow_id, run_id)
) WITHOUT ROWID;

CREATE TABLE holdfast.flow_event (
    flow_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    payload BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (flow_id, seq)
) WITHOUT ROWID;
