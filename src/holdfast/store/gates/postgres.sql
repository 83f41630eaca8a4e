-- Gates: the queries that PostgreSQL needs in its own dialect.

-- name: entries_of_gates
-- Differs from SQLite: the list of gates is passed as an array.
SELECT gate_id, kind, person, at, lapsed, detail
  FROM holdfast.gate_entry
 WHERE gate_id = ANY(CAST(:ids AS TEXT[]))
 ORDER BY gate_id, number;

-- name: gates_of_ids
-- Differs from SQLite: the list of gates is passed as an array.
SELECT gate.id, run_id, step, status, prompt, terms, assignees, roles, data, hash, opened_at, deadline, reminded, reminded_at,
       escalated, closed_at, choice, reason
  FROM holdfast.gate AS gate
 WHERE gate.id = ANY(CAST(:ids AS TEXT[]));
