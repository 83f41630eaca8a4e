"""Very many runs are started, signalled, stopped and taken over in portions."""

from __future__ import annotations

from contextlib import closing

import pytest

import holdfast
from holdfast import workflow
from holdfast.connect.open_store import open_store
from holdfast.core.runs import NewRun, Route
from holdfast.core.sessions import Lane, Session
from holdfast.core.status import Status
from holdfast.errors import LaneDraining, RunCancelled, StartIncomplete
from holdfast.store.lanes.operations import SetLane
from holdfast.store.runs import advance as run_advance
from holdfast.store.runs import cancel as run_cancel
from holdfast.store.runs.operations import Advance, EndSession, Heartbeat, OpenSession, StartRuns
from holdfast.store.store import Store
from holdfast.testing import internals
from tests.engine.very_many.workflows import leaf
from tests.engine.waiting import wait_until


@workflow(name="very_many_mapped")
async def mapped(count: int) -> int:
    return sum(await holdfast.map(leaf, range(count)))


@workflow(name="very_many_gathered")
async def gathered(count: int) -> int:
    return sum(await holdfast.gather(*(leaf(number) for number in range(count))))


@workflow(name="very_many_left_behind")
async def left_behind(count: int) -> int:
    for _ in range(count):
        await holdfast.start(hear_late, 1, delay="1h")
    return count


@workflow(name="very_many_family")
async def family(count: int) -> None:
    await holdfast.map(hear_late, range(count), lane="paused")


@workflow(name="very_many_hear_late")
async def hear_late(number: int) -> None:
    await holdfast.wait_signal("go")


@workflow(name="very_many_listener")
async def listener(count: int) -> int:
    return sum([await holdfast.wait_signal("number") for _ in range(count)])


@pytest.fixture
def events(engine, monkeypatch):
    """How many events each transaction wrote for one run."""
    found = []
    apply = internals(engine).store.apply

    def counted(batch):
        found.extend(len(op.events) for op in batch if isinstance(op, Advance))
        return apply(batch)

    monkeypatch.setattr(internals(engine).store, "apply", counted)
    return found


def test_start_many_starts_parts_that_are_whole(engine, sizes):
    runs = engine.start_many(leaf, range(10))

    assert [run.result(timeout=60) for run in runs] == list(range(10))
    assert [size for size in sizes if size] == [4, 4, 2]


def test_start_many_says_what_was_started_when_a_part_is_refused(engine, monkeypatch):
    store, parts = internals(engine).store, []
    apply = store.apply

    def drain_after_the_first_part(batch):
        parts.extend(op for op in batch if isinstance(op, StartRuns))
        if len(parts) == 2 and any(isinstance(op, StartRuns) for op in batch):
            monkeypatch.setattr(store, "apply", apply)
            apply(
                [SetLane(Lane(name="default", draining=True))]
            )  # by another process: this one is about to commit
        return apply(batch)

    with pytest.raises(LaneDraining):
        engine.lanes.set("closed", draining=True)
        engine.start_many(leaf, range(10), lane="closed")
    monkeypatch.setattr(store, "apply", drain_after_the_first_part)
    with pytest.raises(StartIncomplete) as caught:
        engine.start_many(leaf, range(10))

    assert isinstance(caught.value.__cause__, LaneDraining)
    assert caught.value.facts["started"] == len(caught.value.run_ids) == 4
    assert caught.value.facts["left"] == 6
    assert [engine.run(run_id).result(timeout=60) for run_id in caught.value.run_ids] == [
        0,
        1,
        2,
        3,
    ]


def test_a_map_starts_its_children_in_portions(engine, sizes):
    assert engine.start(mapped, 10).result(timeout=60) == sum(range(10))
    assert max(sizes) == 3
    assert engine.database.check() == []


def test_children_that_are_started_in_one_turn_and_their_ends_are_committed_in_portions(
    engine, sizes, events
):
    run = engine.start(gathered, 20)

    assert run.result(timeout=60) == sum(range(20))
    assert max(sizes) == 3
    assert (
        max(events) <= 3 + 1 + 1
    )  # what was gathered when the portion was full, the next outcome, and the end of the run
    kinds = [event.kind for event in run.history()]
    assert kinds.count("child_started") == kinds.count("child_ended") == 20
    assert engine.database.check() == []


def test_the_end_of_a_parent_stops_its_children_in_portions(engine, monkeypatch):
    stopped = watch_stops(monkeypatch)

    run = engine.start(left_behind, 20)

    assert run.result(timeout=60) == 20
    assert internals(engine).store.runs.counts() == {"completed": 1, "cancelled": 20}
    assert max(stopped) <= 4
    assert engine.database.check() == []


@pytest.mark.parametrize("force", [False, True])
def test_a_tree_is_cancelled_in_portions(engine, monkeypatch, force):
    engine.lanes.set("paused", paused=True)
    store = internals(engine).store
    parent = engine.start(family, 20)
    wait_until(engine, lambda: len(store.children.open(parent.id, 100)) == 20)
    stopped = watch_stops(monkeypatch)

    engine.cancel(parent.id, force=force)

    assert store.children.open(parent.id, 100) == []
    with pytest.raises(RunCancelled):
        parent.result(timeout=60)
    assert max(stopped) <= 4
    assert engine.database.check() == []


def test_a_run_reads_very_many_signals_and_records_them_in_portions(engine, events):
    engine.lanes.set("later", paused=True)
    run = engine.start(listener, 20, lane="later")
    for number in range(20):
        run.signal("number", number)
    engine.lanes.resume("later")

    assert run.result(timeout=60) == sum(range(20))
    assert max(events) <= 3 + 1 + 1


def test_a_session_that_held_very_many_runs_is_ended_in_portions(database):
    with closing(open_store(database)) as store:
        _end_in_portions(store)


def _end_in_portions(store: Store) -> None:
    session = Session(
        id="gone",
        worker="w",
        host="elsewhere",
        pid=1,
        slot=-1,
        started_at=1,
        beat_at=1,
        expires_at=10**16,
        serves=b"{}",
    )
    runs = [
        NewRun(
            id=f"r{number}",
            route=Route("default", "far", "1", "default", ()),
            input=b"[]",
            session_id="gone",
        )
        for number in range(10)
    ]
    store.apply([OpenSession(session), StartRuns(runs)])

    ends, portions = "gone", []
    while ends is not None:
        (freed,) = store.apply([EndSession(ends, crashed=True)])
        assert store.check() == []
        assert store.apply([Heartbeat("gone", 10**9)]) == [False]
        portions.append(len(freed))
        ends = freed.rest

    assert portions == [3, 3, 3, 1]
    assert [session.id for session in store.sessions.all() if session.id.startswith("gone")] == []
    assert {store.runs.get(run.id).status for run in runs} == {Status.PENDING}
    assert {store.runs.get(run.id).generation for run in runs} == {2}


def watch_stops(monkeypatch) -> list[int]:
    """Return how many runs each transaction asks to stop."""
    stopped: list[int] = []
    cancel_children = run_cancel.cancel_children

    def counted(tx, run_id, reason, below=None, **details):
        room = details.pop("room", run_cancel.PORTION)
        left = cancel_children(tx, run_id, reason, below, room=room, **details)
        stopped.append(room - left)
        return left

    monkeypatch.setattr(run_cancel, "cancel_children", counted)
    monkeypatch.setattr(run_advance, "cancel_children", counted)
    return stopped
