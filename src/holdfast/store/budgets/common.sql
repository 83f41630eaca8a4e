-- Budgets: the queries that both dialects accept.

-- name: save_budget
INSERT INTO holdfast.budget (name, run_id, on_breach, resets, zone, reset_at, created_at)
VALUES (:name, :run_id, :on_breach, :resets, :zone, :reset_at, :created_at)
    ON CONFLICT (name) DO UPDATE
   SET on_breach = excluded.on_breach, resets = excluded.resets, zone = excluded.zone, reset_at = excluded.reset_at
 WHERE :replaces = 1;

-- name: save_budget_line
INSERT INTO holdfast.budget_line (budget, dimension, run_id, hard, soft, reset_at)
VALUES (:budget, :dimension, :run_id, :hard, :soft, :reset_at)
    ON CONFLICT (budget, dimension) DO UPDATE SET hard = excluded.hard, soft = excluded.soft, reset_at = excluded.reset_at;

-- name: insert_spend_key
INSERT INTO holdfast.spend_key (budget, key, run_id, at) VALUES (:budget, :key, :run_id, :at) ON CONFLICT DO NOTHING;

-- name: forget_spend_key
DELETE FROM holdfast.spend_key WHERE budget = :budget AND key = :key;

-- name: forget_spend_keys
DELETE FROM holdfast.spend_key WHERE budget = :budget AND at < :before;

-- name: count_breach
UPDATE holdfast.budget
   SET breaches = breaches + :hard, soft_breaches = soft_breaches + :soft, breached_at = :now, breached = :dimension
 WHERE name = :name;

-- name: reset_budget
UPDATE holdfast.budget
   SET reset_at = :reset_at, reset_count = reset_count + 1, last_reset_at = :now, breached_at = NULL, breached = NULL
 WHERE name = :name;

-- name: reset_budget_lines
UPDATE holdfast.budget_line SET used = 0, reset_at = :reset_at WHERE budget = :name;

-- name: save_line_resets
UPDATE holdfast.budget_line SET reset_at = :reset_at WHERE budget = :name;

-- name: add_used
UPDATE holdfast.budget_line SET used = used + :amount WHERE budget = :budget AND dimension = :dimension;

-- name: add_reserved
UPDATE holdfast.budget_line SET reserved = reserved + :amount WHERE budget = :budget AND dimension = :dimension;

-- name: save_reservation
INSERT INTO holdfast.reservation (run_id, key, budget, dimension, amount, lasting, at)
VALUES (:run_id, :key, :budget, :dimension, :amount, :lasting, :at)
    ON CONFLICT (run_id, key, budget, dimension) DO UPDATE SET amount = excluded.amount;

-- name: draw_reservation
UPDATE holdfast.reservation SET amount = amount + :amount
 WHERE run_id = :run_id AND key = :key AND budget = :budget AND dimension = :dimension;

-- name: reservation
SELECT budget, dimension, amount FROM holdfast.reservation WHERE run_id = :run_id AND key = :key ORDER BY budget, dimension;

-- name: delete_one_reservation
DELETE FROM holdfast.reservation WHERE run_id = :run_id AND key = :key;

-- name: reservations_of_run
SELECT run_id, key, budget, dimension, amount, lasting
  FROM holdfast.reservation
 WHERE run_id = :run_id
 ORDER BY budget, dimension;

-- name: reservations_of_session
-- The reservations of steps whose runs a session holds. A reservation of a workflow (lasting) stays
-- with its run.
SELECT run_id, reservation.key AS key, budget, dimension, amount
  FROM holdfast.reservation AS reservation JOIN holdfast.run AS run ON run.id = reservation.run_id
 WHERE run.session_id = :session_id AND lasting = 0
 ORDER BY budget, dimension;

-- name: blocked_runs
SELECT id, waits FROM holdfast.run WHERE status = 'blocked' ORDER BY id;

-- name: budget_to_remove
SELECT name FROM holdfast.budget WHERE name = :name;

-- name: live_runs_of_budget
-- The names of a run's budgets are the lines of a text.
SELECT id FROM holdfast.run
 WHERE finished_at IS NULL AND budgets IS NOT NULL
   AND REPLACE(:line_end || budgets || :line_end, :line, '') <> :line_end || budgets || :line_end
 ORDER BY id LIMIT :limit;

-- name: remove_budget
DELETE FROM holdfast.budget WHERE name = :name;

-- name: remove_lines_of_budget
DELETE FROM holdfast.budget_line WHERE budget = :budget;

-- name: remove_reservations_in_budget
DELETE FROM holdfast.reservation WHERE budget = :budget;

-- name: remove_keys_of_budget
DELETE FROM holdfast.spend_key WHERE budget = :budget;

-- name: budgets_of_run
SELECT id, budgets, created_at FROM holdfast.run WHERE id = :run_id;

-- name: budgets_after
SELECT name, run_id, on_breach, resets, zone, reset_at, reset_count, last_reset_at, breaches, soft_breaches, breached_at, breached, created_at
  FROM holdfast.budget
 WHERE name > :after
 ORDER BY name LIMIT :limit;

-- name: one_budget
SELECT name, run_id, on_breach, resets, zone, reset_at, reset_count, last_reset_at, breaches, soft_breaches, breached_at, breached, created_at
  FROM holdfast.budget
 WHERE name = :name;

-- name: lines_of_budget
SELECT budget, dimension, run_id, hard, soft, used, reserved, reset_at FROM holdfast.budget_line WHERE budget = :budget ORDER BY dimension;

-- name: spent_below
-- What a run and each run below it have spent.
SELECT run.id AS run_id, budget_line.dimension AS dimension, budget_line.used AS used
  FROM holdfast.run AS run JOIN holdfast.budget_line AS budget_line
    ON budget_line.run_id = run.id AND budget_line.budget = 'run:' || run.id
 WHERE run.id = :run_id OR run.root_id = :run_id
 ORDER BY run.id, budget_line.dimension;

-- name: reservations_in_budget
-- The reservations in a budget, oldest first.
SELECT run_id, key, dimension, amount, at FROM holdfast.reservation WHERE budget = :budget ORDER BY at, run_id, dimension;
