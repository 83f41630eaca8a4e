-- Payloads: the queries that SQLite needs in its own dialect.

-- name: keep_payload
-- Differs from Postgres: there is no concurrent writer that could delete an existing payload.
INSERT INTO holdfast.payload (digest, key, form, size, stored, parts, kept_at)
VALUES (:digest, :key, :form, :size, :stored, :parts, :now)
    ON CONFLICT DO NOTHING
RETURNING 1 AS created;

-- name: keys_in_use
-- Differs from Postgres: other functions for bytes.
SELECT key, COUNT(*) AS found
  FROM (SELECT CAST(substr(head, 2, instr(substr(head, 2), x'00') - 1) AS TEXT) AS key
          FROM (SELECT substr(input, 1, 80) AS head FROM holdfast.run WHERE substr(input, 1, 1) = x'00'
                UNION ALL SELECT substr(input, 1, 80) FROM holdfast.large_input WHERE substr(input, 1, 1) = x'00'
                UNION ALL SELECT substr(result, 1, 80) FROM holdfast.run WHERE substr(result, 1, 1) = x'00'
                UNION ALL SELECT substr(error, 1, 80) FROM holdfast.run WHERE substr(error, 1, 1) = x'00'
                UNION ALL SELECT substr(data, 1, 80) FROM holdfast.event WHERE substr(data, 1, 1) = x'00'
                UNION ALL SELECT substr(error, 1, 80) FROM holdfast.event WHERE substr(error, 1, 1) = x'00'
                UNION ALL SELECT substr(payload, 1, 80) FROM holdfast.signal WHERE substr(payload, 1, 1) = x'00'
                UNION ALL SELECT substr(summary, 1, 80) FROM holdfast.stream WHERE substr(summary, 1, 1) = x'00'
                UNION ALL SELECT substr(data, 1, 80) FROM holdfast.frame WHERE substr(data, 1, 1) = x'00'
                UNION ALL SELECT substr(nulls, 1, 80) FROM holdfast.frame WHERE substr(nulls, 1, 1) = x'00'
                UNION ALL SELECT substr(input, 1, 80) FROM holdfast.graph_member WHERE substr(input, 1, 1) = x'00'
                UNION ALL SELECT substr(secret, 1, 80) FROM holdfast.key WHERE substr(secret, 1, 1) = x'00')
         WHERE instr(substr(head, 2), x'00') > 0
        UNION ALL SELECT substr(secret, 2, instr(substr(secret, 2), char(1)) - 1) FROM holdfast.subscription
                   WHERE substr(secret, 1, 1) = char(1)
        UNION ALL SELECT substr(message, 2, instr(substr(message, 2), char(1)) - 1) FROM holdfast.output
                   WHERE substr(message, 1, 1) = char(1)) AS sealed
 WHERE key <> ''
 GROUP BY key ORDER BY key;

-- name: sealed_of_run
-- Differs from Postgres: other functions for bytes. The first bytes of each sealed value are enough
-- to identify its payload.
SELECT substr(input, 1, 120) AS head FROM holdfast.run WHERE id = :run_id AND substr(input, 1, 1) = x'00'
UNION ALL SELECT substr(input, 1, 120) FROM holdfast.large_input WHERE run_id = :run_id AND substr(input, 1, 1) = x'00'
UNION ALL SELECT substr(result, 1, 120) FROM holdfast.run WHERE id = :run_id AND substr(result, 1, 1) = x'00'
UNION ALL SELECT substr(error, 1, 120) FROM holdfast.run WHERE id = :run_id AND substr(error, 1, 1) = x'00'
UNION ALL SELECT substr(data, 1, 120) FROM holdfast.event WHERE run_id = :run_id AND substr(data, 1, 1) = x'00'
UNION ALL SELECT substr(error, 1, 120) FROM holdfast.event WHERE run_id = :run_id AND substr(error, 1, 1) = x'00'
UNION ALL SELECT substr(payload, 1, 120) FROM holdfast.signal WHERE run_id = :run_id AND substr(payload, 1, 1) = x'00';

-- name: all_sealed
-- The same for all runs, to check that every reference is recorded. Staged events belong to no run
-- yet.
SELECT id AS run_id, substr(input, 1, 120) AS head FROM holdfast.run WHERE substr(input, 1, 1) = x'00'
UNION ALL SELECT run_id, substr(input, 1, 120) FROM holdfast.large_input WHERE substr(input, 1, 1) = x'00'
UNION ALL SELECT id, substr(result, 1, 120) FROM holdfast.run WHERE substr(result, 1, 1) = x'00'
UNION ALL SELECT id, substr(error, 1, 120) FROM holdfast.run WHERE substr(error, 1, 1) = x'00'
UNION ALL SELECT run_id, substr(data, 1, 120) FROM holdfast.event AS event WHERE substr(data, 1, 1) = x'00'
             AND NOT EXISTS (SELECT 1 FROM holdfast.graph_stage AS stage WHERE stage.id = event.run_id)
UNION ALL SELECT run_id, substr(error, 1, 120) FROM holdfast.event AS event WHERE substr(error, 1, 1) = x'00'
             AND NOT EXISTS (SELECT 1 FROM holdfast.graph_stage AS stage WHERE stage.id = event.run_id)
UNION ALL SELECT run_id, substr(payload, 1, 120) FROM holdfast.signal WHERE substr(payload, 1, 1) = x'00';

-- name: table_sizes
-- Differs from Postgres: pages are counted, with those of the indexes.
SELECT substr(part.tbl_name, length('holdfast_') + 1) AS name, CAST(SUM(page.pgsize) AS INTEGER) AS bytes
  FROM dbstat AS page
  JOIN sqlite_schema AS part ON part.name = page.name
 WHERE page.aggregate = TRUE AND part.tbl_name GLOB 'holdfast_*'
 GROUP BY part.tbl_name;
