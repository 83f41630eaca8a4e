"""Waits for a signal of one name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from holdfast.core import duration
from holdfast.core.commands import AwaitSignal
from holdfast.core.events import Event, EventKind
from holdfast.core.waits import WaitKind
from holdfast.engine.execution.findings import TIME
from holdfast.engine.execution.pending.base import Execution, Handler, Pending, watch_clock
from holdfast.engine.execution.signal_buffer import is_named


class PendingSignal(Pending):
    """A wait for a signal."""

    __slots__ = ("until",)

    def __init__(self, command: AwaitSignal, until: int | None) -> None:
        self.command: AwaitSignal = command
        self.until: int | None = until

    @property
    def due_at(self) -> int | None:
        return self.until

    def as_wait(self) -> dict[str, Any]:
        return {
            "kind": WaitKind.SIGNAL,
            "step": self.command.id,
            "name": self.command.name,
            "until": self.until,
        }

    def on_time(self, run: Execution, now: int) -> None:
        run.mailbox.add_finding(self.until or 0, partial(self._time_out, run), TIME)

    def _time_out(self, run: Execution, events: list[Event]) -> None:
        if not run.pending.has(self):
            return
        self.announce(run)
        run.pending.take(self)
        events.append(Event(EventKind.SIGNAL_TIMED_OUT, self.command.id))

    def announce(self, run: Execution) -> None:
        """Record that the run waits for the signal, if the history does not say so yet."""
        if run.pending.unannounced.pop(self.command.id, None) is not None:
            data = msgspec.json.encode({"name": self.command.name, "until": self.until})
            run.commit.events.append(Event(EventKind.SIGNAL_AWAITED, self.command.id, data))


def find_signals(run: Execution, waits: Iterable[PendingSignal]) -> None:
    """Find the signals that these waits can take.

    Of each name as many are found as there are waits for it: the next wait looks again. To find all
    of thousands each time would take longer than a session lives.
    """
    wanted: dict[str, int] = {}
    for wait in waits:
        wanted[wait.command.name] = wanted.get(wait.command.name, 0) + 1
    if not wanted:
        return
    for signal in run.signals:
        if signal.name in wanted and is_named(signal, signal.name):
            run.mailbox.add_finding(signal.at, partial(_deliver, run, signal.name))
            wanted[signal.name] -= 1
            if not wanted[signal.name]:
                del wanted[signal.name]
                if not wanted:
                    return


def _deliver(run: Execution, name: str, events: list[Event]) -> None:
    """Give the oldest signal of that name to the first wait for it."""
    waits = run.pending.of(PendingSignal)
    wait = next((pending for pending in waits if pending.command.name == name), None)
    if wait is None:
        return
    signal = run.signals.take(name)
    if signal is None:
        return
    run.pending.take(wait)
    run.commit.take((signal.id,))
    payload = run.context.sealer.opener.signal_payload(run.state.run.id, signal)
    events.append(Event(EventKind.SIGNAL_RECEIVED, wait.command.id, payload))


def _await_signal(run: Execution, command: AwaitSignal) -> None:
    until = run.state.progress.until
    if command.id in until:
        wait = PendingSignal(command, until.pop(command.id))
    else:
        wait = PendingSignal(command, duration.after(run.state.now(), command.timeout))
        run.pending.unannounced[command.id] = wait
    run.pending.add(wait)
    if run.signals.has(command.name):
        run.mailbox.has_new_signals = True  # they are delivered before the program rests
    watch_clock(run, wait)


HANDLERS: dict[type, Handler] = {AwaitSignal: _await_signal}
