"""A full disk, a stale handle, a hanging session: nothing is lost and nothing half-written."""

from __future__ import annotations

import random
import threading

import pytest

import holdfast
from holdfast import Engine, step, wait_signal, workflow
from holdfast.core.records import Event
from holdfast.errors import CodecMismatch, LeaseLost, RunNotFound, StoreFull
from holdfast.store.contract import Advance, EndSession
from tests.engine.databases import execute
from tests.engine.waiting import wait_for


@step
async def fill(size: int) -> str:
    return random.Random(size).randbytes(size // 2).hex()  # nothing that gets much smaller when it is compressed


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
    db = engine._parts.store._db
    used = db.rows("PRAGMA page_count")[0]["page_count"]
    db.rows(f"PRAGMA max_page_count = {used + extra}")


@pytest.mark.sqlite_only
def test_a_full_disk_stops_a_run_for_as_long_as_it_is_full(engine):
    engine.start(filling, 10).result(timeout=20)
    told = threading.Event()
    import logging

    class Listen(logging.Handler):
        def emit(self, record):
            if "cannot be written" in record.getMessage():
                told.set()

    listener = Listen()
    logging.getLogger("holdfast").addHandler(listener)
    limit_pages(engine, 30)
    run = engine.start(filling, 500_000)
    assert told.wait(20)
    assert run.status == "running"
    assert [event.step for event in run.history()] == ["note"]

    limit_pages(engine, 1_000_000)
    assert run.result(timeout=30) == 2
    assert [event.kind for event in run.history()] == ["step_completed"] * 3 + ["run_completed"]
    logging.getLogger("holdfast").removeHandler(listener)


@pytest.mark.sqlite_only
def test_a_full_disk_refuses_a_start_in_clear_words(engine):
    engine.start(filling, 10).result(timeout=20)
    limit_pages(engine, 2)
    with pytest.raises(StoreFull, match="make room"):
        engine.start(filling, 1, tags={str(n): "x" * 4000 for n in range(50)})
    limit_pages(engine, 1_000_000)
    assert engine.start(filling, 1).result(timeout=20) == 2
    assert len(engine.runs()) == 2


def test_a_stale_handle_says_that_its_run_is_gone(engine):
    run = engine.start(filling, 1)
    run.result(timeout=20)
    assert engine.prune(0) == 1
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
    with Engine(database, lifetime="300ms", workflows=[waiting]) as engine:
        run = engine.start(waiting)
        wait_for(engine, run, "waiting")
        store, session, generation = engine._parts.store, run.record.session_id, run.record.generation
        assert store.apply([EndSession(session, crashed=True)]) == [[run.id]]

        late = Advance(run_id=run.id, generation=generation, events=[Event("step_completed", "late", b"1", seq=9)])
        (refused,) = store.apply([late])
        assert isinstance(refused, LeaseLost)
        engine.signal(run.id, "go", 5)
        assert run.result(timeout=20) == 5
        assert [worker.id for worker in engine.workers()] != [session]
        assert engine.check() == []


def test_a_payload_that_was_tampered_with_is_an_error_not_a_guess(database, engine):
    run = engine.start(filling, 1)
    run.result(timeout=20)
    execute(database, "UPDATE holdfast.run SET result = :result WHERE id = :id", result=b"{nonsense", id=run.id)
    with pytest.raises(holdfast.errors.BadData):
        run.result(timeout=20)


def test_a_tampered_history_makes_a_run_stuck(database, clock):
    with Engine(database, clock=clock) as engine:

        @workflow
        async def flow() -> int:
            await note(1)
            await wait_signal("go")
            return 1

        run = engine.start(flow)
        wait_for(engine, run, "waiting")
    execute(database, "UPDATE holdfast.event SET data = :data WHERE step = 'note'", data=b"{nonsense")
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
