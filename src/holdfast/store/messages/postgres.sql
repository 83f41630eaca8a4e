-- Messages: the queries that PostgreSQL needs in its own dialect.

-- name: lock_name
-- Only PostgreSQL has several writers. A name has no row of its own.
SELECT 1 AS locked FROM pg_advisory_xact_lock(:number);

-- name: receiving_runs
-- Differs from SQLite: the rows are locked, in the order of their ids; lists are passed as arrays.
SELECT id, status, priority, session_id, waits, wake_at, finished_at
  FROM holdfast.run
 WHERE id = ANY(CAST(:ids AS TEXT[])) AND finished_at IS NULL
 ORDER BY id
   FOR NO KEY UPDATE;

-- name: steps_that_receive
-- Differs from SQLite: lists are passed as arrays.
SELECT run_id, step
  FROM holdfast.message_subscription
 WHERE run_id = ANY(CAST(:ids AS TEXT[])) AND namespace = :namespace AND kind = 'signal' AND name = :name;
