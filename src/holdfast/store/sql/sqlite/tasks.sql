-- name: lease_facts
-- Differs from Postgres: lists travel as JSON.
SELECT value AS run_id, (SELECT MAX(seq) FROM holdfast.event AS event WHERE event.run_id = value) AS seq,
       (SELECT policy FROM holdfast.task AS task WHERE task.run_id = value) AS policy
  FROM json_each(:ids);

-- name: close_streams_of
-- Differs from Postgres: lists travel as JSON.
UPDATE holdfast.stream SET closed_at = :now, reason = :reason
 WHERE run_id IN (SELECT value FROM json_each(:ids)) AND closed_at IS NULL AND generation >= 1;
