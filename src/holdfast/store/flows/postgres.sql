-- name: flow_to_move
-- Differs from SQLite: the row is locked until the end of the transaction.
SELECT id, namespace, controller, goal, owner, requester, current_step, state, wait, status, cancel_requested, revision,
       created_at, updated_at
  FROM holdfast.flow WHERE id = :flow_id FOR UPDATE;
