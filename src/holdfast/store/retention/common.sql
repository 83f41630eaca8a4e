-- Retention: rules, maintenance locks, and the sizes by which trees are selected.

-- name: used_bytes
-- The bytes of the data itself: deleting reduces them, whatever the database does with the free
-- space.
SELECT CAST((SELECT COALESCE(SUM(200 + LENGTH(holdfast.input_of(run)) + COALESCE(LENGTH(result), 0) + COALESCE(LENGTH(error), 0)
                                 + COALESCE(LENGTH(waits), 0)), 0) FROM holdfast.run AS run) AS BIGINT)
       + CAST((SELECT COALESCE(SUM(100 + COALESCE(LENGTH(data), 0) + COALESCE(LENGTH(error), 0)), 0)
                 FROM holdfast.event WHERE run_id <> '') AS BIGINT)
       + CAST((SELECT COALESCE(SUM(100 + LENGTH(payload)), 0) FROM holdfast.signal) AS BIGINT)
       + CAST((SELECT COALESCE(SUM(stored), 0) FROM holdfast.payload) AS BIGINT) AS bytes;

-- name: workflow_bytes
-- The bytes of the runs of each workflow with their histories, and of the runs that were created since
-- an instant. All runs and events are read. A payload counts for each workflow that uses it.
SELECT sized.namespace, sized.workflow, CAST(SUM(sized.runs) AS BIGINT) AS runs, CAST(SUM(sized.events) AS BIGINT) AS events,
       CAST(SUM(sized.bytes) AS BIGINT) AS bytes, CAST(SUM(sized.recent) AS BIGINT) AS recent
  FROM (SELECT route.namespace, route.workflow, COUNT(*) AS runs, 0 AS events,
               SUM(200 + LENGTH(holdfast.input_of(run)) + COALESCE(LENGTH(run.result), 0) + COALESCE(LENGTH(run.error), 0)) AS bytes,
               SUM(CASE WHEN run.created_at < :since THEN 0
                        ELSE 200 + LENGTH(holdfast.input_of(run)) + COALESCE(LENGTH(run.result), 0) + COALESCE(LENGTH(run.error), 0) END) AS recent
          FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id = run.route_id
         GROUP BY route.namespace, route.workflow
         UNION ALL
        SELECT route.namespace, route.workflow, 0 AS runs, COUNT(*) AS events,
               SUM(100 + COALESCE(LENGTH(event.data), 0) + COALESCE(LENGTH(event.error), 0)) AS bytes,
               SUM(CASE WHEN event.at < :since THEN 0
                        ELSE 100 + COALESCE(LENGTH(event.data), 0) + COALESCE(LENGTH(event.error), 0) END) AS recent
          FROM holdfast.event AS event JOIN holdfast.run AS run ON run.id = event.run_id
          JOIN holdfast.route AS route ON route.id = run.route_id
         GROUP BY route.namespace, route.workflow
         UNION ALL
        SELECT used.namespace, used.workflow, 0 AS runs, 0 AS events, SUM(payload.stored) AS bytes,
               SUM(CASE WHEN used.created_at < :since THEN 0 ELSE payload.stored END) AS recent
          FROM (SELECT route.namespace, route.workflow, payload_use.digest, MIN(run.created_at) AS created_at
                  FROM holdfast.payload_use AS payload_use JOIN holdfast.run AS run ON run.id = payload_use.run_id
                  JOIN holdfast.route AS route ON route.id = run.route_id
                 GROUP BY route.namespace, route.workflow, payload_use.digest) AS used
          JOIN holdfast.payload AS payload ON payload.digest = used.digest
         GROUP BY used.namespace, used.workflow) AS sized
 GROUP BY sized.namespace, sized.workflow
 ORDER BY bytes DESC, sized.namespace, sized.workflow;

-- name: tree_bytes
-- The bytes of a tree of runs; of its payloads, those to which no other run refers. The ids come
-- first: with OR, PostgreSQL would read all events.
WITH tree AS (
    SELECT id FROM holdfast.run WHERE id = :run_id
     UNION ALL
    SELECT id FROM holdfast.run WHERE root_id = :run_id
)
SELECT COUNT(*) AS runs,
       CAST(COALESCE(SUM(200 + LENGTH(holdfast.input_of(run)) + COALESCE(LENGTH(result), 0) + COALESCE(LENGTH(error), 0)), 0) AS BIGINT)
       + CAST((SELECT COALESCE(SUM(100 + COALESCE(LENGTH(event.data), 0) + COALESCE(LENGTH(event.error), 0)), 0)
                 FROM holdfast.event AS event WHERE event.run_id IN (SELECT id FROM tree)) AS BIGINT)
       + CAST((SELECT COALESCE(SUM(100 + LENGTH(signal.payload)), 0)
                 FROM holdfast.signal AS signal WHERE signal.run_id IN (SELECT id FROM tree)) AS BIGINT)
       + CAST((SELECT COALESCE(SUM(payload.stored), 0) FROM holdfast.payload AS payload
                WHERE payload.digest IN (SELECT used.digest FROM holdfast.payload_use AS used
                                          WHERE used.run_id IN (SELECT id FROM tree))
                  AND NOT EXISTS (SELECT 1 FROM holdfast.payload_use AS other
                                    JOIN holdfast.run AS holder ON holder.id = other.run_id
                                   WHERE other.digest = payload.digest
                                     AND holder.id <> :run_id AND COALESCE(holder.root_id, '') <> :run_id)) AS BIGINT) AS bytes
  FROM holdfast.run AS run
 WHERE run.id IN (SELECT id FROM tree);

-- name: save_retention
INSERT INTO holdfast.retention (name, target, workflow, statuses, older_than, keep_last, max_bytes)
VALUES (:name, :target, :workflow, :statuses, :older_than, :keep_last, :max_bytes)
    ON CONFLICT (name) DO UPDATE
   SET target = excluded.target, workflow = excluded.workflow, statuses = excluded.statuses, older_than = excluded.older_than,
       keep_last = excluded.keep_last, max_bytes = excluded.max_bytes
 WHERE :replaces = 1;

-- name: retention_to_change
SELECT name, target, workflow, statuses, older_than, keep_last, max_bytes FROM holdfast.retention WHERE name = :name;

-- name: delete_retention
DELETE FROM holdfast.retention WHERE name = :name;

-- name: retentions
SELECT name, target, workflow, statuses, older_than, keep_last, max_bytes FROM holdfast.retention ORDER BY name;

-- name: begin_maintenance
INSERT INTO holdfast.maintenance_lock (name, session_id, until, done_at) VALUES (:name, NULL, 0, NULL) ON CONFLICT DO NOTHING;

-- name: take_maintenance
-- The lock is free at its time, or when the session that has it has ended.
UPDATE holdfast.maintenance_lock AS maintenance_lock
   SET session_id = :session_id, until = :until
 WHERE name = :name
   AND (until <= :now OR session_id = :session_id
        OR (session_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM holdfast.session WHERE id = maintenance_lock.session_id)));

-- name: end_maintenance
UPDATE holdfast.maintenance_lock SET session_id = NULL, until = :until, done_at = :now WHERE name = :name AND session_id = :session_id;

-- name: maintenance_lock
SELECT name, session_id, until, done_at FROM holdfast.maintenance_lock WHERE name = :name;

-- name: count_events
SELECT COUNT(*) AS events, MAX(CASE WHEN kind = 'history_deleted' THEN 1 ELSE 0 END) AS deleted
  FROM holdfast.event WHERE run_id = :run_id;

-- name: forget_frames
-- The frames are deleted: the streams record that nothing is kept, and that only later frames can
-- follow.
UPDATE holdfast.stream
   SET kept_durable = 0, kept_summary = 0, kept_best_effort = 0,
       first_seq = (SELECT last_seq + 1 FROM holdfast.output AS output WHERE output.run_id = :run_id)
 WHERE run_id = :run_id;

-- name: forget_damaged_maintenance_lock
DELETE FROM holdfast.maintenance_lock WHERE name = :name;
