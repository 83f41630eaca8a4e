"""The lab runs workflows in no time, says what it waits for, and the crash harness notices when a
promise is broken."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime

import pytest

from holdfast import Fail, info, sleep, step, sync, wait_signal, workflow
from holdfast.errors import LeaseLost, RunExpired, RunFailed
from holdfast.store.runs.operations import Advance, Advanced
from holdfast.testing import (
    BrokenPromise,
    Lab,
    NeverEnds,
    NotIdle,
    VirtualClock,
    crash_everywhere,
    internals,
)
from tests.store.helpers import wait_until

calls: list[str] = []


@pytest.fixture
def lab():
    calls.clear()
    with Lab() as lab:
        yield lab
        assert lab.engine.database.check() == []


@step
async def note(word: str) -> str:
    calls.append(word)
    return word


@step
def note_blocking(word: str) -> str:
    calls.append(word)
    return word


@step(retries=9, delay="30s", factor=1, jitter=0)
async def third_time_lucky() -> int:
    if info().attempt < 3:
        raise ValueError("not yet")
    return info().attempt


@workflow
async def month() -> str:
    await note("before")
    await sleep("30d")
    return await note("after")


@workflow
def month_blocking() -> str:
    note_blocking("before")
    sync.sleep("30d")
    return note_blocking("after")


@workflow
async def trying() -> int:
    return await third_time_lucky()


@workflow(name="harness_asking")
async def asking() -> str:
    return await wait_signal("answer", type=str)


@workflow
async def endless() -> None:
    while True:
        await sleep("1d")


@workflow(name="harness_failing")
async def failing() -> None:
    await note("before")
    raise Fail("no use")


# The clock


def test_a_lab_does_not_wait_for_the_disk(lab):
    database = internals(lab.engine).store.database

    assert database._db.rows("PRAGMA synchronous")[0]["synchronous"] == 0


def test_the_clock_stands_still_until_it_is_moved():
    clock = VirtualClock(datetime(2030, 1, 1, tzinfo=UTC))
    before = clock.now()

    clock.advance("1h30m")

    assert clock.now() == before + 5_400_000_000
    assert repr(clock) == "<virtual clock at 2030-01-01T01:30:00+00:00>"


def test_the_clock_never_goes_back():
    clock = VirtualClock()
    now = clock.now()

    clock.advance_to(now - 1)
    clock.not_before(now - 1)

    assert clock.now() == now


def test_who_listens_to_the_clock_may_ask_for_the_time_and_stop_listening():
    clock, heard = VirtualClock(), []

    def listen() -> None:
        heard.append(clock.now())
        clock.unlisten(listen)

    clock.listen(listen)
    clock.advance(1)
    clock.advance(1)

    assert len(heard) == 1


# The lab


@pytest.mark.parametrize("shape", [month, month_blocking], ids=lambda shape: shape.name)
def test_a_month_passes_in_no_time(lab, shape):
    began = lab.clock.now()

    assert lab.run_to_end(shape) == "after"

    assert lab.clock.now() - began == 30 * 86_400 * 1_000_000
    assert calls == ["before", "after"]


def test_time_moves_only_when_it_is_told_to(lab):
    run = lab.start(month)
    lab.run_until_idle()
    lab.advance("29d")
    assert (run.status, calls) == ("waiting", ["before"])

    lab.advance("1d")

    assert (run.status, calls) == ("completed", ["before", "after"])


def test_retries_wait_in_virtual_time(lab):
    began = lab.clock.now()

    assert lab.run_to_end(trying) == 3

    assert lab.clock.now() - began == 2 * 30 * 1_000_000


def test_a_signal_ends_a_wait(lab):
    run = lab.start(asking)
    lab.run_until_idle()

    lab.signal(run, "answer", "yes")

    assert lab.finish(run) == "yes"


def test_a_run_that_can_never_end_is_named_with_what_it_waits_for(lab):
    with pytest.raises(NeverEnds, match=r"signal.*answer"):
        lab.run_to_end(asking)


def test_a_run_that_goes_on_for_ever_is_named(lab, monkeypatch):
    monkeypatch.setattr("holdfast.testing.lab.HOPS", 20)

    with pytest.raises(NeverEnds, match="has not ended after"):
        lab.run_to_end(endless)


def test_a_failure_is_raised(lab):
    with pytest.raises(RunFailed, match="no use"):
        lab.run_to_end(failing)


def test_a_deadline_passes_for_a_run_that_is_parked(lab):
    with pytest.raises(RunExpired):
        lab.run_to_end(month, deadline="1h")


def test_the_engine_settles_only_when_steps_in_threads_have_ended(lab):
    gate = threading.Event()

    @step
    def blocked() -> int:
        gate.wait(60)
        return 7

    @workflow
    def blocking() -> int:
        return blocked()

    def is_busy_with_the_step() -> bool:
        with pytest.raises(NotIdle) as busy:
            lab.run_until_idle(timeout=0.05)
        return "runs step blocked" in str(busy.value)

    run = lab.start(blocking)
    wait_until(is_busy_with_the_step)
    gate.set()

    assert lab.finish(run) == 7


def test_a_step_at_work_times_out_when_time_is_moved(lab):
    began = threading.Event()

    @step(timeout="5s")
    async def hanging() -> None:
        began.set()
        await asyncio.Event().wait()

    @workflow
    async def hung() -> None:
        await hanging()

    run = lab.start(hung)
    assert began.wait(60)
    with pytest.raises(NotIdle):
        lab.run_until_idle(timeout=0.05)
    lab.advance("6s")

    with pytest.raises(RunFailed, match="StepTimeout"):
        run.result(timeout=60)


def test_a_lab_survives_a_crash_and_a_restart(lab):
    run = lab.start(month)
    lab.run_until_idle()

    lab.crash()
    lab.advance("1d")
    lab.restart()

    assert lab.finish(run.id) == "after"
    assert calls == ["before", "after"]


def test_a_lab_on_a_path_leaves_its_file(tmp_path):
    with Lab(tmp_path / "kept.db") as lab:
        run = lab.start(month)
        lab.run_until_idle()

    with Lab(tmp_path / "kept.db") as lab:
        assert lab.finish(run.id) == "after"


def test_many_labs_leave_no_open_files():
    def open_files() -> int:
        return len(list(_proc_fds()))

    with Lab() as lab:
        lab.run_until_idle()
    before = open_files()

    for _ in range(20):
        with Lab() as lab:
            lab.run_to_end(month)

    assert open_files() <= before + 2


def _proc_fds():
    from pathlib import Path

    folder = Path("/proc/self/fd")
    if not folder.exists():
        pytest.skip("needs /proc")
    return folder.iterdir()


# The crash harness


def test_the_crash_harness_counts_what_it_tried():
    report = crash_everywhere(month, doubles=2, zombies=False)

    assert report.runs == 2 * report.boundaries + 2
    assert "all came to the same end" in str(report)


def test_a_workflow_that_asks_the_world_is_found_out():
    """Its result depends on how often its code was run, and not on what was recorded."""
    seen: list[int] = []

    @workflow
    async def forgetful() -> int:
        seen.append(1)
        await note("once")
        await sleep("1d")
        return len(seen)

    with pytest.raises(
        BrokenPromise, match=r"forgetful: a crash .* commit .*\n.*undisturbed it came to completed"
    ):
        crash_everywhere(forgetful, setup=seen.clear)


def test_a_step_that_takes_another_turn_after_a_crash_is_found_out():
    """Which step comes next depends on the world: after a crash the history no longer fits."""
    seen: list[int] = []

    @workflow
    async def wavering() -> str:
        seen.append(1)
        word = "odd" if len(seen) % 2 else "even"
        await note.options(id=word)(word)
        await sleep("1d")
        return "done"

    with pytest.raises(BrokenPromise, match="wavering"):
        crash_everywhere(wavering, setup=seen.clear)


def test_a_check_of_the_user_that_fails_is_told_with_the_history():
    def check(lab: Lab) -> None:
        assert len(calls) == 2, f"called {len(calls)} times"

    with pytest.raises(BrokenPromise, match=r"called 3 times[\s\S]*step_completed note"):
        crash_everywhere(month, setup=calls.clear, check=check)


class Forgetful:
    """A store that says it has committed the n-th advance, and has not."""

    def __init__(self, store, lost: int) -> None:
        self._store, self._left = store, lost

    def __getattr__(self, name):
        return getattr(self._store, name)

    def apply(self, batch):
        if any(isinstance(op, Advance) and op.events for op in batch):
            self._left -= 1
            if self._left == 0:
                return [Advanced(now=self._store.now()) for _ in batch]
        return self._store.apply(batch)


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_store_that_loses_a_commit_is_found_out(lost, monkeypatch):
    monkeypatch.setattr(Lab.run_until_idle, "__defaults__", (3.0,))  # it may wait for what was lost
    with pytest.raises(BrokenPromise):
        crash_everywhere(month, setup=calls.clear, wrap=lambda store: Forgetful(store, lost))


class Lenient:
    """A store that does not tell a worker that it has lost its run."""

    def __init__(self, store) -> None:
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    def apply(self, batch):
        answers = self._store.apply(batch)
        return [
            Advanced(now=self._store.now()) if isinstance(answer, LeaseLost) else answer
            for answer in answers
        ]


def test_a_store_that_does_not_refuse_zombies_is_found_out():
    with pytest.raises(
        BrokenPromise, match=r"another worker took over[\s\S]*was still allowed to write"
    ):
        crash_everywhere(month, doubles=0, wrap=Lenient)


def test_the_undos_of_a_run_must_be_made_in_reverse(monkeypatch):
    from holdfast import compensate
    from holdfast.authoring.replay.async_program import AsyncProgram

    @workflow
    async def saga() -> None:
        for word in ("one", "two"):
            await note(word)
            compensate(note, f"not {word}")
        raise Fail("no use")

    async def wrong_order(self) -> None:
        while self.compensations:
            undo = self.compensations.pop(0)
            await self.call(undo.make(undo.id))

    crash_everywhere(saga, doubles=0, zombies=False)
    monkeypatch.setattr(AsyncProgram, "_compensate_all", wrong_order)

    with pytest.raises(BrokenPromise, match="it should have undone"):
        crash_everywhere(saga, doubles=0, zombies=False)
