-- Retention on PostgreSQL.

-- name: nth_newest
-- Differs from SQLite: lists are passed as arrays.
SELECT finished_at
  FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE parent_id IS NULL AND finished_at IS NOT NULL AND status = ANY(CAST(:statuses AS TEXT[])) AND workflow = :workflow
 ORDER BY finished_at DESC LIMIT 1 OFFSET :skip;

-- name: oldest_finished
-- Differs from SQLite: lists are passed as arrays.
SELECT run.id, finished_at
  FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE parent_id IS NULL AND finished_at >= :since AND finished_at < :before
   AND status = ANY(CAST(:statuses AS TEXT[])) AND (workflow = :workflow OR :workflow IS NULL)
 ORDER BY finished_at, run.id LIMIT :limit;

-- name: retention_to_change
-- Differs from SQLite: the row is locked.
SELECT name, target, workflow, statuses, older_than, keep_last, max_bytes FROM holdfast.retention WHERE name = :name FOR UPDATE;
