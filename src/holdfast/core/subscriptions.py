"""Subscriptions to the events of all runs, graphs or flows: filters, cursors, and the retries of
webhooks.

Runs, graphs and flows are three sources of events, each with an order of its own. A subscription
reads one of them, and its cursor is a place in that order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core.events import EventKind
from holdfast.core.text import is_one_of, is_storable, plain_text
from holdfast.core.validation import checked_flag, checked_tags
from holdfast.errors import BadCursor, BadOption

KINDS = frozenset(kind for name, kind in vars(EventKind).items() if not name.startswith("_"))


def _kinds_with_prefix(*prefixes: str) -> frozenset[str]:
    return frozenset(kind for kind in KINDS if kind.startswith(prefixes))


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
    "messages": _kinds_with_prefix("message_", EventKind.BROADCAST_SENT),
    "incidents": _kinds_with_prefix("incident_"),
    "operator": frozenset(
        {
            EventKind.INSTRUCTED,
            EventKind.INCIDENT_RESOLVED,
            EventKind.VERSION_CHANGED,
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
    "steps": _kinds_with_prefix("step_"),
    "gates": _kinds_with_prefix("gate_"),
    "waits": _kinds_with_prefix("wait_"),
    "timers": _kinds_with_prefix("timer_"),
    "children": _kinds_with_prefix("child_", "map_"),
    "budgets": _kinds_with_prefix("budget_", EventKind.STEP_BLOCKED),
}
"""Named groups of event kinds, for filters."""

RUNS = "runs"
GRAPHS = "graphs"
FLOWS = "flows"
SOURCES = (RUNS, GRAPHS, FLOWS)
"""Whose events a subscription reads."""

GRAPH_KINDS = frozenset(
    {
        "graph_started",
        "graph_extended",
        "member_joined",
        "member_started",
        "member_ended",
        "member_skipped",
        "member_cancelled",
        "member_asked_to_stop",
        "member_replayed",
        "group_satisfied",
        "group_impossible",
        "cancel_requested",
        "graph_completed",
        "graph_failed",
        "graph_cancelled",
    }
)
"""The kinds of events in the audit trail of a graph."""

CURSOR = "cursor"
"""The kind of a subscription that its reader moves."""
WEBHOOK = "webhook"
"""The kind of a subscription that delivers over HTTP."""

BEGINNING = "beginning"
NOW = "now"

FIRST_PAUSE = 1_000_000
"""Microseconds to wait after the first failed delivery."""
LONGEST_PAUSE = 3_600_000_000
"""The longest wait between two deliveries, in microseconds."""
ATTEMPTS = 12
"""The number of failed deliveries after which an event becomes a dead letter."""


class EventFilter(msgspec.Struct, frozen=True):
    """A filter of the events of one source. A field that is None matches all; all tags must match.
    With ``with_result``, a webhook delivers the result of a completed run with its event."""

    workflow: str | None = None
    namespace: str | None = None
    run_id: str | None = None
    kinds: tuple[str, ...] | None = None
    tags: dict[str, str] = {}
    with_result: bool = False
    source: str = RUNS


class EventCursor(msgspec.Struct, frozen=True, order=True):
    """A position in the order in which a store returns its events."""

    tx: int
    id: int


class RunEvent(msgspec.Struct, kw_only=True):
    """An event of a run, as subscribers read it. ``cursor`` is the position to continue from.
    ``result`` is the result of a completed run, if the reader asked for it.

    With another ``source``, ``run_id`` is the id of the graph or flow, ``workflow`` the name of the
    graph or the controller of the flow, and ``step`` the member of the graph."""

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
    role: str | None = None
    cursor: str = ""
    result: bytes | None = None
    source: str = RUNS


class Subscription(msgspec.Struct, kw_only=True):
    """A named reader of events and its position. Its repr does not show the secret of a webhook."""

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
    """An event whose delivery to a webhook has failed too often."""

    subscription: str
    run_id: str
    seq: int
    body: bytes
    attempts: int
    error: str
    at: int
    again: bool = False


FILTER_FIELDS = {
    "workflow": "workflow",
    "namespace": "namespace",
    "run": "run_id",
    "kind": "kinds",
    "tags": "tags",
    "with_result": "with_result",
    "source": "source",
}
"""The fields of a filter, by the options that set them."""


def which_from(filters: Mapping[str, Any]) -> EventFilter:
    """Return the filter for options as users write them. Raises BadOption."""
    unknown = [name for name in filters if name not in FILTER_FIELDS]
    if unknown:
        raise BadOption(option=unknown[0], known=", ".join(FILTER_FIELDS))
    source = _source(filters.get("source"))
    tags = dict(sorted(checked_tags(filters.get("tags")).items()))
    if tags and source != RUNS:
        raise BadOption(option="tags", value=tags, why="only runs have tags")
    return EventFilter(
        _checked_name("workflow", filters.get("workflow")),
        _checked_name("namespace", filters.get("namespace")),
        _checked_name("run", filters.get("run")),
        _kinds(filters.get("kind"), source),
        tags,
        checked_flag("with_result", filters.get("with_result", False)),
        source,
    )


def _source(value: Any) -> str:
    if value is None:
        return RUNS
    if not is_one_of(value, SOURCES):
        raise BadOption(option="source", value=value, known=", ".join(SOURCES))
    return plain_text(value)


def _checked_name(option: str, value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value or not is_storable(value):
        raise BadOption(option=option, value=value, why="it must be a name")
    return plain_text(value)


def _kinds(value: Any, source: str) -> tuple[str, ...] | None:
    """Return the event kinds for a name of a kind or topic, or for a collection of such names."""
    if value is None:
        return None
    names = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
    if not names:
        raise BadOption(option="kind", value=value, why="name at least one, or leave it out")
    kinds: set[str] = set()
    for name in names:
        if not isinstance(name, str):
            raise BadOption(
                option="kind",
                value=name,
                why="it must be a word, such as completions, or a list of words",
            )
        kinds |= _kinds_named(name, source)
    return tuple(sorted(kinds))


def _kinds_named(name: str, source: str) -> frozenset[str]:
    """Return the event kinds that a name stands for. Raises BadOption."""
    if source == FLOWS:  # programs append lines of their own kinds
        return frozenset({_checked_name("kind", name) or ""})
    if source == GRAPHS:
        known = GRAPH_KINDS
        topics: dict[str, frozenset[str]] = {}
    else:
        known = KINDS
        topics = TOPICS
    if name in topics:
        return topics[name]
    if name in known:
        return frozenset({name})
    raise BadOption(option="kind", value=name, known=", ".join([*topics, *sorted(known)]))


def order_of(installation: str, source: str) -> str:
    """Return the name of the order that a cursor is a place in: that of one source of events in one
    database."""
    return installation if source == RUNS else f"{installation}~{source}"


def cursor_of(place: EventCursor, order: str) -> str:
    """Return a position as a text that also names the order it belongs to."""
    return f"{order}.{place.tx:x}.{place.id:x}"


def place_of(cursor: Any, order: str) -> EventCursor:
    """Return the position that a cursor stands for. Raises BadCursor, also if the cursor belongs to
    another database or source."""
    parts = cursor.split(".") if isinstance(cursor, str) else []
    if len(parts) != 3 or not parts[0]:
        raise BadCursor(cursor=cursor, why="this text is not a cursor")
    if parts[0] != order:
        installation = order.partition("~")[0]
        own, _, source = parts[0].partition("~")
        why = f"it belongs to database {own}"
        if own == installation:
            why = f"it is a place among the events of {source or RUNS}"
        raise BadCursor(cursor=cursor, database=installation, why=why)
    try:
        place = EventCursor(int(parts[1], 16), int(parts[2], 16))
    except ValueError:
        raise BadCursor(cursor=cursor, why="this text is not a cursor") from None
    if not 0 <= place.tx < 2**63 or not 0 <= place.id < 2**63:
        raise BadCursor(cursor=cursor, why="this text is not a cursor")
    return place


def pause_after(attempts: int, dice: float) -> int:
    """Return the microseconds to wait after *attempts* failed deliveries. *dice*, from 0 to 1, is
    the jitter that keeps many deliveries from being retried at the same time."""
    pause = min(FIRST_PAUSE * 2 ** min(attempts - 1, 20), LONGEST_PAUSE)
    return int(pause * (0.8 + 0.4 * dice))


def checked_url(url: Any) -> str:
    """Return the URL of a webhook. Raises BadOption, without showing a password, if nothing can be
    delivered to the URL."""
    why = "it must be like https://example.org/hook"
    if not isinstance(url, str):
        raise BadOption(option="url", value=url, why=why)
    # A URL with a password must not appear in an error.
    safe_url = "..." if "@" in url else url
    from urllib.parse import urlsplit  # here: saves the import in programs without webhooks

    try:
        parts = urlsplit(url)
        is_port_valid = parts.port is None or 0 < parts.port < 65536
    except ValueError:  # the port is not a number, or the address is incomplete
        raise BadOption(option="url", value=safe_url, why=why) from None
    if (
        not is_port_valid
        or not url.isprintable()
        or " " in url
        or parts.scheme not in ("http", "https")
        or not parts.hostname
    ):
        raise BadOption(option="url", value=safe_url, why=why)
    if parts.username is not None or parts.password is not None:
        raise BadOption(
            option="url", why="it must not hold a password: deliveries are signed instead"
        )
    if parts.fragment:
        raise BadOption(option="url", value=safe_url, why="a fragment (#...) is never sent")
    return url
