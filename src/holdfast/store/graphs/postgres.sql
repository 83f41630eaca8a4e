-- Graphs: the queries that PostgreSQL needs in its own dialect; lists are passed as arrays. Lock
-- order: graphs before runs; a graph is locked before it is changed.

-- name: graph_to_change
SELECT id, namespace, name, status, revision, members, live, events, fingerprint, policy, reason, summary, created_at, finished_at
  FROM holdfast.graph WHERE id = :graph_id FOR NO KEY UPDATE;

-- name: lock_graphs
SELECT id, namespace, name, status, revision, members, live, events, fingerprint, policy, reason, summary, created_at, finished_at
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (graph_id) JOIN holdfast.graph AS graph ON graph.id = wanted.graph_id
 ORDER BY graph.id
   FOR NO KEY UPDATE OF graph;

-- name: graphs_by_id
SELECT id, namespace, name, status, revision, members, live, events, fingerprint, policy, reason, summary, created_at, finished_at
  FROM holdfast.graph WHERE id = ANY(CAST(:ids AS TEXT[]));

-- name: last_runs
-- The runs of members on which no other member depends. OFFSET 0 makes the planner look up the
-- dependents one by one: if one member has very many, the planner expects that of all, and would
-- read all other members for each.
SELECT holdfast.columns_of(run)
  FROM holdfast.graph_member AS member
  JOIN holdfast.run AS run ON run.id = COALESCE(member.joined, member.run_id)
  JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE member.graph_id = ANY(CAST(:ids AS TEXT[]))
   AND NOT EXISTS (SELECT 1 FROM (SELECT dependent FROM holdfast.graph_edge WHERE upstream = member.run_id OFFSET 0) AS edge
                    WHERE EXISTS (SELECT 1 FROM holdfast.graph_member AS below
                                   WHERE below.run_id = edge.dependent AND below.state <> 'staged' OFFSET 0))
 ORDER BY run.id;

-- name: links_below
SELECT edge.upstream, part.run_id, part.number, part.need, part.total, part.done, part.lost, part.rest, part.state,
       member.state AS member_state, member.missing
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id)
  JOIN holdfast.graph_edge AS edge ON edge.upstream = wanted.id
  JOIN holdfast.graph_group AS part ON part.run_id = edge.dependent AND part.number = edge.number
  JOIN holdfast.graph_member AS member ON member.run_id = edge.dependent
 LIMIT :limit;

-- name: ends_below
-- The states of ended members, and the edges below them, with the spec and input of each dependent
-- that may start now. OFFSET 0 makes the planner look up each row by itself: with a join it would
-- read all members that ever existed.
SELECT wanted.id AS upstream, own.state AS own_state, own.missing AS own_missing, part.run_id, part.number, part.need, part.total, part.done,
       part.lost, part.rest, part.state, member.state AS member_state, member.missing, free.spec, free.input, free.there
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT state, missing FROM holdfast.graph_member WHERE run_id = wanted.id OFFSET 0) AS own
  LEFT JOIN LATERAL (SELECT dependent, number FROM holdfast.graph_edge WHERE upstream = wanted.id OFFSET 0) AS edge ON TRUE
  LEFT JOIN LATERAL (SELECT run_id, number, need, total, done, lost, rest, state FROM holdfast.graph_group
                      WHERE run_id = edge.dependent AND number = edge.number OFFSET 0) AS part ON TRUE
  LEFT JOIN LATERAL (SELECT state, missing, spec, input FROM holdfast.graph_member
                      WHERE run_id = edge.dependent OFFSET 0) AS member ON TRUE
  LEFT JOIN LATERAL (SELECT member.spec, member.input,
                            EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = edge.dependent) AS there
                      WHERE member.missing = 1 AND part.need = part.done + 1 OFFSET 0) AS free ON TRUE
 LIMIT :limit;

-- name: members_by_id
SELECT run_id, graph_id, workflow, state, missing, spec, input, started_at, finished_at, asked_at, note, joined
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id) JOIN holdfast.graph_member AS member ON member.run_id = wanted.id;

-- name: ready_members
-- LATERAL makes the planner go graph by graph, up to the limit.
SELECT ready.run_id
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id)
 CROSS JOIN LATERAL (SELECT run_id FROM holdfast.graph_member
                      WHERE graph_id = wanted.id AND state = 'waiting' AND missing = 0 ORDER BY run_id LIMIT :limit) AS ready
 LIMIT :limit;

-- name: states_of_members
SELECT run_id, state, missing FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id) JOIN holdfast.graph_member AS member ON member.run_id = wanted.id
 WHERE member.state <> 'staged';

-- name: results_by_id
-- By the ids of members: a run that has joined its graph has another id.
SELECT member.run_id AS member_id, run.id, run.status, run.result
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id)
  JOIN holdfast.graph_member AS member ON member.run_id = wanted.id
  JOIN holdfast.run AS run ON run.id = COALESCE(member.joined, member.run_id);

-- name: joined_members
-- The members that are joined runs, by the ids of the members.
SELECT member.run_id, member.joined
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id) JOIN holdfast.graph_member AS member ON member.run_id = wanted.id
 WHERE member.joined IS NOT NULL;

-- name: members_of_runs
-- The members that runs with ids of their own are.
SELECT member.run_id, member.graph_id, member.joined
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id) JOIN holdfast.graph_member AS member ON member.joined = wanted.id;

-- name: runs_to_join
-- Differs from SQLite: the rows are locked.
SELECT holdfast.columns_of(run)
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id)
  JOIN holdfast.run AS run ON run.id = wanted.id
  JOIN holdfast.route AS route ON route.id = run.route_id
 ORDER BY run.id
   FOR NO KEY UPDATE OF run;

-- name: runs_there
SELECT run.id FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id) JOIN holdfast.run AS run ON run.id = wanted.id;

-- name: ended_runs
SELECT id, status FROM holdfast.run WHERE id = ANY(CAST(:ids AS TEXT[])) AND finished_at IS NOT NULL ORDER BY id;

-- name: take_from_outbox
DELETE FROM holdfast.graph_outbox WHERE id = ANY(CAST(CAST(:ids AS TEXT[]) AS BIGINT[]))
RETURNING id;

-- name: counts_of_graphs
-- Differs from SQLite like `last_runs`.
SELECT member.graph_id, member.state, COUNT(*) AS members,
       CAST(SUM(CASE WHEN EXISTS (SELECT 1 FROM (SELECT dependent FROM holdfast.graph_edge WHERE upstream = member.run_id OFFSET 0) AS edge
                                   WHERE EXISTS (SELECT 1 FROM holdfast.graph_member AS below
                                                  WHERE below.run_id = edge.dependent AND below.state <> 'staged' OFFSET 0))
                     THEN 0 ELSE 1 END)
            AS BIGINT) AS last,
       (SELECT COUNT(*) FROM holdfast.graph_outbox AS entry WHERE entry.graph_id = member.graph_id AND entry.status = 'replay') AS replays
  FROM holdfast.graph_member AS member
 WHERE member.graph_id = ANY(CAST(:ids AS TEXT[]))
 GROUP BY member.graph_id, member.state;

-- name: states_by_id
SELECT run.id, run.status, priority, session_id, waits, wake_at, parent_id, parent_step, parent_index, cancel_reason, started_at,
       finished_at, graph_id
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id) JOIN holdfast.run AS run ON run.id = wanted.id
 ORDER BY run.id
   FOR NO KEY UPDATE OF run;

-- name: live_children_of
SELECT run.id
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id) JOIN holdfast.run AS run ON run.parent_id = wanted.id
 WHERE on_parent_end = 'cancel' AND finished_at IS NULL
 ORDER BY run.id
   FOR NO KEY UPDATE OF run;

-- name: insert_graphs
INSERT INTO holdfast.graph (id, namespace, name, status, revision, members, live, events, fingerprint, created_at)
SELECT id, namespace, name, status, revision, members, live, events, fingerprint, created_at
  FROM UNNEST(CAST(:id AS TEXT[]), CAST(:namespace AS TEXT[]), CAST(:name AS TEXT[]), CAST(:status AS TEXT[]),
              CAST(:revision AS BIGINT[]), CAST(:members AS BIGINT[]), CAST(:live AS BIGINT[]), CAST(:events AS BIGINT[]),
              CAST(:fingerprint AS TEXT[]), CAST(:created_at AS BIGINT[]))
    AS new (id, namespace, name, status, revision, members, live, events, fingerprint, created_at)
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.graph_stage AS stage WHERE stage.id = new.id)
    ON CONFLICT DO NOTHING;

-- name: insert_members
INSERT INTO holdfast.graph_member (run_id, graph_id, workflow, state, missing, spec, input, started_at)
SELECT run_id, graph_id, workflow, state, missing, spec, input, started_at
  FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:graph_id AS TEXT[]), CAST(:workflow AS TEXT[]), CAST(:state AS TEXT[]),
              CAST(:missing AS BIGINT[]), CAST(:spec AS BYTEA[]), CAST(:input AS BYTEA[]), CAST(:started_at AS BIGINT[]))
    AS new (run_id, graph_id, workflow, state, missing, spec, input, started_at)
    ON CONFLICT DO NOTHING;

-- name: insert_groups
INSERT INTO holdfast.graph_group (run_id, number, need, total, done, lost, rest, state)
SELECT run_id, number, need, total, done, lost, rest, state
  FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:number AS BIGINT[]), CAST(:need AS BIGINT[]), CAST(:total AS BIGINT[]),
              CAST(:done AS BIGINT[]), CAST(:lost AS BIGINT[]), CAST(:rest AS TEXT[]), CAST(:state AS TEXT[]))
    AS new (run_id, number, need, total, done, lost, rest, state);

-- name: insert_edges
INSERT INTO holdfast.graph_edge (upstream, dependent, number)
SELECT upstream, dependent, number
  FROM UNNEST(CAST(:upstream AS TEXT[]), CAST(:dependent AS TEXT[]), CAST(:number AS BIGINT[])) AS new (upstream, dependent, number);

-- name: insert_graph_events
-- Differs from SQLite: the writer may have begun before the one of the last event, like that of
-- `append_from_outside`.
INSERT INTO holdfast.graph_event (graph_id, seq, kind, member, data, at, tx)
SELECT graph_id, seq, kind, member, data, at,
       GREATEST(pg_current_xact_id(),
                (SELECT tx FROM holdfast.graph_event AS last WHERE last.graph_id = new.graph_id ORDER BY last.seq DESC LIMIT 1))
  FROM UNNEST(CAST(:graph_id AS TEXT[]), CAST(:seq AS BIGINT[]), CAST(:kind AS TEXT[]), CAST(:member AS TEXT[]),
              CAST(:data AS BYTEA[]), CAST(:at AS BIGINT[])) AS new (graph_id, seq, kind, member, data, at);

-- name: insert_all_outbox
INSERT INTO holdfast.graph_outbox (graph_id, run_id, status, at, place)
SELECT graph_id, run_id, status, at, place
  FROM UNNEST(CAST(:graph_id AS TEXT[]), CAST(:run_id AS TEXT[]), CAST(:status AS TEXT[]), CAST(:at AS BIGINT[]),
              CAST(:place AS TEXT[])) AS new (graph_id, run_id, status, at, place);

-- name: save_groups
UPDATE holdfast.graph_group AS part
   SET done = new.done, lost = new.lost, state = new.state
  FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:number AS BIGINT[]), CAST(:done AS BIGINT[]), CAST(:lost AS BIGINT[]),
              CAST(:state AS TEXT[])) AS new (run_id, number, done, lost, state)
 WHERE part.run_id = new.run_id AND part.number = new.number;

-- name: start_members
UPDATE holdfast.graph_member AS member
   SET state = 'started', missing = 0, started_at = new.now, input = new.empty, note = NULL
  FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:now AS BIGINT[]), CAST(:empty AS BYTEA[])) AS new (run_id, now, empty)
 WHERE member.run_id = new.run_id;

-- name: end_members
UPDATE holdfast.graph_member AS member
   SET state = new.state, finished_at = new.now, note = COALESCE(new.note, member.note)
  FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:state AS TEXT[]), CAST(:now AS BIGINT[]), CAST(:note AS TEXT[]))
    AS new (run_id, state, now, note)
 WHERE member.run_id = new.run_id;

-- name: stop_members
UPDATE holdfast.graph_member AS member
   SET state = new.state, finished_at = new.now, asked_at = new.now, note = COALESCE(new.note, member.note)
  FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:state AS TEXT[]), CAST(:now AS BIGINT[]), CAST(:note AS TEXT[]))
    AS new (run_id, state, now, note)
 WHERE member.run_id = new.run_id;

-- name: ask_members
UPDATE holdfast.graph_member AS member
   SET asked_at = new.now, note = COALESCE(new.note, member.note)
  FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:now AS BIGINT[]), CAST(:note AS TEXT[])) AS new (run_id, now, note)
 WHERE member.run_id = new.run_id;

-- name: count_graphs
UPDATE holdfast.graph AS graph
   SET live = new.live, events = new.events
  FROM UNNEST(CAST(:id AS TEXT[]), CAST(:live AS BIGINT[]), CAST(:events AS BIGINT[])) AS new (id, live, events)
 WHERE graph.id = new.id;

-- name: save_graphs
UPDATE holdfast.graph AS graph
   SET status = new.status, revision = new.revision, members = new.members, live = new.live, events = new.events,
       policy = new.policy, reason = new.reason, summary = new.summary, finished_at = new.finished_at
  FROM UNNEST(CAST(:id AS TEXT[]), CAST(:status AS TEXT[]), CAST(:revision AS BIGINT[]), CAST(:members AS BIGINT[]),
              CAST(:live AS BIGINT[]), CAST(:events AS BIGINT[]), CAST(:policy AS TEXT[]), CAST(:reason AS TEXT[]),
              CAST(:summary AS BYTEA[]), CAST(:finished_at AS BIGINT[]))
    AS new (id, status, revision, members, live, events, policy, reason, summary, finished_at)
 WHERE graph.id = new.id;

-- name: resolve_members
-- `end_members`, `save_groups`, `start_members`, `count_graphs` and `insert_graph_events` in one
-- statement: no two of them change the same row.
WITH ended AS (
    UPDATE holdfast.graph_member AS member
       SET state = new.state, finished_at = new.now, note = COALESCE(new.note, member.note)
      FROM UNNEST(CAST(:ended_run_id AS TEXT[]), CAST(:ended_state AS TEXT[]), CAST(:ended_now AS BIGINT[]),
                  CAST(:ended_note AS TEXT[])) AS new (run_id, state, now, note)
     WHERE member.run_id = new.run_id
), counted AS (
    UPDATE holdfast.graph_group AS part
       SET done = new.done, lost = new.lost, state = new.state
      FROM UNNEST(CAST(:group_run_id AS TEXT[]), CAST(:group_number AS BIGINT[]), CAST(:group_done AS BIGINT[]),
                  CAST(:group_lost AS BIGINT[]), CAST(:group_state AS TEXT[])) AS new (run_id, number, done, lost, state)
     WHERE part.run_id = new.run_id AND part.number = new.number
), started AS (
    UPDATE holdfast.graph_member AS member
       SET state = 'started', missing = 0, started_at = new.now, input = new.empty, note = NULL
      FROM UNNEST(CAST(:started_run_id AS TEXT[]), CAST(:started_now AS BIGINT[]), CAST(:started_empty AS BYTEA[]))
        AS new (run_id, now, empty)
     WHERE member.run_id = new.run_id
), graphs AS (
    UPDATE holdfast.graph AS graph
       SET live = new.live, events = new.events
      FROM UNNEST(CAST(:graph_id AS TEXT[]), CAST(:graph_live AS BIGINT[]), CAST(:graph_events AS BIGINT[])) AS new (id, live, events)
     WHERE graph.id = new.id
)
INSERT INTO holdfast.graph_event (graph_id, seq, kind, member, data, at, tx)
SELECT graph_id, seq, kind, member, data, at,
       GREATEST(pg_current_xact_id(),
                (SELECT tx FROM holdfast.graph_event AS last WHERE last.graph_id = new.graph_id ORDER BY last.seq DESC LIMIT 1))
  FROM UNNEST(CAST(:event_graph_id AS TEXT[]), CAST(:event_seq AS BIGINT[]), CAST(:event_kind AS TEXT[]),
              CAST(:event_member AS TEXT[]), CAST(:event_data AS BYTEA[]), CAST(:event_at AS BIGINT[]))
    AS new (graph_id, seq, kind, member, data, at);

-- name: append_each
-- Differs from SQLite like `append_from_outside`.
INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role, tx)
VALUES (:run_id, :seq, :kind, :step, :attempt, :data, :error, :started_at, :at, :role,
        GREATEST(pg_current_xact_id(),
                 (SELECT tx FROM holdfast.event AS last WHERE last.run_id = :run_id AND last.seq = CAST(:seq AS BIGINT) - 1)));

-- name: append_all_each
INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role, tx)
SELECT line.run_id, line.seq, line.kind, line.step, line.attempt, line.data, line.error, line.started_at, line.at, line.role,
       GREATEST(pg_current_xact_id(),
                (SELECT tx FROM holdfast.event AS last WHERE last.run_id = line.run_id AND last.seq = line.seq - 1))
  FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:seq AS BIGINT[]), CAST(:kind AS TEXT[]), CAST(:step AS TEXT[]),
              CAST(:attempt AS BIGINT[]), CAST(:data AS BYTEA[]), CAST(:error AS BYTEA[]), CAST(:started_at AS BIGINT[]),
              CAST(:at AS BIGINT[]), CAST(:role AS TEXT[]))
    AS line (run_id, seq, kind, step, attempt, data, error, started_at, at, role);

-- name: end_runs
-- `end_run` for many runs, which the caller has locked.
UPDATE holdfast.run AS run
   SET status = new.status, error = new.error, finished_at = new.now, cancel_reason = new.reason,
       cancel_cause = new.cause, cancelled_by = new.by, stuck_cause = NULL, generation = run.generation + 1, session_id = NULL, rank = NULL,
       wake_at = NULL, waits = NULL, revision = run.revision + 1
  FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:status AS TEXT[]), CAST(:error AS BYTEA[]), CAST(:now AS BIGINT[]),
              CAST(:reason AS TEXT[]), CAST(:cause AS TEXT[]), CAST(:by AS TEXT[]))
    AS new (run_id, status, error, now, reason, cause, by)
 WHERE run.id = new.run_id;

-- name: save_cancels
-- `save_cancel` for many runs, which the caller has locked.
UPDATE holdfast.run AS run
   SET status = new.status, rank = new.rank, wake_at = new.wake_at, waits = new.waits, cancel_reason = new.reason,
       cancel_cause = new.cause, cancelled_by = new.by, cancelled_at = new.at, stuck_cause = NULL, revision = run.revision + 1
  FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:status AS TEXT[]), CAST(:rank AS BIGINT[]), CAST(:wake_at AS BIGINT[]),
              CAST(:waits AS BYTEA[]), CAST(:reason AS TEXT[]), CAST(:cause AS TEXT[]), CAST(:by AS TEXT[]), CAST(:at AS BIGINT[]))
    AS new (run_id, status, rank, wake_at, waits, reason, cause, by, at)
 WHERE run.id = new.run_id;

-- name: insert_notifications
INSERT INTO holdfast.run_notification (session_id, run_id)
SELECT session_id, run_id FROM UNNEST(CAST(:session_id AS TEXT[]), CAST(:run_id AS TEXT[])) AS new (session_id, run_id);

-- name: make_visible
-- Moves the members of a stage to their graphs, which their ids name.
UPDATE holdfast.graph_member SET state = 'waiting', graph_id = split_part(run_id, '::', 1)
 WHERE graph_id = :stage_id AND state = 'staged';

-- name: stage_of_members
SELECT member.run_id, stage.id
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id)
  JOIN holdfast.graph_member AS member ON member.run_id = wanted.id
  JOIN holdfast.graph_stage AS stage ON stage.id = member.graph_id
 WHERE stage.id <> :own
 LIMIT 1;

-- name: stage_to_change
SELECT id, written, due_at, discarded FROM holdfast.graph_stage WHERE id = :stage_id FOR NO KEY UPDATE;

-- name: stage_to_sweep
-- Differs from SQLite: a stage that another process is sweeping is skipped.
SELECT id, written, due_at, discarded FROM holdfast.graph_stage
 WHERE (id = :stage_id OR :stage_id = '') AND due_at < :now ORDER BY due_at, id LIMIT 1
   FOR NO KEY UPDATE SKIP LOCKED;

-- name: edges_below
-- The number of edges from some members to each group.
SELECT edge.dependent, edge.number, COUNT(*) AS lost
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id)
  JOIN holdfast.graph_edge AS edge ON edge.upstream = wanted.id
 GROUP BY edge.dependent, edge.number
 ORDER BY edge.dependent, edge.number;

-- name: graph_outbox
SELECT id, graph_id, run_id, status, at, place FROM holdfast.graph_outbox
 WHERE graph_id <> ALL(CAST(:without AS TEXT[]))
 ORDER BY id LIMIT :limit;

-- name: groups_of_members
SELECT part.run_id, part.number, part.need, part.total, part.done, part.lost, part.rest, part.state
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id) JOIN holdfast.graph_group AS part ON part.run_id = wanted.id
 ORDER BY part.run_id, part.number;

-- name: replays_of_members
-- The members whose previous end is still being taken back.
SELECT run_id, place FROM holdfast.graph_outbox
 WHERE graph_id = :graph_id AND status = 'replay' AND run_id = ANY(CAST(:ids AS TEXT[]));

-- name: reopen_members
UPDATE holdfast.graph_member AS member
   SET state = new.state, finished_at = NULL, asked_at = NULL, note = NULL
  FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:state AS TEXT[])) AS new (run_id, state)
 WHERE member.run_id = new.run_id;

-- name: save_all_missing
UPDATE holdfast.graph_member AS member
   SET missing = new.missing
  FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:missing AS BIGINT[])) AS new (run_id, missing)
 WHERE member.run_id = new.run_id;

-- name: add_all_missing
UPDATE holdfast.graph_member AS member
   SET missing = member.missing + new.more
  FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:more AS BIGINT[])) AS new (run_id, more)
 WHERE member.run_id = new.run_id;

-- name: count_links
SELECT edge.upstream, COUNT(*) AS links
  FROM UNNEST(CAST(:ids AS TEXT[])) AS wanted (id) JOIN holdfast.graph_edge AS edge ON edge.upstream = wanted.id
 GROUP BY edge.upstream;

-- name: links_page
-- Differs from SQLite: OFFSET 0 makes the planner look up each row by itself. With a join it would
-- read all groups and members for each page.
SELECT edge.upstream, part.run_id, part.number, part.need, part.total, part.done, part.lost, part.rest, part.state,
       member.state AS member_state, member.missing
  FROM (SELECT upstream, dependent, number FROM holdfast.graph_edge
         WHERE upstream = :upstream AND dependent > :after ORDER BY dependent LIMIT :limit) AS edge
 CROSS JOIN LATERAL (SELECT run_id, number, need, total, done, lost, rest, state FROM holdfast.graph_group
                      WHERE run_id = edge.dependent AND number = edge.number OFFSET 0) AS part
 CROSS JOIN LATERAL (SELECT state, missing FROM holdfast.graph_member WHERE run_id = edge.dependent OFFSET 0) AS member
 ORDER BY edge.dependent;
