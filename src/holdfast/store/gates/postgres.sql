-- Gates: the queries that PostgreSQL needs in its own dialect.

-- name: entries_of_gates
-- Differs from SQLite: the list of gates is passed as an array.
SELECT gate_id, kind, person, at, lapsed, detail
  FROM holdfast.gate_entry
 WHERE gate_id = ANY(CAST(:ids AS TEXT[]))
 ORDER BY gate_id, number;
