-- Gates: decisions that are asked of people.

-- name: gate
SELECT id, run_id, step, status, prompt, terms, assignees, roles, data, hash, opened_at, deadline, reminded, reminded_at, escalated,
       closed_at, choice, reason
  FROM holdfast.gate AS gate
 WHERE id = :gate_id;

-- name: closed_gates
SELECT id, run_id, step, status, prompt, terms, assignees, roles, data, hash, opened_at, deadline, reminded, reminded_at, escalated,
       closed_at, choice, reason
  FROM holdfast.gate AS gate
 WHERE run_id = :run_id AND closed_revision > :revision;

-- name: open_gates
SELECT id, step, deadline FROM holdfast.gate WHERE run_id = :run_id AND closed_at IS NULL ORDER BY id;

-- name: open_gates_of_kind
SELECT gate_id FROM holdfast.gate_assignment WHERE kind = 'resolver' AND name = :name ORDER BY gate_id;

-- name: gate_entries
SELECT kind, person, at, lapsed, detail FROM holdfast.gate_entry WHERE gate_id = :gate_id ORDER BY number;

-- name: insert_gate
INSERT INTO holdfast.gate (id, run_id, step, status, prompt, terms, assignees, roles, data, hash, opened_at, deadline)
VALUES (:id, :run_id, :step, :status, :prompt, :terms, :assignees, :roles, :data, :hash, :opened_at, :deadline);

-- name: save_gate
UPDATE holdfast.gate
   SET assignees = :assignees, roles = :roles, data = :data, hash = :hash, reminded = :reminded, reminded_at = :reminded_at,
       escalated = :escalated
 WHERE id = :id AND closed_at IS NULL;

-- name: close_gate
-- Its run gets the next revision in the same transaction, and is locked until then.
UPDATE holdfast.gate AS gate
   SET status = :status, closed_at = :now, choice = :choice, reason = :reason,
       closed_revision = (SELECT revision + 1 FROM holdfast.run AS run WHERE run.id = gate.run_id)
 WHERE id = :gate_id AND closed_at IS NULL;

-- name: insert_gate_entry
INSERT INTO holdfast.gate_entry (gate_id, number, run_id, kind, person, at, detail)
SELECT CAST(:gate_id AS TEXT), COALESCE(MAX(number), 0) + 1, :run_id, :kind, :person, :at, :detail
  FROM holdfast.gate_entry
 WHERE gate_id = :gate_id;

-- name: lapse_decisions
UPDATE holdfast.gate_entry SET lapsed = 1 WHERE gate_id = :gate_id AND kind = 'decided';

-- name: insert_assignment
INSERT INTO holdfast.gate_assignment (kind, name, gate_id, run_id) VALUES (:kind, :name, :gate_id, :run_id);

-- name: delete_assignments
DELETE FROM holdfast.gate_assignment WHERE gate_id = :gate_id;

-- name: count_open_gates
SELECT route.namespace, COUNT(*) AS gates
  FROM holdfast.gate AS gate
  JOIN holdfast.run AS run ON run.id = gate.run_id
  JOIN holdfast.route AS route ON route.id = run.route_id
 WHERE gate.closed_at IS NULL
 GROUP BY route.namespace;
