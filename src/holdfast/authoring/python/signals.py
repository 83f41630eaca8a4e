"""Timers, signals and cancellation of other runs, as workflow code asks for them."""

from __future__ import annotations

from typing import Any

from holdfast.authoring.replay.call import Call
from holdfast.authoring.replay.replay import ReplayProgram
from holdfast.core import duration
from holdfast.core.codec import check_type
from holdfast.core.commands import AwaitSignal, CancelRun, SendSignal, SetTimer
from holdfast.core.duration import Duration
from holdfast.core.events import Event, EventKind
from holdfast.core.validation import checked_reason, checked_signal


def sleeping(program: ReplayProgram, length: Duration) -> Call:
    """Wait for a while."""
    return Call(SetTimer(program.identify("sleep"), duration.parse(length)), lambda event: None)


def awaiting_signal(program: ReplayProgram, name: str, timeout: Duration | None, type: Any) -> Call:
    """Wait for a signal of that name."""
    name = checked_signal(name)
    if type is not Any:
        check_type(type, "type")

    def understand(event: Event) -> Any:
        if event.kind == EventKind.SIGNAL_TIMED_OUT:
            raise TimeoutError(f"no signal {name!r} within {duration.show(limit or 0)}")
        return program.codec.decode(event.data or b"null", type)

    limit = None if timeout is None else duration.parse(timeout)
    return Call(AwaitSignal(program.identify(f"signal {name}"), name, limit), understand)


def sending(program: ReplayProgram, run_id: str, name: str, payload: Any) -> Call:
    """Send a signal to another run, once."""
    name = checked_signal(name)
    data = program.codec.encode(payload, what=f"signal {name!r}")
    return Call(
        SendSignal(program.identify(f"send {name}"), run_id, name, data), lambda event: None
    )


def cancelling(program: ReplayProgram, run_id: str, reason: str) -> Call:
    """Ask another run to stop, once."""
    return Call(
        CancelRun(program.identify("cancel"), run_id, checked_reason(reason)), lambda event: None
    )
