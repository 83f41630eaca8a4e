-- Graphs: the queries that both dialects accept.

-- name: graph
SELECT id, namespace, name, status, revision, members, live, events, fingerprint, policy, reason, summary, created_at, finished_at
  FROM holdfast.graph WHERE id = :graph_id;

-- name: graph_to_change
SELECT id, namespace, name, status, revision, members, live, events, fingerprint, policy, reason, summary, created_at, finished_at
  FROM holdfast.graph WHERE id = :graph_id;

-- name: insert_graph
INSERT INTO holdfast.graph (id, namespace, name, status, revision, members, live, events, fingerprint, created_at)
SELECT :id, :namespace, :name, :status, :revision, :members, :live, :events, :fingerprint, :created_at
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.graph_stage AS stage WHERE stage.id = :id)
    ON CONFLICT DO NOTHING;

-- name: save_graph
UPDATE holdfast.graph
   SET status = :status, revision = :revision, members = :members, live = :live, events = :events, policy = :policy,
       reason = :reason, summary = :summary, finished_at = :finished_at
 WHERE id = :id;

-- name: count_graph
-- `save_graph` if members only ended or started.
UPDATE holdfast.graph SET live = :live, events = :events WHERE id = :id;

-- name: insert_member
INSERT INTO holdfast.graph_member (run_id, graph_id, workflow, state, missing, spec, input, started_at)
VALUES (:run_id, :graph_id, :workflow, :state, :missing, :spec, :input, :started_at)
    ON CONFLICT DO NOTHING;

-- name: insert_joined_member
INSERT INTO holdfast.graph_member (run_id, graph_id, workflow, state, missing, spec, input, started_at, joined)
VALUES (:run_id, :graph_id, :workflow, :state, 0, :spec, :input, :started_at, :joined)
    ON CONFLICT DO NOTHING;

-- name: join_graph
-- From now on the end of the run is an outcome of the graph. Its holder learns that by the revision.
UPDATE holdfast.run SET graph_id = :graph_id, revision = revision + 1 WHERE id = :run_id;

-- name: insert_group
INSERT INTO holdfast.graph_group (run_id, number, need, total, done, lost, rest, state)
VALUES (:run_id, :number, :need, :total, :done, :lost, :rest, :state);

-- name: insert_edge
INSERT INTO holdfast.graph_edge (upstream, dependent, number) VALUES (:upstream, :dependent, :number);

-- name: insert_graph_event
INSERT INTO holdfast.graph_event (graph_id, seq, kind, member, data, at) VALUES (:graph_id, :seq, :kind, :member, :data, :at);

-- name: insert_outbox
-- An entry of the outbox: a run that is, by its id, a member of a graph has ended.
INSERT INTO holdfast.graph_outbox (graph_id, run_id, status, at, place) VALUES (:graph_id, :run_id, :status, :at, :place);

-- name: outbox_of_graph
SELECT id, graph_id, run_id, status, at, place FROM holdfast.graph_outbox WHERE graph_id = :graph_id ORDER BY id;

-- name: places_of_graph
-- The member outcomes that are partly applied, or partly taken back.
SELECT run_id, status, place FROM holdfast.graph_outbox
 WHERE graph_id = :graph_id AND place IS NOT NULL AND status NOT IN ('rest', 'cancel');

-- name: save_group
UPDATE holdfast.graph_group SET done = :done, lost = :lost, state = :state WHERE run_id = :run_id AND number = :number;

-- name: start_member
UPDATE holdfast.graph_member SET state = 'started', missing = 0, started_at = :now, input = :empty, note = NULL
 WHERE run_id = :run_id;

-- name: end_member
UPDATE holdfast.graph_member SET state = :state, finished_at = :now, note = COALESCE(:note, note) WHERE run_id = :run_id;

-- name: stop_member
-- A member that was asked to stop and ended at once.
UPDATE holdfast.graph_member SET state = :state, finished_at = :now, asked_at = :now, note = COALESCE(:note, note)
 WHERE run_id = :run_id;

-- name: save_missing
UPDATE holdfast.graph_member SET missing = :missing WHERE run_id = :run_id;

-- name: add_missing
UPDATE holdfast.graph_member SET missing = missing + :more WHERE run_id = :run_id;

-- name: ask_member
UPDATE holdfast.graph_member SET asked_at = :now, note = COALESCE(:note, note) WHERE run_id = :run_id;

-- name: reopen_member
UPDATE holdfast.graph_member SET state = :state, finished_at = NULL, asked_at = NULL, note = NULL WHERE run_id = :run_id;

-- name: members_of_graph
SELECT run_id, graph_id, workflow, state, missing, spec, input, started_at, finished_at, asked_at, note, joined
  FROM holdfast.graph_member WHERE graph_id = :graph_id ORDER BY run_id;

-- name: groups_of_graph
SELECT part.run_id, part.number, part.need, part.total, part.done, part.lost, part.rest, part.state
  FROM holdfast.graph_group AS part JOIN holdfast.graph_member AS member ON member.run_id = part.run_id
 WHERE member.graph_id = :graph_id ORDER BY part.run_id, part.number;

-- name: edges_of_graph
SELECT edge.upstream, edge.dependent, edge.number
  FROM holdfast.graph_edge AS edge JOIN holdfast.graph_member AS member ON member.run_id = edge.upstream
  JOIN holdfast.graph_member AS below ON below.run_id = edge.dependent
 WHERE member.graph_id = :graph_id AND below.state <> 'staged' ORDER BY edge.dependent, edge.number, edge.upstream;

-- name: groups_of_member
SELECT run_id, number, need, total, done, lost, rest, state FROM holdfast.graph_group WHERE run_id = :run_id ORDER BY number;

-- name: upstreams_of_group
-- The upstreams that have not ended, above an id.
SELECT member.run_id, member.state
  FROM holdfast.graph_edge AS edge JOIN holdfast.graph_member AS member ON member.run_id = edge.upstream
 WHERE edge.dependent = :run_id AND edge.number = :number AND edge.upstream > :after AND member.state IN ('waiting', 'started')
 ORDER BY edge.upstream LIMIT :limit;

-- name: links_page
-- `links_below` of one member, above a dependent. The page is limited before the join: otherwise
-- each page would join and sort all dependents.
SELECT edge.upstream, part.run_id, part.number, part.need, part.total, part.done, part.lost, part.rest, part.state,
       member.state AS member_state, member.missing
  FROM (SELECT upstream, dependent, number FROM holdfast.graph_edge
         WHERE upstream = :upstream AND dependent > :after ORDER BY dependent LIMIT :limit) AS edge
  JOIN holdfast.graph_group AS part ON part.run_id = edge.dependent AND part.number = edge.number
  JOIN holdfast.graph_member AS member ON member.run_id = edge.dependent
 ORDER BY edge.dependent;

-- name: upstreams_of_member
SELECT edge.number, member.run_id, member.state, member.note, member.joined
  FROM holdfast.graph_edge AS edge JOIN holdfast.graph_member AS member ON member.run_id = edge.upstream
 WHERE edge.dependent = :run_id ORDER BY edge.number, member.run_id;

-- name: member
-- By its own id, or by that of the run that has joined the graph.
SELECT run_id, graph_id, workflow, state, missing, spec, input, started_at, finished_at, asked_at, note, joined
  FROM holdfast.graph_member WHERE (run_id = :run_id OR joined = :run_id) AND state <> 'staged';

-- name: unresolved_graph
SELECT id FROM holdfast.graph_outbox WHERE graph_id = :graph_id LIMIT 1;

-- name: count_waiting
SELECT COUNT(*) AS members FROM holdfast.graph_member WHERE graph_id = :graph_id AND state = 'waiting';

-- name: waiting_members
-- All ids of a graph are between `after` and `until`: a portion is read in the order of the primary
-- key, regardless of how many members have ended before it.
SELECT run_id FROM holdfast.graph_member
 WHERE run_id > :after AND run_id < :until AND state = 'waiting' ORDER BY run_id LIMIT :limit;

-- name: add_lost
-- Counts upstreams of a group that were cancelled.
UPDATE holdfast.graph_group SET lost = lost + :lost WHERE run_id = :dependent AND number = :number;

-- name: unasked_members
-- The started members above an id that were not asked to stop: all of them, or only those whose
-- runs have not begun.
SELECT member.run_id
  FROM holdfast.graph_member AS member JOIN holdfast.run AS run ON run.id = COALESCE(member.joined, member.run_id)
 WHERE member.run_id > :after AND member.run_id < :until AND member.state = 'started' AND member.asked_at IS NULL
   AND (:everybody = 1 OR (run.started_at IS NULL AND run.session_id IS NULL))
 ORDER BY member.run_id LIMIT :limit;

-- name: close_groups
-- A cancelled member does not wait any more: the ends of its upstreams decide nothing, and cancel
-- no other member.
UPDATE holdfast.graph_group SET state = 'impossible' WHERE state = 'open' AND run_id = :run_id;

-- name: unreachable_members
-- Waiting members with a group that can never be satisfied.
SELECT part.run_id, part.number, part.need, part.total, part.done, part.lost, part.rest, part.state
  FROM holdfast.graph_member AS member JOIN holdfast.graph_group AS part ON part.run_id = member.run_id
 WHERE member.graph_id = :graph_id AND member.state = 'waiting' AND part.state = 'impossible'
 ORDER BY part.run_id, part.number LIMIT :limit;

-- name: graph_events
SELECT graph_id, seq, kind, member, data, at FROM holdfast.graph_event
 WHERE graph_id = :graph_id AND seq > :after ORDER BY seq LIMIT :limit;

-- name: newest_graphs
SELECT id, namespace, name, status, revision, members, live, events, fingerprint, policy, reason, summary, created_at, finished_at
  FROM holdfast.graph
 WHERE namespace = :namespace AND (CAST(:status AS TEXT) = '' OR status = :status)
   AND (CAST(:before AS TEXT) = '' OR (created_at, id) < (SELECT created_at, id FROM holdfast.graph WHERE id = :before))
 ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: graphs_by_prefix
SELECT id FROM holdfast.graph
 WHERE namespace = :namespace AND id >= :first_id AND id < :last_id ORDER BY id LIMIT :limit;

-- name: old_graphs
SELECT id, members, events FROM holdfast.graph
 WHERE finished_at < :before AND status = :status AND (namespace = :namespace OR :namespace = '') ORDER BY finished_at LIMIT :limit;

-- name: delete_graph
DELETE FROM holdfast.graph WHERE id = :graph_id;

-- name: delete_graph_edges
DELETE FROM holdfast.graph_edge WHERE upstream IN (SELECT run_id FROM holdfast.graph_member WHERE graph_id = :graph_id);

-- name: delete_graph_groups
DELETE FROM holdfast.graph_group WHERE run_id IN (SELECT run_id FROM holdfast.graph_member WHERE graph_id = :graph_id);

-- name: delete_graph_members
DELETE FROM holdfast.graph_member WHERE graph_id = :graph_id;

-- name: delete_graph_events
DELETE FROM holdfast.graph_event WHERE graph_id = :graph_id;

-- name: delete_graph_outbox
DELETE FROM holdfast.graph_outbox WHERE graph_id = :graph_id;

-- name: members_to_seal
SELECT run_id, input FROM holdfast.graph_member WHERE state IN ('staged', 'waiting') AND run_id > :after ORDER BY run_id LIMIT :limit;

-- name: reseal_member
UPDATE holdfast.graph_member SET input = :new WHERE run_id = :run_id AND input = :old;

-- name: insert_stage
INSERT INTO holdfast.graph_stage (id, written, due_at, discarded) VALUES (:id, 0, :due_at, 0) ON CONFLICT DO NOTHING;

-- name: stage_to_change
SELECT id, written, due_at, discarded FROM holdfast.graph_stage WHERE id = :stage_id;

-- name: move_stage
UPDATE holdfast.graph_stage SET written = :written, due_at = :due_at WHERE id = :id;

-- name: discard_stage
UPDATE holdfast.graph_stage SET discarded = 1, due_at = 0 WHERE id = :id;

-- name: delete_stage
DELETE FROM holdfast.graph_stage WHERE id = :id;

-- name: set_stage_aside
UPDATE holdfast.graph_stage SET due_at = :never WHERE id = :id AND due_at <> :never;

-- name: rests_of_stage
-- Groups that cancel their remaining upstreams, and that were decided before their members became
-- visible.
SELECT part.run_id, part.number, part.need, part.total, part.done, part.lost, part.rest, part.state
  FROM holdfast.graph_member AS member JOIN holdfast.graph_group AS part ON part.run_id = member.run_id
 WHERE member.graph_id = :stage_id AND part.rest = 'cancel' AND part.state <> 'open' ORDER BY part.run_id, part.number;

-- name: stage_to_sweep
SELECT id, written, due_at, discarded FROM holdfast.graph_stage
 WHERE (id = :stage_id OR :stage_id = '') AND due_at < :now ORDER BY due_at, id LIMIT 1;

-- name: members_to_sweep
SELECT run_id FROM holdfast.graph_member WHERE graph_id = :stage_id LIMIT :limit;

-- name: delete_edges_above
DELETE FROM holdfast.graph_edge WHERE dependent = :run_id;

-- name: delete_groups_of
DELETE FROM holdfast.graph_group WHERE run_id = :run_id;

-- name: delete_members
DELETE FROM holdfast.graph_member WHERE run_id = :run_id;

-- name: sweep_events
DELETE FROM holdfast.graph_event
 WHERE graph_id = :stage_id
   AND seq < (SELECT MIN(seq) FROM holdfast.graph_event WHERE graph_id = :stage_id) + :limit;

-- name: sweep_history
-- From the end, so that the history has no gaps while it is deleted.
DELETE FROM holdfast.event
 WHERE run_id = :stage_id
   AND seq > (SELECT MAX(seq) FROM holdfast.event WHERE run_id = :stage_id) - :limit;

-- name: take_events
-- As new events: subscribers have passed the events of the stage.
INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
SELECT :run_id, seq, kind, step, attempt, data, error, started_at, at, role
  FROM holdfast.event WHERE run_id = :stage_id ORDER BY seq;

-- name: append_each
-- One event for each of many runs, for a writer that does not hold them.
INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
VALUES (:run_id, :seq, :kind, :step, :attempt, :data, :error, :started_at, :at, :role);
