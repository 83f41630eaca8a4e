"""A database with one entity of every kind, and all calls that read or use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import msgspec

import holdfast
from holdfast import (
    Engine,
    Fail,
    Graph,
    Run,
    compensate,
    gate,
    sleep,
    step,
    wait_signal,
    workflow,
)
from holdfast.core.api_keys import Grant, Login, Role
from holdfast.core.graphs.model import MemberSpec, NewMember
from holdfast.core.runs import NewRun, Route
from holdfast.core.sessions import Session
from holdfast.errors import HoldfastError
from holdfast.store.budgets.operations import ReserveBudget, SpendBudget
from holdfast.store.graphs.operations import WriteStagePart
from holdfast.store.logins.operations import AddLogin
from holdfast.store.request_keys.operations import ClaimRequestKey
from holdfast.store.retention.operations import TakeMaintenanceLock
from holdfast.store.runs.operations import OpenSession, RequestCancel, StartRuns
from holdfast.store.signals.operations import SignalRun
from holdfast.store.store import Store
from holdfast.store.tasks.operations import ClaimLeases
from holdfast.testing import internals
from tests.engine.every_model import decision_model, started_model, waiting_model
from tests.engine.waiting import wait_for, wait_until


@step
async def double(n: int) -> int:
    holdfast.streams.emit(f"doubling {n}")
    return n * 2


async def undo(n: int) -> None:
    """Compensate nothing."""


@workflow(name="every_plain")
async def plain(n: int) -> int:
    return await double(n)


@workflow(name="every_failing")
async def failing() -> None:
    raise Fail("out of stock")


@workflow(name="every_bulky")
async def bulky(text: str) -> str:
    await wait_signal("never")
    return text


@workflow(name="every_sleeper")
async def sleeper() -> int:
    compensate(undo, await double(1))
    await sleep("1h")
    return 1


@workflow(name="every_listener")
async def listener() -> Any:
    return await wait_signal("paid")


@workflow(name="every_gated")
async def gated() -> str:
    return (
        await gate(
            "Ship it?",
            options=["yes", "no"],
            assignees=["ann", "bob"],
            data={"total": 7},
            timeout="2d",
        )
    ).choice


@workflow(name="every_caller")
async def caller() -> Any:
    wait = await holdfast.waits.create_wait("callback", expires="2d")
    return (await holdfast.waits.wait_for(wait, timeout="3d")).payload


@workflow(name="every_item")
async def item(n: int) -> int:
    return n if n % 2 else await wait_signal("item")


@workflow(name="every_family")
async def family() -> list[int]:
    return await holdfast.map(item, [1, 2])


@workflow(name="every_spender")
async def spender() -> str:
    await holdfast.budgets.spend(money=1)
    await wait_signal("never")
    return "spent"


@workflow(name="every_payer")
async def payer() -> str:
    await holdfast.budgets.spend(money=1)
    return "paid"


WORKFLOWS = [payer, plain, bulky, failing, sleeper, listener, gated, caller, item, family, spender]


def populate(url: str, clock: Any) -> None:
    """Create one entity of every kind."""
    with Engine(url, clock=clock, shutdown_timeout=1, workflows=WORKFLOWS) as engine:
        engine.lanes.set(
            "narrow",
            concurrency=5,
            rate="50/h",
            per_share=2,
            rate_per_share="40/h",
            weights={"x": 2},
        )
        engine.lanes.set("closed", paused=True)
        engine.budgets.set("shared", {"money": 100})
        list(engine.events.read(name="audit"))
        engine.schedules.set("hourly", plain, args=[3], interval="1h")
        engine.retention.set("old", older_than="30d", workflow="every_plain")
        engine.schedules.trigger("hourly")
        engine.webhooks.set(
            "dead", "http://127.0.0.1:9/none", after="now", kind="run_failed", attempts=1
        )
        engine.webhooks.set("hook", "http://127.0.0.1:9/none", after="now", kind="run_expired")
        done = [
            engine.start(plain, 1, id="plain", key="order-1", tags={"customer": "7"}),
            engine.start(plain, 2, id="narrow", lane="narrow", share="x"),
            engine.start(plain, 3, id="spent", budget="shared"),
        ]
        failed = engine.start(failing, id="failed")
        waiting = [
            engine.start(sleeper, id="sleeper", deadline="9d"),
            engine.start(listener, id="listener"),
            engine.start(gated, id="gated"),
            engine.start(caller, id="caller"),
            engine.start(family, id="family"),
            engine.start(spender, id="spender", budget={"money": 5}),
        ]
        engine.start(bulky, "v" * 100_000, id="bulky")
        engine.start(plain, 6, id="delayed", delay="2h")
        engine.start(plain, 7, debounce="5h", key="many")
        engine.start(plain, 8, id="closed", lane="closed", share="y")
        graph = Graph("every")
        first = graph.add(plain, 1, name="a")
        second = graph.add(listener, name="b").after(first)
        graph.add(plain, 2, name="c").after(second)
        engine.graphs.start(graph, id="graph")
        for run in done:
            run.result(timeout=20)
        wait_for(engine, failed, "failed")
        wait_until(engine, lambda: engine.webhooks.dead_letters("dead") != [])
        for run in waiting:
            wait_for(engine, run, "waiting")
        wait_until(engine, lambda: list(engine.runs(workflow="every_item", status="waiting")) != [])
        wait_until(
            engine,
            lambda: (
                [run.id for run in engine.runs(workflow="every_listener", status="waiting")]
                != ["listener"]
            ),
        )
        engine.signal("listener", "later", {"kept": 1}, key="k")
        engine.gates.delegate(engine.gates.list()[0].id, "cid", by="ann")
        _outside(engine)
        _models(engine, "every")
        engine.models.message("every-kept", {"n": 1}, key="k", id="message-1", ttl="90d")
        engine.api_keys.add("ci", roles="starter,viewer", gate_roles="finance", by="ann")
    with closing(Engine(url, clock=clock)) as idle:
        idle.runs(ids=["sleeper", "delayed"]).signal("never", 1, wait=False)
        _in_passing(internals(idle).store)


def _models(engine: Engine, prefix: str) -> Run[Any]:
    """Deploy models, and return a run that waits in every way."""
    engine.models.deploy(waiting_model(prefix), started_model(prefix), decision_model(prefix))
    run = engine.start(f"{prefix}-model", {}, id=f"{prefix}-modelled")
    wait_for(engine, run, "waiting")
    wait_until(engine, lambda: len(_task_ids(engine, run)) == 2)
    wait_until(engine, lambda: _incident_ids(engine, run) != [])
    return run


def _task_ids(engine: Engine, run: Run[Any]) -> list[str]:
    return [task.id for task in engine.models.tasks(run=run.id)]


def _incident_ids(engine: Engine, run: Run[Any]) -> list[str]:
    return [incident.id for incident in engine.models.incidents(run=run.id)]


def _outside(engine: Engine) -> None:
    flow = engine.flows.create(
        "research", "compare", owner="agent", state={"n": 1}, start=True, id="flow"
    )
    engine.flows.observe(flow.id, "r1", "look", "succeeded", result=[1])
    engine.flows.append_event(flow.id, "looked", {"n": 1})
    engine.flows.wait(flow.id, until="6h")
    awaiting = engine.flows.create("research", "hear", owner="agent", start=True, id="awaiting")
    engine.flows.wait(awaiting.id, topic="paid", correlation="77")
    engine.start("every_task", {"size": 1}, id="task", policy={"retries": 3})
    engine.start("every_task", {"size": 2}, id="leased", policy={"retries": 3})
    pair = Graph("pair")
    pair.add(listener, name="late").after(pair.add(plain, 1, name="early", delay="1h"))
    engine.graphs.start(pair, id="pair")


def _in_passing(store: Store) -> None:
    """Write the rows that exist only temporarily: those of a session that holds a run, and those
    that a worker processes later."""
    now = store.now()
    session = Session(
        id="zombie",
        worker="w",
        host="elsewhere",
        pid=7,
        slot=-1,
        started_at=now,
        beat_at=now,
        expires_at=now + 10**10,
        serves=b'{"workflows": {}}',
    )
    held = NewRun(
        id="held",
        route=Route("default", "every_bulky", "1", "default"),
        input=msgspec.json.encode(["h" * 1000]),
        session_id="zombie",
        budgets=("shared",),
    )
    reserve = ReserveBudget(
        run_id="held", generation=1, budgets=("shared",), key="block", amounts={"money": 1}
    )
    login = Login(
        id="login",
        digest=b"d" * 32,
        grant=Grant("ann", (Role.VIEWER, Role.APPROVER), gate_roles=("finance",)),
        is_link=False,
        created_at=0,
        expires_at=0,
    )
    member = NewMember(
        name="staged",
        spec=MemberSpec(route=Route("default", "every_plain", "1", "default")),
        input=b"[1]",
        groups=(),
    )
    for op in (
        OpenSession(session),
        StartRuns([held]),
        reserve,
        SignalRun("held", "news", b"1"),
        TakeMaintenanceLock("payloads", "zombie", 10**10),
        SpendBudget(name="shared", amounts={"money": 1}, key="invoice-7"),
        RequestCancel("pair::early", "no longer wanted", force=True),
        WriteStagePart(
            stage_id="staging::1", namespace="default", members=[("staging", member)], written=0
        ),
        AddLogin(login, 90 * 24 * 3600 * 10**6),
        ClaimRequestKey("once", b"r" * 32),
        ClaimLeases(session_id="zombie", routes=[], limit=1, run_id="leased", key="claim"),
    ):
        answer = store.apply([op])[0]
        assert not isinstance(answer, BaseException), answer


ODD: dict[str, list[Any]] = {
    "INTEGER": ["garbage", b"\xff\x00", 2**63 - 1, -(2**63), -1, 1.5, float("inf"), ""],
    "TEXT": [b"\xff\xfe", "", "garbage", 7, "\n", "x" * 3000, "{", "null"],
    "BLOB": [b"", b"\xff\xfe", b"{", b"null", b"7", "text", 5, b"\x00", b"[[[["],
    "REAL": ["garbage", b"\xff", float("inf"), -1.0],
}
"""Values that are invalid in a column, by its declared type."""


def reads(engine: Engine, ids: dict[str, list[str]]) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield every call that reads the database, by name."""
    yield "runs", lambda: engine.runs().page(limit=100)
    yield "runs by tag", lambda: list(engine.runs(tags={"customer": "7"}))
    yield "gates", engine.gates.list
    yield "schedules", engine.schedules.list
    yield "lanes", engine.lanes.list
    yield "workers", engine.workers.list
    yield "unserved", engine.workers.unserved
    yield "budgets", engine.budgets.list
    yield "waits", engine.waits.list
    yield "subscriptions", internals(engine).store.subscriptions.all
    yield "retention", engine.retention.list
    yield "operations", engine.operations.list
    for operation in engine.operations.list():
        yield f"operation {operation.id}", partial(engine.operations.get, operation.id)
    yield "preview", engine.retention.preview
    yield "payloads", engine.database.check_payloads
    yield "keys", engine.keys.list
    yield "flows", engine.flows.list
    yield "graphs", engine.graphs.list
    yield "events", lambda: list(engine.events.read())
    yield "counts", internals(engine).store.runs.counts
    yield "models", engine.models.list
    for name in ("every-model", "every-started", "every-decision"):
        yield f"model {name}", partial(engine.models.get, name)
    yield "decision", partial(engine.models.decide, "every-decision")
    yield "model tasks", engine.models.tasks
    yield "incidents", engine.models.incidents
    for look_at in (engine.models.tokens, engine.models.trace, engine.models.variables):
        yield f"model {look_at.__name__}", partial(look_at, "every-modelled")
    yield "resting tokens", partial(internals(engine).store.resting_tokens.of_run, "every-modelled")
    yield "api keys", engine.api_keys.list
    yield "logins", internals(engine).store.logins.sessions
    yield "login", partial(internals(engine).store.logins.get, "login")
    yield "claim", partial(internals(engine).store.tasks.claimed, "zombie", "claim")
    for run_id in ids["run"]:
        yield f"run {run_id}", partial(_record, engine, run_id)
        yield f"history {run_id}", partial(_history, engine, run_id)
        yield f"why {run_id}", partial(engine.why, run_id)
        yield f"spending {run_id}", partial(engine.budgets.usage, run_id)
    for flow_id in ids["flow"]:
        for call in (engine.flows.get, engine.flows.steps, engine.flows.events, engine.flows.why):
            yield f"flow {call.__name__}", partial(call, flow_id)
    for graph_id in ids["graph"]:
        for look in (engine.graphs.get, engine.graphs.events, engine.graphs.diagram):
            yield f"graph {look.__name__}", partial(look, graph_id)
    for gate_id in ids["gate"]:
        yield "gate", partial(engine.gates.get, gate_id)
        yield "gate entries", partial(engine.gates.entries, gate_id)


def _record(engine: Engine, run_id: str) -> object:
    return engine.run(run_id).record


def _history(engine: Engine, run_id: str) -> object:
    return engine.run(run_id).history()


def raw_error(call: Callable[[], object]) -> Exception | None:
    """Return the error of a call if it is not a ``HoldfastError``, else None."""
    try:
        call()
    except HoldfastError:
        return None
    except Exception as error:
        return error
    return None


def use(engine: Engine, clock: Any) -> None:
    """Use each kind of entity with rows that are not damaged."""
    assert engine.start(plain, 20).result(timeout=30) == 40
    listening = engine.start(listener)
    listening.signal("paid", 1)
    assert listening.result(timeout=30) == 1
    asked = engine.start(gated)
    wait_for(engine, asked, "waiting")
    engine.gates.decide(engine.gates.list(run=asked.id)[0].id, "yes", by="ann")
    assert asked.result(timeout=30) == "yes"
    parent = engine.start(family)
    wait_for(engine, parent, "waiting")
    engine.budgets.set("sound", {"money": 10})
    assert engine.start(payer, budget="sound").result(timeout=30) == "paid"
    engine.schedules.set("sound", plain, args=[3], interval="1h")
    asleep = engine.flows.create("research", "sleep", owner="agent", start=True)
    engine.flows.wait(asleep.id, until="1h")
    clock.advance("7h")
    wait_until(engine, lambda: engine.schedules.get("sound").started > 0)
    wait_until(engine, lambda: engine.flows.get(asleep.id).status == "running")
    assert engine.start(plain, 21, lane="another", share="z").result(timeout=30) == 42
    flow = engine.flows.create("research", "go on", owner="agent")
    assert engine.flows.start(flow.id).status == "running"
    graph = Graph("after")
    graph.add(plain, 2, name="one").after(graph.add(plain, 1, name="zero"))
    assert engine.graphs.start(graph).result(timeout=30) == {"one": 4}
    _use_models(engine)


def _use_models(engine: Engine) -> None:
    """Let a run of a sound model end in every way, beside the ones that may be damaged."""
    run = _models(engine, "sound")
    assert engine.models.decide("sound-decision") == "sound"
    assert {"sound-model", "sound-started"} <= {model.name for model in engine.models.list()}
    assert engine.models.message("sound-message").run_id == run.id
    assert engine.models.message("sound-start").effect == "started"
    assert engine.models.broadcast("sound-broadcast").reached == [run.id]
    for task_id in _task_ids(engine, run):
        engine.models.complete(task_id)
    for incident_id in _incident_ids(engine, run):
        engine.models.skip(incident_id)
    assert run.result(timeout=30) == {}
    engine.api_keys.add("sound", roles="viewer")
    assert engine.api_keys.revoke("sound").state == "revoked"
