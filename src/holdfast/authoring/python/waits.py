"""``wait_for`` and ``create_wait``: conditions over signals, and waits with tokens.

The code is shared by ``async def`` and ``def`` workflows: each function returns a ``Call``, and
``api_async`` and ``api_sync`` resolve it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.authoring.replay.call import Call
from holdfast.authoring.replay.replay import ReplayProgram
from holdfast.core import duration, typed_json
from holdfast.core.codec import check_type
from holdfast.core.commands import AwaitCondition, CreateWait
from holdfast.core.conditions import evaluation as conditions
from holdfast.core.conditions import validation as condition_validation
from holdfast.core.conditions.model import (
    ON_TIMEOUT,
    AllOf,
    AnyOf,
    AnySignal,
    Condition,
    Count,
    Leaf,
    OnTimeout,
    SignalNamed,
    SignalToWait,
)
from holdfast.core.duration import Duration
from holdfast.core.events import Event, EventKind
from holdfast.core.text import is_one_of, is_storable, plain_text
from holdfast.errors import BadCondition, BadOption, WaitClosed, WaitTimeout
from holdfast.errors.base import safe_repr

__all__ = ["Received", "Wait", "Waited", "all_of", "any_of", "any_signal", "count", "matching"]


class Wait:
    """A wait that this run has opened: any program with its id and its token may deliver signals
    to it."""

    __slots__ = ("_closed", "_kid", "_program", "_step", "_until", "id", "name")

    def __init__(
        self,
        program: ReplayProgram,
        step: str,
        wait_id: str,
        name: str,
        kid: str,
        until: int | None,
    ) -> None:
        self.id: str = wait_id
        self.name: str = name
        self._program: ReplayProgram = program
        self._step: str = step
        self._kid: str = kid
        self._until: int | None = until
        self._closed: bool = False

    @property
    def token(self) -> str:
        """The credential for delivering signals to this wait. It is never stored, and not part of
        the repr."""
        return self._program.context.wait_token(self.id, self._kid)

    @property
    def expires_at(self) -> datetime | None:
        """The time in UTC after which the wait refuses signals; None if it does not expire."""
        if self._until is None:
            return None
        return _to_datetime(self._until)

    def __repr__(self) -> str:
        return f"<wait {self.name} {self.id}>"


class Received(msgspec.Struct, frozen=True):
    """A signal that satisfied a wait.

    ``id`` numbers the signals of the run; ``wait`` is the wait that the signal was delivered to,
    if any.
    """

    id: int
    name: str
    payload: Any
    source: str | None
    at: datetime
    wait: str | None


class Waited(msgspec.Struct, frozen=True):
    """The outcome of a wait: ``how`` is "signals", "timeout" or "release"; ``by`` is the person who
    released it."""

    how: str
    signals: tuple[Received, ...] = ()
    value: Any = None
    by: str | None = None

    @property
    def timed_out(self) -> bool:
        """Whether the wait timed out; then ``signals`` are the ones that had arrived."""
        return self.how == "timeout"

    @property
    def released(self) -> bool:
        """Whether a person released the wait without its signals."""
        return self.how == "release"

    @property
    def payload(self) -> Any:
        """The payload of the signal that completed the condition, or the value that the person
        gave who released the wait; None after a timeout."""
        return self.signals[-1].payload if self.how == "signals" else self.value


# Conditions


def all_of(*members: str | Wait | Condition) -> Condition:
    """Wait for all of these: names of signals, waits, or conditions."""
    return condition_validation.checked_condition(AllOf(tuple(map(condition_of, members))))


def any_of(*members: str | Wait | Condition) -> Condition:
    """Wait for one of these: names of signals, waits, or conditions."""
    return condition_validation.checked_condition(AnyOf(tuple(map(condition_of, members))))


def any_signal() -> Condition:
    """Wait for a signal to the run, whatever its name. Signals to issued waits do not count."""
    return AnySignal()


def count(n: int, *members: str | Wait | Condition, distinct: str = "signals") -> Condition:
    """Wait for *n* of these members.

    *distinct* selects the objects to count: matching signals ("signals"), their different senders
    ("sources"), or satisfied members ("waits").
    """
    return condition_validation.checked_condition(
        Count(n, tuple(map(condition_of, members)), distinct)
    )


def matching(
    signal: str | Wait | Condition,
    payload: Mapping[str, Any] | None = None,
    *,
    name: str | None = None,
) -> Condition:
    """Wait for a signal that has these fields in its payload.

    *signal* is the name of the signal, ``any_signal()``, or a wait; for a wait, *name* also
    restricts the name of the signal. Raises BadCondition.
    """
    condition = condition_of(signal)
    if not isinstance(condition, SignalNamed | SignalToWait | AnySignal):
        raise BadCondition(
            condition=type(condition).__name__,
            why="matching() takes the name of a signal, any_signal() or a wait",
        )
    if name is not None:
        if not isinstance(condition, SignalToWait):
            raise BadCondition(
                condition=conditions.show(condition),
                why="the first argument already says which signal: leave out name=",
            )
        condition = msgspec.structs.replace(condition, name=name)
    fields = dict(payload) if isinstance(payload, Mapping) else payload
    return condition_validation.checked_condition(
        msgspec.structs.replace(condition, payload=fields)
    )


def condition_of(member: Any) -> Condition:
    """Return the condition for a signal name, a wait or a condition.

    Raises BadCondition for any other value, and WaitClosed for a wait that ``wait_for`` has closed.
    """
    if isinstance(member, str):
        return condition_validation.checked_condition(SignalNamed(plain_text(member)))
    if isinstance(member, Wait):
        if member._closed:
            raise WaitClosed(wait=member.id, why="an earlier wait_for has closed it")
        return SignalToWait(member.id, member._step, member.name, member._until)
    if isinstance(member, Leaf | AllOf | AnyOf | Count):
        return member
    condition = getattr(member, "condition", None)
    if isinstance(condition, SignalToWait):  # a wait that the holder of a lease has opened
        return condition
    raise BadCondition(
        condition=safe_repr(member)[:100],
        why="give the name of a signal, a wait or a condition",
    )


# Calls


def create_wait_call(program: ReplayProgram, name: str, expires: Duration | None) -> Call:
    """Return the call that opens a wait with a token. It decodes to a Wait. Raises BadOption."""
    if (
        not isinstance(name, str)
        or not name
        or len(name) > 200
        or "\n" in name
        or not is_storable(name)
    ):
        raise BadOption(
            option="name",
            value=name,
            why="the name of a wait must be a single line of 1 to 200 characters",
        )
    name = plain_text(name)
    limit = duration.parse_optional(expires)
    step = program.identify(f"create {name}")

    def decode(event: Event) -> Wait:
        data = msgspec.json.decode(event.data or b"{}")
        wait = Wait(program, step, data["id"], data["name"], data["kid"], data["until"])
        program.issued_waits[wait.id] = wait
        return wait

    return Call(CreateWait(step, name, limit), decode)


def wait_for_call(
    program: ReplayProgram, awaited: Any, timeout: Duration | None, on_timeout: str, type: Any
) -> Call:
    """Return the call that waits for a condition and decodes payloads as *type*.

    Raises BadCondition, BadOption; the decoder raises WaitTimeout unless *on_timeout* is
    "continue".
    """
    condition = condition_validation.checked_condition(condition_of(awaited))
    waits = conditions.issued_waits(condition)
    foreign = [wait_id for wait_id in waits if wait_id not in program.issued_waits]
    if foreign:
        raise BadCondition(
            condition=waits[foreign[0]].label, why="this wait belongs to another run"
        )
    if not is_one_of(on_timeout, ON_TIMEOUT):
        raise BadOption(
            option="on_timeout",
            value=on_timeout,
            why=f"the value must be one of {', '.join(ON_TIMEOUT)}",
        )
    if (
        on_timeout != OnTimeout.FAIL
        and timeout is None
        and all(wait.until is None for wait in waits.values())
    ):
        raise BadOption(
            option="on_timeout",
            value=on_timeout,
            why="there is no timeout, and no wait that expires",
        )
    limit = duration.parse_optional(timeout)
    if type is not Any:
        check_type(type, "type")

    def decode(event: Event) -> Waited:
        for wait_id in waits:
            program.issued_waits[wait_id]._closed = True
        result = typed_json.decode(event.data or b"{}", _ConditionResult)
        if event.kind == EventKind.WAIT_TIMED_OUT and on_timeout != OnTimeout.CONTINUE:
            raise WaitTimeout(
                waited_for=conditions.show(condition), missing=", ".join(result.missing)
            )
        return _waited(program, event.kind, result, type)

    return Call(AwaitCondition(program.identify("wait"), condition, limit, on_timeout), decode)


class _StoredSignalLine(msgspec.Struct):
    id: int
    name: str
    source: str | None
    wait: str | None
    at: int
    payload: msgspec.Raw


class _ConditionResult(msgspec.Struct):
    signals: list[_StoredSignalLine] = []
    missing: list[str] = []


def _waited(program: ReplayProgram, kind: str, result: _ConditionResult, type: Any) -> Waited:
    if kind == EventKind.WAIT_RELEASED:
        release = result.signals[0]
        return Waited("release", (), program.codec.decode(bytes(release.payload)), release.source)
    signals = tuple(
        Received(
            signal.id,
            signal.name,
            program.codec.decode(bytes(signal.payload), type),
            signal.source,
            _to_datetime(signal.at),
            signal.wait,
        )
        for signal in result.signals
    )
    return Waited("signals" if kind == EventKind.WAIT_SATISFIED else "timeout", signals)


def _to_datetime(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1_000_000, UTC)
