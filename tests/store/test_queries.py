"""The SQL: every query that is asked exists, every one that exists is asked, and the database
understands them all."""

import ast
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from holdfast.core.budgets.model import BudgetLine
from holdfast.core.events import Event
from holdfast.core.runs import Fanout, NewRun, Route, RunRecord
from holdfast.core.sessions import Lane, Session
from holdfast.core.waits import Signal
from holdfast.store import sql_files, tables
from holdfast.store.runs import list_query
from holdfast.store.runs.list_query import RunCursor, RunFilter
from holdfast.store.sqlite import SqliteDatabase
from holdfast.store.sqlite.dialect import SQL, spelled
from holdfast.store.store import Store

STORE = Path(sql_files.__file__).parent
SOURCES = [path for path in STORE.rglob("*.py") if "postgres" not in path.parts]
QUERIES = sql_files.load("sqlite")
WORDS = {
    node.value
    for path in SOURCES
    for node in ast.walk(ast.parse(path.read_text("utf-8")))
    if isinstance(node, ast.Constant) and isinstance(node.value, str)
}


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    with closing(
        Store(SqliteDatabase(tmp_path_factory.mktemp("queries") / "holdfast.db"))
    ) as store:
        yield store.database._db


def asked(path):
    """Yield the method and the query name of every call in a file that runs a named query."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        match node:
            case ast.Call(
                ast.Attribute(_, "rows" | "change" | "many" | "_rows" as method),
                [ast.Constant(str(name)), *_],
            ):
                yield method, name
            case ast.Subscript(ast.Name("SQL"), ast.Constant(str(name))):
                yield "rows", name


def calls():
    return {(method, name) for path in SOURCES for method, name in asked(path) if " " not in name}


def test_every_query_that_is_asked_exists():
    assert {name for _, name in calls()} - set(QUERIES) == set()


def test_every_query_that_exists_is_asked():
    made = set(tables.queries("sqlite")) | set(
        tables.forgettable(QUERIES["prunable"], QUERIES["tree_sizes"])
    )

    assert set(QUERIES) - made - WORDS == set()


def test_what_counts_changes_is_a_change():
    """Drivers count the changed rows only of statements that begin with one of these words."""
    verbs = {
        name: QUERIES[name].split()[0] for method, name in calls() if method in ("change", "many")
    }

    assert {
        name: verb for name, verb in verbs.items() if verb not in ("INSERT", "UPDATE", "DELETE")
    } == {}


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_can_be_prepared(db, name):
    db.rows(f"EXPLAIN {SQL[name]}", dict.fromkeys(sql_files.parameters(QUERIES[name])))


LAWS = {name: spelled(text) for name, text in sql_files.laws().items()}


@pytest.mark.parametrize("name", LAWS)
def test_every_law_can_be_prepared_and_names_who_breaks_it(db, name):
    db.rows(f"EXPLAIN {LAWS[name]}", {"now": 1})

    assert set(sql_files.parameters(LAWS[name])) <= {"now"}


@pytest.mark.parametrize("name", ["run", "runs_by_id"])
def test_every_query_for_runs_answers_with_a_run(db, name):
    columns = db.raw.execute(
        SQL[name], dict.fromkeys(sql_files.parameters(QUERIES[name]))
    ).description

    assert sorted(column[0] for column in columns) == sorted(RunRecord.__struct_fields__)


def columns_of(db, table):
    return {row["name"] for row in db.rows(f"PRAGMA table_info(holdfast_{table})")}


def test_a_run_has_the_columns_of_its_table(db):
    route = columns_of(db, "route") - {"id"}
    only_in_the_table = {"route_id", "rank", "seen_revision", "crash_seq", "ended_revision"}

    assert set(RunRecord.__struct_fields__) == (columns_of(db, "run") - only_in_the_table) | route


@pytest.mark.parametrize(
    ("table", "record", "only_in_the_table"),
    [
        ("route", Route, {"id"}),
        ("event", Event, {"run_id"}),
        ("signal", Signal, {"run_id"}),
        ("session", Session, set()),
        ("lane", Lane, set()),
        ("fanout", Fanout, {"run_id"}),
        ("budget_line", BudgetLine, set()),
    ],
)
def test_a_record_has_the_columns_of_its_table(db, table, record, only_in_the_table):
    assert set(record.__struct_fields__) == columns_of(db, table) - only_in_the_table


def test_a_new_run_says_all_that_is_written_at_first():
    written = set(sql_files.parameters(QUERIES["insert_run"]))
    decided_by_the_store = {
        "route_id",
        "status",
        "generation",
        "rank",
        "wake_at",
        "created_at",
        "started_at",
    }
    elsewhere = {"route", "tags", "available_at", "policy", "limits", "payloads", "same"}
    elsewhere |= {"definition"}

    assert {
        field.name for field in msgspec.structs.fields(NewRun)
    } - elsewhere == written - decided_by_the_store


HOT = {
    "ready": "run_ready",
    "any_suspect": "run_suspect",
    "ready_suspect": "run_suspect",
    "held_suspect": "run_held",
    "due": "run_wake",
    "promote": "run_wake",
    "next_due": "run_wake",
    "overdue": "run_deadline",
    "held_states": "run_held",
    "held": "run_held",
    "held_by_lane": "run_held",
    "live_runs_of_budget": "run_budgets",
    "children_to_stop": "run_child",
    "ended_children": "run_child",
    "children": "run_child",
    "children_of_step": "run_child",
    "children_page": "run_child",
    "map_progress": "run_child",
    "descendants": "run_root",
    "has_late_descendant": "run_root",
    "run_by_key": "run_key",
    "history": "event_run",
    "histories": "event_run",
    "last_seq": "event_run",
    "last_progress": "event_run",
    "delete_events": "event_run",
    "signals": "signal_untaken",
    "run_update": "signal_untaken",
    "signal_answer": "signal_run",
    "signals_of": "signal_untaken",
    "signal_by_key": "signal_key",
    "tags": "tag_run",
    "notifications": "run_notification_session",
    "delete_notifications": "run_notification_session",
    "open_gates": "gate_run",
    "delete_assignments": "gate_assignment_gate",
}


@pytest.mark.parametrize("name", HOT)
def test_what_is_asked_often_is_found_by_an_index(db, name):
    plan = db.rows(
        f"EXPLAIN QUERY PLAN {SQL[name]}", dict.fromkeys(sql_files.parameters(QUERIES[name]))
    )

    details = " | ".join(row["detail"] for row in plan)
    assert f"INDEX holdfast_{HOT[name]}" in details, details


def test_what_is_due_next_is_found_by_indexes(db):
    plan = db.rows(f"EXPLAIN QUERY PLAN {SQL['next_due']}")

    details = " | ".join(row["detail"] for row in plan)
    for index in ("run_wake", "run_deadline"):
        assert f"INDEX holdfast_{index}" in details, details


BY_ID = [
    "append_guarded",
    "finish_run",
    "move_run",
    "release_run",
    "lease_of",
    "load_state",
    "claim_runs",
    "runs_by_id",
    "run",
]


@pytest.mark.parametrize("name", BY_ID)
def test_what_is_asked_of_one_run_is_found_by_its_id(db, name):
    plan = db.rows(
        f"EXPLAIN QUERY PLAN {SQL[name]}", dict.fromkeys(sql_files.parameters(QUERIES[name]))
    )

    details = " | ".join(row["detail"] for row in plan)
    assert "USING PRIMARY KEY (id=?)" in details, details
    assert "SCAN holdfast_run" not in details


@pytest.mark.parametrize(
    "name",
    [
        "insert_run",
        "append_guarded",
        "append",
        "finish_run",
        "move_run",
        "insert_graph_event",
    ],
)
def test_what_is_written_often_runs_no_trigger_and_builds_no_list(db, name):
    """The condition of an index is part of each write: a list in it is built anew every time."""
    program = db.rows(f"EXPLAIN {SQL[name]}", dict.fromkeys(sql_files.parameters(QUERIES[name])))

    assert {"Program", "OpenEphemeral"} & {row["opcode"] for row in program} == set()


def test_a_list_is_put_together_from_parts_that_can_be_prepared(db):
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
    assert set(sql_files.parameters(sql)) <= set(values)


LISTS = {
    "all": ({}, "run_newest_root", "run_newest_child"),
    "roots": ({"roots": True}, "run_newest_root"),
    "time": ({"since": 1, "until": 9}, "run_newest_root"),
    "failed": ({"statuses": ["failed"]}, "run_notable"),
    "completed": ({"statuses": ["completed"]}, "run_finished"),
    "live": ({"statuses": ["pending", "running", "waiting"]}, "run_idle", "run_held"),
    "workflow": ({"workflows": ["w"]}, "run_finished", "run_idle", "run_held"),
    "version": ({"versions": ["1"]}, "run_finished", "run_idle", "run_held"),
    "lane": ({"lanes": ["l"]}, "run_finished", "run_idle", "run_held"),
    "several lanes": ({"lanes": ["l", "m"]}, "run_finished", "run_idle", "run_held"),
    "namespace": ({"namespace": "n"}, "run_finished", "run_idle", "run_held"),
    "workflow and status": ({"workflows": ["w"], "statuses": ["failed"]}, "run_finished"),
    "share": ({"share": "s"}, "run_of_share"),
    "key": ({"key": "k"}, "run_key"),
    "worker": ({"worker": "w"}, "run_held"),
    "tag": ({"tags": {"a": "b"}}, "tag"),
    "many children": ({"parent_id": "p"}, "run_root"),
}
"""For each filter of a list, the indexes that it uses if the database is large."""


@pytest.mark.parametrize("name", LISTS)
def test_a_list_reads_no_more_runs_than_it_shows(db, name):
    fields, *indexes = LISTS[name]
    after = RunCursor(3, "z")
    for which in (RunFilter(**fields), RunFilter(after=after, **fields)):
        sql, values = list_query.list_runs(which, lambda sql, values: 10**6)
        plan = [row["detail"] for row in db.rows(f"EXPLAIN QUERY PLAN {spelled(sql)}", values)]

        assert all(any(index in line for line in plan) for index in indexes), plan
        scans = [line for line in plan if line.startswith("SCAN run")]
        # A scan of the newest runs ends after a page; without a cursor it has no first key.
        assert all("run_newest" in line for line in scans), plan


def test_no_query_is_there_twice_in_a_file(monkeypatch):
    monkeypatch.setattr(
        sql_files, "read", lambda path: "-- name: a\nSELECT 1;\n-- name: a\nSELECT 2;\n"
    )

    with pytest.raises(ValueError, match="twice"):
        sql_files._named("common")


def test_the_parameters_of_a_query_are_named_once_each():
    assert sql_files.parameters("SELECT :b, :a, :b, CAST('x' AS TEXT), y::text") == ["a", "b"]


def test_migrations_have_growing_numbers():
    numbers = [number for number, _, _ in sql_files.migrations("sqlite")]

    assert numbers == sorted(set(numbers))


def test_every_column_of_a_run_moves_with_it(db):
    # No session holds a run that moves, and its next holder reads each awaited child once.
    of_its_holder = {"seen_revision", "ended_revision"}
    listed = QUERIES["import_run"].split("(", 1)[1].split(")", 1)[0]

    assert {name.strip() for name in listed.split(",")} == columns_of(db, "run") - of_its_holder
