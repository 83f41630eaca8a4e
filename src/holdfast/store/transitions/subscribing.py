"""Reading events under a name: the cursor moves with what was done about them."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from holdfast.core.subscriptions import (
    BEGINNING,
    CURSOR,
    WEBHOOK,
    EventCursor,
    EventFilter,
    RunEvent,
    Subscription,
    cursor_of,
)
from holdfast.errors import LeaseLost, SubscriptionExists, SubscriptionNotFound
from holdfast.store.contract.subscriptions import (
    AddSubscription,
    ClaimWebhooks,
    Consume,
    Consumed,
    MoveCursor,
    RecordDelivery,
    RedeliverDeadLetters,
    RemoveSubscription,
    ResealWebhook,
)
from holdfast.store.transitions.payloads import fetch
from holdfast.store.transitions.transaction import Row, Transaction


def subscribe(tx: Transaction, op: AddSubscription) -> Subscription:
    """Create a subscription, or recognise it."""
    return _opened(tx, op)


def _opened(tx: Transaction, op: AddSubscription) -> Subscription:
    found = tx.rows("lock_subscription", name=op.name)
    if not found:
        place = place_for(tx, op.start)
        tx.change(
            "insert_subscription",
            name=op.name,
            kind=op.kind,
            which=msgspec.json.encode(op.which),
            after_tx=place.tx,
            after_id=place.id,
            created_at=tx.now,
            url=op.url,
            secret=op.secret,
            attempt_limit=op.attempt_limit,
        )
        tx.hints.subscriptions = tx.hints.subscriptions or op.kind == WEBHOOK
        found = tx.rows("lock_subscription", name=op.name)
    stored = subscription_from(found[0])
    if (stored.kind, stored.which, stored.url) != (op.kind, op.which, op.url):
        raise SubscriptionExists(subscription=op.name, kind=stored.kind)
    return stored


def place_for(tx: Transaction, start: EventCursor | str) -> EventCursor:
    """Return the place that ``beginning`` or ``now`` means."""
    if isinstance(start, EventCursor):
        return start
    row = tx.rows("first_place" if start == BEGINNING else "last_place")[0]
    return EventCursor(row["tx"], row["id"])


def unsubscribe(tx: Transaction, op: RemoveSubscription) -> None:
    """Forget a subscription."""
    if not tx.change("delete_subscription", name=op.name):
        raise SubscriptionNotFound(subscription=op.name)
    tx.change("delete_letters", name=op.name)


def move_cursor(tx: Transaction, op: MoveCursor) -> None:
    """Note how far somebody has read."""
    moved = tx.change(
        "move_cursor", name=op.name, after_tx=op.place.tx, after_id=op.place.id, now=tx.now
    )
    if not moved and not tx.rows("subscription", name=op.name):
        raise SubscriptionNotFound(subscription=op.name)


def consume(tx: Transaction, op: Consume) -> Consumed:
    """Let a function have the next events, in the transaction in which the cursor moves."""
    stored = _opened(tx, AddSubscription(op.name, CURSOR, op.which, op.start))
    events, edge = page(tx, stored.place, op.which, op.limit)
    if edge == stored.place:
        return Consumed(0, more=False)
    if events:
        if op.open is not None:
            events = [op.open(event, partial(fetch, tx.rows)) for event in events]
        tx.call(lambda connection: _had(op, connection, events))
    tx.change("move_cursor", name=op.name, after_tx=edge.tx, after_id=edge.id, now=tx.now)
    return Consumed(len(events), more=True)


def _had(op: Consume, connection: Any, events: list[RunEvent]) -> bytes:
    op.body(connection, events)
    return b""


def page(
    tx: Any, after: EventCursor, which: EventFilter, window: int, installation: str = ""
) -> tuple[list[RunEvent], EventCursor]:
    """Return the next events that are meant, and where to read on. *tx* is whatever answers named
    queries."""
    found = tx.rows("events_edge", after_tx=after.tx, after_id=after.id, window=window)
    if not found:
        return [], after
    edge = EventCursor(found[0]["tx"], found[0]["id"])
    asked = {
        "after_tx": after.tx,
        "after_id": after.id,
        "edge_tx": edge.tx,
        "edge_id": edge.id,
        "window": window,
        "workflow": which.workflow,
        "namespace": which.namespace,
        "run_id": which.run_id,
        "kinds": None if which.kinds is None else tx.as_list(which.kinds),
    }
    if which.tags:
        rows = tx.rows(
            "tagged_events_between", **asked, tags=msgspec.json.encode(which.tags).decode()
        )
    else:
        rows = tx.rows("events_between", **asked)
    installation = installation or str(tx.rows("setting", name="installation")[0]["value"])
    return [event_from(row, installation) for row in rows], edge


def event_from(row: Row, installation: str) -> RunEvent:
    """Return the event that a row holds."""
    return RunEvent(
        run_id=row["run_id"],
        namespace=row["namespace"],
        workflow=row["workflow"],
        seq=row["seq"],
        kind=row["kind"],
        step=row["step"],
        attempt=row["attempt"],
        data=_bytes(row["data"]),
        error=_bytes(row["error"]),
        started_at=row["started_at"],
        at=row["at"],
        cursor=cursor_of(EventCursor(row["tx"], row["id"]), installation),
    )


def subscription_from(row: Row) -> Subscription:
    """Return the subscription that a row holds."""
    values = dict(row)
    place = EventCursor(values.pop("after_tx"), values.pop("after_id"))
    which = msgspec.json.decode(bytes(values.pop("which")), type=EventFilter)
    return Subscription(**values, place=place, which=which)


def claim_webhooks(tx: Transaction, op: ClaimWebhooks) -> list[str]:
    """Let a session deliver what nobody delivers."""
    for name in (None,) if op.names is None else op.names:
        tx.change("claim_webhooks", session_id=op.session_id, name=name)
    return [row["name"] for row in tx.rows("webhooks_of", session_id=op.session_id)]


def settle_delivery(tx: Transaction, op: RecordDelivery) -> None:
    """Note how a delivery went."""
    written = tx.change(
        "settle_delivery",
        name=op.name,
        session_id=op.session_id,
        after_tx=op.place.tx,
        after_id=op.place.id,
        attempts=op.attempts,
        next_at=op.next_at,
        error=op.error,
        now=tx.now,
    )
    if not written:
        raise LeaseLost(subscription=op.name, session=op.session_id)
    if op.letter is not None:
        letter = op.letter
        tx.change(
            "insert_letter",
            subscription=op.name,
            run_id=letter.run_id,
            seq=letter.seq,
            body=letter.body,
            attempts=letter.attempts,
            error=letter.error,
            at=tx.now,
        )
    if op.delivered is not None:
        tx.change(
            "delete_letter", subscription=op.name, run_id=op.delivered.run_id, seq=op.delivered.seq
        )


def replay_letters(tx: Transaction, op: RedeliverDeadLetters) -> int:
    """Let dead letters be delivered once more."""
    if not tx.rows("subscription", name=op.name):
        raise SubscriptionNotFound(subscription=op.name)
    tx.hints.subscriptions = True
    return tx.change("replay_letters", name=op.name)


def reseal_webhook(tx: Transaction, op: ResealWebhook) -> bool:
    """Put the secret of a webhook into another seal."""
    return bool(tx.change("reseal_webhook", name=op.name, old=op.old, new=op.new))


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
