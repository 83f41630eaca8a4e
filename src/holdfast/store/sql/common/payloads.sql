-- Payloads, references to them, retention rules and maintenance locks.

-- name: insert_payload_part
INSERT INTO holdfast.payload_part (digest, part, data) VALUES (:digest, :part, :data) ON CONFLICT DO NOTHING;

-- name: use_payload
INSERT INTO holdfast.payload_use (run_id, digest) VALUES (:run_id, :digest) ON CONFLICT DO NOTHING;

-- name: drop_use
DELETE FROM holdfast.payload_use WHERE run_id = :run_id AND digest = :digest;

-- name: payload
SELECT digest, key, form, size FROM holdfast.payload WHERE digest = :digest;

-- name: payload_parts
SELECT data FROM holdfast.payload_part WHERE digest = :digest ORDER BY part;

-- name: payloads_of_run
SELECT digest FROM holdfast.payload_use WHERE run_id = :run_id ORDER BY digest;

-- name: payload_in_use
SELECT run_id FROM holdfast.payload_use WHERE digest = :digest LIMIT 1;

-- name: touch_payload
UPDATE holdfast.payload SET kept_at = :now WHERE digest = :digest;

-- name: lock_payload
SELECT digest FROM holdfast.payload WHERE digest = :digest;

-- name: delete_payload
DELETE FROM holdfast.payload WHERE digest = :digest;

-- name: delete_payload_parts
DELETE FROM holdfast.payload_part WHERE digest = :digest;

-- name: next_payloads
SELECT digest, stored FROM holdfast.payload WHERE digest > :after ORDER BY digest LIMIT :limit;

-- name: payload_totals
SELECT COUNT(*) AS payloads, CAST(COALESCE(SUM(size), 0) AS BIGINT) AS bytes, CAST(COALESCE(SUM(stored), 0) AS BIGINT) AS stored
  FROM holdfast.payload;

-- name: empty_payloads
DELETE FROM holdfast.payload;

-- name: empty_payload_parts
DELETE FROM holdfast.payload_part;

-- name: reseal_run_input
UPDATE holdfast.run AS run SET input = :new WHERE id = :run_id AND holdfast.input_of(run) = :old;

-- name: reseal_run_result
UPDATE holdfast.run SET result = :new WHERE id = :run_id AND result = :old;

-- name: reseal_run_error
UPDATE holdfast.run SET error = :new WHERE id = :run_id AND error = :old;

-- name: reseal_event_data
UPDATE holdfast.event SET data = :new WHERE run_id = :run_id AND seq = :seq AND data = :old;

-- name: reseal_event_error
UPDATE holdfast.event SET error = :new WHERE run_id = :run_id AND seq = :seq AND error = :old;

-- name: reseal_signal_payload
UPDATE holdfast.signal SET payload = :new WHERE run_id = :run_id AND id = :seq AND payload = :old;

-- name: reseal_stream_summary
UPDATE holdfast.stream SET summary = :new WHERE run_id = :run_id AND number = :seq AND summary = :old;

-- name: reseal_frame_data
UPDATE holdfast.frame SET data = :new WHERE run_id = :run_id AND seq = :seq AND data = :old;

-- name: reseal_frame_nulls
UPDATE holdfast.frame SET nulls = :new WHERE run_id = :run_id AND seq = :seq AND nulls = :old;

-- name: reseal_output_message
UPDATE holdfast.output SET message = :new WHERE run_id = :run_id AND message = :old;

-- name: used_bytes
-- The bytes of the data itself: deleting reduces them, whatever the database does with the free
-- space.
SELECT CAST((SELECT COALESCE(SUM(200 + LENGTH(holdfast.input_of(run)) + COALESCE(LENGTH(result), 0) + COALESCE(LENGTH(error), 0)
                                 + COALESCE(LENGTH(waits), 0)), 0) FROM holdfast.run AS run) AS BIGINT)
       + CAST((SELECT COALESCE(SUM(100 + COALESCE(LENGTH(data), 0) + COALESCE(LENGTH(error), 0)), 0)
                 FROM holdfast.event WHERE run_id <> '') AS BIGINT)
       + CAST((SELECT COALESCE(SUM(100 + LENGTH(payload)), 0) FROM holdfast.signal) AS BIGINT)
       + CAST((SELECT COALESCE(SUM(stored), 0) FROM holdfast.payload) AS BIGINT) AS bytes;

-- name: tree_bytes
-- The bytes of a tree of runs; of its payloads, those to which no other run refers.
SELECT COUNT(*) AS runs,
       CAST(COALESCE(SUM(200 + LENGTH(holdfast.input_of(run)) + COALESCE(LENGTH(result), 0) + COALESCE(LENGTH(error), 0)), 0) AS BIGINT)
       + CAST((SELECT COALESCE(SUM(100 + COALESCE(LENGTH(event.data), 0) + COALESCE(LENGTH(event.error), 0)), 0)
                 FROM holdfast.event AS event JOIN holdfast.run AS owner ON owner.id = event.run_id
                WHERE owner.id = :run_id OR owner.root_id = :run_id) AS BIGINT)
       + CAST((SELECT COALESCE(SUM(100 + LENGTH(signal.payload)), 0)
                 FROM holdfast.signal AS signal JOIN holdfast.run AS owner ON owner.id = signal.run_id
                WHERE owner.id = :run_id OR owner.root_id = :run_id) AS BIGINT)
       + CAST((SELECT COALESCE(SUM(payload.stored), 0) FROM holdfast.payload AS payload
                WHERE payload.digest IN (SELECT used.digest FROM holdfast.payload_use AS used
                                           JOIN holdfast.run AS owner ON owner.id = used.run_id
                                          WHERE owner.id = :run_id OR owner.root_id = :run_id)
                  AND NOT EXISTS (SELECT 1 FROM holdfast.payload_use AS other
                                    JOIN holdfast.run AS holder ON holder.id = other.run_id
                                   WHERE other.digest = payload.digest
                                     AND holder.id <> :run_id AND COALESCE(holder.root_id, '') <> :run_id)) AS BIGINT) AS bytes
  FROM holdfast.run AS run
 WHERE id = :run_id OR root_id = :run_id;

-- name: save_retention
INSERT INTO holdfast.retention (name, what, workflow, statuses, older_than, keep_last, max_bytes)
VALUES (:name, :what, :workflow, :statuses, :older_than, :keep_last, :max_bytes)
    ON CONFLICT (name) DO UPDATE
   SET what = excluded.what, workflow = excluded.workflow, statuses = excluded.statuses, older_than = excluded.older_than,
       keep_last = excluded.keep_last, max_bytes = excluded.max_bytes;

-- name: delete_retention
DELETE FROM holdfast.retention WHERE name = :name;

-- name: retentions
SELECT name, what, workflow, statuses, older_than, keep_last, max_bytes FROM holdfast.retention ORDER BY name;

-- name: begin_upkeep
INSERT INTO holdfast.upkeep (name, session_id, until, done_at) VALUES (:name, NULL, 0, NULL) ON CONFLICT DO NOTHING;

-- name: take_upkeep
-- The lock is free at its time, or when the session that has it has ended.
UPDATE holdfast.upkeep AS upkeep
   SET session_id = :session_id, until = :until
 WHERE name = :name
   AND (until <= :now OR session_id = :session_id
        OR (session_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM holdfast.session WHERE id = upkeep.session_id)));

-- name: end_upkeep
UPDATE holdfast.upkeep SET session_id = NULL, until = :until, done_at = :now WHERE name = :name AND session_id = :session_id;

-- name: upkeep
SELECT name, session_id, until, done_at FROM holdfast.upkeep WHERE name = :name;

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

-- name: forget_damaged_upkeep
DELETE FROM holdfast.upkeep WHERE name = :name;
