-- name: an_ended_flow_has_no_wait_and_no_wake_time
SELECT id FROM holdfast.flow WHERE status IN ('finished', 'failed', 'cancelled') AND (wait IS NOT NULL OR wake_at IS NOT NULL);

-- name: a_flow_has_a_wait_exactly_if_it_is_waiting
SELECT id FROM holdfast.flow WHERE (status = 'waiting') <> (wait IS NOT NULL);

-- name: the_revision_of_a_flow_matches_its_audit_trail
SELECT id FROM holdfast.flow AS flow
 WHERE revision <> (SELECT COUNT(*) - 1 FROM holdfast.flow_event AS event
                     WHERE event.flow_id = flow.id AND event.own = 0 AND event.kind <> 'step_observed');

-- name: only_a_waiting_flow_awaits_an_event
SELECT id FROM holdfast.flow WHERE awaits IS NOT NULL AND status <> 'waiting';

-- name: a_flow_event_or_step_belongs_to_a_flow
SELECT flow_id FROM holdfast.flow_event AS event
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.flow AS flow WHERE flow.id = event.flow_id)
 UNION
SELECT flow_id FROM holdfast.flow_step AS step
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.flow AS flow WHERE flow.id = step.flow_id);
