-- Runs that are leased explicitly, as to remote workers, and what operators do to leases.

-- name: insert_task
INSERT INTO holdfast.task (run_id, policy) VALUES (:run_id, :policy) ON CONFLICT DO NOTHING;

-- name: set_attempt_until
-- When ExpireAttempts must process a run: its attempt reaches its timeout, or it is parked without
-- a holder until then.
INSERT INTO holdfast.task (run_id, policy, attempt_until, generation) VALUES (:run_id, :policy, :until, :generation)
    ON CONFLICT (run_id) DO UPDATE SET attempt_until = excluded.attempt_until, generation = excluded.generation;

-- name: clear_attempt_until
UPDATE holdfast.task SET attempt_until = NULL WHERE run_id = :run_id;

-- name: overdue_attempts
SELECT task.run_id, task.policy, run.priority,
       CASE WHEN run.session_id IS NOT NULL AND run.generation = task.generation THEN 1 ELSE 0 END AS held,
       CASE WHEN run.session_id IS NULL AND run.status = 'waiting' AND run.generation = task.generation THEN 1 ELSE 0 END AS parked
  FROM holdfast.task AS task JOIN holdfast.run AS run ON run.id = task.run_id
 WHERE task.attempt_until <= :now
 ORDER BY task.attempt_until LIMIT :limit;

-- name: next_attempt_end
SELECT MIN(attempt_until) AS attempt_until FROM holdfast.task WHERE attempt_until IS NOT NULL;

-- name: lease_state
SELECT run.id, namespace, status, priority, generation, revision, session_id, crashes, waits, finished_at, parent_id, parent_step,
       parent_index, deadline, graph_id
  FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE run.id = :run_id;

-- name: renew_session
-- An expired session stays expired, even if its runs have not been taken over yet. Workers use
-- `heartbeat` instead.
UPDATE holdfast.session SET beat_at = :now, expires_at = :expires_at WHERE id = :session_id AND expires_at >= :now AND pid = 0;

-- name: save_waits
UPDATE holdfast.run SET waits = :waits WHERE id = :run_id;

-- name: revoke_lease
-- The holder loses its lease.
UPDATE holdfast.run
   SET status = :status, rank = :rank, wake_at = :wake_at, waits = NULL, session_id = NULL, generation = generation + 1
 WHERE id = :run_id AND COALESCE(session_id, '') <> '';

-- name: save_priority
UPDATE holdfast.run
   SET priority = :priority, rank = rank + :shift, revision = revision + CASE WHEN session_id IS NULL THEN 1 ELSE 0 END
 WHERE id = :run_id;

-- name: override_run
UPDATE holdfast.run
   SET status = :status, result = :result, error = :error, finished_at = :now, generation = generation + 1, session_id = NULL,
       rank = NULL, wake_at = NULL, waits = NULL, stuck_cause = NULL, revision = revision + 1
 WHERE id = :run_id;

-- name: set_task_aside
UPDATE holdfast.task SET attempt_until = NULL WHERE run_id = :run_id AND attempt_until IS NOT NULL;

-- name: claim_request
SELECT leases FROM holdfast.claim_request WHERE session_id = :session_id AND key = :key;

-- name: save_claim_request
INSERT INTO holdfast.claim_request (session_id, key, leases, at) VALUES (:session_id, :key, :leases, :at)
    ON CONFLICT (session_id, key) DO UPDATE SET leases = excluded.leases, at = excluded.at;

-- name: forget_old_claims
DELETE FROM holdfast.claim_request WHERE session_id = :session_id AND at < :before;

-- name: forget_claims
DELETE FROM holdfast.claim_request WHERE session_id = :session_id;
