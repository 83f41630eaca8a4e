"""Reading the events of all runs: which of them, from where on, and how often a delivery is
tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core.events import EventKind
from holdfast.core.text import is_storable
from holdfast.core.validation import checked_tags
from holdfast.errors import BadCursor, BadOption

KINDS = frozenset(kind for name, kind in vars(EventKind).items() if not name.startswith("_"))


def _those(*begin: str) -> frozenset[str]:
    return frozenset(kind for kind in KINDS if kind.startswith(begin))


TOPICS: dict[str, frozenset[str]] = {
    "completions": frozenset(
        {
            EventKind.RUN_COMPLETED,
            EventKind.RUN_FAILED,
            EventKind.RUN_CANCELLED,
            EventKind.RUN_EXPIRED,
        }
    ),
    "leases": frozenset(
        {
            EventKind.LEASE_LOST,
            EventKind.LEASE_REVOKED,
            EventKind.ATTEMPT_FAILED,
            EventKind.RUN_STUCK,
        }
    ),
    "signals": frozenset(
        {
            EventKind.SIGNAL_AWAITED,
            EventKind.SIGNAL_RECEIVED,
            EventKind.SIGNAL_TIMED_OUT,
            EventKind.SIGNAL_SENT,
        }
    ),
    "operator": frozenset(
        {
            EventKind.CANCEL_REQUESTED,
            EventKind.RUN_CANCELLED,
            EventKind.RUN_RESUMED,
            EventKind.RUN_REPLAYED,
            EventKind.RUN_FORKED,
            EventKind.LEASE_REVOKED,
            EventKind.PRIORITY_CHANGED,
            EventKind.RUN_RELEASED,
            EventKind.RUN_OVERRIDDEN,
        }
    ),
    "steps": _those("step_"),
    "gates": _those("gate_"),
    "waits": _those("wait_"),
    "timers": _those("timer_"),
    "children": _those("child_", "map_"),
    "budgets": _those("budget_", EventKind.STEP_BLOCKED),
}
"""Kinds of events that belong together."""

CURSOR, WEBHOOK = "cursor", "webhook"
"""The kinds of subscriptions."""

BEGINNING, NOW = "beginning", "now"

FIRST_PAUSE, LONGEST_PAUSE, ATTEMPTS = 1_000_000, 3_600_000_000, 12
"""Microseconds after the first failed delivery, and at most; after how many of them an event is a
dead letter."""


class EventFilter(msgspec.Struct, frozen=True):
    """Which events. What is None asks for nothing; all tags must fit."""

    workflow: str | None = None
    namespace: str | None = None
    run_id: str | None = None
    kinds: tuple[str, ...] | None = None
    tags: dict[str, str] = {}


class EventCursor(msgspec.Struct, frozen=True, order=True):
    """A place in the order in which a store tells its events."""

    tx: int
    id: int


class RunEvent(msgspec.Struct, kw_only=True):
    """One event of some run, as subscribers read it. ``cursor`` is where to read on after it."""

    run_id: str
    namespace: str
    workflow: str
    seq: int
    kind: str
    step: str | None = None
    attempt: int = 1
    data: bytes | None = None
    error: bytes | None = None
    started_at: int | None = None
    at: int = 0
    cursor: str = ""


class Subscription(msgspec.Struct, kw_only=True):
    """Somebody who reads events under a name, and how far that has come. The secret of a webhook is
    never shown."""

    name: str
    kind: str
    which: EventFilter
    place: EventCursor
    created_at: int
    moved_at: int | None = None
    url: str | None = None
    secret: str | None = None
    attempts: int = 0
    attempt_limit: int = ATTEMPTS
    next_at: int | None = None
    error: str | None = None
    session_id: str | None = None

    def __repr__(self) -> str:
        return f"<subscription {self.name}>"


class DeadLetter(msgspec.Struct):
    """An event that a webhook could not deliver."""

    subscription: str
    run_id: str
    seq: int
    body: bytes
    attempts: int
    error: str
    at: int
    again: bool = False


def which_from(filters: Mapping[str, Any]) -> EventFilter:
    """Return which events are meant. Raises BadOption for what cannot be asked."""
    known = ("workflow", "namespace", "run", "kind", "tags")
    unknown = [name for name in filters if name not in known]
    if unknown:
        raise BadOption(option=unknown[0], known=", ".join(known))
    for name in ("workflow", "namespace", "run"):
        value = filters.get(name)
        if value is not None and (
            not isinstance(value, str) or not value or not is_storable(value)
        ):
            raise BadOption(option=name, value=value, why="it is a name")
    texts = dict(sorted(checked_tags(filters.get("tags")).items()))
    return EventFilter(
        filters.get("workflow"),
        filters.get("namespace"),
        filters.get("run"),
        _kinds(filters.get("kind")),
        texts,
    )


def _kinds(given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    names = list(given) if isinstance(given, list | tuple | set | frozenset) else [given]
    if not names:
        raise BadOption(option="kind", value=given, why="name at least one, or leave it out")
    found: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            raise BadOption(
                option="kind",
                value=name,
                why="it is a word, such as completions, or a list of them",
            )
        if name in TOPICS:
            found |= TOPICS[name]
        elif name in KINDS:
            found.add(name)
        else:
            raise BadOption(option="kind", value=name, known=", ".join([*TOPICS, *sorted(KINDS)]))
    return tuple(sorted(found))


def cursor_of(place: EventCursor, installation: str) -> str:
    """Return a place as text that says whose it is."""
    return f"{installation}.{place.tx:x}.{place.id:x}"


def place_of(cursor: Any, installation: str) -> EventCursor:
    """Return the place that a cursor names. Raises BadCursor for one of another database."""
    parts = cursor.split(".") if isinstance(cursor, str) else []
    if len(parts) != 3 or not parts[0]:
        raise BadCursor(cursor=cursor, why="it is no cursor")
    if parts[0] != installation:
        raise BadCursor(
            cursor=cursor, database=installation, why=f"it is one of database {parts[0]}"
        )
    try:
        place = EventCursor(int(parts[1], 16), int(parts[2], 16))
    except ValueError:
        raise BadCursor(cursor=cursor, why="it is no cursor") from None
    if not 0 <= place.tx < 2**63 or not 0 <= place.id < 2**63:
        raise BadCursor(cursor=cursor, why="it is no cursor")
    return place


def pause_after(attempts: int, dice: float) -> int:
    """Return how long to wait after so many failed deliveries; *dice* from 0 to 1 keeps many from
    coming at once."""
    pause = min(FIRST_PAUSE * 2 ** min(attempts - 1, 20), LONGEST_PAUSE)
    return int(pause * (0.8 + 0.4 * dice))


def checked_url(url: Any) -> str:
    """Return the address of a webhook; refuse what nothing can be delivered to. Raises BadOption,
    which shows no password."""
    like = "it must be like https://example.org/hook"
    if not isinstance(url, str):
        raise BadOption(option="url", value=url, why=like)
    shown = "..." if "@" in url else url
    from urllib.parse import urlsplit  # only who has a webhook pays for it

    try:
        parts = urlsplit(url)
        fits = parts.port is None or 0 < parts.port < 65536
    except ValueError:  # a port that is none, or half an address
        raise BadOption(option="url", value=shown, why=like) from None
    if (
        not fits
        or not url.isprintable()
        or " " in url
        or parts.scheme not in ("http", "https")
        or not parts.hostname
    ):
        raise BadOption(option="url", value=shown, why=like)
    if parts.username is not None or parts.password is not None:
        raise BadOption(
            option="url", why="it must not hold a password: deliveries are signed instead"
        )
    if parts.fragment:
        raise BadOption(option="url", value=shown, why="a fragment (#...) is never sent")
    return url
