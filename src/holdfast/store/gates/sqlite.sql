-- Gates: the queries that SQLite needs in its own dialect.

-- name: entries_of_gates
-- Differs from Postgres: the list of gates is passed as JSON.
SELECT entry.gate_id, entry.kind, entry.person, entry.at, entry.lapsed, entry.detail
  FROM json_each(:ids) AS wanted JOIN holdfast.gate_entry AS entry ON entry.gate_id = wanted.value
 ORDER BY entry.gate_id, entry.number;

-- name: gates_of_ids
-- Differs from Postgres: the list of gates is passed as JSON.
SELECT gate.id, run_id, step, status, prompt, terms, assignees, roles, data, hash, opened_at, deadline, reminded, reminded_at,
       escalated, closed_at, choice, reason
  FROM json_each(:ids) AS wanted JOIN holdfast.gate AS gate ON gate.id = wanted.value;
