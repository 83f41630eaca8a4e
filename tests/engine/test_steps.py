"""Steps: recorded, retried, timed, typed."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import enum
import threading
import uuid
from datetime import UTC, datetime, timedelta

import msgspec
import pydantic
import pytest

import holdfast
from holdfast import AsyncEngine, Engine, Fail, Retry, step, workflow
from holdfast.errors import (
    BadOption,
    EngineClosed,
    LeaseLost,
    NotEncodable,
    RunCancelled,
    RunFailed,
    StepFailed,
    StoreBusy,
    StoreGone,
    WriteConflict,
    WrongType,
)
from holdfast.testing import internals
from tests.engine.databases import execute
from tests.engine.waiting import PATIENCE, wait_until


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Order(msgspec.Struct):
    id: uuid.UUID
    due: datetime


class Person(pydantic.BaseModel):
    name: str
    born: datetime


def test_a_step_is_just_called_outside_a_run():
    @step(retries=3)
    def double(n: int) -> int:
        return 2 * n

    assert double(4) == 8


def test_an_async_step_is_just_awaited_outside_a_run():
    @step
    async def double(n: int) -> int:
        return 2 * n

    assert asyncio.run(double(4)) == 8


def test_a_workflow_calls_steps_of_both_colours(engine):
    @step
    def plain(n: int) -> int:
        return n + 1

    @step
    async def coloured(n: int) -> int:
        return n * 10

    @workflow
    async def both(n: int) -> int:
        return await coloured(await plain(n))

    @workflow
    def both_blocking(n: int) -> int:
        return coloured.sync(plain(n))

    assert engine.start(both, 1).result(timeout=20) == 20
    assert engine.start(both_blocking, 1).result(timeout=20) == 20


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Point, Point(1, 2)),
        (Order, Order(uuid.UUID(int=7), datetime(2026, 1, 2, tzinfo=UTC))),
        (Person, Person(name="Ada", born=datetime(1815, 12, 10, tzinfo=UTC))),
        (Colour, Colour.RED),
        (bytes, b"\x00\xff"),
        (tuple[int, str], (1, "a")),
        (set[int], {1, 2}),
        (timedelta, timedelta(days=2)),
        (list[Point], [Point(1, 2)]),
        (dict[str, Person], {"a": Person(name="Ada", born=datetime(1815, 12, 10, tzinfo=UTC))}),
    ],
)
def test_arguments_and_results_keep_their_annotated_types(engine, kind, value):
    def echo(it):
        assert type(it) is type(value)
        return it

    echo.__annotations__ = {"it": kind, "return": kind}
    echoing = step(name="echoing")(echo)

    async def pass_on(it):
        return await echoing.aio(it)

    pass_on.__annotations__ = {"it": kind, "return": kind}

    assert engine.start(workflow(pass_on), value).result(timeout=20) == value


def test_an_argument_that_cannot_be_stored_is_refused_by_name_before_anything_runs(engine):
    @workflow
    async def anything(it: object) -> None: ...

    with pytest.raises(NotEncodable, match=r"it.*lock"):
        engine.start(anything, {"items": [1, threading.Lock()]})
    assert list(engine.runs()) == []


def test_an_argument_of_the_wrong_type_is_refused_before_anything_runs(engine):
    @workflow
    async def typed(n: int) -> None: ...

    with pytest.raises(WrongType, match=r"typed\(\)"):
        engine.start(typed, "seven")
    with pytest.raises(WrongType):
        engine.start(typed)
    assert list(engine.runs()) == []


def test_a_result_that_cannot_be_stored_fails_the_step_without_retries(engine):
    calls = []

    @step(retries=3, delay="1ms")
    async def bad():
        calls.append(1)
        return threading.Lock()

    @workflow
    async def use() -> None:
        await bad()

    with pytest.raises(RunFailed) as failure:
        engine.start(use).result(timeout=20)
    assert "NotEncodable" in str(failure.value) and calls == [1]


def test_a_failing_step_is_tried_again(engine):
    attempts = []

    @step(retries=3, delay="1ms", jitter=0)
    async def flaky() -> int:
        attempts.append(holdfast.info().attempt)
        if len(attempts) < 3:
            raise ConnectionError("not yet")
        return 7

    @workflow
    async def patient() -> int:
        return await flaky()

    run = engine.start(patient)
    assert run.result(timeout=20) == 7
    assert attempts == [1, 2, 3]
    assert [event.kind for event in run.history()] == [
        "step_retried",
        "step_retried",
        "step_completed",
        "run_completed",
    ]


@pytest.mark.parametrize("blocking", [False, True])
def test_a_step_that_keeps_failing_fails_its_workflow(engine, blocking):
    @step(retries=1, delay="1ms")
    def broken() -> None:
        raise ValueError("no good")

    if blocking:

        @workflow(name="hopeless")
        def hopeless() -> str:
            try:
                broken()
            except StepFailed as error:
                return f"{error.facts['type']} {error.facts['attempts']}"
            return ""
    else:

        @workflow(name="hopeless")
        async def hopeless() -> str:
            try:
                await broken.aio()
            except StepFailed as error:
                return f"{error.facts['type']} {error.facts['attempts']}"
            return ""

    assert engine.start(hopeless).result(timeout=20) == "ValueError 2"


def test_only_errors_that_the_predicate_names_are_retried(engine):
    calls = []

    @step(retries=5, delay="1ms", when=lambda error: isinstance(error, ConnectionError))
    async def picky() -> None:
        calls.append(1)
        raise ValueError if len(calls) > 1 else ConnectionError

    @workflow
    async def use() -> None:
        await picky()

    with pytest.raises(RunFailed, match="ValueError"):
        engine.start(use).result(timeout=20)
    assert len(calls) == 2


def test_fail_is_not_retried_and_retry_is_retried_even_without_a_policy(engine):
    calls = {"fail": 0, "retry": 0}

    @step(retries=5, delay="1ms")
    async def failing() -> None:
        calls["fail"] += 1
        raise Fail("no use")

    @step
    async def retrying() -> int:
        calls["retry"] += 1
        if calls["retry"] < 3:
            raise Retry("busy", after="1ms")
        return calls["retry"]

    @workflow
    async def use() -> int:
        count = await retrying()
        await failing()
        return count

    with pytest.raises(RunFailed, match="no use"):
        engine.start(use).result(timeout=20)
    assert calls == {"fail": 1, "retry": 3}


def test_a_timeout_interrupts_an_async_step(engine):
    seen = []

    @step(timeout="20ms")
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("interrupted")
            raise

    @workflow
    async def use() -> str:
        try:
            await slow()
        except StepFailed as error:
            return str(error.facts["type"])
        return ""

    assert engine.start(use).result(timeout=20) == "StepTimeout"
    assert seen == ["interrupted"]


def test_a_timeout_abandons_a_blocking_step_and_refuses_its_late_result(database, clock):
    began, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    calls = []

    @step(timeout="500ms", retries=1, delay="1ms")
    def slow() -> int:
        calls.append(1)
        if len(calls) == 1:
            began.set()
            go_on.wait(PATIENCE)
            ended.set()
            return 1
        return 2

    @workflow
    async def use() -> int:
        return await slow.aio()

    with Engine(database, clock=clock, workflows=[use], session_ttl="36500d") as engine:
        run = engine.start(use)
        assert began.wait(PATIENCE)
        clock.advance("500ms")
        wait_until(engine, lambda: [event.kind for event in run.history()] == ["step_retried"])
        clock.advance("100ms")
        assert (
            run.result(timeout=PATIENCE) == 2
        )  # however long the second attempt takes: time stands still
        go_on.set()
        assert ended.wait(PATIENCE)
        assert [event.kind for event in run.history()] == [
            "step_retried",
            "step_completed",
            "run_completed",
        ]


def test_a_step_knows_its_key_attempt_and_generation(engine):
    infos = []

    @step(retries=1, delay="1ms")
    async def curious() -> None:
        infos.append(holdfast.info())
        if len(infos) == 1:
            raise ValueError

    @workflow
    async def use() -> None:
        await curious()

    run = engine.start(use)
    run.result(timeout=20)
    assert [(info.attempt, info.generation) for info in infos] == [(1, 1), (2, 1)]
    assert {info.idempotency_key for info in infos} == {f"{run.id}:curious"}


@pytest.mark.parametrize(
    "error", [LeaseLost(run="other"), EngineClosed(), WriteConflict(), StoreBusy(), StoreGone()]
)
def test_a_transactional_step_that_raises_an_error_of_holdfast_fails_like_any_other(engine, error):
    """Such as one of another engine. It is no error of the transaction, which would be repeated
    without end and block all others."""

    @step(transactional=True, retries=0)
    def broken() -> None:
        raise error

    @workflow
    def use() -> None:
        broken()

    with pytest.raises(RunFailed) as failed:
        engine.start(use).result(timeout=20)
    assert failed.value.error["type"].endswith(type(error).__name__)


def test_a_transactional_step_commits_with_its_record(engine, database):
    @step(transactional=True)
    def deposit(amount: int) -> int:
        db = holdfast.sql.connection()
        db.execute("CREATE TABLE IF NOT EXISTS account (total INTEGER)")
        db.execute(f"INSERT INTO account VALUES ({amount})")
        return amount

    @step(transactional=True)
    def spoil() -> None:
        holdfast.sql.connection().execute("INSERT INTO account VALUES (999)")
        raise ValueError("no")

    @workflow
    async def bank() -> int:
        paid = await deposit.aio(5)
        with contextlib.suppress(StepFailed):
            await spoil.aio()
        return paid

    assert engine.start(bank).result(timeout=20) == 5
    assert execute(database, "SELECT total FROM account") == [(5,)]


@step(transactional=True)
def close_the_connection() -> None:
    connection = holdfast.sql.connection()
    type(connection).__mro__[1].close(
        connection
    )  # by the method of the driver: that of the connection refuses


@step(transactional=True)
def count_with_the_connection() -> int:
    [[count]] = holdfast.sql.connection().execute("SELECT 7").fetchall()
    return count


@workflow
async def closing_its_connection() -> int:
    with contextlib.suppress(StepFailed):
        await close_the_connection.aio()
    return await count_with_the_connection.aio()


def test_a_transactional_step_that_closes_its_connection_fails_alone(engine):
    run = engine.start(closing_its_connection)

    assert run.result(timeout=30) == 7
    assert [event.kind for event in run.history()][:2] == ["step_failed", "step_completed"]
    assert "transactional step" in run.history()[0].error.message


def test_a_transactional_step_of_an_async_engine_that_closes_its_connection_fails_alone(database):
    async def main() -> int:
        async with AsyncEngine(database, workflows=[closing_its_connection]) as engine:
            run = await engine.start(closing_its_connection)
            return await run.result(timeout=30)

    assert asyncio.run(main()) == 7


def test_a_run_that_a_transactional_step_starts_commits_with_its_record(engine):
    @workflow
    async def follow(number: int) -> int:
        return number

    @step(transactional=True)
    def start_next(number: int, fails: bool) -> str:
        run = engine.start(follow, number, connection=holdfast.sql.connection())
        if fails:
            raise ValueError("no")
        return run.id

    @workflow
    async def lead() -> str:
        with contextlib.suppress(StepFailed):
            await start_next.aio(1, True)
        return await start_next.aio(2, False)

    follower = engine.start(lead).result(timeout=20)

    assert engine.run(follower).result(timeout=20) == 2
    assert [run.id for run in engine.runs(workflow="follow")] == [follower]


def test_a_transactional_step_is_a_plain_function():
    with pytest.raises(BadOption, match="plain def"):

        @step(transactional=True)
        async def wrong() -> None: ...


def test_steps_work_as_methods(engine):
    class Shop:
        @step
        async def price(self, item: str) -> int:
            return len(item)

    shop = Shop()

    @workflow
    async def buy(item: str) -> int:
        return await shop.price(item)

    assert engine.start(buy, "apple").result(timeout=20) == 5


@pytest.mark.parametrize("where", ["step", "workflow"])
def test_code_that_exits_fails_its_run_and_nothing_else(engine, where):
    @step(name=f"leave in a {where}")
    def leave() -> None:
        raise SystemExit(3)

    @workflow(name=f"leaver in a {where}")
    def leaver() -> None:
        if where == "step":
            leave()
        raise SystemExit(3)

    with pytest.raises(RunFailed, match=f"the {where} raised SystemExit: 3"):
        engine.start(leaver).result(timeout=20)


def test_an_error_names_the_exception_of_the_user_first(engine):
    @step(retries=0)
    async def charge_card(order: str) -> None:
        raise ValueError("card expired")

    @workflow
    async def pay_for(order: str) -> None:
        await charge_card(order)

    @workflow
    async def order_of_orders(order: str) -> None:
        await pay_for(order)

    with pytest.raises(RunFailed) as failed:
        engine.start(pay_for, "x", id="order-7").result(timeout=20)
    assert str(failed.value) == "ValueError: card expired (in step charge_card, run order-7)"
    assert internals(engine).client.get("order-7").error.count(b'"type":"ValueError"') == 1

    with pytest.raises(RunFailed) as failed:
        engine.start(order_of_orders, "x", id="order-8").result(timeout=20)
    child = failed.value.facts["origin"]
    assert str(failed.value) == (
        f"ValueError: card expired (in step charge_card, run {child}, run order-8)"
    )


def test_a_failure_in_own_words_is_quoted_as_it_is(engine):
    @workflow
    async def without_luck() -> None:
        raise Fail("no luck", code=3)

    with pytest.raises(RunFailed, match=r"^Fail: no luck \(code=3\) \(in run "):
        engine.start(without_luck).result(timeout=20)


def test_a_cancelled_run_says_why(engine):
    run = engine.start(without_end, id="order-9")
    engine.cancel(run.id, "out of stock")

    with pytest.raises(
        RunCancelled, match=r"^The run was cancelled: out of stock \(run order-9\)$"
    ):
        run.result(timeout=20)


@workflow
async def without_end() -> None:
    await holdfast.sleep("1d")


def test_outside_a_run_a_step_knows_that_there_is_none():
    @step
    def curious() -> holdfast.core.step_info.StepInfo:
        return holdfast.info()

    one, other = curious(), curious()

    assert (one.run_id, one.workflow, one.step) == ("", "", "")
    assert (one.attempt, one.generation) == (1, 0)
    assert one.idempotency_key != other.idempotency_key
    assert one.idempotency_key == one.idempotency_key
