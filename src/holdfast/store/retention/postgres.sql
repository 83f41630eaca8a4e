-- Retention on PostgreSQL.

-- name: nth_newest
-- Differs from SQLite: lists are passed as arrays.
SELECT run.finished_at
  FROM holdfast.route AS route JOIN holdfast.run AS run ON run.route_id + 0 = route.id
 WHERE route.workflow = :workflow AND run.status = ANY(CAST(:statuses AS TEXT[]))
   AND run.finished_at IS NOT NULL AND run.root_id IS NULL
 ORDER BY run.finished_at DESC LIMIT 1 OFFSET :skip;

-- name: oldest_finished
-- Differs from SQLite: lists are passed as arrays.
SELECT run.id, run.finished_at
  FROM holdfast.route AS route JOIN holdfast.run AS run ON run.route_id + 0 = route.id
 WHERE (route.workflow = :workflow OR :workflow IS NULL) AND run.status = ANY(CAST(:statuses AS TEXT[]))
   AND run.root_id IS NULL AND run.finished_at >= :since AND run.finished_at < :before
 ORDER BY run.finished_at, run.id LIMIT :limit;

-- name: retention_to_change
-- Differs from SQLite: the row is locked.
SELECT name, target, workflow, statuses, older_than, keep_last, max_bytes FROM holdfast.retention WHERE name = :name FOR UPDATE;
