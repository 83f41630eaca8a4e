"""Conformance of claims: which session claims which run, and the limits of lanes."""

from __future__ import annotations

from typing import Any

from holdfast.core.claiming import PRIORITY_STEP
from holdfast.core.runs import Route
from holdfast.core.sessions import Lane
from holdfast.core.status import Status
from holdfast.store.lanes.operations import SetLane
from holdfast.store.runs.operations import Claim, EndSession, StartRuns
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import MINUTE, SECOND, HandClock, OpenStore, StoreFixture


class ClaimConformance(StoreFixture):
    """A claim leases the first ready runs by priority and age, and no run to two sessions."""

    def test_a_claimed_run_is_leased_to_the_session(self, store: Store, clock: HandClock) -> None:
        self.start(store)

        (run,) = self.claim(store)

        assert run == self.get(store)
        assert (run.status, run.session_id, run.generation, run.started_at) == (
            Status.RUNNING,
            "s1",
            1,
            clock.now(),
        )

    def test_a_run_is_claimed_once(self, store: Store) -> None:
        for number in range(4):
            self.start(store, f"r{number}")

        assert self.claimed(store, "s1", limit=3) == ["r0", "r1", "r2"]
        assert self.claimed(store, "s2") == ["r3"]
        assert self.claimed(store, "s1") == []

    def test_the_oldest_goes_first(self, store: Store, clock: HandClock) -> None:
        for run_id in ("r3", "r1", "r2"):
            self.start(store, run_id)
            clock.move(1)

        assert self.claimed(store) == ["r3", "r1", "r2"]

    def test_a_higher_priority_goes_first(self, store: Store, clock: HandClock) -> None:
        for run_id, priority in (("low", -1), ("normal", 0), ("high", 1)):
            self.start(store, run_id, priority=priority)
            clock.move(1)

        assert self.claimed(store) == ["high", "normal", "low"]

    def test_an_old_run_of_low_priority_does_not_starve(
        self, store: Store, clock: HandClock
    ) -> None:
        self.start(store, "old", priority=0)
        clock.move(2 * PRIORITY_STEP + 1)
        self.start(store, "new", priority=2)

        assert self.claimed(store) == ["old", "new"]

    def test_only_runs_of_the_requested_routes_are_claimed(self, store: Store) -> None:
        other = Route("default", "order", "1", "default")
        self.start(store, "r1")
        self.start(store, "r2", route=other)

        assert [run.id for run in self.claim(store, routes=[other])] == ["r2"]
        assert self.claim(store, routes=[]) == []
        assert self.status(store) is Status.PENDING

    def test_the_best_of_all_routes_come_first(self, store: Store, clock: HandClock) -> None:
        for number in range(6):
            self.start(
                store, f"r{number}", route=Route("default", f"w{number % 2}", "1", "default")
            )
            clock.move(1)

        assert self.claimed(store, limit=4) == ["r0", "r1", "r2", "r3"]

    def test_a_session_that_was_ended_claims_nothing(self, store: Store) -> None:
        self.start(store)
        self.open(store)
        self.do(store, EndSession("s1", crashed=True))

        claimed = self.do(
            store, Claim("s1", [(number, "default") for number in store.runs.routes()], 10)
        )

        assert claimed == []
        assert self.status(store) is Status.PENDING

    def test_the_generation_grows_with_every_claim(self, store: Store) -> None:
        self.start(store)
        generations = []
        for number in range(3):
            (run,) = self.claim(store, f"s{number}")
            generations.append(run.generation)
            self.do(store, EndSession(f"s{number}", crashed=False))

        assert generations == sorted(set(generations))

    def test_the_first_claim_is_when_a_run_started(self, store: Store, clock: HandClock) -> None:
        self.start(store)
        (run,) = self.claim(store)
        self.do(store, EndSession("s1", crashed=False))
        clock.move(MINUTE)

        assert self.claim(store, "s2")[0].started_at == run.started_at

    def test_a_due_timer_makes_a_parked_run_claimable(self, store: Store, clock: HandClock) -> None:
        self.park(store, self.hold(store), wake_at=clock.now() + MINUTE)
        assert store.runs.next_wake() == clock.now() + MINUTE
        assert self.claimed(store) == []

        clock.move(MINUTE)

        assert self.claimed(store) == ["r1"]
        assert self.get(store).waits is None
        assert store.runs.next_wake() is None

    def test_a_timer_counts_from_when_it_was_due(self, store: Store, clock: HandClock) -> None:
        self.park(store, self.hold(store), wake_at=clock.now() + MINUTE)
        clock.move(2 * MINUTE)
        self.start(store, "r2")

        assert self.claimed(store) == ["r1", "r2"]

    def test_a_due_timer_of_a_held_run_is_left_to_its_holder(
        self, store: Store, clock: HandClock
    ) -> None:
        self.park(store, self.hold(store), keep=True, wake_at=clock.now() + MINUTE)
        clock.move(MINUTE)

        assert store.runs.next_wake() is None
        assert self.claimed(store, "s2") == []
        assert self.status(store) is Status.WAITING


class LaneLimitConformance(StoreFixture):
    """A lane admits no more runs than its limits allow."""

    def set_limits(self, store: Store, **limits: Any) -> None:
        self.do(store, SetLane(Lane(name="default", **limits)))

    def start_many(self, store: Store, count: int) -> None:
        self.do(store, StartRuns([self.new(f"r{number:03}") for number in range(count)]))

    def test_a_lane_admits_as_many_as_it_may_hold(self, store: Store) -> None:
        self.set_limits(store, concurrency=2)
        self.start_many(store, 4)

        first = self.claim(store, "s1")
        assert [run.id for run in first] == ["r000", "r001"]
        assert self.claimed(store, "s2") == []

        self.finish(store, first[0])
        assert self.claimed(store, "s2") == ["r002"]

    def test_a_held_run_that_waits_takes_no_place(self, store: Store) -> None:
        self.set_limits(store, concurrency=1)
        self.start_many(store, 2)
        (run,) = self.claim(store)

        self.park(store, run, keep=True)

        assert self.claimed(store) == ["r001"]

    def test_a_paused_lane_admits_none_until_it_goes_on(self, store: Store) -> None:
        self.set_limits(store, paused=True)
        self.start_many(store, 1)
        assert self.claimed(store) == []

        store.hints()
        self.set_limits(store, paused=False)
        assert store.hints().ready
        assert self.claimed(store) == ["r000"]

    def test_a_full_lane_keeps_no_other_lane_waiting(self, store: Store, clock: HandClock) -> None:
        self.set_limits(store, concurrency=1)
        self.start_many(store, 3)
        clock.move(1)
        self.start(store, "z", route=Route("default", "greet", "1", "fast"))

        assert self.claimed(store, limit=2) == ["r000", "z"]

    def test_no_window_wherever_it_begins_holds_more_than_the_rate(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_limits(store, rate_limit=5, rate_per=SECOND)
        self.start_many(store, 100)
        went: list[int] = []
        for pause, wanted in [
            (0, 2),
            (300, 2),
            (1, 9),
            (698, 9),
            (1, 9),
            (0, 9),
            (299, 1),
            (2000, 3),
            (999, 9),
            (1, 9),
            (999, 9),
        ]:
            clock.move(pause * 1000)
            went += [clock.now()] * len(self.claim(store, limit=wanted))

        assert all(late - early >= SECOND for early, late in zip(went, went[5:], strict=False))
        assert len(went) == 2 + 2 + 1 + 0 + 2 + 0 + 0 + 3 + 2 + 3 + 2

    def test_a_run_that_comes_back_within_the_window_is_not_counted_again(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_limits(store, rate_limit=2, rate_per=MINUTE)
        self.start_many(store, 3)
        assert self.claimed(store) == ["r000", "r001"]
        clock.move(SECOND)
        self.do(store, EndSession("s1", crashed=True))

        assert self.claimed(store, "s2") == ["r000", "r001"]
        clock.move(MINUTE)
        self.do(store, EndSession("s2", crashed=False))

        assert len(self.claimed(store, "s3")) == 2
        assert self.claimed(store, "s3") == []

    def test_a_process_whose_clock_is_behind_lets_nothing_more_begin(
        self, store: Store, reopen: OpenStore, clock: HandClock
    ) -> None:
        behind = HandClock()
        other = reopen(behind)
        self.set_limits(store, rate_limit=2, rate_per=SECOND)
        self.start_many(store, 9)
        clock.move(SECOND // 2)
        assert len(self.claim(store, limit=1)) == 1

        assert [len(self.claim(other, "s2")), len(self.claim(other, "s2"))] == [1, 0]
        behind.move(SECOND)

        assert len(self.claim(other, "s2")) == 0
        assert other.runs.next_wake() == behind.now() + SECOND // 2

    def test_a_lower_rate_counts_what_began_before_it(self, store: Store, clock: HandClock) -> None:
        self.set_limits(store, rate_limit=4, rate_per=SECOND)
        self.start_many(store, 9)
        for _ in range(4):
            assert len(self.claim(store, limit=1)) == 1
            clock.move(1000)

        self.set_limits(store, rate_limit=2, rate_per=SECOND)

        assert store.runs.next_wake() == clock.now() + SECOND - 2000
        clock.move(SECOND - 2000)
        assert [len(self.claim(store)), len(self.claim(store))] == [1, 0]

    def test_the_next_wake_is_when_the_rate_admits_the_next_run(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_limits(store, rate_limit=2, rate_per=SECOND)
        self.start_many(store, 3)
        assert store.runs.next_wake() is None

        assert len(self.claim(store)) == 2
        assert store.runs.next_wake() == clock.now() + SECOND

        clock.move(SECOND)
        assert (store.runs.next_wake(), len(self.claim(store)), store.runs.next_wake()) == (
            None,
            1,
            None,
        )

    def test_only_claimed_runs_count_towards_the_rate(self, store: Store) -> None:
        self.set_limits(store, rate_limit=4, rate_per=SECOND, concurrency=2)
        self.start_many(store, 9)

        first = self.claim(store)
        for run in first:
            self.finish(store, run)

        assert (len(first), len(self.claim(store))) == (2, 2)

    def test_a_raised_rate_applies_to_runs_that_began_before_it(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_limits(store, rate_limit=1, rate_per=60 * MINUTE)
        self.start_many(store, 3)
        assert len(self.claim(store)) == 1

        self.set_limits(store, rate_limit=1, rate_per=SECOND)
        clock.move(SECOND)

        assert len(self.claim(store)) == 1

    def test_the_settings_of_lanes_are_kept(self, store: Store) -> None:
        self.set_limits(store, concurrency=3)
        self.set_limits(store, rate_limit=2, rate_per=SECOND)

        assert store.lanes.all() == [Lane(name="default", rate_limit=2, rate_per=SECOND)]
