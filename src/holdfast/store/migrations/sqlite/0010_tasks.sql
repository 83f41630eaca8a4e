-- What was agreed, when a run was started, for whoever leases it.
CREATE TABLE holdfast.task (
    run_id TEXT PRIMARY KEY,
    policy BLOB NOT NULL,
    attempt_until INTEGER,        -- when the attempt at work has taken too long
    generation INTEGER            -- of that attempt
) WITHOUT ROWID;
CREATE INDEX holdfast.task_until ON holdfast.task (attempt_until) WHERE attempt_until IS NOT NULL;
