-- Bulk operations on SQLite.

-- name: parents_of_live
-- Differs from Postgres: lists are passed as JSON.
SELECT DISTINCT parent_id FROM holdfast.run
 WHERE parent_id IN (SELECT value FROM json_each(:ids)) AND on_parent_end = 'cancel' AND finished_at IS NULL;
