-- Runs: the queries that both dialects accept. Parameters are :name; the schema is `holdfast`.

-- name: insert_run
-- A draining lane accepts no new runs, except children of existing runs and members of graphs.
INSERT INTO holdfast.run (id, route_id, status, priority, generation, session_id, rank, wake_at, deadline, input, key,
                          parent_id, parent_step, parent_index, on_parent_end, root_id, forked_from, created_at, started_at,
                          budgets, share, graph_id, schedule, tick_at)
SELECT :id, :route_id, :status, :priority, :generation, :session_id, :rank, :wake_at, :deadline, :input, :key,
       :parent_id, :parent_step, :parent_index, :on_parent_end, :root_id, :forked_from, :created_at, :started_at,
       :budgets, :share, :graph_id, :schedule, :tick_at
 WHERE :parent_id IS NOT NULL OR :graph_id IS NOT NULL
    OR NOT EXISTS (SELECT 1 FROM holdfast.route AS route JOIN holdfast.lane AS lane ON lane.name = route.lane
                    WHERE route.id = :route_id AND lane.draining = 1)
    ON CONFLICT DO NOTHING;

-- name: run_by_key
SELECT id, holdfast.input_of(run) AS input, route_id FROM holdfast.run AS run WHERE key = :key;

-- name: run_identity
SELECT id, holdfast.input_of(run) AS input, route_id FROM holdfast.run AS run WHERE id = :id;

-- name: insert_tag
INSERT INTO holdfast.tag (name, value, run_id, created_at) VALUES (:name, :value, :run_id, :created_at) ON CONFLICT DO NOTHING;

-- name: find_route
SELECT id FROM holdfast.route
 WHERE namespace = :namespace AND workflow = :workflow AND version = :version AND lane = :lane AND capabilities = :capabilities;

-- name: insert_route
INSERT INTO holdfast.route (namespace, workflow, version, lane, capabilities)
VALUES (:namespace, :workflow, :version, :lane, :capabilities)
    ON CONFLICT DO NOTHING;

-- name: append_guarded
-- The write itself checks the lease: without the lease it inserts no row. A released run has no
-- session.
INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
SELECT id, :seq, :kind, :step, :attempt, :data, :error, :started_at, :at, :role
  FROM holdfast.run
 WHERE id = :run_id AND generation = :generation AND COALESCE(session_id, '') <> '';

-- name: append
INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
VALUES (:run_id, :seq, :kind, :step, :attempt, :data, :error, :started_at, :at, :role);

-- name: finish_run
-- Also guarded by the graph: a run may have joined one since its holder has read it.
UPDATE holdfast.run
   SET status = :status, result = :result, error = :error, finished_at = :now,
       session_id = NULL, rank = NULL, wake_at = NULL, waits = NULL
 WHERE id = :run_id AND generation = :generation AND COALESCE(session_id, '') <> ''
   AND COALESCE(graph_id, '') = :graph_id;

-- name: move_run
-- The new status of a run whose holder keeps it in memory. It does not overwrite a status that the
-- holder does not know.
UPDATE holdfast.run
   SET status = :status, waits = :waits, wake_at = :wake_at, seen_revision = :seen
 WHERE id = :run_id AND generation = :generation AND COALESCE(session_id, '') <> '' AND status <> :unless
   AND (revision = :revision OR :revision < 0);

-- name: release_run
-- The holder releases its lease.
UPDATE holdfast.run
   SET status = :status, waits = :waits, wake_at = :wake_at, rank = :ready_at - priority * :step, error = :error,
       stuck_cause = :stuck_cause, session_id = NULL
 WHERE id = :run_id AND generation = :generation AND COALESCE(session_id, '') <> '' AND status <> :unless
   AND (revision = :revision OR :revision < 0);

-- name: lease_of
SELECT generation, revision, session_id, graph_id FROM holdfast.run WHERE id = :run_id;

-- name: load_state
SELECT id, status, priority, session_id, waits, wake_at, parent_id, parent_step, parent_index, cancel_reason, started_at,
       finished_at, graph_id, created_at
  FROM holdfast.run
 WHERE id = :run_id;

-- name: wake_run
UPDATE holdfast.run
   SET status = :status, rank = :rank, wake_at = NULL, waits = NULL, revision = revision + 1
 WHERE id = :run_id;

-- name: number_ended_child
-- After the parent was notified: its revision tells which children have ended since another one.
UPDATE holdfast.run
   SET ended_revision = (SELECT parent.revision FROM holdfast.run AS parent WHERE parent.id = :parent_id)
 WHERE id = :run_id;

-- name: children_ended_since
SELECT id, parent_step, parent_index, status, result, error, finished_at, on_parent_end, cancel_reason, cancel_cause, cancelled_at
  FROM holdfast.run
 WHERE parent_id = :run_id AND ended_revision > :revision AND finished_at IS NOT NULL;

-- name: bump_revision
UPDATE holdfast.run SET revision = revision + 1 WHERE id = :run_id;

-- name: save_cancel
UPDATE holdfast.run
   SET status = :status, rank = :rank, wake_at = :wake_at, waits = :waits, cancel_reason = :reason,
       cancel_cause = :cause, cancelled_by = :by, cancelled_at = :at, stuck_cause = NULL, revision = revision + 1
 WHERE id = :run_id;

-- name: end_run
-- For a writer other than the holder, which loses its lease.
UPDATE holdfast.run
   SET status = :status, error = :error, finished_at = :now, cancel_reason = :reason, cancel_cause = :cause,
       cancelled_by = :by,
       stuck_cause = NULL, generation = generation + 1, session_id = NULL, rank = NULL, wake_at = NULL, waits = NULL, revision = revision + 1
 WHERE id = :run_id;

-- name: record_canceller
-- The holder of a lease has cancelled its run. An earlier request to stop keeps its cause.
UPDATE holdfast.run
   SET cancel_reason = :reason, cancel_cause = :cause, cancelled_by = :by
 WHERE id = :run_id AND cancel_cause IS NULL;

-- name: last_seq
SELECT COALESCE(MAX(seq), 0) AS seq FROM holdfast.event WHERE run_id = :run_id;

-- name: children_to_stop
-- The runs below a run that have not ended, that end with their parents and that were not asked to
-- stop yet; parents first.
WITH RECURSIVE below (id, status) AS (
    SELECT id, status
      FROM holdfast.run
     WHERE parent_id = :run_id AND on_parent_end = 'cancel' AND finished_at IS NULL
     UNION ALL
    SELECT run.id, run.status
      FROM below JOIN holdfast.run AS run ON run.parent_id = below.id
     WHERE run.on_parent_end = 'cancel' AND run.finished_at IS NULL
)
SELECT id
  FROM below
 WHERE status <> 'cancelling'
 LIMIT :limit;

-- name: insert_fanout
INSERT INTO holdfast.fanout AS fanout (run_id, step, remaining, eager) VALUES (:run_id, :step, :remaining, :eager)
    ON CONFLICT (run_id, step) DO UPDATE SET remaining = fanout.remaining + excluded.remaining;

-- name: map_progress
-- The children of a map are started in the order of their indexes, so the last index counts them: the index run_child
-- finds it without reading the others.
SELECT fanout.step,
       fanout.remaining,
       (SELECT MAX(child.parent_index)
          FROM holdfast.run AS child
         WHERE child.parent_id = fanout.run_id AND child.parent_step = fanout.step) AS last_index
  FROM holdfast.fanout AS fanout
 WHERE fanout.run_id = :run_id
 ORDER BY fanout.step;

-- name: count_down
UPDATE holdfast.fanout SET remaining = remaining - 1 WHERE run_id = :run_id AND step = :step
RETURNING remaining, eager;

-- name: count_up
UPDATE holdfast.fanout SET remaining = remaining + :more WHERE run_id = :run_id AND step = :step;

-- name: insert_notification
INSERT INTO holdfast.run_notification (session_id, run_id) VALUES (:session_id, :run_id);

-- name: notifications
SELECT id, run_id, id AS number FROM holdfast.run_notification WHERE session_id = :session_id AND id > :after ORDER BY id;

-- name: delete_notifications
-- All but the last notification: while it exists, SQLite does not assign its number again to a
-- notification that would then count as read.
DELETE FROM holdfast.run_notification WHERE session_id = :session_id AND id < :seen;

-- name: forget_notifications
DELETE FROM holdfast.run_notification WHERE session_id = :session_id;

-- name: insert_signal
-- Inserts nothing if the key was used before, or if the run has reached its limit of signals.
INSERT INTO holdfast.signal (run_id, name, payload, key, at, wait_id, source, step, effect, number)
SELECT :run_id, :name, :payload, :key, :at, :wait_id, :source, :step, :effect, last.number + 1
  FROM (SELECT COALESCE((SELECT number FROM holdfast.signal WHERE run_id = :run_id ORDER BY number DESC LIMIT 1), 0) AS number) AS last
 WHERE last.number < :limit
    ON CONFLICT DO NOTHING
RETURNING number;

-- name: signal_by_key
SELECT number, effect FROM holdfast.signal WHERE run_id = :run_id AND key = :key;

-- name: take_signal
UPDATE holdfast.signal SET taken = 1 WHERE id = :id;

-- name: signals
SELECT id, name, payload, at, number, wait_id, source, step FROM holdfast.signal WHERE run_id = :run_id AND taken = 0 ORDER BY id;

-- name: run_update
-- What the holder of a run reads after a notification, with the signals that no wait has consumed:
-- at least one row if the run exists.
SELECT run.status, run.generation, run.revision, run.cancel_reason, run.cancel_cause, run.cancelled_at, run.graph_id, signal.id, signal.name, signal.payload,
       signal.at, signal.number, signal.wait_id, signal.source, signal.step
  FROM holdfast.run AS run LEFT JOIN holdfast.signal AS signal ON signal.run_id = run.id AND signal.taken = 0
 WHERE run.id = :run_id
 ORDER BY signal.id;

-- name: due
SELECT 1 AS due FROM holdfast.run WHERE wake_at <= :now AND session_id IS NULL LIMIT 1;

-- name: promote
-- In portions: a million timers that are due at once must not make one transaction of a minute.
UPDATE holdfast.run
   SET status = :status, rank = wake_at - priority * :step, wake_at = NULL, waits = NULL, revision = revision + 1
 WHERE id IN (SELECT id FROM holdfast.run
               WHERE wake_at <= :now AND session_id IS NULL AND status = :was
               ORDER BY wake_at LIMIT :limit);

-- name: ready
SELECT id, rank, share, started_at FROM holdfast.run
 WHERE route_id = :route_id AND rank IS NOT NULL AND crashes < 2
 ORDER BY rank LIMIT :limit;

-- name: any_suspect
-- A run whose worker died twice without progress of the run may have killed it.
SELECT 1 AS suspect FROM holdfast.run WHERE rank IS NOT NULL AND crashes >= 2 LIMIT 1;

-- name: ready_suspect
SELECT id, rank, share, started_at FROM holdfast.run
 WHERE route_id = :route_id AND rank IS NOT NULL AND crashes >= 2
 ORDER BY rank LIMIT 1;

-- name: lanes
SELECT name, concurrency, rate_limit, rate_per, free_at, paused, per_share, share_rate_limit, share_rate_per, weights, draining
  FROM holdfast.lane
 ORDER BY name;

-- name: lanes_with_work
-- The lanes with a rate that have claimable runs.
SELECT name, concurrency, rate_limit, rate_per, free_at, paused, per_share, share_rate_limit, share_rate_per, weights, draining
  FROM holdfast.lane AS lane
 WHERE (rate_limit IS NOT NULL OR share_rate_limit IS NOT NULL) AND paused = 0
   AND EXISTS (SELECT 1 FROM holdfast.route AS route JOIN holdfast.run AS run ON run.route_id = route.id
                WHERE route.lane = lane.name AND run.rank IS NOT NULL)
 ORDER BY name;

-- name: held_by_lane
SELECT route.lane AS lane, COUNT(*) AS held
  FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE session_id IS NOT NULL AND status <> 'waiting'
 GROUP BY route.lane;

-- name: held_by_session
SELECT session_id, COUNT(*) AS held
  FROM holdfast.run
 WHERE session_id IS NOT NULL AND status <> 'waiting'
 GROUP BY session_id;

-- name: save_lane
INSERT INTO holdfast.lane (name, concurrency, rate_limit, rate_per, paused, per_share, share_rate_limit, share_rate_per, weights,
                           draining)
VALUES (:name, :concurrency, :rate_limit, :rate_per, :paused, :per_share, :share_rate_limit, :share_rate_per, :weights, :draining)
    ON CONFLICT (name) DO UPDATE
   SET concurrency = excluded.concurrency, rate_limit = excluded.rate_limit, rate_per = excluded.rate_per, paused = excluded.paused,
       per_share = excluded.per_share, share_rate_limit = excluded.share_rate_limit, share_rate_per = excluded.share_rate_per,
       weights = excluded.weights, draining = excluded.draining
 WHERE :replaces = 1;

-- name: lane_to_change
SELECT name, concurrency, rate_limit, rate_per, free_at, paused, per_share, share_rate_limit, share_rate_per, weights, draining
  FROM holdfast.lane
 WHERE name = :name;

-- name: save_rate_time
UPDATE holdfast.lane SET free_at = :free_at WHERE name = :name;

-- name: insert_session
INSERT INTO holdfast.session (id, worker, host, pid, slot, started_at, beat_at, expires_at, serves)
VALUES (:id, :worker, :host, :pid, :slot, :started_at, :beat_at, :expires_at, :serves)
    ON CONFLICT (id) DO UPDATE SET serves = excluded.serves, beat_at = excluded.beat_at, expires_at = excluded.expires_at;

-- name: heartbeat
UPDATE holdfast.session SET beat_at = :now, expires_at = :expires_at WHERE id = :session_id;

-- name: session
SELECT id FROM holdfast.session WHERE id = :session_id;

-- name: may_lease_at_start
-- No row for a session that has ended: no worker would run its runs. The limits of the lane are
-- returned with it, so that a start cannot exceed them.
SELECT session.id, (lane.name IS NOT NULL) AS limited, lane.name, lane.concurrency, lane.rate_limit, lane.rate_per, lane.free_at,
       lane.paused, lane.per_share, lane.share_rate_limit, lane.share_rate_per, lane.weights, lane.draining
  FROM holdfast.session AS session
  LEFT JOIN holdfast.lane AS lane
    ON lane.name = :lane AND (lane.concurrency IS NOT NULL OR lane.rate_limit IS NOT NULL OR lane.per_share IS NOT NULL
                              OR lane.share_rate_limit IS NOT NULL OR lane.paused = 1)
 WHERE session.id = :session_id;

-- name: delete_session
DELETE FROM holdfast.session WHERE id = :session_id;

-- name: sessions
-- Workers first: sessions that only hold leases have no process that could do work for others.
SELECT id, worker, host, pid, slot, started_at, beat_at, expires_at, serves
  FROM holdfast.session
 ORDER BY CASE WHEN pid = 0 THEN 1 ELSE 0 END, id LIMIT :limit;

-- name: held_states
SELECT id, status, priority, crashes, crash_seq, waits, wake_at, revision, seen_revision
  FROM holdfast.run
 WHERE session_id = :session_id
 ORDER BY id
 LIMIT :limit;

-- name: move_held_after
-- Moves runs of an ended session to its stand-in session.
UPDATE holdfast.run SET session_id = :target WHERE session_id = :session_id AND id > :last;

-- name: move_held_until
UPDATE holdfast.run SET session_id = :target WHERE session_id = :session_id AND id <= :last;

-- name: free_run
UPDATE holdfast.run
   SET status = :status, rank = :rank, waits = :waits, wake_at = :wake_at, crashes = :crashes, crash_seq = :crash_seq,
       error = COALESCE(:error, error), session_id = NULL, generation = generation + 1
 WHERE id = :run_id AND session_id = :session_id;

-- name: overdue
-- Without runs that are being cancelled: they have been asked to stop, and another request would
-- only wake them, again and again.
SELECT id, deadline FROM holdfast.run
 WHERE deadline <= :now AND finished_at IS NULL AND session_id IS NULL AND status <> 'cancelling'
 ORDER BY deadline LIMIT :limit;

-- name: resume_run
UPDATE holdfast.run
   SET status = :status, rank = :rank, wake_at = NULL, waits = NULL, error = NULL, stuck_cause = NULL, crashes = 0, crash_seq = NULL,
       revision = revision + 1
 WHERE id = :run_id;

-- name: replay_run
UPDATE holdfast.run
   SET status = :status, rank = :rank, wake_at = NULL, waits = NULL, result = NULL, error = NULL, finished_at = NULL,
       cancel_reason = NULL, cancel_cause = NULL, cancelled_by = NULL, cancelled_at = NULL, stuck_cause = NULL, deadline = NULL, crashes = 0,
       crash_seq = NULL, generation = generation + 1, revision = revision + 1
 WHERE id = :run_id;

-- name: live_child_of_map
SELECT id, status FROM holdfast.run
 WHERE parent_id = :run_id AND parent_step = :step AND parent_index IS NOT NULL AND finished_at IS NULL
 LIMIT 1;

-- name: detach_children
UPDATE holdfast.run SET parent_step = :name WHERE parent_id = :run_id AND parent_step = :step;

-- name: delete_fanout
DELETE FROM holdfast.fanout WHERE run_id = :run_id AND step = :step;

-- name: has_late_descendant
-- A run below that has not ended, or that ended too late for the tree to be deleted.
-- The order is that of the index: without it, PostgreSQL reads all runs once some tree is large.
SELECT 1 AS late
  FROM holdfast.run
 WHERE root_id = :run_id AND (finished_at IS NULL OR finished_at >= :before)
 ORDER BY root_id, created_at, id
 LIMIT 1;

-- name: descendants
SELECT id FROM holdfast.run WHERE root_id = :run_id;

-- name: last_descendants
-- The newest runs of a tree: no run is older than its parent.
SELECT id FROM holdfast.run WHERE root_id = :run_id ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: delete_run
DELETE FROM holdfast.run WHERE id = :run_id;

-- name: delete_events
DELETE FROM holdfast.event WHERE run_id = :run_id;

-- name: delete_signals
DELETE FROM holdfast.signal WHERE run_id = :run_id;

-- name: delete_tag
DELETE FROM holdfast.tag WHERE run_id = :run_id AND name = :name;

-- name: delete_tags
DELETE FROM holdfast.tag WHERE run_id = :run_id;

-- name: delete_fanouts
DELETE FROM holdfast.fanout WHERE run_id = :run_id;

-- name: changed_since_parked
-- A holder that parks a run records the revision that it has seen. Any later change of the run
-- makes the two differ.
SELECT id FROM holdfast.run WHERE id = :run_id AND session_id IS NOT NULL AND (seen_revision IS NULL OR revision <> seen_revision);

-- name: import_run
INSERT INTO holdfast.run (id, route_id, status, priority, generation, revision, session_id, rank, wake_at, deadline, input, result,
                          error, waits, key, parent_id, parent_step, parent_index, on_parent_end, root_id, forked_from,
                          cancel_reason, cancelled_at, crashes, crash_seq, created_at, started_at, finished_at, budgets, share,
                          graph_id, schedule, tick_at, cancel_cause, cancelled_by, stuck_cause)
VALUES (:id, :route_id, :status, :priority, :generation, :revision, NULL, :rank, :wake_at, :deadline, :input, :result,
        :error, :waits, :key, :parent_id, :parent_step, :parent_index, :on_parent_end, :root_id, :forked_from,
        :cancel_reason, :cancelled_at, :crashes, :crash_seq, :created_at, :started_at, :finished_at, :budgets, :share,
        :graph_id, :schedule, :tick_at, :cancel_cause, :cancelled_by, :stuck_cause)
    ON CONFLICT DO NOTHING;

-- name: import_signal
INSERT INTO holdfast.signal (run_id, name, payload, key, at, taken, number, wait_id, source, step, effect)
VALUES (:run_id, :name, :payload, :key, :at, :taken, :number, :wait_id, :source, :step, :effect)
    ON CONFLICT DO NOTHING;

-- name: weights
-- The approximate bytes of the next runs and of all that belongs to them.
SELECT id, LENGTH(holdfast.input_of(run)) + COALESCE(LENGTH(result), 0) + COALESCE(LENGTH(error), 0) + COALESCE(LENGTH(waits), 0)
       + CAST((SELECT COALESCE(SUM(100 + COALESCE(LENGTH(data), 0) + COALESCE(LENGTH(error), 0)), 0)
                 FROM holdfast.event AS event WHERE event.run_id = run.id) AS BIGINT)
       + CAST((SELECT COALESCE(SUM(100 + LENGTH(payload)), 0)
                 FROM holdfast.signal AS signal WHERE signal.run_id = run.id) AS BIGINT)
       + CAST((SELECT COALESCE(SUM(100 + LENGTH(data)), 0)
                 FROM holdfast.frame AS frame WHERE frame.run_id = run.id) AS BIGINT) AS bytes
  FROM holdfast.run AS run
 WHERE id > :after
 ORDER BY id LIMIT :limit;

-- name: whole_runs
SELECT holdfast.columns_of(run), rank, crash_seq
  FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE run.id > :after AND run.id <= :last
 ORDER BY run.id;

-- name: whole_events
SELECT id, run_id, seq, kind, step, attempt, data, error, started_at, at, role
  FROM holdfast.event
 WHERE run_id > :after AND run_id <= :last
 ORDER BY run_id, seq;

-- name: whole_signals
SELECT run_id, id, name, payload, at, key, taken, number, wait_id, source, step, effect
  FROM holdfast.signal
 WHERE run_id > :after AND run_id <= :last
 ORDER BY run_id, id;

-- name: whole_tags
SELECT run_id, name, value FROM holdfast.tag WHERE run_id > :after AND run_id <= :last ORDER BY run_id, name;

-- name: whole_fanouts
SELECT run_id, step, remaining, eager FROM holdfast.fanout WHERE run_id > :after AND run_id <= :last ORDER BY run_id, step;

-- name: any_session
SELECT id FROM holdfast.session LIMIT 1;

-- name: any_run
SELECT id FROM holdfast.run LIMIT 1;

-- name: empty_runs
DELETE FROM holdfast.run;

-- name: empty_events
DELETE FROM holdfast.event;

-- name: empty_signals
DELETE FROM holdfast.signal;

-- name: empty_tags
DELETE FROM holdfast.tag;

-- name: empty_fanouts
DELETE FROM holdfast.fanout;

-- name: empty_lanes
DELETE FROM holdfast.lane;

-- name: run
SELECT holdfast.columns_of(run)
  FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE run.id = :run_id;

-- name: last_checkpoint
-- From the end: the search stops at the last checkpoint, so the index over the numbers is enough.
SELECT seq, kind
  FROM holdfast.event
 WHERE run_id = :run_id AND kind IN ('checkpoint_written', 'run_replayed')
 ORDER BY seq DESC
 LIMIT 1;

-- name: history
SELECT seq, kind, step, attempt, data, error, started_at, at, role
  FROM holdfast.event
 WHERE run_id = :run_id AND seq > :after
 ORDER BY seq;

-- name: events_of_kind
SELECT seq, kind, step, attempt, data, error, started_at, at, role
  FROM holdfast.event
 WHERE run_id = :run_id AND kind = :kind
 ORDER BY seq;

-- name: history_page
SELECT seq, kind, step, attempt, data, error, started_at, at, role
  FROM holdfast.event
 WHERE run_id = :run_id AND seq > :after
 ORDER BY seq
 LIMIT :limit;

-- name: history_outline
-- The shape of a history without its values, which may be large: only events whose data tell how to
-- draw them keep theirs.
SELECT seq, kind, step, attempt, started_at, at, role, error IS NOT NULL AS has_error,
       CASE WHEN kind IN ('run_replayed', 'child_started', 'map_started', 'gate_opened') THEN data END AS data
  FROM holdfast.event
 WHERE run_id = :run_id AND seq >= :first
 ORDER BY seq;

-- name: replays
SELECT seq, kind, step, attempt, data, error, started_at, at, role
  FROM holdfast.event
 WHERE run_id = :run_id AND seq > :after AND kind = 'run_replayed'
 ORDER BY seq;

-- name: children
SELECT id, parent_step, parent_index, status, result, error, finished_at, on_parent_end, cancel_reason, cancel_cause, cancelled_at
  FROM holdfast.run
 WHERE parent_id = :run_id
 ORDER BY parent_step, parent_index, id;

-- name: open_children
SELECT id FROM holdfast.run
 WHERE parent_id = :run_id AND on_parent_end = 'cancel' AND finished_at IS NULL
 ORDER BY parent_step, parent_index, id
 LIMIT :limit;

-- name: children_of_step
SELECT id, parent_step, parent_index, status, result, error, finished_at, on_parent_end, cancel_reason, cancel_cause, cancelled_at
  FROM holdfast.run
 WHERE parent_id = :run_id AND parent_step = :step
 ORDER BY parent_index, id;

-- name: children_page
SELECT id
  FROM holdfast.run
 WHERE parent_id = :run_id AND parent_step = :step AND parent_index >= :first
 ORDER BY parent_index
 LIMIT :limit;

-- name: oldest_ready
-- The run that is claimed next on each route, and when it became ready: its rank without the bonus for its priority.
SELECT route.namespace, route.lane, run.id AS run_id, run.rank + run.priority * :priority_step AS since
  FROM holdfast.route AS route
  JOIN holdfast.run AS run
    ON run.id = (SELECT next.id
                   FROM holdfast.run AS next
                  WHERE next.route_id = route.id AND next.rank IS NOT NULL AND next.crashes < 2
                  ORDER BY next.rank
                  LIMIT 1);

-- name: live_counts
-- Each live run is either idle or held; both indexes have live runs only.
SELECT route.namespace, live.status, CAST(SUM(live.runs) AS BIGINT) AS runs
  FROM (SELECT route_id + 0 AS route_id, status, COUNT(*) AS runs
          FROM holdfast.run
         WHERE finished_at IS NULL AND session_id IS NULL
         GROUP BY route_id + 0, status
         UNION ALL
        SELECT route_id, status, COUNT(*) AS runs
          FROM holdfast.run
         WHERE session_id IS NOT NULL
         GROUP BY route_id, status) AS live
  JOIN holdfast.route AS route ON route.id = live.route_id
 GROUP BY route.namespace, live.status;

-- name: recent_outcomes
-- Only the newest events are read, so that the cost grows neither with finished runs nor with their history.
SELECT event.kind, event.at / 60000000 AS minute, COUNT(*) AS runs
  FROM (SELECT newest.kind, newest.at, newest.run_id
          FROM holdfast.event AS newest
         ORDER BY newest.id DESC
         LIMIT :limit) AS event
 WHERE event.at >= :since
   AND event.kind IN ('run_completed', 'run_failed', 'run_cancelled', 'run_expired')
   AND (CAST(:namespace AS text) IS NULL
        OR EXISTS (SELECT 1
                     FROM holdfast.run AS run
                     JOIN holdfast.route AS route ON route.id = run.route_id
                    WHERE run.id = event.run_id AND route.namespace = :namespace))
 GROUP BY event.kind, event.at / 60000000;

-- name: event_before_newest
-- The first event that `recent_outcomes` does not read.
SELECT at FROM holdfast.event ORDER BY id DESC LIMIT 1 OFFSET :limit;

-- name: applied_migrations
SELECT number FROM holdfast.migration ORDER BY number;

-- name: tags
SELECT name, value FROM holdfast.tag WHERE run_id = :run_id ORDER BY name;

-- name: route
SELECT namespace, workflow FROM holdfast.route WHERE id = :route_id;

-- name: routes
SELECT id, namespace, workflow, version, lane, capabilities FROM holdfast.route ORDER BY id;

-- name: held
SELECT id, generation, revision FROM holdfast.run WHERE session_id = :session_id;

-- name: next_due
SELECT (SELECT MIN(wake_at) FROM holdfast.run WHERE wake_at IS NOT NULL AND session_id IS NULL) AS wake_at,
       (SELECT MIN(deadline) FROM holdfast.run
         WHERE deadline IS NOT NULL AND finished_at IS NULL AND session_id IS NULL AND status <> 'cancelling') AS deadline,
       (SELECT MIN(wake_at) FROM holdfast.flow WHERE wake_at IS NOT NULL) AS flow_at,
       (SELECT MIN(attempt_until) FROM holdfast.task WHERE attempt_until IS NOT NULL) AS attempt_until,
       (SELECT MIN(wake_at) FROM holdfast.schedule WHERE wake_at IS NOT NULL) AS schedule,
       (SELECT at FROM holdfast.graph_outbox ORDER BY id LIMIT 1) AS outbox_at,
       (SELECT MIN(due_at) FROM holdfast.graph_stage) AS stage_at,
       (SELECT MIN(due_at) FROM holdfast.operation WHERE due_at IS NOT NULL) AS operation_at,
       EXISTS (SELECT 1 FROM holdfast.lane WHERE rate_limit IS NOT NULL OR share_rate_limit IS NOT NULL) AS rated;

-- name: setting
SELECT value FROM holdfast.setting WHERE name = :name;

-- name: save_setting
INSERT INTO holdfast.setting (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING;

-- name: delete_setting
DELETE FROM holdfast.setting WHERE name = :name;

-- name: newest
-- The latest instants that were written: the clock of the next process that opens the database must
-- not be behind them.
SELECT (SELECT at FROM holdfast.event ORDER BY id DESC LIMIT 1) AS event_at,
       (SELECT MAX(created_at) FROM holdfast.run WHERE parent_id IS NULL) AS run_at,
       (SELECT MAX(beat_at) FROM holdfast.session) AS beat_at;

-- name: set_run_aside
-- The row is damaged: no worker claims it, wakes it or writes to it until an operator has repaired
-- it and resumed the run.
UPDATE holdfast.run
   SET status = 'stuck', error = :error, rank = NULL, wake_at = NULL, waits = NULL, session_id = NULL
 WHERE id = :run_id AND status NOT IN ('stuck', 'completed', 'failed', 'cancelled', 'expired', 'skipped');

-- name: forget_damaged_notification
DELETE FROM holdfast.run_notification WHERE id = :id;

-- name: change_route
UPDATE holdfast.run SET route_id = :route_id WHERE id = :run_id;

-- name: route_of_run
SELECT namespace, workflow, version, lane, capabilities
  FROM holdfast.route AS route JOIN holdfast.run AS run ON run.route_id = route.id
 WHERE run.id = :run_id;
