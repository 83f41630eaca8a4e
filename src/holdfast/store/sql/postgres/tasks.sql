-- name: policies
SELECT run_id, policy FROM holdfast.task WHERE run_id = ANY(CAST(:ids AS TEXT[]));

-- name: last_seqs
SELECT run_id, MAX(seq) AS seq FROM holdfast.event WHERE run_id = ANY(CAST(:ids AS TEXT[])) GROUP BY run_id;

-- name: lease_state
-- Differs from SQLite: locked, so that its holder cannot write meanwhile.
SELECT run.id, namespace, status, priority, generation, revision, session_id, crashes, waits, finished_at, parent_id, parent_step,
       parent_index
  FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE run.id = :run_id FOR UPDATE OF run;

-- name: overdue_attempts
-- Differs from SQLite: what another process looks after is left to it.
SELECT task.run_id, task.policy, run.priority,
       CASE WHEN run.session_id IS NOT NULL AND run.generation = task.generation THEN 1 ELSE 0 END AS held
  FROM holdfast.task AS task JOIN holdfast.run AS run ON run.id = task.run_id
 WHERE task.attempt_until <= :now
 ORDER BY task.attempt_until LIMIT :limit FOR UPDATE SKIP LOCKED;
