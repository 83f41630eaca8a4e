-- name: lease_facts
-- Differs from Postgres: lists travel as JSON.
SELECT value AS run_id, (SELECT MAX(seq) FROM holdfast.event AS event WHERE event.run_id = value) AS seq,
       (SELECT policy FROM holdfast.task AS task WHERE task.run_id = value) AS policy
  FROM json_each(:ids);
