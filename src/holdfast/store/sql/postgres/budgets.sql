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

-- name: take_spending
-- Differs from SQLite: the run is locked, then the lines in order; what is decided is decided by what they say once locked.
WITH leased AS (
    SELECT id FROM holdfast.run WHERE id = :run_id AND generation = :generation AND session_id IS NOT NULL FOR NO KEY UPDATE
), line AS (
    SELECT dimension, amount
      FROM UNNEST(CAST(:dimensions AS TEXT[]), CAST(:amounts AS BIGINT[])) AS line (dimension, amount)
), known AS MATERIALIZED (
    SELECT known.budget, known.dimension, known.run_id, known.hard, known.used, known.reserved, known.reset_at
      FROM leased CROSS JOIN holdfast.allowance AS known
     WHERE known.budget = ANY(CAST(:budgets AS TEXT[]))
     ORDER BY known.budget, known.dimension
       FOR NO KEY UPDATE OF known
), room AS (
    SELECT id FROM leased
     WHERE NOT EXISTS (SELECT 1 FROM known LEFT JOIN line ON line.dimension = known.dimension
                        WHERE known.reset_at <= :now OR known.used > known.hard
                           OR (line.amount > 0 AND known.used + known.reserved + line.amount > known.hard))
)
INSERT INTO holdfast.allowance AS allowance (budget, dimension, run_id, used)
SELECT budget, dimension, run_id, amount
  FROM (SELECT ('run:' || room.id) COLLATE "C" AS budget, line.dimension, room.id AS run_id, line.amount FROM room CROSS JOIN line
         UNION ALL
        SELECT known.budget, known.dimension, known.run_id, line.amount
          FROM room CROSS JOIN line JOIN known ON known.dimension = line.dimension) AS counted
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
