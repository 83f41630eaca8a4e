-- Graphs: the queries that SQLite needs in its own dialect: lists are passed as JSON.

-- name: lock_graphs
SELECT id, namespace, name, status, revision, members, live, events, fingerprint, policy, reason, summary, created_at, finished_at
  FROM holdfast.graph WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: graphs_by_id
SELECT id, namespace, name, status, revision, members, live, events, fingerprint, policy, reason, summary, created_at, finished_at
  FROM holdfast.graph WHERE id IN (SELECT value FROM json_each(:ids));

-- name: last_runs
-- The runs of members on which no other member depends.
SELECT holdfast.columns_of(run)
  FROM holdfast.graph_member AS member
  JOIN holdfast.run AS run ON run.id = COALESCE(member.joined, member.run_id)
  JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE member.graph_id IN (SELECT value FROM json_each(:ids))
   AND NOT EXISTS (SELECT 1 FROM holdfast.graph_edge AS edge JOIN holdfast.graph_member AS below ON below.run_id = edge.dependent
                    WHERE edge.upstream = member.run_id AND below.state <> 'staged')
 ORDER BY run.id;

-- name: links_below
SELECT edge.upstream, part.run_id, part.number, part.need, part.total, part.done, part.lost, part.rest, part.state,
       member.state AS member_state, member.missing
  FROM json_each(:ids) AS wanted
  JOIN holdfast.graph_edge AS edge ON edge.upstream = wanted.value
  JOIN holdfast.graph_group AS part ON part.run_id = edge.dependent AND part.number = edge.number
  JOIN holdfast.graph_member AS member ON member.run_id = edge.dependent
 LIMIT :limit;

-- name: ends_below
-- The states of ended members, and the edges below them, with the spec and input of each dependent
-- that may start now.
SELECT wanted.value AS upstream, own.state AS own_state, own.missing AS own_missing, part.run_id, part.number, part.need, part.total, part.done,
       part.lost, part.rest, part.state, member.state AS member_state, member.missing,
       CASE WHEN member.missing = 1 AND part.need = part.done + 1 THEN member.spec END AS spec, CASE WHEN member.missing = 1 AND part.need = part.done + 1 THEN member.input END AS input,
       CASE WHEN member.missing = 1 AND part.need = part.done + 1 THEN EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = member.run_id) END AS there
  FROM json_each(:ids) AS wanted
  JOIN holdfast.graph_member AS own ON own.run_id = wanted.value
  LEFT JOIN holdfast.graph_edge AS edge ON edge.upstream = wanted.value
  LEFT JOIN holdfast.graph_group AS part ON part.run_id = edge.dependent AND part.number = edge.number
  LEFT JOIN holdfast.graph_member AS member ON member.run_id = edge.dependent
 LIMIT :limit;

-- name: members_by_id
SELECT run_id, graph_id, workflow, state, missing, spec, input, started_at, finished_at, asked_at, note, joined
  FROM json_each(:ids) AS wanted JOIN holdfast.graph_member AS member ON member.run_id = wanted.value;

-- name: ready_members
-- CROSS JOIN keeps the order of the loops: graph by graph, up to the limit.
SELECT member.run_id
  FROM json_each(:ids) AS wanted CROSS JOIN holdfast.graph_member AS member
 WHERE member.graph_id = wanted.value AND member.state = 'waiting' AND member.missing = 0
 LIMIT :limit;

-- name: states_of_members
SELECT run_id, state, missing FROM json_each(:ids) AS wanted JOIN holdfast.graph_member AS member ON member.run_id = wanted.value
 WHERE member.state <> 'staged';

-- name: results_by_id
-- By the ids of members: a run that has joined its graph has another id.
SELECT member.run_id AS member_id, run.id, run.status, run.result
  FROM json_each(:ids) AS wanted
  JOIN holdfast.graph_member AS member ON member.run_id = wanted.value
  JOIN holdfast.run AS run ON run.id = COALESCE(member.joined, member.run_id);

-- name: joined_members
-- The members that are joined runs, by the ids of the members.
SELECT member.run_id, member.joined
  FROM json_each(:ids) AS wanted JOIN holdfast.graph_member AS member ON member.run_id = wanted.value
 WHERE member.joined IS NOT NULL;

-- name: members_of_runs
-- The members that runs with ids of their own are.
SELECT member.run_id, member.graph_id, member.joined
  FROM json_each(:ids) AS wanted JOIN holdfast.graph_member AS member ON member.joined = wanted.value;

-- name: runs_to_join
SELECT holdfast.columns_of(run)
  FROM json_each(:ids) AS wanted
  JOIN holdfast.run AS run ON run.id = wanted.value
  JOIN holdfast.route AS route ON route.id = run.route_id
 ORDER BY run.id;

-- name: runs_there
SELECT run.id FROM json_each(:ids) AS wanted JOIN holdfast.run AS run ON run.id = wanted.value;

-- name: ended_runs
SELECT id, status FROM holdfast.run WHERE id IN (SELECT value FROM json_each(:ids)) AND finished_at IS NOT NULL ORDER BY id;

-- name: take_from_outbox
DELETE FROM holdfast.graph_outbox WHERE id IN (SELECT value FROM json_each(:ids))
RETURNING id;

-- name: counts_of_graphs
SELECT member.graph_id, member.state, COUNT(*) AS members,
       SUM(CASE WHEN EXISTS (SELECT 1 FROM holdfast.graph_edge AS edge JOIN holdfast.graph_member AS below ON below.run_id = edge.dependent
                              WHERE edge.upstream = member.run_id AND below.state <> 'staged') THEN 0 ELSE 1 END) AS last,
       (SELECT COUNT(*) FROM holdfast.graph_outbox AS entry WHERE entry.graph_id = member.graph_id AND entry.status = 'replay') AS replays
  FROM holdfast.graph_member AS member
 WHERE member.graph_id IN (SELECT value FROM json_each(:ids))
 GROUP BY member.graph_id, member.state;

-- name: states_by_id
SELECT run.id, run.status, priority, session_id, waits, wake_at, parent_id, parent_step, parent_index, cancel_reason, started_at,
       finished_at, graph_id
  FROM json_each(:ids) AS wanted JOIN holdfast.run AS run ON run.id = wanted.value
 ORDER BY run.id;

-- name: live_children_of
SELECT run.id FROM json_each(:ids) AS wanted JOIN holdfast.run AS run ON run.parent_id = wanted.value
 WHERE on_parent_end = 'cancel' AND finished_at IS NULL;

-- name: make_visible
-- Moves the members of a stage to their graphs, which their ids name.
UPDATE holdfast.graph_member SET state = 'waiting', graph_id = substr(run_id, 1, instr(run_id, '::') - 1)
 WHERE graph_id = :stage_id AND state = 'staged';

-- name: stage_of_members
SELECT member.run_id, stage.id
  FROM json_each(:ids) AS wanted
  JOIN holdfast.graph_member AS member ON member.run_id = wanted.value
  JOIN holdfast.graph_stage AS stage ON stage.id = member.graph_id
 WHERE stage.id <> :own
 LIMIT 1;

-- name: edges_below
-- The number of edges from some members to each group.
SELECT edge.dependent, edge.number, COUNT(*) AS lost
  FROM json_each(:ids) AS wanted
  JOIN holdfast.graph_edge AS edge ON edge.upstream = wanted.value
 GROUP BY edge.dependent, edge.number
 ORDER BY edge.dependent, edge.number;

-- name: graph_outbox
SELECT id, graph_id, run_id, status, at, place FROM holdfast.graph_outbox
 WHERE graph_id NOT IN (SELECT value FROM json_each(:without))
 ORDER BY id LIMIT :limit;

-- name: groups_of_members
SELECT part.run_id, part.number, part.need, part.total, part.done, part.lost, part.rest, part.state
  FROM json_each(:ids) AS wanted JOIN holdfast.graph_group AS part ON part.run_id = wanted.value
 ORDER BY part.run_id, part.number;

-- name: replays_of_members
-- The members whose previous end is still being taken back.
SELECT run_id, place FROM holdfast.graph_outbox
 WHERE graph_id = :graph_id AND status = 'replay' AND run_id IN (SELECT value FROM json_each(:ids));

-- name: count_links
SELECT edge.upstream, COUNT(*) AS links
  FROM json_each(:ids) AS wanted JOIN holdfast.graph_edge AS edge ON edge.upstream = wanted.value
 GROUP BY edge.upstream;
