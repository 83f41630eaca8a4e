-- name: a_flow_that_has_ended_waits_for_nothing
SELECT id FROM holdfast.flow WHERE status IN ('finished', 'failed', 'cancelled') AND (wait IS NOT NULL OR wake_at IS NOT NULL);

-- name: a_flow_waits_for_something_or_does_not_wait
SELECT id FROM holdfast.flow WHERE (status = 'waiting') <> (wait IS NOT NULL);

-- name: a_flow_tells_each_change_in_its_audit_trail
SELECT id FROM holdfast.flow AS flow
 WHERE revision <> (SELECT COUNT(*) - 1 FROM holdfast.flow_event AS event
                     WHERE event.flow_id = flow.id AND event.kind <> 'step_observed');

-- name: what_is_told_of_a_flow_belongs_to_it
SELECT flow_id FROM holdfast.flow_event AS event
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.flow AS flow WHERE flow.id = event.flow_id)
 UNION
SELECT flow_id FROM holdfast.flow_step AS step
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.flow AS flow WHERE flow.id = step.flow_id);
