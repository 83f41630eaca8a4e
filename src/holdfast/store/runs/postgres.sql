-- Runs: the queries that PostgreSQL needs in its own dialect. Many transactions write at once. Lock
-- order: a writer locks a row before it decides about it, several rows in the order of their ids.
-- FOR NO KEY UPDATE is the lock that an UPDATE takes.

-- name: append_guarded
-- Differs from SQLite: the lease is locked, so that no other process takes the run over between the
-- check and the commit.
INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
SELECT id, :seq, :kind, :step, :attempt, :data, :error, :started_at, :at, :role
  FROM holdfast.run
 WHERE id = :run_id AND generation = :generation AND COALESCE(session_id, '') <> ''
   FOR NO KEY UPDATE;

-- name: append_guarded_many
-- `append_guarded` for many runs in one statement, with all values as arrays. Returns the runs
-- whose leases were valid. (COALESCE hides from the planner that few runs are held: otherwise it
-- would read all held runs for each wanted one.)
WITH leased AS (
    SELECT run.id
      FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:generation AS BIGINT[])) AS wanted (id, generation)
      JOIN holdfast.run AS run ON run.id = wanted.id AND run.generation = wanted.generation
     WHERE COALESCE(run.session_id, '') <> ''
     ORDER BY run.id
       FOR NO KEY UPDATE OF run
), heard AS (
    UPDATE holdfast.signal SET taken = 1
     WHERE id = ANY (CAST(:taken AS BIGINT[])) AND run_id IN (SELECT id FROM leased)
), written AS (
    INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
    SELECT line.run_id, line.seq, line.kind, line.step, line.attempt, line.data, line.error, line.started_at, line.at, line.role
      FROM UNNEST(CAST(:line_run_id AS TEXT[]), CAST(:line_seq AS BIGINT[]), CAST(:line_kind AS TEXT[]),
                  CAST(:line_step AS TEXT[]), CAST(:line_attempt AS BIGINT[]), CAST(:line_data AS BYTEA[]),
                  CAST(:line_error AS BYTEA[]), CAST(:line_started_at AS BIGINT[]), CAST(:line_at AS BIGINT[]),
                  CAST(:line_role AS TEXT[]))
        AS line (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
      JOIN leased ON leased.id = line.run_id
)
SELECT id FROM leased;

-- name: finish_runs
-- `finish_run` for many runs, with their last events.
WITH wanted AS (
    SELECT run_id, generation, status, result, error, finished_at, graph_id
      FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:generation AS BIGINT[]), CAST(:status AS TEXT[]), CAST(:result AS BYTEA[]),
                  CAST(:error AS BYTEA[]), CAST(:now AS BIGINT[]), CAST(:graph_id AS TEXT[]))
        AS wanted (run_id, generation, status, result, error, finished_at, graph_id)
), leased AS (
    SELECT run.id, wanted.*
      FROM wanted JOIN holdfast.run AS run ON run.id = wanted.run_id AND run.generation = wanted.generation
     WHERE COALESCE(run.session_id, '') <> '' AND COALESCE(run.graph_id, '') = wanted.graph_id
     ORDER BY run.id
       FOR NO KEY UPDATE OF run
), finished AS (
    UPDATE holdfast.run AS run
       SET status = wanted.status, result = wanted.result, error = wanted.error, finished_at = wanted.finished_at,
           session_id = NULL, rank = NULL, wake_at = NULL, waits = NULL
      FROM leased AS wanted
     WHERE run.id = wanted.id
), heard AS (
    UPDATE holdfast.signal SET taken = 1
     WHERE id = ANY (CAST(:taken AS BIGINT[])) AND run_id IN (SELECT id FROM leased)
), written AS (
    INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
    SELECT line.run_id, line.seq, line.kind, line.step, line.attempt, line.data, line.error, line.started_at, line.at, line.role
      FROM UNNEST(CAST(:line_run_id AS TEXT[]), CAST(:line_seq AS BIGINT[]), CAST(:line_kind AS TEXT[]),
                  CAST(:line_step AS TEXT[]), CAST(:line_attempt AS BIGINT[]), CAST(:line_data AS BYTEA[]),
                  CAST(:line_error AS BYTEA[]), CAST(:line_started_at AS BIGINT[]), CAST(:line_at AS BIGINT[]),
                  CAST(:line_role AS TEXT[]))
        AS line (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
      JOIN leased ON leased.id = line.run_id
)
SELECT id FROM leased;

-- name: move_runs
-- `move_run` for many runs, with their events.
WITH wanted AS (
    SELECT run_id, generation, revision, status, unless, waits, wake_at, seen
      FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:generation AS BIGINT[]), CAST(:revision AS BIGINT[]), CAST(:status AS TEXT[]),
                  CAST(:unless AS TEXT[]), CAST(:waits AS BYTEA[]), CAST(:wake_at AS BIGINT[]), CAST(:seen AS BIGINT[]))
        AS wanted (run_id, generation, revision, status, unless, waits, wake_at, seen)
), leased AS (
    SELECT run.id, wanted.*
      FROM wanted JOIN holdfast.run AS run ON run.id = wanted.run_id AND run.generation = wanted.generation
     WHERE COALESCE(run.session_id, '') <> '' AND run.status <> wanted.unless
       AND (run.revision = wanted.revision OR wanted.revision < 0)
     ORDER BY run.id
       FOR NO KEY UPDATE OF run
), moved AS (
    UPDATE holdfast.run AS run
       SET status = wanted.status, waits = wanted.waits, wake_at = wanted.wake_at, seen_revision = wanted.seen
      FROM leased AS wanted
     WHERE run.id = wanted.id
), heard AS (
    UPDATE holdfast.signal SET taken = 1
     WHERE id = ANY (CAST(:taken AS BIGINT[])) AND run_id IN (SELECT id FROM leased)
), written AS (
    INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
    SELECT line.run_id, line.seq, line.kind, line.step, line.attempt, line.data, line.error, line.started_at, line.at, line.role
      FROM UNNEST(CAST(:line_run_id AS TEXT[]), CAST(:line_seq AS BIGINT[]), CAST(:line_kind AS TEXT[]),
                  CAST(:line_step AS TEXT[]), CAST(:line_attempt AS BIGINT[]), CAST(:line_data AS BYTEA[]),
                  CAST(:line_error AS BYTEA[]), CAST(:line_started_at AS BIGINT[]), CAST(:line_at AS BIGINT[]),
                  CAST(:line_role AS TEXT[]))
        AS line (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
      JOIN leased ON leased.id = line.run_id
)
SELECT id FROM leased;

-- name: release_runs
-- `release_run` for many runs, with their events.
WITH wanted AS (
    SELECT run_id, generation, revision, status, unless, waits, wake_at, ready_at, step, error, stuck_cause
      FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:generation AS BIGINT[]), CAST(:revision AS BIGINT[]), CAST(:status AS TEXT[]),
                  CAST(:unless AS TEXT[]), CAST(:waits AS BYTEA[]), CAST(:wake_at AS BIGINT[]), CAST(:ready_at AS BIGINT[]),
                  CAST(:step AS BIGINT[]), CAST(:error AS BYTEA[]), CAST(:stuck_cause AS TEXT[]))
        AS wanted (run_id, generation, revision, status, unless, waits, wake_at, ready_at, step, error, stuck_cause)
), leased AS (
    SELECT run.id, wanted.*
      FROM wanted JOIN holdfast.run AS run ON run.id = wanted.run_id AND run.generation = wanted.generation
     WHERE COALESCE(run.session_id, '') <> '' AND run.status <> wanted.unless
       AND (run.revision = wanted.revision OR wanted.revision < 0)
     ORDER BY run.id
       FOR NO KEY UPDATE OF run
), released AS (
    UPDATE holdfast.run AS run
       SET status = wanted.status, waits = wanted.waits, wake_at = wanted.wake_at, error = wanted.error,
           stuck_cause = wanted.stuck_cause, rank = wanted.ready_at - run.priority * wanted.step, session_id = NULL
      FROM leased AS wanted
     WHERE run.id = wanted.id
), written AS (
    INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
    SELECT line.run_id, line.seq, line.kind, line.step, line.attempt, line.data, line.error, line.started_at, line.at, line.role
      FROM UNNEST(CAST(:line_run_id AS TEXT[]), CAST(:line_seq AS BIGINT[]), CAST(:line_kind AS TEXT[]),
                  CAST(:line_step AS TEXT[]), CAST(:line_attempt AS BIGINT[]), CAST(:line_data AS BYTEA[]),
                  CAST(:line_error AS BYTEA[]), CAST(:line_started_at AS BIGINT[]), CAST(:line_at AS BIGINT[]),
                  CAST(:line_role AS TEXT[]))
        AS line (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
      JOIN leased ON leased.id = line.run_id
)
SELECT id FROM leased;

-- name: insert_run
-- Differs from SQLite: a run is leased at its start only while its session is locked, so that no
-- other process ends the session meanwhile.
INSERT INTO holdfast.run (id, route_id, status, priority, generation, session_id, rank, wake_at, deadline, input, key,
                          parent_id, parent_step, parent_index, on_parent_end, root_id, forked_from, created_at, started_at,
                          budgets, share, graph_id, schedule, tick_at)
SELECT :id, :route_id, :status, :priority, :generation, :session_id, :rank, :wake_at, :deadline, :input, :key,
       :parent_id, :parent_step, :parent_index, :on_parent_end, :root_id, :forked_from, :created_at, :started_at, :budgets, :share,
       :graph_id, :schedule, :tick_at
 WHERE (CAST(:parent_id AS TEXT) IS NOT NULL OR CAST(:graph_id AS TEXT) IS NOT NULL
        OR NOT EXISTS (SELECT 1 FROM holdfast.route AS route JOIN holdfast.lane AS lane ON lane.name = route.lane
                        WHERE route.id = :route_id AND lane.draining = 1))
   AND (CAST(:session_id AS TEXT) IS NULL
    OR (EXISTS (SELECT 1 FROM holdfast.session WHERE id = :session_id FOR KEY SHARE)
        AND NOT EXISTS (SELECT 1 FROM holdfast.route AS route JOIN holdfast.lane AS lane ON lane.name = route.lane
                         WHERE route.id = :route_id
                           AND (concurrency IS NOT NULL OR rate_limit IS NOT NULL OR per_share IS NOT NULL
                           OR share_rate_limit IS NOT NULL OR paused = 1))))
    ON CONFLICT DO NOTHING;

-- name: insert_runs
-- `insert_run` for many runs, in their order. A run that is leased at its start in a lane with
-- limits was admitted to the lane before; a lease without an admission is refused.
WITH wanted AS (
    SELECT place, id, route_id, status, priority, generation, session_id, rank, wake_at, deadline, input, key, parent_id,
           parent_step, parent_index, on_parent_end, root_id, forked_from, created_at, started_at, budgets, share,
           graph_id, schedule, tick_at
      FROM UNNEST(CAST(:id AS TEXT[]), CAST(:route_id AS BIGINT[]), CAST(:status AS TEXT[]), CAST(:priority AS BIGINT[]),
                  CAST(:generation AS BIGINT[]), CAST(:session_id AS TEXT[]), CAST(:rank AS BIGINT[]), CAST(:wake_at AS BIGINT[]),
                  CAST(:deadline AS BIGINT[]), CAST(:input AS BYTEA[]), CAST(:key AS TEXT[]), CAST(:parent_id AS TEXT[]),
                  CAST(:parent_step AS TEXT[]), CAST(:parent_index AS BIGINT[]), CAST(:on_parent_end AS TEXT[]),
                  CAST(:root_id AS TEXT[]), CAST(:forked_from AS TEXT[]), CAST(:created_at AS BIGINT[]),
                  CAST(:started_at AS BIGINT[]), CAST(:budgets AS TEXT[]), CAST(:share AS TEXT[]),
                  CAST(:graph_id AS TEXT[]), CAST(:schedule AS TEXT[]), CAST(:tick_at AS BIGINT[])) WITH ORDINALITY
        AS wanted (id, route_id, status, priority, generation, session_id, rank, wake_at, deadline, input, key, parent_id,
                   parent_step, parent_index, on_parent_end, root_id, forked_from, created_at, started_at, budgets, share,
                   graph_id, schedule, tick_at, place)
), living AS (
    SELECT session.id
      FROM holdfast.session AS session
     WHERE session.id IN (SELECT session_id FROM wanted)
     ORDER BY session.id
       FOR KEY SHARE
), limited AS (
    SELECT route.id
      FROM holdfast.route AS route JOIN holdfast.lane AS lane ON lane.name = route.lane
     WHERE concurrency IS NOT NULL OR rate_limit IS NOT NULL OR per_share IS NOT NULL
                           OR share_rate_limit IS NOT NULL OR paused = 1
), drained AS (
    SELECT route.id
      FROM holdfast.route AS route JOIN holdfast.lane AS lane ON lane.name = route.lane
     WHERE lane.draining = 1
)
INSERT INTO holdfast.run (id, route_id, status, priority, generation, session_id, rank, wake_at, deadline, input, key,
                          parent_id, parent_step, parent_index, on_parent_end, root_id, forked_from, created_at, started_at,
                          budgets, share, graph_id, schedule, tick_at)
SELECT id, route_id, status, priority, generation, session_id, rank, wake_at, deadline, input, key,
       parent_id, parent_step, parent_index, on_parent_end, root_id, forked_from, created_at, started_at, budgets, share,
           graph_id, schedule, tick_at
  FROM wanted
 WHERE (session_id IS NULL
        OR (session_id IN (SELECT id FROM living) AND (CAST(:asked AS BIGINT) = 1 OR route_id NOT IN (SELECT id FROM limited))))
   AND (parent_id IS NOT NULL OR graph_id IS NOT NULL OR route_id NOT IN (SELECT id FROM drained))
 ORDER BY place
    ON CONFLICT DO NOTHING
RETURNING id;

-- name: may_lease_at_start
-- Differs from SQLite: the session is locked, so that no other process ends it before the runs that
-- are leased to it at their start exist. A lane with limits is locked, too, unless another
-- transaction has locked it. The runs of the lane are found as after `check_work_and_lock`.
WITH living AS (
    SELECT id FROM holdfast.session WHERE id = :session_id FOR KEY SHARE
), locked AS (
    SELECT name, concurrency, rate_limit, rate_per, free_at, paused, per_share, share_rate_limit, share_rate_per, weights, draining
      FROM holdfast.lane
     WHERE name = :lane
       AND (concurrency IS NOT NULL OR rate_limit IS NOT NULL OR per_share IS NOT NULL OR share_rate_limit IS NOT NULL OR paused = 1)
       FOR NO KEY UPDATE SKIP LOCKED
)
SELECT living.id, EXISTS (SELECT 1 FROM holdfast.lane
                           WHERE name = :lane
                             AND (concurrency IS NOT NULL OR rate_limit IS NOT NULL OR per_share IS NOT NULL
                                  OR share_rate_limit IS NOT NULL OR paused = 1)) AS limited, locked.*,
       CASE WHEN locked.name IS NOT NULL
            THEN set_config('enable_seqscan', 'off', TRUE) || set_config('enable_bitmapscan', 'off', TRUE)
                 || set_config('plan_cache_mode', 'force_generic_plan', TRUE) END AS planner
  FROM living LEFT JOIN locked ON TRUE;

-- name: written_lines
-- After a statement whose answer was lost: the events that were written.
SELECT DISTINCT event.run_id AS id
  FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:seq AS BIGINT[]), CAST(:kind AS TEXT[]), CAST(:at AS BIGINT[]))
    AS line (run_id, seq, kind, at)
  JOIN holdfast.event AS event
    ON event.run_id = line.run_id AND event.seq = line.seq AND event.kind = line.kind AND event.at = line.at;

-- name: written_runs
-- After a statement whose answer was lost: the runs that exist, and their holders.
SELECT run.id, run.session_id
  FROM UNNEST(CAST(:id AS TEXT[]), CAST(:created_at AS BIGINT[]), CAST(:input AS BYTEA[])) AS wanted (id, created_at, input)
  JOIN holdfast.run AS run ON run.id = wanted.id AND run.created_at = wanted.created_at AND run.input = wanted.input;

-- name: lock_runs
-- Locks all runs that a batch is known to change before it changes any: two batches with the same
-- runs cannot deadlock.
SELECT id FROM holdfast.run WHERE id = ANY(CAST(:ids AS TEXT[])) ORDER BY id FOR NO KEY UPDATE;

-- name: lease_of
-- Differs from SQLite: the row is locked.
SELECT generation, revision, session_id, graph_id FROM holdfast.run WHERE id = :run_id FOR NO KEY UPDATE;

-- name: load_state
-- Differs from SQLite: the row is locked.
SELECT id, status, priority, session_id, waits, wake_at, parent_id, parent_step, parent_index, cancel_reason, started_at,
       finished_at, graph_id, created_at
  FROM holdfast.run
 WHERE id = :run_id
   FOR NO KEY UPDATE;

-- name: number_ended_children
-- `number_ended_child` for many children.
UPDATE holdfast.run AS child
   SET ended_revision = parent.revision
  FROM holdfast.run AS parent
 WHERE child.id = ANY(CAST(:ids AS TEXT[])) AND parent.id = child.parent_id;

-- name: load_states
-- `load_state` for many runs.
SELECT id, status, priority, session_id, waits, wake_at, parent_id, parent_step, parent_index, cancel_reason, started_at,
       finished_at, graph_id, created_at
  FROM holdfast.run
 WHERE id = ANY(CAST(:ids AS TEXT[]))
 ORDER BY id
   FOR NO KEY UPDATE;

-- name: count_down_many
-- `count_down` for many children that end in one batch.
UPDATE holdfast.fanout AS fanout
   SET remaining = fanout.remaining - ended.children
  FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:step AS TEXT[]), CAST(:children AS BIGINT[])) AS ended (run_id, step, children)
 WHERE fanout.run_id = ended.run_id AND fanout.step = ended.step
RETURNING fanout.run_id, fanout.step, fanout.remaining, fanout.eager;

-- name: notifications
-- Differs from SQLite: transactions do not commit in the order in which they began. A notification
-- that began after one that is still uncommitted is returned, but does not count as read: the
-- number to continue from is the highest below which all transactions have ended.
SELECT LEAST(notification.id, horizon.number - 1) AS id, run_id, notification.id AS number
  FROM holdfast.run_notification AS notification,
       (SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT) AS number) AS horizon
 WHERE session_id = :session_id AND notification.id > :after
 ORDER BY notification.id;

-- name: held_states
-- Differs from SQLite: the rows are locked. This statement does not see events that a holder writes
-- while it waits for the lock, so the next statement reads the last numbers (`last_seqs`).
SELECT id, status, priority, crashes, crash_seq, waits, wake_at, revision, seen_revision
  FROM holdfast.run
 WHERE session_id = :session_id
 ORDER BY id
 LIMIT :limit
   FOR NO KEY UPDATE;

-- name: last_seqs
-- `last_seq` for many runs, which the caller has locked by an earlier statement. Differs from
-- SQLite: lists are passed as arrays.
SELECT wanted.id AS run_id, (SELECT COALESCE(MAX(seq), 0) FROM holdfast.event AS event WHERE event.run_id = wanted.id) AS seq
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id);

-- name: last_progress
-- The last event of each run that shows progress. Differs from SQLite: lists are passed as arrays.
SELECT wanted.id AS run_id,
       COALESCE((SELECT seq FROM holdfast.event AS event
                  WHERE event.run_id = wanted.id AND event.kind <> ALL(CAST(:no_progress AS TEXT[]))
                  ORDER BY seq DESC LIMIT 1), 0) AS seq
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id);

-- name: held_suspect
-- A suspect that the session holds and that has made no progress yet. Differs from SQLite: lists
-- are passed as arrays.
SELECT id FROM holdfast.run AS run
 WHERE session_id = :session_id AND crashes >= 2 AND status <> 'waiting'
   AND NOT EXISTS (SELECT 1 FROM holdfast.event AS event
                    WHERE event.run_id = run.id AND event.seq > run.crash_seq AND event.kind <> ALL(CAST(:no_progress AS TEXT[])))
 LIMIT 1;

-- name: overdue
-- Differs from SQLite: a run that another process has locked is skipped.
SELECT id, deadline FROM holdfast.run
 WHERE deadline <= :now AND finished_at IS NULL AND session_id IS NULL AND status <> 'cancelling'
 ORDER BY deadline LIMIT :limit
   FOR NO KEY UPDATE SKIP LOCKED;

-- name: check_work
-- Whether a claim is worthwhile. Asked without a lock and a transaction, because mostly it is not.
-- The query returns the first due instant rather than whether one has passed: a planner that does
-- not know the time expects a third of all sleeping runs to be due, and reads the table for one of
-- them. Each route is asked for its first run: for a new table, which looks small, a cached plan
-- would later read all rows.
SELECT EXISTS (SELECT 1 FROM holdfast.session WHERE id = :session_id) AS open,
       COALESCE((SELECT MIN(wake_at) FROM holdfast.run WHERE wake_at IS NOT NULL AND session_id IS NULL) <= :now, FALSE) AS due,
       EXISTS (SELECT 1 FROM UNNEST(CAST(:route_ids AS BIGINT[])) AS wanted (route_id)
                CROSS JOIN LATERAL (SELECT run.id FROM holdfast.run AS run
                                     WHERE run.route_id = wanted.route_id AND run.rank IS NOT NULL AND run.crashes < 2
                                     ORDER BY run.rank LIMIT 1) AS found) AS ready,
       EXISTS (SELECT 1 FROM UNNEST(CAST(:route_ids AS BIGINT[])) AS wanted (route_id)
                CROSS JOIN LATERAL (SELECT run.id FROM holdfast.run AS run
                                     WHERE run.route_id = wanted.route_id AND run.rank IS NOT NULL AND run.crashes >= 2
                                     ORDER BY run.rank LIMIT 1) AS found) AS suspect,
       EXISTS (SELECT 1 FROM holdfast.lane
                WHERE concurrency IS NOT NULL OR rate_limit IS NOT NULL OR per_share IS NOT NULL
                           OR share_rate_limit IS NOT NULL OR paused = 1) AS limited;

-- name: promote_due
-- Differs from SQLite: all statuses at once, and runs that another process promotes are skipped. A
-- range and a list of ids, not a bound and a join: a planner that does not know the values expects
-- few of the former, and finds them by index among millions.
UPDATE holdfast.run
   SET status = (CAST(:becomes AS TEXT[]))[ARRAY_POSITION(CAST(:was AS TEXT[]), CAST(status AS TEXT))],
       rank = wake_at - priority * :step, wake_at = NULL, waits = NULL, revision = revision + 1
 WHERE id = ANY(ARRAY(SELECT id
                        FROM holdfast.run
                       WHERE wake_at BETWEEN 0 AND :now AND session_id IS NULL AND status = ANY(CAST(:was AS TEXT[]))
                       ORDER BY wake_at LIMIT :limit
                         FOR NO KEY UPDATE SKIP LOCKED))
RETURNING crashes >= 2 AS suspect;

-- name: check_work_and_lock
-- `check_work` by a process that claims if there is work: then the lanes with limits are locked,
-- so that the limits hold across all machines. Until the end of the transaction, the running runs
-- are found by index: while many runs begin and end, the planner's statistics are outdated, and it
-- would read all runs that ever existed. A plain index scan marks dead entries, so that later scans
-- skip them; and the generic plan is made once, because planning takes longer than the query.
WITH work AS MATERIALIZED (
    SELECT EXISTS (SELECT 1 FROM holdfast.session WHERE id = :session_id) AS open,
           COALESCE((SELECT MIN(wake_at) FROM holdfast.run WHERE wake_at IS NOT NULL AND session_id IS NULL) <= :now, FALSE) AS due,
           EXISTS (SELECT 1 FROM holdfast.run
                    WHERE rank IS NOT NULL AND crashes < 2 AND route_id = ANY(CAST(:route_ids AS BIGINT[]))) AS ready,
           EXISTS (SELECT 1 FROM holdfast.run
                    WHERE rank IS NOT NULL AND crashes >= 2 AND route_id = ANY(CAST(:route_ids AS BIGINT[]))) AS suspect
), locked AS MATERIALIZED (
    SELECT name, concurrency, rate_limit, rate_per, free_at, paused, per_share, share_rate_limit, share_rate_per, weights, draining
      FROM holdfast.lane
     WHERE name = ANY(CAST(:lanes AS TEXT[]))
       AND (concurrency IS NOT NULL OR rate_limit IS NOT NULL OR per_share IS NOT NULL OR share_rate_limit IS NOT NULL OR paused = 1)
       AND (SELECT open AND (due OR ready OR suspect) FROM work)
     ORDER BY name
       FOR NO KEY UPDATE
)
SELECT work.*, locked.*,
       CASE WHEN locked.name IS NOT NULL
            THEN set_config('enable_seqscan', 'off', TRUE) || set_config('enable_bitmapscan', 'off', TRUE)
                 || set_config('plan_cache_mode', 'force_generic_plan', TRUE) END AS planner
  FROM work LEFT JOIN locked ON TRUE;

-- name: lease_runs
-- Differs from SQLite: all statuses at once, and only while the session is locked, so that no other
-- process ends it meanwhile.
UPDATE holdfast.run AS run
   SET status = claim.becomes, session_id = :session_id, generation = generation + 1, rank = NULL,
       started_at = COALESCE(started_at, :now)
  FROM UNNEST(CAST(:was AS TEXT[]), CAST(:becomes AS TEXT[])) AS claim (was, becomes), holdfast.route AS route
 WHERE run.id = ANY(CAST(:ids AS TEXT[])) AND run.rank IS NOT NULL AND run.status = claim.was AND route.id = run.route_id
   AND EXISTS (SELECT 1 FROM holdfast.session WHERE id = :session_id FOR KEY SHARE)
RETURNING holdfast.columns_of(run);

-- name: claim_ready
-- The ready runs of routes and `lease_runs` in one statement, for lanes without limits, where only
-- the rank decides. ("|| ''" hides the number of routes from the planner: each is found by index.)
WITH ready AS MATERIALIZED (
    SELECT found.id, found.rank
      FROM UNNEST(CAST(:route_ids AS BIGINT[])) AS wanted (route_id)
     CROSS JOIN LATERAL (SELECT run.id, run.rank
                           FROM holdfast.run AS run
                          WHERE run.route_id = wanted.route_id AND run.rank IS NOT NULL AND run.crashes < 2
                          ORDER BY run.rank, run.id LIMIT :limit
                            FOR NO KEY UPDATE SKIP LOCKED) AS found
     ORDER BY found.rank, found.id LIMIT :limit
), leased AS (
    UPDATE holdfast.run AS run
       SET status = claim.becomes, session_id = :session_id, generation = generation + 1, rank = NULL,
           started_at = COALESCE(started_at, :now)
      FROM UNNEST(ARRAY(SELECT id FROM ready), ARRAY(SELECT rank FROM ready)) AS best (id, rank),
           UNNEST(CAST(:was AS TEXT[]), CAST(:becomes AS TEXT[])) AS claim (was, becomes), holdfast.route AS route
     WHERE run.id = best.id AND best.id = best.id || '' AND run.rank IS NOT NULL AND run.status = claim.was AND route.id = run.route_id
       AND EXISTS (SELECT 1 FROM holdfast.session WHERE id = :session_id FOR KEY SHARE)
    RETURNING best.rank, holdfast.columns_of(run)
)
SELECT * FROM leased ORDER BY rank, id;

-- name: runs_by_id
-- Differs from SQLite: lists are passed as arrays.
SELECT holdfast.columns_of(run)
  FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE run.id = ANY(CAST(:ids AS TEXT[]));

-- name: tags_of_runs
-- Differs from SQLite: lists are passed as arrays.
SELECT run_id, name, value
  FROM holdfast.tag
 WHERE run_id = ANY(CAST(:ids AS TEXT[]))
 ORDER BY run_id, name;

-- name: run_updates
-- `run_update` for many runs. Differs from SQLite: lists are passed as arrays.
SELECT run.id AS run_id, run.status, run.generation, run.revision, run.cancel_reason, run.cancel_cause, run.cancelled_at, run.graph_id, signal.id, signal.name,
       signal.payload, signal.at, signal.number, signal.wait_id, signal.source, signal.step
  FROM holdfast.run AS run LEFT JOIN holdfast.signal AS signal ON signal.run_id = run.id AND signal.taken = 0
 WHERE run.id = ANY(CAST(:ids AS TEXT[]))
 ORDER BY signal.id;

-- name: events_by_seq
-- Differs from SQLite: lists are passed as arrays.
SELECT seq, kind, step, attempt, data, error, started_at, at, role
  FROM holdfast.event
 WHERE run_id = :run_id AND seq = ANY(CAST(:seqs AS BIGINT[]))
 ORDER BY seq;

-- name: histories
-- Differs from SQLite: lists are passed as arrays.
SELECT run_id, seq, kind, step, attempt, data, error, started_at, at, role
  FROM holdfast.event
 WHERE run_id = ANY(CAST(:ids AS TEXT[]))
 ORDER BY run_id, seq;

-- name: signals_of
-- Differs from SQLite: lists are passed as arrays.
SELECT run_id, id, name, payload, at, number, wait_id, source, step
  FROM holdfast.signal
 WHERE run_id = ANY(CAST(:ids AS TEXT[])) AND taken = 0
 ORDER BY id;

-- name: prunable
-- Differs from SQLite: lists are passed as arrays, and the rows are locked, so that no other
-- process replays a run that is about to be deleted.
SELECT run.id
  FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE parent_id IS NULL AND finished_at < :before AND status = ANY(CAST(:statuses AS TEXT[]))
   AND (namespace = :namespace OR :namespace IS NULL) AND (workflow = :workflow OR :workflow IS NULL)
   AND (run.graph_id IS NULL
        OR NOT EXISTS (SELECT 1 FROM holdfast.graph_member AS member JOIN holdfast.graph AS graph ON graph.id = member.graph_id
                        WHERE (member.run_id = run.id OR member.joined = run.id) AND graph.finished_at IS NULL))
   AND run.id > :after
 ORDER BY run.id
 LIMIT :limit
   FOR UPDATE OF run;

-- name: lock_descendants
-- Differs from SQLite: all trees at once, locked before the decision about them.
SELECT id, root_id, finished_at FROM holdfast.run WHERE root_id = ANY(CAST(:run_ids AS TEXT[])) ORDER BY id FOR UPDATE;

-- name: delete_events_of
DELETE FROM holdfast.event WHERE run_id = ANY(CAST(:run_ids AS TEXT[]));

-- name: delete_signals_of
DELETE FROM holdfast.signal WHERE run_id = ANY(CAST(:run_ids AS TEXT[]));

-- name: delete_tags_of
DELETE FROM holdfast.tag WHERE run_id = ANY(CAST(:run_ids AS TEXT[]));

-- name: delete_fanouts_of
DELETE FROM holdfast.fanout WHERE run_id = ANY(CAST(:run_ids AS TEXT[]));

-- name: delete_runs
DELETE FROM holdfast.run WHERE id = ANY(CAST(:run_ids AS TEXT[]));

-- name: locked_slots
-- The liveness slots that a connection to this database has locked.
SELECT CAST(objid AS BIGINT) AS slot
  FROM pg_locks
 WHERE locktype = 'advisory' AND granted AND CAST(classid AS BIGINT) = :space AND objsubid = 2
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database());

-- name: tree_sizes
-- How many runs are below each root, and how many of them have not ended or ended too late. Differs
-- from SQLite: lists are passed as arrays.
SELECT root_id, COUNT(*) AS runs,
       CAST(SUM(CASE WHEN finished_at IS NULL OR finished_at >= :before THEN 1 ELSE 0 END) AS BIGINT) AS late
  FROM holdfast.run AS run WHERE root_id = ANY(CAST(:ids AS TEXT[])) GROUP BY root_id;

-- name: lock_last_descendants
-- `last_descendants`, locked before the decision about them.
SELECT id, finished_at FROM holdfast.run WHERE root_id = :run_id ORDER BY created_at DESC, id DESC LIMIT :limit FOR UPDATE;

-- name: ended_children
-- Differs from SQLite: lists are passed as arrays.
SELECT id, parent_step, parent_index, status, result, error, finished_at, on_parent_end, cancel_reason, cancel_cause, cancelled_at
  FROM holdfast.run
 WHERE parent_id = :run_id AND parent_step = ANY(CAST(:steps AS TEXT[])) AND finished_at IS NOT NULL;

-- name: children_to_stop
-- Differs from SQLite: the children of each run are looked up by themselves. A planner without
-- statistics would join the table with all runs below, and read it completely for each.
WITH RECURSIVE below (id, status) AS (
    SELECT id, status
      FROM holdfast.run
     WHERE parent_id = :run_id AND on_parent_end = 'cancel' AND finished_at IS NULL
     UNION ALL
    SELECT child.id, child.status
      FROM below
     CROSS JOIN LATERAL (SELECT run.id, run.status
                           FROM holdfast.run AS run
                          WHERE run.parent_id = below.id AND run.parent_id IS NOT NULL AND run.on_parent_end = 'cancel'
                            AND run.finished_at IS NULL
                         OFFSET 0) AS child
)
SELECT id
  FROM below
 WHERE status <> 'cancelling'
 LIMIT :limit;

-- Commit markers: rows by which a process finds out whether its transaction was committed.

-- name: mark_commit
-- A transaction that has written nothing gets no row, which would make it wait for the disk: it can
-- simply be repeated.
INSERT INTO holdfast.commit_marker (id, at)
SELECT CAST(:id AS BIGINT), CAST(:now AS BIGINT) WHERE pg_current_xact_id_if_assigned() IS NOT NULL;

-- name: void_commit
-- Waits for the end of a transaction that has inserted the row and has not committed yet.
INSERT INTO holdfast.commit_marker (id, at, void) VALUES (:id, :now, 1) ON CONFLICT DO NOTHING;

-- name: commit_marker
SELECT void FROM holdfast.commit_marker WHERE id = :id;

-- name: forget_commits
DELETE FROM holdfast.commit_marker WHERE id = ANY(CAST(:ids AS BIGINT[]));

-- name: forget_old_commits
DELETE FROM holdfast.commit_marker WHERE at < :before;

-- name: lane_to_change
-- Differs from SQLite: the row is locked.
SELECT name, concurrency, rate_limit, rate_per, free_at, paused, per_share, share_rate_limit, share_rate_per, weights, draining
  FROM holdfast.lane
 WHERE name = :name
   FOR NO KEY UPDATE;

-- name: counts
-- Differs from SQLite: a count of all finished runs is shared by parallel workers. Each condition is
-- the one of an index, which is smaller than the table.
SELECT counted.status, CAST(SUM(counted.runs) AS BIGINT) AS runs
  FROM (SELECT status, COUNT(*) AS runs FROM holdfast.run WHERE finished_at IS NOT NULL GROUP BY status
         UNION ALL
        SELECT status, COUNT(*) AS runs FROM holdfast.run WHERE finished_at IS NULL AND session_id IS NULL GROUP BY status
         UNION ALL
        SELECT status, COUNT(*) AS runs FROM holdfast.run WHERE session_id IS NOT NULL GROUP BY status) AS counted
 GROUP BY counted.status
 ORDER BY counted.status;
