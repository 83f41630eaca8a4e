-- Budgets: the queries that SQLite needs in its own dialect.

-- name: count_spending
-- Differs from Postgres: lists are passed as JSON. The account of the run is created at its first
-- use; of the budgets, those with the dimension are counted.
INSERT INTO holdfast.budget_line AS budget_line (budget, dimension, run_id, used)
SELECT 'run:' || CAST(:run_id AS TEXT), name.value, :run_id, amount.value
  FROM json_each(:dimensions) AS name JOIN json_each(:amounts) AS amount ON amount.key = name.key
 UNION ALL
SELECT known.budget, known.dimension, known.run_id, amount.value
  FROM json_each(:budgets) AS wanted
  JOIN json_each(:dimensions) AS name
  JOIN json_each(:amounts) AS amount ON amount.key = name.key
  JOIN holdfast.budget_line AS known ON known.budget = wanted.value AND known.dimension = name.value
 WHERE 1 = 1
    ON CONFLICT (budget, dimension) DO UPDATE SET used = budget_line.used + excluded.used
RETURNING budget, dimension, run_id, hard, soft, used, reserved, reset_at;

-- name: take_spending
-- `count_spending`, all or nothing: only while the run is held, no limit is or would be exceeded,
-- and no reset is due.
WITH line (dimension, amount) AS (
    SELECT name.value, amount.value FROM json_each(:dimensions) AS name JOIN json_each(:amounts) AS amount ON amount.key = name.key
), known AS (
    SELECT known.budget, known.dimension, known.run_id, known.hard, known.used, known.reserved, known.reset_at
      FROM json_each(:budgets) AS wanted JOIN holdfast.budget_line AS known ON known.budget = wanted.value
), room AS (
    SELECT id FROM holdfast.run
     WHERE id = :run_id AND generation = :generation AND session_id IS NOT NULL
       AND NOT EXISTS (SELECT 1 FROM known LEFT JOIN line ON line.dimension = known.dimension
                        WHERE known.reset_at <= :now OR known.used > known.hard
                           OR (line.amount > 0 AND known.used + known.reserved + line.amount > known.hard))
)
INSERT INTO holdfast.budget_line AS budget_line (budget, dimension, run_id, used)
SELECT 'run:' || room.id, line.dimension, room.id, line.amount FROM room JOIN line
 UNION ALL
SELECT known.budget, known.dimension, known.run_id, line.amount
  FROM room JOIN line JOIN known ON known.dimension = line.dimension
 WHERE 1 = 1
    ON CONFLICT (budget, dimension) DO UPDATE SET used = budget_line.used + excluded.used
RETURNING budget, dimension, run_id, hard, soft, used, reserved, reset_at;

-- name: lock_budget_lines
-- Differs from Postgres: no row locks, and lists are passed as JSON.
SELECT budget, dimension, run_id, hard, soft, used, reserved, reset_at
  FROM holdfast.budget_line
 WHERE budget IN (SELECT value FROM json_each(:budgets))
 ORDER BY budget, dimension;

-- name: budget_lines
-- Differs from Postgres: lists are passed as JSON.
SELECT budget, dimension, run_id, hard, soft, used, reserved, reset_at
  FROM holdfast.budget_line
 WHERE budget IN (SELECT value FROM json_each(:budgets))
 ORDER BY budget, dimension;

-- name: budgets_named
-- Differs from Postgres: lists are passed as JSON.
SELECT name, run_id, on_breach, resets, zone, reset_at, reset_count, last_reset_at, breaches, soft_breaches, breached_at, breached, created_at
  FROM holdfast.budget
 WHERE name IN (SELECT value FROM json_each(:names))
 ORDER BY name;

-- name: budgets_to_use
-- Differs from Postgres: no row locks, and lists are passed as JSON.
SELECT name FROM holdfast.budget WHERE name IN (SELECT value FROM json_each(:names)) ORDER BY name;
