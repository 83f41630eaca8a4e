"""Doing what a program wants. Each command either answers at once, with an event, or leaves a want behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core import program as p
from holdfast.core.records import Event, Fanout, Kind, NewRun
from holdfast.engine.ids import new_id
from holdfast.engine.wants import ChildEnd, MapEnd, Signalled, Step, Timer

if TYPE_CHECKING:
    from holdfast.engine.driver import Driver


def handle(driver: Driver, command: p.Command) -> Event | None:
    """Do what *command* says; return its outcome if it has one already."""
    return HANDLERS[type(command)](driver, command)


def _run_step(driver: Driver, command: p.RunStep) -> None:
    attempts = driver.progress.attempts.pop(command.id, 0)
    again_at = driver.progress.until.pop(command.id, None) if attempts else None
    want = Step(command, attempts + 1, again_at if again_at is not None and again_at > driver.now() else None)
    driver.wants[command.id] = want
    if not want.running:
        driver.due_at(want.again_at)
    elif not command.own:
        driver.launches.append(want)
    else:
        driver.begun_by_itself(want)


def _set_timer(driver: Driver, command: p.SetTimer) -> Event | None:
    until = driver.progress.until.pop(command.id, None)
    if until is None:
        until = driver.now() + command.after
        driver.batch.events.append(Event(Kind.TIMER_SET, command.id, msgspec.json.encode({"until": until})))
    if until <= driver.now():
        return Event(Kind.TIMER_FIRED, command.id)
    driver.wants[command.id] = Timer(command, until)
    driver.due_at(until)
    return None


def _await_signal(driver: Driver, command: p.AwaitSignal) -> Event | None:
    found = driver.take_signal(command.id, command.name)
    if found is not None:
        return found
    until = driver.progress.until.pop(command.id, None)
    if until is None and command.timeout is not None:
        until = driver.now() + command.timeout
        data = msgspec.json.encode({"until": until, "name": command.name})
        driver.batch.events.append(Event(Kind.SIGNAL_AWAITED, command.id, data))
    if until is not None and until <= driver.now():
        return Event(Kind.SIGNAL_TIMED_OUT, command.id)
    driver.wants[command.id] = Signalled(command, until)
    driver.due_at(until)
    return None


def _start_child(driver: Driver, command: p.StartChild) -> Event:
    child = new_child(driver, command, command.input, None)
    driver.batch.children.append(child)
    driver.had_children = True
    return Event(Kind.CHILD_STARTED, command.id, msgspec.json.encode({"run": child.id, "workflow": command.route.workflow}))


def new_child(driver: Driver, command: p.StartChild | p.StartMap, data: bytes, index: int | None) -> NewRun:
    """Return a run below the driver's own, to be created with its next commit."""
    options, run, now = command.options, driver.run, driver.now()
    delay, deadline = options.get("delay"), options.get("deadline")
    latest = [limit for limit in (run.deadline, None if deadline is None else now + deadline) if limit is not None]
    return NewRun(
        id=options.get("id") or new_id(),
        route=command.route,
        input=data,
        priority=options.get("priority", run.priority),
        tags=options.get("tags") or {},
        available_at=None if delay is None else now + delay,
        deadline=min(latest, default=None),
        session_id=driver.host.lease_for(command.route),
        parent_id=run.id,
        parent_step=command.id,
        parent_index=index,
        on_parent_end=options.get("on_parent_end", "cancel"),
        root_id=run.root_id or run.id,
    )


def _await_child(driver: Driver, command: p.AwaitChild) -> Event | None:
    want = ChildEnd(command)
    driver.wants[command.id] = want
    if driver.replayed:
        driver.knock()
    return None


def _start_map(driver: Driver, command: p.StartMap) -> Event | None:
    if not command.inputs:
        return Event(Kind.MAP_ENDED, command.id, b"[]")
    driver.had_children = True
    begun = command.id in driver.progress.maps
    want = MapEnd(command, 0)
    driver.wants[command.id] = want
    if begun:
        want.started = len(driver.host.store.children(driver.run.id, [command.id]))
        driver.knock()
        return None
    data = msgspec.json.encode({"count": len(command.inputs), "workflow": command.route.workflow})
    driver.batch.events.append(Event(Kind.MAP_STARTED, command.id, data))
    start_more(driver, want, want.room([]))
    return None


def start_more(driver: Driver, want: MapEnd, count: int) -> None:
    """Start the next *count* children of a map."""
    if count == 0:
        return
    command = want.command
    places = range(want.started, want.started + count)
    driver.batch.children.extend(new_child(driver, command, command.inputs[place], place) for place in places)
    driver.batch.fanouts.append(Fanout(command.id, count, eager=command.max_parallel is not None))
    want.started += count


def _mark(driver: Driver, command: p.Mark) -> None:
    driver.batch.events.append(Event(Kind.MARKED, command.id, msgspec.json.encode(command.value)))


def _send_signal(driver: Driver, command: p.SendSignal) -> Event:
    key = f"{driver.run.id}:{command.id}"
    driver.batch.signals.append((command.run_id, command.name, command.payload, key))
    return Event(Kind.SIGNAL_SENT, command.id, msgspec.json.encode({"run": command.run_id, "name": command.name}))


def _cancel_run(driver: Driver, command: p.CancelRun) -> Event:
    driver.batch.cancels.append((command.run_id, command.reason))
    return Event(Kind.CANCEL_SENT, command.id, msgspec.json.encode({"run": command.run_id}))


def _drop(driver: Driver, command: p.Drop) -> None:
    want = driver.forget(command.id)
    if isinstance(want, Step):
        if want in driver.launches:
            driver.launches.remove(want)
        if want.task is not None:
            want.task.cancel()
    elif isinstance(want, ChildEnd) and want.command.owned:
        driver.batch.cancels.append((want.command.run_id, "nobody waits for it any more"))
    elif isinstance(want, MapEnd):
        driver.cancel_map(command.id, "nobody waits for it any more")


def _finish(driver: Driver, command: p.Finish) -> None:
    driver.batch.finish = command


HANDLERS: dict[type, Callable[[Any, Any], Event | None]] = {
    p.RunStep: _run_step,
    p.SetTimer: _set_timer,
    p.AwaitSignal: _await_signal,
    p.StartChild: _start_child,
    p.StartMap: _start_map,
    p.AwaitChild: _await_child,
    p.Mark: _mark,
    p.SendSignal: _send_signal,
    p.CancelRun: _cancel_run,
    p.Drop: _drop,
    p.Finish: _finish,
}
