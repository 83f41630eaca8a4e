"""Conformance of messages, instructions and tokens at rest."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.events import Event, EventKind
from holdfast.core.messages import INSTRUCTION, Delivered, MessageEffect, MessageSubscription
from holdfast.core.resting_tokens import RestingToken
from holdfast.core.runs import NewRun
from holdfast.core.sessions import Lane
from holdfast.core.status import Status
from holdfast.core.waits import INCIDENT, WaitRecord
from holdfast.errors import LaneDraining, NoReceiver, RunChanged, RunFinished
from holdfast.store.effects import Effect
from holdfast.store.lanes.operations import SetLane
from holdfast.store.messages.operations import (
    AnswerSignal,
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
from holdfast.store.resting_tokens.operations import ClearTokens, SaveTokens
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import Advance, Prune, ReplayRun, RequestCancel, SetTags
from holdfast.store.signals.operations import TakeSignals
from holdfast.store.store import Store
from holdfast.store.waits.operations import EscalateWait, OpenWait
from holdfast.testing.conformance.fixture import ROUTE, SECOND, WAITS, HandClock, StoreFixture

BROKEN = {
    "a_message_subscription_belongs_to_a_run_that_has_not_ended": (
        "INSERT INTO holdfast.message_subscription (run_id, step, namespace, kind, name, element,"
        " since) VALUES ('none', 'a', 'default', 'message', 'paid', 'a', 1)"
    ),
    "a_message_that_was_received_names_its_run": (
        "INSERT INTO holdfast.message (namespace, id, name, payload, at, until, effect)"
        " VALUES ('default', 'm1', 'paid', '{}', 1, 1, 'received')"
    ),
    "no_message_is_kept_while_a_receiver_of_its_key_waits": (
        "INSERT INTO holdfast.message (namespace, id, name, payload, at, until, effect)"
        " VALUES ('default', 'm1', 'awaited', '{}', 1, 4000000000000000, 'kept')"
    ),
    "a_resting_token_belongs_to_a_run_that_has_not_ended": (
        "INSERT INTO holdfast.resting_token (run_id, token, element, kind, scope, status, mode,"
        " attempt, since, version) VALUES ('none', '1', 'a', '', '', 'waiting', 'forward', 1, 1, 1)"
    ),
}
"""One statement per law that breaks it."""


AWAITED = MessageSubscription(
    run_id="held", step="s", namespace="default", kind="message", name="awaited", element="e"
)
"""A subscription of a run, in a database in which each law can be broken."""


class MessageConformance(StoreFixture):
    """A message reaches one receiver, once, whether it comes before or after the receiver."""

    def subscribed(
        self,
        store: Store,
        run_id: str,
        *,
        key: str | None = None,
        kind: str = "message",
        name: str = "paid",
    ) -> MessageSubscription:
        """Start a run that is parked on a subscription."""
        self.start(store, run_id)
        self.claim(store)
        subscription = MessageSubscription(
            run_id=run_id,
            step="a",
            namespace="default",
            kind=kind,
            name=name,
            key=key,
            element="e",
        )
        self.rest_with(store, run_id, [OpenSubscription(subscription)])
        return subscription

    def rest_with(self, store: Store, run_id: str, effects: list[Effect]) -> None:
        run = self.get(store, run_id)
        op = Advance(
            run_id=run_id,
            generation=run.generation,
            status=Status.WAITING,
            revision=run.revision,
            waits=WAITS,
            release=True,
            effects=effects,
        )
        self.do(store, op)

    def send(
        self, store: Store, *, key: str | None = None, ttl: int = 0, id: str = "", **more: object
    ) -> Delivered:
        message = Message(
            namespace="default",
            id=id or "m1",
            name="paid",
            key=key,
            payload=b'{"n":1}',
            ttl=ttl,
            is_unique=bool(id),
            **more,  # type: ignore[arg-type]
        )
        delivered: Delivered = self.do(store, PublishMessage(message))
        return delivered

    def delivered_to(self, store: Store, run_id: str) -> list[tuple[str | None, bytes]]:
        return [(signal.step, signal.payload) for signal in store.signals.of_run(run_id)]

    def test_a_message_wakes_the_run_that_waits_for_it(self, store: Store) -> None:
        self.subscribed(store, "r1")

        assert self.send(store) == Delivered(MessageEffect.RECEIVED, "r1", "e")

        assert self.get(store, "r1").status is Status.PENDING
        assert self.delivered_to(store, "r1") == [("a", b'{"n":1}')]
        assert store.messages.of_run("r1") == []
        with pytest.raises(NoReceiver):
            self.send(store)

    def test_a_message_comes_before_its_receiver(self, store: Store) -> None:
        assert self.send(store, ttl=SECOND, key="k").effect is MessageEffect.KEPT

        self.subscribed(store, "r1", key="k")

        assert self.delivered_to(store, "r1") == [("a", b'{"n":1}')]
        assert self.get(store, "r1").status is Status.PENDING
        self.subscribed(store, "r2", key="k")
        assert self.delivered_to(store, "r2") == []

    def test_a_kept_message_has_its_time(self, store: Store, clock: HandClock) -> None:
        self.send(store, ttl=SECOND)
        clock.move(SECOND)

        self.subscribed(store, "r1")

        assert self.delivered_to(store, "r1") == []
        clock.move(1)
        self.do(store, Prune(clock.now(), [Status.CANCELLED]))
        assert "message" not in store.installation.rows()

    def test_a_key_must_match_unless_the_receiver_has_none(self, store: Store) -> None:
        self.subscribed(store, "r1", key="k")
        with pytest.raises(NoReceiver):
            self.send(store, key="other")
        with pytest.raises(NoReceiver):
            self.send(store)
        self.subscribed(store, "r2")

        assert self.send(store, key="k").run_id == "r1"
        assert self.send(store, key="k").run_id == "r2"

    def test_an_id_is_used_once(self, store: Store) -> None:
        self.subscribed(store, "r1")
        self.subscribed(store, "r2")

        assert self.send(store, id="x").effect is MessageEffect.RECEIVED
        assert self.send(store, id="x") == Delivered(MessageEffect.DUPLICATE, "r1", "e")
        assert self.delivered_to(store, "r2") == []

    def test_a_dropped_receiver_passes_its_message_on(self, store: Store) -> None:
        first = self.subscribed(store, "r1")
        self.subscribed(store, "r2")
        self.send(store)
        (run,) = self.claim(store)

        self.rest_with(store, run.id, [CloseSubscription(first)])

        assert self.delivered_to(store, "r1") == []
        assert self.delivered_to(store, "r2") == [("a", b'{"n":1}')]

    def test_a_run_that_ends_from_outside_waits_no_more(self, store: Store) -> None:
        self.subscribed(store, "r1")

        self.do(store, RequestCancel("r1", "enough", force=True))

        assert store.messages.of_run("r1") == []
        with pytest.raises(NoReceiver):
            self.send(store)

    def test_a_message_starts_a_run_once_per_key_at_a_time(self, store: Store) -> None:
        def offer(run_id: str) -> list[StartOffer]:
            return [StartOffer(NewRun(id=run_id, route=ROUTE, input=b"[]"), "start")]

        started = self.send(store, key="k", starts=offer("r1"))
        assert started == Delivered(MessageEffect.STARTED, "r1", "start")
        with pytest.raises(NoReceiver):
            self.send(store, key="k", starts=offer("r2"))
        self.do(store, RequestCancel("r1", "enough", force=True))
        assert self.send(store, key="k", id="m2", starts=offer("r3")).run_id == "r3"

    def test_a_kept_message_starts_a_run_once(self, store: Store, clock: HandClock) -> None:
        self.send(store, key="k", id="m1", ttl=SECOND)
        self.send(store, key="k", id="m2", ttl=SECOND)

        def start(id: str, run_id: str) -> Delivered:
            offer = StartOffer(NewRun(id=run_id, route=ROUTE, input=b"[]"), "start")
            op = StartWithKept(namespace="default", id=id, name="paid", key="k", starts=[offer])
            delivered: Delivered = self.do(store, op)
            return delivered

        assert start("m1", "r1") == Delivered(MessageEffect.STARTED, "r1", "start")
        assert start("m1", "r2").effect is MessageEffect.LOST  # it was used
        assert start("m2", "r3").effect is MessageEffect.LOST  # a run of its key is live
        self.do(store, RequestCancel("r1", "enough", force=True))
        clock.move(SECOND)
        assert start("m2", "r4").effect is MessageEffect.LOST  # its time is over
        assert [run.id for run in store.runs.find(RunFilter())] == ["r1"]

    def test_a_message_waits_while_the_lane_of_its_start_drains(self, store: Store) -> None:
        self.send(store, key="k", id="m1", ttl=SECOND)
        self.do(store, SetLane(Lane(name="default", draining=True)))
        offer = StartOffer(NewRun(id="r1", route=ROUTE, input=b"[]"), "start")
        op = StartWithKept(namespace="default", id="m1", name="paid", key="k", starts=[offer])

        assert self.do(store, op).effect is MessageEffect.LOST

        self.do(store, SetLane(Lane(name="default")))
        assert self.do(store, op) == Delivered(MessageEffect.STARTED, "r1", "start")

    @pytest.mark.parametrize("kind", ["message", "broadcast"])
    def test_a_commit_whose_message_starts_no_run_in_a_draining_lane_is_not_written(
        self, store: Store, kind: str
    ) -> None:
        self.start(store, "r1")
        self.start(store, "r2")
        self.claim(store)
        self.do(store, SetLane(Lane(name="default", draining=True)))
        offer = StartOffer(NewRun(id="new", route=ROUTE, input=b"[]"), "start")
        message = Message(namespace="default", id="m", name="paid", payload=b"1", starts=[offer])
        part = BroadcastPart(
            namespace="default", id="b", name="paid", payload=b"2", at=0, starts=[offer]
        )
        effect = SendMessage(message) if kind == "message" else SendBroadcast(part)

        refused, written = store.apply(
            [
                self.step_of(store, "r1", effects=[effect]),
                self.step_of(store, "r2"),
            ]
        )

        assert isinstance(refused, LaneDraining) and not isinstance(written, Exception)
        assert [len(store.runs.history(run_id)) for run_id in ("r1", "r2")] == [0, 1]

    def step_of(self, store: Store, run_id: str, **options: Any) -> Advance:
        event = Event(EventKind.STEP_COMPLETED, "s", b"1", seq=1)
        generation = self.get(store, run_id).generation
        return Advance(run_id=run_id, generation=generation, events=[event], **options)

    def test_a_broadcast_that_may_not_start_all_its_runs_starts_none(self, store: Store) -> None:
        self.subscribed(store, "r1", kind="signal")
        self.do(store, SetLane(Lane(name="late", draining=True)))
        late = msgspec.structs.replace(ROUTE, lane="late")
        offers = [
            StartOffer(NewRun(id="n1", route=ROUTE, input=b"[]"), "start"),
            StartOffer(NewRun(id="n2", route=late, input=b"[]"), "start"),
        ]
        part = BroadcastPart(
            namespace="default", id="b", name="paid", payload=b"{}", at=store.now(), starts=offers
        )

        (refused, _) = store.apply([part, self.tags_of("r1")])

        assert isinstance(refused, LaneDraining)
        assert store.runs.get("n1") is None

    def tags_of(self, run_id: str) -> SetTags:
        return SetTags(run_id, {"a": "b"})

    def test_messages_of_two_names_may_have_one_id(self, store: Store) -> None:
        self.send(store, id="x", ttl=SECOND)
        shipped = Message(
            namespace="default", id="x", name="shipped", payload=b"2", ttl=SECOND, is_unique=True
        )

        assert self.do(store, PublishMessage(shipped)).effect is MessageEffect.KEPT
        assert self.do(store, PublishMessage(shipped)).effect is MessageEffect.DUPLICATE

        self.subscribed(store, "r1")
        assert self.delivered_to(store, "r1") == [("a", b'{"n":1}')]
        self.subscribed(store, "r2", name="shipped")
        assert self.delivered_to(store, "r2") == [("a", b"2")]

    def test_the_payload_of_a_message_is_resealed(self, store: Store) -> None:
        self.send(store, id="m1", ttl=SECOND)
        (message,) = store.messages.to_seal(("", "", ""), 10)
        place = (message.namespace, message.name, message.id)
        assert place == ("default", "paid", "m1")

        assert self.do(store, ResealMessage(*place, b"other", b"new")) is False
        assert self.do(store, ResealMessage(*place, message.payload, b"new")) is True
        assert [each.payload for each in store.messages.to_seal(("", "", ""), 10)] == [b"new"]
        assert store.messages.to_seal(place, 10) == []

    def test_a_broadcast_reaches_all_in_parts(self, store: Store, clock: HandClock) -> None:
        for run_id in ("r1", "r2", "r3"):
            self.subscribed(store, run_id, kind="signal")
        part = BroadcastPart(
            namespace="default", id="b", name="paid", payload=b"{}", at=clock.now(), limit=2
        )

        first = self.do(store, part)
        part.after = first.last
        second = self.do(store, part)

        assert (first.reached, second.reached, second.last) == (["r1", "r2"], ["r3"], None)
        assert all(self.delivered_to(store, run_id) for run_id in ("r1", "r2", "r3"))

    def test_a_broadcast_reaches_each_step_that_waits_once(
        self, store: Store, clock: HandClock
    ) -> None:
        other = self.subscribed(store, "r1", kind="signal")
        self.wake_again(store, "r1")
        second = msgspec.structs.replace(other, step="b")
        self.rest_with(store, "r1", [OpenSubscription(second)])
        self.subscribed(store, "r2", kind="signal")
        self.do(store, RequestCancel("r2", "enough", force=True))
        part = BroadcastPart(
            namespace="default", id="b", name="paid", payload=b"{}", at=clock.now()
        )

        reached = self.do(store, part).reached

        assert reached == ["r1", "r1"] and self.do(store, part).reached == []
        assert self.delivered_to(store, "r1")[-2:] == [("a", b"{}"), ("b", b"{}")]
        assert [signal.number for signal in store.signals.of_run("r1")] == [1, 2, 3]
        assert self.get(store, "r1").status is Status.PENDING

    def test_a_run_sends_with_its_commit(self, store: Store) -> None:
        self.subscribed(store, "r1")
        self.subscribed(store, "r2", kind="signal")
        self.start(store, "r3")
        self.claim(store)
        message = Message(namespace="default", id="m", name="paid", payload=b"1")
        part = BroadcastPart(namespace="default", id="b", name="paid", payload=b"2", at=0)

        self.rest_with(store, "r3", [SendMessage(message), SendBroadcast(part)])

        assert self.delivered_to(store, "r1") == [("a", b"1")]
        assert self.delivered_to(store, "r2") == [("a", b"2")]

    def test_an_instruction_is_answered(self, store: Store) -> None:
        self.subscribed(store, "r1")

        with pytest.raises(RunChanged):
            self.do(store, InstructRun(run_id="r1", payload=b"{}", expect=7))
        delivery = self.do(store, InstructRun(run_id="r1", payload=b"{}", by="ann"))
        assert store.messages.answer("r1", delivery.number)[0] is False
        (run,) = self.claim(store)
        (signal,) = store.signals.of_run(run.id)
        assert (signal.step, signal.source) == (INSTRUCTION, "ann")
        answer = AnswerSignal(delivery.number, '{"answer":1}')
        self.rest_with(store, "r1", [TakeSignals([signal.id]), answer])

        assert store.messages.answer("r1", delivery.number) == (True, '{"answer":1}')
        self.do(store, RequestCancel("r1", "enough", force=True))
        with pytest.raises(RunFinished):
            self.do(store, InstructRun(run_id="r1", payload=b"{}"))

    def test_a_run_continues_with_another_version(self, store: Store) -> None:
        self.subscribed(store, "r1")
        self.send(store)
        self.claim(store)

        self.rest_with(store, "r1", [ChangeRunVersion("2")])
        assert self.get(store, "r1").version == "2"

        self.do(store, RequestCancel("r1", "enough", force=True))
        self.do(store, ReplayRun("r1", [], version="1"))
        assert self.get(store, "r1").version == "1"
        assert b'"version":"1"' in (store.runs.history("r1")[-1].data or b"")

    def test_open_waits_show_the_elements_of_another_version(self, store: Store) -> None:
        self.subscribed(store, "r2")
        self.subscribed(store, "r1")
        self.wake_again(store, "r1")
        waits: list[Effect] = []
        for step, name in (("b", INCIDENT), ("c", "other")):
            wait = WaitRecord(
                run_id="r1", step=step, id=None, name=name, opened_at=1, reason="before"
            )
            waits += [OpenWait(wait), EscalateWait(step)]

        self.rest_with(store, "r1", waits)
        self.wake_again(store, "r1")
        places = {"a": "x", "b": "y", "c": "z"}
        self.rest_with(store, "r1", [ChangeRunVersion("2", places)])

        assert [each.element for each in store.messages.of_run("r1")] == ["x"]
        assert [each.element for each in store.messages.of_run("r2")] == ["e"]
        (incident,) = store.waits.incidents("r1")
        other = store.waits.of_step("r1", "c")
        assert (incident.reason, other and other.reason) == ("y", "before")

    def test_tokens_at_rest_are_rows(self, store: Store) -> None:
        self.start(store, "r1")
        self.claim(store)
        first = RestingToken(id="1", element="a", since=1)
        second = RestingToken(id="2", element="b", since=2)

        self.rest_with(store, "r1", [SaveTokens([first, second])])
        assert store.resting_tokens.of_run("r1") == [first, second]

        self.wake_again(store, "r1")
        moved = RestingToken(id="1", element="c", since=3)
        self.rest_with(store, "r1", [SaveTokens([moved], ["2"])])
        assert store.resting_tokens.of_run("r1") == [moved]

        self.wake_again(store, "r1")
        self.rest_with(store, "r1", [ClearTokens()])
        assert store.resting_tokens.of_run("r1") == []

    def wake_again(self, store: Store, run_id: str) -> None:
        """Wake a run and lease it again."""
        self.do(store, InstructRun(run_id=run_id, payload=b"{}"))
        self.claim(store)
