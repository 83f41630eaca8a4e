"""Requests about subscriptions: read the events of all runs, and deliver them to webhooks.

A reader starts at a cursor, or at the stored cursor of a named subscription. It receives every
event at least once, and the events of one run in order."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any

import msgspec

from holdfast.core.events import EventKind
from holdfast.core.exits import as_exception
from holdfast.core.payload import Fetch
from holdfast.core.status import Status
from holdfast.core.subscriptions import (
    BEGINNING,
    FILTER_FIELDS,
    NOW,
    DeadLetter,
    EventCursor,
    EventFilter,
    RunEvent,
    Subscription,
    checked_url,
    cursor_of,
    order_of,
    place_of,
    which_from,
)
from holdfast.core.text import is_one_of, is_storable, plain_text
from holdfast.core.validation import checked_string
from holdfast.errors import BadOption, SubscriptionExists, SubscriptionNotFound
from holdfast.errors.base import safe_repr
from holdfast.payloads.sealer import PayloadSealer
from holdfast.service.requests import Request, identity
from holdfast.service.runs import RunService
from holdfast.store.store import Store
from holdfast.store.subscriptions.operations import (
    AddCursor,
    Consume,
    Consumed,
    MoveCursor,
    RedeliverDeadLetters,
    RemoveSubscription,
    SetWebhook,
)

WINDOW = 500
"""Events that are read at once."""

Callback = Callable[[list[RunEvent], Any], object]
"""Called with events and the connection of the transaction in which the cursor moves."""


class SubscriptionService:
    """Builds the operations on subscriptions, and their readers."""

    def __init__(self, client: RunService) -> None:
        self._client: RunService = client
        self.store: Store = client.store
        self.sealer: PayloadSealer = client.sealer
        self._installation = ""

    @property
    def installation(self) -> str:
        """The id of the installation, which its cursors contain; read once."""
        if not self._installation:
            self._installation = self.store.installation.id()
        return self._installation

    def start(self, after: Any, unless: str, source: str) -> EventCursor | str:
        """Return where to start among the events of a source: at a cursor, at BEGINNING or NOW;
        *unless* if *after* is None. Raises BadCursor."""
        if after is None:
            return unless
        if is_one_of(after, (BEGINNING, NOW)):
            return plain_text(after)
        return place_of(after, order_of(self.installation, source))

    def _which(self, filters: Mapping[str, Any]) -> EventFilter:
        """Return the filter of these options; an engine that is bound to a namespace reads no other
        events. Raises NamespaceBound."""
        which = which_from(filters)
        return msgspec.structs.replace(which, namespace=self._client.within(which.namespace))

    def _mine(self, name: Any) -> str:
        """Return the name of a subscription that may be read and changed. Raises
        SubscriptionNotFound."""
        if self._client.only is not None and name not in {stored.name for stored in self.all()}:
            raise SubscriptionNotFound(subscription=name)
        if isinstance(name, str):
            return name
        return safe_repr(name)

    def _new(self, name: Any) -> str:
        """Return the checked name of a new or existing subscription. Raises BadOption, and
        SubscriptionExists if it belongs to another namespace."""
        checked = checked_name(name)
        only = self._client.only
        old = None if only is None else self.store.subscriptions.get(checked)
        if old is not None and old.which.namespace != only:
            raise SubscriptionExists(subscription=checked)
        return checked

    def reader(self, after: Any, filters: Mapping[str, Any]) -> EventPages:
        """Return a reader that starts at *after*. Raises BadCursor, NamespaceBound."""
        which = self._which(filters)
        start = self.start(after, BEGINNING, which.source)
        return EventPages(self, self.store.subscriptions.place(start, which.source), which)

    def open_reader(self, name: str, after: Any, filters: Mapping[str, Any]) -> Request[EventPages]:
        """Read from the stored cursor of a subscription, which is created with *after* if there is
        none. The answer is the reader."""
        which = self._which(filters)
        op = AddCursor(self._new(name), which, self.start(after, BEGINNING, which.source))
        return Request(op, lambda subscription: EventPages(self, subscription.place, which))

    def move_cursor(self, name: str, place: EventCursor) -> Request[None]:
        """Store the cursor of a subscription."""
        return Request(MoveCursor(self._mine(name), place), lambda answer: None)

    def with_result(self, event: RunEvent) -> RunEvent:
        """Return an event with the result of its run, if the run has completed with it. Raises
        KeyMissing, BadData."""
        run = None
        if event.kind == EventKind.RUN_COMPLETED:
            run = self.store.runs.get(event.run_id)
        if run is None or run.status is not Status.COMPLETED:
            return event
        return msgspec.structs.replace(event, result=self.sealer.opener.run(run).result)

    def consume(
        self,
        name: str,
        callback: Callback,
        after: Any,
        batch: int,
        filters: Mapping[str, Any],
        *,
        with_result: bool = False,
    ) -> Request[Consumed]:
        """Call a function with the next events of a subscription, in the transaction that moves its
        cursor. Raises BadOption."""
        if not callable(callback):
            raise BadOption(
                option="callback",
                value=callback,
                why="give a function that is called with events and a connection",
            )
        if isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch <= 10_000:
            raise BadOption(
                option="batch", value=batch, why="give a number of events from 1 to 10000"
            )

        # The thread that commits calls the callback; it must run in the context of the caller.
        context = copy_context()

        def body(connection: Any, events: list[RunEvent]) -> object:
            try:
                return context.run(callback, events, connection)
            except Exception:
                raise
            # Such as sys.exit(): it must not fail the other operations of this transaction.
            except BaseException as raised:
                raise as_exception(raised, "callback") from raised

        which = self._which(filters)
        op = Consume(
            self._new(name),
            which,
            self.start(after, BEGINNING, which.source),
            batch,
            body,
            self._open_with_result if with_result else self.sealer.opener.subscriber_event,
        )
        return Request(op, identity)

    def _open_with_result(self, event: RunEvent, fetch: Fetch | None = None) -> RunEvent:
        return self.with_result(self.sealer.opener.subscriber_event(event, fetch))

    def has_events(self, name: str) -> bool:
        """Return whether ``consume`` has something to do.

        This only reads: a commit would wake all followers, the caller among them."""
        stored = self.store.subscriptions.get(name)
        return (
            stored is None
            or self.store.subscriptions.events(stored.place, stored.which, 1)[1] != stored.place
        )

    def set_webhook(
        self,
        name: str,
        url: str | None,
        secret: str | None,
        after: Any,
        attempts: int | None,
        filters: Mapping[str, Any],
    ) -> Request[str]:
        """Create a webhook, which starts now or at *after*, or change the given settings of it. The
        answer is the secret that signs the deliveries. Raises BadOption, SubscriptionExists."""
        if attempts is not None and (
            isinstance(attempts, bool) or not isinstance(attempts, int) or not 1 <= attempts <= 1000
        ):
            raise BadOption(option="attempts", value=attempts, why="give a number from 1 to 1000")
        if secret is not None and (
            not isinstance(secret, str) or len(secret) < 16 or not is_storable(secret)
        ):
            raise BadOption(option="secret", why="the secret must have at least 16 characters")
        checked = self._new(name)
        which = self._which(filters)
        seal = self.sealer.secrets.seal_webhook
        op = SetWebhook(
            name=checked,
            start=self.start(after, NOW, which.source),
            first_secret=seal(checked, secrets.token_hex(32)),
            which=which,
            conditions=tuple(FILTER_FIELDS[option] for option in filters),
            url=None if url is None else checked_url(url),
            secret=None if secret is None else seal(checked, secret),
            attempt_limit=attempts,
        )
        return Request(op, self.sealer.secrets.reveal_webhook)

    def remove(self, name: str) -> Request[None]:
        """Delete a subscription. Raises SubscriptionNotFound."""
        return Request(
            RemoveSubscription(self._mine(checked_string("name", name))), lambda answer: None
        )

    def replay(self, name: str) -> Request[int]:
        """Deliver the dead letters of a webhook again. The answer is their number."""
        return Request(RedeliverDeadLetters(self._mine(checked_string("name", name))), int)

    def letters(self, name: str) -> list[DeadLetter]:
        """Return the dead letters of a webhook. Raises SubscriptionNotFound."""
        if self.store.subscriptions.get(self._mine(name)) is None:
            raise SubscriptionNotFound(subscription=name)
        return self.store.subscriptions.dead_letters(name)

    def all(self) -> list[Subscription]:
        """Return all subscriptions, without their secrets."""
        only = self._client.only
        subscriptions = [
            subscription
            for subscription in self.store.subscriptions.all()
            if only is None or subscription.which.namespace == only
        ]
        for subscription in subscriptions:
            subscription.secret = None
        return subscriptions


class EventPages:
    """Reads events page by page."""

    def __init__(self, subscriptions: SubscriptionService, place: EventCursor, which: Any) -> None:
        self._subscriptions = subscriptions
        self.place = place
        self._which = which

    def page(self) -> tuple[list[RunEvent], EventCursor, bool]:
        """Return the next events that match, the place after them, and whether there may be more
        events now."""
        events, edge = self._subscriptions.store.subscriptions.events(
            self.place, self._which, WINDOW
        )
        more = edge != self.place
        self.place = edge
        return events, edge, more

    def opened(self, event: RunEvent, *, with_result: bool = False) -> RunEvent:
        """Return an event with its values opened and, *with_result*, the result of a completed run.
        Call it event by event: the values may be large. Raises KeyMissing, BadData."""
        opened = self._subscriptions.sealer.opener.subscriber_event(event)
        return self._subscriptions.with_result(opened) if with_result else opened

    def place_after(self, event: RunEvent) -> EventCursor:
        """Return the place right after an event."""
        return place_of(event.cursor, self._order)

    @property
    def cursor(self) -> str:
        """The place of this reader, as text."""
        return cursor_of(self.place, self._order)

    @property
    def _order(self) -> str:
        return order_of(self._subscriptions.installation, self._which.source)


def checked_name(name: Any) -> str:
    """Return the name of a subscription. Raises BadOption."""
    if not isinstance(name, str) or not 1 <= len(name) <= 200 or not name.isprintable():
        raise BadOption(
            option="name",
            value=name,
            why="the name must be a single line of 1 to 200 characters",
        )
    return name
