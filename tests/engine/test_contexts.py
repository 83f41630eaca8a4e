"""A run begins in an empty context, whoever starts it and wherever: a step must not hand its own on
to the run."""

from __future__ import annotations

import asyncio
import types
from contextvars import ContextVar

import pytest

from holdfast import AsyncEngine, Engine, Graph, step, sync, workflow
from holdfast.authoring.python.step import current_step
from holdfast.authoring.replay.replay import current_program
from holdfast.core.step_info import StepInfo
from holdfast.errors import NotInWorkflow
from holdfast.streams import emit
from tests.engine.databases import execute

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
seen: list[tuple[str, str]] = []


@types.coroutine
def turn():
    """Let the others have their turn."""
    yield


@pytest.fixture(autouse=True)
def _nothing_seen():
    seen.clear()


@step(name="contexts.charge", retries=2, delay="1ms")
async def charge(order: str) -> str:
    seen.append((order, tenant.get()))
    tenant.set(f"{order} itself")
    return order


@step(name="contexts.pack", retries=2, delay="1ms")
def pack(order: str) -> str:
    seen.append((order, tenant.get()))
    tenant.set(f"{order} itself")
    return order


@workflow(name="contexts.ship")
async def ship(order: str) -> list[str]:
    return [tenant.get(), await charge(order), await pack.aio(order), tenant.get()]


@workflow(name="contexts.ship_blocking")
def ship_blocking(order: str) -> list[str]:
    return [tenant.get(), charge.sync(order), pack(order), tenant.get()]


def is_recorded(engine: Engine, run_id: str) -> bool:
    kinds = [event.kind for event in engine.run(run_id).history()]
    return kinds == ["step_completed", "step_completed", "run_completed"]


@pytest.mark.parametrize("inner", [ship, ship_blocking])
@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("how", ["start", "start_many", "graph"])
def test_a_run_that_a_step_starts_is_as_durable_as_any(engine, inner, blocking, how):
    started: list[str] = []

    def start_it(order: str) -> None:
        tenant.set("the step")
        if how == "start":
            started.append(engine.start(inner, order).id)
        elif how == "start_many":
            started.extend(run.id for run in engine.start_many(inner, [order, order]))
        else:
            graph = Graph()
            graph.add(inner, order, name="second").after(graph.add(inner, order, name="first"))
            graph_id = engine.graphs.start(graph).id
            started.extend(f"{graph_id}::{name}" for name in ("first", "second"))

    @step(name=f"contexts.start_{how}_{blocking}")
    def start_in_a_thread(order: str) -> None:
        start_it(order)

    @step(name=f"contexts.start_{how}_{blocking}_async")
    async def start_on_the_loop(order: str) -> None:
        start_it(order)

    @workflow(name=f"contexts.outer_{how}_{blocking}")
    async def outer(order: str) -> None:
        await (start_in_a_thread.aio(order) if blocking else start_on_the_loop(order))

    engine.start(outer, "tea").result(timeout=20)
    if how == "graph":
        engine.graphs.result(started[0].partition("::")[0], timeout=20)
    for run_id in started:
        assert engine.run(run_id).result(timeout=20) == ["nobody", "tea", "tea", "nobody"]
        assert is_recorded(engine, run_id)
    assert set(seen) == {("tea", "nobody")}


@pytest.mark.parametrize("inner", [ship, ship_blocking])
def test_a_run_that_a_step_of_an_async_engine_starts_is_as_durable_as_any(database, inner):
    async def main() -> None:
        async with AsyncEngine(database) as engine:

            @step(name="contexts.start_async")
            async def start_it(order: str) -> str:
                return (await engine.start(inner, order)).id

            @workflow(name="contexts.outer_async")
            async def outer(order: str) -> str:
                return await start_it(order)

            tenant.set("the program")
            inner_id = await (await engine.start(outer, "tea")).result(timeout=20)
            run = await engine.run(inner_id)
            assert await run.result(timeout=20) == ["nobody", "tea", "tea", "nobody"]
            kinds = [event.kind for event in await run.history()]
            assert kinds == ["step_completed", "step_completed", "run_completed"]

    asyncio.run(main())


def test_members_that_begin_in_the_commit_of_a_step_that_emits_are_recorded(database):
    """Output begins the commit that ends the first members, in the context of the step that
    emits."""

    @step(name="contexts.show")
    async def show(number: int) -> None:
        for _ in range(300):
            emit(number)
            await turn()

    @workflow(name="contexts.showing")
    async def showing(number: int) -> None:
        await show(number)

    graph = Graph()
    for number in range(30):
        graph.add(ship, "tea", name=f"second-{number}").after(
            graph.add(ship, "tea", name=f"first-{number}")
        )
    with Engine(database, stream_window=0) as engine:
        shown = engine.start_many(showing, range(3))
        started = engine.graphs.start(graph)
        started.result(timeout=30)
        for run in shown:
            run.result(timeout=30)
        assert all(is_recorded(engine, f"{started.id}::second-{number}") for number in range(30))


def test_branches_of_a_plain_workflow_share_its_context_and_its_steps_do_not(engine):
    @workflow(name="contexts.branches")
    def branches() -> list[str]:
        tenant.set("the workflow")
        return list(sync.gather(lambda: tenant.get(), lambda: pack("tea")))

    assert engine.start(branches).result(timeout=20) == ["the workflow", "tea"]
    assert seen == [("tea", "nobody")]


def test_a_transactional_step_sees_nothing_of_the_thread_that_commits_it(engine):
    @step(name="contexts.transact", transactional=True)
    def transact(order: str) -> str:
        return tenant.get()

    @workflow(name="contexts.transacting")
    async def transacting(order: str) -> str:
        return await transact.aio(order)

    tenant.set("the program")
    runs = [engine.start(transacting, "tea") for _ in range(20)]
    assert {run.result(timeout=20) for run in runs} == {"nobody"}


def test_a_step_is_never_called_unrecorded_in_the_context_of_another_runs_step(engine):
    """What the engine prevents would be seen: a program at work in the context of a step."""

    @workflow(name="contexts.astray")
    async def astray() -> str:
        program = current_program.get()
        assert program is not None
        token = current_step.set(StepInfo("another run", "other", "step", 1, 1))
        try:
            return await charge("tea")
        except NotInWorkflow as refused:
            return str(refused.facts["why"])
        finally:
            current_step.reset(token)

    assert "another run" in engine.start(astray).result(timeout=20)
    assert seen == []


def test_a_completed_run_of_which_a_step_is_not_recorded_breaks_a_law(database):
    with Engine(database) as engine:
        run = engine.start(ship, "tea")
        run.result(timeout=20)
        assert engine.database.check() == []
        execute(
            database,
            "UPDATE holdfast.event SET kind = 'marked' WHERE run_id = :id AND seq = 1",
            id=run.id,
        )
        assert [law.split(":")[0] for law in engine.database.check()] == [
            "the history of a completed run contains all its steps"
        ]
