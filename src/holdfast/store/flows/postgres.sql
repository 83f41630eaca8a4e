-- name: flow_to_move
-- Differs from SQLite: the row is locked until the end of the transaction.
SELECT id, namespace, controller, goal, owner, requester, current_step, state, wait, status, cancel_requested, revision,
       created_at, updated_at
  FROM holdfast.flow WHERE id = :flow_id FOR UPDATE;

-- name: append_flow_event
-- Differs from SQLite like `append_from_outside`.
INSERT INTO holdfast.flow_event (flow_id, seq, kind, payload, at, own, tx)
SELECT :flow_id, COALESCE((SELECT MAX(seq) FROM holdfast.flow_event WHERE flow_id = :flow_id), 0) + 1, :kind, :payload, :at, :own,
       GREATEST(pg_current_xact_id(),
                (SELECT tx FROM holdfast.flow_event AS last WHERE last.flow_id = :flow_id ORDER BY last.seq DESC LIMIT 1));
