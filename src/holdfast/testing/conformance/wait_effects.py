"""Conformance of waits: effects of a delivery, release by people, pruning and replay."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.conditions import model as condition_model
from holdfast.core.events import EventKind
from holdfast.core.status import Status
from holdfast.core.waits import WaitRecord
from holdfast.errors import (
    RunFinished,
    RunNotFound,
    WaitClosed,
    WaitNotFound,
)
from holdfast.store.runs.operations import Prune, ReplayRun
from holdfast.store.signals.operations import SignalRun
from holdfast.store.store import Store
from holdfast.store.waits.operations import (
    BEFORE,
    CloseWait,
    EscalateWait,
    OpenWait,
    ReleaseWait,
)
from holdfast.testing.conformance.fixture import MINUTE, SECOND, HandClock
from holdfast.testing.conformance.wait_fixture import WaitFixture


class WaitEffectConformance(WaitFixture):
    """A signal wakes its run when it matters, and a wait ends with its run or by an operator."""

    # Effects of a delivery

    def test_a_repeated_signal_is_answered_as_the_first_was(self, store: Store) -> None:
        run = self.hold(store)
        self.park_on(store, run, self.create_wait(store, run))

        first = self.deliver_to(store, key="k", payload=b"1")
        again = self.deliver_to(store, key="k", payload=b"2", name="other")

        assert (again.number, again.effect) == (first.number, first.effect) == (1, "satisfied")
        assert (first.new, again.new, len(store.signals.of_run("r1"))) == (True, False, 1)

    def test_idempotency_keys_of_outsiders_are_separate_from_those_of_the_run(
        self, store: Store
    ) -> None:
        self.create_wait(store, self.hold(store))

        assert self.deliver_to(store, key="k").new
        assert self.do(store, SignalRun("r1", "paid", b"1", "k")).new

    def test_a_run_is_woken_when_its_condition_is_met_and_not_before(self, store: Store) -> None:
        votes = condition_model.Count(2, (condition_model.SignalNamed("vote"),), "sources")
        run = self.hold(store)
        self.park_on(
            store,
            run,
            condition_model.AllOf(
                (condition_model.SignalNamed("paid", {"currency": "EUR"}), votes)
            ),
        )

        effects = []
        for name, source, payload in [
            ("vote", "ann", b"1"),
            ("vote", "ann", b"1"),
            ("other", "ann", b"1"),
            ("paid", None, b'{"currency":"USD"}'),
            ("paid", None, b'{"currency":"EUR","amount":3}'),
            ("vote", "bob", b"1"),
        ]:
            assert self.status(store) is Status.WAITING
            effects.append(self.send_signal(store, name, source=source, payload=payload))

        assert effects == ["kept", "duplicate", "kept", "ignored", "kept", "satisfied"]
        assert self.status(store) is Status.PENDING

    def test_a_holder_is_not_notified_of_a_signal_that_changes_nothing(self, store: Store) -> None:
        run = self.hold(store)
        wait = {
            "kind": "wait",
            "step": "wait",
            "condition": msgspec.to_builtins(
                condition_model.Count(2, (condition_model.SignalNamed("vote"),))
            ),
        }
        self.park(store, run, waits=msgspec.json.encode([wait]), keep=True)
        revision = self.get(store).revision

        self.send_signal(store, "vote")
        assert (store.sessions.notifications("s1", 0), self.get(store).revision) == (
            [],
            revision + 1,
        )
        self.send_signal(store, "vote")

        assert [run_id for _, run_id in store.sessions.notifications("s1", 0)] == ["r1"]

    def test_a_condition_on_sealed_payloads_is_left_to_a_worker_with_the_codec(
        self, store: Store
    ) -> None:
        run = self.hold(store)
        self.park_on(store, run, condition_model.SignalNamed("paid", {"a": 1}), sealed=True)

        assert self.send_signal(store, "other", payload=b'"x"') == "kept"
        assert self.status(store) is Status.WAITING
        assert self.send_signal(store, "paid", payload=b'"x"') == "kept"
        assert self.status(store) is Status.PENDING

    # Release by people

    def test_a_person_releases_a_wait(self, store: Store) -> None:
        run = self.hold(store)
        self.park_on(store, run, condition_model.SignalNamed("paid"))

        self.do(store, ReleaseWait(run_id="r1", step="wait", payload=b"5", by="ann"))

        assert self.status(store) is Status.PENDING
        (signal,) = store.signals.of_run("r1")
        assert (signal.step, signal.source, signal.payload) == ("wait", "ann", b"5")

    def test_only_an_open_wait_can_be_released(self, store: Store) -> None:
        run = self.hold(store)
        self.create_wait(store, run)
        opened = WaitRecord(run_id="r1", step="old", id=None, name="paid", opened_at=1)
        self.advance(store, run, effects=[OpenWait(opened), CloseWait("old", "its signals")])

        for step in ("none", "create w1", "old"):
            with pytest.raises(WaitNotFound):
                self.do(store, ReleaseWait(run_id="r1", step=step, payload=b"1"))
        assert store.signals.of_run("r1") == []
        self.finish(store, run)
        with pytest.raises(RunFinished):
            self.do(store, ReleaseWait(run_id="r1", step="old", payload=b"1"))

    def test_a_delayed_run_can_be_released_to_begin(self, store: Store, clock: HandClock) -> None:
        later = clock.now() + MINUTE
        self.start(store, "r1", available_at=later)
        self.start(store, "r2", available_at=later)
        assert self.claim(store) == []

        self.do(store, ReleaseWait(run_id="r1", step=BEFORE, payload=b"null", by="ann"))

        assert [event.kind for event in store.runs.history("r1")] == [EventKind.RUN_RELEASED]
        assert [run.id for run in self.claim(store)] == ["r1"]
        for run_id in ("r1", "r3"):
            with pytest.raises((WaitNotFound, RunNotFound)):
                self.do(store, ReleaseWait(run_id=run_id, step=BEFORE, payload=b"null"))
        clock.move(MINUTE)
        with pytest.raises(WaitNotFound):
            self.do(store, ReleaseWait(run_id="r2", step=BEFORE, payload=b"null"))
        assert [run.id for run in self.claim(store)] == ["r2"]

    def test_escalated_waits_are_listed(self, store: Store, clock: HandClock) -> None:
        for run_id in ("r1", "r2"):
            run = self.hold(store, run_id)
            opened = WaitRecord(
                run_id=run_id,
                step="wait",
                id=None,
                name="paid",
                opened_at=clock.now(),
                until=clock.now() + 1,
            )
            self.advance(store, run, effects=[OpenWait(opened)])
        self.advance(store, self.get(store, "r2"), effects=[EscalateWait("wait")])

        assert [
            (wait.run_id, wait.escalated_at, wait.until)
            for wait in store.waits.find(escalated=True)
        ] == [("r2", clock.now(), None)]
        assert store.waits.find("r1", escalated=True) == []
        assert [wait.run_id for wait in store.waits.find(limit=1)] == ["r1"]

    # Pruning, import and replay

    def test_waits_are_pruned_with_their_run(self, store: Store, clock: HandClock) -> None:
        run = self.hold(store)
        self.create_wait(store, run)
        self.deliver_to(store, key="k")
        self.finish(store, run)
        assert list(store.run_snapshots.belongings("r1")) == ["wait"]

        clock.move(SECOND)
        self.do(store, Prune(clock.now(), ["completed"]))

        assert (store.waits.find("r1"), store.waits.get("w1"), store.signals.of_run("r1")) == (
            [],
            None,
            [],
        )
        with pytest.raises(WaitClosed):
            self.deliver_to(store)

    def test_a_snapshot_has_all_fields_of_a_signal(self, store: Store) -> None:
        self.create_wait(store, self.hold(store))
        self.deliver_to(store, key="k", source="bank")

        (snapshot,) = store.run_snapshots.page("", 10, 10**6)

        (signal,) = snapshot.signals
        assert (signal.number, signal.wait_id, signal.source, signal.key, signal.effect) == (
            1,
            "w1",
            "bank",
            "w1 k",
            "kept",
        )
        assert [row[:3] for row in snapshot.below["wait"]] == [["create w1", "w1", "w"]]

    def test_a_replayed_run_reopens_waits_that_its_end_or_a_timeout_closed(
        self, store: Store
    ) -> None:
        run = self.hold(store)
        for wait_id in ("w1", "w2", "w3"):
            self.create_wait(store, run, wait_id)
        closed = [
            ("create w1", "the end of the run"),
            ("create w2", "timeout"),
            ("create w3", "its signals"),
        ]
        self.finish(store, run, effects=[CloseWait(step, by) for step, by in closed])

        self.do(store, ReplayRun("r1", []))

        assert {wait.id: wait.closed_at is None for wait in store.waits.find("r1")} == {
            "w1": True,
            "w2": True,
            "w3": False,
        }

    def test_a_step_that_is_replayed_opens_its_wait_again(self, store: Store) -> None:
        run = self.hold(store)
        self.create_wait(store, run)
        self.advance(store, run, effects=[CloseWait("create w1", "its signals")])

        self.create_wait(store, run, "w2", step="create w1")

        assert [(wait.id, wait.closed_at) for wait in store.waits.find("r1")] == [("w2", None)]
        with pytest.raises(WaitClosed):
            self.deliver_to(store, "w1")
