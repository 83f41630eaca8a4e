-- Laws about budgets and reservations.

-- name: budget_amounts_are_not_negative
SELECT budget FROM holdfast.budget_line
 WHERE used < 0 OR reserved < 0 OR hard < 0 OR soft < 0;

-- name: the_reserved_amount_of_a_budget_is_the_sum_of_its_reservations
SELECT budget FROM holdfast.budget_line AS budget_line
 WHERE reserved <> (SELECT COALESCE(SUM(amount), 0) FROM holdfast.reservation AS reservation
                     WHERE reservation.budget = budget_line.budget AND reservation.dimension = budget_line.dimension);

-- name: a_reservation_belongs_to_a_run_that_has_not_ended
SELECT run_id FROM holdfast.reservation AS reservation
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = reservation.run_id AND run.finished_at IS NULL);

-- name: a_reservation_of_a_step_belongs_to_a_leased_run
SELECT run_id FROM holdfast.reservation AS reservation
 WHERE lasting = 0
   AND NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = reservation.run_id AND run.session_id IS NOT NULL);

-- name: a_tree_budget_has_used_at_most_the_sum_of_its_runs
SELECT budget_line.budget FROM holdfast.budget_line AS budget_line JOIN holdfast.budget AS budget ON budget.name = budget_line.budget
 WHERE budget.run_id IS NOT NULL AND budget.reset_count = 0
   AND budget_line.used > (SELECT COALESCE(SUM(own.used), 0)
                           FROM holdfast.run AS run JOIN holdfast.budget_line AS own
                             ON own.run_id = run.id AND own.budget = 'run:' || run.id
                          WHERE own.dimension = budget_line.dimension
                            AND (run.id = budget.run_id OR run.root_id = budget.run_id
                                 OR run.root_id = (SELECT top.root_id FROM holdfast.run AS top WHERE top.id = budget.run_id)));

-- name: a_budget_line_belongs_to_a_budget_or_a_run
SELECT budget FROM holdfast.budget_line AS budget_line
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.budget AS budget WHERE budget.name = budget_line.budget)
   AND (run_id IS NULL OR NOT EXISTS (SELECT 1 FROM holdfast.run AS run WHERE run.id = budget_line.run_id));

-- name: a_blocked_run_is_not_leased_and_not_claimable
SELECT id FROM holdfast.run WHERE status = 'blocked' AND (session_id IS NOT NULL OR rank IS NOT NULL);

-- name: a_budget_has_at_least_one_line
SELECT name FROM holdfast.budget AS budget
 WHERE NOT EXISTS (SELECT 1 FROM holdfast.budget_line AS budget_line WHERE budget_line.budget = budget.name);
