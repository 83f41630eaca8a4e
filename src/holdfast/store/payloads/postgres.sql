-- Payloads: the queries that PostgreSQL needs in its own dialect.

-- name: keep_payload
-- Differs from SQLite: an existing payload is locked, so that no other transaction deletes it
-- before the commit. If another transaction is deleting it, this waits and creates it again.
INSERT INTO holdfast.payload (digest, key, form, size, stored, parts, kept_at)
VALUES (:digest, :key, :form, :size, :stored, :parts, :now)
    ON CONFLICT (digest) DO UPDATE SET kept_at = excluded.kept_at
RETURNING (xmax = 0) AS created;

-- name: lock_payload
-- Differs from SQLite: waits for transactions that are adding a reference to the payload.
SELECT digest FROM holdfast.payload WHERE digest = :digest FOR UPDATE;

-- name: payloads_of_runs
SELECT DISTINCT digest FROM holdfast.payload_use WHERE run_id = ANY(CAST(:run_ids AS TEXT[])) ORDER BY digest;

-- name: keys_in_use
-- Differs from SQLite: other functions for bytes.
SELECT key, COUNT(*) AS found
  FROM (SELECT encode(substring(head FROM 2 FOR position(decode('00', 'hex') IN substring(head FROM 2)) - 1), 'escape') AS key
          FROM (SELECT substring(input FROM 1 FOR 80) AS head FROM holdfast.run WHERE substring(input FROM 1 FOR 1) = decode('00', 'hex')
                UNION ALL SELECT substring(result FROM 1 FOR 80) FROM holdfast.run WHERE substring(result FROM 1 FOR 1) = decode('00', 'hex')
                UNION ALL SELECT substring(error FROM 1 FOR 80) FROM holdfast.run WHERE substring(error FROM 1 FOR 1) = decode('00', 'hex')
                UNION ALL SELECT substring(data FROM 1 FOR 80) FROM holdfast.event WHERE substring(data FROM 1 FOR 1) = decode('00', 'hex')
                UNION ALL SELECT substring(error FROM 1 FOR 80) FROM holdfast.event WHERE substring(error FROM 1 FOR 1) = decode('00', 'hex')
                UNION ALL SELECT substring(payload FROM 1 FOR 80) FROM holdfast.signal
                           WHERE substring(payload FROM 1 FOR 1) = decode('00', 'hex')
                UNION ALL SELECT substring(summary FROM 1 FOR 80) FROM holdfast.stream
                           WHERE substring(summary FROM 1 FOR 1) = decode('00', 'hex')
                UNION ALL SELECT substring(data FROM 1 FOR 80) FROM holdfast.frame
                           WHERE substring(data FROM 1 FOR 1) = decode('00', 'hex')
                UNION ALL SELECT substring(nulls FROM 1 FOR 80) FROM holdfast.frame
                           WHERE substring(nulls FROM 1 FOR 1) = decode('00', 'hex')
                UNION ALL SELECT substring(input FROM 1 FOR 80) FROM holdfast.graph_member
                           WHERE substring(input FROM 1 FOR 1) = decode('00', 'hex')
                UNION ALL SELECT substring(secret FROM 1 FOR 80) FROM holdfast.key
                           WHERE substring(secret FROM 1 FOR 1) = decode('00', 'hex')) AS cut
         WHERE position(decode('00', 'hex') IN substring(head FROM 2)) > 0
         UNION ALL SELECT split_part(secret, chr(1), 2) FROM holdfast.subscription WHERE substring(secret FROM 1 FOR 1) = chr(1)
         UNION ALL SELECT split_part(message, chr(1), 2) FROM holdfast.output WHERE substring(message FROM 1 FOR 1) = chr(1)) AS sealed
 WHERE key <> ''
 GROUP BY key ORDER BY key;

-- name: sealed_of_run
-- Differs from SQLite: other functions for bytes.
SELECT substring(input FROM 1 FOR 120) AS head FROM holdfast.run WHERE id = :run_id AND substring(input FROM 1 FOR 1) = decode('00', 'hex')
UNION ALL SELECT substring(result FROM 1 FOR 120) FROM holdfast.run WHERE id = :run_id AND substring(result FROM 1 FOR 1) = decode('00', 'hex')
UNION ALL SELECT substring(error FROM 1 FOR 120) FROM holdfast.run WHERE id = :run_id AND substring(error FROM 1 FOR 1) = decode('00', 'hex')
UNION ALL SELECT substring(data FROM 1 FOR 120) FROM holdfast.event WHERE run_id = :run_id AND substring(data FROM 1 FOR 1) = decode('00', 'hex')
UNION ALL SELECT substring(error FROM 1 FOR 120) FROM holdfast.event WHERE run_id = :run_id AND substring(error FROM 1 FOR 1) = decode('00', 'hex')
UNION ALL SELECT substring(payload FROM 1 FOR 120) FROM holdfast.signal
           WHERE run_id = :run_id AND substring(payload FROM 1 FOR 1) = decode('00', 'hex');

-- name: all_sealed
-- Differs from SQLite: other functions for bytes.
SELECT id AS run_id, substring(input FROM 1 FOR 120) AS head FROM holdfast.run WHERE substring(input FROM 1 FOR 1) = decode('00', 'hex')
UNION ALL SELECT id, substring(result FROM 1 FOR 120) FROM holdfast.run WHERE substring(result FROM 1 FOR 1) = decode('00', 'hex')
UNION ALL SELECT id, substring(error FROM 1 FOR 120) FROM holdfast.run WHERE substring(error FROM 1 FOR 1) = decode('00', 'hex')
UNION ALL SELECT run_id, substring(data FROM 1 FOR 120) FROM holdfast.event AS event WHERE substring(data FROM 1 FOR 1) = decode('00', 'hex')
             AND NOT EXISTS (SELECT 1 FROM holdfast.graph_stage AS stage WHERE stage.id = event.run_id)
UNION ALL SELECT run_id, substring(error FROM 1 FOR 120) FROM holdfast.event AS event WHERE substring(error FROM 1 FOR 1) = decode('00', 'hex')
             AND NOT EXISTS (SELECT 1 FROM holdfast.graph_stage AS stage WHERE stage.id = event.run_id)
UNION ALL SELECT run_id, substring(payload FROM 1 FOR 120) FROM holdfast.signal
           WHERE substring(payload FROM 1 FOR 1) = decode('00', 'hex');

-- name: table_sizes
-- Differs from SQLite: the catalogue knows the sizes, also of values that are stored apart.
SELECT part.relname AS name, pg_total_relation_size(part.oid) AS bytes
  FROM pg_class AS part
  JOIN pg_namespace AS place ON place.oid = part.relnamespace
 WHERE place.nspname = 'holdfast' AND part.relkind = 'r';
