-- Laws about gates.

-- name: a_gate_belongs_to_a_run
SELECT id FROM holdfast.gate AS gate WHERE NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = gate.run_id);

-- name: an_open_gate_belongs_to_a_run_that_has_not_ended
SELECT gate.id FROM holdfast.gate AS gate JOIN holdfast.run AS run ON run.id = gate.run_id
 WHERE gate.closed_at IS NULL AND run.finished_at IS NOT NULL;

-- name: a_gate_has_a_closing_time_exactly_if_it_is_closed
SELECT id FROM holdfast.gate WHERE (status = 'open') <> (closed_at IS NULL);

-- name: a_decided_gate_has_a_choice
SELECT id FROM holdfast.gate WHERE status IN ('approved', 'rejected') AND choice IS NULL;

-- name: an_open_gate_has_assignments_and_a_closed_gate_has_none
SELECT id FROM holdfast.gate AS gate
 WHERE (closed_at IS NULL) <> EXISTS (SELECT 1 FROM holdfast.gate_assignment AS assignment
                                       WHERE assignment.gate_id = gate.id AND assignment.kind <> 'excluded');

-- name: a_person_decides_a_gate_once
SELECT gate_id FROM holdfast.gate_entry WHERE kind = 'decided' AND lapsed = 0 GROUP BY gate_id, person HAVING COUNT(*) > 1;

-- name: a_gate_entry_belongs_to_a_gate
SELECT DISTINCT gate_id FROM holdfast.gate_entry AS entry
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.gate AS gate WHERE gate.id = entry.gate_id AND gate.run_id = entry.run_id);

-- name: the_history_of_a_run_records_the_opening_of_its_gates
SELECT id FROM holdfast.gate AS gate
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.event AS event
                    WHERE event.run_id = gate.run_id AND event.step = gate.step AND event.kind = 'gate_opened');

-- name: a_gate_assignment_belongs_to_a_gate
SELECT DISTINCT gate_id FROM holdfast.gate_assignment AS assignment
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.gate AS gate WHERE gate.id = assignment.gate_id AND gate.run_id = assignment.run_id);
