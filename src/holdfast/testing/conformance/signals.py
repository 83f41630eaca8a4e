"""Conformance of requests from outside a run: signals, cancels, deadlines."""

from __future__ import annotations

import pytest

from holdfast.core.events import EventKind
from holdfast.core.runs import CancelCause
from holdfast.core.status import Status
from holdfast.errors import LeaseLost, RunFinished, RunNotFound
from holdfast.store.database import Hints
from holdfast.store.runs.operations import ExpireRuns, RequestCancel, StartChildren
from holdfast.store.signals.operations import SignalRun, TakeSignals, WaitDelivery
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import MINUTE, STUCK, WAITS, HandClock, StoreFixture


class SignalConformance(StoreFixture):
    """A signal may arrive at any time, and a run that waits for it never misses it."""

    def signal(
        self, store: Store, name: str = "paid", run_id: str = "r1", key: str | None = None
    ) -> bool:
        answer: WaitDelivery = self.do(store, SignalRun(run_id, name, b'"%s"' % name.encode(), key))
        return answer.new

    def test_a_signal_wakes_a_run_that_waits_for_it(self, store: Store) -> None:
        self.parked(store)
        store.hints()

        assert self.signal(store) is True

        run = self.get(store)
        assert (run.status, run.revision, run.waits) == (Status.PENDING, 1, None)
        assert store.hints().ready
        assert self.claimed(store) == ["r1"]

    def test_a_signal_wakes_no_run_that_waits_for_another(self, store: Store) -> None:
        self.parked(store)

        self.signal(store, "shipped")

        assert (self.status(store), self.get(store).revision, self.get(store).waits) == (
            Status.WAITING,
            1,
            WAITS,
        )
        assert [signal.name for signal in store.signals.of_run("r1")] == ["shipped"]

    def test_a_signal_ends_the_timer_of_what_it_wakes(self, store: Store, clock: HandClock) -> None:
        self.park(store, self.hold(store), wake_at=clock.now() + MINUTE)

        self.signal(store)

        assert (self.get(store).wake_at, store.runs.next_wake()) == (None, None)

    def test_a_signal_that_comes_when_the_time_of_a_wait_is_up_is_kept(
        self, store: Store, clock: HandClock
    ) -> None:
        until = clock.now() + MINUTE
        waits = b'[{"kind":"signal","step":"w","name":"paid","until":%d}]' % until
        self.park(store, self.hold(store), waits=waits, wake_at=until)
        clock.move(MINUTE)
        in_time: WaitDelivery = self.do(store, SignalRun("r1", "paid", b"1"))
        self.park(store, self.hold(store, "r2"), waits=waits, wake_at=until)
        clock.move(1)
        late: WaitDelivery = self.do(store, SignalRun("r2", "paid", b"1"))

        assert (in_time.effect, late.effect) == ("satisfied", "kept")
        assert [signal.name for signal in store.signals.of_run("r2")] == ["paid"]

    def test_a_second_signal_does_not_send_a_run_to_the_end_of_the_queue(
        self, store: Store, clock: HandClock
    ) -> None:
        self.parked(store)
        self.signal(store)
        clock.move(1)
        self.start(store, "r2")
        self.signal(store)

        assert self.claimed(store) == ["r1", "r2"]

    def test_a_signal_may_come_before_its_wait(self, store: Store) -> None:
        self.start(store)

        self.signal(store)

        assert (self.status(store), self.get(store).revision) == (Status.PENDING, 1)
        assert [signal.name for signal in store.signals.of_run("r1")] == ["paid"]

    def test_a_signal_does_not_start_a_delayed_run_early(
        self, store: Store, clock: HandClock
    ) -> None:
        self.start(store, available_at=clock.now() + MINUTE)

        self.signal(store)

        assert self.claimed(store) == []

    def test_a_signal_notifies_the_holder_of_a_run(self, store: Store) -> None:
        self.hold(store)
        store.hints()

        self.signal(store)

        assert (self.status(store), self.get(store).revision) == (Status.RUNNING, 1)
        assert [run_id for _, run_id in store.sessions.notifications("s1", 0)] == ["r1"]
        assert store.hints() == Hints(runs={"r1"})

    def test_a_signal_with_the_same_key_comes_once(self, store: Store) -> None:
        self.start(store)

        answers = [
            self.signal(store, key="k"),
            self.signal(store, "other", key="k"),
            self.signal(store, key="l"),
        ]

        assert answers == [True, False, True]
        assert [signal.name for signal in store.signals.of_run("r1")] == ["paid", "paid"]
        assert self.get(store).revision == 2

    def test_a_key_belongs_to_its_run(self, store: Store) -> None:
        for run_id in ("r1", "r2"):
            self.start(store, run_id)
            assert self.signal(store, run_id=run_id, key="k") is True

    def test_signals_are_listed_oldest_first_until_they_are_taken(
        self, store: Store, clock: HandClock
    ) -> None:
        run = self.hold(store)
        for name in ("c", "a", "b"):
            self.signal(store, name)
        first = store.signals.of_run("r1")[0]
        assert (first.name, first.payload, first.at) == ("c", b'"c"', clock.now())

        self.advance(store, run, effects=[TakeSignals([first.id])])

        assert [signal.name for signal in store.signals.of_run("r1")] == ["a", "b"]

    def test_a_taken_signal_keeps_its_key(self, store: Store) -> None:
        run = self.hold(store)
        self.signal(store, key="k")
        self.advance(store, run, effects=[TakeSignals([store.signals.of_run("r1")[0].id])])

        assert self.signal(store, key="k") is False

    def test_a_signal_to_a_finished_run_is_refused(self, store: Store) -> None:
        run = self.hold(store)
        self.signal(store, key="k")
        self.finish(store, run)

        with pytest.raises(RunFinished):
            self.signal(store)
        with pytest.raises(RunFinished):
            self.signal(store, key="l")

        assert self.signal(store, key="k") is False
        assert len(store.signals.of_run("r1")) == 1

    def test_a_signal_to_an_unknown_run_is_refused(self, store: Store) -> None:
        with pytest.raises(RunNotFound):
            self.signal(store)

    def test_a_signal_wakes_a_run_that_waits_during_compensation(self, store: Store) -> None:
        self.hold(store)
        self.do(store, RequestCancel("r1", "enough"))
        self.park(store, self.get(store), status=Status.CANCELLING)
        assert self.claimed(store) == []

        self.signal(store)

        assert self.status(store) is Status.CANCELLING
        assert self.claimed(store) == ["r1"]

    def test_a_signal_to_a_stuck_run_is_kept_for_later(self, store: Store) -> None:
        self.stuck(store)

        assert self.signal(store) is True
        assert (self.status(store), len(store.signals.of_run("r1"))) == (Status.STUCK, 1)

    def test_notifications_have_growing_numbers_and_go_to_the_holder_only(
        self, store: Store
    ) -> None:
        self.hold(store, "r1", "s1")
        self.hold(store, "r2", "s2")
        for run_id in ("r1", "r2", "r1"):
            self.signal(store, run_id=run_id)

        notifications = store.sessions.notifications("s1", 0)
        assert [run_id for _, run_id in notifications] == ["r1", "r1"]
        assert notifications[0][0] < notifications[1][0]
        assert store.sessions.notifications("s1", notifications[0][0]) == notifications[1:]
        assert [run_id for _, run_id in store.sessions.notifications("s2", 0)] == ["r2"]


class CancelConformance(StoreFixture):
    """A run can be cancelled in every state that is not final."""

    def cancel(
        self, store: Store, run_id: str = "r1", reason: str = "enough", *, force: bool = False
    ) -> Status:
        answer: Status = self.do(store, RequestCancel(run_id, reason, force))
        return answer

    def test_a_run_that_never_started_is_cancelled_at_once(
        self, store: Store, clock: HandClock
    ) -> None:
        self.start(store, available_at=clock.now() + MINUTE)
        store.hints()

        assert self.cancel(store) is Status.CANCELLED

        run = self.get(store)
        assert (run.status, run.cancel_reason, run.finished_at) == (
            Status.CANCELLED,
            "enough",
            clock.now(),
        )
        assert (self.kinds(store), store.hints().finished) == ([EventKind.RUN_CANCELLED], {"r1"})
        assert store.runs.next_wake() is None

    @pytest.mark.parametrize("reason", ["enough", "deadline"])
    def test_the_reason_of_a_request_does_not_decide_how_a_run_ends(
        self, store: Store, reason: str
    ) -> None:
        self.start(store)
        self.hold(store, "r2")

        assert self.cancel(store, reason=reason) is Status.CANCELLED
        assert self.cancel(store, "r2", reason) is Status.CANCELLING
        assert self.cancel(store, "r2", reason, force=True) is Status.CANCELLED

        runs = [self.get(store), self.get(store, "r2")]
        assert [(run.cancel_reason, run.cancel_cause) for run in runs] == [
            (reason, CancelCause.REQUEST)
        ] * 2

    def test_a_cancelled_parked_run_is_woken_to_run_its_compensations(self, store: Store) -> None:
        self.parked(store)
        store.hints()

        assert self.cancel(store) is Status.CANCELLING

        assert (self.get(store).cancel_reason, self.get(store).waits) == ("enough", None)
        assert store.hints().ready
        (run,) = self.claim(store)
        assert (run.status, run.cancel_reason) == (Status.CANCELLING, "enough")

    def test_the_holder_of_a_cancelled_run_is_notified(self, store: Store) -> None:
        run = self.hold(store)
        self.park(store, run, keep=True)

        assert self.cancel(store) is Status.CANCELLING

        run = self.get(store)
        assert (run.session_id, run.generation, run.revision, run.waits) == ("s1", 1, 1, WAITS)
        assert [run_id for _, run_id in store.sessions.notifications("s1", 0)] == ["r1"]

    def test_the_holder_ends_what_was_cancelled(self, store: Store) -> None:
        run = self.hold(store)
        self.cancel(store)

        self.finish(store, run, Status.CANCELLED)

        assert self.status(store) is Status.CANCELLED

    def test_a_run_that_completes_before_it_sees_the_cancel_has_completed(
        self, store: Store
    ) -> None:
        run = self.hold(store)
        self.cancel(store)

        self.finish(store, run)

        assert (self.status(store), self.get(store).cancel_reason) == (Status.COMPLETED, "enough")

    def test_a_second_cancel_changes_nothing_and_the_first_reason_stands(
        self, store: Store
    ) -> None:
        self.hold(store)
        self.cancel(store)
        self.park(store, self.get(store), status=Status.CANCELLING)
        before = self.get(store)

        assert self.cancel(store, reason="really") is Status.CANCELLING

        assert self.get(store) == before

    def test_force_ends_a_run_at_once_and_its_holder_holds_nothing(self, store: Store) -> None:
        run = self.hold(store)

        assert self.cancel(store, force=True) is Status.CANCELLED

        assert (self.status(store), self.kinds(store)) == (
            Status.CANCELLED,
            [EventKind.RUN_CANCELLED],
        )
        assert [run_id for _, run_id in store.sessions.notifications("s1", 0)] == ["r1"]
        with pytest.raises(LeaseLost):
            self.advance(store, run)

    def test_force_ends_a_run_whatever_it_does(self, store: Store) -> None:
        self.parked(store, "waiting")
        self.stuck(store, "stuck")
        self.hold(store, "cancelling")
        self.cancel(store, "cancelling")

        assert {
            self.cancel(store, run_id, force=True) for run_id in ("waiting", "stuck", "cancelling")
        } == {Status.CANCELLED}

    def test_a_stuck_run_can_be_cancelled(self, store: Store) -> None:
        self.stuck(store)

        assert self.cancel(store) is Status.CANCELLING
        assert self.claimed(store) == ["r1"]

    def test_a_finished_or_unknown_run_is_not_cancelled(self, store: Store) -> None:
        self.finish(store, self.hold(store))

        with pytest.raises(RunFinished):
            self.cancel(store)
        with pytest.raises(RunNotFound):
            self.cancel(store, "none")

    def test_children_are_cancelled_with_their_parent_but_those_that_may_outlive_it(
        self, store: Store
    ) -> None:
        parent = self.hold(store)
        young = self.child_of(parent, "young")
        old = self.child_of(parent, "old", session_id="s1")
        self.advance(
            store,
            parent,
            effects=[
                StartChildren([young, old, self.child_of(parent, "kept", on_parent_end="leave")])
            ],
        )
        grown = self.get(store, "old")
        self.advance(store, grown, effects=[StartChildren([self.child_of(grown, "grandchild")])])

        self.cancel(store)

        statuses = {
            run_id: self.status(store, run_id)
            for run_id in ("r1", "young", "old", "grandchild", "kept")
        }
        assert statuses == {
            "r1": Status.CANCELLING,
            "young": Status.CANCELLED,
            "old": Status.CANCELLING,
            "grandchild": Status.CANCELLED,
            "kept": Status.PENDING,
        }

    def test_force_is_for_the_run_and_not_for_its_children(self, store: Store) -> None:
        parent = self.hold(store)
        self.advance(
            store, parent, effects=[StartChildren([self.child_of(parent, "c1", session_id="s1")])]
        )

        self.cancel(store, force=True)

        assert (self.status(store), self.status(store, "c1")) == (
            Status.CANCELLED,
            Status.CANCELLING,
        )

    def test_a_tree_of_any_depth_is_cancelled(self, store: Store) -> None:
        parent = self.hold(store, "d0")
        for depth in range(1, 400):
            self.advance(
                store,
                parent,
                effects=[StartChildren([self.child_of(parent, f"d{depth}", session_id="s1")])],
            )
            parent = self.get(store, f"d{depth}")

        self.cancel(store, "d0")

        assert store.runs.counts() == {"cancelling": 400}


class DeadlineConformance(StoreFixture):
    """A run past its deadline expires or is asked to stop."""

    def test_a_run_that_never_started_expires_at_once(self, store: Store, clock: HandClock) -> None:
        self.start(store, deadline=clock.now() + MINUTE)
        assert store.runs.next_wake() == clock.now() + MINUTE
        assert self.do(store, ExpireRuns()) == 0

        clock.move(MINUTE)
        assert self.do(store, ExpireRuns()) == 1

        assert (self.status(store), self.get(store).cancel_reason) == (Status.EXPIRED, "deadline")
        assert (self.kinds(store), store.hints().finished) == ([EventKind.RUN_EXPIRED], {"r1"})

    def test_a_run_that_has_started_is_asked_to_stop(self, store: Store, clock: HandClock) -> None:
        self.parked(store, deadline=clock.now() + MINUTE)
        clock.move(MINUTE)

        assert self.do(store, ExpireRuns()) == 1

        assert (self.status(store), self.get(store).cancel_reason) == (
            Status.CANCELLING,
            "deadline",
        )
        update = store.runs.update("r1")
        assert update is not None
        assert update.cancelled_at == self.get(store).deadline
        assert self.claimed(store) == ["r1"]

    def test_an_expired_run_is_asked_to_stop_once_even_if_it_waits_during_compensation(
        self, store: Store, clock: HandClock
    ) -> None:
        self.parked(store, deadline=clock.now() + MINUTE)
        clock.move(MINUTE)
        self.do(store, ExpireRuns())
        (run,) = self.claim(store)
        assert store.runs.next_wake() is None
        self.park(store, run, status=Status.CANCELLING)

        assert (self.do(store, ExpireRuns()), store.runs.next_wake(), self.claimed(store)) == (
            0,
            None,
            [],
        )

    def test_the_deadline_of_a_held_run_is_left_to_its_holder(
        self, store: Store, clock: HandClock
    ) -> None:
        self.hold(store, deadline=clock.now() + MINUTE)
        clock.move(MINUTE)

        assert (self.do(store, ExpireRuns()), store.runs.next_wake()) == (0, None)
        assert self.status(store) is Status.RUNNING

    def test_a_stuck_run_expires(self, store: Store, clock: HandClock) -> None:
        run = self.hold(store, deadline=clock.now() + MINUTE)
        self.advance(store, run, status=Status.STUCK, error=STUCK, release=True)
        clock.move(MINUTE)

        self.do(store, ExpireRuns())

        assert self.status(store) is Status.EXPIRED

    def test_children_expire_with_their_parent(self, store: Store, clock: HandClock) -> None:
        run = self.hold(store, deadline=clock.now() + MINUTE)
        self.advance(store, run, effects=[StartChildren([self.child_of(run, "c1")])])
        self.park(store, run)
        clock.move(MINUTE)

        self.do(store, ExpireRuns())

        assert self.status(store, "c1") is Status.EXPIRED

    def test_one_operation_expires_a_limited_number_of_runs(
        self, store: Store, clock: HandClock
    ) -> None:
        for number in range(5):
            self.start(store, f"r{number}", deadline=clock.now() + 1)
        clock.move(1)

        assert [self.do(store, ExpireRuns(limit=3)) for _ in range(3)] == [3, 2, 0]
