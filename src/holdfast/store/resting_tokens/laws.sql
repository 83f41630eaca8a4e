-- Laws about tokens at rest.

-- name: a_resting_token_belongs_to_a_run_that_has_not_ended
SELECT DISTINCT run_id FROM holdfast.resting_token AS token
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = token.run_id AND run.finished_at IS NULL);
