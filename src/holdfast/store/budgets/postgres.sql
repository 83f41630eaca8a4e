-- Budgets: the queries that PostgreSQL needs in its own dialect. A writer locks the lines of
-- budgets before it decides about them, in the order of their names.

-- name: count_spending
-- Differs from SQLite: lists are passed as arrays, and the lines are locked in order.
INSERT INTO holdfast.budget_line AS budget_line (budget, dimension, run_id, used)
SELECT budget, dimension, run_id, amount
  FROM (SELECT ('run:' || CAST(:run_id AS TEXT)) COLLATE "C" AS budget, line.dimension, CAST(:run_id AS TEXT) AS run_id, line.amount
          FROM UNNEST(CAST(:dimensions AS TEXT[]), CAST(:amounts AS BIGINT[])) AS line (dimension, amount)
         UNION ALL
        SELECT known.budget, known.dimension, known.run_id, line.amount
          FROM UNNEST(CAST(:dimensions AS TEXT[]), CAST(:amounts AS BIGINT[])) AS line (dimension, amount)
          JOIN holdfast.budget_line AS known ON known.dimension = line.dimension
         WHERE known.budget = ANY(CAST(:budgets AS TEXT[]))) AS counted
 ORDER BY budget, dimension
    ON CONFLICT (budget, dimension) DO UPDATE SET used = budget_line.used + excluded.used
RETURNING budget, dimension, run_id, hard, soft, used, reserved, reset_at;

-- name: take_spending
-- Differs from SQLite: the run is locked, then the lines in order; the decision uses the values
-- after locking.
WITH leased AS (
    SELECT id FROM holdfast.run WHERE id = :run_id AND generation = :generation AND COALESCE(session_id, '') <> '' FOR NO KEY UPDATE
), line AS (
    SELECT dimension, amount
      FROM UNNEST(CAST(:dimensions AS TEXT[]), CAST(:amounts AS BIGINT[])) AS line (dimension, amount)
), known AS MATERIALIZED (
    SELECT known.budget, known.dimension, known.run_id, known.hard, known.used, known.reserved, known.reset_at
      FROM leased CROSS JOIN holdfast.budget_line AS known
     WHERE known.budget = ANY(CAST(:budgets AS TEXT[]))
     ORDER BY known.budget, known.dimension
       FOR NO KEY UPDATE OF known
), room AS (
    SELECT id FROM leased
     WHERE NOT EXISTS (SELECT 1 FROM known LEFT JOIN line ON line.dimension = known.dimension
                        WHERE known.reset_at <= :now OR known.used > known.hard
                           OR (line.amount > 0 AND known.used + known.reserved + line.amount > known.hard))
)
INSERT INTO holdfast.budget_line AS budget_line (budget, dimension, run_id, used)
SELECT budget, dimension, run_id, amount
  FROM (SELECT ('run:' || room.id) COLLATE "C" AS budget, line.dimension, room.id AS run_id, line.amount FROM room CROSS JOIN line
         UNION ALL
        SELECT known.budget, known.dimension, known.run_id, line.amount
          FROM room CROSS JOIN line JOIN known ON known.dimension = line.dimension) AS counted
 ORDER BY budget, dimension
    ON CONFLICT (budget, dimension) DO UPDATE SET used = budget_line.used + excluded.used
RETURNING budget, dimension, run_id, hard, soft, used, reserved, reset_at;

-- name: spend_guarded_many
-- Records steps of many runs together with their spending, in one statement: each step is recorded
-- and counted, or neither. Returns the runs that were written. The other runs lost their leases, or
-- one of their budgets has no room for all that this statement asks of it, or is due for a reset:
-- the caller decides about them one by one.
WITH leased AS MATERIALIZED (
    SELECT run.id
      FROM UNNEST(CAST(:run_id AS TEXT[]), CAST(:generation AS BIGINT[])) AS wanted (id, generation)
      JOIN holdfast.run AS run ON run.id = wanted.id AND run.generation = wanted.generation
     WHERE COALESCE(run.session_id, '') <> ''
     ORDER BY run.id
       FOR NO KEY UPDATE OF run
), paid AS MATERIALIZED (
    SELECT run_id, dimension, amount
      FROM UNNEST(CAST(:paid_run_id AS TEXT[]), CAST(:paid_dimension AS TEXT[]), CAST(:paid_amount AS BIGINT[]))
        AS paid (run_id, dimension, amount)
), source AS MATERIALIZED (
    SELECT run_id, budget
      FROM UNNEST(CAST(:source_run_id AS TEXT[]), CAST(:source_budget AS TEXT[])) AS source (run_id, budget)
), known AS MATERIALIZED (
    SELECT known.budget, known.dimension, known.run_id, known.hard, known.used, known.reserved, known.reset_at
      FROM holdfast.budget_line AS known
     WHERE known.budget = ANY(CAST(:source_budget AS TEXT[])) AND EXISTS (SELECT 1 FROM leased)
     ORDER BY known.budget, known.dimension
       FOR NO KEY UPDATE OF known
), asked AS (
    SELECT source.budget, paid.dimension, SUM(paid.amount) AS amount
      FROM source JOIN paid ON paid.run_id = source.run_id
     GROUP BY source.budget, paid.dimension
), short AS MATERIALIZED (
    SELECT known.budget
      FROM known LEFT JOIN asked ON asked.budget = known.budget AND asked.dimension = known.dimension
     WHERE known.reset_at <= :now OR known.used > known.hard
        OR (asked.amount > 0 AND known.used + known.reserved + asked.amount > known.hard)
), passed AS MATERIALIZED (
    SELECT id FROM leased
     WHERE id NOT IN (SELECT source.run_id FROM source WHERE source.budget IN (SELECT budget FROM short))
), added AS MATERIALIZED (
    SELECT budget, dimension, run_id, CAST(SUM(amount) AS BIGINT) AS amount
      FROM (SELECT ('run:' || passed.id) COLLATE "C" AS budget, paid.dimension, passed.id AS run_id, paid.amount
              FROM passed JOIN paid ON paid.run_id = passed.id
             UNION ALL
            SELECT known.budget, known.dimension, known.run_id, paid.amount
              FROM passed JOIN source ON source.run_id = passed.id JOIN paid ON paid.run_id = passed.id
              JOIN known ON known.budget = source.budget AND known.dimension = paid.dimension) AS line
     GROUP BY budget, dimension, run_id
), counted AS (
    INSERT INTO holdfast.budget_line AS budget_line (budget, dimension, run_id, used)
    SELECT budget, dimension, run_id, amount FROM added ORDER BY budget, dimension
        ON CONFLICT (budget, dimension) DO UPDATE SET used = budget_line.used + excluded.used
    RETURNING budget, dimension, soft, used
), noted AS (
    UPDATE holdfast.budget AS budget
       SET soft_breaches = soft_breaches + crossed.lines, breached_at = :now, breached = crossed.dimension
      FROM (SELECT counted.budget, COUNT(*) AS lines, MAX(counted.dimension) AS dimension
              FROM counted JOIN added ON added.budget = counted.budget AND added.dimension = counted.dimension
             WHERE counted.used > counted.soft AND counted.soft >= counted.used - added.amount
             GROUP BY counted.budget) AS crossed
     WHERE budget.name = crossed.budget
), written AS (
    INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
    SELECT line.run_id, line.seq, line.kind, line.step, line.attempt, line.data, line.error, line.started_at, line.at, line.role
      FROM UNNEST(CAST(:line_run_id AS TEXT[]), CAST(:line_seq AS BIGINT[]), CAST(:line_kind AS TEXT[]),
                  CAST(:line_step AS TEXT[]), CAST(:line_attempt AS BIGINT[]), CAST(:line_data AS BYTEA[]),
                  CAST(:line_error AS BYTEA[]), CAST(:line_started_at AS BIGINT[]), CAST(:line_at AS BIGINT[]),
                  CAST(:line_role AS TEXT[]))
        AS line (run_id, seq, kind, step, attempt, data, error, started_at, at, role)
      JOIN passed ON passed.id = line.run_id
)
SELECT id FROM passed;

-- name: lock_budget_lines
-- Differs from SQLite: the lines are locked.
SELECT budget, dimension, run_id, hard, soft, used, reserved, reset_at
  FROM holdfast.budget_line
 WHERE budget = ANY(CAST(:budgets AS TEXT[]))
 ORDER BY budget, dimension
   FOR NO KEY UPDATE;

-- name: budget_lines
-- Differs from SQLite: lists are passed as arrays.
SELECT budget, dimension, run_id, hard, soft, used, reserved, reset_at
  FROM holdfast.budget_line
 WHERE budget = ANY(CAST(:budgets AS TEXT[]))
 ORDER BY budget, dimension;

-- name: budgets_named
-- Differs from SQLite: lists are passed as arrays.
SELECT name, run_id, on_breach, resets, zone, reset_at, reset_count, last_reset_at, breaches, soft_breaches, breached_at, breached, created_at
  FROM holdfast.budget
 WHERE name = ANY(CAST(:names AS TEXT[]))
 ORDER BY name;

-- name: budget_to_remove
-- Differs from SQLite: the row is locked, and waits for the starts that use the budget.
SELECT name FROM holdfast.budget WHERE name = :name FOR UPDATE;

-- name: budgets_to_use
-- Differs from SQLite: lists are passed as arrays. The rows are locked, so that no budget is removed
-- while runs that name it are being started.
SELECT name FROM holdfast.budget WHERE name = ANY(CAST(:names AS TEXT[])) ORDER BY name FOR KEY SHARE;
