-- Bulk operations.

-- name: insert_operation
INSERT INTO holdfast.operation (id, namespace, verb, status, arguments, filters, payload, asked_by, total, done, refused, part,
                                revision, created_at, updated_at, due_at, finished_at)
VALUES (:id, :namespace, :verb, :status, :arguments, :filters, :payload, :asked_by, :total, :done, :refused, :part,
        :revision, :created_at, :updated_at, :due_at, :finished_at)
    ON CONFLICT DO NOTHING;

-- name: insert_operation_part
INSERT INTO holdfast.operation_part (operation_id, number, chosen, done, begun, refused)
VALUES (:operation_id, :number, :chosen, :done, :begun, :refused);

-- name: operation
SELECT id, namespace, verb, status, arguments, filters, payload, asked_by, total, done, refused, part, revision, created_at,
       updated_at, due_at, finished_at
  FROM holdfast.operation WHERE id = :operation_id;

-- name: operation_to_change
SELECT id, namespace, verb, status, arguments, filters, payload, asked_by, total, done, refused, part, revision, created_at,
       updated_at, due_at, finished_at
  FROM holdfast.operation WHERE id = :operation_id;

-- name: operations
SELECT id, namespace, verb, status, arguments, filters, payload, asked_by, total, done, refused, part, revision, created_at,
       updated_at, due_at, finished_at
  FROM holdfast.operation
 WHERE (CAST(:namespace AS TEXT) IS NULL OR namespace = :namespace)
   AND (CAST(:status AS TEXT) IS NULL OR status = :status)
   AND (CAST(:before AS TEXT) IS NULL
        OR (created_at, id) < (SELECT created_at, id FROM holdfast.operation WHERE id = :before))
 ORDER BY created_at DESC, id DESC LIMIT :limit;

-- name: due_operations
SELECT id FROM holdfast.operation WHERE due_at <= :now ORDER BY due_at LIMIT :limit;

-- name: operation_part
SELECT operation_id, number, chosen, done, begun, refused
  FROM holdfast.operation_part WHERE operation_id = :operation_id AND number = :number;

-- name: operation_parts
SELECT operation_id, number, chosen, done, begun, refused
  FROM holdfast.operation_part WHERE operation_id = :operation_id AND number > :after ORDER BY number LIMIT :limit;

-- name: save_operation
UPDATE holdfast.operation
   SET status = :status, payload = :payload, done = :done, refused = :refused, part = :part, revision = :revision,
       updated_at = :updated_at, due_at = :due_at, finished_at = :finished_at
 WHERE id = :id;

-- name: save_operation_part
UPDATE holdfast.operation_part
   SET done = :done, begun = :begun, refused = :refused
 WHERE operation_id = :operation_id AND number = :number;

-- name: set_operation_aside
UPDATE holdfast.operation SET due_at = NULL WHERE id = :operation_id AND due_at IS NOT NULL;

-- name: old_operations
SELECT id FROM holdfast.operation WHERE finished_at < :before ORDER BY finished_at LIMIT :limit;

-- name: delete_operation
DELETE FROM holdfast.operation WHERE id = :operation_id;

-- name: delete_operation_parts
DELETE FROM holdfast.operation_part WHERE operation_id = :operation_id;

-- name: operations_to_seal
SELECT id, payload FROM holdfast.operation WHERE payload IS NOT NULL AND id > :after ORDER BY id LIMIT :limit;

-- name: reseal_operation
UPDATE holdfast.operation SET payload = :new WHERE id = :operation_id AND payload = :old;

-- name: open_graphs_of
-- The graph of a member run, unless it has ended.
SELECT graph.id
  FROM holdfast.graph_member AS member JOIN holdfast.graph AS graph ON graph.id = member.graph_id
 WHERE (member.run_id = :run_id OR member.joined = :run_id) AND graph.finished_at IS NULL;
