-- Managed flows.

-- name: insert_flow
INSERT INTO holdfast.flow (id, namespace, controller, goal, owner, requester, current_step, state, wait, wake_at, awaits, status,
                           cancel_requested, revision, created_at, updated_at)
VALUES (:id, :namespace, :controller, :goal, :owner, :requester, :current_step, :state, :wait, :wake_at, :awaits, :status,
        :cancel_requested, :revision, :created_at, :updated_at)
    ON CONFLICT DO NOTHING;

-- name: flow
SELECT id, namespace, controller, goal, owner, requester, current_step, state, wait, status, cancel_requested, revision,
       created_at, updated_at
  FROM holdfast.flow WHERE id = :flow_id;

-- name: flow_to_move
SELECT id, namespace, controller, goal, owner, requester, current_step, state, wait, status, cancel_requested, revision,
       created_at, updated_at
  FROM holdfast.flow WHERE id = :flow_id;

-- name: move_flow
UPDATE holdfast.flow
   SET controller = :controller, goal = :goal, owner = :owner, requester = :requester, current_step = :current_step,
       state = :state, wait = :wait, wake_at = :wake_at, awaits = :awaits, status = :status,
       cancel_requested = :cancel_requested, revision = :revision, updated_at = :updated_at
 WHERE id = :flow_id;

-- name: append_flow_event
INSERT INTO holdfast.flow_event (flow_id, seq, kind, payload, at, own)
SELECT :flow_id, COALESCE((SELECT MAX(seq) FROM holdfast.flow_event WHERE flow_id = :flow_id), 0) + 1, :kind, :payload, :at, :own;

-- name: observe_flow_step
INSERT INTO holdfast.flow_step AS flow_step (flow_id, run_id, task, status, runtime, child_session, result, created_at, updated_at)
VALUES (:flow_id, :run_id, :task, :status, :runtime, :child_session, :result, :now, :now)
    ON CONFLICT (flow_id, run_id) DO UPDATE
   SET task = excluded.task, status = excluded.status, result = excluded.result, updated_at = excluded.updated_at,
       child_session = COALESCE(excluded.child_session, flow_step.child_session);

-- name: flow_step
SELECT flow_id, run_id, task, status, runtime, child_session, result, created_at, updated_at
  FROM holdfast.flow_step WHERE flow_id = :flow_id AND run_id = :run_id;

-- name: flow_steps
SELECT flow_id, run_id, task, status, runtime, child_session, result, created_at, updated_at
  FROM holdfast.flow_step WHERE flow_id = :flow_id ORDER BY created_at, run_id;

-- name: flow_steps_of_run
SELECT step.flow_id, step.run_id, step.task, step.status, step.runtime, step.child_session, step.result, step.created_at,
       step.updated_at
  FROM holdfast.flow_step AS step JOIN holdfast.flow AS flow ON flow.id = step.flow_id
 WHERE step.run_id = :run_id AND flow.namespace = :namespace AND (flow.owner = :owner OR CAST(:owner AS TEXT) = '')
 ORDER BY step.created_at, step.flow_id;

-- name: flow_events
SELECT flow_id, seq, kind, payload, at, own FROM holdfast.flow_event WHERE flow_id = :flow_id ORDER BY seq DESC LIMIT :limit;

-- name: flows_of_owner
SELECT id, namespace, controller, goal, owner, requester, current_step, state, wait, status, cancel_requested, revision,
       created_at, updated_at
  FROM holdfast.flow
 WHERE namespace = :namespace AND owner = :owner
   AND (CAST(:before AS TEXT) = '' OR (created_at, id) < (SELECT created_at, id FROM holdfast.flow WHERE id = :before))
 ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: flows_of_status
SELECT id, namespace, controller, goal, owner, requester, current_step, state, wait, status, cancel_requested, revision,
       created_at, updated_at
  FROM holdfast.flow
 WHERE status = :status AND namespace = :namespace AND (owner = :owner OR CAST(:owner AS TEXT) = '')
   AND (CAST(:before AS TEXT) = '' OR (updated_at, id) > (SELECT updated_at, id FROM holdfast.flow WHERE id = :before))
 ORDER BY updated_at, id LIMIT :limit;

-- name: newest_flows
SELECT id, namespace, controller, goal, owner, requester, current_step, state, wait, status, cancel_requested, revision,
       created_at, updated_at
  FROM holdfast.flow
 WHERE namespace = :namespace
   AND (CAST(:before AS TEXT) = '' OR (updated_at, id) < (SELECT updated_at, id FROM holdfast.flow WHERE id = :before))
 ORDER BY updated_at DESC, id DESC LIMIT :limit;

-- name: due_flows
SELECT id
  FROM holdfast.flow
 WHERE wake_at <= :now AND (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace)
 ORDER BY wake_at LIMIT :limit;

-- name: flows_awaiting
SELECT id FROM holdfast.flow WHERE awaits = :awaits AND namespace = :namespace AND cancel_requested = 0 ORDER BY id LIMIT :limit;

-- name: next_flow
SELECT MIN(wake_at) AS wake_at FROM holdfast.flow WHERE wake_at IS NOT NULL;

-- name: old_flows
SELECT id FROM holdfast.flow
 WHERE status IN ('finished', 'failed', 'cancelled') AND updated_at < :before AND namespace = :namespace
 ORDER BY id LIMIT :limit;

-- name: delete_flow
DELETE FROM holdfast.flow WHERE id = :flow_id;

-- name: delete_flow_steps
DELETE FROM holdfast.flow_step WHERE flow_id = :flow_id;

-- name: delete_flow_events
DELETE FROM holdfast.flow_event WHERE flow_id = :flow_id;

-- name: set_flow_aside
UPDATE holdfast.flow SET wake_at = NULL WHERE id = :id AND wake_at IS NOT NULL;
