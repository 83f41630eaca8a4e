"""The tables that move or are deleted with a run, or with the whole installation, and their
queries.

A feature that adds a table lists it here once; copying, exporting and pruning then include it.
"""

from __future__ import annotations

import msgspec


class StoredTable(msgspec.Struct, frozen=True):
    """A table, and the columns that have the same values in every store: not the numbers that a
    database assigns itself."""

    name: str
    columns: tuple[str, ...]
    order: str
    """The columns by which its rows are ordered."""
    of: str = ""
    """The table itself, if *name* stands for only some of its rows: the rows without a run."""

    @property
    def table(self) -> str:
        """The name of the table in the database."""
        return self.of or self.name


_BUDGET = (
    "name",
    "on_breach",
    "resets",
    "zone",
    "reset_at",
    "reset_count",
    "last_reset_at",
    "breaches",
    "soft_breaches",
    "breached_at",
    "breached",
    "created_at",
)
_BUDGET_LINE = ("budget", "dimension", "hard", "soft", "used", "reserved", "reset_at")

BELOW_RUNS: tuple[StoredTable, ...] = (
    StoredTable("budget", _BUDGET, "name"),
    StoredTable("budget_line", _BUDGET_LINE, "budget, dimension"),
    StoredTable(
        "reservation",
        ("key", "budget", "dimension", "amount", "lasting", "at"),
        "key, budget, dimension",
    ),
    StoredTable("spend_key", ("budget", "key", "at"), "budget, key"),
    StoredTable("gathering", ("key", "count", "latest"), "key"),
    StoredTable("task", ("policy", "attempt_until", "generation"), "run_id"),
    StoredTable(
        "gate",
        (
            "id",
            "step",
            "status",
            "prompt",
            "terms",
            "assignees",
            "roles",
            "data",
            "hash",
            "opened_at",
            "deadline",
            "reminded",
            "reminded_at",
            "escalated",
            "closed_at",
            "choice",
            "reason",
            "closed_revision",
        ),
        order="id",
    ),
    StoredTable(
        "gate_entry",
        ("gate_id", "number", "kind", "person", "at", "lapsed", "detail"),
        order="gate_id, number",
    ),
    StoredTable("gate_assignment", ("kind", "name", "gate_id"), order="gate_id, kind, name"),
    StoredTable("tick", ("namespace", "schedule", "at", "kind", "live", "solo"), "at"),
    StoredTable(
        "wait",
        (
            "step",
            "id",
            "name",
            "kid",
            "opened_at",
            "until",
            "escalated_at",
            "closed_at",
            "closed_by",
            "reason",
            "asked_by",
        ),
        order="opened_at, step",
    ),
    StoredTable("output", ("last_seq", "streams", "percent", "message", "progress_at"), "run_id"),
    StoredTable(
        "stream",
        (
            "number",
            "step",
            "attempt",
            "generation",
            "supersedes",
            "frames",
            "said",
            "kept_durable",
            "kept_summary",
            "kept_best_effort",
            "first_seq",
            "summary",
            "version",
            "opened_at",
            "written_at",
            "closed_at",
            "reason",
        ),
        "number",
    ),
    StoredTable(
        "frame", ("seq", "stream", "kind", "mode", "name", "data", "nulls", "version", "at"), "seq"
    ),
    StoredTable("payload_use", ("digest",), "digest"),
    StoredTable(
        "message_subscription",
        ("step", "namespace", "kind", "name", "key", "element", "since"),
        "since, step",
    ),
    StoredTable(
        "resting_token",
        (
            "token",
            "element",
            "kind",
            "scope",
            "status",
            "mode",
            "attempt",
            "waits_for",
            "until",
            "since",
            "version",
        ),
        "since, token",
    ),
)
"""The tables whose rows belong to a run, by the column ``run_id``: they move and are deleted with
it."""

_SCHEDULE = (
    "namespace",
    "name",
    "workflow",
    "version",
    "lane",
    "capabilities",
    "input",
    "priority",
    "tags",
    "deadline",
    "rule",
    "zone",
    "overlap",
    "queue_limit",
    "misfire",
    "catch_up",
    "grace",
    "jitter",
    "origin",
    "paused",
    "anchor",
    "next_at",
    "wake_at",
    "last_at",
    "queued",
    "started",
    "skipped",
    "note",
    "created_at",
)

_OPERATION = (
    "id",
    "namespace",
    "verb",
    "status",
    "arguments",
    "filters",
    "payload",
    "asked_by",
    "total",
    "done",
    "refused",
    "part",
    "revision",
    "created_at",
    "updated_at",
    "due_at",
    "finished_at",
)

STANDING: tuple[StoredTable, ...] = (
    StoredTable("shared_budget", _BUDGET, "name", of="budget"),
    StoredTable("shared_budget_line", _BUDGET_LINE, "budget, dimension", of="budget_line"),
    StoredTable("shared_spend_key", ("budget", "key", "at"), "budget, key", of="spend_key"),
    StoredTable("share", ("lane", "share", "free_at", "vtime"), "lane, share"),
    StoredTable("rate_admission", ("lane", "share", "at", "number", "count"), "lane, share, at"),
    StoredTable(
        "flow",
        (
            "id",
            "namespace",
            "controller",
            "goal",
            "owner",
            "requester",
            "current_step",
            "state",
            "wait",
            "wake_at",
            "awaits",
            "status",
            "cancel_requested",
            "revision",
            "created_at",
            "updated_at",
        ),
        "id",
    ),
    StoredTable(
        "flow_step",
        (
            "flow_id",
            "run_id",
            "task",
            "status",
            "runtime",
            "child_session",
            "result",
            "created_at",
            "updated_at",
        ),
        "flow_id, run_id",
    ),
    StoredTable("flow_event", ("flow_id", "seq", "kind", "payload", "at", "own"), "flow_id, seq"),
    StoredTable(
        "graph",
        (
            "id",
            "namespace",
            "name",
            "status",
            "revision",
            "members",
            "live",
            "events",
            "fingerprint",
            "policy",
            "reason",
            "summary",
            "created_at",
            "finished_at",
        ),
        "id",
    ),
    StoredTable(
        "graph_member",
        (
            "run_id",
            "graph_id",
            "workflow",
            "state",
            "missing",
            "spec",
            "input",
            "started_at",
            "finished_at",
            "asked_at",
            "note",
            "joined",
        ),
        "run_id",
    ),
    StoredTable("graph_stage", ("id", "written", "due_at", "discarded"), "id"),
    StoredTable(
        "graph_group",
        ("run_id", "number", "need", "total", "done", "lost", "rest", "state"),
        "run_id, number",
    ),
    StoredTable("graph_edge", ("upstream", "dependent", "number"), "upstream, dependent"),
    StoredTable("graph_outbox", ("graph_id", "run_id", "status", "at", "place"), "id"),
    StoredTable(
        "graph_event", ("graph_id", "seq", "kind", "member", "data", "at"), "graph_id, seq"
    ),
    StoredTable(
        "definition",
        (
            "namespace",
            "kind",
            "name",
            "version",
            "digest",
            "state",
            "deployed_at",
            "deployed_by",
            "used_at",
        ),
        "namespace, name, version, kind",
    ),
    StoredTable("definition_content", ("digest", "content"), "digest"),
    StoredTable(
        "start_subscription",
        ("namespace", "process", "kind", "name", "element", "version"),
        "namespace, process, version, kind, name, element",
    ),
    StoredTable(
        "message",
        (
            "namespace",
            "id",
            "name",
            "key",
            "payload",
            "at",
            "until",
            "effect",
            "run_id",
            "element",
        ),
        "namespace, name, id",
    ),
    StoredTable("operation", _OPERATION, "id"),
    StoredTable(
        "operation_part",
        ("operation_id", "number", "chosen", "done", "begun", "refused"),
        "operation_id, number",
    ),
    StoredTable(
        "api_key",
        (
            "id",
            "digest",
            "name",
            "roles",
            "namespace",
            "gate_roles",
            "sees_values",
            "created_at",
            "created_by",
            "expires_at",
            "used_at",
            "revoked_at",
        ),
        "id",
    ),
    StoredTable(
        "audit_entry",
        ("id", "at", "asked_by", "action", "subject", "namespace", "details"),
        "id",
    ),
    StoredTable("request_key", ("id", "digest", "at"), "id"),
    StoredTable("key", ("kid", "secret", "created_at", "expires_at"), "kid"),
    StoredTable("schedule", _SCHEDULE, "namespace, name"),
    StoredTable(
        "subscription",
        (
            "name",
            "kind",
            "which",
            "source",
            "after_tx",
            "after_id",
            "created_at",
            "moved_at",
            "url",
            "secret",
            "attempts",
            "attempt_limit",
            "next_at",
            "error",
        ),
        "name",
    ),
    StoredTable(
        "dead_letter",
        ("subscription", "run_id", "seq", "body", "attempts", "error", "at", "again"),
        "subscription, run_id, seq",
    ),
    StoredTable(
        "retention",
        ("name", "target", "workflow", "statuses", "older_than", "keep_last", "max_bytes"),
        "name",
    ),
)
"""The tables whose rows belong to the installation."""


class Forgettable(msgspec.Struct, frozen=True):
    """A part of a finished run that can be deleted while the run stays: its table, the queries that
    delete it by ``run_id`` and correct its counters, and, if one row stays as a mark, the condition
    for the rows that count as not yet deleted."""

    table: str
    deletes: tuple[str, ...]
    counted: str = ""


FORGETTABLE: dict[str, Forgettable] = {
    "events": Forgettable("event", ("delete_events",), "part.kind <> 'history_deleted'"),
    "frames": Forgettable("frame", ("delete_frame", "forget_frames")),
}
"""The parts that a retention rule can name besides runs. A feature with a table below runs lists it
here if its rows can be deleted alone."""


def queries(dialect: str) -> dict[str, str]:
    """Return the generated queries of all these tables, by name."""
    named: dict[str, str] = {}
    for table in BELOW_RUNS:
        named |= _copy_and_empty(table, ("run_id", *table.columns)) | _by_run(table, dialect)
    for table in STANDING:
        named |= _copy_and_empty(table, table.columns)
        where = " WHERE run_id IS NULL" if table.of else ""
        select = f"SELECT {', '.join(table.columns)} FROM holdfast.{table.table}"
        named[f"all_{table.name}"] = f"{select}{where} ORDER BY {table.order}"
    return named


def forgettable(prunable: str, tree_sizes: str) -> dict[str, str]:
    """Return, for each part of a history, the queries *prunable* and *tree_sizes* restricted to
    runs that still have this part, and a query that finds such runs below a root."""
    named = {}
    for name, part in FORGETTABLE.items():
        counted = f" AND {part.counted}" if part.counted else ""
        has = (
            f"EXISTS (SELECT 1 FROM holdfast.{part.table} AS part WHERE part.run_id ="
            f" run.id{counted})"
        )
        named[f"prunable_{name}"] = prunable.replace(
            "parent_id IS NULL", f"parent_id IS NULL AND {has}", 1
        )
        named[f"tree_sizes_{name}"] = tree_sizes.replace(
            "COUNT(*)", f"COUNT(CASE WHEN {has} THEN 1 END)", 1
        )
        named[f"descendants_{name}"] = (
            f"SELECT id FROM holdfast.run AS run WHERE root_id = :run_id AND {has} LIMIT :limit"
        )
    return named


def _copy_and_empty(table: StoredTable, columns: tuple[str, ...]) -> dict[str, str]:
    places = ", ".join(f":{column}" for column in columns)
    return {
        f"copy_{table.name}": (
            f"INSERT INTO holdfast.{table.table} ({', '.join(columns)}) VALUES ({places})"
        ),
        f"empty_{table.name}": f"DELETE FROM holdfast.{table.table}",
    }


def _by_run(table: StoredTable, dialect: str) -> dict[str, str]:
    select = f"SELECT run_id, {', '.join(table.columns)} FROM holdfast.{table.name}"
    named = {
        f"whole_{table.name}": (
            f"{select} WHERE run_id > :after AND run_id <= :last ORDER BY run_id, {table.order}"
        ),
        f"of_run_{table.name}": f"{select} WHERE run_id = :run_id ORDER BY {table.order}",
        f"delete_{table.name}": f"DELETE FROM holdfast.{table.name} WHERE run_id = :run_id",
    }
    # SQLite deletes run by run: a statement costs it no round trip.
    if dialect == "postgres":
        named[f"delete_{table.name}_of"] = (
            f"DELETE FROM holdfast.{table.name} WHERE run_id = ANY(CAST(:run_ids AS TEXT[]))"
        )
    return named
