-- Runs: the queries that SQLite needs in its own dialect.

-- name: claim_runs
-- Differs from Postgres: no row locks (BEGIN IMMEDIATE admits one writer), and lists are passed as
-- JSON.
UPDATE holdfast.run
   SET status = :status, session_id = :session_id, generation = generation + 1, rank = NULL,
       started_at = COALESCE(started_at, :now)
 WHERE id IN (SELECT value FROM json_each(:ids)) AND rank IS NOT NULL AND status = :was;

-- name: insert_route
-- Differs from Postgres, where a sequence assigns each number once. Here the number of a deleted
-- row would be assigned again, and runs that refer to it would become runs of another workflow. The
-- last number is therefore kept as a setting.
INSERT INTO holdfast.route (id, namespace, workflow, version, lane, capabilities)
VALUES (1 + MAX(COALESCE((SELECT MAX(id) FROM holdfast.route WHERE id < 4611686018427387904), 0),
                COALESCE((SELECT CAST(value AS INTEGER) FROM holdfast.setting
                           WHERE name = 'last_route' AND CAST(value AS INTEGER) < 4611686018427387904), 0)),
        :namespace, :workflow, :version, :lane, :capabilities)
    ON CONFLICT DO NOTHING;

-- name: note_last_route
-- SQLite only: see `insert_route`.
INSERT INTO holdfast.setting (name, value)
SELECT 'last_route', MAX(id) FROM holdfast.route WHERE id < 4611686018427387904
    ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: runs_by_id
-- Differs from Postgres: lists are passed as JSON.
SELECT holdfast.columns_of(run)
  FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE run.id IN (SELECT value FROM json_each(:ids));

-- name: tags_of_runs
-- Differs from Postgres: lists are passed as JSON.
SELECT run_id, name, value
  FROM holdfast.tag
 WHERE run_id IN (SELECT value FROM json_each(:ids))
 ORDER BY run_id, name;

-- name: keep_input
-- SQLite only: a changed row is rewritten completely, so a long value that never changes is stored
-- separately.
INSERT INTO holdfast.large_input (run_id, input) VALUES (:run_id, :input);

-- name: run_updates
-- `run_update` for many runs. Differs from Postgres: lists are passed as JSON.
SELECT run.id AS run_id, run.status, run.generation, run.revision, run.cancel_reason, run.cancel_cause, run.cancelled_at, run.graph_id, signal.id, signal.name,
       signal.payload, signal.at, signal.number, signal.wait_id, signal.source, signal.step
  FROM holdfast.run AS run LEFT JOIN holdfast.signal AS signal ON signal.run_id = run.id AND signal.taken = 0
 WHERE run.id IN (SELECT value FROM json_each(:ids))
 ORDER BY signal.id;

-- name: events_by_seq
-- Differs from Postgres: lists are passed as JSON.
SELECT seq, kind, step, attempt, data, error, started_at, at, role
  FROM holdfast.event
 WHERE run_id = :run_id AND seq IN (SELECT value FROM json_each(:seqs))
 ORDER BY seq;

-- name: histories
-- Differs from Postgres: lists are passed as JSON.
SELECT run_id, seq, kind, step, attempt, data, error, started_at, at, role
  FROM holdfast.event
 WHERE run_id IN (SELECT value FROM json_each(:ids))
 ORDER BY run_id, seq;

-- name: signals_of
-- Differs from Postgres: lists are passed as JSON.
SELECT run_id, id, name, payload, at, number, wait_id, source, step
  FROM holdfast.signal
 WHERE run_id IN (SELECT value FROM json_each(:ids)) AND taken = 0
 ORDER BY id;

-- name: prunable
-- Differs from Postgres: lists are passed as JSON.
SELECT run.id
  FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE parent_id IS NULL AND finished_at < :before AND status IN (SELECT value FROM json_each(:statuses))
   AND (namespace = :namespace OR :namespace IS NULL) AND (workflow = :workflow OR :workflow IS NULL)
   AND (run.graph_id IS NULL
        OR NOT EXISTS (SELECT 1 FROM holdfast.graph_member AS member JOIN holdfast.graph AS graph ON graph.id = member.graph_id
                        WHERE (member.run_id = run.id OR member.joined = run.id) AND graph.finished_at IS NULL))
   AND run.id > :after
 ORDER BY run.id
 LIMIT :limit;

-- name: last_seqs
-- `last_seq` for many runs. Differs from Postgres: lists are passed as JSON.
SELECT value AS run_id, (SELECT COALESCE(MAX(seq), 0) FROM holdfast.event AS event WHERE event.run_id = value) AS seq
  FROM json_each(:ids);

-- name: last_progress
-- The last event of each run that shows progress. Differs from Postgres: lists are passed as JSON.
SELECT value AS run_id,
       COALESCE((SELECT seq FROM holdfast.event AS event
                  WHERE event.run_id = value AND event.kind NOT IN (SELECT value FROM json_each(:no_progress))
                  ORDER BY seq DESC LIMIT 1), 0) AS seq
  FROM json_each(:ids);

-- name: held_suspect
-- A suspect that the session holds and that has made no progress yet. Differs from Postgres: lists
-- are passed as JSON.
SELECT id FROM holdfast.run AS run
 WHERE session_id = :session_id AND crashes >= 2 AND status <> 'waiting'
   AND NOT EXISTS (SELECT 1 FROM holdfast.event AS event
                    WHERE event.run_id = run.id AND event.seq > run.crash_seq AND event.kind NOT IN (SELECT value FROM json_each(:no_progress)))
 LIMIT 1;

-- name: tree_sizes
-- How many runs are below each root, and how many of them have not ended or ended too late. Differs
-- from Postgres: lists are passed as JSON.
SELECT root_id, COUNT(*) AS runs,
       SUM(CASE WHEN finished_at IS NULL OR finished_at >= :before THEN 1 ELSE 0 END) AS late
  FROM holdfast.run AS run WHERE root_id IN (SELECT value FROM json_each(:ids)) GROUP BY root_id;

-- name: ended_children
-- Differs from Postgres: lists are passed as JSON.
SELECT id, parent_step, parent_index, status, result, error, finished_at, on_parent_end, cancel_reason, cancel_cause, cancelled_at
  FROM holdfast.run
 WHERE parent_id = :run_id AND parent_step IN (SELECT value FROM json_each(:steps)) AND finished_at IS NOT NULL;

-- name: counts
-- Differs from Postgres: one route and status after the other, because a GROUP BY would sort all runs.
SELECT counted.status, CAST(SUM(counted.runs) AS BIGINT) AS runs
  FROM (SELECT word.status, (SELECT COUNT(*) FROM holdfast.run AS run holdfast.using(run_finished)
                              WHERE run.route_id + 0 = +route.id AND run.status = word.status
                                AND run.finished_at IS NOT NULL) AS runs
          FROM holdfast.route AS route
         CROSS JOIN (SELECT 'completed' AS status UNION ALL SELECT 'failed' UNION ALL SELECT 'cancelled'
                     UNION ALL SELECT 'expired' UNION ALL SELECT 'skipped') AS word
         UNION ALL
        SELECT word.status, (SELECT COUNT(*) FROM holdfast.run AS run holdfast.using(run_idle)
                              WHERE run.route_id + 0 = +route.id AND run.status = word.status
                                AND run.finished_at IS NULL AND run.session_id IS NULL) AS runs
          FROM holdfast.route AS route
         CROSS JOIN (SELECT 'pending' AS status UNION ALL SELECT 'blocked' UNION ALL SELECT 'running'
                     UNION ALL SELECT 'waiting' UNION ALL SELECT 'cancelling' UNION ALL SELECT 'stuck') AS word
         UNION ALL
        SELECT run.status, COUNT(*) AS runs FROM holdfast.run AS run holdfast.using(run_held)
         WHERE run.session_id IS NOT NULL
         GROUP BY run.status) AS counted
 GROUP BY counted.status
HAVING SUM(counted.runs) > 0
 ORDER BY counted.status;
