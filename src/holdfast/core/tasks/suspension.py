"""Suspension: the wait of a run that the holder of its lease has suspended. Pure.

A suspended run has no holder. It waits for a condition over signals, and ``on_timeout`` decides
what happens if the condition is not met in time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.conditions import evaluation as conditions
from holdfast.core.conditions import model as condition_model
from holdfast.core.conditions import validation as condition_validation
from holdfast.core.conditions.model import (
    ON_TIMEOUT,
    AllOf,
    AnyOf,
    AnySignal,
    Condition,
    Count,
    OnTimeout,
    ReleaseOnly,
    SignalNamed,
    SignalToWait,
)
from holdfast.core.duration import show
from holdfast.core.events import Event, EventKind
from holdfast.core.status import Status
from holdfast.core.text import is_one_of, plain_text
from holdfast.core.waits import WaitKind
from holdfast.errors import BadCondition, BadOption, BadWait
from holdfast.errors.base import safe_repr

HORIZON = 366 * 86_400 * 1_000_000
"""The default limit of how far in the future a wait may end, in microseconds."""

ENDS = {
    OnTimeout.FAIL: (Status.FAILED, EventKind.RUN_FAILED),
    "cancel": (Status.CANCELLED, EventKind.RUN_CANCELLED),
    "expire": (Status.EXPIRED, EventKind.RUN_EXPIRED),
}
"""The final status and event of a run whose wait timed out, by ``on_timeout``."""


class Suspension(msgspec.Struct, kw_only=True):
    """The wait of a suspended run. ``until`` is its timeout; ``escalated_at`` is when it was
    escalated to a person.

    ``reason`` says why the run is suspended, and ``asked_by`` who asked for it. ``resume_delay`` is
    the time in microseconds between the signal that meets the condition and the next lease."""

    step: str
    condition: Condition
    until: int | None = None
    on_timeout: str = OnTimeout.CONTINUE
    escalated_at: int | None = None
    reason: str | None = None
    asked_by: str | None = None
    resume_delay: int | None = None

    def as_data(self) -> bytes:
        """Return the data of the event that records the wait."""
        data = {
            "for": conditions.show(self.condition)[:500],
            "until": self.until,
            "on_timeout": self.on_timeout,
            "condition": msgspec.to_builtins(self.condition),
            **self._notes(),
        }
        if self.resume_delay is not None:
            data["resume_delay"] = self.resume_delay
        return msgspec.json.encode(data)

    def _notes(self) -> dict[str, object]:
        """Return the reason and who asked, if they are given."""
        notes = {"reason": self.reason, "asked_by": self.asked_by}
        return {name: text for name, text in notes.items() if text is not None}

    def waits(self, now: int, *, sealed: bool) -> bytes:
        """Return the column ``waits`` of the run. *sealed* says that the store cannot read
        payloads, because they are encrypted or not JSON."""
        wait = {
            "kind": WaitKind.CONDITION,
            "step": self.step,
            "until": self.due(now),
            "gives_up": self.until,
            "condition": msgspec.to_builtins(self.condition),
            "on_timeout": self.on_timeout,
            "escalated_at": self.escalated_at,
            "sealed": sealed,
            "suspended": True,
            **self._notes(),
        }
        condition = self.condition
        if isinstance(condition, condition_model.SignalNamed) and condition.payload is None:
            # Saves the sender of a signal the evaluation: only the name decides.
            wait["plain"] = condition.name
        return msgspec.json.encode([wait])

    def due(self, now: int) -> int | None:
        """Return when the wait must be checked if no signal arrives."""
        return next_look(self.until, self.condition, now, escalated=self.escalated_at is not None)


def next_look(until: int | None, condition: Condition, now: int, *, escalated: bool) -> int | None:
    """Return when a wait must be checked: at its timeout, or when the next issued wait of its
    condition expires and the condition may be impossible to meet. After an escalation such an
    expiry changes nothing: the wait goes on until a person acts."""
    if escalated:
        return until
    instants = (until, conditions.next_expiry(condition, now))
    return min((instant for instant in instants if instant is not None), default=None)


_OUTCOMES = (EventKind.WAIT_SATISFIED, EventKind.WAIT_RELEASED, EventKind.WAIT_TIMED_OUT)


def last_wait(events: Sequence[Event]) -> tuple[Suspension | None, Event | None]:
    """Return the last suspension of a run if it is still open, or else the event of its outcome.
    Both are None if the run was never suspended, or if its last wait is not a suspension."""
    opened: Event | None = None
    outcome: Event | None = None
    escalated_at: int | None = None
    for event in events:
        if event.kind == EventKind.WAIT_OPENED:
            opened = event
            outcome = None
            escalated_at = None
        elif opened is not None and event.step == opened.step:
            if event.kind in _OUTCOMES:
                outcome = event
            elif event.kind == EventKind.WAIT_ESCALATED:
                escalated_at = event.at
    if opened is None or outcome is not None:
        return None, outcome
    data = msgspec.json.decode(opened.data or b"{}")
    if "condition" not in data:
        return None, None
    suspension = Suspension(
        step=opened.step or "",
        condition=typed_json.convert(data["condition"], Condition),
        escalated_at=escalated_at,
        until=data["until"] if escalated_at is None else None,
        on_timeout=data["on_timeout"],
        reason=data.get("reason"),
        asked_by=data.get("asked_by"),
        resume_delay=data.get("resume_delay"),
    )
    return suspension, None


# Arguments of users


def checked_instant(option: str, at: int, now: int, horizon: int) -> int:
    """Return the instant at which a wait ends. Raises BadWait if it is not in the future, or is
    more than *horizon* microseconds away. *option* names it in the error."""
    if at == now:
        raise BadWait(option=option, why="it is now: it must be in the future")
    if at < now:
        raise BadWait(option=option, why=f"it lies {show(now - at)} in the past")
    if at > now + horizon:
        raise BadWait(option=option, why=f"it lies {show(at - now)} away", horizon=show(horizon))
    return at


def checked_end(on_timeout: str, until: int | None, condition: Condition) -> str:
    """Return *on_timeout*. Raises BadOption if it is unknown, or if neither the wait nor an issued
    wait of its condition has a timeout."""
    if not is_one_of(on_timeout, ON_TIMEOUT):
        raise BadOption(
            option="on_timeout", value=on_timeout, why=f"it must be one of {', '.join(ON_TIMEOUT)}"
        )
    can_time_out = until is not None or any(
        wait.until is not None for wait in conditions.issued_waits(condition).values()
    )
    if on_timeout != OnTimeout.CONTINUE and not can_time_out:
        raise BadOption(
            option="on_timeout",
            value=on_timeout,
            why="there is no timeout, and no wait that expires: set a timeout",
        )
    return on_timeout


Find = Callable[[str], SignalToWait]
"""A function that returns an issued wait by its id. Raises WaitNotFound, WaitClosed."""


def condition_of(source: Any, find: Find) -> Condition:
    """Return the condition that a user wrote: a name, a wait, a condition, or these as plain data.
    Raises BadCondition, and what *find* raises."""
    return condition_validation.checked_condition(_condition_of(source, find))


def _condition_of(source: Any, find: Find) -> Condition:
    if isinstance(source, str):
        return SignalNamed(plain_text(source))
    if isinstance(source, SignalToWait):
        return msgspec.structs.replace(find(source.wait), name=source.name, payload=source.payload)
    if isinstance(source, SignalNamed | AnySignal | ReleaseOnly):
        return source
    if isinstance(source, AllOf | AnyOf | Count):
        return msgspec.structs.replace(
            source, of=tuple(_condition_of(member, find) for member in source.of)
        )
    if isinstance(source, Mapping):
        return _from_plain(source, find)
    issued = getattr(source, "condition", None)
    if isinstance(issued, SignalToWait):
        return find(issued.wait)
    raise BadCondition(
        condition=safe_repr(source)[:100],
        why="it must be the name of a signal, a wait, or a condition",
    )


_FIELDS = {
    "all_of": {"all_of"},
    "any_of": {"any_of"},
    "any_signal": {"any_signal", "payload"},
    "count": {"count", "of", "distinct"},
    "signal": {"signal", "payload"},
    "wait": {"wait", "name", "payload"},
}
"""The fields of a condition as plain data, by the field that tells its kind."""


def _from_plain(data: Mapping[Any, Any], find: Find) -> Condition:
    """Return a condition that was written as plain data."""
    kind = next((name for name in _FIELDS if name in data), None)
    if kind is None:
        raise BadCondition(
            condition=safe_repr(dict(data))[:100], why=f"it must have one of {', '.join(_FIELDS)}"
        )
    unknown = set(data) - _FIELDS[kind]
    if unknown:
        raise BadCondition(condition=kind, why=f"it has no field {min(map(safe_repr, unknown))}")
    if kind == "any_signal":
        if data["any_signal"] is not True:
            raise BadCondition(condition=kind, why="its value must be true")
        return AnySignal(data.get("payload"))
    if kind == "signal":
        return SignalNamed(data["signal"], data.get("payload"))
    if kind == "wait":
        return msgspec.structs.replace(
            find(data["wait"]), name=data.get("name"), payload=data.get("payload")
        )
    members = data.get("of", ()) if kind == "count" else data[kind]
    if not isinstance(members, list | tuple):
        raise BadCondition(
            condition=kind, why="its members must be a list of names, waits and conditions"
        )
    of = tuple(_condition_of(member, find) for member in members)
    if kind == "count":
        return Count(data["count"], of, data.get("distinct", "signals"))
    if kind == "all_of":
        return AllOf(of)
    return AnyOf(of)
