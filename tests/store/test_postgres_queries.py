"""The SQL of PostgreSQL: every query that is asked exists and is asked, the server understands them
all and finds by index."""

import ast
import re
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.store import sql_files
from holdfast.store.postgres import PostgresDatabase
from holdfast.store.postgres.arrays import Blobs, Numbers, Texts
from holdfast.store.postgres.dialect import SQL, spelled
from holdfast.store.postgres.planned_writes import HEADS, HEARING, LINES, SPENDING, _payments
from holdfast.store.runs import list_query
from holdfast.store.runs.list_query import RunCursor, RunFilter
from holdfast.store.store import Store

STORE = Path(sql_files.__file__).parent
OWN = sql_files._named("postgres")
WORDS = {
    node.value
    for path in (STORE / "postgres").rglob("*.py")
    for node in ast.walk(ast.parse(path.read_text("utf-8")))
    if isinstance(node, ast.Constant) and isinstance(node.value, str)
}


@pytest.fixture(scope="module")
def db(postgres_server):
    """A connection whose planner uses an index wherever one is possible."""
    with closing(Store(PostgresDatabase(postgres_server.new_store()))) as store:
        store.database._writer.script(
            "SET enable_seqscan TO off; SET enable_bitmapscan TO off; SET plan_cache_mode TO"
            " force_generic_plan"
        )
        yield store.database._writer


def explained(db, name):
    """Return the generic plan of a query, made without its values."""
    text = sql_files.load("postgres")[name]
    names = sql_files.parameters(text)
    sql = re.sub(r"(?<!:):([a-z_]+)", lambda found: f"${names.index(found[1]) + 1}", text)
    values = f"({', '.join(['NULL'] * len(names))})" if names else ""
    db.script(f"PREPARE asked AS {sql}")
    try:
        return "\n".join(row[0] for row in db.script(f"EXPLAIN EXECUTE asked{values}"))
    finally:
        db.script("DEALLOCATE asked")


def test_every_query_of_its_own_is_asked():
    assert set(OWN) - set(sql_files.load("sqlite")) - WORDS == set()


def test_what_it_says_in_its_own_way_takes_the_same_values():
    for name in OWN.keys() & sql_files.common().keys():
        assert sql_files.parameters(OWN[name]) == sql_files.parameters(sql_files.common()[name]), (
            name
        )


@pytest.mark.parametrize("name", [name for name in SQL if name not in ("claim_runs", "runs_by_id")])
def test_every_query_can_be_planned(db, name):
    db.rows(
        f"EXPLAIN {SQL[name]}",
        dict.fromkeys(sql_files.parameters(sql_files.load("postgres")[name])),
    )


def test_a_draft_tells_all_that_its_query_asks():
    for head, (query, kinds) in HEADS.items():
        lines = {"asked"} if query == "insert_runs" else {f"line_{name}" for name in LINES}
        heard = {"taken"} if head in HEARING else set()
        paid = set(_payments([])) if head == SPENDING else set()
        assert set(sql_files.parameters(OWN[query])) == set(kinds) | set(lines) | heard | paid, (
            query
        )


def test_a_list_is_put_together_from_parts_that_can_be_planned(db):
    which = RunFilter(
        namespace="n",
        statuses=["pending", "stuck"],
        workflows=["w", "x"],
        tags={"a": "b", "c": "d"},
        since=1,
        until=2,
        worker="w",
        parent_id="p",
        roots=True,
        versions=["1", "2"],
        lanes=["l", "m"],
        share="s",
        key="k",
        id_prefix="i",
        after=RunCursor(3, "z"),
    )
    sql, values = list_query.list_runs(which, lambda sql, values: 0)

    db.rows(f"EXPLAIN {spelled(sql)}", values)


HOT = {
    "claim_ready": "run_ready",
    "check_work_and_lock": "run_ready",
    "claimable_by_lane": "run_share",
    "usage_at_start": "run_held",
    "lease_within_limits": "run_pkey",
    "check_work": "run_ready",
    "promote_due": "run_wake",
    "next_due": "run_wake",
    "overdue": "run_deadline",
    "held_states": "run_held",
    "held": "run_held",
    "children_to_stop": "run_child",
    "ended_children": "run_child",
    "children": "run_child",
    "children_of_step": "run_child",
    "children_page": "run_child",
    "descendants": "run_root",
    "lock_descendants": "run_root",
    "delete_events_of": "event_run",
    "run_by_key": "run_key",
    "history": "event_run",
    "histories": "event_run",
    "last_seq": "event_run",
    "written_lines": "event_run",
    "delete_events": "event_run",
    "signals": "signal_untaken",
    "run_update": "signal_untaken",
    "signal_answer": "signal_run",
    "signals_of": "signal_untaken",
    "signal_by_key": "signal_key",
    "tags": "tag_run",
    "notifications": "run_notification_session",
    "delete_notifications": "run_notification_session",
    "append_guarded": "run_pkey",
    "append_guarded_many": "run_pkey",
    "finish_run": "run_pkey",
    "finish_runs": "run_pkey",
    "move_runs": "run_pkey",
    "release_runs": "run_pkey",
    "lock_runs": "run_pkey",
    "load_state": "run_pkey",
    "load_states": "run_pkey",
    "lease_runs": "run_pkey",
    "run": "run_pkey",
    "ends_below": "graph_member_pkey",
    "resolve_members": "graph_member_pkey",
    "links_below": "graph_edge_pkey",
    "links_page": "graph_edge_pkey",
    "waiting_members": "graph_member_pkey",
    "unasked_members": "graph_member_pkey",
}


@pytest.mark.parametrize("name", HOT)
def test_what_is_asked_often_is_found_by_an_index(db, name):
    plan = explained(db, name)

    assert HOT[name] in plan, plan
    assert "Seq Scan on run" not in plan and "Seq Scan on graph" not in plan, plan


@pytest.mark.parametrize("name", ["waiting_members", "unasked_members", "links_page"])
def test_a_portion_of_a_large_graph_is_read_in_order_and_not_sorted_out_of_all(db, name):
    assert "Sort" not in explained(db, name)


def test_whoever_writes_finds_by_index_what_was_small_when_it_was_first_sought(postgres_server):
    with closing(Store(PostgresDatabase(postgres_server.new_store()))) as store:
        store.database._writer.script("ANALYZE; SET plan_cache_mode TO force_generic_plan")
        for name in (
            "finish_runs",
            "insert_runs",
            "ends_below",
            "resolve_members",
            "counts_of_graphs",
        ):
            plan = explained(store.database._writer, name)

            assert "Seq Scan on run" not in plan and "Seq Scan on graph" not in plan, plan


FAN = """INSERT INTO holdfast.graph_member (run_id, graph_id, workflow, state, missing, spec, input)
    SELECT 'g::' || number, 'g', 'w', 'waiting', 1, '', '' FROM GENERATE_SERIES(0, 5000) AS number;
    INSERT INTO holdfast.graph_edge (upstream, dependent, number)
    SELECT 'g::0', 'g::' || number, 0 FROM GENERATE_SERIES(1, 5000) AS number; ANALYZE"""


@pytest.mark.parametrize("name", ["counts_of_graphs", "last_runs"])
def test_where_one_member_has_very_many_dependents_not_all_are_read_for_each_member(
    postgres_server, name
):
    with closing(Store(PostgresDatabase(postgres_server.new_store()))) as store:
        store.database._writer.script(FAN)

        assert "Index Cond: (run_id = edge.dependent)" in explained(store.database._writer, name)


ASLEEP = """INSERT INTO holdfast.run (id, route_id, status, priority, generation, input, waits,
    wake_at, created_at)
    SELECT number, 1, 'waiting', 0, 1, '', '', number, 1 FROM GENERATE_SERIES(1, 20000) AS number;
    ANALYZE holdfast.run"""


FREELY = "SET plan_cache_mode TO force_generic_plan; SET enable_seqscan TO on"
"""Settings for a free choice of plans without the values, as on a connection through a pooler."""


@pytest.fixture(scope="module")
def crowd(postgres_server):
    """A connection to a database with many sleeping runs; the planner chooses freely, without the
    values."""
    with closing(Store(PostgresDatabase(postgres_server.new_store()))) as store:
        store.database._writer.script(f"{ASLEEP}; {FREELY}")
        yield store.database._writer


@pytest.mark.parametrize(
    "name",
    ["check_work", "promote_due", "next_due", "claim_ready", "check_work_and_lock", "lease_runs"],
)
def test_to_look_for_what_is_due_does_not_read_all_that_sleep(crowd, name):
    plan = explained(crowd, name)

    assert "Seq Scan on run" not in plan, plan


@pytest.fixture(scope="module")
def new(postgres_server):
    """The same with a new database: plans that are made now are kept while it grows."""
    with closing(Store(PostgresDatabase(postgres_server.new_store()))) as store:
        store.database._writer.script(FREELY)
        yield store.database._writer


@pytest.mark.parametrize(
    "name",
    [
        "check_work",
        "claim_ready",
        "lease_ready",
        "resume_leases",
        "complete_leases",
        "finish_leases",
        "release_leases",
    ],
)
def test_what_is_planned_while_there_is_little_does_not_read_all_that_will_be(new, name):
    plan = explained(new, name)

    assert not re.search(r"Seq Scan on (run|event|signal|stream|wait|task)\b", plan), plan


ENDED = """INSERT INTO holdfast.run (id, route_id, status, priority, generation, input, created_at,
    finished_at)
    SELECT number, 1, 'completed', 0, 1, '', 1, 1 FROM GENERATE_SERIES(1, 20000) AS number; ANALYZE
    holdfast.run"""


@pytest.fixture(scope="module")
def archive(postgres_server):
    """The same with a database in which, to the planner's knowledge, all runs have ended."""
    with closing(Store(PostgresDatabase(postgres_server.new_store()))) as store:
        store.database._writer.script(f"{ENDED}; {FREELY}")
        yield store.database._writer


@pytest.mark.parametrize(
    "name",
    [
        "append_guarded",
        "append_guarded_many",
        "finish_run",
        "finish_runs",
        "move_run",
        "move_runs",
        "release_run",
        "release_runs",
    ],
)
def test_to_write_about_held_runs_does_not_go_through_all_that_are_held(archive, name):
    plan = explained(archive, name)

    assert "run_pkey" in plan and "run_held" not in plan and "Seq Scan on run" not in plan, plan


@pytest.mark.parametrize(
    ("items", "kind"),
    [
        (Texts(["a", None, "ü; 'x'", ""]), "TEXT"),
        (Numbers([1, None, -(2**62)]), "BIGINT"),
        (Blobs([b"\x00\xff", None, b""]), "BYTEA"),
        (Texts(), "TEXT"),
        (Numbers(), "BIGINT"),
        (Blobs(), "BYTEA"),
    ],
)
def test_lists_arrive_as_they_are(db, items, kind):
    assert db.rows(f"SELECT CAST(%(items)s AS {kind}[]) AS items", {"items": items}) == [
        {"items": list(items)}
    ]


def test_migrations_have_the_numbers_of_those_of_sqlite():
    numbers = [number for number, _, _ in sql_files.migrations("postgres")]

    assert numbers == [number for number, _, _ in sql_files.migrations("sqlite")]


def test_both_databases_have_the_same_tables_and_columns(db):
    from holdfast.store.sqlite.connection import StandardConnection, statements
    from holdfast.store.sqlite.dialect import spelled as for_sqlite

    with closing(StandardConnection(":memory:")) as other:
        for _, _, text in sql_files.migrations("sqlite"):
            for statement in statements(for_sqlite(text)):
                other.change(statement)
        named = "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'holdfast_*'"
        tables = [row["name"] for row in other.rows(named)]
        theirs = {
            (table.removeprefix("holdfast_"), row["name"])
            for table in tables
            for row in other.rows(f"PRAGMA table_info({table})")
        }
    asked = (
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema ="
        " 'holdfast'"
    )
    ours = {
        (row["table_name"], row["column_name"])
        for row in db.rows(asked)
        if row["table_name"] != "migration"
    }
    apart = {
        ("large_input", "run_id"),
        ("large_input", "input"),
    }  # PostgreSQL keeps what is long apart by itself
    ours = {
        one for one in ours if one[0] != "commit_marker"
    }  # only a server can be lost while it commits

    assert ours == theirs - apart | {
        ("event", "tx"),
        ("graph_event", "tx"),
        ("flow_event", "tx"),
    }  # by which events are told in the order of their commits
