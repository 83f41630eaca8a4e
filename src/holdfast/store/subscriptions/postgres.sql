-- Subscriptions to the events of all runs: the queries that PostgreSQL needs in its own dialect. A
-- place in the order of events is a transaction and a number; the transaction is passed as a number
-- for the drivers. Only events are read that no open transaction can still precede.

-- name: append_from_outside
-- Differs from SQLite: a writer that is not the holder may have begun, and waited for the row of
-- the run, before the transaction that wrote the last event. In the order of transactions its event
-- would come first, so it is recorded as written by the later transaction.
INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role, tx)
VALUES (:run_id, :seq, :kind, :step, :attempt, :data, :error, :started_at, :at, :role,
        GREATEST(pg_current_xact_id(),
                 (SELECT tx FROM holdfast.event AS last WHERE last.run_id = :run_id AND last.seq = CAST(:seq AS BIGINT) - 1)));

-- name: copy_event
-- Differs from SQLite: copied events come before all events that are written here.
INSERT INTO holdfast.event (id, run_id, seq, kind, step, attempt, data, error, started_at, at, role, tx)
VALUES (:id, :run_id, :seq, :kind, :step, :attempt, :data, :error, :started_at, :at, :role, CAST('1' AS xid8));

-- name: continue_numbers
-- Differs from SQLite: the sequence does not know the copied numbers.
SELECT setval(pg_get_serial_sequence('holdfast.event', 'id'),
              GREATEST((SELECT COALESCE(MAX(id), 0) FROM holdfast.event) + 1,
                       nextval(pg_get_serial_sequence('holdfast.event', 'id')))) AS settled;

-- name: newest
-- Differs from SQLite: by the key.
SELECT (SELECT at FROM holdfast.event ORDER BY tx DESC, id DESC LIMIT 1) AS event_at,
       (SELECT created_at FROM holdfast.run ORDER BY id DESC LIMIT 1) AS run_at,
       (SELECT MAX(beat_at) FROM holdfast.session) AS beat_at;

-- name: last_place
SELECT CAST(CAST(tx AS TEXT) AS BIGINT) AS tx, id
  FROM (SELECT tx, id FROM holdfast.event WHERE tx < pg_snapshot_xmin(pg_current_snapshot())
         ORDER BY tx DESC, id DESC LIMIT 1) AS last
 UNION ALL SELECT 1, 0
 LIMIT 1;

-- name: events_edge
SELECT CAST(CAST(tx AS TEXT) AS BIGINT) AS tx, id
  FROM (SELECT tx, id
          FROM holdfast.event
         WHERE (tx, id) > (CAST(CAST(:after_tx AS TEXT) AS xid8), :after_id)
           AND tx < pg_snapshot_xmin(pg_current_snapshot())
         ORDER BY tx, id LIMIT :window) AS page
 ORDER BY page.tx DESC, page.id DESC
 LIMIT 1;

-- name: events_between
-- Differs from SQLite: the page is read first, by its key. The planner would otherwise start with
-- all runs of a workflow.
WITH page AS MATERIALIZED (
    SELECT tx, id, run_id, seq, kind, step, attempt, data, error, started_at, at, role
      FROM holdfast.event
     WHERE (tx, id) > (CAST(CAST(:after_tx AS TEXT) AS xid8), :after_id)
       AND (tx, id) <= (CAST(CAST(:edge_tx AS TEXT) AS xid8), :edge_id)
     ORDER BY tx, id LIMIT :window
)
SELECT CAST(CAST(tx AS TEXT) AS BIGINT) AS tx, event.id, event.run_id, namespace, workflow, seq, event.kind, step, attempt, data,
       event.error, event.started_at, at, role
  FROM page AS event
  JOIN holdfast.run AS run ON run.id = event.run_id
  JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE (CAST(:workflow AS TEXT) IS NULL OR workflow = :workflow)
   AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace)
   AND (CAST(:run_id AS TEXT) IS NULL OR event.run_id = :run_id)
   AND (CAST(:kinds AS TEXT[]) IS NULL OR event.kind = ANY(CAST(:kinds AS TEXT[])))
 ORDER BY event.tx, event.id;

-- name: tagged_events_between
-- `events_between` for runs with certain tags: a separate query, because the planner's estimate of
-- their number is far off.
WITH page AS MATERIALIZED (
    SELECT tx, id, run_id, seq, kind, step, attempt, data, error, started_at, at, role
      FROM holdfast.event
     WHERE (tx, id) > (CAST(CAST(:after_tx AS TEXT) AS xid8), :after_id)
       AND (tx, id) <= (CAST(CAST(:edge_tx AS TEXT) AS xid8), :edge_id)
     ORDER BY tx, id LIMIT :window
)
SELECT CAST(CAST(tx AS TEXT) AS BIGINT) AS tx, event.id, event.run_id, namespace, workflow, seq, event.kind, step, attempt, data,
       event.error, event.started_at, at, role
  FROM page AS event
  JOIN holdfast.run AS run ON run.id = event.run_id
  JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE (CAST(:workflow AS TEXT) IS NULL OR workflow = :workflow)
   AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace)
   AND (CAST(:run_id AS TEXT) IS NULL OR event.run_id = :run_id)
   AND (CAST(:kinds AS TEXT[]) IS NULL OR event.kind = ANY(CAST(:kinds AS TEXT[])))
   AND NOT EXISTS (SELECT 1 FROM jsonb_each_text(CAST(:tags AS JSONB)) AS wanted (name, value)
                    WHERE NOT EXISTS (SELECT 1 FROM holdfast.tag AS tag
                                       WHERE tag.run_id = event.run_id AND tag.name = wanted.name AND tag.value = wanted.value))
 ORDER BY event.tx, event.id;

-- name: lock_subscription
-- Differs from SQLite: the row is locked.
SELECT name, kind, which, after_tx, after_id, created_at, moved_at, url, secret, attempts, attempt_limit, next_at, error,
       session_id
  FROM holdfast.subscription
 WHERE name = :name
   FOR UPDATE;

-- name: all_subscription
-- The places from which another store, in which events have only numbers, must continue so that no
-- event is skipped. Readers of graphs and flows begin again.
SELECT name, kind, which, source, 1 AS after_tx,
       CASE source WHEN 'runs' THEN
       COALESCE((SELECT MIN(id) - 1 FROM holdfast.event AS event
                  WHERE (event.tx, event.id) > (CAST(CAST(after_tx AS TEXT) AS xid8), after_id)),
                (SELECT MAX(id) FROM holdfast.event), 0)
       ELSE 0 END AS after_id,
       created_at, moved_at, url, secret, attempts, attempt_limit, next_at, error
  FROM holdfast.subscription
 ORDER BY name;

-- name: is_numbered_ahead
-- Whether there are events of transactions that this server has not begun yet.
SELECT 1 AS ahead
  FROM ((SELECT tx FROM holdfast.event ORDER BY tx DESC, id DESC LIMIT 1)
        UNION ALL (SELECT tx FROM holdfast.graph_event ORDER BY tx DESC, number DESC LIMIT 1)
        UNION ALL (SELECT tx FROM holdfast.flow_event ORDER BY tx DESC, number DESC LIMIT 1)) AS last
 WHERE last.tx >= pg_snapshot_xmax(pg_current_snapshot())
 LIMIT 1;

-- name: translate_cursors
UPDATE holdfast.subscription AS subscription
   SET after_tx = 1,
       after_id = CASE source WHEN 'runs' THEN
                  COALESCE((SELECT MIN(id) - 1 FROM holdfast.event AS event
                             WHERE (event.tx, event.id) > (CAST(CAST(after_tx AS TEXT) AS xid8), after_id)),
                           (SELECT MAX(id) FROM holdfast.event), 0)
                  ELSE 0 END;

-- name: reset_event_transactions
UPDATE holdfast.event SET tx = CAST('1' AS xid8);

-- name: reset_graph_transactions
UPDATE holdfast.graph_event SET tx = CAST('1' AS xid8);

-- name: reset_flow_transactions
UPDATE holdfast.flow_event SET tx = CAST('1' AS xid8);

-- name: rename_installation
UPDATE holdfast.setting SET value = SUBSTR(REPLACE(CAST(gen_random_uuid() AS TEXT), '-', ''), 1, 16)
 WHERE name = 'installation';

-- name: graph_events_edge
SELECT CAST(CAST(tx AS TEXT) AS BIGINT) AS tx, number AS id
  FROM (SELECT tx, number
          FROM holdfast.graph_event
         WHERE (tx, number) > (CAST(CAST(:after_tx AS TEXT) AS xid8), :after_id)
           AND tx < pg_snapshot_xmin(pg_current_snapshot())
         ORDER BY tx, number LIMIT :window) AS page
 ORDER BY page.tx DESC, page.number DESC
 LIMIT 1;

-- name: graph_events_between
-- `events_between` for the audit trails of graphs.
WITH page AS MATERIALIZED (
    SELECT tx, number, graph_id, seq, kind, member AS step, data AS data, at
      FROM holdfast.graph_event
     WHERE (tx, number) > (CAST(CAST(:after_tx AS TEXT) AS xid8), :after_id)
       AND (tx, number) <= (CAST(CAST(:edge_tx AS TEXT) AS xid8), :edge_id)
     ORDER BY tx, number LIMIT :window
)
SELECT CAST(CAST(event.tx AS TEXT) AS BIGINT) AS tx, event.number, owner.id AS run_id, owner.namespace, owner.name AS workflow,
       event.seq, event.kind, event.step, event.data, event.at
  FROM page AS event
  JOIN holdfast.graph AS owner ON owner.id = event.graph_id
 WHERE (CAST(:workflow AS TEXT) IS NULL OR owner.name = :workflow)
   AND (CAST(:namespace AS TEXT) IS NULL OR owner.namespace = :namespace)
   AND (CAST(:run_id AS TEXT) IS NULL OR owner.id = :run_id)
   AND (CAST(:kinds AS TEXT[]) IS NULL OR event.kind = ANY(CAST(:kinds AS TEXT[])))
 ORDER BY event.tx, event.number;

-- name: last_graph_place
SELECT CAST(CAST(tx AS TEXT) AS BIGINT) AS tx, id
  FROM (SELECT tx, number AS id FROM holdfast.graph_event WHERE tx < pg_snapshot_xmin(pg_current_snapshot())
         ORDER BY tx DESC, number DESC LIMIT 1) AS last
 UNION ALL SELECT 1, 0
 LIMIT 1;

-- name: flow_events_edge
SELECT CAST(CAST(tx AS TEXT) AS BIGINT) AS tx, number AS id
  FROM (SELECT tx, number
          FROM holdfast.flow_event
         WHERE (tx, number) > (CAST(CAST(:after_tx AS TEXT) AS xid8), :after_id)
           AND tx < pg_snapshot_xmin(pg_current_snapshot())
         ORDER BY tx, number LIMIT :window) AS page
 ORDER BY page.tx DESC, page.number DESC
 LIMIT 1;

-- name: flow_events_between
-- `events_between` for the audit trails of flows.
WITH page AS MATERIALIZED (
    SELECT tx, number, flow_id, seq, kind, CAST(NULL AS TEXT) AS step, payload AS data, at
      FROM holdfast.flow_event
     WHERE (tx, number) > (CAST(CAST(:after_tx AS TEXT) AS xid8), :after_id)
       AND (tx, number) <= (CAST(CAST(:edge_tx AS TEXT) AS xid8), :edge_id)
     ORDER BY tx, number LIMIT :window
)
SELECT CAST(CAST(event.tx AS TEXT) AS BIGINT) AS tx, event.number, owner.id AS run_id, owner.namespace, owner.controller AS workflow,
       event.seq, event.kind, event.step, event.data, event.at
  FROM page AS event
  JOIN holdfast.flow AS owner ON owner.id = event.flow_id
 WHERE (CAST(:workflow AS TEXT) IS NULL OR owner.controller = :workflow)
   AND (CAST(:namespace AS TEXT) IS NULL OR owner.namespace = :namespace)
   AND (CAST(:run_id AS TEXT) IS NULL OR owner.id = :run_id)
   AND (CAST(:kinds AS TEXT[]) IS NULL OR event.kind = ANY(CAST(:kinds AS TEXT[])))
 ORDER BY event.tx, event.number;

-- name: last_flow_place
SELECT CAST(CAST(tx AS TEXT) AS BIGINT) AS tx, id
  FROM (SELECT tx, number AS id FROM holdfast.flow_event WHERE tx < pg_snapshot_xmin(pg_current_snapshot())
         ORDER BY tx DESC, number DESC LIMIT 1) AS last
 UNION ALL SELECT 1, 0
 LIMIT 1;
