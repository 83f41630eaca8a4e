-- Budgets, where PostgreSQL says it in its own way: whoever decides about a line locks it first, in the order of the names.

-- name: count_spending
-- Differs from SQLite: lists travel as arrays, and the lines are locked in order.
INSERT INTO holdfast.allowance AS allowance (budget, dimension, run_id, used)
SELECT budget, dimension, run_id, amount
  FROM (SELECT ('run:' || CAST(:run_id AS TEXT)) COLLATE "C" AS budget, line.dimension, CAST(:run_id AS TEXT) AS run_id, line.amount
          FROM UNNEST(CAST(:dimensions AS TEXT[]), CAST(:amounts AS BIGINT[])) AS line (dimension, amount)
         UNION ALL
        SELECT known.budget, known.dimension, known.run_id, line.amount
          FROM UNNEST(CAST(:dimensions AS TEXT[]), CAST(:amounts AS BIGINT[])) AS line (dimension, amount)
          JOIN holdfast.allowance AS known ON known.dimension = line.dimension
         WHERE known.budget = ANY(CAST(:budgets AS TEXT[]))) AS counted
 ORDER BY budget, dimension
    ON CONFLICT (budget, dimension) DO UPDATE SET used = allowance.used + excluded.used
RETURNING budget, dimension, run_id, hard, soft, used, reserved, reset_at;

-- name: lock_allowances
-- Differs from SQLite: the lines are locked.
SELECT budget, dimension, run_id, hard, soft, used, reserved, reset_at
  FROM holdfast.allowance
 WHERE budget = ANY(CAST(:budgets AS TEXT[]))
 ORDER BY budget, dimension
   FOR NO KEY UPDATE;

-- name: allowances
-- Differs from SQLite: lists travel as arrays.
SELECT budget, dimension, run_id, hard, soft, used, reserved, reset_at
  FROM holdfast.allowance
 WHERE budget = ANY(CAST(:budgets AS TEXT[]))
 ORDER BY budget, dimension;

-- name: budgets_named
-- Differs from SQLite: lists travel as arrays.
SELECT name, run_id, on_breach, resets, zone, reset_at, reset_count, breaches, soft_breaches, breached_at, breached, created_at
  FROM holdfast.budget
 WHERE name = ANY(CAST(:names AS TEXT[]))
 ORDER BY name;
