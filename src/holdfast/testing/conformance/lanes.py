"""Conformance of lanes: fair shares, drained lanes, and debounced starts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.payload import Payload
from holdfast.core.runs import Route
from holdfast.core.sessions import Lane
from holdfast.errors import LaneDraining, LaneInUse, LaneNotFound
from holdfast.store.database import Started
from holdfast.store.lanes.operations import RemoveLane, SetLane
from holdfast.store.runs.operations import DebounceStart, EndSession, RequestCancel, StartRuns
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import MINUTE, ROUTE, SECOND, HandClock, StoreFixture


class ShareConformance(StoreFixture):
    """Shares of a lane take turns, each within its own limits, and the places of an ended session
    become free."""

    def set_lane(self, store: Store, **settings: Any) -> None:
        self.do(store, SetLane(Lane(name="default", **settings)))

    def start_shares(self, store: Store, **shares: int) -> None:
        """Start the given number of runs for each share, one share after the other."""
        for share, count in shares.items():
            self.do(
                store,
                StartRuns([self.new(f"{share}{place}", share=share) for place in range(count)]),
            )

    def test_shares_take_turns_even_if_all_runs_of_one_share_came_first(self, store: Store) -> None:
        self.start_shares(store, a=4, b=2, c=1)

        assert self.claimed(store) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]

    def test_a_late_share_does_not_wait_for_the_backlog_of_another(
        self, store: Store, clock: HandClock
    ) -> None:
        self.start_shares(store, a=10)
        clock.move(MINUTE)
        assert self.claimed(store, limit=3) == ["a0", "a1", "a2"]

        self.start_shares(store, b=2)

        assert self.claimed(store, limit=4) == ["b0", "a3", "b1", "a4"]

    def test_a_share_that_weighs_more_gets_more(self, store: Store) -> None:
        self.set_lane(store, concurrency=100, weights=msgspec.json.encode({"a": 3}).decode())
        self.start_shares(store, a=6, b=6)

        first = self.claimed(store, limit=8)

        assert (sum(run.startswith("a") for run in first), len(first)) == (6, 8)

    def test_a_lane_whose_runs_have_not_ended_is_not_removed(self, store: Store) -> None:
        self.set_lane(store, concurrency=1)
        self.start_shares(store, a=5)

        with pytest.raises(LaneInUse) as refused:
            self.do(store, RemoveLane("default"))

        assert refused.value.facts["runs"] == "a0, a1, a2, ..."
        assert [lane.concurrency for lane in store.lanes.all()] == [1]

    def test_by_force_the_runs_of_a_removed_lane_have_no_limits(self, store: Store) -> None:
        self.set_lane(store, concurrency=1, rate_limit=1, rate_per=MINUTE)
        self.start_shares(store, a=3)
        assert self.claimed(store) == ["a0"]

        self.do(store, RemoveLane("default", force=True))

        assert store.lanes.all() == []
        assert self.claimed(store) == ["a1", "a2"]

    def test_a_removed_lane_keeps_nothing(self, store: Store) -> None:
        self.set_lane(store, concurrency=1, rate_limit=1, rate_per=MINUTE, paused=True)
        run = self.hold(store)
        self.set_lane(store, concurrency=1, rate_limit=1, rate_per=MINUTE)
        assert self.claimed(store) == ["r1"]
        self.finish(store, self.get(store))
        assert run.id == "r1"

        self.do(store, RemoveLane("default"))

        with pytest.raises(LaneNotFound):
            self.do(store, RemoveLane("default"))
        self.set_lane(store, concurrency=1, rate_limit=1, rate_per=MINUTE)
        self.start(store, "r2")
        assert self.claimed(store) == ["r2"]

    def test_an_idle_lane_forgets_past_turns_of_its_shares(self, store: Store) -> None:
        self.start_shares(store, a=100)
        self.claimed(store)

        for run_id, share in (("x", "a"), ("y", "a"), ("z", "b")):
            self.start(store, run_id, share=share)

        assert self.claimed(store) == ["x", "z", "y"]

    def test_no_more_runs_of_a_share_work_at_once_than_its_limit(self, store: Store) -> None:
        self.set_lane(store, per_share=2)
        self.start_shares(store, a=250, b=1)
        self.start(store, "nobody")

        claimed = self.claimed(store)
        assert sorted(claimed) == ["a0", "a1", "b0", "nobody"]
        assert self.claimed(store) == []
        self.finish(store, self.get(store, "a0"))

        assert self.claimed(store) == ["a2"]

    @pytest.mark.parametrize("crashed", [True, False])
    def test_the_places_of_a_worker_come_back_with_its_session(
        self, store: Store, crashed: bool
    ) -> None:
        self.set_lane(store, per_share=1, concurrency=2)
        self.start_shares(store, a=2, b=2)
        assert sorted(self.claimed(store)) == ["a0", "b0"]

        self.do(store, EndSession("s1", crashed=crashed))

        assert sorted(self.claimed(store, "s2")) in (
            ["a0", "b0"],
            ["a1", "b0"],
            ["a0", "b1"],
            ["a1", "b1"],
        )
        assert self.claimed(store, "s2") == []

    def test_a_share_begins_no_more_runs_per_time_than_its_rate(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_lane(store, share_rate_limit=2, share_rate_per=MINUTE)
        self.start_shares(store, a=4, b=1)

        assert sorted(self.claimed(store)) == ["a0", "a1", "b0"]
        assert self.claimed(store) == []
        assert (
            store.runs.next_wake()
            == store.lanes.share_free_at("default", "a")
            == store.now() + MINUTE
        )
        assert store.lanes.share_free_at("default", "b") <= store.now()
        clock.move(MINUTE)

        assert self.claimed(store) == ["a2", "a3"]

    def test_a_drained_lane_takes_only_children_of_existing_runs_and_members_of_graphs(
        self, store: Store
    ) -> None:
        parent = self.hold(store)
        self.set_lane(store, draining=True)

        for started in (
            [self.new("r2")],
            [self.new("r3"), self.new("r4")],
            [self.new("r5", session_id="s1")],
            [self.new("a::b")],  # an id alone makes no member
            [self.new("c::d"), self.new("e::f")],
        ):
            with pytest.raises(LaneDraining):
                self.do(store, StartRuns(started))
        self.start(store, "elsewhere", route=Route("default", "greet", "1", "other"))
        self.start(store, "r1")
        self.do(store, StartRuns([self.child_of(parent, "r6"), self.child_of(parent, "r7")]))
        self.start(store, "g::a", graph_id="g")
        assert sorted(self.claimed(store)) == ["elsewhere", "g::a", "r6", "r7"]
        self.set_lane(store)

        assert self.start(store, "r8").created is True


class DebounceConformance(StoreFixture):
    """Debounced starts with one key are merged into one run until that run begins."""

    def debounce_start(self, store: Store, run_id: str, data: bytes, **options: Any) -> Started:
        options = {"quiet": 5 * SECOND, "longest": MINUTE, **options}
        started: Started = self.do(
            store, DebounceStart(run=self.new(run_id, input=data), key="k", **options)
        )[0]
        return started

    def test_the_last_debounced_input_wins_and_the_run_begins_after_the_quiet_period(
        self, store: Store, clock: HandClock
    ) -> None:
        assert self.debounce_start(store, "r1", b"[1]").created is True
        for place in range(3):
            clock.move(4 * SECOND)
            assert (
                self.debounce_start(store, f"x{place}", b"[%d]" % place).id,
                self.claimed(store),
            ) == (
                "r1",
                [],
            )
        clock.move(5 * SECOND)

        (run,) = self.claim(store)

        assert (run.id, run.input) == ("r1", b"[2]")
        assert self.debounce_start(store, "r2", b"[9]").id == "r2"

    def test_a_debounced_run_begins_after_the_longest_delay_at_the_latest(
        self, store: Store, clock: HandClock
    ) -> None:
        self.debounce_start(store, "r1", b"[1]", longest=12 * SECOND)
        for _ in range(3):
            clock.move(4 * SECOND)
            self.debounce_start(store, "x", b"[2]", longest=12 * SECOND)

        assert self.claimed(store) == ["r1"]

    def test_starts_are_merged_and_begin_when_there_are_enough_or_it_is_time(
        self, store: Store, clock: HandClock
    ) -> None:
        def adding(run_id: str, old: bytes, fetch: object) -> tuple[bytes, list[Payload]]:
            return old + b"x", []

        options = {"quiet": MINUTE, "longest": MINUTE, "size": 3, "merge": adding}
        assert [
            self.debounce_start(store, f"r{place}", b"x", **options).id for place in range(4)
        ] == [
            "r0",
            "r0",
            "r0",
            "r3",
        ]

        (run,) = self.claim(store)
        assert (run.id, run.input) == ("r0", b"xxx")
        clock.move(MINUTE)
        assert self.claimed(store) == ["r3"]

    def test_a_cancelled_run_takes_no_more_debounced_starts(self, store: Store) -> None:
        self.debounce_start(store, "r1", b"[1]")
        self.do(store, RequestCancel("r1", "enough"))

        assert self.debounce_start(store, "r2", b"[2]").id == "r2"

    def test_a_debounce_key_belongs_to_its_workflow(self, store: Store) -> None:
        self.debounce_start(store, "r1", b"[1]")
        other = msgspec.structs.replace(ROUTE, workflow="other")

        op = DebounceStart(run=self.new("r2", route=other), key="k", quiet=SECOND, longest=SECOND)

        assert self.do(store, op)[0].id == "r2"
