-- Messages: queries with lists.

-- name: receiving_runs
-- Differs from Postgres: nothing is locked, because one writer is admitted; lists are passed as JSON.
SELECT id, status, priority, session_id, waits, wake_at, finished_at
  FROM holdfast.run
 WHERE id IN (SELECT value FROM json_each(:ids)) AND finished_at IS NULL
 ORDER BY id;

-- name: steps_that_receive
-- Differs from Postgres: lists are passed as JSON.
SELECT run_id, step
  FROM holdfast.message_subscription
 WHERE run_id IN (SELECT value FROM json_each(:ids)) AND namespace = :namespace AND kind = 'signal' AND name = :name;
