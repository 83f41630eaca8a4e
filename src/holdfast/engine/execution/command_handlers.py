"""Doing what a program wants. Each command either answers at once, with an event, or leaves a want
behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast.core.budgets import rules as budget_rules
from holdfast.core.commands import (
    AwaitChild,
    AwaitCondition,
    AwaitSignal,
    CancelRun,
    Command,
    CreateWait,
    Drop,
    EndChildren,
    ExtendGraph,
    Finish,
    OpenGate,
    RecordDecision,
    ReleaseReservation,
    Reserve,
    RunStep,
    SendSignal,
    SetTimer,
    Spend,
    StartChild,
    StartMap,
)
from holdfast.core.events import Event, EventKind
from holdfast.core.history import DROPPED
from holdfast.core.runs import Fanout, NewRun
from holdfast.core.step_info import idempotency_key
from holdfast.core.streams.model import CloseReason
from holdfast.engine.execution.gate_actions import open_gate, withdraw
from holdfast.engine.execution.graph_growth import with_stage
from holdfast.engine.execution.pending import (
    PendingChild,
    PendingChildren,
    PendingCondition,
    PendingGate,
    PendingMap,
    PendingSignal,
    PendingSpend,
    PendingStep,
    PendingTimer,
)
from holdfast.engine.execution.signal_buffer import Listening
from holdfast.engine.execution.state import Held
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import KeyMissing
from holdfast.payloads.compose import composer, sealed
from holdfast.store.contract import AddMembers


def handle(held: Held, command: Command) -> Event | None:
    """Do what *command* says; return its outcome if it has one already."""
    return HANDLERS[type(command)](held, command)


def begins_one_step(held: Held, commands: Sequence[Command]) -> bool:
    """Handle *commands* and return True, if they are one step: most turns want no more, and a step
    has no outcome at once."""
    if len(commands) != 1 or type(commands[0]) is not RunStep:
        return False
    _run_step(held, commands[0])
    return True


def _run_step(held: Held, command: RunStep) -> None:
    attempts = held.progress.attempts.pop(command.id, 0)
    again_at = held.progress.until.pop(command.id, None) if attempts else None
    want = PendingStep(
        command, attempts + 1, again_at if again_at is not None and again_at > held.now() else None
    )
    held.wants[command.id] = want
    if want.again_at is not None:
        held.let_try(want)
    if want.again_at is not None:
        held.due_at(want.again_at)
    elif not command.own:
        held.launches.append(want)
    else:
        held.begun_by_itself(want)


def _set_timer(held: Listening, command: SetTimer) -> None:
    until = held.progress.until.pop(command.id, None)
    if until is None:
        until = held.now() + command.after
        held.batch.events.append(
            Event(EventKind.TIMER_SET, command.id, msgspec.json.encode({"until": until}))
        )
    want = PendingTimer(command, until)
    held.wants[command.id] = want
    held.watch_release(want)
    held.watch_clock(want)


def _await_signal(held: Listening, command: AwaitSignal) -> None:
    if command.id in held.progress.until:
        want = PendingSignal(command, held.progress.until.pop(command.id))
    else:
        want = PendingSignal(
            command, None if command.timeout is None else held.now() + command.timeout
        )
        held.opening[command.id] = want
    held.wants[command.id] = want
    held.listen_for(command.name)
    held.watch_clock(want)


def _start_child(held: Held, command: StartChild) -> Event:
    child = new_child(held, command, command.input, None)
    held.batch.children.append(child)
    held.had_children = True
    data: dict[str, object] = {"run": child.id, "workflow": command.route.workflow}
    if command.options.get("id"):
        data["chosen"] = True  # if this start is declared void, the next one finds the same run
    return Event(EventKind.CHILD_STARTED, command.id, msgspec.json.encode(data))


def new_child(held: Held, command: StartChild | StartMap, data: bytes, index: int | None) -> NewRun:
    """Return a run below the one that is held, to be created with its next commit."""
    options, run, now = command.options, held.run, held.now()
    held.host.learn(command.definition)
    delay, deadline = options.get("delay"), options.get("deadline")
    run_id = options.get("id") or new_id()
    drawn, limits = budget_rules.drawn_on(options.get("budget"), run_id, run.budgets)
    latest = [
        limit
        for limit in (run.deadline, None if deadline is None else now + deadline)
        if limit is not None
    ]
    return NewRun(
        id=run_id,
        route=command.route,
        input=data,
        priority=options.get("priority", run.priority),
        tags=options.get("tags") or {},
        available_at=None if delay is None else now + delay,
        deadline=min(latest, default=None),
        session_id=held.host.lease_for(command.route),
        parent_id=run.id,
        parent_step=command.id,
        parent_index=index,
        on_parent_end=options.get("on_parent_end", "cancel"),
        root_id=run.root_id or run.id,
        budgets=drawn,
        limits=limits,
        share=options.get("share", run.share),
        same=held.host.sealer.is_same,
    )


def _await_child(held: Held, command: AwaitChild) -> Event | None:
    want = PendingChild(command)
    held.wants[command.id] = want
    if not any(child.id == command.run_id for child in held.batch.children):
        held.knock()  # it may have ended before anybody waited for it
    return None


def _start_map(held: Held, command: StartMap) -> Event | None:
    if not command.inputs:
        return Event(EventKind.MAP_ENDED, command.id, b"[]")
    held.had_children = True
    begun = command.id in held.progress.maps
    want = PendingMap(command, 0)
    held.wants[command.id] = want
    if begun:
        want.started = len(held.host.store.children(held.run.id, [command.id]))
        held.knock()
        return None
    data = msgspec.json.encode({"count": len(command.inputs), "workflow": command.route.workflow})
    held.batch.events.append(Event(EventKind.MAP_STARTED, command.id, data))
    start_more(held, want, want.room([]))
    return None


def start_more(held: Held, want: PendingMap, count: int) -> None:
    """Start the next *count* children of a map."""
    if count == 0:
        return
    command = want.command
    places = range(want.started, want.started + count)
    held.batch.children.extend(
        new_child(held, command, command.inputs[place], place) for place in places
    )
    held.batch.fanouts.append(Fanout(command.id, count, eager=command.max_parallel is not None))
    want.started += count


def _end_children(held: Listening, command: EndChildren) -> Event | None:
    want = PendingChildren(command)
    if not held.batch.children and not held.host.store.open_children(held.run.id, limit=1):
        return want.outcome(released=False)
    held.batch.child_cancels.append(held.reason_for_children())
    held.wants[command.id] = want
    return None


def _mark(held: Held, command: RecordDecision) -> None:
    held.batch.events.append(
        Event(EventKind.MARKED, command.id, msgspec.json.encode(command.value))
    )


def _send_signal(held: Held, command: SendSignal) -> Event:
    key = idempotency_key(held.run.id, command.id, held.lives.of(command.id))
    if held.host.may_reach(command.run_id):
        held.batch.signals.append((command.run_id, command.name, command.payload, key))
    return Event(
        EventKind.SIGNAL_SENT,
        command.id,
        msgspec.json.encode({"run": command.run_id, "name": command.name}),
    )


def _cancel_run(held: Held, command: CancelRun) -> Event:
    if held.host.may_reach(command.run_id):
        held.batch.cancels.append((command.run_id, command.reason))
    return Event(EventKind.CANCEL_SENT, command.id, msgspec.json.encode({"run": command.run_id}))


def _grow_graph(held: Held, command: ExtendGraph) -> Event:
    host = held.host
    for workflow in command.workflows:
        host.learn(workflow)
    op = AddMembers(
        graph_id=command.graph_id,
        namespace=held.run.namespace,
        patch=sealed(command.patch, command.graph_id, host.sealer),
        compose=composer(host.sealer, host.codec),
        lease=host.lease_member,
    )
    held.batch.grows.append(with_stage(op, held.run.id, command.fingerprint))
    names = [member.name for member in command.patch.members]
    return Event(
        EventKind.GRAPH_GROWN,
        command.id,
        msgspec.json.encode({"graph": command.graph_id, "members": names}),
    )


def _drop(held: Listening, command: Drop) -> None:
    want = held.forget(command.id)
    if isinstance(want, PendingStep | PendingSpend) and want in held.launches:
        held.launches.remove(want)
    if isinstance(want, PendingStep):
        _book(held, want)
        if want.task is not None:
            want.task.cancel()
        held.outlet.close_attempt(command.id, want.attempt, CloseReason.DROPPED)
        if want.noted:
            held.batch.events.append(
                Event(EventKind.STEP_DROPPED, command.id, attempt=want.attempt)
            )
    elif isinstance(want, PendingCondition):
        held.drop_wait(want)
    elif isinstance(want, PendingChild) and want.command.owned:
        held.batch.cancels.append((want.command.run_id, DROPPED))
    elif isinstance(want, PendingMap):
        held.cancel_map(command.id, DROPPED)
    elif isinstance(want, PendingGate):
        withdraw(held, want, DROPPED)


def _book(held: Held, want: PendingStep) -> None:
    """Nobody wants the outcome of this attempt, but what it has spent is spent, and what it set
    aside is free."""
    if want.purse is not None:
        want.purse.drop()
        held.batch.spends.extend(want.purse.take())
        if want.purse.reserved:
            held.batch.settles.append(want.command.id)
            held.asides.discard(want.command.id)


def _pay(held: Held, command: Spend | Reserve) -> None:
    want = held.wants[command.id] = PendingSpend(command)
    held.launches.append(want)


def _settle(held: Held, command: ReleaseReservation) -> Event:
    held.batch.settles.append(command.reservation)
    return Event(EventKind.BUDGET_SETTLED, command.id)


def _finish(held: Held, command: Finish) -> None:
    if isinstance(command.error, KeyMissing):
        raise command.error  # no fault of the workflow's: it goes on when the key is there
    held.batch.finish = command


def _create_wait(held: Listening, command: CreateWait) -> Event:
    return held.create_wait(command)


def _await_condition(held: Listening, command: AwaitCondition) -> None:
    held.await_condition(command)


HANDLERS: dict[type, Callable[[Any, Any], Event | None]] = {
    RunStep: _run_step,
    SetTimer: _set_timer,
    AwaitSignal: _await_signal,
    CreateWait: _create_wait,
    AwaitCondition: _await_condition,
    StartChild: _start_child,
    StartMap: _start_map,
    AwaitChild: _await_child,
    EndChildren: _end_children,
    OpenGate: open_gate,
    RecordDecision: _mark,
    SendSignal: _send_signal,
    CancelRun: _cancel_run,
    ExtendGraph: _grow_graph,
    Spend: _pay,
    Reserve: _pay,
    ReleaseReservation: _settle,
    Drop: _drop,
    Finish: _finish,
}
