-- Bulk operations on PostgreSQL.

-- name: operation_to_change
-- Differs from SQLite: the row is locked.
SELECT id, namespace, verb, status, arguments, filters, payload, asked_by, total, done, refused, part, revision, created_at,
       updated_at, due_at, finished_at
  FROM holdfast.operation WHERE id = :operation_id FOR UPDATE;

-- name: parents_of_live
-- Differs from SQLite: lists are passed as arrays.
SELECT DISTINCT parent_id FROM holdfast.run
 WHERE parent_id = ANY(CAST(:ids AS TEXT[])) AND on_parent_end = 'cancel' AND finished_at IS NULL;
