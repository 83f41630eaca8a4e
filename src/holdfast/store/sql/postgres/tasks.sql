-- name: lease_facts
-- Differs from SQLite: lists travel as arrays.
SELECT wanted.id AS run_id, (SELECT MAX(seq) FROM holdfast.event AS event WHERE event.run_id = wanted.id) AS seq,
       (SELECT policy FROM holdfast.task AS task WHERE task.run_id = wanted.id) AS policy
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id);

-- name: lease_state
-- Differs from SQLite: locked, so that its holder cannot write meanwhile.
SELECT run.id, namespace, status, priority, generation, revision, session_id, crashes, waits, finished_at, parent_id, parent_step,
       parent_index, deadline
  FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE run.id = :run_id FOR UPDATE OF run;

-- name: overdue_attempts
-- Differs from SQLite: what another process looks after is left to it.
SELECT task.run_id, task.policy, run.priority,
       CASE WHEN run.session_id IS NOT NULL AND run.generation = task.generation THEN 1 ELSE 0 END AS held,
       CASE WHEN run.session_id IS NULL AND run.status = 'waiting' AND run.generation = task.generation THEN 1 ELSE 0 END AS parked
  FROM holdfast.task AS task JOIN holdfast.run AS run ON run.id = task.run_id
 WHERE task.attempt_until <= :now
 ORDER BY task.attempt_until LIMIT :limit FOR UPDATE SKIP LOCKED;

-- name: complete_leases
-- Differs from SQLite: all that ends well, its last lines and its streams in one statement, which checks the leases.
WITH finished AS (
    UPDATE holdfast.run AS run
       SET status = 'completed', result = wanted.result, error = NULL, finished_at = :now, session_id = NULL, rank = NULL,
           wake_at = NULL, waits = NULL
      FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:generation AS BIGINT[]), CAST(:seq AS BIGINT[]), CAST(:result AS BYTEA[]))
        AS wanted (run_id, generation, seq, result)
     WHERE run.id = wanted.run_id AND run.generation = wanted.generation AND COALESCE(run.session_id, '') <> ''
    RETURNING run.id, wanted.seq
), written AS (
    INSERT INTO holdfast.event (run_id, seq, kind, attempt, at)
    SELECT id, seq + 1, 'run_completed', 1, :now FROM finished
), closed AS (
    UPDATE holdfast.stream AS stream
       SET closed_at = :now, reason = 'completed'
      FROM finished
     WHERE stream.run_id = finished.id AND stream.closed_at IS NULL AND stream.generation >= 1
)
SELECT id FROM finished;

-- name: finish_leases
-- `finish_runs` for those who hold explicit leases: whatever their attempts put out is closed with them. They are
-- found one by one: a table that was never analysed must not be read as a whole.
WITH wanted AS (
    SELECT run_id, generation, status, result, error, finished_at, reason, closed_at
      FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:generation AS BIGINT[]), CAST(:status AS TEXT[]), CAST(:result AS BYTEA[]),
                  CAST(:error AS BYTEA[]), CAST(:now AS BIGINT[]), CAST(:reason AS TEXT[]), CAST(:closed_at AS BIGINT[]))
        AS wanted (run_id, generation, status, result, error, finished_at, reason, closed_at)
), leased AS (
    SELECT run.id
      FROM (SELECT run_id, generation FROM wanted ORDER BY run_id COLLATE "C") AS wanted
     CROSS JOIN LATERAL (SELECT run.id FROM holdfast.run AS run
                          WHERE run.id = wanted.run_id AND run.generation = wanted.generation AND COALESCE(run.session_id, '') <> ''
                            FOR NO KEY UPDATE) AS run
), finished AS (
    UPDATE holdfast.run AS run
       SET status = wanted.status, result = wanted.result, error = wanted.error, finished_at = wanted.finished_at,
           session_id = NULL, rank = NULL, wake_at = NULL, waits = NULL
      FROM wanted JOIN leased ON leased.id = wanted.run_id
     WHERE run.id = wanted.run_id
), written AS (
    INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at)
    SELECT line.run_id, line.seq, line.kind, line.step, line.attempt, line.data, line.error, line.started_at, line.at
      FROM UNNEST(CAST(:line_run_id AS TEXT[]), CAST(:line_seq AS BIGINT[]), CAST(:line_kind AS TEXT[]),
                  CAST(:line_step AS TEXT[]), CAST(:line_attempt AS BIGINT[]), CAST(:line_data AS BYTEA[]),
                  CAST(:line_error AS BYTEA[]), CAST(:line_started_at AS BIGINT[]), CAST(:line_at AS BIGINT[]))
        AS line (run_id, seq, kind, step, attempt, data, error, started_at, at)
      JOIN leased ON leased.id = line.run_id
), closed AS (
    UPDATE holdfast.stream AS stream
       SET closed_at = wanted.closed_at, reason = wanted.reason
      FROM wanted JOIN leased ON leased.id = wanted.run_id
     WHERE stream.run_id = wanted.run_id AND stream.closed_at IS NULL AND stream.generation >= 1
)
SELECT id FROM leased;

-- name: release_leases
-- `release_runs` for those who hold explicit leases: whatever their attempts put out is closed with them. They are
-- found one by one: a table that was never analysed must not be read as a whole.
WITH wanted AS (
    SELECT run_id, generation, revision, status, unless, waits, wake_at, ready_at, step, error, reason, closed_at
      FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:generation AS BIGINT[]), CAST(:revision AS BIGINT[]), CAST(:status AS TEXT[]),
                  CAST(:unless AS TEXT[]), CAST(:waits AS BYTEA[]), CAST(:wake_at AS BIGINT[]), CAST(:ready_at AS BIGINT[]),
                  CAST(:step AS BIGINT[]), CAST(:error AS BYTEA[]), CAST(:reason AS TEXT[]), CAST(:closed_at AS BIGINT[]))
        AS wanted (run_id, generation, revision, status, unless, waits, wake_at, ready_at, step, error, reason, closed_at)
), leased AS (
    SELECT run.id
      FROM (SELECT run_id, generation, revision, unless FROM wanted ORDER BY run_id COLLATE "C") AS wanted
     CROSS JOIN LATERAL (SELECT run.id FROM holdfast.run AS run
                          WHERE run.id = wanted.run_id AND run.generation = wanted.generation AND COALESCE(run.session_id, '') <> ''
                            AND run.status <> wanted.unless AND (run.revision = wanted.revision OR wanted.revision < 0)
                            FOR NO KEY UPDATE) AS run
), released AS (
    UPDATE holdfast.run AS run
       SET status = wanted.status, waits = wanted.waits, wake_at = wanted.wake_at, error = wanted.error,
           rank = wanted.ready_at - run.priority * wanted.step, session_id = NULL
      FROM wanted JOIN leased ON leased.id = wanted.run_id
     WHERE run.id = wanted.run_id
), written AS (
    INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at)
    SELECT line.run_id, line.seq, line.kind, line.step, line.attempt, line.data, line.error, line.started_at, line.at
      FROM UNNEST(CAST(:line_run_id AS TEXT[]), CAST(:line_seq AS BIGINT[]), CAST(:line_kind AS TEXT[]),
                  CAST(:line_step AS TEXT[]), CAST(:line_attempt AS BIGINT[]), CAST(:line_data AS BYTEA[]),
                  CAST(:line_error AS BYTEA[]), CAST(:line_started_at AS BIGINT[]), CAST(:line_at AS BIGINT[]))
        AS line (run_id, seq, kind, step, attempt, data, error, started_at, at)
      JOIN leased ON leased.id = line.run_id
), closed AS (
    UPDATE holdfast.stream AS stream
       SET closed_at = wanted.closed_at, reason = wanted.reason
      FROM wanted JOIN leased ON leased.id = wanted.run_id
     WHERE stream.run_id = wanted.run_id AND stream.closed_at IS NULL AND stream.generation >= 1
)
SELECT id FROM leased;

-- name: lease_histories
-- Of each run what its next holder must know: since its last wait, and how its attempts have failed. All of it when some of it
-- may be void. Differs from SQLite: lists travel as arrays.
WITH last AS MATERIALIZED (
    SELECT wanted.id AS run_id,
           (SELECT CASE WHEN MAX(CASE WHEN kind = 'run_replayed' THEN 1 ELSE 0 END) = 1 THEN 0
                        ELSE MAX(CASE WHEN kind = 'wait_opened' THEN seq ELSE 0 END) END
              FROM holdfast.event AS event WHERE event.run_id = wanted.id) AS since
      FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id)
)
SELECT event.run_id, event.seq, event.kind, event.step, event.attempt, event.data, event.error, event.started_at, event.at
  FROM last JOIN holdfast.event AS event ON event.run_id = last.run_id
 WHERE event.seq >= last.since OR event.kind IN ('attempt_failed', 'lease_lost')
 ORDER BY event.run_id, event.seq;
