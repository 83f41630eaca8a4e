-- Budgets: what runs may spend, what they have spent, and what they have set aside. Amounts are millionths of a unit.

ALTER TABLE holdfast.run ADD COLUMN budgets TEXT COLLATE "C";  -- whose budgets it draws on, one per line
ALTER TABLE holdfast.run ADD COLUMN share TEXT COLLATE "C";    -- for whom it works: limits and fairness go by it

CREATE TABLE holdfast.budget (
    name TEXT COLLATE "C" PRIMARY KEY,
    run_id TEXT COLLATE "C",               -- the tree of runs that it belongs to; none when it is shared by its name
    on_breach TEXT COLLATE "C" NOT NULL,
    resets TEXT COLLATE "C",               -- an hour, a day, a month or so many microseconds
    zone TEXT COLLATE "C" NOT NULL,
    reset_at BIGINT,
    reset_count BIGINT NOT NULL DEFAULT 0,
    breaches BIGINT NOT NULL DEFAULT 0,
    soft_breaches BIGINT NOT NULL DEFAULT 0,
    breached_at BIGINT,
    breached TEXT COLLATE "C",             -- the dimension that was breached last
    created_at BIGINT NOT NULL
);
CREATE INDEX budget_run ON holdfast.budget (run_id) WHERE run_id IS NOT NULL;

-- One line per dimension. What a single run has spent is a line of its own, with no limit.
CREATE TABLE holdfast.allowance (
    budget TEXT COLLATE "C" NOT NULL,
    dimension TEXT COLLATE "C" NOT NULL,
    run_id TEXT COLLATE "C",
    hard BIGINT,
    soft BIGINT,
    used BIGINT NOT NULL DEFAULT 0,
    reserved BIGINT NOT NULL DEFAULT 0,
    reset_at BIGINT,
    PRIMARY KEY (budget, dimension)
);
CREATE INDEX allowance_run ON holdfast.allowance (run_id) WHERE run_id IS NOT NULL;

-- What is set aside before it is spent, by a step or by a block of a workflow.
CREATE TABLE holdfast.reservation (
    run_id TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    budget TEXT COLLATE "C" NOT NULL,
    dimension TEXT COLLATE "C" NOT NULL,
    amount BIGINT NOT NULL,
    lasting BIGINT NOT NULL,  -- it belongs to the run, not to whoever holds it
    at BIGINT NOT NULL,
    PRIMARY KEY (run_id, key, budget, dimension)
);
CREATE INDEX reservation_budget ON holdfast.reservation (budget, dimension);

-- Keys of what was counted already.
CREATE TABLE holdfast.receipt (
    budget TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL,
    run_id TEXT COLLATE "C",
    at BIGINT NOT NULL,
    PRIMARY KEY (budget, key)
);
CREATE INDEX receipt_run ON holdfast.receipt (run_id) WHERE run_id IS NOT NULL;
