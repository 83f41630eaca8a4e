"""Runs that are suspended by the holder of a lease: what they wait for, and what happens when time
is up. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.conditions import evaluation as conditions
from holdfast.core.conditions import model as condition_model
from holdfast.core.conditions import validation as condition_validation
from holdfast.core.conditions.model import AllOf, AnyOf, Condition, Count, SignalNamed, SignalToWait
from holdfast.core.duration import show
from holdfast.core.events import Event, EventKind
from holdfast.core.status import Status
from holdfast.core.text import is_one_of, plain_text
from holdfast.errors import BadCondition, BadOption, BadWait
from holdfast.errors.base import shown

HORIZON = 366 * 86_400 * 1_000_000
"""How far away the end of a wait may lie, in microseconds, unless somebody says otherwise."""

ON_TIMEOUT = ("continue", "fail", "cancel", "expire", "escalate")

ENDS = {
    "fail": (Status.FAILED, EventKind.RUN_FAILED),
    "cancel": (Status.CANCELLED, EventKind.RUN_CANCELLED),
    "expire": (Status.EXPIRED, EventKind.RUN_EXPIRED),
}
"""How a run ends that has waited in vain, and the event that says so."""


class Suspension(msgspec.Struct, kw_only=True):
    """What a run that nobody holds waits for. ``until`` is when it gives up."""

    step: str
    condition: Condition
    until: int | None = None
    on_timeout: str = "continue"
    escalated_at: int | None = None

    def told(self) -> bytes:
        """Return it as its event tells it."""
        return msgspec.json.encode(
            {
                "for": conditions.show(self.condition)[:500],
                "until": self.until,
                "on_timeout": self.on_timeout,
                "condition": msgspec.to_builtins(self.condition),
            }
        )

    def waits(self, now: int, *, sealed: bool) -> bytes:
        """Return it as the row of its run tells it."""
        wait = {
            "kind": "wait",
            "step": self.step,
            "until": self.due(now),
            "gives_up": self.until,
            "condition": msgspec.to_builtins(self.condition),
            "on_timeout": self.on_timeout,
            "escalated_at": self.escalated_at,
            "sealed": sealed,
        }
        if (
            isinstance(self.condition, condition_model.SignalNamed)
            and self.condition.payload is None
        ):
            wait["plain"] = (
                self.condition.name
            )  # nothing but its name decides: whoever sends it need not judge
        return msgspec.json.encode([wait])

    def due(self, now: int) -> int | None:
        """Say when somebody must look, if nothing comes."""
        return next_look(self.until, self.condition, now, escalated=self.escalated_at is not None)


def next_look(until: int | None, condition: Condition, now: int, *, escalated: bool) -> int | None:
    """Say when a wait gives up, or may have become hopeless. One that was put to a person waits for
    that person."""
    instants = [until, None if escalated else conditions.next_expiry(condition, now)]
    return min((instant for instant in instants if instant is not None), default=None)


_OUTCOMES = (EventKind.WAIT_SATISFIED, EventKind.WAIT_RELEASED, EventKind.WAIT_TIMED_OUT)


def last_wait(events: Sequence[Event]) -> tuple[Suspension | None, Event | None]:
    """Return what a run was suspended for last, if that is not over, or else what it came to."""
    opened, outcome, escalated = None, None, None
    for event in events:
        if event.kind == EventKind.WAIT_OPENED:
            opened, outcome, escalated = event, None, None
        elif opened is not None and event.step == opened.step:
            outcome = event if event.kind in _OUTCOMES else outcome
            escalated = event.at if event.kind == EventKind.WAIT_ESCALATED else escalated
    if opened is None or outcome is not None:
        return None, outcome
    told = msgspec.json.decode(opened.data or b"{}")
    if "condition" not in told:
        return None, None
    return Suspension(
        step=opened.step or "",
        condition=msgspec.convert(told["condition"], Condition),
        escalated_at=escalated,
        until=told["until"] if escalated is None else None,
        on_timeout=told["on_timeout"],
    ), None


# What users write


def checked_instant(what: str, at: int, now: int, horizon: int) -> int:
    """Return an instant at which a wait may end. Raises BadWait: it lies ahead, and not beyond the
    horizon."""
    if at <= now:
        why = (
            "it is now: it must lie ahead" if at == now else f"it lies {show(now - at)} in the past"
        )
        raise BadWait(what=what, why=why)
    if at > now + horizon:
        raise BadWait(what=what, why=f"it lies {show(at - now)} away", horizon=show(horizon))
    return at


def checked_end(on_timeout: str, until: int | None, condition: Condition) -> str:
    """Return what happens when time is up. Raises BadOption when there is no such thing, or no time
    that could be up."""
    if not is_one_of(on_timeout, ON_TIMEOUT):
        raise BadOption(
            option="on_timeout", value=on_timeout, why=f"it is one of {', '.join(ON_TIMEOUT)}"
        )
    ends = until is not None or any(
        wait.until is not None for wait in conditions.issued_waits(condition).values()
    )
    if on_timeout != "continue" and not ends:
        raise BadOption(
            option="on_timeout",
            value=on_timeout,
            why="there is no timeout, and no wait that expires",
        )
    return on_timeout


Find = Callable[[str], SignalToWait]
"""What finds a wait that was handed out, by its id. Raises WaitNotFound, WaitClosed."""


def condition_of(what: Any, find: Find) -> Condition:
    """Return what is waited for as a condition: a name, a wait, a condition, or these as plain
    data. Raises BadCondition."""
    return condition_validation.checked(_condition_of(what, find))


def _condition_of(what: Any, find: Find) -> Condition:
    if isinstance(what, str):
        return SignalNamed(plain_text(what))
    if isinstance(what, SignalToWait):
        return msgspec.structs.replace(find(what.wait), name=what.name, payload=what.payload)
    if isinstance(what, SignalNamed):
        return what
    if isinstance(what, AllOf | AnyOf | Count):
        return msgspec.structs.replace(
            what, of=tuple(_condition_of(member, find) for member in what.of)
        )
    if isinstance(what, Mapping):
        return _from_plain(what, find)
    handed = getattr(what, "condition", None)
    if isinstance(handed, SignalToWait):
        return find(handed.wait)
    raise BadCondition(
        condition=shown(what)[:100], why="it is no name of a signal, no wait, and no condition"
    )


_FIELDS = {
    "all_of": {"all_of"},
    "any_of": {"any_of"},
    "count": {"count", "of", "distinct"},
    "signal": {"signal", "payload"},
    "wait": {"wait", "name", "payload"},
}


def _from_plain(what: Mapping[Any, Any], find: Find) -> Condition:
    kind = next((name for name in _FIELDS if name in what), None)
    if kind is None:
        raise BadCondition(
            condition=shown(dict(what))[:100], why=f"it has one of {', '.join(_FIELDS)}"
        )
    strange = set(what) - _FIELDS[kind]
    if strange:
        raise BadCondition(condition=kind, why=f"it has no {min(map(shown, strange))}")
    if kind == "signal":
        return SignalNamed(what["signal"], what.get("payload"))
    if kind == "wait":
        return msgspec.structs.replace(
            find(what["wait"]), name=what.get("name"), payload=what.get("payload")
        )
    members = what["of" if kind == "count" else kind] if kind != "count" or "of" in what else ()
    if not isinstance(members, list | tuple):
        raise BadCondition(condition=kind, why="it has a list of what it waits for")
    of = tuple(_condition_of(member, find) for member in members)
    if kind == "count":
        return Count(what["count"], of, what.get("distinct", "signals"))
    return AllOf(of) if kind == "all_of" else AnyOf(of)
