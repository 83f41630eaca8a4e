"""Waits with conditions, and waits that are handed out, once for both colours."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.authoring.replay.call import Call
from holdfast.authoring.replay.replay import ReplayProgram
from holdfast.core import duration
from holdfast.core.codec import check_type
from holdfast.core.commands import AwaitCondition, CreateWait
from holdfast.core.conditions import evaluation as conditions
from holdfast.core.conditions import validation as condition_validation
from holdfast.core.conditions.model import AllOf, AnyOf, Condition, Count, SignalNamed, SignalToWait
from holdfast.core.duration import Duration
from holdfast.core.events import Event, EventKind
from holdfast.core.text import is_one_of, is_storable, plain_text
from holdfast.errors import BadCondition, BadOption, WaitClosed, WaitTimeout
from holdfast.errors.base import shown

ON_TIMEOUT = ("fail", "cancel", "expire", "continue", "escalate")


class Wait:
    """A wait that this run has opened: whoever gets its id and its token may deliver signals to
    it."""

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
        self.id, self.name = wait_id, name
        self._program, self._step, self._kid, self._until = program, step, kid, until
        self._closed = False

    @property
    def token(self) -> str:
        """What proves that its holder may deliver signals to this wait. It is stored nowhere, and
        no repr tells it."""
        return self._program.token(self.id, self._kid)

    @property
    def expires_at(self) -> datetime | None:
        """Until when it takes signals."""
        return None if self._until is None else _moment(self._until)

    def __repr__(self) -> str:
        return f"<wait {self.name} {self.id}>"


class Received(msgspec.Struct, frozen=True):
    """A signal that a wait was met by. ``id`` counts the signals of the run, ``wait`` is the one
    that it was delivered to."""

    id: int
    name: str
    payload: Any
    source: str | None
    at: datetime
    wait: str | None


class Waited(msgspec.Struct, frozen=True):
    """What a wait came to: ``how`` is "signals", "timeout" or "release"; ``by`` is who let it
    go."""

    how: str
    signals: tuple[Received, ...] = ()
    value: Any = None
    by: str | None = None

    @property
    def timed_out(self) -> bool:
        """Whether it went on because its time was up; then ``signals`` are those that had come."""
        return self.how == "timeout"

    @property
    def released(self) -> bool:
        """Whether a person let it go on without its signals."""
        return self.how == "release"

    @property
    def payload(self) -> Any:
        """What the signal said that made it whole, or what the person gave who let it go; else
        None."""
        return self.signals[-1].payload if self.how == "signals" else self.value


# Conditions


def all_of(*members: str | Wait | Condition) -> Condition:
    """Wait for all of these: names of signals, waits, or conditions."""
    return condition_validation.checked(AllOf(tuple(map(condition_of, members))))


def any_of(*members: str | Wait | Condition) -> Condition:
    """Wait for one of these: names of signals, waits, or conditions."""
    return condition_validation.checked(AnyOf(tuple(map(condition_of, members))))


def count(n: int, *members: str | Wait | Condition, distinct: str = "signals") -> Condition:
    """Wait for so many: of the signals that match, of those who sent them ("sources"), or of these
    conditions ("waits")."""
    return condition_validation.checked(Count(n, tuple(map(condition_of, members)), distinct))


def matching(
    what: str | Wait, payload: Mapping[str, Any] | None = None, *, name: str | None = None
) -> Condition:
    """Wait for a signal that has these fields in its payload. *what* is its name, or a wait, which
    may also want a *name*."""
    found = condition_of(what)
    if not isinstance(found, SignalNamed | SignalToWait):
        raise BadCondition(
            condition=type(found).__name__, why="a name or a wait is matched, nothing else"
        )
    if name is not None:
        if isinstance(found, SignalNamed):
            raise BadCondition(condition=found.name, why="its name is asked for already")
        found = msgspec.structs.replace(found, name=name)
    wanted = dict(payload) if isinstance(payload, Mapping) else payload
    return condition_validation.checked(msgspec.structs.replace(found, payload=wanted))


def condition_of(what: Any) -> Condition:
    """Return what is waited for as a condition; refuse what is none."""
    if isinstance(what, str):
        return condition_validation.checked(SignalNamed(plain_text(what)))
    if isinstance(what, Wait):
        if what._closed:
            raise WaitClosed(wait=what.id, why="an earlier wait_for was the end of it")
        return SignalToWait(what.id, what._step, what.name, what._until)
    if isinstance(what, SignalNamed | SignalToWait | AllOf | AnyOf | Count):
        return what
    handed = getattr(what, "condition", None)
    if isinstance(handed, SignalToWait):  # a wait that the holder of a lease has opened
        return handed
    raise BadCondition(
        condition=shown(what)[:100], why="it is no name of a signal, no wait, and no condition"
    )


# What a workflow asks for


def creating(program: ReplayProgram, name: str, expires: Duration | None) -> Call:
    """Open a wait that can be handed out."""
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
            why="a wait has a name: a text of one line, 1 to 200 characters",
        )
    name = plain_text(name)
    limit = None if expires is None else duration.parse(expires)
    step = program.identify(f"create {name}")

    def understand(event: Event) -> Wait:
        made = msgspec.json.decode(event.data or b"{}")
        wait = Wait(program, step, made["id"], made["name"], made["kid"], made["until"])
        program.handed_out[wait.id] = wait
        return wait

    return Call(CreateWait(step, name, limit), understand)


def awaiting(
    program: ReplayProgram, what: Any, timeout: Duration | None, on_timeout: str, type: Any
) -> Call:
    """Wait for a condition."""
    condition = condition_validation.checked(condition_of(what))
    waits = conditions.issued_waits(condition)
    strange = [wait for wait in waits if wait not in program.handed_out]
    if strange:
        raise BadCondition(
            condition=waits[strange[0]].label, why="this wait belongs to another run"
        )
    if not is_one_of(on_timeout, ON_TIMEOUT):
        raise BadOption(
            option="on_timeout", value=on_timeout, why=f"it is one of {', '.join(ON_TIMEOUT)}"
        )
    if (
        on_timeout != "fail"
        and timeout is None
        and all(wait.until is None for wait in waits.values())
    ):
        raise BadOption(
            option="on_timeout",
            value=on_timeout,
            why="there is no timeout, and no wait that expires",
        )
    limit = None if timeout is None else duration.parse(timeout)
    if type is not Any:
        check_type(type, "type")

    def understand(event: Event) -> Waited:
        for wait_id in waits:
            program.handed_out[wait_id]._closed = True
        told = msgspec.json.decode(event.data or b"{}", type=_ConditionResult)
        if event.kind == EventKind.WAIT_TIMED_OUT and on_timeout != "continue":
            raise WaitTimeout(
                waited_for=conditions.show(condition), missing=", ".join(told.missing)
            )
        return _waited(program, event.kind, told, type)

    return Call(AwaitCondition(program.identify("wait"), condition, limit, on_timeout), understand)


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


def _waited(program: ReplayProgram, kind: str, told: _ConditionResult, type: Any) -> Waited:
    if kind == EventKind.WAIT_RELEASED:
        line = told.signals[0]
        return Waited("release", (), program.codec.decode(bytes(line.payload)), line.source)
    signals = tuple(
        Received(
            line.id,
            line.name,
            program.codec.decode(bytes(line.payload), type),
            line.source,
            _moment(line.at),
            line.wait,
        )
        for line in told.signals
    )
    return Waited("signals" if kind == EventKind.WAIT_SATISFIED else "timeout", signals)


def _moment(instant: int) -> datetime:
    return datetime.fromtimestamp(instant / 1_000_000, UTC)
