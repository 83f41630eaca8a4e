"""What can be done to subscriptions, and asked of the events of all runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from holdfast.core.payload import Fetch
from holdfast.core.subscriptions import DeadLetter, EventCursor, EventFilter, RunEvent, Subscription


class AddSubscription(msgspec.Struct):
    """Read events under a name, from a place on: a Place, ``beginning`` or ``now``. Answers the
    Subscription as stored; the same name for the same events is the same one. Raises
    SubscriptionExists for other events, or another kind."""

    name: str
    kind: str
    which: EventFilter
    start: EventCursor | str
    url: str | None = None
    secret: str | None = None
    attempt_limit: int = 0


class RemoveSubscription(msgspec.Struct):
    """Forget a subscription and what it could not deliver. Answers None. Raises
    SubscriptionNotFound."""

    name: str


class MoveCursor(msgspec.Struct):
    """All up to a place was read under this name; a cursor only moves forward. Answers None. Raises
    SubscriptionNotFound."""

    name: str
    place: EventCursor


class Consume(msgspec.Struct):
    """Let a function have the next events, with a connection in whose transaction the cursor moves.
    Answers Consumed. What the function raises is the answer; then nothing has happened. Raises
    SubscriptionExists."""

    name: str
    which: EventFilter
    start: EventCursor | str
    limit: int
    body: Callable[[Any, list[RunEvent]], object]
    open: Callable[[RunEvent, Fetch], RunEvent] | None = None
    """Opens the values of an event before the function has it."""


class Consumed(msgspec.Struct):
    """How many events the function had, and whether there may be more."""

    events: int
    more: bool


class ClaimWebhooks(msgspec.Struct):
    """Let a session deliver the webhooks that nobody delivers: those of *names*, or all. Answers
    the names of all that are now its own."""

    session_id: str
    names: tuple[str, ...] | None = None


class RecordDelivery(msgspec.Struct):
    """How a delivery went: read on at ``place``, or try again at ``next_at``, or give it up as a
    dead letter. Answers None. Raises LeaseLost when another session delivers this webhook now."""

    name: str
    session_id: str
    place: EventCursor
    attempts: int = 0
    next_at: int | None = None
    error: str | None = None
    letter: DeadLetter | None = None
    delivered: DeadLetter | None = None
    """A dead letter that has arrived after all."""


class RedeliverDeadLetters(msgspec.Struct):
    """Let all dead letters of a webhook be delivered once more. Answers how many. Raises
    SubscriptionNotFound."""

    name: str


class ResealWebhook(msgspec.Struct):
    """Put the secret of a webhook into another seal. One that has changed meanwhile stays as it is.
    Answers whether it was changed."""

    name: str
    old: str
    new: str

    def __repr__(self) -> str:
        return f"<new seal of webhook {self.name}>"


SubscriptionTransition = (
    AddSubscription
    | RemoveSubscription
    | MoveCursor
    | Consume
    | ClaimWebhooks
    | RecordDelivery
    | RedeliverDeadLetters
    | ResealWebhook
)


class EventReader(Protocol):
    """What can be asked about the events of all runs."""

    def installation(self) -> str:
        """The name by which this store's cursors know whose they are."""

    def place(self, start: EventCursor | str) -> EventCursor:
        """The place that ``beginning`` or ``now`` means."""

    def events(
        self, after: EventCursor, which: EventFilter, window: int = 500
    ) -> tuple[list[RunEvent], EventCursor]:
        """Of the next *window* events those that are meant, in order, and the place to read on
        from. An event that commits late is told late, but never skipped; those of one run come in
        their order."""

    def subscription(self, name: str) -> Subscription | None:
        """The subscription of that name."""

    def subscriptions(self) -> list[Subscription]:
        """All subscriptions."""

    def letters(self, name: str, *, again: bool = False, limit: int = 1000) -> list[DeadLetter]:
        """The dead letters of a webhook, oldest first; only those that are to be delivered once
        more, if so asked."""
