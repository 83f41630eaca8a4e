"""Waits for messages and broadcasts, and the messages that a run sends."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from holdfast.core.commands import Broadcast, Publish, Subscribe
from holdfast.core.events import Event, EventKind
from holdfast.core.messages import MessageKind, MessageSubscription
from holdfast.core.step_info import idempotency_key
from holdfast.core.waits import Signal, WaitKind
from holdfast.engine.execution.pending.base import Execution, Handler, Pending
from holdfast.engine.runtime.start_offers import start_offers
from holdfast.store.messages.operations import (
    BroadcastPart,
    CloseSubscription,
    Message,
    OpenSubscription,
    SendBroadcast,
    SendMessage,
)
from holdfast.store.runs.operations import Advance


class PendingSubscription(Pending):
    """A wait for a message or a broadcast, which reaches the run as a signal to this step."""

    __slots__ = ("subscription",)

    is_listed_whole = False
    ends_by_release = True

    def __init__(self, command: Subscribe, subscription: MessageSubscription) -> None:
        self.command: Subscribe = command
        self.subscription: MessageSubscription = subscription

    def as_wait(self) -> dict[str, Any]:
        wait = {
            "kind": WaitKind.MESSAGE,
            "step": self.command.id,
            "name": self.command.name,
            "key": self.command.key,
        }
        if self.command.kind == MessageKind.SIGNAL:
            wait["kind"] = WaitKind.BROADCAST
        return wait

    def on_change(self, run: Execution) -> None:
        delivery = run.signals.release_of(self.command.id)
        if delivery is not None:
            run.mailbox.add_finding(delivery.at, partial(self._take, run, delivery))

    def _take(self, run: Execution, delivery: Signal, events: list[Event]) -> None:
        if not run.pending.take(self):
            return
        run.commit.take(run.signals.take_releases(self.command.id))
        payload = run.context.sealer.opener.signal_payload(run.state.run.id, delivery)
        events.append(Event(EventKind.MESSAGE_RECEIVED, self.command.id, payload))

    def on_drop(self, run: Execution) -> None:
        run.commit.add(CloseSubscription(self.subscription))
        run.commit.events.append(Event(EventKind.MESSAGE_DROPPED, self.command.id))


def _subscribe(run: Execution, command: Subscribe) -> None:
    subscription = MessageSubscription(
        run_id=run.state.run.id,
        step=command.id,
        namespace=run.state.run.namespace,
        kind=command.kind,
        name=command.name,
        key=command.key,
        element=command.element,
    )
    pending = PendingSubscription(command, subscription)
    run.pending.add(pending)
    progress = run.state.progress
    if command.id not in progress.subscribed:
        data = {"kind": command.kind, "name": command.name, "key": command.key}
        event = Event(EventKind.MESSAGE_AWAITED, command.id, msgspec.json.encode(data))
        run.commit.events.append(event)
        run.commit.add(OpenSubscription(subscription))
        return
    if run.signals.release_of(command.id) is not None:
        pending.on_change(run)
    elif progress.replayed or run.state.run.forked_from is not None:
        run.commit.add(OpenSubscription(subscription))  # the end of the run had closed it


def close_all(run: Execution, op: Advance) -> None:
    """End the subscriptions that are still open when the run ends."""
    open_ones = [
        CloseSubscription(pending.subscription) for pending in run.pending.of(PendingSubscription)
    ]
    if open_ones:
        op.effects = [*op.effects, *open_ones]


def _publish(run: Execution, command: Publish) -> Event:
    record = run.state.run
    key = idempotency_key(record.id, command.id, run.state.lives.of(command.id))
    message = Message(
        namespace=record.namespace,
        id=command.message_id or key,
        name=command.name,
        key=command.key,
        payload=command.payload,
        ttl=command.ttl,
        is_unique=command.message_id is not None,
        starts=start_offers(
            run.context.store, record.namespace, "message", command.name, command.payload
        ),
    )
    run.commit.add(SendMessage(message))
    data = {"name": command.name, "key": command.key, "message": message.id}
    return Event(EventKind.MESSAGE_SENT, command.id, msgspec.json.encode(data))


def _broadcast(run: Execution, command: Broadcast) -> Event:
    record = run.state.run
    part = BroadcastPart(
        namespace=record.namespace,
        id=idempotency_key(record.id, command.id, run.state.lives.of(command.id)),
        name=command.name,
        payload=command.payload,
        at=0,
        starts=start_offers(
            run.context.store, record.namespace, "signal", command.name, command.payload
        ),
    )
    run.commit.add(SendBroadcast(part))
    data = {"kind": "signal", "name": command.name}
    return Event(EventKind.BROADCAST_SENT, command.id, msgspec.json.encode(data))


HANDLERS: dict[type, Handler] = {
    Subscribe: _subscribe,
    Publish: _publish,
    Broadcast: _broadcast,
}
