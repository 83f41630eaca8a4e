"""A damaged row does not take others along: the counts of all runs, the rates of all shares, the
notifications of all runs of a worker."""

from __future__ import annotations

from contextlib import closing, contextmanager

import msgspec
import pytest

from holdfast import Engine, wait_signal, workflow
from holdfast.connect.open_store import open_store
from holdfast.core.status import Status
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.worker.claimed_runs import Orphans
from holdfast.store.runs.operations import Advance, OpenSession, StartRuns
from holdfast.testing import internals
from tests.engine.databases import execute
from tests.store.helpers import WAITS, advance, new, session


@workflow(name="neighbours_plain", lane="shared")
async def plain() -> int:
    return 1


@workflow(name="neighbours_waiting")
async def waiting() -> object:
    return await wait_signal("go")


BEYOND = 2**63 - 1
"""An instant that no row can hold."""


def test_a_damaged_share_does_not_keep_workers_from_their_work(database):
    with Engine(database, shutdown_timeout=1) as engine:
        engine.lanes.set("shared", rate_per_share="1/h")
        engine.start(plain, id="first", share="a").result(timeout=60)
        engine.start(plain, id="late", share="a")
    execute(database, f"UPDATE holdfast.share SET free_at = {BEYOND} WHERE share = 'a'")

    with Engine(database, shutdown_timeout=1) as engine:
        assert engine.start(plain, id="other", share="b").result(timeout=60) == 1
        assert engine.start(plain, id="none").result(timeout=60) == 1
        execute(database, "DELETE FROM holdfast.share WHERE share = 'a'")
        engine.run("late").cancel()


def test_counts_leave_out_a_run_with_an_unknown_status(database):
    with Engine(database, work=False) as engine:
        for run_id in ("a", "b"):
            engine.start(plain, id=run_id)
        execute(database, "UPDATE holdfast.run SET status = 'x' WHERE id = 'a'")
        store = internals(engine).store

        assert store.runs.counts()["pending"] == 1
        assert store.gauges.live() == {("default", "pending"): 1}
        assert [lane.ready for lane in engine.lanes.list()] == [2]
        execute(database, "UPDATE holdfast.run SET status = 'pending' WHERE id = 'a'")


@pytest.mark.parametrize("damaged", ["before", "after"])
def test_a_damaged_notification_does_not_delay_the_others(tmp_path, damaged):
    # Only SQLite stores bytes in a column of texts.
    database = str(tmp_path / "neighbours.db")
    # An idle timeout beyond that of the test: only a notification can wake the run.
    with (
        Engine(database, shutdown_timeout=1, idle_timeout="1h", session_ttl="1h") as engine,
        Engine(database, work=False) as other,
    ):
        run = engine.start(waiting, id="r1")
        run.wait_until("waiting", timeout=60)
        insert = (
            "INSERT INTO holdfast.run_notification (session_id, run_id)"
            " SELECT id, x'ff' FROM holdfast.session"
        )
        if damaged == "before":
            execute(database, insert)
        other.signal("r1", "go", 7)
        if damaged == "after":
            execute(database, insert)

        assert run.result(timeout=60) == 7
        execute(database, "DELETE FROM holdfast.run_notification WHERE run_id = x'ff'")


def test_a_damaged_orphan_does_not_keep_others_from_their_worker(database):
    with closing(open_store(database)) as store:
        store.apply([OpenSession(session(store))])
        store.apply([StartRuns([new(run_id, session_id="s1") for run_id in ("r1", "r2")])])
        store.apply([advance("r1"), advance("r2")])
        execute(database, "UPDATE holdfast.event SET at = -1 WHERE run_id = 'r1'")
        orphans = Orphans(store, GroupCommit(store), ())
        started = []

        for _ in range(2):
            orphans.recover(
                "s1",
                lambda *route: plain,
                lambda run, history, signals: started.append((run.id, len(history))),
            )

        assert started == [("r2", 1)]


RELEASE = {"type": "release"}
WAIT = {"kind": "wait", "step": "a", "gives_up": None, "on_timeout": "fail", "condition": RELEASE}


@pytest.mark.parametrize("lacking", ["condition", "step"])
def test_a_wait_for_a_condition_that_lacks_a_field_is_named(database, lacking):
    with parked_on(database, {name: WAIT[name] for name in WAIT if name != lacking}) as engine:
        assert any("run: r1, column waits" in line for line in engine.database.check())


@pytest.mark.parametrize("condition", [None, 5, {"type": "unknown"}])
def test_a_run_whose_condition_cannot_be_read_is_set_aside(database, condition):
    with parked_on(database, {**WAIT, "condition": condition}) as engine:
        assert any("run: r1, column waits" in line for line in engine.database.check())

        assert engine.signal("r1", "paid", 1) and engine.signal("r2", "paid", 1)

        assert [engine.run(run_id).status for run_id in ("r1", "r2")] == ["stuck", "pending"]


@contextmanager
def parked_on(database, wait):
    """Yield an engine with two parked runs; the first one is parked on this wait."""
    with Engine(database, work=False) as engine, closing(open_store(database)) as store:
        store.apply([OpenSession(session(store))])
        store.apply([StartRuns([new(run_id, session_id="s1") for run_id in ("r1", "r2")])])
        for run_id in ("r1", "r2"):
            parked = Advance(
                run_id=run_id, generation=1, status=Status.WAITING, waits=WAITS, release=True
            )
            store.apply([parked])
        damage = "UPDATE holdfast.run SET waits = :waits WHERE id = 'r1'"
        execute(database, damage, waits=msgspec.json.encode([wait]))
        yield engine
