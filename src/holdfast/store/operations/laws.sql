-- name: a_bulk_operation_that_has_ended_has_an_end_and_nothing_left_to_do
SELECT id FROM holdfast.operation
 WHERE (status = 'running') <> (finished_at IS NULL)
    OR (status = 'running') <> (due_at IS NOT NULL)
    OR (status <> 'running' AND payload IS NOT NULL)
    OR done + refused > total
    OR (status = 'completed' AND done + refused <> total)
    OR (status = 'running' AND done + refused = total);

-- name: a_part_of_a_bulk_operation_belongs_to_one
SELECT operation_id FROM holdfast.operation_part AS part
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.operation AS operation WHERE operation.id = part.operation_id);
