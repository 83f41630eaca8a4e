"""Operations on subscriptions and webhooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from holdfast.core.payload import Fetch
from holdfast.core.subscriptions import DeadLetter, EventCursor, EventFilter, RunEvent
from holdfast.store.database import Operation


class AddCursor(Operation):
    """Create a named subscription that its reader moves, and that begins at a cursor, at
    ``beginning`` or at ``now``. The same name with the same filter is the same subscription.

    Answers:
        Subscription        as stored
    Raises:
        SubscriptionExists  the name belongs to a webhook, or to a subscription with another filter
    """

    may_refuse_late: ClassVar[bool] = True

    name: str
    which: EventFilter
    start: EventCursor | str


class SetWebhook(Operation, kw_only=True):
    """Create a webhook, or change the given settings of it; the others stay, and so does its
    position. After a change of the URL or the secret, a failed delivery is attempted at once.

    Answers:
        Subscription          as stored
    Raises:
        SubscriptionExists    the name belongs to a subscription of another kind
        SubscriptionNotFound  a new webhook has no URL
    """

    may_refuse_late: ClassVar[bool] = True

    name: str
    start: EventCursor | str
    """Where a new webhook begins."""
    first_secret: str
    """The secret of a new webhook for which no ``secret`` is given."""
    which: EventFilter = EventFilter()
    conditions: tuple[str, ...] = ()
    """The fields of ``which`` that are given."""
    url: str | None = None
    secret: str | None = None
    attempt_limit: int | None = None


class RemoveSubscription(Operation):
    """Delete a subscription and its dead letters.

    Answers:
        None
    Raises:
        SubscriptionNotFound  there is no such subscription
    """

    name: str


class MoveCursor(Operation):
    """Record that a subscription has read all events up to a place. A cursor only moves forward.

    Answers:
        None
    Raises:
        SubscriptionNotFound  there is no such subscription
    """

    name: str
    place: EventCursor


class Consume(Operation):
    """Call ``body`` with the next events, and with a connection in whose transaction the cursor
    moves. The subscription is created if it does not exist. An exception of ``body`` is the answer;
    then nothing was written.

    Answers:
        Consumed
    Raises:
        SubscriptionExists  the name belongs to a subscription with another kind or filter
    """

    may_refuse_late: ClassVar[bool] = True

    name: str
    which: EventFilter
    start: EventCursor | str
    limit: int
    body: Callable[[Any, list[RunEvent]], object]
    open: Callable[[RunEvent, Fetch], RunEvent] | None = None
    """Opens the sealed values of an event before ``body`` receives it."""


class Consumed(msgspec.Struct):
    """How many events ``body`` received, and whether there may be more."""

    events: int
    more: bool


class ClaimWebhooks(Operation):
    """Make a session the one that delivers webhooks which no other session delivers: those of
    *names*, or all.

    Answers:
        list[str]  the names of all webhooks that this session delivers now
    """

    session_id: str
    names: tuple[str, ...] | None = None


class RecordDelivery(Operation):
    """Record the outcome of a delivery: continue at ``place``, try again at ``next_at``, or store
    the event as a dead letter.

    Answers:
        None
    Raises:
        LeaseLost  another session delivers this webhook
    """

    name: str
    session_id: str
    place: EventCursor
    attempts: int = 0
    next_at: int | None = None
    error: str | None = None
    letter: DeadLetter | None = None
    """The dead letter of an event whose delivery is given up."""
    delivered: DeadLetter | None = None
    """A dead letter that was delivered by a later attempt, and is deleted."""


class RedeliverDeadLetters(Operation):
    """Mark all dead letters of a webhook for another delivery.

    Answers:
        int                   how many letters were marked
    Raises:
        SubscriptionNotFound  there is no such subscription
    """

    name: str


class ResealWebhook(Operation):
    """Replace the sealed secret of a webhook by the same secret under another seal, if it is still
    ``old``.

    Answers:
        bool  whether it was replaced
    """

    name: str
    old: str
    new: str

    def __repr__(self) -> str:
        return f"<new seal of webhook {self.name}>"
