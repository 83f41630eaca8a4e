-- Schedules: the queries that PostgreSQL needs in its own dialect. A schedule is locked before it
-- is changed.

-- name: load_schedule
-- Differs from SQLite: the row is locked.
SELECT namespace, name, workflow, version, lane, capabilities, input, priority, tags, deadline, rule, zone, overlap, queue_limit,
       misfire, catch_up, grace, jitter, origin, paused, anchor, next_at, wake_at, last_at, queued, started, skipped, note,
       created_at
  FROM holdfast.schedule
 WHERE namespace = :namespace AND name = :name
   FOR NO KEY UPDATE;

-- name: due_schedules
-- Differs from SQLite: a schedule that another process is firing is skipped.
SELECT namespace, name, workflow, version, lane, capabilities, input, priority, tags, deadline, rule, zone, overlap, queue_limit,
       misfire, catch_up, grace, jitter, origin, paused, anchor, next_at, wake_at, last_at, queued, started, skipped, note,
       created_at
  FROM holdfast.schedule
 WHERE wake_at <= :now
 ORDER BY wake_at LIMIT :limit
   FOR NO KEY UPDATE SKIP LOCKED;
