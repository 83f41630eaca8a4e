-- Laws about payloads: values that are stored separately.

-- name: a_payload_reference_points_to_a_stored_payload
SELECT run_id FROM holdfast.payload_use AS used
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.payload AS payload WHERE payload.digest = used.digest);

-- name: a_payload_has_all_its_parts
SELECT kept_at FROM holdfast.payload AS payload
 WHERE parts <> (SELECT COUNT(*) FROM holdfast.payload_part AS part WHERE part.digest = payload.digest)
    OR stored <> (SELECT COALESCE(SUM(LENGTH(part.data)), 0) FROM holdfast.payload_part AS part WHERE part.digest = payload.digest);

-- name: a_payload_part_belongs_to_a_payload
SELECT part FROM holdfast.payload_part AS part
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.payload AS payload WHERE payload.digest = part.digest);

-- name: a_stored_payload_has_a_reference
SELECT kept_at FROM holdfast.payload AS payload
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.payload_use AS used WHERE used.digest = payload.digest);

-- name: a_payload_reference_belongs_to_a_run
SELECT run_id FROM holdfast.payload_use AS used
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = used.run_id);
