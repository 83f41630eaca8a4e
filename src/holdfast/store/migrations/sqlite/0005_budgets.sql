-- Budgets: what runs may spend, what they have spent, and what they have set aside. Amounts are millionths of a unit.

ALTER TABLE holdfast.run ADD COLUMN budgets TEXT;  -- whose budgets it draws on, one per line
ALTER TABLE holdfast.run ADD COLUMN share TEXT;    -- for whom it works: limits and fairness go by it

CREATE TABLE holdfast.budget (
    name TEXT PRIMARY KEY,
    run_id TEXT,               -- the tree of runs that it belongs to; none when it is shared by its name
    on_breach TEXT NOT NULL,
    resets TEXT,               -- an hour, a day, a month or so many microseconds
    zone TEXT NOT NULL,
    reset_at INTEGER,
    reset_count INTEGER NOT NULL DEFAULT 0,
    breaches INTEGER NOT NULL DEFAULT 0,
    soft_breaches INTEGER NOT NULL DEFAULT 0,
    breached_at INTEGER,
    breached TEXT,             -- the dimension that was breached last
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX holdfast.budget_run ON holdfast.budget (run_id) WHERE run_id IS NOT NULL;

-- One line per dimension. What a single run has spent is a line of its own, with no limit.
CREATE TABLE holdfast.allowance (
    budget TEXT NOT NULL,
    dimension TEXT NOT NULL,
    run_id TEXT,
    hard INTEGER,
    soft INTEGER,
    used INTEGER NOT NULL DEFAULT 0,
    reserved INTEGER NOT NULL DEFAULT 0,
    reset_at INTEGER,
    PRIMARY KEY (budget, dimension)
) WITHOUT ROWID;
CREATE INDEX holdfast.allowance_run ON holdfast.allowance (run_id) WHERE run_id IS NOT NULL;

-- What is set aside before it is spent, by a step or by a block of a workflow.
CREATE TABLE holdfast.reservation (
    run_id TEXT NOT NULL,
    key TEXT NOT NULL,
    budget TEXT NOT NULL,
    dimension TEXT NOT NULL,
    amount INTEGER NOT NULL,
    lasting INTEGER NOT NULL,  -- it belongs to the run, not to whoever holds it
    at INTEGER NOT NULL,
    PRIMARY KEY (run_id, key, budget, dimension)
) WITHOUT ROWID;
CREATE INDEX holdfast.reservation_budget ON holdfast.reservation (budget, dimension);

-- Keys of what was counted already.
CREATE TABLE holdfast.receipt (
    budget TEXT NOT NULL,
    key TEXT NOT NULL,
    run_id TEXT,
    at INTEGER NOT NULL,
    PRIMARY KEY (budget, key)
) WITHOUT ROWID;
CREATE INDEX holdfast.receipt_run ON holdfast.receipt (run_id) WHERE run_id IS NOT NULL;
