"""Signals to other runs, and cancellations of other runs."""

from __future__ import annotations

import msgspec

from holdfast.core.commands import CancelRun, SendSignal
from holdfast.core.events import Event, EventKind
from holdfast.core.step_info import idempotency_key
from holdfast.engine.execution.pending.base import Execution, Handler
from holdfast.store.runs.operations import CancelOtherRun
from holdfast.store.signals.operations import SignalOtherRun


def _send_signal(run: Execution, command: SendSignal) -> Event:
    key = idempotency_key(run.state.run.id, command.id, run.state.lives.of(command.id))
    if run.context.may_reach(command.run_id):
        run.commit.add(SignalOtherRun(command.run_id, command.name, command.payload, key))
    data = msgspec.json.encode({"run": command.run_id, "name": command.name})
    return Event(EventKind.SIGNAL_SENT, command.id, data)


def _cancel_run(run: Execution, command: CancelRun) -> Event:
    if run.context.may_reach(command.run_id):
        run.commit.add(CancelOtherRun(command.run_id, command.reason))
    data = msgspec.json.encode({"run": command.run_id})
    return Event(EventKind.CANCEL_SENT, command.id, data)


HANDLERS: dict[type, Handler] = {SendSignal: _send_signal, CancelRun: _cancel_run}
