"""Every public call of an engine that is bound to a namespace respects the binding."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from typing import Any

import msgspec

from holdfast import AsyncEngine, Engine, Graph, bpmn
from holdfast.errors import (
    BadOption,
    FlowNotFound,
    GateNotFound,
    GraphExists,
    GraphNotFound,
    HoldfastError,
    LeaseLost,
    ModelNotFound,
    NamespaceBound,
    NoReceiver,
    OperationNotFound,
    RunExists,
    RunNotFound,
    ScheduleNotFound,
    SubscriptionExists,
    SubscriptionNotFound,
    TaskClosed,
    TokenRefused,
    WaitNotFound,
    WorkerNotFound,
)
from tests.engine.every_model import decision_model, waiting_model
from tests.engine.namespaces.things import Things, meddling_elsewhere, theirs_stored, whispering

AREAS = (
    "api_keys",
    "audit",
    "budgets",
    "database",
    "events",
    "flows",
    "gates",
    "graphs",
    "keys",
    "lanes",
    "models",
    "operations",
    "retention",
    "schedules",
    "streams",
    "tasks",
    "waits",
    "webhooks",
    "workers",
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
NO_OPERATION = (OperationNotFound,)
NO_MODEL = (ModelNotFound,)
NO_TASK = (TaskClosed,)
NO_RECEIVER = (NoReceiver,)
REFUSED = (BadOption,)
NOTHING: tuple[type[HoldfastError], ...] = ()
"""It answers, and the answer names nothing of theirs."""


BULK: list[Call] = [
    lambda e, t, p: e.runs().cancel(),
    lambda e, t, p: e.runs(status="completed").replay(),
    lambda e, t, p: e.runs().resume(),
    lambda e, t, p: e.runs().signal("ours"),
    lambda e, t, p: e.runs().release(),
    lambda e, t, p: e.runs().prioritise(5),
    lambda e, t, p: e.runs().migrate(2),
    lambda e, t, p: e.runs().delete(),
    lambda e, t, p: e.runs(tags={"hush": "hush"}).cancel(dry_run=True),
]


def more(name: str, **options: Any) -> Graph:
    graph = Graph()
    graph.add(whispering, name=name, **options)
    return graph


WALK: dict[str, list[tuple[tuple[type[HoldfastError], ...], Call]]] = {
    # First: later calls open holders of their own, which name the workflow of the others.
    "workers.list": [(NOTHING, lambda e, t, p: e.workers.list())],
    "workers.remove": [((WorkerNotFound,), lambda e, t, p: e.workers.remove("hush-holder"))],
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
    "database.info": [(FORBIDDEN, lambda e, t, p: e.database.info())],
    "database.sizes": [(FORBIDDEN, lambda e, t, p: e.database.sizes())],
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
    "database.backup": [(FORBIDDEN, lambda e, t, p: e.database.backup(p / "all.db"))],
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
    "tasks.submit": [
        ((RunExists,), lambda e, t, p: e.tasks.submit("hush-task", 1, id="hush-leased")),
        (FORBIDDEN, lambda e, t, p: e.tasks.submit("hush-task", 1, namespace="hush-theirs")),
    ],
    "tasks.attempts": [(NO_RUN, lambda e, t, p: e.tasks.attempts(t.run))],
    "tasks.claim": [(NOTHING, lambda e, t, p: e.tasks.claim(workflows=["hush-task"]))],
    "tasks.lease": [((LeaseLost,), lambda e, t, p: e.tasks.lease(t.proof))],
    "tasks.worker": [
        (NOTHING, lambda e, t, p: e.tasks.worker("ours", workflows=["hush-task"]).claim()),
        (NOTHING, lambda e, t, p: e.tasks.worker("ours", topics=["hush-topic"]).claim()),
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
        (NOTHING, lambda e, t, p: e.runs(ids=[t.done]).page()),
        *((NOTHING, verb) for verb in BULK),
        (FORBIDDEN, lambda e, t, p: e.runs(namespace="hush-theirs").cancel()),
        (FORBIDDEN, lambda e, t, p: e.runs(namespace="hush-theirs").delete(dry_run=True)),
    ],
    "operations.list": [(NOTHING, lambda e, t, p: e.operations.list())],
    "operations.get": [(NO_OPERATION, lambda e, t, p: e.operations.get(t.operation))],
    "operations.stop": [(NO_OPERATION, lambda e, t, p: e.operations.stop(t.operation))],
    "operations.wait": [(NO_OPERATION, lambda e, t, p: e.operations.wait(t.operation))],
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
    "waits.get": [((WaitNotFound,), lambda e, t, p: e.waits.get(t.wait))],
    "budgets.get": [(FORBIDDEN, lambda e, t, p: e.budgets.get("hush-budget"))],
    "lanes.get": [(FORBIDDEN, lambda e, t, p: e.lanes.get("default"))],
    "lanes.pause": [(FORBIDDEN, lambda e, t, p: e.lanes.pause("default"))],
    "lanes.resume": [(FORBIDDEN, lambda e, t, p: e.lanes.resume("default"))],
    "lanes.remove": [(FORBIDDEN, lambda e, t, p: e.lanes.remove("default"))],
    "budgets.remove": [(FORBIDDEN, lambda e, t, p: e.budgets.remove("hush-budget"))],
    "budgets.refund": [(NO_RUN, lambda e, t, p: e.budgets.refund(t.run))],
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
    "flows.append_event": [(NO_FLOW, lambda e, t, p: e.flows.append_event(t.flow, "asked"))],
    "flows.deliver_all": [(NOTHING, lambda e, t, p: e.flows.deliver_all("topic", "correlation"))],
    "flows.events": [(NO_FLOW, lambda e, t, p: e.flows.events(t.flow))],
    "flows.fail": [(NO_FLOW, lambda e, t, p: e.flows.fail(t.flow, "x"))],
    "flows.finish": [(NO_FLOW, lambda e, t, p: e.flows.finish(t.flow))],
    "flows.get": [(NO_FLOW, lambda e, t, p: e.flows.get(t.flow))],
    "flows.list": [(NOTHING, lambda e, t, p: e.flows.list(owner="hush-owner"))],
    "flows.observe": [(NO_FLOW, lambda e, t, p: e.flows.observe(t.flow, "r", "task", "running"))],
    "flows.prune": [(NOTHING, lambda e, t, p: e.flows.prune("0s"))],
    "flows.request_cancel": [(NO_FLOW, lambda e, t, p: e.flows.request_cancel(t.flow))],
    "flows.resume": [(NO_FLOW, lambda e, t, p: e.flows.resume(t.flow))],
    "flows.set": [(NO_FLOW, lambda e, t, p: e.flows.set(t.flow, goal="x"))],
    "flows.start": [(NO_FLOW, lambda e, t, p: e.flows.start(t.flow))],
    "flows.step": [(NO_FLOW, lambda e, t, p: e.flows.step(t.flow, "hush-step"))],
    "flows.steps": [
        (NO_FLOW, lambda e, t, p: e.flows.steps(t.flow)),
        (NOTHING, lambda e, t, p: e.flows.steps(run_id="hush-step")),
    ],
    "flows.wait": [(NO_FLOW, lambda e, t, p: e.flows.wait(t.flow, until="1h"))],
    "flows.wake": [(NOTHING, lambda e, t, p: e.flows.wake())],
    "flows.why": [(NO_FLOW, lambda e, t, p: e.flows.why(t.flow))],
    "graphs.cancel": [(NO_GRAPH, lambda e, t, p: e.graphs.cancel(t.graph))],
    "graphs.diagram": [(NO_GRAPH, lambda e, t, p: e.graphs.diagram(t.graph))],
    "graphs.edges": [(NO_GRAPH, lambda e, t, p: e.graphs.edges(t.graph))],
    "graphs.events": [(NO_GRAPH, lambda e, t, p: e.graphs.events(t.graph))],
    "graphs.export": [(NO_GRAPH, lambda e, t, p: e.graphs.export(t.graph, p / "graph.db"))],
    "graphs.extend": [(NO_GRAPH, lambda e, t, p: e.graphs.extend(t.graph, more("new")))],
    "graphs.join": [(NO_GRAPH, lambda e, t, p: e.graphs.join(t.graph, t.run))],
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
    "models.deploy": [
        (NOTHING, lambda e, t, p: e.models.deploy(waiting_model("ours"), decision_model("ours")))
    ],
    "models.list": [(NOTHING, lambda e, t, p: e.models.list())],
    "models.get": [
        (NO_MODEL, lambda e, t, p: e.models.get("hush-model")),
        (NO_MODEL, lambda e, t, p: e.models.get("hush-model", 1)),
    ],
    "models.decide": [(NO_MODEL, lambda e, t, p: e.models.decide("hush-decision"))],
    "models.activate": [(NO_MODEL, lambda e, t, p: e.models.activate("hush-model", 1))],
    "models.deprecate": [(NO_MODEL, lambda e, t, p: e.models.deprecate("hush-model", 1))],
    "models.message": [
        (NO_RECEIVER, lambda e, t, p: e.models.message("hush-message")),
        (NO_RECEIVER, lambda e, t, p: e.models.message("hush-start")),
        (NO_RUN, lambda e, t, p: e.models.message("hush-message", run=t.model_run)),
        # The id of a message of theirs is not used in this namespace.
        (NOTHING, lambda e, t, p: e.models.message("x", id="message-1", ttl="1h")),
    ],
    "models.broadcast": [(NOTHING, lambda e, t, p: e.models.broadcast("hush-broadcast"))],
    "models.tasks": [
        (NOTHING, lambda e, t, p: e.models.tasks()),
        (NOTHING, lambda e, t, p: e.models.tasks(mine="hush-ann")),
        (NOTHING, lambda e, t, p: e.models.tasks(process="hush-model")),
        (NO_RUN, lambda e, t, p: e.models.tasks(run=t.model_run)),
    ],
    "models.complete": [
        (NO_TASK, lambda e, t, p: e.models.complete(t.task, by="hush-ann")),
        (NO_TASK, lambda e, t, p: e.models.complete(t.external)),
    ],
    "models.throw": [
        (NO_TASK, lambda e, t, p: e.models.throw(t.task, "x")),
        (NO_TASK, lambda e, t, p: e.models.throw(t.external, "x")),
    ],
    "models.trigger": [(NO_RUN, lambda e, t, p: e.models.trigger(t.model_run, "hush-heard"))],
    "models.start_activity": [
        (NO_RUN, lambda e, t, p: e.models.start_activity(t.model_run, "scope", "activity"))
    ],
    "models.variables": [(NO_RUN, lambda e, t, p: e.models.variables(t.model_run))],
    "models.set_variables": [(NO_RUN, lambda e, t, p: e.models.set_variables(t.model_run, {}))],
    "models.tokens": [(NO_RUN, lambda e, t, p: e.models.tokens(t.model_run))],
    "models.trace": [(NO_RUN, lambda e, t, p: e.models.trace(t.model_run))],
    "models.diagram": [(NO_RUN, lambda e, t, p: e.models.diagram(t.model_run))],
    "models.incidents": [
        (NOTHING, lambda e, t, p: e.models.incidents()),
        (NO_RUN, lambda e, t, p: e.models.incidents(run=t.model_run)),
    ],
    "models.retry": [(NO_RUN, lambda e, t, p: e.models.retry(t.incident))],
    "models.skip": [(NO_RUN, lambda e, t, p: e.models.skip(t.incident))],
    "models.modify": [
        (NO_RUN, lambda e, t, p: e.models.modify(t.model_run, bpmn.add("hush-person"))),
        (
            NO_RUN,
            lambda e, t, p: e.models.modify(t.model_run, bpmn.add("hush-person"), dry_run=True),
        ),
    ],
    "models.migrate": [(NO_RUN, lambda e, t, p: e.models.migrate(t.model_run, 1))],
    "models.suspend": [(NO_RUN, lambda e, t, p: e.models.suspend(t.model_run))],
    "models.resume": [(NO_RUN, lambda e, t, p: e.models.resume(t.model_run))],
    "api_keys.add": [(FORBIDDEN, lambda e, t, p: e.api_keys.add("ours", roles="viewer"))],
    "api_keys.list": [(FORBIDDEN, lambda e, t, p: e.api_keys.list())],
    "audit.list": [((), lambda e, t, p: e.audit.list())],
    "api_keys.revoke": [(FORBIDDEN, lambda e, t, p: e.api_keys.revoke("hush-key"))],
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
    return {name for name in dir(engine) if not name.startswith("_")} - {*dir(type(engine))}


async def settled(answer: Any) -> Any:
    """Return what a call of either engine comes to."""
    if inspect.isawaitable(answer):
        answer = await answer
    if isinstance(answer, AsyncIterator):
        return [item async for item in answer]
    return list(answer) if inspect.isgenerator(answer) else answer


def named(answer: Any) -> str:
    return msgspec.json.encode(answer, enc_hook=repr).decode()


SEEN_BY_THEM = re.compile("hush")


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
    "message",
    "model",
    "task",
    "worker",
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
