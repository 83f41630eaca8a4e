-- Retention on SQLite.

-- name: nth_newest
-- Differs from Postgres: lists are passed as JSON.
SELECT run.finished_at
  FROM holdfast.route AS route CROSS JOIN json_each(:statuses) AS word
 CROSS JOIN holdfast.run AS run holdfast.using(run_finished)
 WHERE route.workflow = :workflow AND run.route_id + 0 = +route.id AND run.status = word.value
   AND run.finished_at IS NOT NULL AND run.root_id IS NULL
 ORDER BY run.finished_at DESC LIMIT 1 OFFSET :skip;

-- name: oldest_finished
-- Differs from Postgres: lists are passed as JSON.
SELECT run.id, run.finished_at
  FROM holdfast.route AS route CROSS JOIN json_each(:statuses) AS word
 CROSS JOIN holdfast.run AS run holdfast.using(run_finished)
 WHERE (route.workflow = :workflow OR :workflow IS NULL) AND run.route_id + 0 = +route.id
   AND run.status = word.value AND run.root_id IS NULL
   AND run.finished_at IS NOT NULL AND run.finished_at >= :since AND run.finished_at < :before
 ORDER BY run.finished_at, run.id LIMIT :limit;
