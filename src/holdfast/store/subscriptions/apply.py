"""Apply the operations on subscriptions: a cursor moves in the transaction that processed the
events."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.subscriptions import (
    ATTEMPTS,
    BEGINNING,
    CURSOR,
    FLOWS,
    GRAPHS,
    RUNS,
    WEBHOOK,
    EventCursor,
    EventFilter,
    RunEvent,
    Subscription,
    cursor_of,
    order_of,
)
from holdfast.errors import LeaseLost, RowDamaged, SubscriptionExists, SubscriptionNotFound
from holdfast.store.database import BatchTransaction, Row, Transaction
from holdfast.store.payloads.apply import fetch
from holdfast.store.subscriptions.operations import (
    AddCursor,
    ClaimWebhooks,
    Consume,
    Consumed,
    MoveCursor,
    RecordDelivery,
    RedeliverDeadLetters,
    RemoveSubscription,
    ResealWebhook,
    SetWebhook,
)
from holdfast.store.user_code import shielded

log = logging.getLogger("holdfast")

_EDGE = {RUNS: "events_edge", GRAPHS: "graph_events_edge", FLOWS: "flow_events_edge"}
_BETWEEN = {RUNS: "events_between", GRAPHS: "graph_events_between", FLOWS: "flow_events_between"}
_LAST = {RUNS: "last_place", GRAPHS: "last_graph_place", FLOWS: "last_flow_place"}
"""The queries by the source of the events."""


def add_cursor(tx: Transaction, op: AddCursor) -> Subscription:
    """Create a cursor, or recognise an equal one. Raises SubscriptionExists."""
    stored = _locked(tx, op.name)
    if stored is None:
        stored = _inserted(tx, op.name, CURSOR, op.which, op.start)
    if (stored.kind, stored.which) != (CURSOR, op.which):
        raise SubscriptionExists(subscription=op.name, kind=stored.kind)
    return stored


def set_webhook(tx: Transaction, op: SetWebhook) -> Subscription:
    """Create a webhook, or change it. Raises SubscriptionExists, SubscriptionNotFound."""
    stored = _locked(tx, op.name)
    if stored is None:
        if op.url is None:
            raise SubscriptionNotFound(subscription=op.name, why="a new webhook needs a URL")
        stored = _inserted(
            tx,
            op.name,
            WEBHOOK,
            op.which,
            op.start,
            url=op.url,
            secret=op.secret or op.first_secret,
            attempt_limit=op.attempt_limit or ATTEMPTS,
        )
    if stored.kind != WEBHOOK:
        raise SubscriptionExists(subscription=op.name, kind=stored.kind)
    if "source" in op.conditions and op.which.source != stored.which.source:
        raise SubscriptionExists(subscription=op.name, source=stored.which.source)
    # Also after an insert: another process may have inserted the webhook with other settings.
    changed = _merged(stored, op)
    if changed != stored:
        tx.change(
            "change_webhook",
            name=op.name,
            which=msgspec.json.encode(changed.which),
            url=changed.url,
            secret=changed.secret,
            attempt_limit=changed.attempt_limit,
            attempts=changed.attempts,
            next_at=changed.next_at,
            error=changed.error,
        )
    tx.hints.subscriptions = True
    return changed


def _merged(stored: Subscription, op: SetWebhook) -> Subscription:
    conditions = {name: getattr(op.which, name) for name in op.conditions}
    changed = msgspec.structs.replace(
        stored,
        which=msgspec.structs.replace(stored.which, **conditions),
        url=op.url or stored.url,
        secret=op.secret or stored.secret,
        attempt_limit=op.attempt_limit or stored.attempt_limit,
    )
    # Earlier failures say nothing about another receiver.
    if (changed.url, changed.secret) != (stored.url, stored.secret):
        changed.attempts = 0
        changed.next_at = None
        changed.error = None
    return changed


def _locked(tx: Transaction, name: str) -> Subscription | None:
    rows = tx.rows("lock_subscription", name=name)
    return subscription_from(rows[0]) if rows else None


def _inserted(
    tx: Transaction,
    name: str,
    kind: str,
    which: EventFilter,
    start: EventCursor | str,
    *,
    url: str | None = None,
    secret: str | None = None,
    attempt_limit: int = 0,
) -> Subscription:
    """Insert a subscription if it does not exist, and return the stored one."""
    place = place_for(tx, start, which.source)
    tx.change(
        "insert_subscription",
        name=name,
        kind=kind,
        which=msgspec.json.encode(which),
        source=which.source,
        after_tx=place.tx,
        after_id=place.id,
        created_at=tx.now,
        url=url,
        secret=secret,
        attempt_limit=attempt_limit,
    )
    # Read again: another process may have created the subscription at the same time.
    return subscription_from(tx.rows("lock_subscription", name=name)[0])


def place_for(tx: Any, start: EventCursor | str, source: str) -> EventCursor:
    """Return the cursor that ``beginning`` or ``now`` means. *tx* is any object that runs named
    queries."""
    if isinstance(start, EventCursor):
        return start
    row = tx.rows("first_place" if start == BEGINNING else _LAST[source])[0]
    return EventCursor(row["tx"], row["id"])


def unsubscribe(tx: Transaction, op: RemoveSubscription) -> None:
    """Delete a subscription and its dead letters. Raises SubscriptionNotFound."""
    if not tx.change("delete_subscription", name=op.name):
        raise SubscriptionNotFound(subscription=op.name)
    tx.change("delete_letters", name=op.name)


def move_cursor(tx: Transaction, op: MoveCursor) -> None:
    """Record how far a subscriber has read. Raises SubscriptionNotFound."""
    moved = tx.change(
        "move_cursor", name=op.name, after_tx=op.place.tx, after_id=op.place.id, now=tx.now
    )
    # A cursor that would move back changes no row either; that is no error.
    if not moved and not tx.rows("subscription", name=op.name):
        raise SubscriptionNotFound(subscription=op.name)


def consume(tx: BatchTransaction, op: Consume) -> Consumed:
    """Pass the next events to a function, in the transaction that moves the cursor."""
    stored = add_cursor(tx, AddCursor(op.name, op.which, op.start))
    events, edge, damaged = page(tx, stored.place, op.which, op.limit)
    for damage in damaged:
        log.warning("the callback of %s does not get a damaged event: %s", op.name, damage)
    # The edge also moves past events that do not match, so that they are not read again.
    if edge == stored.place:
        return Consumed(0, more=False)
    if events:
        if op.open is not None:
            events = [op.open(event, partial(fetch, tx.rows)) for event in events]
        tx.call(shielded(lambda connection: _run_body(op, connection, events)))
    tx.change("move_cursor", name=op.name, after_tx=edge.tx, after_id=edge.id, now=tx.now)
    return Consumed(len(events), more=True)


def _run_body(op: Consume, connection: Any, events: list[RunEvent]) -> bytes:
    op.body(connection, events)
    return b""


def page(
    tx: Any, after: EventCursor, which: EventFilter, window: int, installation: str = ""
) -> tuple[list[RunEvent], EventCursor, list[RowDamaged]]:
    """Return the next events that match, the cursor to read on from, and the damage of events that
    are left out: they would stop the readers of all runs.

    *tx* is any object that runs named queries.
    """
    # First: events that are committed between the two reads then lie beyond the page.
    edges = tx.rows(_EDGE[which.source], after_tx=after.tx, after_id=after.id, window=window)
    if not edges:
        return [], after, []
    edge = EventCursor(edges[0]["tx"], edges[0]["id"])
    span = {
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
        rows, damaged = tx.sound_rows(
            "tagged_events_between", **span, tags=msgspec.json.encode(which.tags).decode()
        )
    else:
        rows, damaged = tx.sound_rows(_BETWEEN[which.source], **span)
    installation = installation or str(tx.rows("setting", name="installation")[0]["value"])
    if which.source != RUNS:
        order = order_of(installation, which.source)
        return [_audit_event(row, order, which.source) for row in rows], edge, damaged
    return [event_from(row, installation) for row in rows], edge, damaged


def _audit_event(row: Row, order: str, source: str) -> RunEvent:
    """Return the event of a graph or flow of a row."""
    return RunEvent(
        run_id=row["run_id"],
        namespace=row["namespace"],
        workflow=row["workflow"],
        seq=row["seq"],
        kind=row["kind"],
        step=row["step"],
        data=_bytes(row["data"]),
        at=row["at"],
        cursor=cursor_of(EventCursor(row["tx"], row["number"]), order),
        source=source,
    )


def event_from(row: Row, installation: str) -> RunEvent:
    """Return the event of a row."""
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
        role=row["role"],
        cursor=cursor_of(EventCursor(row["tx"], row["id"]), installation),
    )


def subscription_from(row: Row) -> Subscription:
    """Return the subscription of a row."""
    values = dict(row)
    place = EventCursor(values.pop("after_tx"), values.pop("after_id"))
    which = typed_json.decode(bytes(values.pop("which")), EventFilter)
    return Subscription(**values, place=place, which=which)


def claim_webhooks(tx: Transaction, op: ClaimWebhooks) -> list[str]:
    """Assign webhooks without a deliverer to a session. Return all webhooks of the session."""
    # None stands for all webhooks.
    for name in (None,) if op.names is None else op.names:
        tx.change("claim_webhooks", session_id=op.session_id, name=name)
    return [row["name"] for row in tx.rows("webhooks_of", session_id=op.session_id)]


def record_delivery(tx: Transaction, op: RecordDelivery) -> None:
    """Record the outcome of a delivery. Raises LeaseLost if another session delivers the webhook
    now."""
    written = tx.change(
        "record_delivery",
        name=op.name,
        session_id=op.session_id,
        after_tx=op.place.tx,
        after_id=op.place.id,
        attempts=op.attempts,
        next_at=op.next_at,
        error=op.error,
        now=tx.now,
    )
    # The guard is part of the write: two deliverers must not both move the cursor.
    if not written:
        raise LeaseLost(subscription=op.name, session=op.session_id)
    if op.letter is not None:
        dead_letter = op.letter
        tx.change(
            "insert_letter",
            subscription=op.name,
            run_id=dead_letter.run_id,
            seq=dead_letter.seq,
            body=dead_letter.body,
            attempts=dead_letter.attempts,
            error=dead_letter.error,
            at=tx.now,
        )
    if op.delivered is not None:
        tx.change(
            "delete_letter", subscription=op.name, run_id=op.delivered.run_id, seq=op.delivered.seq
        )


def replay_letters(tx: Transaction, op: RedeliverDeadLetters) -> int:
    """Make the dead letters of a webhook due again. Return how many."""
    if not tx.rows("subscription", name=op.name):
        raise SubscriptionNotFound(subscription=op.name)
    tx.hints.subscriptions = True
    return tx.change("replay_letters", name=op.name)


def reseal_webhook(tx: Transaction, op: ResealWebhook) -> bool:
    """Replace the sealed secret of a webhook by the same secret under another seal."""
    return bool(tx.change("reseal_webhook", name=op.name, old=op.old, new=op.new))


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
