-- Large graphs are written, settled, started and deleted in portions, so that nobody holds the write lock for long.

-- Members that are written before their graph is, and what is left of graphs that were pruned: `id` is what these rows name as
-- their graph.
CREATE TABLE holdfast.graph_stage (
    id TEXT PRIMARY KEY,
    written INTEGER NOT NULL,        -- members so far
    due_at INTEGER NOT NULL,         -- when what is left of it is deleted
    discarded INTEGER NOT NULL  -- 1: it is being deleted
) WITHOUT ROWID;
CREATE INDEX holdfast.graph_stage_due ON holdfast.graph_stage (due_at);

-- Of an end with very many dependents: those up to this one are settled.
ALTER TABLE holdfast.graph_news ADD COLUMN place TEXT;
-- Members that wait for nothing more, until a portion of the next transaction starts them.
CREATE INDEX holdfast.graph_member_ready ON holdfast.graph_member (graph_id, run_id) WHERE state = 'waiting' AND missing = 0;
