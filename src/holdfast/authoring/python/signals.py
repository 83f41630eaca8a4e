"""Calls of workflow code for timers, signals, and the cancellation of other runs."""

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


def sleep_call(program: ReplayProgram, length: Duration) -> Call:
    """Return the call that waits for a durable timer of *length*."""
    return Call(SetTimer(program.identify("sleep"), duration.parse(length)), lambda event: None)


def wait_signal_call(
    program: ReplayProgram, name: str, timeout: Duration | None, type: Any
) -> Call:
    """Return the call that waits for a signal and decodes its payload as *type*.

    The decoder raises TimeoutError if no signal came within *timeout*.
    """
    name = checked_signal(name)
    if type is not Any:
        check_type(type, "type")

    def decode(event: Event) -> Any:
        if event.kind == EventKind.SIGNAL_TIMED_OUT:
            raise TimeoutError(f"no signal {name!r} within {duration.show(limit or 0)}")
        return program.codec.decode(event.data or b"null", type)

    limit = duration.parse_optional(timeout)
    return Call(AwaitSignal(program.identify(f"signal {name}"), name, limit), decode)


def send_signal_call(program: ReplayProgram, run_id: str, name: str, payload: Any) -> Call:
    """Return the call that sends a signal to another run, exactly once."""
    name = checked_signal(name)
    data = program.codec.encode(payload, label=f"signal {name!r}")
    return Call(
        SendSignal(program.identify(f"send {name}"), run_id, name, data), lambda event: None
    )


def cancel_run_call(program: ReplayProgram, run_id: str, reason: str) -> Call:
    """Return the call that requests the cancellation of another run, exactly once."""
    return Call(
        CancelRun(program.identify("cancel"), run_id, checked_reason(reason)), lambda event: None
    )
