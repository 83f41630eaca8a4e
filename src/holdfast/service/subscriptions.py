"""Reading the events of all runs: on and on, from a cursor or under a name, each at least once and
those of a run in order."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any

import msgspec

from holdfast.core.exits import as_exception
from holdfast.core.subscriptions import (
    ATTEMPTS,
    BEGINNING,
    CURSOR,
    NOW,
    WEBHOOK,
    DeadLetter,
    EventCursor,
    EventFilter,
    RunEvent,
    Subscription,
    checked_url,
    cursor_of,
    place_of,
    which_from,
)
from holdfast.core.text import is_one_of, is_storable, plain_text
from holdfast.core.validation import checked_string
from holdfast.errors import BadOption, SubscriptionExists, SubscriptionNotFound
from holdfast.errors.base import shown
from holdfast.payloads.sealer import PayloadSealer
from holdfast.service.runs import Request, RunService
from holdfast.store.contract import Store
from holdfast.store.contract.subscriptions import (
    AddSubscription,
    Consume,
    MoveCursor,
    RedeliverDeadLetters,
    RemoveSubscription,
)

WINDOW = 500
"""How many events are read at once."""

Callback = Callable[[list[RunEvent], Any], object]
"""What is called with events and a connection to write on."""


class SubscriptionService:
    """Turns what subscribers ask into transitions and readers."""

    def __init__(self, client: RunService) -> None:
        self._client: RunService = client
        self.store: Store = client.store
        self.sealer: PayloadSealer = client.sealer
        self._installation = ""

    @property
    def installation(self) -> str:
        """The name of the database in its cursors."""
        if not self._installation:
            self._installation = self.store.installation()
        return self._installation

    def start(self, after: Any, unless: str) -> EventCursor | str:
        """Return where to begin: at a cursor, at the beginning, or now. Raises BadCursor."""
        if after is None:
            return unless
        return (
            plain_text(after)
            if is_one_of(after, (BEGINNING, NOW))
            else place_of(after, self.installation)
        )

    def _which(self, filters: Mapping[str, Any]) -> EventFilter:
        """Return the events that are meant; an engine that is bound to a namespace reads no others.
        Raises NamespaceBound."""
        which = which_from(filters)
        return msgspec.structs.replace(which, namespace=self._client.within(which.namespace))

    def _mine(self, name: Any) -> str:
        """Return the name of a subscription that may be touched. Raises SubscriptionNotFound."""
        if self._client.only is not None and name not in {one.name for one in self.all()}:
            raise SubscriptionNotFound(subscription=name)
        return name if isinstance(name, str) else shown(name)

    def _new(self, name: Any) -> str:
        """Return a name to subscribe under: a subscription of another namespace is neither told of
        nor read. Raises SubscriptionExists."""
        checked = checked_name(name)
        only = self._client.only
        old = None if only is None else self.store.subscription(checked)
        if old is not None and old.which.namespace != only:
            raise SubscriptionExists(subscription=checked)
        return checked

    def reader(self, after: Any, filters: Mapping[str, Any]) -> EventPages:
        """Read from a cursor on."""
        return EventPages(
            self, self.store.place(self.start(after, BEGINNING)), self._which(filters)
        )

    def named(self, name: str, after: Any, filters: Mapping[str, Any]) -> Request:
        """Read under a name: from where that name has come, or, the first time, from *after* on.
        The answer is the reader."""
        which = self._which(filters)
        op = AddSubscription(self._new(name), CURSOR, which, self.start(after, BEGINNING))
        return Request(op, lambda found: EventPages(self, found.place, which))

    def moved(self, name: str, place: EventCursor) -> Request:
        """Note how far a name has come."""
        return Request(MoveCursor(self._mine(name), place), lambda answer: None)

    def consume(
        self, name: str, callback: Callback, after: Any, batch: int, filters: Mapping[str, Any]
    ) -> Request:
        """Let a function have the next events of a name, in the transaction in which its cursor
        moves."""
        if not callable(callback):
            raise BadOption(
                option="callback", value=callback, why="it is called with events and a connection"
            )
        if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch <= 10_000:
            raise BadOption(
                option="batch", value=batch, why="it is a number of events from 1 to 10000"
            )

        context = (
            copy_context()
        )  # whichever thread commits calls it, and not in a context of its own

        def body(connection: Any, events: list[RunEvent]) -> object:
            try:
                return context.run(callback, events, connection)
            except Exception:
                raise
            except (
                BaseException
            ) as raised:  # such as sys.exit(): the others in this transaction are not to blame
                raise as_exception(raised, "callback") from raised

        start = self.start(after, BEGINNING)
        op = Consume(
            self._new(name), self._which(filters), start, batch, body, self.sealer.subscriber_event
        )
        return Request(op, lambda answer: answer)

    def has_news(self, name: str) -> bool:
        """Return whether ``consume`` has something to do. Only reads: a commit would wake all who
        follow, this one among them."""
        stored = self.store.subscription(name)
        return stored is None or self.store.events(stored.place, stored.which, 1)[1] != stored.place

    def add_webhook(
        self,
        name: str,
        url: str,
        secret: str | None,
        after: Any,
        attempts: int | None,
        filters: Mapping[str, Any],
    ) -> Request:
        """Deliver events to a URL from now on, or from *after* on; the answer is the secret that
        signs them."""
        limit = ATTEMPTS if attempts is None else attempts
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 1000:
            raise BadOption(option="attempts", value=attempts, why="it is a number from 1 to 1000")
        if secret is not None and (
            not isinstance(secret, str) or len(secret) < 16 or not is_storable(secret)
        ):
            raise BadOption(option="secret", why="it must be a text of at least 16 characters")
        op = AddSubscription(
            self._new(name),
            WEBHOOK,
            self._which(filters),
            self.start(after, NOW),
            checked_url(url),
            self.sealer.secrets.seal_webhook(name, secret or secrets.token_hex(32)),
            limit,
        )
        return Request(op, self.sealer.secrets.reveal_webhook)

    def remove(self, name: str) -> Request:
        """Forget a subscription."""
        return Request(
            RemoveSubscription(self._mine(checked_string("name", name))), lambda answer: None
        )

    def replay(self, name: str) -> Request:
        """Deliver dead letters once more; the answer is how many."""
        return Request(RedeliverDeadLetters(self._mine(checked_string("name", name))), int)

    def letters(self, name: str) -> list[DeadLetter]:
        """Return what a webhook could not deliver."""
        if self.store.subscription(self._mine(name)) is None:
            raise SubscriptionNotFound(subscription=name)
        return self.store.letters(name)

    def all(self) -> list[Subscription]:
        """Return all subscriptions, without their secrets."""
        only = self._client.only
        found = [
            one for one in self.store.subscriptions() if only is None or one.which.namespace == only
        ]
        for one in found:
            one.secret = None
        return found


class EventPages:
    """One who reads on, page after page."""

    def __init__(self, subscriptions: SubscriptionService, place: EventCursor, which: Any) -> None:
        self._subscriptions, self.place, self._which = subscriptions, place, which

    def page(self) -> tuple[list[RunEvent], EventCursor, bool]:
        """Return the next events that are meant, the place after them, and whether there may be
        more right now."""
        events, edge = self._subscriptions.store.events(self.place, self._which, WINDOW)
        more = edge != self.place
        self.place = edge
        return events, edge, more

    def told(self, event: RunEvent) -> RunEvent:
        """Return an event with its values opened: one by one, for they may be large. Raises
        KeyMissing, BadData."""
        return self._subscriptions.sealer.subscriber_event(event)

    def place_after(self, event: RunEvent) -> EventCursor:
        """Return the place right after an event."""
        return place_of(event.cursor, self._subscriptions.installation)

    @property
    def cursor(self) -> str:
        """Where it has come, as text."""
        return cursor_of(self.place, self._subscriptions.installation)


def checked_name(name: Any) -> str:
    """Return the name of a subscription; refuse what is none."""
    if not isinstance(name, str) or not 1 <= len(name) <= 200 or not name.isprintable():
        raise BadOption(
            option="name",
            value=name,
            why="a subscription has a name of 1 to 200 characters, on one line",
        )
    return name
