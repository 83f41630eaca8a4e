"""Conformance of waits: created with tokens, met by signals, closed once."""

from __future__ import annotations

import pytest

from holdfast.core.conditions import model as condition_model
from holdfast.core.status import Status
from holdfast.errors import (
    TokenRefused,
    TooManySignals,
    WaitClosed,
    WaitExpired,
    WaitNotFound,
)
from holdfast.store.keys.operations import RotateKey
from holdfast.store.signals.operations import SignalRun, TakeSignals, WaitDelivery
from holdfast.store.store import Store
from holdfast.store.waits.operations import CloseWait, DeliverSignal, ReleaseWait
from holdfast.testing.conformance.fixture import SECOND, HandClock
from holdfast.testing.conformance.wait_fixture import OTHER, WaitFixture


class WaitConformance(WaitFixture):
    """A caller with a valid token can signal a wait; without one it cannot even learn that the wait
    exists."""

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
