-- The schema of a SQLite database. Times are microseconds since 1970; amounts of budgets are
-- millionths of a unit.

CREATE TABLE holdfast.setting (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- The workflow, version, lane and capabilities that a worker must offer to serve a run. Runs point
-- here, so that a claim never reads runs that its worker cannot serve.
CREATE TABLE holdfast.route (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    workflow TEXT NOT NULL,
    version TEXT NOT NULL,
    lane TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    UNIQUE (namespace, workflow, version, lane, capabilities)
);

CREATE TABLE holdfast.run (
    id TEXT PRIMARY KEY,
    route_id INTEGER NOT NULL,
    status TEXT NOT NULL,
    priority INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    revision INTEGER NOT NULL DEFAULT 0,  -- grows when something reaches the run from outside
    seen_revision INTEGER,  -- the revision that its holder had seen when it parked
    session_id TEXT,
    rank INTEGER,  -- set if the run is claimable; the smallest goes first
    wake_at INTEGER,  -- when the run becomes claimable
    deadline INTEGER,
    input BLOB NOT NULL,
    result BLOB,
    error BLOB,
    waits BLOB,  -- what the run is parked on
    key TEXT,
    parent_id TEXT,
    parent_step TEXT,
    parent_index INTEGER,
    on_parent_end TEXT,
    root_id TEXT,
    forked_from TEXT,
    cancel_reason TEXT,
    crashes INTEGER NOT NULL DEFAULT 0,
    crash_seq INTEGER,  -- the last event at the last crash: without a newer one, no progress
    created_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    budgets TEXT,  -- the budgets that it spends from, one per line
    share TEXT,  -- the share of a lane's limits and of its fair queue
    cancelled_at INTEGER,  -- when the cancellation was requested
    cancelled_by TEXT,  -- the person or program that requested it
    graph_id TEXT,  -- the graph that it is a member of
    schedule TEXT,  -- the schedule that started it
    tick_at INTEGER,  -- the instant for which the schedule started it
    cancel_cause TEXT,  -- who or what asked it to stop
    stuck_cause TEXT,
    ended_revision INTEGER  -- that its parent has because it ended
) WITHOUT ROWID;

-- Partial indexes over live runs, so that finished runs cost live ones nothing.
CREATE INDEX holdfast.run_ready ON holdfast.run (route_id, rank)
    WHERE rank IS NOT NULL AND crashes < 2;
CREATE INDEX holdfast.run_suspect ON holdfast.run (route_id, rank)
    WHERE rank IS NOT NULL AND crashes >= 2;
CREATE INDEX holdfast.run_wake ON holdfast.run (wake_at)
    WHERE wake_at IS NOT NULL AND session_id IS NULL;
CREATE INDEX holdfast.run_held ON holdfast.run (session_id, created_at) WHERE session_id IS NOT NULL;
CREATE INDEX holdfast.run_deadline ON holdfast.run (deadline)
    WHERE deadline IS NOT NULL AND finished_at IS NULL AND session_id IS NULL
      AND status <> 'cancelling';
CREATE INDEX holdfast.run_child ON holdfast.run (parent_id, parent_step, parent_index)
    WHERE parent_id IS NOT NULL;
CREATE INDEX holdfast.run_ended_child ON holdfast.run (parent_id, ended_revision) WHERE ended_revision IS NOT NULL;
CREATE INDEX holdfast.run_root ON holdfast.run (root_id, created_at, id) WHERE root_id IS NOT NULL;
CREATE UNIQUE INDEX holdfast.run_key ON holdfast.run (key) WHERE key IS NOT NULL;

-- Lists of runs, from new to old by creation. Each run is in one of the first two indexes. A finished
-- run is also in run_finished, by which it is found in a route and status: it enters once, when it
-- ends. A live run is in run_held while a session holds it and in run_idle otherwise, so that a run
-- which changes its status in the hands of its holder changes no index of a list. The last columns of
-- run_finished let retention count without reading runs. Its first is an expression, so that only the
-- queries that name it use it: a claim must not read the finished runs of a route. The others hold
-- few runs, or runs with something rare. The condition of run_notable is not written with IN: SQLite
-- would build its list again at every change of a status, which takes as long as all other indexes.
CREATE INDEX holdfast.run_newest_root ON holdfast.run (created_at, id) WHERE parent_id IS NULL;
CREATE INDEX holdfast.run_newest_child ON holdfast.run (created_at, id) WHERE parent_id IS NOT NULL;
CREATE INDEX holdfast.run_finished ON holdfast.run ((route_id + 0), status, created_at, id, finished_at, root_id, route_id)
    WHERE finished_at IS NOT NULL;
CREATE INDEX holdfast.run_idle ON holdfast.run ((route_id + 0), status, created_at, id)
    WHERE finished_at IS NULL AND session_id IS NULL;
CREATE INDEX holdfast.run_notable ON holdfast.run (status, created_at, id)
    WHERE status <> 'completed' AND status <> 'running' AND status <> 'pending'
      AND status <> 'waiting';
CREATE INDEX holdfast.run_of_share ON holdfast.run (share, created_at, id) WHERE share IS NOT NULL;

CREATE TABLE holdfast.event (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    step TEXT,
    attempt INTEGER NOT NULL,
    data BLOB,
    error BLOB,
    started_at INTEGER,
    at INTEGER NOT NULL,
    role TEXT  -- 'compensation' or 'compensation of STEP' if the step undoes another
);
CREATE UNIQUE INDEX holdfast.event_run ON holdfast.event (run_id, seq);

CREATE TABLE holdfast.signal (
    id INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    name TEXT NOT NULL,
    payload BLOB NOT NULL,
    key TEXT,
    at INTEGER NOT NULL,
    taken INTEGER NOT NULL DEFAULT 0,
    number INTEGER NOT NULL DEFAULT 0,  -- counts the signals of a run
    wait_id TEXT,
    source TEXT,
    step TEXT,  -- the step that an operator releases
    effect TEXT  -- the answer to the sender
);
CREATE INDEX holdfast.signal_run ON holdfast.signal (run_id, number);
-- A run that lives for months consumes many signals; its holder reads only the others.
CREATE INDEX holdfast.signal_untaken ON holdfast.signal (run_id, id) WHERE taken = 0;
CREATE UNIQUE INDEX holdfast.signal_key ON holdfast.signal (run_id, key) WHERE key IS NOT NULL;

CREATE TABLE holdfast.tag (
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    run_id TEXT NOT NULL,
    created_at INTEGER NOT NULL,  -- of the run, so that the runs with a tag are listed from new to old
    PRIMARY KEY (name, value, created_at, run_id)
) WITHOUT ROWID;
CREATE INDEX holdfast.tag_run ON holdfast.tag (run_id);

-- The number of children of a map that are still open.
CREATE TABLE holdfast.fanout (
    run_id TEXT NOT NULL,
    step TEXT NOT NULL,
    remaining INTEGER NOT NULL,
    eager INTEGER NOT NULL,
    PRIMARY KEY (run_id, step)
) WITHOUT ROWID;

CREATE TABLE holdfast.session (
    id TEXT PRIMARY KEY,
    worker TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    beat_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    serves BLOB NOT NULL
) WITHOUT ROWID;

-- Runs that were changed from outside while a session held them.
CREATE TABLE holdfast.run_notification (
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    run_id TEXT NOT NULL
);
CREATE INDEX holdfast.run_notification_session ON holdfast.run_notification (session_id, id);

CREATE TABLE holdfast.lane (
    name TEXT PRIMARY KEY,
    concurrency INTEGER,
    rate_limit INTEGER,
    rate_per INTEGER,
    free_at INTEGER NOT NULL DEFAULT 0,
    paused INTEGER NOT NULL DEFAULT 0,
    per_share INTEGER,  -- the number of running runs of one share
    share_rate_limit INTEGER,
    share_rate_per INTEGER,
    weights TEXT,  -- JSON: the weights of shares, if not 1
    draining INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Keys that sign the tokens of waits and gates.
CREATE TABLE holdfast.key (
    kid TEXT PRIMARY KEY,
    secret BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER  -- NULL: the current key, which signs
) WITHOUT ROWID;

-- At most one key is current, even if several processes create the first one at once.
CREATE UNIQUE INDEX holdfast.key_current ON holdfast.key ((expires_at IS NULL))
    WHERE expires_at IS NULL;

-- The leases of claims that remote workers have named, so that a repeated claim gets them again.
CREATE TABLE holdfast.claim_request (
    session_id TEXT NOT NULL,
    key TEXT NOT NULL,
    leases BLOB NOT NULL,  -- JSON: pairs of a run and its generation
    at INTEGER NOT NULL,
    PRIMARY KEY (session_id, key)
) WITHOUT ROWID;

-- Credentials of programs and people for the server. Only the digest of a secret is stored.
CREATE TABLE holdfast.api_key (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    name TEXT NOT NULL,
    roles TEXT NOT NULL,  -- separated by commas
    namespace TEXT,  -- NULL: all namespaces
    gate_roles TEXT NOT NULL,  -- separated by line breaks
    sees_values INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT,
    expires_at INTEGER,
    used_at INTEGER,
    revoked_at INTEGER
) WITHOUT ROWID;

-- Actions are recorded under the name of a key, so that at most one usable key has it.
CREATE UNIQUE INDEX holdfast.api_key_name ON holdfast.api_key (name) WHERE revoked_at IS NULL;

-- Browsers that have logged in, and one-time links that let them.
CREATE TABLE holdfast.login (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    is_link INTEGER NOT NULL,
    api_key_id TEXT,  -- the API key that it ends with
    name TEXT NOT NULL,
    roles TEXT NOT NULL,
    namespace TEXT,
    gate_roles TEXT NOT NULL,
    sees_values INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX holdfast.login_expiry ON holdfast.login (expires_at);

-- The idempotency keys of requests over HTTP. A repeated request must have the digest of the first.
CREATE TABLE holdfast.request_key (
    id TEXT PRIMARY KEY,  -- the key, with its caller and its operation
    digest BLOB NOT NULL,
    at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX holdfast.request_key_at ON holdfast.request_key (at);

-- The audit log: the actions of operators. Only actions that name a person or program are recorded.
CREATE TABLE holdfast.audit_entry (
    id TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    asked_by TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    namespace TEXT,  -- NULL: the action concerns the installation
    details BLOB NOT NULL
) WITHOUT ROWID;

CREATE INDEX holdfast.audit_entry_at ON holdfast.audit_entry (at);

-- Decisions asked of people. `terms` holds the settings of the opening; the other columns change.
CREATE TABLE holdfast.gate (
    id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    step TEXT NOT NULL,
    status TEXT NOT NULL,
    prompt TEXT NOT NULL,
    terms BLOB NOT NULL,
    assignees BLOB NOT NULL,
    roles BLOB NOT NULL,
    data BLOB,
    hash TEXT,
    opened_at INTEGER NOT NULL,
    deadline INTEGER,
    reminded INTEGER NOT NULL DEFAULT 0,
    reminded_at INTEGER,
    escalated INTEGER NOT NULL DEFAULT 0,
    closed_at INTEGER,
    choice TEXT,
    reason TEXT,
    closed_revision INTEGER  -- that its run has because of that
) WITHOUT ROWID;
CREATE INDEX holdfast.gate_run ON holdfast.gate (run_id, id);
CREATE INDEX holdfast.gate_open ON holdfast.gate (id) WHERE closed_at IS NULL;
CREATE INDEX holdfast.gate_closed ON holdfast.gate (run_id, closed_revision) WHERE closed_revision IS NOT NULL;

-- The audit trail of a gate: decisions, delegations, reminders.
CREATE TABLE holdfast.gate_entry (
    gate_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    person TEXT,
    at INTEGER NOT NULL,
    lapsed INTEGER NOT NULL DEFAULT 0,
    detail BLOB NOT NULL,
    PRIMARY KEY (gate_id, number)
) WITHOUT ROWID;
CREATE INDEX holdfast.gate_entry_run ON holdfast.gate_entry (run_id, gate_id, number);

-- The people and roles whose inbox lists an open gate. A closed gate has no rows.
CREATE TABLE holdfast.gate_assignment (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    gate_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (kind, name, gate_id)
) WITHOUT ROWID;
CREATE INDEX holdfast.gate_assignment_gate ON holdfast.gate_assignment (gate_id);
CREATE INDEX holdfast.gate_assignment_run ON holdfast.gate_assignment (run_id);

-- What a run waits for now or later. A wait with an id was issued with a token.
CREATE TABLE holdfast.wait (
    run_id TEXT NOT NULL,
    step TEXT NOT NULL,
    id TEXT,
    name TEXT NOT NULL,
    kid TEXT,  -- the key that signed the token
    opened_at INTEGER NOT NULL,
    until INTEGER,  -- when it expires or times out
    escalated_at INTEGER,  -- since when it needs an operator
    closed_at INTEGER,
    closed_by TEXT,
    reason TEXT,  -- of a suspension
    asked_by TEXT,  -- who asked for a suspension
    PRIMARY KEY (run_id, step)
) WITHOUT ROWID;
CREATE UNIQUE INDEX holdfast.wait_id ON holdfast.wait (id) WHERE id IS NOT NULL;
CREATE INDEX holdfast.wait_open ON holdfast.wait (COALESCE(until, 4611686018427387904), opened_at, run_id, step)
    WHERE closed_at IS NULL;
CREATE INDEX holdfast.wait_escalated ON holdfast.wait (escalated_at)
    WHERE escalated_at IS NOT NULL AND closed_at IS NULL;
CREATE INDEX holdfast.wait_incident ON holdfast.wait (escalated_at, opened_at, run_id, step)
    WHERE name = 'incident' AND escalated_at IS NOT NULL AND closed_at IS NULL;

-- Counts the signals that no wait has consumed, at each delivery.
CREATE INDEX holdfast.signal_kind ON holdfast.signal (run_id, name, wait_id, source)
    WHERE taken = 0 AND step IS NULL;

CREATE TABLE holdfast.schedule (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    workflow TEXT NOT NULL,
    version TEXT NOT NULL,
    lane TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    input BLOB NOT NULL,
    priority INTEGER NOT NULL,
    tags TEXT NOT NULL,
    deadline INTEGER,  -- the time limit of each run
    rule TEXT NOT NULL,
    zone TEXT NOT NULL,
    overlap TEXT NOT NULL,
    queue_limit INTEGER NOT NULL,
    misfire TEXT NOT NULL,
    catch_up INTEGER NOT NULL,
    grace INTEGER NOT NULL,
    jitter INTEGER NOT NULL,
    origin TEXT NOT NULL,  -- created by a decorator in the code, by a call, or with a model
    paused TEXT,  -- the reason, if paused
    anchor INTEGER NOT NULL,  -- the origin of intervals
    next_at INTEGER,  -- the next tick to process
    wake_at INTEGER,  -- when the leader must process it
    last_at INTEGER,  -- the last tick with a run
    queued TEXT,  -- ticks that wait for the end of a run
    started INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    note TEXT,  -- the outcome of the last tick without a run
    created_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) WITHOUT ROWID;
CREATE INDEX holdfast.schedule_wake ON holdfast.schedule (wake_at) WHERE wake_at IS NOT NULL;

-- The runs that schedules started.
CREATE TABLE holdfast.tick (
    run_id TEXT PRIMARY KEY,
    namespace TEXT NOT NULL,
    schedule TEXT NOT NULL,
    at INTEGER NOT NULL,
    kind TEXT NOT NULL,  -- tick, trigger or backfill
    live INTEGER NOT NULL,  -- whether other ticks may have to wait for it
    solo INTEGER NOT NULL  -- whether it must be the only live run
) WITHOUT ROWID;
CREATE INDEX holdfast.tick_live ON holdfast.tick (namespace, schedule) WHERE live = 1;
CREATE UNIQUE INDEX holdfast.tick_solo ON holdfast.tick (namespace, schedule)
    WHERE live = 1 AND solo = 1;

-- Budgets: what runs may spend, have spent and have reserved.
CREATE TABLE holdfast.budget (
    name TEXT PRIMARY KEY,
    run_id TEXT,  -- the root of the tree; NULL for a budget shared by name
    on_breach TEXT NOT NULL,
    resets TEXT,  -- hour, day, month or a number of microseconds
    zone TEXT NOT NULL,
    reset_at INTEGER,
    reset_count INTEGER NOT NULL DEFAULT 0,
    last_reset_at INTEGER,
    breaches INTEGER NOT NULL DEFAULT 0,
    soft_breaches INTEGER NOT NULL DEFAULT 0,
    breached_at INTEGER,
    breached TEXT,  -- the last dimension breached
    created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX holdfast.budget_run ON holdfast.budget (run_id) WHERE run_id IS NOT NULL;
-- The runs that have not ended and draw on budgets.
CREATE INDEX holdfast.run_budgets ON holdfast.run (id) WHERE budgets IS NOT NULL AND finished_at IS NULL;

-- One line per dimension. The spending of a single run is a line of its own, without a limit.
CREATE TABLE holdfast.budget_line (
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
CREATE INDEX holdfast.budget_line_run ON holdfast.budget_line (run_id) WHERE run_id IS NOT NULL;

-- Amounts that a step, or a block of a workflow, reserves before it spends them.
CREATE TABLE holdfast.reservation (
    run_id TEXT NOT NULL,
    key TEXT NOT NULL,
    budget TEXT NOT NULL,
    dimension TEXT NOT NULL,
    amount INTEGER NOT NULL,
    lasting INTEGER NOT NULL,  -- it belongs to the run, not to an attempt
    at INTEGER NOT NULL,
    PRIMARY KEY (run_id, key, budget, dimension)
) WITHOUT ROWID;
CREATE INDEX holdfast.reservation_budget ON holdfast.reservation (budget, dimension);

-- The idempotency keys of spending that was counted already.
CREATE TABLE holdfast.spend_key (
    budget TEXT NOT NULL,
    key TEXT NOT NULL,
    run_id TEXT,
    at INTEGER NOT NULL,
    PRIMARY KEY (budget, key)
) WITHOUT ROWID;
CREATE INDEX holdfast.spend_key_run ON holdfast.spend_key (run_id) WHERE run_id IS NOT NULL;

-- The progress of a share in a lane: until when its rate is used up, and its virtual time. The
-- share '' holds the virtual time of the lane.
CREATE TABLE holdfast.share (
    lane TEXT NOT NULL,
    share TEXT NOT NULL,
    free_at INTEGER NOT NULL DEFAULT 0,
    vtime INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (lane, share)
) WITHOUT ROWID;

CREATE INDEX holdfast.run_share ON holdfast.run (route_id, share, rank)
    WHERE rank IS NOT NULL AND share IS NOT NULL AND crashes < 2;

-- The run that collects the debounced starts of a key until it begins.
CREATE TABLE holdfast.gathering (
    run_id TEXT NOT NULL,
    key TEXT NOT NULL,
    count INTEGER NOT NULL,
    latest INTEGER NOT NULL,
    PRIMARY KEY (key)
) WITHOUT ROWID;
CREATE INDEX holdfast.gathering_run ON holdfast.gathering (run_id);

-- The last frame of a run's output, and the progress that the run reports.
CREATE TABLE holdfast.output (
    run_id TEXT PRIMARY KEY,
    last_seq INTEGER NOT NULL,  -- the last frame
    streams INTEGER NOT NULL,  -- the number of streams
    percent REAL,
    message TEXT,
    progress_at INTEGER
) WITHOUT ROWID;

CREATE TABLE holdfast.stream (
    run_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    step TEXT NOT NULL,  -- the branch for workflow code, '' for its trunk
    attempt INTEGER NOT NULL,
    generation INTEGER NOT NULL,  -- 0 for workflow code, which continues across leases
    supersedes INTEGER,  -- the stream whose step this one repeated
    frames INTEGER NOT NULL,  -- the number of frames ever appended
    said INTEGER NOT NULL,  -- the number of calls that emitted: a replay skips them
    kept_durable INTEGER NOT NULL,
    kept_summary INTEGER NOT NULL,
    kept_best_effort INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,  -- the first stored frame
    summary BLOB,
    version INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    closed_at INTEGER,
    reason TEXT,
    PRIMARY KEY (run_id, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX holdfast.stream_attempt ON holdfast.stream (run_id, step, attempt, generation);
CREATE INDEX holdfast.stream_open ON holdfast.stream (run_id) WHERE closed_at IS NULL;

CREATE TABLE holdfast.frame (
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    stream INTEGER NOT NULL,
    kind TEXT NOT NULL,
    mode TEXT NOT NULL,
    name TEXT,
    data BLOB NOT NULL,
    nulls BLOB,  -- the paths of a patch whose null is a value
    version INTEGER,  -- the version of the summary after this patch
    at INTEGER NOT NULL,
    PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
CREATE INDEX holdfast.frame_passing ON holdfast.frame (run_id, stream, mode, seq)
    WHERE mode <> 'durable';

-- Cursors name the installation that they belong to.
INSERT INTO holdfast.setting (name, value) VALUES ('installation', LOWER(HEX(RANDOMBLOB(8))));

-- Differs from Postgres: SQLite assigns the number of a deleted last row again, and a reader that
-- has read up to it would never see the next event. A row without a run therefore keeps the last
-- number.
CREATE TRIGGER holdfast.event_numbered AFTER DELETE ON holdfast.event
WHEN OLD.run_id <> '' AND OLD.id > COALESCE((SELECT MAX(id) FROM holdfast.event), 0)
BEGIN
    DELETE FROM holdfast.event WHERE run_id = '';
    INSERT INTO holdfast.event (id, run_id, seq, kind, attempt, at)
    VALUES (OLD.id, '', OLD.id, 'numbered', 1, OLD.at);
END;

CREATE TABLE holdfast.subscription (
    name TEXT PRIMARY KEY,
    kind TEXT NOT NULL,  -- cursor or webhook
    which BLOB NOT NULL,  -- the filter
    source TEXT NOT NULL DEFAULT 'runs',  -- the events that it reads: of runs, graphs or flows
    after_tx INTEGER NOT NULL,  -- the last event read; see `event` of Postgres
    after_id INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    moved_at INTEGER,
    url TEXT,
    secret TEXT,
    attempts INTEGER NOT NULL DEFAULT 0,
    attempt_limit INTEGER NOT NULL DEFAULT 0,
    next_at INTEGER,
    error TEXT,
    session_id TEXT
) WITHOUT ROWID;

-- Events that a webhook could not deliver.
CREATE TABLE holdfast.dead_letter (
    subscription TEXT NOT NULL,
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    body BLOB NOT NULL,
    attempts INTEGER NOT NULL,
    error TEXT NOT NULL,
    at INTEGER NOT NULL,
    again INTEGER NOT NULL DEFAULT 0,  -- whether a redelivery was requested
    PRIMARY KEY (subscription, run_id, seq)
) WITHOUT ROWID;

-- Large values, stored once each, apart from the rows that refer to them.
CREATE TABLE holdfast.payload (
    digest BLOB PRIMARY KEY,  -- of the content, and of the key if encrypted
    key TEXT NOT NULL,  -- the id of the encryption key, or ''
    form TEXT NOT NULL,  -- p plain, z compressed
    size INTEGER NOT NULL,  -- bytes of the value
    stored INTEGER NOT NULL,  -- bytes of all stored parts
    parts INTEGER NOT NULL,
    kept_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE holdfast.payload_part (
    digest BLOB NOT NULL,
    part INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (digest, part)
);

-- The payloads that a run refers to. A payload is deleted with the last run that refers to it.
CREATE TABLE holdfast.payload_use (
    run_id TEXT NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (run_id, digest)
) WITHOUT ROWID;
CREATE INDEX holdfast.payload_use_digest ON holdfast.payload_use (digest);

CREATE TABLE holdfast.retention (
    name TEXT PRIMARY KEY,
    target TEXT NOT NULL,  -- runs, or the part of their history to delete
    workflow TEXT,
    statuses TEXT NOT NULL,  -- separated by commas; '' means all final ones
    older_than INTEGER,
    keep_last INTEGER,
    max_bytes INTEGER
) WITHOUT ROWID;

-- One verb applied to many runs, in portions (bulk operations).
CREATE TABLE holdfast.operation (
    id TEXT PRIMARY KEY,
    namespace TEXT,  -- the only namespace whose runs it may change; NULL for all
    verb TEXT NOT NULL,
    status TEXT NOT NULL,
    arguments BLOB NOT NULL,  -- JSON
    filters BLOB NOT NULL,  -- JSON: how its runs were selected
    payload BLOB,  -- of its signals; NULL once it has ended
    asked_by TEXT,
    total INTEGER NOT NULL,
    done INTEGER NOT NULL,
    refused INTEGER NOT NULL,
    part INTEGER NOT NULL,  -- the part that is carried out next
    revision INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    due_at INTEGER,  -- when any worker may continue it; NULL once it has ended
    finished_at INTEGER
) WITHOUT ROWID;
CREATE INDEX holdfast.operation_due ON holdfast.operation (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX holdfast.operation_created ON holdfast.operation (created_at, id);
CREATE INDEX holdfast.operation_finished ON holdfast.operation (finished_at) WHERE finished_at IS NOT NULL;

-- The runs of a bulk operation, and their outcomes: lists of ids as JSON.
CREATE TABLE holdfast.operation_part (
    operation_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    chosen BLOB NOT NULL,
    done BLOB NOT NULL,
    begun BLOB NOT NULL,  -- changes that take several transactions
    refused BLOB NOT NULL,  -- the reasons by id
    PRIMARY KEY (operation_id, number)
) WITHOUT ROWID;

-- Locks of maintenance work that one worker at a time does for all.
CREATE TABLE holdfast.maintenance_lock (
    name TEXT PRIMARY KEY,
    session_id TEXT,
    until INTEGER NOT NULL,  -- when the lock expires, or the work is due again
    done_at INTEGER
) WITHOUT ROWID;

-- The terms of a run for the remote workers that lease it, as given at its start.
CREATE TABLE holdfast.task (
    run_id TEXT PRIMARY KEY,
    policy BLOB NOT NULL,
    attempt_until INTEGER,  -- the deadline of the current attempt
    generation INTEGER  -- of the current attempt
) WITHOUT ROWID;
CREATE INDEX holdfast.task_until ON holdfast.task (attempt_until) WHERE attempt_until IS NOT NULL;

-- Graphs: runs that depend on each other. A member that waits has a row here and none in `run`.
CREATE TABLE holdfast.graph (
    id TEXT PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    revision INTEGER NOT NULL,  -- grows with the structure
    members INTEGER NOT NULL,
    live INTEGER NOT NULL,  -- members without an outcome
    events INTEGER NOT NULL,  -- rows of the audit trail
    fingerprint TEXT NOT NULL,
    policy TEXT,  -- which members a cancel reaches
    reason TEXT,
    summary BLOB,
    created_at INTEGER NOT NULL,
    finished_at INTEGER
) WITHOUT ROWID;
CREATE INDEX holdfast.graph_namespace ON holdfast.graph (namespace, created_at, id);
CREATE INDEX holdfast.graph_finished ON holdfast.graph (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE holdfast.graph_member (
    run_id TEXT PRIMARY KEY,
    graph_id TEXT NOT NULL,
    workflow TEXT NOT NULL,
    state TEXT NOT NULL,
    missing INTEGER NOT NULL,  -- unsatisfied groups
    spec BLOB NOT NULL,
    input BLOB NOT NULL,  -- moved to the run at its start
    started_at INTEGER,
    finished_at INTEGER,
    asked_at INTEGER,  -- when its cancellation was requested
    note TEXT,
    joined TEXT  -- the id of the run, if it existed before it became a member
) WITHOUT ROWID;
CREATE UNIQUE INDEX holdfast.graph_member_joined ON holdfast.graph_member (joined)
    WHERE joined IS NOT NULL;
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

-- Outcomes of members and unfinished cancels that their graph has not processed. Rows are only
-- inserted and deleted, so that ending a run never waits for a lock on its graph.
CREATE TABLE holdfast.graph_outbox (
    id INTEGER PRIMARY KEY,
    graph_id TEXT NOT NULL,
    run_id TEXT,
    status TEXT NOT NULL,
    at INTEGER NOT NULL,
    place TEXT  -- dependents up to this one have processed the outcome
);
CREATE INDEX holdfast.graph_outbox_graph ON holdfast.graph_outbox (graph_id);

-- AUTOINCREMENT here and in `flow_event`: no number is used twice, because the cursors of
-- subscribers may be behind a deleted one.
CREATE TABLE holdfast.graph_event (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- its place in the order of all of them
    graph_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    member TEXT,
    data BLOB,
    at INTEGER NOT NULL,
    UNIQUE (graph_id, seq)
);

-- Managed flows: work that another program drives.
CREATE TABLE holdfast.flow (
    id TEXT PRIMARY KEY,
    namespace TEXT NOT NULL,
    controller TEXT NOT NULL,
    goal TEXT NOT NULL,
    owner TEXT NOT NULL,
    requester TEXT NOT NULL,
    current_step TEXT NOT NULL,
    state BLOB NOT NULL,
    wait BLOB,
    wake_at INTEGER,  -- when the leader must process it
    awaits TEXT,  -- the event that it waits for: topic and correlation as a JSON array
    status TEXT NOT NULL,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    revision INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX holdfast.flow_owner ON holdfast.flow (namespace, owner, id);
CREATE INDEX holdfast.flow_status ON holdfast.flow (status, updated_at);
CREATE INDEX holdfast.flow_wake ON holdfast.flow (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX holdfast.flow_awaits ON holdfast.flow (awaits) WHERE awaits IS NOT NULL;

CREATE TABLE holdfast.flow_step (
    flow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    task TEXT NOT NULL,
    status TEXT NOT NULL,
    runtime TEXT NOT NULL,
    child_session TEXT,
    result BLOB,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (flow_id, run_id)
) WITHOUT ROWID;
CREATE INDEX holdfast.flow_step_run ON holdfast.flow_step (run_id);

CREATE TABLE holdfast.flow_event (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- its place in the order of all of them
    flow_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    payload BLOB NOT NULL,
    at INTEGER NOT NULL,
    own INTEGER NOT NULL DEFAULT 0,  -- 1: a program has appended it
    UNIQUE (flow_id, seq)
);

-- Sliding windows of rate limits: the recent starts in a lane (the share '') and in its shares.
CREATE TABLE holdfast.rate_admission (
    lane TEXT NOT NULL,
    share TEXT NOT NULL,
    at INTEGER NOT NULL,
    number INTEGER NOT NULL,  -- of the last start at that time
    count INTEGER NOT NULL,  -- the number of starts at that time
    PRIMARY KEY (lane, share, at)
) WITHOUT ROWID;
CREATE INDEX holdfast.rate_admission_at ON holdfast.rate_admission (lane, at) WHERE share <> '';

-- Inputs that are not small; the run itself then has an empty input. SQLite rewrites a whole row
-- when one of its columns changes, and an input never changes. The table has row numbers, so that
-- a page holds as much of the input as fits.
CREATE TABLE holdfast.large_input (
    run_id TEXT PRIMARY KEY,
    input BLOB NOT NULL
);

-- A replaced input is written to the run.
CREATE TRIGGER holdfast.large_input_replaced AFTER UPDATE OF input ON holdfast.run
BEGIN
    DELETE FROM holdfast.large_input WHERE run_id = NEW.id;
END;

CREATE TRIGGER holdfast.large_input_gone AFTER DELETE ON holdfast.run
BEGIN
    DELETE FROM holdfast.large_input WHERE run_id = OLD.id;
END;

-- Members that are written in portions before their graph, and members of pruned graphs that are
-- deleted in portions: these rows name `id` as their graph.
CREATE TABLE holdfast.graph_stage (
    id TEXT PRIMARY KEY,
    written INTEGER NOT NULL,  -- members written so far
    due_at INTEGER NOT NULL,  -- when its rows are deleted
    discarded INTEGER NOT NULL  -- 1: deletion is in progress
) WITHOUT ROWID;
CREATE INDEX holdfast.graph_stage_due ON holdfast.graph_stage (due_at);

-- Members without missing dependencies, until a portion of the next transaction starts them.
CREATE INDEX holdfast.graph_member_ready ON holdfast.graph_member (graph_id, run_id)
    WHERE state = 'waiting' AND missing = 0;

-- Definitions whose source is data: texts that runs were started with, and deployed models.
CREATE TABLE holdfast.definition (
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL,  -- the front end that reads the content
    name TEXT NOT NULL,
    version TEXT NOT NULL,  -- that runs name; a number if it was deployed
    digest TEXT NOT NULL,  -- SHA-256 of the content
    state TEXT NOT NULL,  -- frozen by its runs, or deployed: active or deprecated
    deployed_at INTEGER NOT NULL,
    deployed_by TEXT,
    used_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, name, version, kind)
) WITHOUT ROWID;
CREATE INDEX holdfast.definition_digest ON holdfast.definition (digest);
CREATE INDEX holdfast.definition_used ON holdfast.definition (used_at);

-- The contents, each once, however many definitions have it.
CREATE TABLE holdfast.definition_content (
    digest TEXT PRIMARY KEY,
    content BLOB NOT NULL
);

-- The steps of runs that wait for a message or a broadcast.
CREATE TABLE holdfast.message_subscription (
    run_id TEXT NOT NULL,
    step TEXT NOT NULL,
    namespace TEXT NOT NULL,
    kind TEXT NOT NULL,  -- message: one receiver gets it; signal: all get it
    name TEXT NOT NULL,
    key TEXT,  -- NULL: any message of the name
    element TEXT NOT NULL,  -- of the model that waits
    since INTEGER NOT NULL,
    PRIMARY KEY (run_id, step)
) WITHOUT ROWID;
CREATE INDEX holdfast.message_subscription_name ON holdfast.message_subscription (namespace, kind, name, key, since);
CREATE INDEX holdfast.message_subscription_broadcast ON holdfast.message_subscription (namespace, name, run_id, step)
    WHERE kind = 'signal';

-- The start events of deployed definitions; those of the version that new runs use receive messages.
CREATE TABLE holdfast.start_subscription (
    namespace TEXT NOT NULL,
    process TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    element TEXT NOT NULL,
    version TEXT NOT NULL,
    PRIMARY KEY (namespace, process, version, kind, name, element)
) WITHOUT ROWID;
CREATE INDEX holdfast.start_subscription_name ON holdfast.start_subscription (namespace, kind, name);

-- Messages that are kept until a receiver comes, and the ids of messages, to recognise repetitions.
CREATE TABLE holdfast.message (
    namespace TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    key TEXT,
    payload BLOB NOT NULL,
    at INTEGER NOT NULL,
    until INTEGER NOT NULL,
    effect TEXT NOT NULL,
    run_id TEXT,  -- the receiver
    element TEXT,
    PRIMARY KEY (namespace, name, id)
);
CREATE INDEX holdfast.message_kept ON holdfast.message (namespace, name, key, at) WHERE effect = 'kept';
CREATE INDEX holdfast.message_until ON holdfast.message (until);
CREATE INDEX holdfast.message_started ON holdfast.message (namespace, name, key) WHERE effect = 'started';

-- The tokens of models that rest: a projection of the histories of their runs.
CREATE TABLE holdfast.resting_token (
    run_id TEXT NOT NULL,
    token TEXT NOT NULL,
    element TEXT NOT NULL,
    kind TEXT NOT NULL,
    scope TEXT NOT NULL,
    status TEXT NOT NULL,
    mode TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    waits_for TEXT,
    until INTEGER,
    since INTEGER NOT NULL,
    version INTEGER NOT NULL,  -- the event that moved it last
    PRIMARY KEY (run_id, token)
) WITHOUT ROWID;
CREATE INDEX holdfast.resting_token_element ON holdfast.resting_token (element, run_id);
