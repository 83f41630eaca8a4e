"""Managed flows from Python: driven by hand, by time, by events, and through crashes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from holdfast import AsyncEngine, Engine
from holdfast.connect.open_store import open_store
from holdfast.core.flows.model import FlowEventKind, FlowStatus
from holdfast.errors import (
    BadFlowPatch,
    BadFlowWait,
    BadOption,
    FlowCancelPending,
    FlowChanged,
    FlowExists,
    FlowFinished,
    FlowNotFound,
    FlowNotYours,
    IllegalMove,
)
from holdfast.testing import internals
from holdfast.testing.clock import VirtualClock
from tests.engine.databases import connect
from tests.engine.waiting import wait_until


@pytest.fixture
def idle(database):
    """An engine that is not at work."""
    engine = Engine(database)
    yield engine
    assert engine.database.check() == []
    engine.close()


def test_a_flow_is_driven_from_outside(idle):
    flow = idle.flows.create(
        "research", " compare three vendors ", owner="agent:7", state={"vendors": 3}, start=True
    )
    idle.flows.advance(flow.id, {"found": 1}, current_step="compare")
    idle.flows.wait(flow.id, topic="invoice", correlation="77")
    idle.flows.deliver(flow.id, "invoice", "77", {"paid": True})
    done = idle.flows.finish(flow.id, {"found": 3})

    assert done.goal == "compare three vendors"
    assert done.state == {"vendors": 3, "found": 3, "resume_event": {"paid": True}}
    assert (done.status, done.wait, done.revision) == (FlowStatus.FINISHED, None, 5)
    assert idle.flows.get(flow.id) == done
    trail = [event.kind for event in idle.flows.events(flow.id)]
    assert trail == ["finished", "resumed", "waiting", "advanced", "started", "created"]


async def drive(engine: AsyncEngine) -> list[str]:
    flow = await engine.flows.create("research", "compare", owner="a")
    await engine.flows.start(flow.id)
    await engine.flows.advance(flow.id, {"x": 1})
    await engine.flows.wait(flow.id)
    await engine.flows.resume(flow.id)
    await engine.flows.wait(flow.id, topic="t", correlation="c")
    await engine.flows.deliver(flow.id, "t", "c")
    await engine.flows.observe(flow.id, "r1", "look", "succeeded", result=[1])
    await engine.flows.request_cancel(flow.id)
    await engine.flows.cancel(flow.id)
    other = await engine.flows.create("research", "compare", owner="a", start=True)
    await engine.flows.fail(other.id, "no")
    third = await engine.flows.create("research", "compare", owner="a", start=True)
    await engine.flows.finish(third.id)
    await engine.flows.wake()
    assert [step.result for step in await engine.flows.steps(flow.id)] == [[1]]
    assert await engine.flows.prune("1d") == 0
    return [flow.status for flow in await engine.flows.list(owner="a")]


def test_the_same_for_asyncio(database):
    import asyncio

    async def main() -> list[str]:
        engine = AsyncEngine(database)
        try:
            return await drive(engine)
        finally:
            await engine.close()

    assert asyncio.run(main()) == ["finished", "failed", "cancelled"]


def test_timers_fire_while_a_worker_is_there(database, clock):
    with Engine(database, clock=clock) as engine:
        flow = engine.flows.create("c", "g", owner="o", start=True)
        engine.flows.wait(flow.id, until="1h")
        clock.advance("59m")
        assert engine.flows.get(flow.id).status == "waiting"
        clock.advance("1m")
        wait_until(engine, lambda: engine.flows.get(flow.id).status == "running")


def test_a_timer_that_came_due_while_nobody_worked_fires_at_once(database, clock):
    asleep = Engine(database, clock=clock)
    flow = asleep.flows.create("c", "g", owner="o", start=True)
    asleep.flows.wait(flow.id, until="1h")
    asleep.close()
    clock.advance("2h")
    with Engine(database, clock=clock) as engine:
        wait_until(engine, lambda: engine.flows.get(flow.id).status == "running")


def test_a_waiting_flow_that_is_asked_to_stop_is_cancelled_by_a_worker(engine):
    flow = engine.flows.create("c", "g", owner="o", start=True)
    engine.flows.wait(flow.id)
    engine.flows.request_cancel(flow.id)

    wait_until(engine, lambda: engine.flows.get(flow.id).status == "cancelled")


def test_a_running_flow_that_is_asked_to_stop_is_its_drivers_business(idle):
    flow = idle.flows.create("c", "g", owner="o", start=True)
    idle.flows.request_cancel(flow.id)

    assert idle.flows.wake().cancelled == 0
    with pytest.raises(FlowCancelPending):
        idle.flows.finish(flow.id)
    assert idle.flows.cancel(flow.id).status == "cancelled"


def test_bad_input_is_refused_and_nothing_is_written(idle):
    flows = idle.flows
    flow = flows.create("c", "g", owner="o", start=True)
    for wrong, call in (
        (BadOption, lambda: flows.create(" ", "g", owner="o")),
        (BadOption, lambda: flows.create("c", "", owner="o")),
        (BadOption, lambda: flows.create("c", "g", owner="")),
        (BadFlowPatch, lambda: flows.create("c", "g", owner="o", state=object())),
        (BadFlowPatch, lambda: flows.advance(flow.id, {"x": object()})),
        (BadOption, lambda: flows.advance(flow.id, {}, current_step=" ")),
        (BadFlowWait, lambda: flows.wait(flow.id, topic=" ", correlation="7")),
        (BadFlowWait, lambda: flows.wait(flow.id, topic="t")),
        (BadFlowWait, lambda: flows.wait(flow.id, until="1h", topic="t", correlation="7")),
        (BadFlowWait, lambda: flows.wait(flow.id, until="40d", horizon="30d")),
        (BadFlowWait, lambda: flows.wait(flow.id, until=0)),
        (FlowNotFound, lambda: flows.get("nobody")),
        (FlowNotFound, lambda: flows.start("nobody")),
        (FlowNotYours, lambda: flows.get(flow.id, owner="p")),
        (FlowNotYours, lambda: flows.observe(flow.id, "r", "t", "running", owner="p")),
        (FlowChanged, lambda: flows.advance(flow.id, {}, revision=0)),
        (IllegalMove, lambda: flows.start(flow.id)),
        (IllegalMove, lambda: flows.resume(flow.id)),
        (BadOption, lambda: flows.observe(flow.id, "r", "t", "dancing")),
        (BadOption, lambda: flows.observe(flow.id, "", "t", "running")),
        (BadOption, lambda: flows.list(status="dancing")),
        (BadOption, lambda: flows.create("c", "g", owner="o", requester=None)),
        (BadOption, lambda: flows.create("c", "g", owner="o", id="")),
        (BadOption, lambda: flows.create("c", "g", owner="o", id=7)),
        (BadOption, lambda: flows.create("c", "g", owner="o" * 3_000_000)),
        (BadOption, lambda: flows.observe(flow.id, "r" * 3_000_000, "t", "running")),
        (FlowNotFound, lambda: flows.get("\ud800")),
        (BadFlowWait, lambda: flows.wait(flow.id, topic="\ud800", correlation="7")),
        (BadFlowPatch, lambda: flows.create("c", "g", owner="o", state=float("nan"))),
        (BadFlowPatch, lambda: flows.advance(flow.id, {"x": [float("inf")]})),
        (BadFlowPatch, lambda: flows.advance(flow.id, {"x": "\ud800"})),
        (BadOption, lambda: flows.advance(flow.id, {}, revision="1")),
        (BadOption, lambda: flows.advance(flow.id, {}, owner=7)),
        (BadFlowWait, lambda: flows.wait(flow.id, topic=7, correlation="7")),
        (
            BadFlowWait,
            lambda: flows.wait(
                flow.id, until=datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))
            ),
        ),
        (BadOption, lambda: flows.fail(flow.id, " ")),
        (BadOption, lambda: flows.fail(flow.id, None)),
        (FlowNotFound, lambda: flows.start(7)),
        (FlowNotFound, lambda: flows.get("a\0b")),
        (FlowNotFound, lambda: flows.deliver(None, "t", "c")),
        (BadOption, lambda: flows.deliver(flow.id, 7, "c")),
        (BadOption, lambda: flows.observe(flow.id, "r", None, "running")),
        (BadOption, lambda: flows.observe(flow.id, "r", "t", "running", child_session=7)),
        (BadOption, lambda: flows.list(limit="7")),
        (BadOption, lambda: flows.list(owner=7)),
        (FlowNotFound, lambda: flows.list(before="nobody")),
        (BadOption, lambda: flows.prune("0s", batch=0)),
    ):
        with pytest.raises(wrong):
            call()
    assert flows.get(flow.id) == flow
    assert len(flows.list()) == 1
    assert len(flows.events(flow.id)) == 2
    assert (flows.events(flow.id, limit=-1), flows.steps(flow.id)) == ([], [])


def test_an_owner_is_the_same_with_and_without_space_around_it(idle):
    flow = idle.flows.create("c", "g", owner=" anna ", start=True)

    assert idle.flows.advance(flow.id, {}, owner=" anna ").owner == "anna"
    assert [found.id for found in idle.flows.list(owner=" anna ")] == [flow.id]


def test_a_page_after_a_flow_that_has_left_the_list_is_refused(idle):
    first, second = (idle.flows.create("c", "g", owner="o", start=True).id for _ in range(2))
    assert [flow.id for flow in idle.flows.list(status="running", before=first)] == [second]

    idle.flows.finish(first)

    with pytest.raises(BadOption, match="list from the start again"):
        idle.flows.list(status="running", before=first)


def test_the_last_instant_of_all_can_be_waited_for(idle):
    flow = idle.flows.create("c", "g", owner="o", start=True)
    assert idle.flows.wait(flow.id, until=datetime.max).wait["at"] == datetime.max.replace(
        tzinfo=UTC
    )


def test_a_flow_that_has_ended_says_so(idle):
    flow = idle.flows.create("c", "g", owner="o", start=True)
    idle.flows.fail(flow.id, "no vendor answered")

    with pytest.raises(FlowFinished):
        idle.flows.advance(flow.id, {})
    assert idle.flows.get(flow.id).state["failure"]["reason"] == "no vendor answered"


def test_other_namespaces_are_out_of_sight(database):
    mine, theirs = Engine(database, namespace="mine"), Engine(database, namespace="theirs")
    flow = mine.flows.create("c", "g", owner="o", start=True)

    assert theirs.flows.list() == []
    calls = theirs.flows
    for call in (
        calls.get,
        calls.start,
        calls.wait,
        calls.resume,
        calls.finish,
        calls.request_cancel,
        calls.cancel,
        calls.steps,
        calls.events,
        lambda one: calls.fail(one, "x"),
        lambda one: calls.advance(one, {}),
        lambda one: calls.list(before=one),
        lambda one: calls.observe(one, "r", "t", "running"),
    ):
        with pytest.raises(FlowNotFound):
            call(flow.id)
    mine.flows.wait(flow.id, topic="t", correlation="c")
    assert calls.deliver(flow.id, "t", "c") is None
    with pytest.raises(FlowExists):
        calls.create("c", "g", owner="o", id=flow.id)
    mine.flows.cancel(flow.id)
    assert calls.prune("0s") == 0
    assert mine.flows.get(flow.id).revision == 3
    mine.close()
    theirs.close()


def test_many_drivers_change_one_flow_and_lose_nothing(idle, database):
    flow = idle.flows.create("c", "g", owner="o", start=True)

    def drive(name: str) -> None:
        engine = Engine(database)
        for number in range(10):
            engine.flows.advance(flow.id, {f"{name} {number}": number})
            engine.flows.observe(flow.id, "shared", name, "running")
        engine.close()

    together([lambda name=name: drive(name) for name in "abc"])
    found = idle.flows.get(flow.id)
    assert len(found.state) == 30
    assert found.revision == 31
    assert len(idle.flows.steps(flow.id)) == 1
    assert len(idle.flows.events(flow.id, limit=1000)) == 2 + 30 + 30


class Crash(BaseException):
    """The process dies here."""


class Mortal:
    """A store whose process dies before or after its next commit."""

    def __init__(self, store: Any, side: str) -> None:
        self._store, self._side = store, side

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def apply(self, batch: Sequence[Any]) -> list[Any]:
        if self._side == "before":
            raise Crash
        self._store.apply(batch)
        raise Crash


ACTIONS: dict[str, tuple[Callable[[Engine, str], object], str]] = {
    "start": (lambda engine, flow: engine.flows.start(flow), "created"),
    "advance": (lambda engine, flow: engine.flows.advance(flow, {"x": 1}), "running"),
    "wait": (lambda engine, flow: engine.flows.wait(flow, until="1s"), "running"),
    "resume": (lambda engine, flow: engine.flows.resume(flow), "waiting"),
    "deliver": (lambda engine, flow: engine.flows.deliver(flow, "t", "c"), "waiting"),
    "wake": (lambda engine, flow: engine.flows.wake(), "due"),
    "finish": (lambda engine, flow: engine.flows.finish(flow), "running"),
    "fail": (lambda engine, flow: engine.flows.fail(flow, "no"), "waiting"),
    "ask to stop": (lambda engine, flow: engine.flows.request_cancel(flow), "waiting"),
    "cancel": (lambda engine, flow: engine.flows.cancel(flow), "waiting"),
    "observe": (lambda engine, flow: engine.flows.observe(flow, "r", "t", "running"), "running"),
    "prune": (lambda engine, flow: engine.flows.prune("1s"), "finished"),
    "set": (lambda engine, flow: engine.flows.set(flow, goal="another"), "running"),
    "append": (lambda engine, flow: engine.flows.append_event(flow, "asked"), "running"),
    "deliver to all": (lambda engine, flow: engine.flows.deliver_all("t", "c"), "waiting"),
}


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_crash_at_the_commit_leaves_all_of_it_or_nothing(database, action, side):
    act, status = ACTIONS[action]
    clock = VirtualClock()
    whole = Engine(database, clock=clock)
    before = prepared(whole, status, clock)
    mortal = Engine(database, clock=clock, store=Mortal(open_store(database, clock=clock), side))
    with pytest.raises(Crash):
        act(mortal, before.id)
    internals(mortal).store._store.close()

    assert whole.database.check() == []
    events = len(internals(whole).store.flows.events(before.id, 100))
    if side == "before":
        assert whole.flows.get(before.id) == before
        act(whole, before.id)
    elif action == "prune":
        assert whole.flows.list() == []
    else:
        assert whole.flows.get(before.id) != before or action in ("observe", "append")
        assert events > 1
    assert whole.database.check() == []
    whole.close()


@pytest.mark.parametrize("side", ["before", "after"])
def test_a_crash_while_a_flow_is_made_leaves_all_of_it_or_nothing(database, side):
    whole, store = Engine(database), open_store(database)
    with pytest.raises(Crash):
        Engine(database, store=Mortal(store, side)).flows.create(
            "c", "g", owner="o", id="f", start=True
        )
    store.close()

    assert whole.database.check() == []
    if side == "before":
        assert whole.flows.list() == []
        whole.flows.create("c", "g", owner="o", id="f", start=True)
    assert [event.kind for event in whole.flows.events("f")] == ["started", "created"]
    whole.close()


def prepared(engine: Engine, status: str, clock: VirtualClock) -> Any:
    flow = engine.flows.create("c", "g", owner="o", start=status != "created")
    if status == "waiting":
        engine.flows.wait(flow.id, topic="t", correlation="c")
    elif status == "due":
        engine.flows.wait(flow.id, until="1h")
    elif status == "finished":
        engine.flows.finish(flow.id)
    clock.advance("1h")
    return engine.flows.get(flow.id)


def together(calls: Sequence[Callable[[], None]]) -> None:
    trouble: list[BaseException] = []

    def guarded(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:
            trouble.append(error)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert trouble == []


def test_the_description_of_a_flow_changes_with_a_revision(idle):
    flow = idle.flows.create("research", "compare", owner="kate", requester="s1", start=True)

    changed = idle.flows.set(
        flow.id, goal="compare two", new_owner="bert", controller="audit", revision=1
    )

    assert (changed.goal, changed.owner, changed.controller) == ("compare two", "bert", "audit")
    assert (changed.requester, changed.revision) == ("s1", 2)
    assert idle.flows.events(flow.id)[0].payload == {
        "goal": "compare two",
        "owner": "bert",
        "controller": "audit",
    }
    assert [found.id for found in idle.flows.list(owner="bert")] == [flow.id]
    assert idle.flows.set(flow.id, requester="").requester == ""
    with pytest.raises(FlowNotYours):
        idle.flows.set(flow.id, goal="steal", owner="kate")
    with pytest.raises(FlowChanged):
        idle.flows.set(flow.id, goal="late", revision=1)
    for wrong in ({}, {"goal": " "}, {"new_owner": "x" * 201}, {"controller": ""}):
        with pytest.raises(BadOption):
            idle.flows.set(flow.id, **wrong)
    assert idle.flows.get(flow.id).revision == 3


def test_a_step_is_found_by_its_run_id(idle):
    flows = [idle.flows.create("c", "g", owner=owner, start=True) for owner in ("a", "b")]
    for number, flow in enumerate(flows):
        idle.flows.observe(flow.id, "job-1", f"ask {number}", "running")

    assert idle.flows.step(flows[1].id, "job-1").task == "ask 1"
    assert idle.flows.step(flows[1].id, "job-2") is None
    assert [step.flow_id for step in idle.flows.steps(run_id="job-1")] == [
        flow.id for flow in flows
    ]
    assert len(idle.flows.steps(run_id="job-1", owner="b")) == 1
    assert idle.flows.steps(flows[0].id, run_id="job-2") == []
    with pytest.raises(BadOption):
        idle.flows.steps()
    with pytest.raises(FlowNotFound):
        idle.flows.step("nothing", "job-1")


def test_a_program_writes_audit_lines_of_its_own(idle):
    flow = idle.flows.create("c", "g", owner="a", start=True)
    idle.flows.finish(flow.id)

    line = idle.flows.append_event(flow.id, "vendor asked", {"vendor": 1})

    assert (line.seq, line.kind, line.payload, line.own) == (4, "vendor asked", {"vendor": 1}, True)
    assert idle.flows.events(flow.id, limit=1) == [line]
    assert idle.flows.get(flow.id).revision == 2
    for kind in (*FlowEventKind, "", 7):
        with pytest.raises(BadOption):
            idle.flows.append_event(flow.id, kind)
    with pytest.raises(BadFlowPatch):
        idle.flows.append_event(flow.id, "odd", float("nan"))
    assert len(idle.flows.events(flow.id)) == 4


def test_an_event_is_delivered_to_all_flows_that_wait_for_it(idle, monkeypatch):
    monkeypatch.setattr("holdfast.service.flows.DELIVERED", 2)
    monkeypatch.setattr("holdfast.connect.blocking.flows.DELIVERED", 2)
    flows = [idle.flows.create("c", "g", owner="a", start=True) for _ in range(5)]
    for flow in flows:
        idle.flows.wait(flow.id, topic="paid", correlation="77")

    resumed = idle.flows.deliver_all("paid", "77", {"amount": 1})

    assert {flow.id for flow in resumed} == {flow.id for flow in flows}
    assert {flow.state["resume_event"]["amount"] for flow in resumed} == {1}
    assert idle.flows.deliver_all("paid", "77") == []


def test_a_flow_changes_in_the_transaction_of_the_program(idle, database):
    flow = idle.flows.create("c", "g", owner="a", start=True)
    with closing(connect(database)) as db:
        db.execute("SELECT 1")
        idle.flows.advance(flow.id, {"paid": True}, connection=db)
        made = idle.flows.create("c", "another", owner="a", connection=db)
        idle.flows.append_event(flow.id, "noted", connection=db)
        assert idle.flows.get(flow.id).revision == 1
        db.rollback()
        with pytest.raises(FlowNotFound):
            idle.flows.get(made.id)

        db.execute("SELECT 1")
        idle.flows.wait(flow.id, topic="t", correlation="c", connection=db)
        idle.flows.deliver(flow.id, "t", "c", connection=db)
        idle.flows.observe(flow.id, "job-1", "ask", "running", connection=db)
        with pytest.raises(FlowChanged):
            idle.flows.finish(flow.id, revision=7, connection=db)
        idle.flows.finish(flow.id, {"paid": True}, connection=db)
        db.commit()

    assert (idle.flows.get(flow.id).status, idle.flows.get(flow.id).revision) == ("finished", 4)
    assert [event.kind for event in idle.flows.events(flow.id)] == [
        "finished",
        "step_observed",
        "resumed",
        "waiting",
        "started",
        "created",
    ]
