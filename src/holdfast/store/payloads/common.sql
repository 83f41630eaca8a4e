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
