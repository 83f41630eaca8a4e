-- name: lease_facts
-- Differs from SQLite: lists are passed as arrays.
SELECT wanted.id AS run_id, (SELECT MAX(seq) FROM holdfast.event AS event WHERE event.run_id = wanted.id) AS seq,
       (SELECT policy FROM holdfast.task AS task WHERE task.run_id = wanted.id) AS policy
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id);

-- name: lease_ready
-- `check_work`, `claim_ready`, `lease_facts`, `lease_histories` and `signals_of` in one
-- statement, for explicit leases; at least one row. It leases nothing if more than the rank
-- decides, or if something is due: then the caller continues step by step. Nor does it lease a run
-- that changed between the read and its lock, because the returned history is as old as the read.
-- Lists and limits are hidden from the planner: otherwise it would plan again for each length,
-- which takes longer than the query. Histories are returned as JSON, with bytes in base 64.
WITH asked AS MATERIALIZED (
    SELECT EXISTS (SELECT 1 FROM holdfast.session WHERE id = :session_id) AS open,
           COALESCE((SELECT MIN(wake_at) FROM holdfast.run WHERE wake_at IS NOT NULL AND session_id IS NULL) <= :now, FALSE) AS due,
           EXISTS (SELECT 1 FROM UNNEST((SELECT CAST(:route_ids AS BIGINT[]))) AS wanted (route_id)
                    CROSS JOIN LATERAL (SELECT run.id FROM holdfast.run AS run
                                         WHERE run.route_id = wanted.route_id AND run.rank IS NOT NULL AND run.crashes < 2
                                         ORDER BY run.rank LIMIT 1) AS found) AS ready,
           EXISTS (SELECT 1 FROM UNNEST((SELECT CAST(:route_ids AS BIGINT[]))) AS wanted (route_id)
                    CROSS JOIN LATERAL (SELECT run.id FROM holdfast.run AS run
                                         WHERE run.route_id = wanted.route_id AND run.rank IS NOT NULL AND run.crashes >= 2
                                         ORDER BY run.rank LIMIT 1) AS found) AS suspect,
           EXISTS (SELECT 1 FROM holdfast.lane
                    WHERE concurrency IS NOT NULL OR rate_limit IS NOT NULL OR per_share IS NOT NULL
                               OR share_rate_limit IS NOT NULL OR paused = 1) AS limited
), ready AS MATERIALIZED (
    SELECT found.id, found.rank, found.row_version
      FROM UNNEST((SELECT CASE WHEN open AND NOT due AND NOT suspect AND NOT limited THEN CAST(:route_ids AS BIGINT[]) END
                     FROM asked)) AS wanted (route_id)
     CROSS JOIN LATERAL (SELECT run.id, run.rank, run.xmin AS row_version
                           FROM holdfast.run AS run
                          WHERE run.route_id = wanted.route_id AND run.rank IS NOT NULL AND run.crashes < 2
                          ORDER BY run.rank, run.id LIMIT (SELECT CAST(:limit AS BIGINT))
                            FOR NO KEY UPDATE SKIP LOCKED) AS found
     ORDER BY found.rank, found.id LIMIT (SELECT CAST(:limit AS BIGINT))
), leased AS (
    UPDATE holdfast.run AS run
       SET status = claim.becomes, session_id = :session_id, generation = generation + 1, rank = NULL,
           started_at = COALESCE(started_at, :now)
      FROM UNNEST(ARRAY(SELECT id FROM ready), ARRAY(SELECT rank FROM ready), ARRAY(SELECT row_version FROM ready))
             AS best (id, rank, row_version),
           UNNEST((SELECT CAST(:was AS TEXT[])), (SELECT CAST(:becomes AS TEXT[]))) AS claim (was, becomes), holdfast.route AS route
     WHERE run.id = best.id AND best.id = best.id || '' AND run.xmin = best.row_version AND run.rank IS NOT NULL
       AND run.status = claim.was AND route.id = run.route_id
       AND EXISTS (SELECT 1 FROM holdfast.session WHERE id = :session_id FOR KEY SHARE)
    RETURNING best.rank, holdfast.columns_of(run)
)
SELECT asked.open, asked.due, asked.ready, asked.suspect, asked.limited, known.seq,
       (SELECT policy FROM holdfast.task AS task WHERE task.run_id = leased.id COLLATE "default") AS policy,
       CASE WHEN known.seq IS NOT NULL THEN
           (SELECT CAST(JSON_AGG(JSON_BUILD_OBJECT(
                       'seq', event.seq, 'kind', event.kind, 'step', event.step, 'attempt', event.attempt,
                       'data', REPLACE(ENCODE(event.data, 'base64'), CHR(10), ''),
                       'error', REPLACE(ENCODE(event.error, 'base64'), CHR(10), ''),
                       'started_at', event.started_at, 'at', event.at) ORDER BY event.seq) AS TEXT)
              FROM holdfast.event AS event
             WHERE event.run_id = leased.id
               AND (event.kind IN ('attempt_failed', 'child_started', 'children_awaited', 'lease_lost', 'lease_revoked')
                    OR event.seq >= (SELECT CASE WHEN MAX(CASE WHEN kind = 'run_replayed' THEN 1 ELSE 0 END) = 1 THEN 0
                                                 ELSE MAX(CASE WHEN kind = 'wait_opened' THEN seq ELSE 0 END) END
                                       FROM holdfast.event AS past WHERE past.run_id = leased.id)))
       END AS history,
       CASE WHEN known.seq IS NOT NULL THEN
           (SELECT CAST(JSON_AGG(JSON_BUILD_OBJECT(
                       'id', signal.id, 'name', signal.name, 'payload', REPLACE(ENCODE(signal.payload, 'base64'), CHR(10), ''),
                       'at', signal.at, 'number', signal.number, 'wait_id', signal.wait_id, 'source', signal.source,
                       'step', signal.step) ORDER BY signal.id) AS TEXT)
              FROM holdfast.signal AS signal WHERE signal.run_id = leased.id AND signal.taken = 0)
       END AS signals, leased.*
  FROM asked LEFT JOIN leased ON TRUE
  LEFT JOIN LATERAL (SELECT MAX(event.seq) AS seq FROM holdfast.event AS event WHERE event.run_id = leased.id) AS known ON TRUE
 ORDER BY leased.rank, leased.id;

-- name: lease_state
-- Differs from SQLite: the row is locked, so that the holder cannot write meanwhile.
SELECT run.id, namespace, status, priority, generation, revision, session_id, crashes, waits, finished_at, parent_id, parent_step,
       parent_index, deadline, graph_id
  FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE run.id = :run_id FOR UPDATE OF run;

-- name: overdue_attempts
-- Differs from SQLite: an attempt that another process is expiring is skipped.
SELECT task.run_id, task.policy, run.priority,
       CASE WHEN run.session_id IS NOT NULL AND run.generation = task.generation THEN 1 ELSE 0 END AS held,
       CASE WHEN run.session_id IS NULL AND run.status = 'waiting' AND run.generation = task.generation THEN 1 ELSE 0 END AS parked
  FROM holdfast.task AS task JOIN holdfast.run AS run ON run.id = task.run_id
 WHERE task.attempt_until <= :now
 ORDER BY task.attempt_until LIMIT :limit FOR UPDATE SKIP LOCKED;

-- name: resume_leases
-- `append_guarded_many` for the outcomes of waits that new holders of leases must receive; it also
-- closes these waits.
WITH leased AS (
    SELECT run.id
      FROM UNNEST((SELECT CAST(:run_id AS TEXT[])), (SELECT CAST(:generation AS BIGINT[]))) AS wanted (id, generation)
     CROSS JOIN LATERAL (SELECT run.id FROM holdfast.run AS run
                          WHERE run.id = wanted.id AND run.generation = wanted.generation AND COALESCE(run.session_id, '') <> ''
                            FOR NO KEY UPDATE) AS run
), heard AS (
    UPDATE holdfast.signal AS signal SET taken = 1
      FROM UNNEST((SELECT CAST(:taken AS BIGINT[]))) AS wanted (id)
     WHERE signal.id = wanted.id AND wanted.id = wanted.id + 0 AND signal.run_id IN (SELECT id FROM leased)
), written AS (
    INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
    SELECT line.run_id, line.seq, line.kind, line.step, line.attempt, line.data, line.error, line.started_at, line.at, line.role
      FROM UNNEST(CAST(:line_run_id AS TEXT[]), CAST(:line_seq AS BIGINT[]), CAST(:line_kind AS TEXT[]),
                  CAST(:line_step AS TEXT[]), CAST(:line_attempt AS BIGINT[]), CAST(:line_data AS BYTEA[]),
                  CAST(:line_error AS BYTEA[]), CAST(:line_started_at AS BIGINT[]), CAST(:line_at AS BIGINT[]),
                  CAST(:line_role AS TEXT[]))
        AS line (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
      JOIN leased ON leased.id = line.run_id
), closed AS (
    UPDATE holdfast.wait AS wait SET closed_at = over.now, closed_by = over.by
      FROM UNNEST((SELECT CAST(:over_run_id AS TEXT[])), (SELECT CAST(:over_step AS TEXT[])), (SELECT CAST(:over_by AS TEXT[])),
                  (SELECT CAST(:over_now AS BIGINT[]))) AS over (run_id, step, by, now)
     WHERE wait.run_id = over.run_id AND over.run_id = over.run_id || '' AND wait.step = over.step AND wait.closed_at IS NULL
       AND over.run_id IN (SELECT id FROM leased)
)
SELECT id FROM leased;

-- name: complete_leases
-- Differs from SQLite: all ends, last events and streams in one statement, which checks the leases.
-- ("|| ''" hides from the planner how many there are: each is found by index, also while a new
-- table looks small enough to be read completely. The table grows, and plans are cached.)
WITH finished AS (
    UPDATE holdfast.run AS run
       SET status = 'completed', result = wanted.result, error = NULL, finished_at = :now, session_id = NULL, rank = NULL,
           wake_at = NULL, waits = NULL
      FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:generation AS BIGINT[]), CAST(:seq AS BIGINT[]), CAST(:result AS BYTEA[]),
                  CAST(:data AS BYTEA[]), CAST(:started_at AS BIGINT[]))
        AS wanted (run_id, generation, seq, result, data, started_at)
     WHERE run.id = wanted.run_id AND wanted.run_id = wanted.run_id || '' AND run.generation = wanted.generation
       AND COALESCE(run.session_id, '') <> '' AND run.graph_id IS NULL
    RETURNING run.id, wanted.seq, wanted.data, wanted.started_at
), written AS (
    INSERT INTO holdfast.event (run_id, seq, kind, attempt, data, started_at, at)
    SELECT id, seq + 1, 'run_completed', 1, data, started_at, :now FROM finished
), closed AS (
    UPDATE holdfast.stream AS stream
       SET closed_at = :now, reason = 'completed'
      FROM finished
     WHERE stream.run_id = finished.id AND stream.closed_at IS NULL AND stream.generation >= 1
)
SELECT id FROM finished;

-- name: finish_leases
-- `finish_runs` for explicit leases; also closes the streams of their attempts. The rows are found
-- one by one: a table without statistics must not be read completely.
WITH wanted AS (
    SELECT run_id, generation, status, result, error, finished_at, graph_id, reason, closed_at
      FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:generation AS BIGINT[]), CAST(:status AS TEXT[]), CAST(:result AS BYTEA[]),
                  CAST(:error AS BYTEA[]), CAST(:now AS BIGINT[]), CAST(:graph_id AS TEXT[]), CAST(:reason AS TEXT[]),
                  CAST(:closed_at AS BIGINT[]))
        AS wanted (run_id, generation, status, result, error, finished_at, graph_id, reason, closed_at)
), leased AS (
    SELECT run.id
      FROM (SELECT run_id, generation, graph_id FROM wanted ORDER BY run_id COLLATE "C") AS wanted
     CROSS JOIN LATERAL (SELECT run.id FROM holdfast.run AS run
                          WHERE run.id = wanted.run_id AND run.generation = wanted.generation AND COALESCE(run.session_id, '') <> ''
                            AND COALESCE(run.graph_id, '') = wanted.graph_id
                            FOR NO KEY UPDATE) AS run
), finished AS (
    UPDATE holdfast.run AS run
       SET status = wanted.status, result = wanted.result, error = wanted.error, finished_at = wanted.finished_at,
           session_id = NULL, rank = NULL, wake_at = NULL, waits = NULL
      FROM wanted JOIN leased ON leased.id = wanted.run_id
     WHERE run.id = wanted.run_id AND wanted.run_id = wanted.run_id || ''
), written AS (
    INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
    SELECT line.run_id, line.seq, line.kind, line.step, line.attempt, line.data, line.error, line.started_at, line.at, line.role
      FROM UNNEST(CAST(:line_run_id AS TEXT[]), CAST(:line_seq AS BIGINT[]), CAST(:line_kind AS TEXT[]),
                  CAST(:line_step AS TEXT[]), CAST(:line_attempt AS BIGINT[]), CAST(:line_data AS BYTEA[]),
                  CAST(:line_error AS BYTEA[]), CAST(:line_started_at AS BIGINT[]), CAST(:line_at AS BIGINT[]),
                  CAST(:line_role AS TEXT[]))
        AS line (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
      JOIN leased ON leased.id = line.run_id
), closed AS (
    UPDATE holdfast.stream AS stream
       SET closed_at = wanted.closed_at, reason = wanted.reason
      FROM wanted JOIN leased ON leased.id = wanted.run_id
     WHERE stream.run_id = wanted.run_id AND stream.closed_at IS NULL AND stream.generation >= 1
)
SELECT id FROM leased;

-- name: release_leases
-- `release_runs` for explicit leases; also closes the streams of their attempts. The rows are found
-- one by one: a table without statistics must not be read completely.
WITH wanted AS (
    SELECT run_id, generation, revision, status, unless, waits, wake_at, ready_at, step, error, stuck_cause, reason, closed_at
      FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:generation AS BIGINT[]), CAST(:revision AS BIGINT[]), CAST(:status AS TEXT[]),
                  CAST(:unless AS TEXT[]), CAST(:waits AS BYTEA[]), CAST(:wake_at AS BIGINT[]), CAST(:ready_at AS BIGINT[]),
                  CAST(:step AS BIGINT[]), CAST(:error AS BYTEA[]), CAST(:stuck_cause AS TEXT[]), CAST(:reason AS TEXT[]),
                  CAST(:closed_at AS BIGINT[]))
        AS wanted (run_id, generation, revision, status, unless, waits, wake_at, ready_at, step, error, stuck_cause, reason, closed_at)
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
           stuck_cause = wanted.stuck_cause, rank = wanted.ready_at - run.priority * wanted.step, session_id = NULL
      FROM wanted JOIN leased ON leased.id = wanted.run_id
     WHERE run.id = wanted.run_id AND wanted.run_id = wanted.run_id || ''
), written AS (
    INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
    SELECT line.run_id, line.seq, line.kind, line.step, line.attempt, line.data, line.error, line.started_at, line.at, line.role
      FROM UNNEST(CAST(:line_run_id AS TEXT[]), CAST(:line_seq AS BIGINT[]), CAST(:line_kind AS TEXT[]),
                  CAST(:line_step AS TEXT[]), CAST(:line_attempt AS BIGINT[]), CAST(:line_data AS BYTEA[]),
                  CAST(:line_error AS BYTEA[]), CAST(:line_started_at AS BIGINT[]), CAST(:line_at AS BIGINT[]),
                  CAST(:line_role AS TEXT[]))
        AS line (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
      JOIN leased ON leased.id = line.run_id
), closed AS (
    UPDATE holdfast.stream AS stream
       SET closed_at = wanted.closed_at, reason = wanted.reason
      FROM wanted JOIN leased ON leased.id = wanted.run_id
     WHERE stream.run_id = wanted.run_id AND stream.closed_at IS NULL AND stream.generation >= 1
)
SELECT id FROM leased;

-- name: lease_histories
-- What the next holder of each run must know: the events since its last wait, and its failed
-- attempts. The whole history if some of it may be void. Differs from SQLite: lists are passed as
-- arrays.
WITH last AS MATERIALIZED (
    SELECT wanted.id AS run_id,
           (SELECT CASE WHEN MAX(CASE WHEN kind = 'run_replayed' THEN 1 ELSE 0 END) = 1 THEN 0
                        ELSE MAX(CASE WHEN kind = 'wait_opened' THEN seq ELSE 0 END) END
              FROM holdfast.event AS event WHERE event.run_id = wanted.id) AS since
      FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id)
)
SELECT event.run_id, event.seq, event.kind, event.step, event.attempt, event.data, event.error, event.started_at, event.at
  FROM last JOIN holdfast.event AS event ON event.run_id = last.run_id
 WHERE event.seq >= last.since OR event.kind IN ('attempt_failed', 'child_started', 'children_awaited', 'lease_lost', 'lease_revoked')
 ORDER BY event.run_id, event.seq;
