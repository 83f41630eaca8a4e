"""Deliver messages to runs, start runs with them, and keep them.

Invariants:
- A sender and a receiver lock the name and key before any run, so that one of them sees the other:
  a message is never kept while its receiver waits, and a receiver never waits while its message is
  kept. SQLite admits one writer, so nothing is locked there.
- The delivery of a message and the end of the subscription are one transaction: one receiver gets
  it, once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.conditions.model import SignalEffect
from holdfast.core.messages import (
    DELIVERY,
    INSTRUCTION,
    REMEMBERED,
    RETURNED,
    Delivered,
    MessageEffect,
)
from holdfast.errors import (
    LaneDraining,
    NoReceiver,
    RowDamaged,
    RunChanged,
    RunFinished,
    RunNotFound,
)
from holdfast.store.database import Row, Transaction
from holdfast.store.deferred import DeferredChanges
from holdfast.store.effects import Commit, applies
from holdfast.store.history import last_seq
from holdfast.store.messages.operations import (
    AnswerSignal,
    BroadcastAnswer,
    BroadcastPart,
    ChangeRunVersion,
    CloseSubscription,
    InstructRun,
    Message,
    OpenSubscription,
    PublishMessage,
    ResealMessage,
    SendBroadcast,
    SendMessage,
    StartOffer,
    StartWithKept,
)
from holdfast.store.rows import load
from holdfast.store.runs.operate import change_version
from holdfast.store.runs.operations import StartRuns
from holdfast.store.runs.start import start_runs
from holdfast.store.signals.delivery import StoredSignal, insert_signal
from holdfast.store.signals.operations import WaitDelivery
from holdfast.store.wakeup import notify_or_wake

UNLIMITED = 1 << 60
"""The limit on the signals of a run does not apply to messages and instructions."""

ALL = 1 << 30
"""The receivers of a broadcast that a run sends: all, in the commit that sends it."""


# Publishing


def publish_message(tx: Transaction, op: PublishMessage) -> Delivered:
    """Deliver a message, or keep it. Raises NoReceiver."""
    delivered = publish(tx, op.message)
    if delivered.effect is MessageEffect.LOST:
        facts = {"message": op.message.name}
        if op.message.key is not None:
            facts["key"] = op.message.key
        raise NoReceiver(**facts)
    return delivered


def publish(tx: Transaction, message: Message) -> Delivered:
    """Deliver a message to one receiver, start a run with it, or keep it; otherwise it is lost."""
    place = {"namespace": message.namespace, "name": message.name}
    # Before any delivery: a repetition gets the first answer, whatever run waits by now.
    if message.is_unique:
        known = tx.rows("message_by_id", id=message.id, **place)
        if known:
            return Delivered(MessageEffect.DUPLICATE, known[0]["run_id"], known[0]["element"])
    delivered = _to_receiver(tx, message) or _to_start(tx, message)
    if delivered is None and message.ttl <= 0:
        return Delivered(MessageEffect.LOST)
    if delivered is None:
        _record(tx, message, Delivered(MessageEffect.KEPT), tx.now + message.ttl)
        return Delivered(MessageEffect.KEPT)
    # A start is remembered by its key, too: no other message of the key starts a run meanwhile.
    is_start = delivered.effect is MessageEffect.STARTED and message.key is not None
    if message.is_unique or is_start:
        _record(tx, message, delivered, tx.now + max(message.ttl, REMEMBERED))
    return delivered


def _to_receiver(tx: Transaction, message: Message) -> Delivered | None:
    # A damaged receiver must not keep the message from the others.
    receivers, _ = tx.sound_rows(
        "message_receivers",
        namespace=message.namespace,
        name=message.name,
        key=message.key,
        run_id=message.run_id,
        element=message.element,
    )
    for row in receivers:
        if deliver(tx, row, message.id, message.payload):
            return Delivered(MessageEffect.RECEIVED, row["run_id"], row["element"])
    return None


def deliver(tx: Transaction, receiver: Mapping[str, Any], message_id: str, payload: bytes) -> bool:
    """Deliver to a step of a run and end its subscription. Return False if it waits no more, or if
    its row is damaged: others can still receive the message."""
    run_id = receiver["run_id"]
    place = {"run_id": run_id, "step": receiver["step"]}
    try:
        state = load(tx, run_id)
    except (RunNotFound, RowDamaged):
        return False
    # After the run is locked: its holder may have ended the subscription before.
    if state["finished_at"] is not None or not tx.rows("message_subscription", **place):
        return False
    tx.change("close_message_subscription", **place)
    step = receiver["step"]
    signal = StoredSignal(DELIVERY, payload, UNLIMITED, source=message_id, step=step)
    insert_signal(tx, state, signal, SignalEffect.SATISFIED, wakes=True)
    return True


def _to_start(tx: Transaction, message: Message) -> Delivered | None:
    """Start a run, unless a run that a message of this key has started is still live."""
    # A message to one run or element has its receiver in mind, so it starts no other run.
    if not message.starts or message.run_id is not None or message.element is not None:
        return None
    if message.key is not None and tx.rows(
        "running_starts", namespace=message.namespace, name=message.name, key=message.key
    ):
        return None
    offer = message.starts[0]
    (started,) = start_runs(tx, StartRuns([offer.run]))
    return Delivered(MessageEffect.STARTED, started.id, offer.element)


def start_with_kept(tx: Transaction, op: StartWithKept) -> Delivered:
    """Start a run with a kept message. A message that was received, or whose time is over, or whose
    key has a live run, stays as it is; so does one whose start is in a draining lane."""
    place = {"namespace": op.namespace, "name": op.name, "id": op.id}
    kept = tx.rows("kept_by_id", now=tx.now, **place)
    # Without its payload: that is in the inputs of the offered runs already.
    message = Message(
        namespace=op.namespace, id=op.id, name=op.name, key=op.key, payload=b"", starts=op.starts
    )
    try:
        delivered = _to_start(tx, message) if kept else None
    except LaneDraining:
        delivered = None  # it stays kept: the lane may accept runs again before its time is over
    if delivered is None:
        return Delivered(MessageEffect.LOST)
    tx.change(
        "start_message",
        run_id=delivered.run_id,
        element=delivered.element,
        effect=delivered.effect,
        until=max(kept[0]["until"], tx.now + REMEMBERED),
        **place,
    )
    return delivered


def reseal_message(tx: Transaction, op: ResealMessage) -> bool:
    """Replace the payload of a message by the same payload under another seal."""
    place = {"namespace": op.namespace, "name": op.name, "id": op.id}
    return bool(tx.change("reseal_message", old=op.old, new=op.new, **place))


def _record(tx: Transaction, message: Message, delivered: Delivered, until: int) -> None:
    tx.change(
        "insert_message",
        namespace=message.namespace,
        id=message.id,
        name=message.name,
        key=message.key,
        payload=message.payload,
        at=tx.now,
        until=until,
        effect=delivered.effect,
        run_id=delivered.run_id,
        element=delivered.element,
    )


def broadcast(tx: Transaction, op: BroadcastPart) -> BroadcastAnswer:
    """Deliver a broadcast to the next receivers."""
    started = _start_all(tx, op.starts)
    after_run, after_step = op.after
    receivers, damaged = tx.sound_rows(
        "broadcast_receivers",
        namespace=op.namespace,
        name=op.name,
        at=op.at,
        after_run=after_run,
        after_step=after_step,
        limit=op.limit,
    )
    reached = _deliver_all(tx, op, receivers)
    last = None
    if receivers and len(receivers) + len(damaged) == op.limit:
        last = (receivers[-1]["run_id"], receivers[-1]["step"])
    return BroadcastAnswer(reached, started, last)


def _deliver_all(tx: Transaction, op: BroadcastPart, receivers: Sequence[Row]) -> list[str]:
    """Deliver to many receivers and end their subscriptions: what `deliver` does for one, with a
    few statements for all. Return the runs that were reached, once per receiver."""
    ids = tx.as_list(sorted({str(row["run_id"]) for row in receivers}))
    # A damaged receiver must not keep the broadcast from the others.
    states, _ = tx.sound_rows("receiving_runs", ids=ids)
    live = {str(state["id"]): state for state in states}
    # After the runs are locked: their holders may have ended subscriptions before.
    steps = tx.rows("steps_that_receive", ids=ids, namespace=op.namespace, name=op.name)
    waiting = {(row["run_id"], row["step"]) for row in steps if row["run_id"] in live}
    places = [
        {"run_id": row["run_id"], "step": row["step"]}
        for row in receivers
        if (row["run_id"], row["step"]) in waiting
    ]
    tx.many("close_message_subscription", places)
    signal = {"name": DELIVERY, "payload": op.payload, "at": tx.now, "source": op.id}
    effect = {"effect": SignalEffect.SATISFIED.value}
    tx.many("insert_delivery", [{**place, **signal, **effect} for place in places])
    later: Any = DeferredChanges(tx)
    # Once per run, however many of its steps receive it: the run then reads all its signals.
    for run_id in dict.fromkeys(place["run_id"] for place in places):
        notify_or_wake(later, live[run_id])
    later.make()
    return [place["run_id"] for place in places]


def _start_all(tx: Transaction, offers: Sequence[StartOffer]) -> list[str]:
    if not offers:
        return []
    return [started.id for started in start_runs(tx, StartRuns([offer.run for offer in offers]))]


# Instructions


def instruct_run(tx: Transaction, op: InstructRun) -> WaitDelivery:
    """Store an instruction for a run, and wake the run. Raises RunNotFound, RunFinished,
    RunChanged."""
    state = load(tx, op.run_id)
    if state["finished_at"] is not None:
        raise RunFinished(run=op.run_id, status=state["status"])
    if op.expect is not None and last_seq(tx, op.run_id) != op.expect:
        raise RunChanged(run=op.run_id, expected=op.expect)
    signal = StoredSignal(
        "instruction",
        op.payload,
        UNLIMITED,
        source=op.by,
        step=INSTRUCTION,
        payloads=op.payloads,
    )
    return insert_signal(tx, state, signal, SignalEffect.SATISFIED, wakes=True)


# Effects of a run


@applies(OpenSubscription)
def open_subscriptions(
    tx: Transaction, commit: Commit, effects: Sequence[OpenSubscription]
) -> None:
    """Insert subscriptions, and deliver the messages that were kept for them."""
    rows = [msgspec.structs.asdict(effect.subscription) for effect in effects]
    for row in rows:
        row["since"] = tx.now
    tx.many("insert_message_subscription", rows)
    for row in rows:
        if row["kind"] == "message":
            _take_kept(tx, row)


def _take_kept(tx: Transaction, subscription: Mapping[str, Any]) -> None:
    place = {"namespace": subscription["namespace"], "name": subscription["name"]}
    # A damaged message must not fail the commit of the run.
    kept, _ = tx.sound_rows("kept_message", key=subscription["key"], now=tx.now, **place)
    if not kept:
        return
    message = kept[0]
    if deliver(tx, subscription, message["id"], bytes(message["payload"])):
        tx.change(
            "take_message",
            **place,
            id=message["id"],
            run_id=subscription["run_id"],
            element=subscription["element"],
            until=max(message["until"], tx.now + REMEMBERED),
        )


@applies(CloseSubscription)
def close_subscriptions(
    tx: Transaction, commit: Commit, effects: Sequence[CloseSubscription]
) -> None:
    """Delete subscriptions, and pass on messages that have reached them too late."""
    for effect in effects:
        place = {"run_id": effect.subscription.run_id, "step": effect.subscription.step}
        # No row: a message has come and ended the wait, but the run did not take it.
        if not tx.change("close_message_subscription", **place):
            _return_untaken(tx, effect)


def _return_untaken(tx: Transaction, effect: CloseSubscription) -> None:
    subscription = effect.subscription
    if subscription.kind != "message":
        return
    untaken = tx.rows("signal_of_step", run_id=subscription.run_id, step=subscription.step)
    for row in untaken:
        tx.change("take_signal", id=row["id"])
        message = Message(
            namespace=subscription.namespace,
            id=row["source"],
            name=subscription.name,
            key=subscription.key,
            payload=bytes(row["payload"]),
            ttl=RETURNED,
        )
        publish(tx, message)


@applies(SendMessage)
def send_messages(tx: Transaction, commit: Commit, effects: Sequence[SendMessage]) -> None:
    """Publish messages with the commit that sends them."""
    for effect in effects:
        publish(tx, effect.message)


@applies(SendBroadcast)
def send_broadcasts(tx: Transaction, commit: Commit, effects: Sequence[SendBroadcast]) -> None:
    """Deliver broadcasts with the commit that sends them."""
    for effect in effects:
        broadcast(tx, msgspec.structs.replace(effect.part, at=tx.now, limit=ALL))


@applies(AnswerSignal)
def answer_signals(tx: Transaction, commit: Commit, effects: Sequence[AnswerSignal]) -> None:
    """Record the answers to instructions."""
    tx.many(
        "answer_signal",
        [
            {"run_id": commit.run_id, "number": effect.number, "answer": effect.answer}
            for effect in effects
        ],
    )


@applies(ChangeRunVersion)
def change_versions(tx: Transaction, commit: Commit, effects: Sequence[ChangeRunVersion]) -> None:
    """Give the run the route of another version, and its open waits the elements of it."""
    # A commit may apply several migrations: the last one counts, for each step as well.
    change_version(tx, commit.run_id, effects[-1].version)
    places = {step: element for effect in effects for step, element in effect.places.items()}
    rows: list[dict[str, object]] = [
        {"run_id": commit.run_id, "step": step, "element": element}
        for step, element in places.items()
    ]
    tx.many("rename_subscription", rows)
    tx.many("rename_incident", rows)
