"""Commands about the program itself: recorded decisions, dropped commands, the end."""

from __future__ import annotations

import msgspec

from holdfast.core.commands import Drop, Finish, RecordDecision
from holdfast.core.events import Event, EventKind
from holdfast.engine.execution.pending.base import Execution, Handler
from holdfast.errors import KeyMissing


def _record_decision(run: Execution, command: RecordDecision) -> None:
    data = msgspec.json.encode(command.value)
    run.commit.events.append(Event(EventKind.MARKED, command.id, data))


def _drop(run: Execution, command: Drop) -> None:
    pending = run.pending.drop(command.id)
    if pending is not None:
        pending.on_drop(run)


def _finish(run: Execution, command: Finish) -> None:
    if isinstance(command.error, KeyMissing):
        raise command.error  # not a failure of the workflow: it continues when the key is there
    run.commit.finish = command


HANDLERS: dict[type, Handler] = {
    RecordDecision: _record_decision,
    Drop: _drop,
    Finish: _finish,
}
