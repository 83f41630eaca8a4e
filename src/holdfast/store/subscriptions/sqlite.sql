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
