"""The root cause of a failure comes first: in the error, in the record, in why, and in graphs."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast import Engine, Fail, Graph, step, workflow
from holdfast.errors import GraphFailed, RunFailed, TooManyFailures


@step
def charge() -> None:
    try:
        raise ConnectionError("no route to bank")
    except ConnectionError as error:
        raise ValueError("card expired") from error


@workflow
async def settling() -> None:
    await charge()


@workflow
async def ordering() -> None:
    try:
        await settling()
    except Exception as error:
        raise RuntimeError("order 7 failed") from error


@workflow
async def fine() -> None:
    pass


def failure_of(engine: Engine, called) -> RunFailed:
    with pytest.raises(RunFailed) as caught:
        engine.start(called).result(timeout=60)
    return caught.value


def test_the_bottom_of_a_chain_comes_first(engine):
    error = failure_of(engine, settling)

    cause = "ConnectionError: no route to bank (raised as ValueError: card expired, in step charge"
    assert str(error).startswith(cause)
    assert (error.error["type"], error.error["message"]) == ("ValueError", "card expired")
    assert error.error["cause"] == "ConnectionError: no route to bank"


def test_a_cause_travels_through_children_and_handlers(engine):
    error = failure_of(engine, ordering)

    cause = "ConnectionError: no route to bank (raised as RuntimeError: order 7 failed, in run"
    assert str(error).startswith(cause)


def test_why_names_the_cause_and_its_place(engine):
    @workflow
    async def calling() -> None:
        await settling()

    run = engine.start(calling)
    with pytest.raises(RunFailed):
        run.result(timeout=60)
    (child,) = engine.runs(parent_id=run.id)

    assert run.why().reason == (
        "it failed with ConnectionError: no route to bank (raised as ValueError: card expired, in"
        f" step charge, run {child.id})"
    )


def test_the_traceback_of_a_run_is_the_traceback_of_the_code_that_failed(engine):
    @workflow
    async def calling() -> None:
        await settling()

    trace = failure_of(engine, calling).error["traceback"]

    assert 'raise ConnectionError("no route to bank")' in trace
    assert trace.rstrip().endswith("ValueError: card expired")


def test_the_first_exception_of_a_group_is_its_cause(engine):
    @workflow
    async def grouping() -> None:
        raise ExceptionGroup("several", [ValueError("first"), KeyError("second")])

    assert str(failure_of(engine, grouping)).startswith("ValueError: first (raised as Exception")


def test_a_failure_on_purpose_names_its_cause(engine):
    @workflow
    async def giving_up() -> None:
        raise Fail("no stock") from KeyError("sku")

    assert str(failure_of(engine, giving_up)).startswith("KeyError: 'sku' (raised as Fail: no sto")


def test_a_map_names_the_first_failure(engine):
    @step
    def odd(number: int) -> int:
        if number % 2 == 0:
            raise ValueError(f"{number} is even")
        return number

    @workflow
    async def mapping() -> None:
        await holdfast.map(odd, [1, 2, 4], min_success=3)

    error = failure_of(engine, mapping)

    assert str(error).startswith("ValueError: 2 is even (raised as TooManyFailures: ")
    assert error.error["type"] == TooManyFailures.__name__


def test_a_chain_in_a_circle_ends(engine):
    @workflow
    async def circling() -> None:
        first, second = ValueError("first"), ValueError("second")
        first.__cause__, second.__cause__ = second, first
        raise first

    assert "ValueError: " in str(failure_of(engine, circling))


def test_without_a_chain_the_exception_itself_comes_first(engine):
    @workflow
    async def handling() -> None:
        try:
            raise KeyError("unrelated")
        except KeyError:
            raise ValueError("card expired")  # noqa: B904

    error = failure_of(engine, handling)

    assert str(error).startswith("ValueError: card expired (in run ")
    assert error.error["cause"] is None


def test_a_graph_names_the_exception_of_the_member_that_failed(engine):
    graph = Graph("release")
    first = graph.add(settling, name="pay")
    second = graph.add(fine, name="pack").after(first)
    graph.add(fine, name="send").after(second)

    running = engine.graphs.start(graph)
    with pytest.raises(GraphFailed) as caught:
        running.result(timeout=60)

    assert str(caught.value) == (
        "ConnectionError: no route to bank (raised as ValueError: card expired, in step charge,"
        f" member pay, graph {running.id}); failed: pay; skipped: pack, send"
    )
    assert engine.why(f"{running.id}::send").reason.startswith(
        "ConnectionError: no route to bank (raised as ValueError: card expired, in step charge) in"
        " member pay; it was skipped: "
    )


def test_a_task_group_that_fails_names_the_exception_of_its_task(engine):
    @workflow
    async def together() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(charge())

    assert str(failure_of(engine, together)).startswith("ConnectionError: no route to bank (raised")
