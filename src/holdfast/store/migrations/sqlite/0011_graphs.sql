-- Graphs: runs that depend on each other. A member that waits is a row here and nowhere else.

CREATE TABLE holdfast.graph (
    id TEXT PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    revision INTEGER NOT NULL,     -- grows with its structure
    members INTEGER NOT NULL,
    live INTEGER NOT NULL,         -- members that have not ended
    events INTEGER NOT NULL,       -- lines of its audit trail
    fingerprint TEXT NOT NULL,
    policy TEXT,      -- what its cancel reaches
    reason TEXT,
    summary BLOB,
    created_at INTEGER NOT NULL,
    finished_at INTEGER
) WITHOUT ROWID;
CREATE INDEX holdfast.graph_namespace ON holdfast.graph (namespace, id);
CREATE INDEX holdfast.graph_finished ON holdfast.graph (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE holdfast.graph_member (
    run_id TEXT PRIMARY KEY,
    graph_id TEXT NOT NULL,
    workflow TEXT NOT NULL,
    state TEXT NOT NULL,
    missing INTEGER NOT NULL,      -- groups that are not satisfied
    spec BLOB NOT NULL,
    input BLOB NOT NULL,         -- until its run has it
    started_at INTEGER,
    finished_at INTEGER,
    asked_at INTEGER,              -- when it was asked to stop
    note TEXT
) WITHOUT ROWID;
CREATE INDEX holdfast.graph_member_graph ON holdfast.graph_member (graph_id);

CREATE TABLE holdfast.graph_group (
    run_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    need INTEGER NOT NULL,
    total INTEGER NOT NULL,
    done INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    rest TEXT NOT NULL,
    state TEXT NOT NULL,
    PRIMARY KEY (run_id, number)
) WITHOUT ROWID;

CREATE TABLE holdfast.graph_edge (
    upstream TEXT NOT NULL,
    dependent TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (upstream, dependent)
) WITHOUT ROWID;
CREATE INDEX holdfast.graph_edge_dependent ON holdfast.graph_edge (dependent, number);

-- What a graph has not heard of yet: the ends of members, and cancels that are not through. Only added to and taken from, so that
-- whoever ends a run waits for nobody who is at work on its graph.
CREATE TABLE holdfast.graph_news (
    id INTEGER PRIMARY KEY,
    graph_id TEXT NOT NULL,
    run_id TEXT,
    status TEXT NOT NULL,
    at INTEGER NOT NULL
);
CREATE INDEX holdfast.graph_news_graph ON holdfast.graph_news (graph_id);

CREATE TABLE holdfast.graph_event (
    graph_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    member TEXT,
    data BLOB,
    at INTEGER NOT NULL,
    PRIMARY KEY (graph_id, seq)
) WITHOUT ROWID;
