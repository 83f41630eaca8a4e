-- Managed flows: work that somebody outside drives.

CREATE TABLE holdfast.flow (
    id TEXT PRIMARY KEY,
    namespace TEXT NOT NULL,
    controller TEXT NOT NULL,
    goal TEXT NOT NULL,
    owner TEXT NOT NULL,
    requester TEXT NOT NULL,
    current_step TEXT NOT NULL,
    state BYTEA NOT NULL,
    wait BYTEA,
    wake_at BIGINT,              -- when time does something to it
    status TEXT NOT NULL,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX flow_owner ON holdfast.flow (namespace, owner, id);
CREATE INDEX flow_status ON holdfast.flow (status, updated_at);
CREATE INDEX flow_wake ON holdfast.flow (wake_at) WHERE wake_at IS NOT NULL;

CREATE TABLE holdfast.flow_step (
    flow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    task TEXT NOT NULL,
    status TEXT NOT NULL,
    runtime TEXT NOT NULL,
    child_session TEXT,
    result BYTEA,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (flow_id, run_id)
);

CREATE TABLE holdfast.flow_event (
    flow_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    payload BYTEA NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (flow_id, seq)
);
