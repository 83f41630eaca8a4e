-- What was agreed, when a run was started, for whoever leases it.
CREATE TABLE holdfast.task (
    run_id TEXT PRIMARY KEY,
    policy BYTEA NOT NULL,
    attempt_until BIGINT,        -- when the attempt at work has taken too long
    generation BIGINT            -- of that attempt
);
CREATE INDEX task_until ON holdfast.task (attempt_until) WHERE attempt_until IS NOT NULL;
