-- Graphs: runs that depend on each other.

-- name: graph
SELECT id, namespace, name, status, revision, members, live, events, fingerprint, policy, reason, summary, created_at, finished_at
  FROM holdfast.graph WHERE id = :graph_id;

-- name: graph_to_change
SELECT id, namespace, name, status, revision, members, live, events, fingerprint, policy, reason, summary, created_at, finished_at
  FROM holdfast.graph WHERE id = :graph_id;

-- name: insert_graph
INSERT INTO holdfast.graph (id, namespace, name, status, revision, members, live, events, fingerprint, created_at)
VALUES (:id, :namespace, :name, :status, :revision, :members, :live, :events, :fingerprint, :created_at)
    ON CONFLICT DO NOTHING;

-- name: save_graph
UPDATE holdfast.graph
   SET status = :status, revision = :revision, members = :members, live = :live, events = :events, policy = :policy,
       reason = :reason, summary = :summary, finished_at = :finished_at
 WHERE id = :id;

-- name: count_graph
-- `save_graph` where only members came to their ends or were started.
UPDATE holdfast.graph SET live = :live, events = :events WHERE id = :id;

-- name: insert_member
INSERT INTO holdfast.graph_member (run_id, graph_id, workflow, state, missing, spec, input, started_at)
VALUES (:run_id, :graph_id, :workflow, :state, :missing, :spec, :input, :started_at);

-- name: insert_group
INSERT INTO holdfast.graph_group (run_id, number, need, total, done, lost, rest, state)
VALUES (:run_id, :number, :need, :total, :done, :lost, :rest, :state);

-- name: insert_edge
INSERT INTO holdfast.graph_edge (upstream, dependent, number) VALUES (:upstream, :dependent, :number);

-- name: insert_graph_event
INSERT INTO holdfast.graph_event (graph_id, seq, kind, member, data, at) VALUES (:graph_id, :seq, :kind, :member, :data, :at);

-- name: insert_news
-- A run has ended that is, by its id, a member of a graph.
INSERT INTO holdfast.graph_news (graph_id, run_id, status, at) VALUES (:graph_id, :run_id, :status, :at);

-- name: graph_news
SELECT id, graph_id, run_id, status, at FROM holdfast.graph_news ORDER BY id LIMIT :limit;

-- name: news_of_graph
SELECT id, graph_id, run_id, status, at FROM holdfast.graph_news WHERE graph_id = :graph_id ORDER BY id;

-- name: next_news
SELECT (SELECT at FROM holdfast.graph_news ORDER BY id LIMIT 1) AS at;

-- name: save_group
UPDATE holdfast.graph_group SET done = :done, lost = :lost, state = :state WHERE run_id = :run_id AND number = :number;

-- name: start_member
UPDATE holdfast.graph_member SET state = 'started', missing = 0, started_at = :now, input = :empty, note = NULL
 WHERE run_id = :run_id;

-- name: end_member
UPDATE holdfast.graph_member SET state = :state, finished_at = :now, note = COALESCE(:note, note) WHERE run_id = :run_id;

-- name: stop_member
-- It was asked to stop, and did so at once.
UPDATE holdfast.graph_member SET state = :state, finished_at = :now, asked_at = :now, note = COALESCE(:note, note)
 WHERE run_id = :run_id;

-- name: save_missing
UPDATE holdfast.graph_member SET missing = :missing WHERE run_id = :run_id;

-- name: miss_one_more
UPDATE holdfast.graph_member SET missing = missing + 1 WHERE run_id = :run_id;

-- name: ask_member
UPDATE holdfast.graph_member SET asked_at = :now, note = COALESCE(:note, note) WHERE run_id = :run_id;

-- name: reopen_member
UPDATE holdfast.graph_member SET state = :state, finished_at = NULL, asked_at = NULL, note = NULL WHERE run_id = :run_id;

-- name: members_of_graph
SELECT run_id, graph_id, workflow, state, missing, spec, input, started_at, finished_at, asked_at, note
  FROM holdfast.graph_member WHERE graph_id = :graph_id ORDER BY run_id;

-- name: groups_of_graph
SELECT part.run_id, part.number, part.need, part.total, part.done, part.lost, part.rest, part.state
  FROM holdfast.graph_group AS part JOIN holdfast.graph_member AS member ON member.run_id = part.run_id
 WHERE member.graph_id = :graph_id ORDER BY part.run_id, part.number;

-- name: edges_of_graph
SELECT edge.upstream, edge.dependent, edge.number
  FROM holdfast.graph_edge AS edge JOIN holdfast.graph_member AS member ON member.run_id = edge.upstream
 WHERE member.graph_id = :graph_id ORDER BY edge.dependent, edge.number, edge.upstream;

-- name: groups_of_member
SELECT run_id, number, need, total, done, lost, rest, state FROM holdfast.graph_group WHERE run_id = :run_id ORDER BY number;

-- name: upstreams_of_group
SELECT member.run_id, member.state
  FROM holdfast.graph_edge AS edge JOIN holdfast.graph_member AS member ON member.run_id = edge.upstream
 WHERE edge.dependent = :run_id AND edge.number = :number ORDER BY member.run_id;

-- name: upstreams_of_member
SELECT edge.number, member.run_id, member.state, member.note
  FROM holdfast.graph_edge AS edge JOIN holdfast.graph_member AS member ON member.run_id = edge.upstream
 WHERE edge.dependent = :run_id ORDER BY edge.number, member.run_id;

-- name: member
SELECT run_id, graph_id, workflow, state, missing, spec, input, started_at, finished_at, asked_at, note
  FROM holdfast.graph_member WHERE run_id = :run_id;

-- name: cancel_waiting
-- Who waits in a graph that was cancelled will never be started.
UPDATE holdfast.graph_member SET state = 'cancelled', finished_at = :now, note = :note
 WHERE graph_id = :graph_id AND state = 'waiting';

-- name: unasked_members
-- Those that were started and not yet asked to stop: everybody, or only those whose runs have not begun.
SELECT member.run_id
  FROM holdfast.graph_member AS member JOIN holdfast.run AS run ON run.id = member.run_id
 WHERE member.graph_id = :graph_id AND member.state = 'started' AND member.asked_at IS NULL
   AND (:everybody = 1 OR (run.started_at IS NULL AND run.session_id IS NULL))
 ORDER BY member.run_id LIMIT :limit;

-- name: recount_groups
UPDATE holdfast.graph_group AS part
   SET done = (SELECT COUNT(*) FROM holdfast.graph_edge AS edge JOIN holdfast.graph_member AS member ON member.run_id = edge.upstream
                WHERE edge.dependent = part.run_id AND edge.number = part.number AND member.state = 'completed'),
       lost = (SELECT COUNT(*) FROM holdfast.graph_edge AS edge JOIN holdfast.graph_member AS member ON member.run_id = edge.upstream
                WHERE edge.dependent = part.run_id AND edge.number = part.number
                  AND member.state IN ('failed', 'cancelled', 'expired', 'skipped'))
 WHERE part.run_id IN (SELECT run_id FROM holdfast.graph_member WHERE graph_id = :graph_id);

-- name: close_groups
-- Nobody waits any more in a graph that was cancelled: what ends there decides nothing, and stops nobody.
UPDATE holdfast.graph_group SET state = 'impossible'
 WHERE state = 'open' AND run_id IN (SELECT run_id FROM holdfast.graph_member WHERE graph_id = :graph_id);

-- name: judge_groups
-- Whoever waits still waits for the new end of what is done again, and is given its new result.
UPDATE holdfast.graph_group
   SET state = CASE WHEN done >= need THEN 'satisfied'
                    WHEN lost > total - need THEN 'impossible' ELSE 'open' END
 WHERE run_id IN (SELECT run_id FROM holdfast.graph_member WHERE graph_id = :graph_id AND state = 'waiting');

-- name: recount_missing
UPDATE holdfast.graph_member AS member
   SET missing = (SELECT COUNT(*) FROM holdfast.graph_group AS part WHERE part.run_id = member.run_id AND part.state <> 'satisfied')
 WHERE graph_id = :graph_id AND state = 'waiting';

-- name: ready_members
SELECT run_id FROM holdfast.graph_member WHERE graph_id = :graph_id AND state = 'waiting' AND missing = 0 ORDER BY run_id;

-- name: graph_events
SELECT graph_id, seq, kind, member, data, at FROM holdfast.graph_event
 WHERE graph_id = :graph_id AND seq > :after ORDER BY seq LIMIT :limit;

-- name: newest_graphs
SELECT id, namespace, name, status, revision, members, live, events, fingerprint, policy, reason, summary, created_at, finished_at
  FROM holdfast.graph
 WHERE namespace = :namespace AND id < :before AND (status = :status OR :status = '')
 ORDER BY id DESC LIMIT :limit;

-- name: old_graphs
SELECT id FROM holdfast.graph
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

-- name: delete_graph_news
DELETE FROM holdfast.graph_news WHERE graph_id = :graph_id;

-- name: members_to_seal
SELECT run_id, input FROM holdfast.graph_member WHERE state = 'waiting' AND run_id > :after ORDER BY run_id LIMIT :limit;

-- name: reseal_member
UPDATE holdfast.graph_member SET input = :new WHERE run_id = :run_id AND input = :old;

-- name: append_each
-- One line for each of many runs, by one who does not hold them.
INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at)
VALUES (:run_id, :seq, :kind, :step, :attempt, :data, :error, :started_at, :at);
