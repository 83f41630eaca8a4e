-- Subscriptions to the events of all runs: the queries that SQLite needs in its own dialect. Lists
-- are passed as JSON, and CROSS JOIN fixes the order of the joins.

-- name: events_edge
-- The last event of the next page.
SELECT 1 AS tx, id
  FROM (SELECT id FROM holdfast.event WHERE id > :after_id ORDER BY id LIMIT :window) AS page
 ORDER BY id DESC LIMIT 1;

-- name: events_between
SELECT 1 AS tx, event.id, event.run_id, namespace, workflow, seq, event.kind, step, attempt, data, event.error, event.started_at,
       at, role
  FROM holdfast.event AS event
 CROSS JOIN holdfast.run AS run ON run.id = event.run_id
 CROSS JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE event.id > :after_id AND event.id <= :edge_id
   AND (:workflow IS NULL OR workflow = :workflow)
   AND (:namespace IS NULL OR namespace = :namespace)
   AND (:run_id IS NULL OR event.run_id = :run_id)
   AND (:kinds IS NULL OR event.kind IN (SELECT value FROM json_each(:kinds)))
 ORDER BY event.id;

-- name: tagged_events_between
-- `events_between` for runs with certain tags.
SELECT 1 AS tx, event.id, event.run_id, namespace, workflow, seq, event.kind, step, attempt, data, event.error, event.started_at,
       at, role
  FROM holdfast.event AS event
 CROSS JOIN holdfast.run AS run ON run.id = event.run_id
 CROSS JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE event.id > :after_id AND event.id <= :edge_id
   AND (:workflow IS NULL OR workflow = :workflow)
   AND (:namespace IS NULL OR namespace = :namespace)
   AND (:run_id IS NULL OR event.run_id = :run_id)
   AND (:kinds IS NULL OR event.kind IN (SELECT value FROM json_each(:kinds)))
   AND NOT EXISTS (SELECT 1 FROM json_each(:tags) AS wanted
                    WHERE NOT EXISTS (SELECT 1 FROM holdfast.tag AS tag
                                       WHERE tag.run_id = event.run_id AND tag.name = wanted.key AND tag.value = wanted.value))
 ORDER BY event.id;

-- name: graph_events_edge
SELECT 1 AS tx, number AS id
  FROM (SELECT number FROM holdfast.graph_event WHERE number > :after_id ORDER BY number LIMIT :window) AS page
 ORDER BY number DESC LIMIT 1;

-- name: graph_events_between
-- `events_between` for the audit trails of graphs.
SELECT 1 AS tx, event.number, owner.id AS run_id, owner.namespace, owner.name AS workflow, event.seq, event.kind, member AS step,
       event.data AS data, event.at
  FROM holdfast.graph_event AS event
 CROSS JOIN holdfast.graph AS owner ON owner.id = event.graph_id
 WHERE event.number > :after_id AND event.number <= :edge_id
   AND (:workflow IS NULL OR owner.name = :workflow)
   AND (:namespace IS NULL OR owner.namespace = :namespace)
   AND (:run_id IS NULL OR owner.id = :run_id)
   AND (:kinds IS NULL OR event.kind IN (SELECT value FROM json_each(:kinds)))
 ORDER BY event.number;

-- name: last_graph_place
SELECT 1 AS tx, COALESCE(MAX(number), 0) AS id FROM holdfast.graph_event;

-- name: flow_events_edge
SELECT 1 AS tx, number AS id
  FROM (SELECT number FROM holdfast.flow_event WHERE number > :after_id ORDER BY number LIMIT :window) AS page
 ORDER BY number DESC LIMIT 1;

-- name: flow_events_between
-- `events_between` for the audit trails of flows.
SELECT 1 AS tx, event.number, owner.id AS run_id, owner.namespace, owner.controller AS workflow, event.seq, event.kind, CAST(NULL AS TEXT) AS step,
       event.payload AS data, event.at
  FROM holdfast.flow_event AS event
 CROSS JOIN holdfast.flow AS owner ON owner.id = event.flow_id
 WHERE event.number > :after_id AND event.number <= :edge_id
   AND (:workflow IS NULL OR owner.controller = :workflow)
   AND (:namespace IS NULL OR owner.namespace = :namespace)
   AND (:run_id IS NULL OR owner.id = :run_id)
   AND (:kinds IS NULL OR event.kind IN (SELECT value FROM json_each(:kinds)))
 ORDER BY event.number;

-- name: last_flow_place
SELECT 1 AS tx, COALESCE(MAX(number), 0) AS id FROM holdfast.flow_event;

-- name: all_subscription
-- In a copy, the events of graphs and flows have other numbers: their readers begin again.
SELECT name, kind, which, source, after_tx, CASE source WHEN 'runs' THEN after_id ELSE 0 END AS after_id,
       created_at, moved_at, url, secret, attempts, attempt_limit, next_at, error
  FROM holdfast.subscription
 ORDER BY name;
