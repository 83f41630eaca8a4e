"""An operation that waits for the lock of a run numbers its events after those that were committed
while it waited."""

import threading
from contextlib import closing, contextmanager

import psycopg
import pytest

from holdfast.core.events import EventKind
from holdfast.core.graphs.model import CancelPolicy, run_of
from holdfast.core.runs import Limits, NewRun
from holdfast.core.status import Status
from holdfast.errors import BudgetInUse, RowDamaged
from holdfast.store.budgets.operations import RemoveBudget, ReserveBudget, SetBudget
from holdfast.store.graphs.operations import CancelGraph, StageGraphs
from holdfast.store.postgres import PostgresDatabase
from holdfast.store.postgres.dialect import SQL
from holdfast.store.runs.operations import EndSession, RequestCancel, SetAside
from holdfast.store.store import Store
from holdfast.store.tasks.operations import OverrideRun, RevokeLease, SetPriority
from holdfast.testing.conformance.fixture import ROUTE
from tests.store.helpers import furnished, in_threads, stage, wait_until

LINE = {
    "step": "late",
    "attempt": 1,
    "data": b"1",
    "error": None,
    "started_at": None,
    "at": 1,
    "role": None,
}
WAITS_FOR_A_LOCK = (
    "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname ="
    " current_database()"
)


@pytest.fixture
def url(postgres_server):
    with postgres_server.lend() as url:
        yield url


@pytest.fixture
def store(url):
    with furnished(url) as store:
        yield store


@contextmanager
def in_the_way(url, query, **values):
    """Execute a named query in a transaction of another connection; commit when a session waits for
    it."""
    locked = threading.Event()

    def write():
        with psycopg.connect(url) as db, psycopg.connect(url, autocommit=True) as watcher:
            db.execute(SQL[query], values)
            locked.set()
            wait_until(lambda: watcher.execute(WAITS_FOR_A_LOCK).fetchall())

    writer = threading.Thread(target=write)
    writer.start()
    assert locked.wait(20)
    yield
    writer.join()


@pytest.mark.parametrize("crashed", [True, False])
def test_taking_over_a_late_holder_that_is_just_writing(store, url, crashed):
    with in_the_way(
        url,
        "append_guarded",
        run_id="a",
        generation=1,
        seq=1,
        kind=EventKind.STEP_COMPLETED,
        **LINE,
    ):
        (freed,) = store.apply([EndSession("s1", crashed=crashed)])

    assert "a" in freed
    kinds = [(event.seq, event.kind) for event in store.runs.history("a")]
    assert kinds == [(1, EventKind.STEP_COMPLETED), (2, EventKind.LEASE_LOST)][: 1 + crashed]


FROM_OUTSIDE = {
    "revoking": RevokeLease(run_id="a", namespace="default", reason="look"),
    "overriding": OverrideRun(
        run_id="a", namespace="default", status=Status.COMPLETED, reason="enough", result=b"1"
    ),
    "cancelling": RequestCancel("a", "enough", force=True),
    "cancelling its tree": RequestCancel("parent", "enough", force=True),
    "setting aside": SetAside(
        [RowDamaged(table="run", column="waits", why="odd", place={"id": "a"})]
    ),
}


@pytest.mark.parametrize("kind", FROM_OUTSIDE)
def test_what_an_operator_does_while_the_holder_is_just_writing(store, url, kind):
    run_id = "parent" if kind == "cancelling its tree" else "a"
    before = store.runs.history(run_id)
    with in_the_way(
        url,
        "append_guarded",
        run_id=run_id,
        generation=1,
        seq=len(before) + 1,
        kind=EventKind.STEP_COMPLETED,
        **LINE,
    ):
        (answer,) = store.apply([FROM_OUTSIDE[kind]])

    assert not isinstance(answer, BaseException)
    history = store.runs.history(run_id)
    assert [event.seq for event in history] == list(
        range(1, len(before) + 3 + (kind == "overriding"))
    )
    assert history[len(before)].kind == EventKind.STEP_COMPLETED


def test_cancelling_a_graph_of_which_a_member_is_just_given_another_priority(store, url):
    store.apply(
        [
            StageGraphs(
                stages=stage("g").stages, compose=stage("g").compose, lease=lambda route: None
            )
        ]
    )
    cancel = CancelGraph(
        graph_id="g", namespace="default", policy=CancelPolicy.ALL, reason="enough"
    )
    with (
        closing(Store(PostgresDatabase(url))) as other,
        psycopg.connect(url) as db,
        psycopg.connect(url, autocommit=True) as watcher,
    ):
        db.execute(SQL["load_state"], {"run_id": run_of("g", "x")})

        def let_go():
            wait_until(lambda: len(watcher.execute(WAITS_FOR_A_LOCK).fetchall()) == 2)
            db.commit()

        def change_priority():
            other.apply([SetPriority(run_id=run_of("g", "x"), namespace="default", priority=5)])

        def stop():
            wait_until(lambda: watcher.execute(WAITS_FOR_A_LOCK).fetchall())
            store.apply([cancel])

        in_threads(let_go, change_priority, stop)

    history = store.runs.history(run_of("g", "x"))
    assert [(event.seq, event.kind) for event in history] == [
        (1, EventKind.PRIORITY_CHANGED),
        (2, EventKind.RUN_CANCELLED),
    ]


def test_ending_a_child_from_outside_locks_its_parent_before_its_budgets(store, url):
    """As in the commit of a holder that ends. Otherwise the two would deadlock over a parent and a
    budget that their runs share."""
    reserve = ReserveBudget(
        run_id="child", generation=1, budgets=("team",), key="k", amounts={"usd": 5}
    )
    store.apply([SetBudget(name="team", limits=Limits({"usd": 100})), reserve])
    with psycopg.connect(url) as db, psycopg.connect(url, autocommit=True) as watcher:
        db.execute(SQL["load_state"], {"run_id": "parent"})

        def look():
            try:
                wait_until(lambda: watcher.execute(WAITS_FOR_A_LOCK).fetchall())
                db.execute("SELECT 1 FROM holdfast.budget_line FOR NO KEY UPDATE NOWAIT")
            finally:
                db.rollback()

        in_threads(look, lambda: store.apply([RequestCancel("child", "enough", force=True)]))

    (line,) = store.budgets.lines(["team"])
    assert (store.runs.get("child").status, line.reserved) == (Status.CANCELLED, 0)


def test_a_budget_is_not_removed_while_a_run_that_names_it_is_being_started(store, url):
    """The removal waits for the start, and then sees its run."""
    store.apply([SetBudget(name="team", limits=Limits({"tokens": 100}))])
    new = NewRun(id="new", route=ROUTE, input=b"[]", budgets=("team",))

    def start():
        with psycopg.connect(url) as db, psycopg.connect(url, autocommit=True) as watcher:
            store.start_within(db, [new])
            started.set()
            wait_until(lambda: watcher.execute(WAITS_FOR_A_LOCK).fetchall())

    started = threading.Event()
    starter = threading.Thread(target=start)
    starter.start()
    assert started.wait(20)
    (answer,) = store.apply([RemoveBudget("team")])
    starter.join()

    assert isinstance(answer, BudgetInUse)
    assert (answer.facts["runs"], store.budgets.get("team") is not None) == ("new", True)
