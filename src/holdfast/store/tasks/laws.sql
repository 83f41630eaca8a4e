-- Laws about runs that are leased explicitly, as to remote workers.

-- name: a_task_belongs_to_a_run
SELECT run_id FROM holdfast.task AS task
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = task.run_id);

-- name: a_task_with_an_attempt_deadline_has_a_generation
SELECT run_id FROM holdfast.task WHERE attempt_until IS NOT NULL AND generation IS NULL;
