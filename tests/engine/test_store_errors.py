"""A full disk, a stale handle, a hanging session: nothing is lost and nothing half-written."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import threading
from contextlib import contextmanager

import pytest

import holdfast
from holdfast import AsyncEngine, Engine, info, step, sync, wait_signal, workflow
from holdfast.budgets import record, reserve, spend
from holdfast.core.events import Event
from holdfast.errors import (
    CodecMismatch,
    LeaseLost,
    RunNotFound,
    StoreError,
    StoreFull,
    StoreGone,
    StoreUnavailable,
)
from holdfast.store.runs.operations import Advance, EndSession
from holdfast.store.streams.operations import AppendFrames, AppendOutput
from holdfast.testing import internals
from tests.engine.databases import execute
from tests.engine.waiting import wait_for


@step
async def fill(size: int) -> str:
    return (
        random.Random(size).randbytes(size // 2).hex()
    )  # nothing that gets much smaller when it is compressed


@step
async def note(n: int) -> int:
    return n


@workflow
async def filling(size: int) -> int:
    await note(1)
    await fill(size)
    return await note(2)


@workflow
async def waiting() -> object:
    return await wait_signal("go")


def limit_pages(engine, extra):
    """Let the file grow by so many pages and no more, as if the disk were full then."""
    database = internals(engine).store.database
    # Without the lock, this thread and the worker's would wait for each other: SQLite calls Python
    # while it holds its own lock.
    with database._lock:
        used = database._db.rows("PRAGMA page_count")[0]["page_count"]
        database._db.rows(f"PRAGMA max_page_count = {used + extra}")


@contextmanager
def logged(text):
    """Yield an event that is set when Holdfast logs a message with that text."""
    found = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record):
            if text in record.getMessage():
                found.set()

    listener = Listener()
    logger = logging.getLogger("holdfast")
    logger.addHandler(listener)
    try:
        yield found
    finally:
        logger.removeHandler(listener)


@contextmanager
def disk_full_for_reservations(engine, database):
    """Let every new reservation find a full disk, while all other writes find room."""
    if not database.startswith("postgresql:"):
        execute(database, "CREATE TABLE ballast (data BLOB)")
        execute(
            database,
            "CREATE TRIGGER disk_full BEFORE INSERT ON holdfast.reservation"
            " BEGIN INSERT INTO ballast VALUES (zeroblob(1000000)); END",
        )
        limit_pages(engine, 30)
        yield
        limit_pages(engine, 1_000_000)
        return
    execute(
        database,
        "CREATE FUNCTION holdfast.disk_full() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$",
    )
    execute(
        database,
        "CREATE TRIGGER disk_full BEFORE INSERT ON holdfast.reservation FOR EACH ROW EXECUTE"
        " FUNCTION holdfast.disk_full()",
    )
    try:
        yield
    finally:
        execute(
            database, "DROP FUNCTION holdfast.disk_full CASCADE"
        )  # the next test uses the same database


@pytest.mark.sqlite_only
def test_a_full_disk_stops_a_run_for_as_long_as_it_is_full(engine):
    engine.start(filling, 10).result(timeout=20)
    limit_pages(engine, 30)
    with logged("cannot be written") as told:
        run = engine.start(filling, 500_000)
        assert told.wait(20)
    assert run.status == "running"
    assert [event.step for event in run.history()] == ["note"]

    limit_pages(engine, 1_000_000)
    assert run.result(timeout=30) == 2
    assert [event.kind for event in run.history()] == ["step_completed"] * 3 + ["run_completed"]


@step(retries=0)
async def reserving() -> int:
    async with reserve(tokens=5):
        spend(tokens=3)
    return 3


@step(retries=0)
def reserving_in_a_thread() -> int:
    with reserve(tokens=5):
        sync.budgets.spend(tokens=3)
    return 3


@workflow
async def reserving_run() -> int:
    return await reserving()


@workflow
def reserving_run_in_a_thread() -> int:
    return reserving_in_a_thread()


@pytest.mark.parametrize("work", [reserving_run, reserving_run_in_a_thread])
def test_a_full_disk_delays_a_reservation_and_fails_nothing(engine, database, work):
    with disk_full_for_reservations(engine, database), logged("cannot reserve amounts") as told:
        run = engine.start(work, budget={"tokens": 10})
        assert told.wait(20)
        assert run.status == "running"
        assert run.history() == []

    assert run.result(timeout=30) == 3
    assert [event.kind for event in run.history()] == ["step_completed", "run_completed"]
    assert engine.budgets.usage(run.id).total == {"tokens": 3}


@step(retries=0)
async def reserving_on_the_loop() -> int:
    record(tokens=1, key="once")
    with reserve(tokens=5):
        spend(tokens=3)
    return info().attempt


@workflow
async def reserving_on_the_loop_run() -> int:
    return await reserving_on_the_loop()


def test_a_plain_reservation_on_a_loop_repeats_its_attempt_which_does_not_count(engine, database):
    with disk_full_for_reservations(engine, database), logged("cannot reserve amounts") as told:
        run = engine.start(reserving_on_the_loop_run, budget={"tokens": 10})
        assert told.wait(20)
        assert run.status == "running"

    assert run.result(timeout=30) == 1
    assert [event.kind for event in run.history()] == ["step_completed", "run_completed"]
    assert engine.budgets.usage(run.id).total == {"tokens": 4}


def test_the_same_on_the_loop_of_a_program(database):
    async def main():
        async with AsyncEngine(database, shutdown_timeout=1) as engine:
            with (
                disk_full_for_reservations(engine, database),
                logged("cannot reserve amounts") as told,
            ):
                run = await engine.start(reserving_on_the_loop_run, budget={"tokens": 10})
                assert await asyncio.to_thread(told.wait, 20)
            return await run.result(timeout=30)

    assert asyncio.run(main()) == 1


@step(retries=0)
async def giving_up_a_reservation() -> str:
    try:
        with reserve(tokens=5):
            return "reserved"
    except StoreError:
        return "caught"


@workflow
async def giving_up_a_reservation_run() -> str:
    return await giving_up_a_reservation()


def test_a_step_may_handle_the_error_of_its_reservation(engine, database):
    with disk_full_for_reservations(engine, database):
        run = engine.start(giving_up_a_reservation_run, budget={"tokens": 10})

        assert run.result(timeout=30) == "caught"


@pytest.mark.sqlite_only
@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_a_deleted_file_refuses_starts_and_stops_the_worker(database, suffix, caplog):
    with Engine(database, shutdown_timeout=0.1) as engine:
        acknowledged = engine.start(filling, 10)
        assert acknowledged.result(timeout=20) == 2
        os.rename(database + suffix, f"{database}.away")

        with pytest.raises(StoreGone, match="was deleted or moved"):
            engine.start(filling, 1)
        with pytest.raises(StoreGone):
            engine.run(acknowledged.id).status  # noqa: B018
    assert "was deleted or moved" in caplog.text
    assert not os.path.exists(f"{database}{suffix}")  # no empty file took its place
    if suffix == "":
        os.rename(f"{database}.away", database)
    again = Engine(database)
    assert again.run(acknowledged.id).status == "completed"
    assert again.database.check() == []
    again.close()


@pytest.mark.sqlite_only
def test_a_full_disk_refuses_a_start_in_clear_words(engine):
    engine.start(filling, 10).result(timeout=20)
    limit_pages(engine, 2)
    with pytest.raises(StoreFull, match="make room"):
        engine.start(filling, 1, tags={str(n): "x" * 4000 for n in range(50)})
    limit_pages(engine, 1_000_000)
    assert engine.start(filling, 1).result(timeout=20) == 2
    assert engine.runs().count() == 2


def test_a_stale_handle_says_that_its_run_is_gone(engine):
    run = engine.start(filling, 1)
    run.result(timeout=20)
    assert engine.retention.prune(0) == 1
    with pytest.raises(RunNotFound):
        run.result(timeout=20)
    with pytest.raises(RunNotFound):
        run.cancel()


def test_a_second_engine_with_another_codec_is_refused(database, engine):
    class Other(holdfast.core.codec.JsonCodec):
        name = "other"

    with pytest.raises(CodecMismatch, match="other"):
        Engine(database, codec=Other())
    assert engine.start(filling, 1).result(timeout=20) == 2


def test_a_session_that_was_taken_over_loses_its_runs_and_begins_anew(database):
    with Engine(database, session_ttl="300ms", workflows=[waiting]) as engine:
        run = engine.start(waiting)
        wait_for(engine, run, "waiting")
        store, session, generation = (
            internals(engine).store,
            run.record.session_id,
            run.record.generation,
        )
        assert store.apply([EndSession(session, crashed=True)]) == [[run.id]]

        late = Advance(
            run_id=run.id,
            generation=generation,
            events=[Event("step_completed", "late", b"1", seq=9)],
        )
        (refused,) = store.apply([late])
        assert isinstance(refused, LeaseLost)
        engine.signal(run.id, "go", 5)
        assert run.result(timeout=20) == 5
        assert [worker.session for worker in engine.workers.list()] != [session]
        assert engine.database.check() == []


def test_a_payload_that_was_tampered_with_is_an_error_not_a_guess(database, engine):
    run = engine.start(filling, 1)
    run.result(timeout=20)
    update = "UPDATE holdfast.run SET result = :result WHERE id = :id"
    execute(database, update, result=b"{nonsense", id=run.id)

    with pytest.raises(holdfast.errors.BadData):
        run.result(timeout=20)
    (finding,) = engine.database.check()
    assert f"{run.id}, column result" in finding

    execute(database, update, result=b"2", id=run.id)


def test_a_tampered_history_makes_a_run_stuck(database, clock):
    with Engine(database, clock=clock) as engine:

        @workflow
        async def flow() -> int:
            await note(1)
            await wait_signal("go")
            return 1

        run = engine.start(flow)
        wait_for(engine, run, "waiting")
    execute(
        database, "UPDATE holdfast.event SET data = :data WHERE step = 'note'", data=b"{nonsense"
    )
    with Engine(database, clock=clock, workflows=[flow]) as engine:
        engine.signal(run.id, "go")
        with pytest.raises(holdfast.errors.RunStuck, match="note"):
            engine.run(run.id).result(timeout=20)


def test_a_result_that_breaks_its_own_promise_fails_the_step(engine):
    @step(retries=3, delay="1ms")
    async def lie() -> int:
        return "seven"  # type: ignore[return-value]

    @workflow
    async def believe() -> int:
        return await lie()

    with pytest.raises(holdfast.errors.RunFailed, match="WrongType"):
        engine.start(believe).result(timeout=20)


BEGUN, GO_ON = threading.Event(), threading.Event()


@step(name="trouble.slow")
def slow() -> int:
    BEGUN.set()
    assert GO_ON.wait(20)
    return 1


@workflow(name="trouble.surprised")
async def surprised() -> int:
    return await slow()


def test_a_history_with_a_line_that_its_holder_does_not_know_is_read_again(engine, database):
    BEGUN.clear()
    GO_ON.clear()
    run = engine.start(surprised)
    assert BEGUN.wait(20)
    execute(
        database,
        "INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, data, at)"
        " VALUES (:run_id, 1, 'step_completed', 'trouble.slow', 1, :data, 1)",
        run_id=run.id,
        data=b"7",
    )
    GO_ON.set()

    assert run.result(timeout=20) == 7
    assert [event.kind for event in run.history()] == ["step_completed", "run_completed"]


append_failed = threading.Event()
both_emitted = threading.Event()


@step
async def emit_twice() -> int:
    holdfast.streams.emit(1)
    await asyncio.to_thread(append_failed.wait)
    holdfast.streams.emit(2)
    both_emitted.set()
    if info().generation == 1:
        await asyncio.Event().wait()
    return 2


@workflow
async def emitting() -> int:
    return await emit_twice()


def test_output_that_waits_for_the_store_is_written_before_the_run_is_released(engine, monkeypatch):
    store = internals(engine).store
    apply, glance = store.apply, store.runs.update
    failures = iter(range(5))
    append_failed.clear()
    both_emitted.clear()

    def fail_first_appends(batch):
        if any(isinstance(op, AppendFrames) for op in batch) and next(failures, None) is not None:
            append_failed.set()
            raise StoreUnavailable(reason="the store is in trouble")
        return apply(batch)

    def fail_once(run_id):
        monkeypatch.setattr(store.runs, "update", glance)
        raise StoreUnavailable(reason="the store is in trouble")

    monkeypatch.setattr(store, "apply", fail_first_appends)
    run = engine.start(emitting)
    assert both_emitted.wait(20)
    monkeypatch.setattr(store.runs, "update", fail_once)
    worker = internals(engine).worker
    worker.loop.call_soon_threadsafe(worker.executions[run.id].notify)

    assert run.result(timeout=30) == 2
    streams = {}
    for frame in engine.streams.read(run.id):
        streams.setdefault(frame.stream, []).append(frame.value)
    assert list(streams.values()) == [[1, 2], [1, 2]]


commit_failed = threading.Event()
commit_done = threading.Event()


@step
async def emit_around_the_trouble() -> int:
    holdfast.streams.emit(1)
    await asyncio.to_thread(commit_failed.wait)
    holdfast.streams.emit(2)
    await asyncio.to_thread(commit_done.wait)
    return 1


@step
async def end_at_once() -> int:
    return 2


@workflow
async def emitting_beside() -> list[int]:
    return list(await holdfast.gather(emit_around_the_trouble(), end_at_once()))


def test_output_does_not_overtake_a_commit_that_carries_earlier_output(engine, monkeypatch):
    store = internals(engine).store
    apply = store.apply
    failures = iter(range(3))
    commit_failed.clear()
    commit_done.clear()

    def fail_first_commits(batch):
        carries_output = any(isinstance(op, Advance) and op.of(AppendOutput) for op in batch)
        if carries_output and next(failures, None) is not None:
            commit_failed.set()
            raise StoreUnavailable(reason="the store is in trouble")
        answers = apply(batch)
        if carries_output:
            commit_done.set()
        return answers

    monkeypatch.setattr(store, "apply", fail_first_commits)
    run = engine.start(emitting_beside)

    assert run.result(timeout=30) == [1, 2]
    assert [frame.value for frame in engine.streams.read(run.id)] == [1, 2]


def test_the_crash_limit_of_a_worker_applies_when_something_else_ends_its_session(database):
    BEGUN.clear()
    GO_ON.clear()
    with Engine(database, crash_limit=1, workflows=[surprised]) as engine:
        run = engine.start(surprised)
        assert BEGUN.wait(20)
        internals(engine).store.apply([EndSession(run.record.session_id, crashed=True)])

        assert run.status == "stuck"
        GO_ON.set()
