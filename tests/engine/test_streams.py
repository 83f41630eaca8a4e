"""What steps and workflows put out while they work, and how it is read."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

import holdfast
from holdfast import AsyncEngine, Engine, Fail, Retry, sleep, step, sync, wait_signal, workflow
from holdfast.core.streams.rules import LARGEST
from holdfast.errors import (
    BadCursor,
    BadOption,
    BadPatch,
    FrameTooBig,
    LeaseLost,
    ResultTimeout,
    RunNotFound,
    StreamClosed,
)
from holdfast.streams import emit, null, progress, stream
from holdfast.testing import internals
from holdfast.testing.crash import crash_everywhere
from tests.engine.waiting import PATIENCE, wait_for, wait_until

go_on = threading.Event()


@step(retries=2, delay="1ms")
async def stutter(words: list[str]) -> int:
    for word in words:
        emit(word, name="word")
    if holdfast.info().attempt == 1:
        raise Retry("once more")
    return len(words)


@workflow(name="streams_stutter")
async def stuttering(words: list[str]) -> int:
    return await stutter(words)


def values(frames):
    return [frame.value for frame in frames]


def test_what_is_put_out_can_be_read_and_a_retry_supersedes_it(engine):
    run = engine.start(stuttering, ["a", "b"])
    frames = list(engine.streams.tail(run.id))

    assert run.result() == 2
    assert [(frame.value, frame.attempt, frame.supersedes) for frame in frames] == [
        ("a", 1, None),
        ("b", 1, None),
        ("a", 2, 1),
        ("b", 2, 1),
    ]
    again = engine.streams.read(run.id)
    assert [frame.superseded_by for frame in again] == [2, 2, None, None]
    assert {(frame.kind, frame.mode, frame.name, frame.step) for frame in again} == {
        ("event", "durable", "word", "stutter")
    }
    assert [
        (each_stream.reason, each_stream.frames) for each_stream in engine.streams.list(run.id)
    ] == [
        ("retried", 2),
        ("completed", 2),
    ]
    assert values(engine.streams.read(run.id, after=1, until=3)) == ["b", "a"]
    assert values(engine.streams.tail(run.id, after=3)) == ["b"]


@step
def busy(n: int) -> None:
    out = stream()
    for number in range(n):
        out.write(f"line {number}\n")
    out.write(b"\x00\xff")
    out.error("oh")
    emit({"n": n})


@workflow(name="streams_placeless")
async def placeless() -> None:
    emit("once")


@workflow(name="streams_busy")
def blocking(n: int) -> None:
    emit("begins")
    busy(n)
    emit("ends")


def test_a_blocking_workflow_puts_out_more_than_fits_into_one_batch(engine):
    run = engine.start(blocking, 12_000)
    frames = list(engine.streams.tail(run.id))

    assert len(engine.streams.read(run.id, limit=10_000)) == 10_000
    assert frames[0].value == "begins"
    assert values(frames[-4:]) == [b"\x00\xff", "oh", {"n": 12_000}, "ends"]
    assert [frame.kind for frame in frames[-4:]] == ["blob", "stderr", "event", "event"]
    (_, lines) = engine.streams.list(run.id)
    (_, stored) = internals(engine).store.streams.of_run(run.id)
    assert (lines.frames, stored.kept["durable"]) == (12_003, 10_000)


@step
async def summarise() -> None:
    summary = stream("summary")
    summary.patch({"done": 0, "files": {"a": "open", "b": "open"}, "owner": null})
    for done in range(1, 101):
        summary.patch({"done": done})
    summary.patch({"files": {"a": None}})


@workflow(name="streams_summary")
async def summing() -> None:
    await summarise()


def test_a_summary_is_the_document_that_its_patches_come_to(engine):
    run = engine.start(summing)
    run.result(timeout=20)

    frames = engine.streams.read(run.id)
    (found,) = engine.streams.list(run.id)
    assert engine.streams.summary(run.id) == {"done": 100, "files": {"b": "open"}, "owner": None}
    assert (found.version, found.frames, len(frames)) == (102, 102, 64)
    assert frames[-1].version == 102
    assert engine.streams.summary(run.id, step="other") is None


@step
async def chatter(n: int) -> None:
    tokens = stream("best_effort", ttl="1s")
    emit("kept")
    for number in range(n):
        tokens.write(str(number))


@workflow(name="streams_chatter")
async def chattering(n: int) -> None:
    await chatter(n)


def test_best_effort_keeps_the_last_ones_and_leaves_what_is_durable(engine):
    run = engine.start(chattering, 20_000)
    run.result(timeout=60)

    frames = engine.streams.read(run.id, limit=10_000)
    (found,) = internals(engine).store.streams.of_run(run.id)
    assert frames[0].value == "kept"
    assert 64 <= found.kept["best_effort"] <= 16_384
    assert values(engine.streams.read(run.id, best_effort=False)) == ["kept"]


@step
async def measured() -> None:
    progress(10, "begins")
    progress(50)


@workflow(name="streams_progress")
async def progressing() -> None:
    progress(5, "prepares")
    await measured()
    await wait_signal("go")
    progress(message="done")


def test_progress_is_what_was_said_last_and_a_replay_does_not_take_it_back(database):
    with Engine(database, shutdown_timeout=1) as engine:
        run = engine.start(progressing)
        wait_for(engine, run, "waiting")
        assert (
            engine.streams.progress(run.id).percent,
            engine.streams.progress(run.id).message,
        ) == (
            50.0,
            "begins",
        )
    with Engine(database, shutdown_timeout=1) as engine:
        engine.signal(run.id, "go")
        engine.run(run.id).result(timeout=20)
        assert (
            engine.streams.progress(run.id).percent,
            engine.streams.progress(run.id).message,
        ) == (50.0, "done")
        assert engine.database.check() == []


@workflow(name="streams_code")
async def talkative() -> str:
    emit("one")
    await sleep("1ms")
    emit("two")
    await wait_signal("go")
    stream("summary").patch({"three": 3})
    return "done"


def test_what_the_code_says_is_said_once_however_often_it_is_replayed(database):
    with Engine(database, shutdown_timeout=1) as engine:
        run = engine.start(talkative)
        wait_for(engine, run, "waiting")
    for _ in range(2):
        with Engine(database, shutdown_timeout=1, idle_timeout=0) as engine:
            engine.signal(run.id, "nothing")
    with Engine(database, shutdown_timeout=1) as engine:
        engine.signal(run.id, "go")
        assert engine.run(run.id).result(timeout=20) == "done"
        assert values(engine.streams.read(run.id)) == ["one", "two", {"three": 3}]
        assert [
            (each_stream.reason, each_stream.generation)
            for each_stream in engine.streams.list(run.id)
        ] == [("completed", 0)]
        engine.replay(run.id)
        wait_until(
            engine,
            lambda: (
                engine.run(run.id).status == "completed" and len(engine.streams.read(run.id)) == 6
            ),
        )
        assert [frame.supersedes for frame in engine.streams.read(run.id)] == [None] * 3 + [1] * 3
        assert engine.database.check() == []


@step
async def hold_on() -> None:
    emit("before")
    while not go_on.is_set():
        await sleep("5ms")
    emit("after")


@workflow(name="streams_patient")
async def patient() -> None:
    await hold_on()


def test_a_tail_sees_what_a_step_puts_out_while_it_still_runs(engine):
    go_on.clear()
    run = engine.start(patient)
    tail = engine.streams.tail(run.id)

    assert next(tail).value == "before"
    assert run.status == "running"
    with pytest.raises(ResultTimeout):
        list(engine.streams.tail(run.id, after=1, timeout="20ms"))
    go_on.set()
    assert values(tail) == ["after"]


def test_a_coroutine_can_tail_too(database):
    async def main():
        async with AsyncEngine(database, shutdown_timeout=1) as engine:
            run = await engine.start(stuttering, ["a"])
            return [frame.value async for frame in engine.streams.tail(run.id)], (
                await engine.streams.list(run.id)
            )[-1].reason

    assert asyncio.run(main()) == (["a", "a"], "completed")


def test_a_stale_worker_puts_nothing_out(database):
    go_on.clear()
    refused = []

    @step
    async def linger_on() -> None:
        emit("mine")
        while not go_on.is_set():
            await sleep("5ms")
        for _ in range(200):
            try:
                emit("no longer mine")
            except LeaseLost as error:
                refused.append(error)
                return
            await sleep("5ms")

    @workflow(name="streams_stale")
    async def stale() -> None:
        await linger_on()

    with Engine(database, shutdown_timeout=1, workflows=[stale]) as engine:
        run = engine.start(stale)
        next(engine.streams.tail(run.id))
        engine.cancel(run.id, force=True)
        go_on.set()
        wait_until(
            engine,
            lambda: (
                "no longer mine" not in values(engine.streams.read(run.id))
                and engine.run(run.id).status == "cancelled"
            ),
        )
        assert values(engine.streams.read(run.id)) == ["mine"]
        assert [each_stream.reason for each_stream in engine.streams.list(run.id)] == ["cancelled"]
        assert engine.database.check() == []


# What cannot be


@step
async def misuse(how: str) -> None:
    if how == "big":
        emit("x" * LARGEST)
    elif how == "patch":
        stream("summary").patch([1])
    else:
        emit(object())


@workflow(name="streams_misuse")
async def misusing(how: str) -> str:
    try:
        await misuse(how)
    except holdfast.HoldfastError as error:
        return error.facts["type"]
    return ""


@pytest.mark.parametrize(
    ("how", "kind"), [("big", "FrameTooBig"), ("patch", "BadPatch"), ("object", "NotEncodable")]
)
def test_what_cannot_be_put_out_is_refused_by_name_and_nothing_is_written(engine, how, kind):
    run = engine.start(misusing, how)

    assert run.result(timeout=20) == kind
    assert engine.streams.read(run.id) == []
    assert {FrameTooBig.__name__, BadPatch.__name__, "NotEncodable"} >= {kind}


@pytest.mark.parametrize(
    "call",
    [
        lambda: stream("never"),
        lambda: stream(keep=0),
        lambda: stream("best_effort", keep=5),
        lambda: stream(ttl="0s"),
        lambda: stream().write(5),
        lambda: stream().patch({}),
        lambda: progress(101),
        lambda: progress(message=5),
    ],
)
def test_options_that_make_no_sense_are_refused(call):
    with pytest.raises(BadOption):
        call()


def test_outside_a_run_nothing_happens():
    emit("x")
    progress(5)
    assert stream().write("abc") == 3
    stream("summary").patch({"a": 1})


def test_reading_is_refused_in_clear_words(engine):
    with pytest.raises(RunNotFound):
        engine.streams.read("none")
    with pytest.raises(RunNotFound):
        engine.streams.tail("none")
    run = engine.start(stuttering, [])
    for wrong in ({"limit": 0}, {"limit": 10_001}, {"limit": "5"}):
        with pytest.raises(BadOption):
            engine.streams.read(run.id, **wrong)
    with pytest.raises(BadOption):
        engine.streams.tail(run.id, after=-1)


@pytest.mark.sqlite_only
def test_a_thread_that_goes_on_after_its_step_has_ended_puts_nothing_out(database, clock):
    began, refused = threading.Event(), threading.Event()

    @step(timeout="500ms")
    def slow() -> None:
        emit("in time")
        began.set()
        while not refused.is_set():
            try:
                emit("late")
            except StreamClosed:
                refused.set()
            refused.wait(0.005)

    @workflow(name="streams_slow")
    async def slowly() -> str:
        try:
            await slow()
        except holdfast.HoldfastError:
            await wait_signal("go")
        return "done"

    with Engine(database, clock=clock, workflows=[slowly], session_ttl="36500d") as engine:
        run = engine.start(slowly)
        assert began.wait(PATIENCE)
        clock.advance("500ms")
        assert refused.wait(PATIENCE)
        run.signal("go")
        assert run.result(timeout=PATIENCE) == "done"
        assert engine.streams.list(run.id)[0].reason == "failed"


# Printing and logging


@step(capture=True)
def prints() -> None:
    print("to", "stdout")  # noqa: T201
    print("half", end="")  # noqa: T201
    logging.getLogger("shop").warning("only %d left", 3)


@step
async def prints_not() -> None:
    print("elsewhere")  # noqa: T201


@workflow(name="streams_prints")
async def printing() -> None:
    await prints.aio()
    await prints_not()


def test_what_a_step_prints_and_logs_is_its_output_if_it_wants(engine, capsys):
    run = engine.start(printing)
    run.result(timeout=20)

    log = {"level": "WARNING", "logger": "shop", "message": "only 3 left"}
    assert sorted((frame.kind, str(frame.value)) for frame in engine.streams.read(run.id)) == [
        ("event", str(log)),
        ("stdout", "half"),
        ("stdout", "to stdout"),
    ]
    assert "to stdout" in capsys.readouterr().out


def test_an_engine_can_capture_what_all_steps_print(database):
    with Engine(database, capture=True, shutdown_timeout=1) as engine:
        run = engine.start(printing)
        run.result(timeout=20)

        assert values(engine.streams.read(run.id, step="prints_not")) == ["elsewhere"]


@step(transactional=True)
def enter() -> int:
    emit("entered")
    if holdfast.info().attempt == 1:
        raise Fail("no")
    return 1


@workflow(name="streams_transactional")
async def entering() -> str:
    try:
        await enter()
    except holdfast.HoldfastError:
        return "refused"
    return "entered"


def test_a_transactional_step_that_fails_shows_what_it_has_put_out(engine):
    run = engine.start(entering)

    assert run.result(timeout=20) == "refused"
    assert values(engine.streams.read(run.id)) == ["entered"]
    assert engine.streams.list(run.id)[0].reason == "failed"


# Killed at every commit


@step
async def speak(n: int) -> int:
    for place in range(n):
        emit(place)
        stream("summary").patch({"place": place})
        stream("best_effort").write(str(place))
        await sleep(0)
    return n


@step(transactional=True)
def record(n: int) -> int:
    emit(f"recorded {n}")
    return n


@workflow(name="streams_crash")
async def speaking(n: int) -> int:
    emit("begins")
    spoken = await speak(n)
    emit("has spoken")
    await sleep("1h")
    await record(n)
    emit("ends")
    return spoken


@workflow(name="streams_crash_sync")
def speaking_plainly(n: int) -> int:
    emit("begins")
    sync.sleep("1h")
    emit("ends")
    return n


def judge(lab):
    (run,) = list(lab.engine.runs())
    frames = lab.engine.streams.read(run.id)
    code = [frame.value for frame in frames if frame.generation == 0]
    valid = [frame for frame in frames if frame.generation and frame.superseded_by is None]
    assert code == ["begins", "has spoken", "ends"]
    assert [
        frame.value for frame in valid if frame.step == "speak" and frame.mode == "durable"
    ] == [0, 1, 2]
    assert [frame.value for frame in valid if frame.step == "record"] == ["recorded 3"]
    assert lab.engine.streams.summary(run.id, step="speak") == {"place": 2}
    assert all(each_stream.closed_at is not None for each_stream in lab.engine.streams.list(run.id))


@pytest.mark.parametrize("window", ["0s", "10ms"])
def test_output_survives_a_crash_at_every_commit(window):
    crash_everywhere(speaking, 3, engine={"stream_window": window}, check=judge, doubles=3)


def test_a_blocking_workflow_says_everything_once_whatever_crashes():
    def judge_code(lab):
        (run,) = list(lab.engine.runs())
        assert values(lab.engine.streams.read(run.id)) == ["begins", "ends"]

    crash_everywhere(
        speaking_plainly, 3, engine={"stream_window": "0s"}, check=judge_code, doubles=3
    )


@pytest.mark.parametrize("place", [-1, "7", True, 1.5, 2**70])
def test_what_is_no_place_in_the_output_of_a_run_is_refused(database, place):
    with Engine(database) as engine:
        run = engine.start(placeless)
        run.result(timeout=20)
        for read in (
            lambda: engine.streams.read(run.id, after=place),
            lambda: engine.streams.tail(run.id, after=place),
        ):
            with pytest.raises(BadOption, match="seq"):
                read()
        with pytest.raises(BadOption, match="seq"):
            engine.streams.read(run.id, until=place)


def test_a_place_from_the_output_of_another_run_is_refused(database):
    with Engine(database) as engine:
        run = engine.start(placeless)
        run.result(timeout=20)
        assert [frame.seq for frame in engine.streams.read(run.id, after=1)] == []
        for read in (engine.streams.read, engine.streams.tail):
            with pytest.raises(BadCursor, match="1 frames"):
                read(run.id, after=2)
