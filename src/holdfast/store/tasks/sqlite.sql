-- name: lease_facts
-- Differs from Postgres: lists are passed as JSON.
SELECT value AS run_id, (SELECT MAX(seq) FROM holdfast.event AS event WHERE event.run_id = value) AS seq,
       (SELECT policy FROM holdfast.task AS task WHERE task.run_id = value) AS policy
  FROM json_each(:ids);

-- name: lease_histories
-- What the next holder of each run must know: the events since its last wait, and its failed
-- attempts. The whole history if some of it may be void. Differs from Postgres: lists are passed as
-- JSON.
WITH last AS MATERIALIZED (
    SELECT value AS run_id,
           (SELECT CASE WHEN MAX(CASE WHEN kind = 'run_replayed' THEN 1 ELSE 0 END) = 1 THEN 0
                        ELSE MAX(CASE WHEN kind = 'wait_opened' THEN seq ELSE 0 END) END
              FROM holdfast.event AS event WHERE event.run_id = value) AS since
      FROM json_each(:ids)
)
SELECT event.run_id, event.seq, event.kind, event.step, event.attempt, event.data, event.error, event.started_at, event.at
  FROM last JOIN holdfast.event AS event ON event.run_id = last.run_id
 WHERE event.seq >= last.since OR event.kind IN ('attempt_failed', 'child_started', 'children_awaited', 'lease_lost', 'lease_revoked')
 ORDER BY event.run_id, event.seq;
