"""An engine that is bound to a namespace: nothing of another one is returned, changed or named,
whatever is asked."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import click
import msgspec
import pytest
from click.testing import CliRunner

import holdfast
from holdfast import AsyncEngine, Engine, Graph, gate, step, wait_signal, workflow
from holdfast.authoring.python.api_async import AsyncChildHandle
from holdfast.cli.main import cli
from holdfast.errors import (
    BadOption,
    FlowNotFound,
    GateNotFound,
    GraphExists,
    GraphNotFound,
    HoldfastError,
    LeaseLost,
    NamespaceBound,
    RunExists,
    RunNotFound,
    ScheduleNotFound,
    SubscriptionExists,
    SubscriptionNotFound,
    TokenRefused,
    WaitNotFound,
)
from holdfast.waits import create_wait
from tests.engine.databases import execute
from tests.engine.receiver import Receiver
from tests.engine.waiting import wait_until

AREAS = (
    "budgets",
    "database",
    "events",
    "flows",
    "gates",
    "graphs",
    "keys",
    "lanes",
    "retention",
    "schedules",
    "streams",
    "tasks",
    "waits",
    "webhooks",
    "workers",
)


class Things(NamedTuple):
    """What there is in the namespace that belongs to somebody else."""

    run: str
    done: str
    gate: str
    link: str
    wait: str
    token: str
    flow: str
    graph: str
    proof: str


@step
async def whisper() -> str:
    return "hush"


@workflow
async def whispering() -> str:
    holdfast.streams.emit("hush")
    return await whisper()


@workflow
async def asking_hushed() -> object:
    return await gate("hush: ship it?", assignees=["hush-ann"])


@workflow
async def idling() -> object:
    await create_wait("hush-answer")
    return await wait_signal("hush-signal")


@workflow
async def meddling_elsewhere(run_id: str) -> str:
    forged: AsyncChildHandle[object] = AsyncChildHandle(idling, "start", run_id)
    await forged.signal("hush-signal", "meddled")
    await forged.cancel()
    return "done"


@pytest.fixture
def theirs(database) -> Iterator[Engine]:
    with Engine(
        database, namespace="hush-theirs", name="hush-worker", shutdown_timeout=1
    ) as engine:
        yield engine


@pytest.fixture
def things(theirs) -> Things:
    """Let somebody else have one of each."""
    done = theirs.start(whispering, id="hush-done", tags={"hush": "hush"})
    assert done.result(timeout=30) == "hush"
    asked = theirs.start(asking_hushed, id="hush-asked")
    idle = theirs.start(idling, id="hush-idle")
    wait_until(
        theirs,
        lambda: asked.status == "waiting" and idle.status == "waiting" and theirs.waits.list(),
    )
    (open_gate,) = theirs.gates.list()
    (wait,) = (one.id for one in theirs.waits.list(idle.id) if one.id is not None)
    theirs.start("hush-spending", id="hush-spender", budget={"tokens": 5})
    flow = theirs.flows.create("hush-controller", "hush-goal", owner="hush-owner", id="hush-flow")
    graph = Graph("hush-graph-name")
    graph.add(idling, name="hush-later").after(graph.add(idling, name="hush-member"))
    theirs.graphs.start(graph, id="hush-graph")
    theirs.schedules.set("hush-schedule", whispering, cron="0 0 1 1 *")
    theirs.webhooks.set("hush-hook", "https://example.org/hush")
    list(theirs.events.read(name="hush-reader"))
    theirs.start("hush-task", 1, id="hush-leased")
    with_proof = theirs.tasks.worker("hush-holder", workflows=["hush-task"], ttl="1h")
    (lease,) = with_proof.claim()
    link = theirs.gates.link(open_gate, "approve", by="hush-ann")
    return Things(
        run=idle.id,
        done=done.id,
        gate=open_gate.id,
        link=str(link),
        wait=wait,
        token=str(theirs.waits.token(wait)),
        flow=flow.id,
        graph="hush-graph",
        proof=lease.proof,
    )


Call = Callable[[Any, Things, Any], Any]
FORBIDDEN = (NamespaceBound,)
NO_RUN = (RunNotFound,)
NO_GATE = (GateNotFound,)
NO_SCHEDULE = (ScheduleNotFound,)
NO_NAME = (SubscriptionNotFound,)
NO_FLOW = (FlowNotFound,)
NO_GRAPH = (GraphNotFound,)
GRAPH_THERE = (GraphExists,)
REFUSED = (BadOption,)
NOTHING: tuple[type[HoldfastError], ...] = ()
"""It answers, and the answer names nothing of theirs."""


def more(name: str, **options: Any) -> Graph:
    graph = Graph()
    graph.add(whispering, name=name, **options)
    return graph


WALK: dict[str, list[tuple[tuple[type[HoldfastError], ...], Call]]] = {
    "webhooks.set": [
        (
            (SubscriptionExists,),
            lambda e, t, p: e.webhooks.set("hush-hook", "https://example.org/hush"),
        ),
        (
            FORBIDDEN,
            lambda e, t, p: e.webhooks.set(
                "ours", "https://example.org/x", namespace="hush-theirs"
            ),
        ),
    ],
    "gates.answer": [((TokenRefused,), lambda e, t, p: e.gates.answer(t.link))],
    "gates.approve": [
        (NO_GATE, lambda e, t, p: e.gates.approve(t.gate, by="hush-ann")),
        (NO_GATE, lambda e, t, p: e.gates.approve("hush-asked")),
    ],
    "schedules.backfill": [
        (NO_SCHEDULE, lambda e, t, p: e.schedules.backfill("hush-schedule", "1d", "0s"))
    ],
    "budgets.set": [(FORBIDDEN, lambda e, t, p: e.budgets.set("hush-budget", {"tokens": 1}))],
    "budgets.list": [(FORBIDDEN, lambda e, t, p: e.budgets.list())],
    "cancel": [(NO_RUN, lambda e, t, p: e.cancel(t.run))],
    "database.check": [(FORBIDDEN, lambda e, t, p: e.database.check())],
    "database.check_payloads": [(FORBIDDEN, lambda e, t, p: e.database.check_payloads())],
    "close": [(NOTHING, lambda e, t, p: None)],
    "events.consume": [
        (
            (SubscriptionExists,),
            lambda e, t, p: e.events.consume("hush-reader", lambda events, connection: None),
        ),
        (
            FORBIDDEN,
            lambda e, t, p: e.events.consume(
                "ours", lambda events, connection: None, namespace="hush-theirs"
            ),
        ),
    ],
    "webhooks.dead_letters": [(NO_NAME, lambda e, t, p: e.webhooks.dead_letters("hush-hook"))],
    "gates.decide": [(NO_GATE, lambda e, t, p: e.gates.decide(t.gate, "approve", by="hush-ann"))],
    "gates.delegate": [(NO_GATE, lambda e, t, p: e.gates.delegate(t.gate, "bob", by="hush-ann"))],
    "waits.deliver": [
        ((TokenRefused,), lambda e, t, p: e.waits.deliver(t.wait, t.token, "hush-answer"))
    ],
    "events.read": [
        (NOTHING, lambda e, t, p: e.events.read()),
        (NOTHING, lambda e, t, p: e.events.read(run=t.done)),
        (FORBIDDEN, lambda e, t, p: e.events.read(namespace="hush-theirs")),
        ((SubscriptionExists,), lambda e, t, p: e.events.read(name="hush-reader")),
    ],
    "database.export": [(NO_RUN, lambda e, t, p: e.database.export(t.done, p / "run.db"))],
    "schedules.get": [(NO_SCHEDULE, lambda e, t, p: e.schedules.get("hush-schedule"))],
    "fork": [(NO_RUN, lambda e, t, p: e.fork(t.done))],
    "gates.get": [
        (NO_GATE, lambda e, t, p: e.gates.get(t.gate)),
        (NO_GATE, lambda e, t, p: e.gates.get("hush-asked")),
    ],
    "gates.entries": [(NO_GATE, lambda e, t, p: e.gates.entries(t.gate))],
    "gates.link": [(NO_GATE, lambda e, t, p: e.gates.link(t.gate, "approve", by="hush-ann"))],
    "gates.list": [
        (NOTHING, lambda e, t, p: e.gates.list(status="any")),
        (NOTHING, lambda e, t, p: e.gates.list(run="hush-asked")),
        (FORBIDDEN, lambda e, t, p: e.gates.list(namespace="hush-theirs")),
    ],
    "keys.list": [(FORBIDDEN, lambda e, t, p: e.keys.list())],
    "lanes.set": [(FORBIDDEN, lambda e, t, p: e.lanes.set("default", paused=True))],
    "lanes.list": [(FORBIDDEN, lambda e, t, p: e.lanes.list())],
    "tasks.lease": [((LeaseLost,), lambda e, t, p: e.tasks.lease(t.proof))],
    "tasks.worker": [
        (NOTHING, lambda e, t, p: e.tasks.worker("ours", workflows=["hush-task"]).claim()),
        (
            NO_RUN,
            lambda e, t, p: e.tasks.worker("ours", workflows=["hush-task"]).reclaim("hush-leased"),
        ),
    ],
    "schedules.next": [(NO_SCHEDULE, lambda e, t, p: e.schedules.next("hush-schedule"))],
    "tasks.override": [(NO_RUN, lambda e, t, p: e.tasks.override(t.run, "x"))],
    "schedules.pause": [(NO_SCHEDULE, lambda e, t, p: e.schedules.pause("hush-schedule"))],
    "retention.preview": [(FORBIDDEN, lambda e, t, p: e.retention.preview())],
    "tasks.prioritise": [(NO_RUN, lambda e, t, p: e.tasks.prioritise(t.run, 5))],
    "streams.progress": [(NO_RUN, lambda e, t, p: e.streams.progress(t.done))],
    "retention.prune": [(NOTHING, lambda e, t, p: e.retention.prune("0s"))],
    "budgets.raise_limits": [
        (FORBIDDEN, lambda e, t, p: e.budgets.raise_limits("hush-budget", {"tokens": 1}))
    ],
    "streams.read": [(NO_RUN, lambda e, t, p: e.streams.read(t.done))],
    "gates.reassign": [(NO_GATE, lambda e, t, p: e.gates.reassign(t.gate, assignees=["bob"]))],
    "gates.reject": [(NO_GATE, lambda e, t, p: e.gates.reject(t.gate, by="hush-ann"))],
    "keys.rekey": [(FORBIDDEN, lambda e, t, p: e.keys.rekey())],
    "waits.release": [(NO_RUN, lambda e, t, p: e.waits.release(t.run))],
    "retention.remove": [(FORBIDDEN, lambda e, t, p: e.retention.remove("x"))],
    "replay": [
        (NO_RUN, lambda e, t, p: e.replay(t.done)),
        (NO_GRAPH, lambda e, t, p: e.replay("hush-graph::hush-member")),
    ],
    "webhooks.redeliver": [(NO_NAME, lambda e, t, p: e.webhooks.redeliver("hush-hook"))],
    "budgets.reset": [(FORBIDDEN, lambda e, t, p: e.budgets.reset("hush-budget"))],
    "resume": [(NO_RUN, lambda e, t, p: e.resume(t.run))],
    "schedules.resume": [(NO_SCHEDULE, lambda e, t, p: e.schedules.resume("hush-schedule"))],
    "retention.apply": [(FORBIDDEN, lambda e, t, p: e.retention.apply())],
    "retention.set": [(FORBIDDEN, lambda e, t, p: e.retention.set("x", older_than="1d"))],
    "retention.list": [(FORBIDDEN, lambda e, t, p: e.retention.list())],
    "tasks.revoke": [(NO_RUN, lambda e, t, p: e.tasks.revoke("hush-leased"))],
    "keys.rotate": [(FORBIDDEN, lambda e, t, p: e.keys.rotate())],
    "run": [(NO_RUN, lambda e, t, p: e.run(t.done))],
    "runs": [
        (NOTHING, lambda e, t, p: e.runs().page()),
        (NOTHING, lambda e, t, p: e.runs(tags={"hush": "hush"}).page()),
        (FORBIDDEN, lambda e, t, p: e.runs(namespace="hush-theirs").page()),
    ],
    "schedules.set": [(NOTHING, lambda e, t, p: e.schedules.set("x", whispering, interval="1h"))],
    "schedules.list": [(NOTHING, lambda e, t, p: e.schedules.list())],
    "signal": [(NO_RUN, lambda e, t, p: e.signal(t.run, "hush-signal"))],
    "budgets.spend": [(FORBIDDEN, lambda e, t, p: e.budgets.spend("hush-budget", {"tokens": 1}))],
    "budgets.usage": [(NO_RUN, lambda e, t, p: e.budgets.usage(t.done))],
    "start": [
        (FORBIDDEN, lambda e, t, p: e.start(whispering, namespace="hush-theirs")),
        ((RunExists,), lambda e, t, p: e.start(whispering, id=t.done)),
        (REFUSED, lambda e, t, p: e.start(whispering, id="hush-graph::hush-later")),
        (REFUSED, lambda e, t, p: e.start("ours-task", budget="tree:hush-spender")),
        (
            REFUSED,
            lambda e, t, p: e.start("ours-task", budget=["tree:hush-spender", {"tokens": 1}]),
        ),
        (
            REFUSED,
            lambda e, t, p: e.start(
                "ours-task", key="k", debounce="1h", budget="tree:hush-spender"
            ),
        ),
    ],
    "start_many": [
        (
            FORBIDDEN,
            lambda e, t, p: e.start_many(meddling_elsewhere, ["x"], namespace="hush-theirs"),
        ),
        (
            REFUSED,
            lambda e, t, p: e.start_many(meddling_elsewhere, ["x"], budget="tree:hush-spender"),
        ),
    ],
    "streams.list": [(NO_RUN, lambda e, t, p: e.streams.list(t.done))],
    "events.subscriptions": [(NOTHING, lambda e, t, p: e.events.subscriptions())],
    "streams.summary": [(NO_RUN, lambda e, t, p: e.streams.summary(t.done))],
    "streams.tail": [(NO_RUN, lambda e, t, p: e.streams.tail(t.done))],
    "schedules.trigger": [(NO_SCHEDULE, lambda e, t, p: e.schedules.trigger("hush-schedule"))],
    "schedules.remove": [(NO_SCHEDULE, lambda e, t, p: e.schedules.remove("hush-schedule"))],
    "workers.unserved": [(NOTHING, lambda e, t, p: e.workers.unserved())],
    "events.unsubscribe": [(NO_NAME, lambda e, t, p: e.events.unsubscribe("hush-hook"))],
    "gates.update": [(NO_GATE, lambda e, t, p: e.gates.update(t.gate, {"x": 1}))],
    "waits.token": [((WaitNotFound,), lambda e, t, p: e.waits.token(t.wait))],
    "waits.list": [
        (NOTHING, lambda e, t, p: e.waits.list()),
        (NO_RUN, lambda e, t, p: e.waits.list(t.run)),
    ],
    "why": [
        (NO_RUN, lambda e, t, p: e.why(t.run)),
        (NO_RUN, lambda e, t, p: e.why("hush-graph::hush-member")),
    ],
    "schedules.why": [(NO_SCHEDULE, lambda e, t, p: e.schedules.why("hush-schedule"))],
    "gates.withdraw": [(NO_GATE, lambda e, t, p: e.gates.withdraw(t.gate))],
    "work": [(NOTHING, lambda e, t, p: None)],
    "workers.list": [(NOTHING, lambda e, t, p: e.workers.list())],
    "waits.get": [((WaitNotFound,), lambda e, t, p: e.waits.get(t.wait))],
    "budgets.get": [(FORBIDDEN, lambda e, t, p: e.budgets.get("hush-budget"))],
    "lanes.get": [(FORBIDDEN, lambda e, t, p: e.lanes.get("default"))],
    "lanes.pause": [(FORBIDDEN, lambda e, t, p: e.lanes.pause("default"))],
    "lanes.resume": [(FORBIDDEN, lambda e, t, p: e.lanes.resume("default"))],
    "lanes.drain": [(FORBIDDEN, lambda e, t, p: e.lanes.drain("default"))],
    "retention.get": [(FORBIDDEN, lambda e, t, p: e.retention.get("x"))],
    "webhooks.get": [(NO_NAME, lambda e, t, p: e.webhooks.get("hush-hook"))],
    "webhooks.list": [(NOTHING, lambda e, t, p: e.webhooks.list())],
    "webhooks.remove": [(NO_NAME, lambda e, t, p: e.webhooks.remove("hush-hook"))],
    "events.follow": [(NOTHING, lambda e, t, p: e.events.follow(timeout=0))],
    "flows.advance": [(NO_FLOW, lambda e, t, p: e.flows.advance(t.flow, "x"))],
    "flows.cancel": [(NO_FLOW, lambda e, t, p: e.flows.cancel(t.flow))],
    "flows.create": [(NOTHING, lambda e, t, p: e.flows.create("c", "g", owner="o"))],
    "flows.deliver": [(NOTHING, lambda e, t, p: e.flows.deliver(t.flow, "topic", "correlation"))],
    "flows.events": [(NO_FLOW, lambda e, t, p: e.flows.events(t.flow))],
    "flows.fail": [(NO_FLOW, lambda e, t, p: e.flows.fail(t.flow, "x"))],
    "flows.finish": [(NO_FLOW, lambda e, t, p: e.flows.finish(t.flow))],
    "flows.get": [(NO_FLOW, lambda e, t, p: e.flows.get(t.flow))],
    "flows.list": [(NOTHING, lambda e, t, p: e.flows.list(owner="hush-owner"))],
    "flows.observe": [(NO_FLOW, lambda e, t, p: e.flows.observe(t.flow, "r", "task", "running"))],
    "flows.prune": [(NOTHING, lambda e, t, p: e.flows.prune("0s"))],
    "flows.request_cancel": [(NO_FLOW, lambda e, t, p: e.flows.request_cancel(t.flow))],
    "flows.resume": [(NO_FLOW, lambda e, t, p: e.flows.resume(t.flow))],
    "flows.start": [(NO_FLOW, lambda e, t, p: e.flows.start(t.flow))],
    "flows.steps": [(NO_FLOW, lambda e, t, p: e.flows.steps(t.flow))],
    "flows.wait": [(NO_FLOW, lambda e, t, p: e.flows.wait(t.flow, until="1h"))],
    "flows.wake": [(NOTHING, lambda e, t, p: e.flows.wake())],
    "flows.why": [(NO_FLOW, lambda e, t, p: e.flows.why(t.flow))],
    "graphs.cancel": [(NO_GRAPH, lambda e, t, p: e.graphs.cancel(t.graph))],
    "graphs.events": [(NO_GRAPH, lambda e, t, p: e.graphs.events(t.graph))],
    "graphs.export": [(NO_GRAPH, lambda e, t, p: e.graphs.export(t.graph, p / "graph.db"))],
    "graphs.extend": [(NO_GRAPH, lambda e, t, p: e.graphs.extend(t.graph, more("new")))],
    "graphs.get": [(NO_GRAPH, lambda e, t, p: e.graphs.get(t.graph))],
    "graphs.list": [(NOTHING, lambda e, t, p: e.graphs.list())],
    "graphs.open": [(NO_GRAPH, lambda e, t, p: e.graphs.open(t.graph))],
    "graphs.prune": [(NOTHING, lambda e, t, p: e.graphs.prune("0s"))],
    "graphs.replay": [(NO_GRAPH, lambda e, t, p: e.graphs.replay(t.graph, "hush-member"))],
    "graphs.result": [(NO_GRAPH, lambda e, t, p: e.graphs.result(t.graph, timeout=0))],
    "graphs.start": [
        (GRAPH_THERE, lambda e, t, p: e.graphs.start(more("x"), id=t.graph)),
        (REFUSED, lambda e, t, p: e.graphs.start(more("x", budget="tree:hush-spender"))),
    ],
    "graphs.start_many": [
        (NOTHING, lambda e, t, p: e.graphs.start_many([more("x")])),
        (REFUSED, lambda e, t, p: e.graphs.start_many([more("x", budget="tree:hush-spender")])),
    ],
    "graphs.status": [(NO_GRAPH, lambda e, t, p: e.graphs.status(t.graph))],
    "graphs.why": [(NO_GRAPH, lambda e, t, p: e.graphs.why(t.graph, "hush-member"))],
}


def public(engine: Any) -> set[str]:
    """Return the names of all public methods of an engine and of its areas."""
    found = {name for name in dir(type(engine)) if not name.startswith("_")}
    for area in AREAS:
        found |= {
            f"{area}.{name}" for name in dir(getattr(engine, area)) if not name.startswith("_")
        }
    return found


def attributes(engine: Any) -> set[str]:
    return {name for name in vars(engine) if not name.startswith("_")}


async def settled(answer: Any) -> Any:
    """Return what a call of either engine comes to."""
    if inspect.isawaitable(answer):
        answer = await answer
    if isinstance(answer, AsyncIterator):
        return [one async for one in answer]
    return list(answer) if inspect.isgenerator(answer) else answer


def named(answer: Any) -> str:
    return msgspec.json.encode(answer, enc_hook=repr).decode()


SEEN_BY_THEM = re.compile("hush")
TABLES = {
    "run": "id, status, generation, revision, priority",
    "event": "run_id, seq, kind",
    "signal": "run_id, name",
    "gate": "id, status, closed_at",
    "gate_entry": "gate_id, kind",
    "wait": "run_id, step, closed_at",
    "flow": "id, status, revision",
    "graph": "id, status, revision",
    "graph_member": "run_id, state",
    "schedule": "name, namespace",
    "subscription": "name",
    "lane": "name, paused",
    "budget": "name",
    "budget_line": "budget, dimension, hard, used, reserved",
    "session": "id, worker",
    "retention": "name",
    "key": "kid",
}


def theirs_stored(database: str) -> dict[str, set[tuple[Any, ...]]]:
    """Return every row that tells of something of theirs, and all that belongs to the
    installation."""
    found = {}
    for table, columns in TABLES.items():
        rows = execute(database, f"SELECT {columns} FROM holdfast.{table}")
        shared = table in ("lane", "budget", "retention", "key")
        found[table] = {tuple(row) for row in rows if shared or "hush" in str(row)}
    return found


async def walk(engine: Any, things: Things, folder: Any) -> str:
    """Make every call of the walk; return what is wrong with its answers, in lines."""
    wrong = []
    for name, calls in WALK.items():
        for number, (expected, call) in enumerate(calls):
            try:
                answer = await settled(call(engine, things, folder))
            except HoldfastError as error:
                said = {fact: value for fact, value in error.facts.items() if fact not in ASKED}
                if not isinstance(error, expected) or SEEN_BY_THEM.search(repr(said)):
                    wrong.append(f"{name} {number}: {error!r}")
                continue
            if expected or SEEN_BY_THEM.search(named(answer)):
                wrong.append(f"{name} {number}: answered {named(answer)}")
    return "\n".join(wrong)


ASKED = {
    "run",
    "gate",
    "flow",
    "graph",
    "wait",
    "subscription",
    "schedule",
    "name",
    "asked",
    "key",
    "generation",
    "value",
}
"""The facts that repeat what the caller has said."""


def test_every_public_call_respects_the_binding(database, things, tmp_path):
    before = theirs_stored(database)
    with closing(Engine(database, namespace="ours", workflows=[])) as engine:
        assert public(engine) == set(WALK)
        assert attributes(engine) == set(AREAS)

        assert asyncio.run(walk(engine, things, tmp_path)) == ""

    assert theirs_stored(database) == before
    assert list(tmp_path.glob("*graph.db")) == list(tmp_path.glob("run.db")) == []


def test_every_public_call_of_an_async_engine_respects_the_binding(database, things, tmp_path):
    before = theirs_stored(database)

    async def main() -> str:
        engine = AsyncEngine(database, namespace="ours", workflows=[])
        try:
            assert public(engine) == set(WALK)
            assert attributes(engine) == set(AREAS)
            return await walk(engine, things, tmp_path)
        finally:
            await engine.close()

    assert asyncio.run(main()) == ""
    assert theirs_stored(database) == before


HOLDER_CALLS = {"claim", "close", "complete_all", "reclaim", "renew", "rest", "session_id"}
"""What a holder of leases does. Only claim, complete_all and reclaim concern a run that the holder
may not have."""


@pytest.mark.parametrize("size", [1, 500_000])
def test_a_holder_completes_no_lease_of_another_namespace(database, theirs, things, size):
    lease, result = theirs.tasks.lease(things.proof), "x" * size
    with (
        closing(Engine(database, namespace="ours", workflows=[])) as engine,
        engine.tasks.worker("ours", workflows=["ours-task"]) as ours,
    ):
        assert {name for name in dir(ours) if not name.startswith("_")} == HOLDER_CALLS
        engine.start("ours-task", id="ours")
        (own,) = ours.claim()

        refused, done = ours.complete_all([(lease, result), (own, result)])

        assert isinstance(refused, LeaseLost)
        assert (done.status, engine.run("ours").status) == ("completed", "completed")
    assert theirs.run("hush-leased").status == "running"
    assert lease.complete("kept").status == "completed"


def test_an_asynchronous_holder_completes_no_lease_of_another_namespace(database, things):
    async def main() -> list[Any]:
        theirs = AsyncEngine(database, namespace="hush-theirs", workflows=[])
        engine = AsyncEngine(database, namespace="ours", workflows=[])
        try:
            lease = await theirs.tasks.lease(things.proof)
            async with engine.tasks.worker("ours", workflows=["ours-task"]) as ours:
                assert {name for name in dir(ours) if not name.startswith("_")} <= HOLDER_CALLS
                return await ours.complete_all([(lease, "x")])
        finally:
            await engine.close()
            await theirs.close()

    (refused,) = asyncio.run(main())

    assert isinstance(refused, LeaseLost)
    assert execute(database, "SELECT status FROM holdfast.run WHERE id = 'hush-leased'") == [
        ("running",)
    ]


@workflow
async def drawing_elsewhere(options: dict[str, Any]) -> object:
    return await holdfast.start(whispering, **options)


@pytest.mark.parametrize(
    "options", [{"id": "hush-graph::hush-later"}, {"budget": "tree:hush-spender"}]
)
def test_a_child_takes_neither_the_id_of_a_member_nor_the_budget_of_another_tree(
    database, things, options
):
    before = theirs_stored(database)
    with (
        Engine(database, namespace="ours", shutdown_timeout=1) as engine,
        pytest.raises(holdfast.errors.RunFailed, match="BadOption"),
    ):
        engine.start(drawing_elsewhere, options).result(timeout=30)

    assert theirs_stored(database) == before


def test_an_engine_that_is_bound_to_none_sees_all(database, things):
    with closing(Engine(database, workflows=[])) as engine:
        assert {run.namespace for run in engine.runs()} == {"hush-theirs"}
        assert engine.gates.get(things.gate).run_id == "hush-asked"
        assert engine.waits.token(things.wait) == things.token
        assert {one.name for one in engine.events.subscriptions()} == {"hush-hook", "hush-reader"}
        assert len(engine.waits.list()) == 2
        assert engine.why(things.run).run == things.run
        assert engine.database.check() == []


def test_a_workflow_of_a_bound_worker_reaches_no_other_namespace(database, things):
    with Engine(database, namespace="ours", shutdown_timeout=1) as engine:
        assert engine.start(meddling_elsewhere, things.run).result(timeout=30) == "done"

    with closing(Engine(database, workflows=[])) as engine:
        assert engine.run(things.run).status == "waiting"
        assert execute(
            database, "SELECT COUNT(*) FROM holdfast.signal WHERE run_id = :run", run=things.run
        ) == [(0,)]


def test_a_bound_worker_delivers_no_webhooks_of_others(database):
    receiver = Receiver()
    with (
        closing(Engine(database, namespace="hush-theirs", workflows=[])) as theirs,
        closing(Engine(database, workflows=[])) as all_,
    ):
        theirs.webhooks.set("hush-hook", receiver.url, kind="completions", after="beginning")
        all_.webhooks.set("hush-all", receiver.url, kind="completions", after="beginning")
    with Engine(
        database, namespace="ours", shutdown_timeout=1, webhook_hosts=["127.0.0.1"]
    ) as ours:
        ours.webhooks.set("ours-hook", receiver.url, kind="completions", after="beginning")
        ours.start(whispering, id="ours").result(timeout=30)
        receiver.wait(1)
        owners = dict(execute(database, "SELECT name, session_id FROM holdfast.subscription"))
    receiver.close()

    assert {name for name, session in owners.items() if session is not None} == {"ours-hook"}
    assert {headers["Holdfast-Subscription"] for headers, _ in receiver.heard} == {"ours-hook"}


def test_pruning_leaves_the_runs_of_others(database, theirs):
    theirs.start(whispering, id="hush-old").result(timeout=30)
    with Engine(database, namespace="ours", shutdown_timeout=1) as ours:
        ours.start(whispering, id="ours-old").result(timeout=30)

        assert ours.retention.prune("0s") == 1

    assert theirs.run("hush-old").status == "completed"


def test_flows_of_others_are_not_woken(database, clock):
    with closing(Engine(database, namespace="theirs", clock=clock)) as theirs:
        flow = theirs.flows.create("c", "g", owner="o")
        flow = theirs.flows.start(flow.id)
        theirs.flows.wait(flow.id, until="1m")
        clock.advance("2m")
        with closing(Engine(database, namespace="ours", clock=clock)) as ours:
            assert ours.flows.wake().resumed == 0
        assert theirs.flows.wake().resumed == 1


COMMANDS = {
    "": "",
    "runs": "",
    "show": "{run}",
    "why": "{run}",
    "tail": "{done}",
    "events": "",
    "events subscriptions": "",
    "events unsubscribe": "hush-reader --yes",
    "events webhooks": "",
    "events webhooks set": "hush-hook https://example.org/hush",
    "events webhooks dead-letters": "hush-hook",
    "events webhooks remove": "hush-hook --yes",
    "events webhooks redeliver": "hush-hook",
    "signal": "{run} hush-signal",
    "gates": "",
    "gates answer": "{link}",
    "gates link": "{gate} approve --by hush-ann",
    "gates show": "{gate}",
    "gates update": "{gate} 1",
    "gates withdraw": "{gate}",
    "approve": "{gate} --by hush-ann",
    "reject": "{gate} --by hush-ann",
    "gates decide": "{gate} approve --by hush-ann",
    "gates delegate": "{gate} --to bob --by hush-ann",
    "gates reassign": "{gate} --to bob",
    "waits": "--run {run}",
    "waits token": "{wait}",
    "waits release": "{run}",
    "cancel": "{run}",
    "resume": "{run}",
    "replay": "{done}",
    "fork": "{done}",
    "db export": "{done} {folder}/cli.db",
    "db prune": "--older-than 0s --yes",
    "schedules": "",
    "schedules backfill": "hush-schedule --since 1d",
    "schedules next": "hush-schedule",
    "schedules pause": "hush-schedule",
    "schedules remove": "hush-schedule --yes",
    "schedules resume": "hush-schedule",
    "schedules show": "hush-schedule",
    "schedules trigger": "hush-schedule",
    "db retention": "",
    "db retention apply": "--yes",
    "db retention remove": "x --yes",
    "db retention set": "x --older-than 1d",
    "lanes": "",
    "lanes set": "default --pause",
    "budgets": "",
    "budgets raise": "x tokens=1",
    "budgets usage": "{done}",
    "budgets reset": "x",
    "budgets set": "x tokens=1",
    "budgets show": "x",
    "budgets spend": "x tokens=1",
    "workers": "",
    "tasks cancel": "{proof}",
    "tasks claim": "--workflow hush-task",
    "tasks complete": "{proof}",
    "tasks delay": "{proof} 1m",
    "tasks emit": "{proof} 1",
    "tasks fail": "{proof} permanent x",
    "tasks override": "{run} x",
    "tasks priority": "{run} 1",
    "tasks progress": "{proof} 1",
    "tasks reclaim": "{run}",
    "tasks renew": "{proof}",
    "tasks revoke": "{run}",
    "tasks submit": "ours-task",
    "tasks suspend": "{proof} x",
    "tasks wait": "{proof} x",
    "flows": "",
    "flows advance": "{flow} {{}}",
    "flows cancel": "{flow}",
    "flows create": "c g --owner o",
    "flows deliver": "{flow} topic correlation",
    "flows fail": "{flow} x",
    "flows finish": "{flow}",
    "flows observe": "{flow} name running --task x",
    "flows prune": "--older-than 0s --yes",
    "flows resume": "{flow}",
    "flows show": "{flow}",
    "flows start": "{flow}",
    "flows wait": "{flow} --until 1h",
    "flows wake": "",
    "graphs": "",
    "graphs cancel": "{graph}",
    "graphs events": "{graph}",
    "graphs extend": "{graph} {folder}/graph.json",
    "graphs prune": "--older-than 0s --yes",
    "graphs replay": "{graph} hush-member",
    "graphs show": "{graph}",
    "graphs start": "{folder}/graph.json",
    "graphs wait": "{graph} --timeout 1s",
    "graphs why": "{graph} hush-member",
    "db keys": "",
    "db keys rotate": "",
    "db": "",
    "db check": "",
    "db copy": "{database} {folder}/copy.db",
    "db info": "",
    "db rekey": "",
    "db unseal": "",
    "doctor": "",
}
BY_CODE = {"demo", "run", "worker", "bench", "schedules set"}
"""The commands that open an engine with that namespace and run code of the user, or need no
database."""


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from commands(found, (*path, name))
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield " ".join(path)


def test_every_command_respects_the_namespace_that_is_named(database, things, tmp_path):
    before = theirs_stored(database)
    (tmp_path / "graph.json").write_text('{"members": {"only": {"workflow": "ours-task"}}}')
    assert set(commands(cli)) == set(COMMANDS) | BY_CODE
    leaks = []
    for command, text in COMMANDS.items():
        given = text.format(**things._asdict(), folder=tmp_path, database=database).split()
        done = CliRunner().invoke(
            cli, ["--db", database, "--namespace", "ours", *command.split(), *given]
        )
        said = done.output
        for one in sorted([*given, database, things.proof.split(".")[0]], key=len, reverse=True):
            said = said.replace(one, "...")
        crashed = done.exception is not None and not isinstance(done.exception, SystemExit)
        misused = done.exit_code == 2 and command not in ("", "db")
        if crashed or misused or "hush" in said:
            leaks.append(f"{command}: {done.output} {done.exception!r}")

    assert "\n".join(leaks) == ""
    assert theirs_stored(database) == before
