"""Timers that a program sets, and their release by operators."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from holdfast.core.commands import SetTimer
from holdfast.core.events import Event, EventKind
from holdfast.core.waits import WaitKind
from holdfast.engine.execution.findings import TIME
from holdfast.engine.execution.pending.base import Execution, Handler, Pending, watch_clock


class PendingTimer(Pending):
    """A timer that has not fired."""

    __slots__ = ("until",)

    is_timed = True
    is_listed_whole = False
    ends_by_release = True

    def __init__(self, command: SetTimer, until: int) -> None:
        self.command: SetTimer = command
        self.until: int = until

    @property
    def due_at(self) -> int:
        return self.until

    def as_wait(self) -> dict[str, Any]:
        return {"kind": WaitKind.TIMER, "step": self.command.id, "until": self.until}

    def on_time(self, run: Execution, now: int) -> None:
        run.mailbox.add_finding(self.until, partial(self._fire, run), TIME)

    def on_change(self, run: Execution) -> None:
        release = run.signals.release_of(self.command.id)
        if release is not None:
            run.mailbox.add_finding(release.at, partial(self._fire, run))

    def _fire(self, run: Execution, events: list[Event]) -> None:
        if not run.pending.take(self):
            return
        releases = run.signals.take_releases(self.command.id)
        if releases:
            run.commit.take(releases)
        events.append(Event(EventKind.TIMER_FIRED, self.command.id))


def _set_timer(run: Execution, command: SetTimer) -> None:
    until = run.state.progress.until.pop(command.id, None)
    if until is None:
        until = command.until
        if until is None:
            until = run.state.now() + command.after
        data = msgspec.json.encode({"until": until})
        run.commit.events.append(Event(EventKind.TIMER_SET, command.id, data))
    timer = PendingTimer(command, until)
    run.pending.add(timer)
    timer.on_change(run)  # an operator may have released it before this holder took over
    watch_clock(run, timer)


HANDLERS: dict[type, Handler] = {SetTimer: _set_timer}
