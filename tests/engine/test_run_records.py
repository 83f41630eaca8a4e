"""The records of runs that an engine returns are plain Python: times, decoded values, enums."""

from __future__ import annotations

import asyncio
import base64
from datetime import UTC, datetime, timedelta

import pytest

from holdfast import AsyncEngine, Engine, sleep, step, wait_signal, workflow
from holdfast.core.codec import JsonCodec
from holdfast.core.status import Status
from holdfast.errors import RunFailed
from holdfast.views.steps import StepState
from tests.engine.waiting import wait_until


@step
async def price(item: str) -> dict[str, int]:
    return {item: 7}


@step(retries=0)
async def refuse() -> None:
    raise ValueError("no such card")


@workflow
async def recorded_order(item: str) -> dict[str, int]:
    await sleep("1ms")
    return await price(item)


@workflow
async def recorded_refusal() -> None:
    await refuse()


@workflow
async def recorded_listener() -> None:
    await wait_signal("go")


@workflow
async def recorded_nap() -> None:
    await sleep("30d")


def test_a_record_has_decoded_values_times_and_enums(database):
    began = datetime.now(UTC) - timedelta(seconds=1)
    with Engine(database) as engine:
        run = engine.start(recorded_order, "tea", tags={"customer": "7"})
        run.result(timeout=20)

        record = run.record

        assert (record.input, record.result, record.error) == (["tea"], {"tea": 7}, None)
        assert record.status is Status.COMPLETED
        assert began <= record.created_at <= record.started_at <= record.finished_at
        assert record.finished_at.tzinfo is UTC
        assert record.tags == {"customer": "7"}


def test_the_error_of_a_record_is_described(database):
    with Engine(database) as engine:
        run = engine.start(recorded_refusal)
        with pytest.raises(RunFailed):
            run.result(timeout=20)

        failed = run.history()[0]

        assert (run.record.error.type, run.record.error.message) == ("ValueError", "no such card")
        assert (failed.kind, failed.error.type, failed.data) == ("step_failed", "ValueError", None)


def test_the_history_has_times_and_decoded_data(database):
    with Engine(database) as engine:
        run = engine.start(recorded_order, "tea")
        run.result(timeout=20)

        timer, fired, priced, ended = run.history()

        assert timer.data["until"] <= fired.at <= priced.at <= ended.at
        assert (priced.step, priced.data) == ("price", {"tea": 7})


def test_the_steps_of_a_run_have_states_and_results(database):
    with Engine(database) as engine:
        run = engine.start(recorded_order, "tea")
        run.result(timeout=20)

        nap, priced = run.steps()

        assert (nap.id, nap.status, nap.result) == ("sleep", StepState.COMPLETED, None)
        assert (priced.name, priced.attempts, priced.result) == ("price", 1, {"tea": 7})
        assert priced.started_at <= priced.finished_at


def test_the_waits_and_the_blockers_of_a_run_have_times(database):
    with Engine(database) as engine:
        run = engine.start(recorded_nap)
        wait_until(engine, lambda: run.status == "waiting")

        (wait,) = run.record.waits
        (timer, *_) = run.why().blockers

        assert wait["until"] == timer.until == run.record.wake_at
        assert timedelta(days=29) < timer.until - datetime.now(UTC) <= timedelta(days=30)


def test_listed_runs_have_their_own_tags_and_the_worker_that_holds_them(database):
    with Engine(database, idle_timeout="1h", name="anna") as engine:
        runs = {
            number: engine.start(recorded_listener, tags={"number": number, "of": "three"})
            for number in ("1", "2")
        }
        ended = engine.start(recorded_order, "tea")
        ended.result(timeout=20)
        for run in runs.values():
            wait_until(engine, lambda run=run: run.status == "waiting")

        listed = {run.id: run for run in engine.runs()}

        for number, run in runs.items():
            assert listed[run.id].tags == {"number": number, "of": "three"}
            assert listed[run.id].worker == "anna"
            assert listed[run.id] == run.record
        assert (listed[ended.id].tags, listed[ended.id].worker) == ({}, None)
        assert listed[ended.id].result == {"tea": 7}


class Base64Codec:
    """JSON in base64: data that is not JSON itself."""

    name = "base64"

    def encode(self, value, label="value"):
        return base64.b64encode(JsonCodec().encode(value, label))

    def decode(self, data, type=object, label="value"):
        return JsonCodec().decode(base64.b64decode(data, validate=True), type, label)


@pytest.mark.sqlite_only  # the PostgreSQL databases of the tests remember another codec
def test_values_are_decoded_by_the_codec_of_the_engine(database):
    with Engine(database, codec=Base64Codec()) as engine:
        run = engine.start(recorded_order, "tea")
        run.result(timeout=20)

        assert (run.record.input, run.record.result) == (["tea"], {"tea": 7})
        assert [event.data for event in run.history() if event.kind == "step_completed"] == [
            {"tea": 7}
        ]
        assert run.steps()[-1].result == {"tea": 7}
        assert engine.runs().first().result == {"tea": 7}


def test_an_async_engine_returns_the_same_records(database):
    async def check() -> None:
        async with AsyncEngine(database) as engine:
            run = await engine.start(recorded_order, "tea")
            await run.result(timeout=20)

            record = await run.record()

            assert record == await engine.runs().first()
            assert [record] == [listed async for listed in engine.runs()]
            assert [step.name for step in await run.steps()] == ["sleep", "price"]
            assert (await run.history())[-1].at == record.finished_at
            assert (await run.why()).status == "completed"

    asyncio.run(check())
