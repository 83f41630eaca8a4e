"""Conformance of waits: created with tokens, met by signals, released by people."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core import tokens
from holdfast.core.conditions import evaluation as of
from holdfast.core.conditions import model as condition_model
from holdfast.core.events import EventKind
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.core.tokens import WAIT_TOKEN
from holdfast.core.waits import WaitRecord
from holdfast.errors import (
    RunFinished,
    RunNotFound,
    TokenRefused,
    TooManySignals,
    WaitClosed,
    WaitExpired,
    WaitNotFound,
)
from holdfast.store.keys.operations import NeedKey, OfferedKey, RotateKey
from holdfast.store.runs.operations import Prune, ReplayRun
from holdfast.store.signals.operations import SignalRun, TakeSignals
from holdfast.store.store import Store
from holdfast.store.waits.operations import (
    BEFORE,
    CloseWait,
    DeliverSignal,
    EscalateWait,
    OpenWait,
    ReleaseWait,
    WaitDelivery,
)
from holdfast.testing.conformance.fixture import MINUTE, SECOND, HandClock, StoreFixture

KEY = OfferedKey("k1", b"a secret of 16 bytes or more")
OTHER = OfferedKey("k2", b"another secret, just as long")


class WaitConformance(StoreFixture):
    """A caller with a valid token can signal a wait; without one it cannot even learn that the wait
    exists."""

    def create_wait(
        self, store: Store, run: RunRecord, wait_id: str = "w1", **options: Any
    ) -> condition_model.SignalToWait:
        """Create the wait ``w`` in a held run; return it as a condition."""
        if not store.keys.all():
            self.do(store, NeedKey(KEY))
        fresh = {
            "run_id": run.id,
            "step": f"create {wait_id}",
            "id": wait_id,
            "name": "w",
            "kid": "k1",
            "opened_at": store.now(),
        }
        wait = WaitRecord(**{**fresh, **options})
        self.advance(store, run, effects=[OpenWait(wait)])
        return condition_model.SignalToWait(wait_id, wait.step, "w", wait.until)

    def park_on(
        self, store: Store, run: RunRecord, condition: condition_model.Condition, **options: Any
    ) -> None:
        """Park a held run on a condition and release its lease."""
        wait = {
            "kind": "wait",
            "step": "wait",
            "condition": msgspec.to_builtins(condition),
            **options,
        }
        opened = WaitRecord(
            run_id=run.id, step="wait", id=None, name=of.show(condition), opened_at=store.now()
        )
        self.park(store, run, waits=msgspec.json.encode([wait]), effects=[OpenWait(opened)])

    def wait_token(self, store: Store, wait_id: str = "w1", *, purpose: str = WAIT_TOKEN) -> str:
        return tokens.sign(store.keys.all()[0], purpose, {"wait": wait_id})

    def deliver_to(
        self, store: Store, wait_id: str = "w1", token: str | None = None, **options: Any
    ) -> WaitDelivery:
        fields = {
            "name": None,
            "payload": b"1",
            "token": self.wait_token(store, wait_id) if token is None else token,
            **options,
        }
        answer: WaitDelivery = self.do(store, DeliverSignal(wait_id=wait_id, **fields))
        return answer

    def send_signal(self, store: Store, name: str = "paid", **options: Any) -> str:
        answer: WaitDelivery = self.do(store, SignalRun("r1", name, **{"payload": b"1", **options}))
        return answer.effect

    # Creation and delivery

    def test_a_wait_exists_before_its_run_waits_on_it(self, store: Store, clock: HandClock) -> None:
        self.create_wait(store, self.hold(store), until=clock.now() + SECOND)

        wait = store.waits.get("w1")
        assert wait is not None
        assert (wait.run_id, wait.name, wait.kid, wait.until, wait.closed_at) == (
            "r1",
            "w",
            "k1",
            clock.now() + SECOND,
            None,
        )
        assert store.waits.find("r1") == [wait] == store.waits.find()
        assert store.waits.get("none") is None

    def test_an_early_signal_to_a_wait_is_kept(self, store: Store) -> None:
        self.create_wait(store, self.hold(store))

        assert self.deliver_to(store, payload=b"7", source="bank") == WaitDelivery(1, "kept")

        (signal,) = store.signals.of_run("r1")
        assert (signal.number, signal.wait_id, signal.name, signal.payload, signal.source) == (
            1,
            "w1",
            "w",
            b"7",
            "bank",
        )

    def test_a_signal_to_a_wait_wakes_a_run_that_waits_for_it(self, store: Store) -> None:
        run = self.hold(store)
        self.park_on(store, run, self.create_wait(store, run))

        assert self.deliver_to(store) == WaitDelivery(1, "satisfied")
        assert self.status(store) is Status.PENDING

    def test_the_signal_that_satisfies_a_wait_closes_it(self, store: Store) -> None:
        run = self.hold(store)
        self.park_on(
            store,
            run,
            condition_model.AnyOf(
                (self.create_wait(store, run), self.create_wait(store, run, "w2"))
            ),
        )

        assert self.deliver_to(store, key="k").effect == "satisfied"

        for wait_id in ("w1", "w2"):
            with pytest.raises(WaitClosed, match="its signals"):
                self.deliver_to(store, wait_id)
            with pytest.raises(WaitClosed):
                self.send_signal(store, wait_id=wait_id)
        assert self.deliver_to(store, key="k") == WaitDelivery(1, "satisfied", new=False)
        assert len(store.signals.of_run("r1")) == 1

    def test_a_wait_stays_open_until_its_condition_is_met(self, store: Store) -> None:
        run = self.hold(store)
        self.park_on(store, run, condition_model.Count(2, (self.create_wait(store, run),)))

        assert [self.deliver_to(store).effect for _ in range(2)] == ["kept", "satisfied"]
        with pytest.raises(WaitClosed):
            self.deliver_to(store)

    def test_a_person_who_releases_a_wait_closes_what_was_handed_out_for_it(
        self, store: Store
    ) -> None:
        run = self.hold(store)
        self.park_on(store, run, self.create_wait(store, run))

        self.do(store, ReleaseWait(run_id="r1", step="wait", payload=b"5", by="ann"))

        with pytest.raises(WaitClosed, match="a person"):
            self.deliver_to(store)

    @pytest.mark.parametrize("on_timeout", ["fail", "continue", "escalate"])
    def test_a_signal_after_the_timeout_is_refused_unless_a_person_is_asked(
        self, store: Store, clock: HandClock, on_timeout: str
    ) -> None:
        run = self.hold(store)
        gives_up = clock.now() + SECOND
        self.park_on(
            store, run, self.create_wait(store, run), gives_up=gives_up, on_timeout=on_timeout
        )
        clock.advance(2 * SECOND)

        if on_timeout == "escalate":
            assert self.deliver_to(store).effect == "kept"
        else:
            with pytest.raises(WaitClosed, match="timeout"):
                self.deliver_to(store)
            assert store.signals.of_run("r1") == []

    def test_a_signal_to_the_run_does_not_reach_its_waits(self, store: Store) -> None:
        run = self.hold(store)
        self.park_on(store, run, self.create_wait(store, run))

        assert self.send_signal(store, "w") == "kept"
        assert self.status(store) is Status.WAITING

    def test_insiders_need_no_token(self, store: Store) -> None:
        run = self.hold(store)
        self.park_on(store, run, self.create_wait(store, run))

        assert self.send_signal(store, "yes", wait_id="w1") == "satisfied"

    def test_insiders_are_told_that_a_run_has_no_such_wait(self, store: Store) -> None:
        self.start(store, "r2")
        self.create_wait(store, self.hold(store))

        for op in (
            SignalRun("r2", "a", b"1", wait_id="w1"),
            SignalRun("r1", "a", b"1", wait_id="none"),
        ):
            with pytest.raises(WaitNotFound):
                self.do(store, op)
        assert store.signals.of_run("r1") == store.signals.of_run("r2") == []

    # Permission

    @pytest.mark.parametrize(
        "token", ["", "nonsense", "k1.e30.AAAA", "k9.e30.AAAA", "a.b.c.d", "ä.ö.ü"]
    )
    def test_a_wrong_token_and_an_unknown_wait_look_the_same(
        self, store: Store, token: str
    ) -> None:
        self.create_wait(store, self.hold(store))

        refusals = []
        for wait_id in ("w1", "none"):
            with pytest.raises(TokenRefused) as refused:
                self.deliver_to(store, wait_id, token)
            refusals.append((type(refused.value), str(refused.value)))

        assert refusals[0] == refusals[1]
        assert store.signals.of_run("r1") == []

    def test_a_token_is_good_for_its_own_wait_and_purpose_only(self, store: Store) -> None:
        run = self.hold(store)
        self.create_wait(store, run)
        self.create_wait(store, run, "w2")

        for wrong in (self.wait_token(store, "w2"), self.wait_token(store, purpose="gate")):
            with pytest.raises(TokenRefused):
                self.deliver_to(store, token=wrong)

    def test_a_closed_wait_looks_unknown_to_a_caller_without_a_token(self, store: Store) -> None:
        run = self.hold(store)
        self.create_wait(store, run)
        self.advance(store, run, effects=[CloseWait("create w1", "its signals")])

        with pytest.raises(TokenRefused):
            self.deliver_to(store, token=self.wait_token(store, "w2"))
        with pytest.raises(WaitClosed):
            self.deliver_to(store)

    def test_an_old_key_is_good_until_its_grace_is_over(
        self, store: Store, clock: HandClock
    ) -> None:
        self.create_wait(store, self.hold(store))
        token = self.wait_token(store)
        self.do(store, RotateKey(OTHER, 10 * SECOND))

        clock.move(10 * SECOND)
        assert self.deliver_to(store, token=token).new
        clock.move(1)
        with pytest.raises(TokenRefused):
            self.deliver_to(store, token=token)
        assert len(store.signals.of_run("r1")) == 1

    def test_no_repr_shows_the_token(self, store: Store) -> None:
        self.create_wait(store, self.hold(store))
        token = self.wait_token(store)

        assert token.split(".")[2] not in repr(
            DeliverSignal(wait_id="w1", token=token, name=None, payload=b"1")
        )

    # Closed waits and limits

    def test_an_expired_wait_takes_no_more_signals(self, store: Store, clock: HandClock) -> None:
        self.create_wait(store, self.hold(store), until=clock.now() + SECOND)
        clock.move(SECOND - 1)
        self.deliver_to(store, key="k")

        clock.move(1)

        with pytest.raises(WaitExpired):
            self.deliver_to(store)
        assert self.deliver_to(store, key="k").new is False
        assert len(store.signals.of_run("r1")) == 1

    def test_a_run_that_has_ended_takes_no_more_signals(self, store: Store) -> None:
        run = self.hold(store)
        self.create_wait(store, run)
        self.deliver_to(store, key="k")
        self.finish(store, run)

        with pytest.raises(WaitClosed):
            self.deliver_to(store)
        assert self.deliver_to(store, key="k") == WaitDelivery(1, "kept", new=False)
        assert store.waits.find() == []

    def test_the_signals_of_a_run_are_limited(self, store: Store) -> None:
        self.create_wait(store, self.hold(store))
        for _ in range(2):
            self.send_signal(store, limit=3)
        self.deliver_to(store, limit=3, key="k")

        with pytest.raises(TooManySignals):
            self.deliver_to(store, limit=3)
        with pytest.raises(TooManySignals):
            self.send_signal(store, limit=3)
        assert self.deliver_to(store, limit=3, key="k").new is False
        assert [signal.number for signal in store.signals.of_run("r1")] == [1, 2, 3]

    def test_taken_signals_count_towards_the_limit(self, store: Store) -> None:
        run = self.hold(store)
        self.send_signal(store, limit=1)
        self.advance(store, run, effects=[TakeSignals([store.signals.of_run("r1")[0].id])])

        with pytest.raises(TooManySignals):
            self.send_signal(store, limit=1)

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
        assert (store.runs.notifications("s1", 0), self.get(store).revision) == ([], revision + 1)
        self.send_signal(store, "vote")

        assert [run_id for _, run_id in store.runs.notifications("s1", 0)] == ["r1"]

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
        assert list(store.runs.belongings("r1")) == ["wait"]

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

        (snapshot,) = store.runs.snapshots("", 10, 10**6)

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
