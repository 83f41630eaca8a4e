-- Waits of runs, and the issued waits to which outside callers deliver signals.

-- name: open_wait
-- A step that is repeated after a replay opens its wait again.
INSERT INTO holdfast.wait (run_id, step, id, name, kid, opened_at, until, reason, asked_by)
VALUES (:run_id, :step, :id, :name, :kid, :opened_at, :until, :reason, :asked_by)
    ON CONFLICT (run_id, step) DO UPDATE
   SET id = excluded.id, name = excluded.name, kid = excluded.kid, opened_at = excluded.opened_at, until = excluded.until,
       escalated_at = NULL, closed_at = NULL, closed_by = NULL, reason = excluded.reason, asked_by = excluded.asked_by;

-- name: reopen_wait
UPDATE holdfast.wait SET closed_at = NULL, closed_by = NULL WHERE run_id = :run_id AND step = :step;

-- name: reopen_waits
-- The waits that the end of the run or a timeout closed, when a replay continues the run.
UPDATE holdfast.wait SET closed_at = NULL, closed_by = NULL
 WHERE run_id = :run_id AND closed_by IN ('the end of the run', 'timeout');

-- name: escalate_wait
UPDATE holdfast.wait SET escalated_at = :now, until = NULL WHERE run_id = :run_id AND step = :step AND closed_at IS NULL;

-- name: close_wait
UPDATE holdfast.wait SET closed_at = :now, closed_by = :by WHERE run_id = :run_id AND step = :step AND closed_at IS NULL;

-- name: rename_incident
-- The run has moved to a version in which the failed element has another name.
UPDATE holdfast.wait SET reason = :element WHERE run_id = :run_id AND step = :step AND name = 'incident';

-- name: wait_by_id
SELECT run_id, step, id, name, kid, opened_at, until, escalated_at, closed_at, closed_by, reason, asked_by
  FROM holdfast.wait
 WHERE id = :wait_id;

-- name: wait_of_step
SELECT run_id, step, id, name, kid, opened_at, until, escalated_at, closed_at, closed_by, reason, asked_by
  FROM holdfast.wait
 WHERE run_id = :run_id AND step = :step;

-- name: waits_of_run
SELECT run_id, step, id, name, kid, opened_at, until, escalated_at, closed_at, closed_by, reason, asked_by
  FROM holdfast.wait
 WHERE run_id = :run_id AND (opened_at, step) > (:opened_at, :step)
   AND (:escalated = 0 OR (escalated_at IS NOT NULL AND closed_at IS NULL))
 ORDER BY opened_at, step LIMIT :limit;

-- name: open_waits
-- The next to time out first; a wait without a timeout comes last.
SELECT wait.run_id, step, wait.id, name, kid, opened_at, until, escalated_at, closed_at, closed_by, reason, asked_by
  FROM holdfast.wait AS wait JOIN holdfast.run AS run ON run.id = wait.run_id
 WHERE closed_at IS NULL AND run.finished_at IS NULL
   AND (COALESCE(until, 4611686018427387904), opened_at, wait.run_id, step) > (:due, :opened_at, :after_run, :step)
   AND (CAST(:namespace AS TEXT) IS NULL
        OR EXISTS (SELECT 1 FROM holdfast.route AS route WHERE route.id = run.route_id AND route.namespace = :namespace))
 ORDER BY COALESCE(until, 4611686018427387904), opened_at, wait.run_id, step LIMIT :limit;

-- name: escalated_waits
SELECT wait.run_id, step, wait.id, name, kid, opened_at, until, escalated_at, closed_at, closed_by, reason, asked_by
  FROM holdfast.wait AS wait JOIN holdfast.run AS run ON run.id = wait.run_id
 WHERE escalated_at IS NOT NULL AND closed_at IS NULL AND run.finished_at IS NULL
   AND (escalated_at, opened_at, wait.run_id, step) > (:due, :opened_at, :after_run, :step)
   AND (CAST(:namespace AS TEXT) IS NULL
        OR EXISTS (SELECT 1 FROM holdfast.route AS route WHERE route.id = run.route_id AND route.namespace = :namespace))
 ORDER BY escalated_at, opened_at, wait.run_id, step LIMIT :limit;

-- name: incidents
SELECT wait.run_id, step, wait.id, name, kid, opened_at, until, escalated_at, closed_at, closed_by, reason, asked_by
  FROM holdfast.wait AS wait JOIN holdfast.run AS run ON run.id = wait.run_id
 WHERE name = 'incident' AND escalated_at IS NOT NULL AND closed_at IS NULL AND run.finished_at IS NULL
   AND (escalated_at, opened_at, wait.run_id, step) > (:due, :opened_at, :after_run, :step)
   AND (CAST(:namespace AS TEXT) IS NULL
        OR EXISTS (SELECT 1 FROM holdfast.route AS route WHERE route.id = run.route_id AND route.namespace = :namespace))
 ORDER BY escalated_at, opened_at, wait.run_id, step LIMIT :limit;

-- name: incidents_of_run
SELECT run_id, step, id, name, kid, opened_at, until, escalated_at, closed_at, closed_by, reason, asked_by
  FROM holdfast.wait
 WHERE run_id = :run_id AND name = 'incident' AND escalated_at IS NOT NULL AND closed_at IS NULL
   AND (escalated_at, opened_at, run_id, step) > (:due, :opened_at, :after_run, :step)
 ORDER BY escalated_at, opened_at, run_id, step LIMIT :limit;

-- name: kinds_of_step
SELECT kind FROM holdfast.event WHERE run_id = :run_id AND step = :step ORDER BY seq;

-- name: signals_by_kind
-- Without payloads and order, which most conditions do not need.
SELECT name, wait_id, source, COUNT(*) AS times
  FROM holdfast.signal
 WHERE run_id = :run_id AND taken = 0 AND step IS NULL
 GROUP BY name, wait_id, source;

-- name: signals_to_judge
SELECT name, wait_id, source, payload FROM holdfast.signal WHERE run_id = :run_id AND taken = 0 AND step IS NULL ORDER BY id;

-- name: begin_at
UPDATE holdfast.run SET wake_at = :at, revision = revision + 1
 WHERE id = :run_id AND status = 'pending' AND session_id IS NULL AND wake_at > :now;
