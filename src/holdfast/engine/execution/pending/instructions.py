"""Instructions of operators to the run of a model, its answers, and a change of its version.

An instruction reaches the run as a signal that no wait takes. The program is fed the event
``instructed``, and answers with ``AnswerInstruction`` in the same turn.
"""

from __future__ import annotations

from functools import partial

import msgspec

from holdfast.core.commands import AnswerInstruction, ChangeVersion
from holdfast.core.events import Event, EventKind
from holdfast.core.messages import INSTRUCTION
from holdfast.core.versions import VersionChange
from holdfast.core.waits import Signal
from holdfast.engine.execution.pending.base import Execution, Handler
from holdfast.engine.runtime.error_data import error_data
from holdfast.store.messages.operations import AnswerSignal, ChangeRunVersion


def find_instructions(run: Execution) -> None:
    """Find the instructions that the program was not fed yet."""
    for signal in run.signals:
        if signal.step == INSTRUCTION:
            run.mailbox.add_finding(signal.at, partial(_take, run, signal))


def _take(run: Execution, signal: Signal, events: list[Event]) -> None:
    if not run.signals.take_one(signal.id):
        return  # it was found twice
    run.commit.take((signal.id,))
    payload = run.context.sealer.opener.signal_payload(run.state.run.id, signal)
    instruction = msgspec.json.decode(payload)
    data = {**instruction, "id": str(signal.number), "by": signal.source}
    events.append(Event(EventKind.INSTRUCTED, None, msgspec.json.encode(data)))


def _answer(run: Execution, command: AnswerInstruction) -> None:
    answer: dict[str, object] = {"answer": msgspec.Raw(command.answer)}
    if command.error is not None:
        answer = {"error": msgspec.Raw(error_data(command.error))}
    run.commit.add(AnswerSignal(int(command.id), msgspec.json.encode(answer).decode()))


def _change_version(run: Execution, command: ChangeVersion) -> None:
    run.commit.add(ChangeRunVersion(command.version, command.places))
    places = dict(command.places)
    change = VersionChange(command.version, command.before, command.instruction, places)
    event = Event(EventKind.VERSION_CHANGED, None, msgspec.json.encode(change))
    run.commit.events.append(event)
    run.state.changes_version = not command.continues


HANDLERS: dict[type, Handler] = {AnswerInstruction: _answer, ChangeVersion: _change_version}
