-- Laws about budgets and reservations.

-- name: nobody_has_spent_or_set_aside_less_than_nothing
SELECT budget FROM holdfast.budget_line
 WHERE used < 0 OR reserved < 0 OR hard < 0 OR soft < 0;

-- name: what_is_set_aside_in_a_budget_is_what_runs_have_set_aside
SELECT budget FROM holdfast.budget_line AS budget_line
 WHERE reserved <> (SELECT COALESCE(SUM(amount), 0) FROM holdfast.reservation AS reservation
                     WHERE reservation.budget = budget_line.budget AND reservation.dimension = budget_line.dimension);

-- name: only_a_run_that_lives_has_something_set_aside
SELECT run_id FROM holdfast.reservation AS reservation
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = reservation.run_id AND run.finished_at IS NULL);

-- name: what_a_step_has_set_aside_belongs_to_a_run_that_is_held
SELECT run_id FROM holdfast.reservation AS reservation
 WHERE lasting = 0
   AND NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = reservation.run_id AND run.session_id IS NOT NULL);

-- name: a_budget_of_a_tree_has_spent_what_its_runs_have_spent_or_less
SELECT budget_line.budget FROM holdfast.budget_line AS budget_line JOIN holdfast.budget AS budget ON budget.name = budget_line.budget
 WHERE budget.run_id IS NOT NULL AND budget.reset_count = 0
   AND budget_line.used > (SELECT COALESCE(SUM(own.used), 0)
                           FROM holdfast.run AS run JOIN holdfast.budget_line AS own
                             ON own.run_id = run.id AND own.budget = 'run:' || run.id
                          WHERE own.dimension = budget_line.dimension
                            AND (run.id = budget.run_id OR run.root_id = budget.run_id
                                 OR run.root_id = (SELECT top.root_id FROM holdfast.run AS top WHERE top.id = budget.run_id)));

-- name: a_limit_belongs_to_a_budget_and_an_account_to_a_run
SELECT budget FROM holdfast.budget_line AS budget_line
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.budget AS budget WHERE budget.name = budget_line.budget)
   AND (run_id IS NULL OR NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = budget_line.run_id));

-- name: a_run_that_is_blocked_is_held_by_nobody_and_cannot_be_claimed
SELECT id FROM holdfast.run WHERE status = 'blocked' AND (session_id IS NOT NULL OR rank IS NOT NULL);

-- name: a_budget_has_a_limit
SELECT name FROM holdfast.budget AS budget
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.budget_line AS budget_line WHERE budget_line.budget = budget.name);
