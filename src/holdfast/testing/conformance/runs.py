"""Runs, sessions, lanes: the kernel."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.claims import PRIORITY_STEP
from holdfast.core.records import Dossier, Event, Fanout, Kind, Lane, Limits, NewRun, Route, Run, Signal, Wait
from holdfast.core.status import Status
from holdfast.errors import (
    HoldfastError,
    IllegalMove,
    LeaseLost,
    RunExists,
    RunFinished,
    RunNotFinished,
    RunNotFound,
    StoreNotEmpty,
)
from holdfast.store import contract as c
from holdfast.store import queries
from holdfast.testing.conformance import schedules
from holdfast.testing.conformance.bench import MINUTE, MORNING, ROUTE, SECOND, STUCK, WAITS, Bench, HandClock, OpenStore
from holdfast.testing.conformance.budgets import BROKEN as BROKEN_BUDGETS


class Starting(Bench):
    """Runs are created once."""

    def test_a_started_run_is_as_it_was_ordered(self, store: c.Store, clock: HandClock) -> None:
        route = Route("shop", "order", "7", "slow", ("gpu", "net"))
        tags = {"customer": "ann", "city": "Ulm"}

        started = self.start(store, route=route, input=b'{"n":2}', priority=3, key="k", tags=tags, deadline=clock.now() + MINUTE)

        run = self.get(store)
        assert started == c.Started(id="r1", created=True, leased=False, now=clock.now())
        assert (run.namespace, run.workflow, run.version, run.lane, run.capabilities) == msgspec.structs.astuple(route)
        assert (run.status, run.generation, run.revision, run.crashes) == (Status.PENDING, 0, 0, 0)
        assert (run.input, run.priority, run.key, run.deadline) == (b'{"n":2}', 3, "k", clock.now() + MINUTE)
        assert (run.created_at, run.started_at, run.finished_at, run.session_id) == (clock.now(), None, None, None)
        assert store.tags("r1") == tags

    def test_the_same_id_with_the_same_input_is_the_same_run(self, store: c.Store) -> None:
        self.start(store)
        again = self.start(store)

        assert (again.id, again.created, again.leased) == ("r1", False, False)
        assert store.counts() == {"pending": 1}

    def test_the_same_id_with_other_input_is_refused_and_changes_nothing(self, store: c.Store) -> None:
        self.start(store)
        before = self.get(store)

        with pytest.raises(RunExists):
            self.start(store, input=b"[2]", tags={"a": "b"})

        assert self.get(store) == before
        assert store.tags("r1") == {}

    def test_the_same_id_for_another_workflow_is_refused_and_leaves_no_route(self, store: c.Store) -> None:
        self.start(store)

        with pytest.raises(RunExists):
            self.start(store, route=Route("default", "other", "1", "default"))

        assert list(store.routes().values()) == [ROUTE]

    def test_the_same_id_for_another_version_is_the_same_run(self, store: c.Store) -> None:
        self.start(store)

        assert not self.start(store, route=Route("default", "greet", "2", "default")).created
        assert self.get(store).version == "1"

    def test_the_same_key_with_the_same_input_is_the_same_run_whatever_its_id(self, store: c.Store) -> None:
        self.start(store, key="k")
        again = self.start(store, "r2", key="k")

        assert (again.id, again.created) == ("r1", False)
        assert store.run("r2") is None

    def test_the_same_key_with_other_input_is_refused(self, store: c.Store) -> None:
        self.start(store, key="k")

        with pytest.raises(RunExists) as refused:
            self.start(store, "r2", key="k", input=b"[2]")

        assert refused.value.facts == {"run": "r1", "key": "k"}
        assert store.run("r2") is None

    def test_a_key_belongs_to_its_namespace_and_workflow(self, store: c.Store) -> None:
        routes = [ROUTE, Route("other", "greet", "1", "default"), Route("default", "order", "1", "default")]
        for number, route in enumerate(routes):
            assert self.start(store, f"r{number}", key="k", route=route, input=b"[%d]" % number).created

        assert [self.get(store, f"r{number}").key for number in range(3)] == ["k", "k", "k"]

    def test_a_key_is_kept_by_a_run_that_has_ended(self, store: c.Store) -> None:
        self.finish(store, self.hold(store, key="k"))

        assert self.start(store, "r2", key="k").id == "r1"

    def test_a_refusal_in_the_middle_of_many_leaves_none_of_them(self, store: c.Store) -> None:
        self.start(store, "r2")
        store.hints()
        new_route = Route("default", "greet", "2", "default")
        many = [self.new("r1", tags={"a": "b"}, route=new_route), self.new("r2", input=b"[2]"), self.new("r3")]

        with pytest.raises(RunExists):
            self.do(store, c.StartRuns(many))

        assert store.counts() == {"pending": 1}
        assert store.tags("r1") == {}
        assert list(store.routes().values()) == [ROUTE]
        assert not store.hints().ready

    def test_a_route_that_came_with_a_refused_start_can_be_used_later(self, store: c.Store) -> None:
        self.start(store, "r2")
        routes = [Route("default", "greet", version, "default") for version in ("2", "3")]
        with pytest.raises(RunExists):
            self.do(store, c.StartRuns([self.new("r1", route=routes[0]), self.new("r2", input=b"[2]")]))

        self.start(store, "r3", route=routes[1])
        self.start(store, "r4", route=routes[0])

        assert (self.get(store, "r3").version, self.get(store, "r4").version) == ("3", "2")

    def test_of_many_those_that_exist_are_recognised_and_the_others_are_new(self, store: c.Store) -> None:
        self.open(store)
        self.start(store, "r2")

        many = [self.new("r1", tags={"a": "b"}, session_id="s1"), self.new("r2", session_id="s1"), self.new("r3")]
        answers = self.do(store, c.StartRuns(many))

        assert [(answer.created, answer.leased) for answer in answers] == [(True, True), (False, False), (True, False)]
        assert store.tags("r1") == {"a": "b"}
        assert store.hints().ready

    def test_the_same_run_twice_among_many_is_one_run(self, store: c.Store) -> None:
        answers = self.do(store, c.StartRuns([self.new("r1", key="k"), self.new("r2", key="k"), self.new("r1", key="k")]))

        assert [(answer.id, answer.created) for answer in answers] == [("r1", True), ("r1", False), ("r1", False)]

    def test_of_many_that_are_started_those_that_are_there_are_recognised(self, store: c.Store) -> None:
        self.start(store, "r05")

        answers = self.do(store, c.StartRuns([self.new(f"r{number:02}") for number in range(20)]))

        assert [answer.id for answer in answers if not answer.created] == ["r05"]
        assert len(store.runs(c.Filter(limit=100))) == 20

    def test_a_run_that_is_born_leased_is_at_work(self, store: c.Store, clock: HandClock) -> None:
        self.open(store)

        started = self.start(store, session_id="s1")

        run = self.get(store)
        assert started.leased
        assert (run.status, run.generation, run.session_id, run.started_at) == (Status.RUNNING, 1, "s1", clock.now())
        assert store.held("s1") == [("r1", 1, 0)]
        assert self.claimed(store, "s2") == []

    def test_a_run_is_not_born_leased_to_a_session_that_was_ended(self, store: c.Store) -> None:
        self.open(store)
        self.do(store, c.EndSession("s1", crashed=True))

        assert not self.start(store, session_id="s1").leased
        assert self.claimed(store, "s2") == ["r1"]

    @pytest.mark.parametrize("limits", [{"concurrency": 5}, {"rate_limit": 5, "rate_per": SECOND}, {"paused": True}])
    def test_a_run_is_not_born_leased_past_the_limits_of_its_lane(self, store: c.Store, limits: dict[str, Any]) -> None:
        self.open(store)
        self.do(store, c.SetLane(Lane(name="default", **limits)))

        assert not self.start(store, session_id="s1").leased
        assert self.status(store) is Status.PENDING

    def test_a_delayed_run_can_be_claimed_when_its_time_has_come(self, store: c.Store, clock: HandClock) -> None:
        self.open(store)
        started = self.start(store, available_at=clock.now() + MINUTE, session_id="s1")

        assert not started.leased
        assert store.next_wake() == clock.now() + MINUTE
        assert self.claimed(store) == []
        clock.move(MINUTE)
        assert self.claimed(store) == ["r1"]

    def test_a_delay_that_is_over_is_none(self, store: c.Store, clock: HandClock) -> None:
        self.start(store, available_at=clock.now())

        assert store.next_wake() is None
        assert self.claimed(store) == ["r1"]

    def test_a_route_is_what_it_offers_in_any_order(self, store: c.Store) -> None:
        for number, capabilities in enumerate([("b", "a"), ("a", "b"), ("a",), ()]):
            self.start(store, f"r{number}", route=Route("default", "greet", "1", "default", capabilities))

        assert [route.capabilities for route in store.routes().values()] == [("a", "b"), ("a",), ()]

    def test_starting_is_hinted_at_when_somebody_should_claim(self, store: c.Store) -> None:
        self.hold(store)
        assert not store.hints().ready

        self.start(store, "r2")
        assert store.hints().ready


class StartingWithin(Bench):
    """Runs are created in the caller's own transaction."""

    def test_runs_are_there_when_the_caller_has_committed(self, store: c.Store) -> None:
        with self.transaction(store) as connection:
            answers = store.start_within(connection, [self.new("r1", tags={"a": "b"}), self.new("r2")])
            assert store.run("r1") is None

        assert [(answer.id, answer.created) for answer in answers] == [("r1", True), ("r2", True)]
        assert store.tags("r1") == {"a": "b"}
        assert self.claimed(store) == ["r1", "r2"]
        assert self.hears(store)

    def test_nothing_is_left_when_the_caller_rolls_back(self, store: c.Store) -> None:
        with pytest.raises(KeyError), self.transaction(store) as connection:
            store.start_within(connection, [self.new("r1", route=Route("default", "order", "1", "default"))])
            raise KeyError

        assert (store.counts(), store.routes()) == ({}, {})

    def test_nobody_is_leased_what_may_never_be_committed(self, store: c.Store) -> None:
        self.open(store)

        with self.transaction(store) as connection:
            assert not store.start_within(connection, [self.new(session_id="s1")])[0].leased

        assert self.status(store) is Status.PENDING

    def test_a_run_that_exists_is_recognised(self, store: c.Store) -> None:
        self.start(store, key="k")

        with self.transaction(store) as connection:
            answer = store.start_within(connection, [self.new("r2", key="k")])[0]

        assert (answer.id, answer.created) == ("r1", False)

    def test_a_refused_start_leaves_the_transaction_of_the_caller_as_it_was(self, store: c.Store) -> None:
        self.start(store, "r2")

        with self.transaction(store) as connection:
            store.start_within(connection, [self.new("r1")])
            with pytest.raises(RunExists):
                store.start_within(connection, [self.new("r3"), self.new("r2", input=b"[2]")])

        assert store.counts() == {"pending": 2}
        assert store.run("r3") is None


class Claiming(Bench):
    """Whoever claims gets the best of what is ready, and nobody else gets it."""

    def test_a_claimed_run_is_leased_to_the_session(self, store: c.Store, clock: HandClock) -> None:
        self.start(store)

        (run,) = self.claim(store)

        assert run == self.get(store)
        assert (run.status, run.session_id, run.generation, run.started_at) == (Status.RUNNING, "s1", 1, clock.now())

    def test_what_is_claimed_is_claimed_once(self, store: c.Store) -> None:
        for number in range(4):
            self.start(store, f"r{number}")

        assert self.claimed(store, "s1", limit=3) == ["r0", "r1", "r2"]
        assert self.claimed(store, "s2") == ["r3"]
        assert self.claimed(store, "s1") == []

    def test_the_oldest_goes_first(self, store: c.Store, clock: HandClock) -> None:
        for run_id in ("r3", "r1", "r2"):
            self.start(store, run_id)
            clock.move(1)

        assert self.claimed(store) == ["r3", "r1", "r2"]

    def test_a_higher_priority_goes_first(self, store: c.Store, clock: HandClock) -> None:
        for run_id, priority in (("low", -1), ("normal", 0), ("high", 1)):
            self.start(store, run_id, priority=priority)
            clock.move(1)

        assert self.claimed(store) == ["high", "normal", "low"]

    def test_an_old_run_of_low_priority_does_not_starve(self, store: c.Store, clock: HandClock) -> None:
        self.start(store, "old", priority=0)
        clock.move(2 * PRIORITY_STEP + 1)
        self.start(store, "new", priority=2)

        assert self.claimed(store) == ["old", "new"]

    def test_only_the_given_routes_are_claimed(self, store: c.Store) -> None:
        other = Route("default", "order", "1", "default")
        self.start(store, "r1")
        self.start(store, "r2", route=other)

        assert [run.id for run in self.claim(store, routes=[other])] == ["r2"]
        assert self.claim(store, routes=[]) == []
        assert self.status(store) is Status.PENDING

    def test_the_best_of_all_routes_come_first(self, store: c.Store, clock: HandClock) -> None:
        for number in range(6):
            self.start(store, f"r{number}", route=Route("default", f"w{number % 2}", "1", "default"))
            clock.move(1)

        assert self.claimed(store, limit=4) == ["r0", "r1", "r2", "r3"]

    def test_a_session_that_was_ended_claims_nothing(self, store: c.Store) -> None:
        self.start(store)
        self.open(store)
        self.do(store, c.EndSession("s1", crashed=True))

        claimed = self.do(store, c.Claim("s1", [(number, "default") for number in store.routes()], 10))

        assert claimed == []
        assert self.status(store) is Status.PENDING

    def test_the_generation_grows_with_every_claim(self, store: c.Store) -> None:
        self.start(store)
        generations = []
        for number in range(3):
            (run,) = self.claim(store, f"s{number}")
            generations.append(run.generation)
            self.do(store, c.EndSession(f"s{number}", crashed=False))

        assert generations == sorted(set(generations))

    def test_the_first_claim_is_when_a_run_started(self, store: c.Store, clock: HandClock) -> None:
        self.start(store)
        (run,) = self.claim(store)
        self.do(store, c.EndSession("s1", crashed=False))
        clock.move(MINUTE)

        assert self.claim(store, "s2")[0].started_at == run.started_at

    def test_a_due_timer_makes_a_parked_run_claimable(self, store: c.Store, clock: HandClock) -> None:
        self.park(store, self.hold(store), wake_at=clock.now() + MINUTE)
        assert store.next_wake() == clock.now() + MINUTE
        assert self.claimed(store) == []

        clock.move(MINUTE)

        assert self.claimed(store) == ["r1"]
        assert self.get(store).waits is None
        assert store.next_wake() is None

    def test_a_timer_counts_from_when_it_was_due(self, store: c.Store, clock: HandClock) -> None:
        self.park(store, self.hold(store), wake_at=clock.now() + MINUTE)
        clock.move(2 * MINUTE)
        self.start(store, "r2")

        assert self.claimed(store) == ["r1", "r2"]

    def test_a_timer_of_a_held_run_is_its_holders(self, store: c.Store, clock: HandClock) -> None:
        self.park(store, self.hold(store), keep=True, wake_at=clock.now() + MINUTE)
        clock.move(MINUTE)

        assert store.next_wake() is None
        assert self.claimed(store, "s2") == []
        assert self.status(store) is Status.WAITING


class Lanes(Bench):
    """A lane admits no more than its limits."""

    def set(self, store: c.Store, **limits: Any) -> None:
        self.do(store, c.SetLane(Lane(name="default", **limits)))

    def start_many(self, store: c.Store, count: int) -> None:
        self.do(store, c.StartRuns([self.new(f"r{number:03}") for number in range(count)]))

    def test_a_lane_admits_as_many_as_it_may_hold(self, store: c.Store) -> None:
        self.set(store, concurrency=2)
        self.start_many(store, 4)

        first = self.claim(store, "s1")
        assert [run.id for run in first] == ["r000", "r001"]
        assert self.claimed(store, "s2") == []

        self.finish(store, first[0])
        assert self.claimed(store, "s2") == ["r002"]

    def test_a_held_run_that_waits_takes_no_place(self, store: c.Store) -> None:
        self.set(store, concurrency=1)
        self.start_many(store, 2)
        (run,) = self.claim(store)

        self.park(store, run, keep=True)

        assert self.claimed(store) == ["r001"]

    def test_a_paused_lane_admits_none_until_it_goes_on(self, store: c.Store) -> None:
        self.set(store, paused=True)
        self.start_many(store, 1)
        assert self.claimed(store) == []

        store.hints()
        self.set(store, paused=False)
        assert store.hints().ready
        assert self.claimed(store) == ["r000"]

    def test_a_full_lane_keeps_no_other_lane_waiting(self, store: c.Store, clock: HandClock) -> None:
        self.set(store, concurrency=1)
        self.start_many(store, 3)
        clock.move(1)
        self.start(store, "z", route=Route("default", "greet", "1", "fast"))

        assert self.claimed(store, limit=2) == ["r000", "z"]

    def test_no_window_wherever_it_begins_holds_more_than_the_rate(self, store: c.Store, clock: HandClock) -> None:
        self.set(store, rate_limit=5, rate_per=SECOND)
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

    def test_a_run_that_comes_back_within_the_window_is_not_counted_again(self, store: c.Store, clock: HandClock) -> None:
        self.set(store, rate_limit=2, rate_per=MINUTE)
        self.start_many(store, 3)
        assert self.claimed(store) == ["r000", "r001"]
        clock.move(SECOND)
        self.do(store, c.EndSession("s1", crashed=True))

        assert self.claimed(store, "s2") == ["r000", "r001"]
        clock.move(MINUTE)
        self.do(store, c.EndSession("s2", crashed=False))

        assert len(self.claimed(store, "s3")) == 2
        assert self.claimed(store, "s3") == []

    def test_a_process_whose_clock_is_behind_lets_nothing_more_begin(
        self, store: c.Store, reopen: OpenStore, clock: HandClock
    ) -> None:
        behind = HandClock()
        other = reopen(behind)
        self.set(store, rate_limit=2, rate_per=SECOND)
        self.start_many(store, 9)
        clock.move(SECOND // 2)
        assert len(self.claim(store, limit=1)) == 1

        assert [len(self.claim(other, "s2")), len(self.claim(other, "s2"))] == [1, 0]
        behind.move(SECOND)

        assert len(self.claim(other, "s2")) == 0
        assert other.next_wake() == behind.now() + SECOND // 2

    def test_a_lower_rate_counts_what_began_before_it(self, store: c.Store, clock: HandClock) -> None:
        self.set(store, rate_limit=4, rate_per=SECOND)
        self.start_many(store, 9)
        for _ in range(4):
            assert len(self.claim(store, limit=1)) == 1
            clock.move(1000)

        self.set(store, rate_limit=2, rate_per=SECOND)

        assert store.next_wake() == clock.now() + SECOND - 2000
        clock.move(SECOND - 2000)
        assert [len(self.claim(store)), len(self.claim(store))] == [1, 0]

    def test_it_is_told_when_a_spent_rate_lets_the_next_run_go(self, store: c.Store, clock: HandClock) -> None:
        self.set(store, rate_limit=2, rate_per=SECOND)
        self.start_many(store, 3)
        assert store.next_wake() is None

        assert len(self.claim(store)) == 2
        assert store.next_wake() == clock.now() + SECOND

        clock.move(SECOND)
        assert (store.next_wake(), len(self.claim(store)), store.next_wake()) == (None, 1, None)

    def test_what_is_not_claimed_is_not_spent(self, store: c.Store) -> None:
        self.set(store, rate_limit=4, rate_per=SECOND, concurrency=2)
        self.start_many(store, 9)

        first = self.claim(store)
        for run in first:
            self.finish(store, run)

        assert (len(first), len(self.claim(store))) == (2, 2)

    def test_a_faster_rate_does_not_pay_the_old_debt_at_the_old_pace(self, store: c.Store, clock: HandClock) -> None:
        self.set(store, rate_limit=1, rate_per=60 * MINUTE)
        self.start_many(store, 3)
        assert len(self.claim(store)) == 1

        self.set(store, rate_limit=1, rate_per=SECOND)
        clock.move(SECOND)

        assert len(self.claim(store)) == 1

    def test_the_settings_of_lanes_are_kept(self, store: c.Store) -> None:
        self.set(store, concurrency=3)
        self.set(store, rate_limit=2, rate_per=SECOND)

        assert store.lanes() == [Lane(name="default", rate_limit=2, rate_per=SECOND)]


class Advancing(Bench):
    """The holder writes, and only the holder."""

    def test_events_are_kept_in_order_and_dated(self, store: c.Store, clock: HandClock) -> None:
        run = self.hold(store)
        events = [Event(Kind.STEP_STARTED, "a", started_at=1, seq=1), Event(Kind.STEP_COMPLETED, "a", b"5", attempt=2, seq=2)]
        clock.move(7)

        answer = self.advance(store, run, events=events)
        self.advance(store, run, events=[Event(Kind.STEP_FAILED, "b", error=b"{}", seq=3)])

        assert answer.now == clock.now()
        assert store.history("r1") == [
            Event(Kind.STEP_STARTED, "a", started_at=1, at=clock.now(), seq=1),
            Event(Kind.STEP_COMPLETED, "a", b"5", attempt=2, at=clock.now(), seq=2),
            Event(Kind.STEP_FAILED, "b", error=b"{}", at=clock.now(), seq=3),
        ]

    def test_runs_can_be_read_together(self, store: c.Store) -> None:
        for run_id in ("r1", "r2", "r3"):
            self.advance(store, self.hold(store, run_id), status=Status.COMPLETED, result=b"1")

        found = {run.id: run for run in store.runs_by_id(["r3", "none", "r1", "r1"])}

        assert found == {run_id: store.run(run_id) for run_id in ("r1", "r3")}
        assert store.runs_by_id([]) == []

    def test_what_reached_runs_can_be_read_together(self, store: c.Store) -> None:
        for run_id in ("r1", "r2", "r3"):
            self.hold(store, run_id)
        for name in ("go", "on"):
            self.do(store, c.SignalRun("r2", name, b"1"))

        found = store.glances(["r3", "none", "r2"])

        assert found == {run_id: store.glance(run_id) for run_id in ("r2", "r3")}
        assert [signal.name for signal in found["r2"].signals] == ["go", "on"]

    def test_a_history_can_be_read_from_the_middle_and_with_others(self, store: c.Store) -> None:
        for run_id in ("r1", "r2", "r3"):
            run = self.hold(store, run_id)
            for _ in range(2):
                self.advance(store, run)

        assert [event.seq for event in store.history("r1", after=1)] == [2]
        found = store.histories(["r2", "r1", "none"])
        assert {run_id: [event.seq for event in events] for run_id, events in found.items()} == {
            "r1": [1, 2],
            "r2": [1, 2],
            "none": [],
        }

    def test_the_signals_of_several_runs_can_be_read_together(self, store: c.Store) -> None:
        for run_id in ("r1", "r2", "r3"):
            self.hold(store, run_id)
        for run_id, name in (("r2", "a"), ("r1", "b"), ("r2", "c"), ("r3", "d")):
            store.apply([c.SignalRun(run_id, name, b"1")])

        found = store.signals_of(["r2", "r1", "none"])
        assert found == {run_id: store.signals(run_id) for run_id in ("r1", "r2", "none")}
        assert [signal.name for signal in found["r2"]] == ["a", "c"]
        assert store.signals_of([]) == {}

    @pytest.mark.parametrize(
        "write",
        [
            {},
            {"status": Status.COMPLETED, "result": b"1"},
            {"status": Status.WAITING, "waits": WAITS},
            {"status": Status.WAITING, "waits": WAITS, "revision": 0},
            {"status": Status.WAITING, "waits": WAITS, "keep": False},
            {"children": [NewRun(id="c1", route=ROUTE, input=b"[]", parent_id="r1", parent_step="x")]},
            {"signals": [("r2", "paid", b"1", "k")], "cancels": [("r2", "no")]},
            {"body": lambda connection: b"1"},
        ],
    )
    def test_a_stale_holder_is_refused_and_changes_nothing(self, store: c.Store, write: dict[str, Any]) -> None:
        stale = self.hold(store)
        self.start(store, "r2")
        self.do(store, c.EndSession("s1", crashed=False))
        (run,) = [run for run in self.claim(store, "s2") if run.id == "r1"]
        store.hints()

        with pytest.raises(LeaseLost):
            self.advance(store, stale, **write)

        assert self.get(store) == run
        assert (store.history("r1"), store.signals("r2"), store.run("c1")) == ([], [], None)
        assert store.hints() == c.Hints()

    def test_whoever_let_go_of_a_run_holds_it_no_more(self, store: c.Store) -> None:
        run = self.hold(store)
        self.park(store, run)
        before = self.get(store)

        for write in ({}, {"status": Status.COMPLETED}, {"status": Status.RUNNING}, {"body": lambda connection: b"1"}):
            with pytest.raises(LeaseLost):
                self.advance(store, run, **write)

        assert self.get(store) == before

    def test_whoever_finished_a_run_holds_it_no_more(self, store: c.Store) -> None:
        run = self.hold(store)
        self.finish(store, run)

        for write in ({}, {"status": Status.FAILED}, {"status": Status.RUNNING}):
            with pytest.raises(LeaseLost):
                self.advance(store, run, **write)

        assert self.status(store) is Status.COMPLETED

    def test_nobody_holds_a_run_that_is_not_there(self, store: c.Store) -> None:
        with pytest.raises(LeaseLost):
            self.do(store, c.Advance(run_id="none", generation=1, events=[Event(Kind.MARKED, seq=1)]))

    @pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.EXPIRED])
    def test_a_finished_run_has_its_end_and_holds_nothing(self, store: c.Store, clock: HandClock, status: Status) -> None:
        run = self.hold(store)
        store.hints()
        clock.move(5)

        self.finish(store, run, status)

        run = self.get(store)
        assert (run.status, run.finished_at, run.session_id, run.waits) == (status, clock.now(), None, None)
        assert (run.result is not None) is (status is Status.COMPLETED) is (run.error is None)
        assert store.hints().finished == {"r1"}
        assert self.claimed(store) == []

    def test_a_run_parked_in_memory_stays_with_its_holder(self, store: c.Store) -> None:
        run = self.hold(store)

        self.park(store, run, keep=True)
        assert (self.status(store), self.get(store).session_id, self.get(store).waits) == (Status.WAITING, "s1", WAITS)

        self.advance(store, run, status=Status.RUNNING)
        assert (self.status(store), self.get(store).session_id, self.get(store).waits) == (Status.RUNNING, "s1", None)

    def test_parking_with_an_old_revision_answers_changed_and_writes_nothing(self, store: c.Store) -> None:
        run = self.hold(store)
        self.do(store, c.SignalRun("r1", "paid", b"1"))
        before = self.get(store)
        called: list[object] = []

        def body(connection: object) -> bytes:
            called.append(connection)
            return b"1"

        for keep, more in ((True, {}), (False, {}), (True, {"body": body}), (False, {"children": [self.child_of(run, "c1")]})):
            assert self.park(store, run, keep=keep, revision=0, **more) == c.Changed(revision=1)

        assert self.get(store) == before
        assert (store.history("r1"), store.run("c1"), called) == ([], None, [])

    def test_parking_with_the_revision_that_was_seen_parks(self, store: c.Store) -> None:
        run = self.hold(store)
        self.do(store, c.SignalRun("r1", "paid", b"1"))

        assert isinstance(self.park(store, run, revision=1), c.Advanced)
        assert self.status(store) is Status.WAITING

    def test_a_run_that_is_handed_back_keeps_its_priority(self, store: c.Store, clock: HandClock) -> None:
        run = self.hold(store, "r2", priority=5)
        self.start(store, "r1")
        clock.move(1)
        store.hints()

        self.advance(store, run, status=Status.PENDING, keep=False)

        assert store.hints().ready
        assert self.claimed(store) == ["r2", "r1"]

    def test_a_run_that_is_handed_back_at_work_is_pending(self, store: c.Store) -> None:
        self.advance(store, self.hold(store), status=Status.RUNNING, keep=False)

        assert self.status(store) is Status.PENDING

    def test_a_run_that_is_handed_back_until_later_is_pending_until_then(self, store: c.Store, clock: HandClock) -> None:
        self.advance(store, self.hold(store), status=Status.PENDING, keep=False, wake_at=clock.now() + MINUTE)

        assert self.claimed(store) == []
        clock.move(MINUTE)
        assert self.claimed(store) == ["r1"]

    def test_a_stuck_run_says_why_and_is_claimed_by_nobody(self, store: c.Store) -> None:
        run = self.stuck(store)

        assert (run.status, run.error, run.session_id) == (Status.STUCK, STUCK, None)
        assert self.claimed(store) == []

    @pytest.mark.parametrize("status", [Status.RUNNING, Status.WAITING])
    def test_a_holder_who_has_not_heard_of_a_cancel_does_not_undo_it(self, store: c.Store, status: Status) -> None:
        run = self.hold(store)
        self.do(store, c.RequestCancel("r1", "enough"))

        self.advance(store, run, status=status, waits=WAITS if status is Status.WAITING else None)

        assert (self.status(store), self.kinds(store)) == (Status.CANCELLING, [Kind.MARKED])

    @pytest.mark.parametrize("status", [Status.PENDING, Status.WAITING])
    def test_a_cancel_is_not_slept_through_by_a_run_whose_holder_lets_go(self, store: c.Store, status: Status) -> None:
        run = self.hold(store)
        self.do(store, c.RequestCancel("r1", "enough"))

        self.advance(store, run, status=status, keep=False, waits=WAITS if status is Status.WAITING else None)

        assert self.status(store) is Status.CANCELLING
        assert self.claimed(store, "s2") == ["r1"]

    def test_signals_and_cancels_go_out_with_the_write(self, store: c.Store) -> None:
        run = self.hold(store)
        self.parked(store, "r2")
        self.start(store, "r3")

        self.advance(store, run, signals=[("r2", "paid", b"5", "k")], cancels=[("r3", "enough")])

        assert (self.status(store, "r2"), self.status(store, "r3")) == (Status.PENDING, Status.CANCELLED)
        assert [signal.payload for signal in store.signals("r2")] == [b"5"]

    def test_what_is_sent_to_a_run_that_is_gone_keeps_nobody_from_going_on(self, store: c.Store) -> None:
        run = self.hold(store)
        self.finish(store, self.hold(store, "r2"))

        gone = ("r2", "none")
        self.advance(store, run, signals=[(it, "paid", b"5", it) for it in gone], cancels=[(it, "enough") for it in gone])

        assert self.kinds(store) == [Kind.MARKED]

    def test_what_is_sent_twice_under_one_key_arrives_once(self, store: c.Store) -> None:
        run = self.hold(store)
        self.start(store, "r2")

        for _ in range(2):
            self.advance(store, run, signals=[("r2", "paid", b"5", "k")])

        assert len(store.signals("r2")) == 1


class Signals(Bench):
    """A signal may come at any time, and is never slept through."""

    def signal(self, store: c.Store, name: str = "paid", run_id: str = "r1", key: str | None = None) -> bool:
        answer: c.Delivery = self.do(store, c.SignalRun(run_id, name, b'"%s"' % name.encode(), key))
        return answer.new

    def test_a_signal_wakes_a_run_that_waits_for_it(self, store: c.Store) -> None:
        self.parked(store)
        store.hints()

        assert self.signal(store) is True

        run = self.get(store)
        assert (run.status, run.revision, run.waits) == (Status.PENDING, 1, None)
        assert store.hints().ready
        assert self.claimed(store) == ["r1"]

    def test_a_signal_wakes_no_run_that_waits_for_another(self, store: c.Store) -> None:
        self.parked(store)

        self.signal(store, "shipped")

        assert (self.status(store), self.get(store).revision, self.get(store).waits) == (Status.WAITING, 1, WAITS)
        assert [signal.name for signal in store.signals("r1")] == ["shipped"]

    def test_a_signal_ends_the_timer_of_what_it_wakes(self, store: c.Store, clock: HandClock) -> None:
        self.park(store, self.hold(store), wake_at=clock.now() + MINUTE)

        self.signal(store)

        assert (self.get(store).wake_at, store.next_wake()) == (None, None)

    def test_a_second_signal_does_not_send_a_run_to_the_end_of_the_queue(self, store: c.Store, clock: HandClock) -> None:
        self.parked(store)
        self.signal(store)
        clock.move(1)
        self.start(store, "r2")
        self.signal(store)

        assert self.claimed(store) == ["r1", "r2"]

    def test_a_signal_may_come_before_its_wait(self, store: c.Store) -> None:
        self.start(store)

        self.signal(store)

        assert (self.status(store), self.get(store).revision) == (Status.PENDING, 1)
        assert [signal.name for signal in store.signals("r1")] == ["paid"]

    def test_a_signal_does_not_start_a_delayed_run_early(self, store: c.Store, clock: HandClock) -> None:
        self.start(store, available_at=clock.now() + MINUTE)

        self.signal(store)

        assert self.claimed(store) == []

    def test_a_signal_knocks_at_the_holder_of_a_run(self, store: c.Store) -> None:
        self.hold(store)
        store.hints()

        self.signal(store)

        assert (self.status(store), self.get(store).revision) == (Status.RUNNING, 1)
        assert [run_id for _, run_id in store.knocks("s1", 0)] == ["r1"]
        assert store.hints() == c.Hints(runs={"r1"})

    def test_a_signal_with_the_same_key_comes_once(self, store: c.Store) -> None:
        self.start(store)

        answers = [self.signal(store, key="k"), self.signal(store, "other", key="k"), self.signal(store, key="l")]

        assert answers == [True, False, True]
        assert [signal.name for signal in store.signals("r1")] == ["paid", "paid"]
        assert self.get(store).revision == 2

    def test_a_key_belongs_to_its_run(self, store: c.Store) -> None:
        for run_id in ("r1", "r2"):
            self.start(store, run_id)
            assert self.signal(store, run_id=run_id, key="k") is True

    def test_signals_are_listed_oldest_first_until_they_are_taken(self, store: c.Store, clock: HandClock) -> None:
        run = self.hold(store)
        for name in ("c", "a", "b"):
            self.signal(store, name)
        first = store.signals("r1")[0]
        assert (first.name, first.payload, first.at) == ("c", b'"c"', clock.now())

        self.advance(store, run, taken=[first.id])

        assert [signal.name for signal in store.signals("r1")] == ["a", "b"]

    def test_a_taken_signal_keeps_its_key(self, store: c.Store) -> None:
        run = self.hold(store)
        self.signal(store, key="k")
        self.advance(store, run, taken=[store.signals("r1")[0].id])

        assert self.signal(store, key="k") is False

    def test_a_signal_to_a_finished_run_is_refused(self, store: c.Store) -> None:
        run = self.hold(store)
        self.signal(store, key="k")
        self.finish(store, run)

        with pytest.raises(RunFinished):
            self.signal(store)
        with pytest.raises(RunFinished):
            self.signal(store, key="l")

        assert self.signal(store, key="k") is False
        assert len(store.signals("r1")) == 1

    def test_a_signal_to_nobody_is_refused(self, store: c.Store) -> None:
        with pytest.raises(RunNotFound):
            self.signal(store)

    def test_a_signal_wakes_a_run_that_waits_in_the_middle_of_its_undoing(self, store: c.Store) -> None:
        self.hold(store)
        self.do(store, c.RequestCancel("r1", "enough"))
        self.park(store, self.get(store), status=Status.CANCELLING)
        assert self.claimed(store) == []

        self.signal(store)

        assert self.status(store) is Status.CANCELLING
        assert self.claimed(store) == ["r1"]

    def test_a_signal_to_a_stuck_run_is_kept_for_later(self, store: c.Store) -> None:
        self.stuck(store)

        assert self.signal(store) is True
        assert (self.status(store), len(store.signals("r1"))) == (Status.STUCK, 1)

    def test_knocks_have_growing_numbers_and_go_to_the_holder_only(self, store: c.Store) -> None:
        self.hold(store, "r1", "s1")
        self.hold(store, "r2", "s2")
        for run_id in ("r1", "r2", "r1"):
            self.signal(store, run_id=run_id)

        knocks = store.knocks("s1", 0)
        assert [run_id for _, run_id in knocks] == ["r1", "r1"]
        assert knocks[0][0] < knocks[1][0]
        assert store.knocks("s1", knocks[0][0]) == knocks[1:]
        assert [run_id for _, run_id in store.knocks("s2", 0)] == ["r2"]


class Cancelling(Bench):
    """A run can be asked to stop, whatever it is doing."""

    def cancel(self, store: c.Store, run_id: str = "r1", reason: str = "enough", *, force: bool = False) -> Status:
        answer: Status = self.do(store, c.RequestCancel(run_id, reason, force))
        return answer

    def test_a_run_that_never_started_is_cancelled_at_once(self, store: c.Store, clock: HandClock) -> None:
        self.start(store, available_at=clock.now() + MINUTE)
        store.hints()

        assert self.cancel(store) is Status.CANCELLED

        run = self.get(store)
        assert (run.status, run.cancel_reason, run.finished_at) == (Status.CANCELLED, "enough", clock.now())
        assert (self.kinds(store), store.hints().finished) == ([Kind.RUN_CANCELLED], {"r1"})
        assert store.next_wake() is None

    def test_a_parked_run_is_woken_to_undo_what_it_did(self, store: c.Store) -> None:
        self.parked(store)
        store.hints()

        assert self.cancel(store) is Status.CANCELLING

        assert (self.get(store).cancel_reason, self.get(store).waits) == ("enough", None)
        assert store.hints().ready
        (run,) = self.claim(store)
        assert (run.status, run.cancel_reason) == (Status.CANCELLING, "enough")

    def test_the_holder_of_a_run_is_told(self, store: c.Store) -> None:
        run = self.hold(store)
        self.park(store, run, keep=True)

        assert self.cancel(store) is Status.CANCELLING

        run = self.get(store)
        assert (run.session_id, run.generation, run.revision, run.waits) == ("s1", 1, 1, WAITS)
        assert [run_id for _, run_id in store.knocks("s1", 0)] == ["r1"]

    def test_the_holder_ends_what_was_cancelled(self, store: c.Store) -> None:
        run = self.hold(store)
        self.cancel(store)

        self.finish(store, run, Status.CANCELLED)

        assert self.status(store) is Status.CANCELLED

    def test_a_run_that_completes_before_it_hears_of_the_cancel_has_completed(self, store: c.Store) -> None:
        run = self.hold(store)
        self.cancel(store)

        self.finish(store, run)

        assert (self.status(store), self.get(store).cancel_reason) == (Status.COMPLETED, "enough")

    def test_a_second_cancel_wakes_nobody_and_the_first_reason_stands(self, store: c.Store) -> None:
        self.hold(store)
        self.cancel(store)
        self.park(store, self.get(store), status=Status.CANCELLING)
        before = self.get(store)

        assert self.cancel(store, reason="really") is Status.CANCELLING

        assert self.get(store) == before

    def test_force_ends_a_run_at_once_and_its_holder_holds_nothing(self, store: c.Store) -> None:
        run = self.hold(store)

        assert self.cancel(store, force=True) is Status.CANCELLED

        assert (self.status(store), self.kinds(store)) == (Status.CANCELLED, [Kind.RUN_CANCELLED])
        assert [run_id for _, run_id in store.knocks("s1", 0)] == ["r1"]
        with pytest.raises(LeaseLost):
            self.advance(store, run)

    def test_force_ends_a_run_whatever_it_does(self, store: c.Store) -> None:
        self.parked(store, "waiting")
        self.stuck(store, "stuck")
        self.hold(store, "cancelling")
        self.cancel(store, "cancelling")

        assert {self.cancel(store, run_id, force=True) for run_id in ("waiting", "stuck", "cancelling")} == {Status.CANCELLED}

    def test_a_stuck_run_can_be_cancelled(self, store: c.Store) -> None:
        self.stuck(store)

        assert self.cancel(store) is Status.CANCELLING
        assert self.claimed(store) == ["r1"]

    def test_a_finished_or_unknown_run_is_not_cancelled(self, store: c.Store) -> None:
        self.finish(store, self.hold(store))

        with pytest.raises(RunFinished):
            self.cancel(store)
        with pytest.raises(RunNotFound):
            self.cancel(store, "none")

    def test_children_are_cancelled_with_their_parent_but_those_that_may_outlive_it(self, store: c.Store) -> None:
        parent = self.hold(store)
        young, old = self.child_of(parent, "young"), self.child_of(parent, "old", session_id="s1")
        self.advance(store, parent, children=[young, old, self.child_of(parent, "kept", on_parent_end="leave")])
        grown = self.get(store, "old")
        self.advance(store, grown, children=[self.child_of(grown, "grandchild")])

        self.cancel(store)

        statuses = {run_id: self.status(store, run_id) for run_id in ("r1", "young", "old", "grandchild", "kept")}
        assert statuses == {
            "r1": Status.CANCELLING,
            "young": Status.CANCELLED,
            "old": Status.CANCELLING,
            "grandchild": Status.CANCELLED,
            "kept": Status.PENDING,
        }

    def test_force_is_for_the_run_and_not_for_its_children(self, store: c.Store) -> None:
        parent = self.hold(store)
        self.advance(store, parent, children=[self.child_of(parent, "c1", session_id="s1")])

        self.cancel(store, force=True)

        assert (self.status(store), self.status(store, "c1")) == (Status.CANCELLED, Status.CANCELLING)

    def test_a_tree_of_any_depth_is_cancelled(self, store: c.Store) -> None:
        parent = self.hold(store, "d0")
        for depth in range(1, 400):
            self.advance(store, parent, children=[self.child_of(parent, f"d{depth}", session_id="s1")])
            parent = self.get(store, f"d{depth}")

        self.cancel(store, "d0")

        assert store.counts() == {"cancelling": 400}


class Deadlines(Bench):
    """What has passed its deadline ends."""

    def test_a_run_that_never_started_expires_at_once(self, store: c.Store, clock: HandClock) -> None:
        self.start(store, deadline=clock.now() + MINUTE)
        assert store.next_wake() == clock.now() + MINUTE
        assert self.do(store, c.ExpireRuns()) == 0

        clock.move(MINUTE)
        assert self.do(store, c.ExpireRuns()) == 1

        assert (self.status(store), self.get(store).cancel_reason) == (Status.EXPIRED, "deadline")
        assert (self.kinds(store), store.hints().finished) == ([Kind.RUN_EXPIRED], {"r1"})

    def test_a_run_that_has_started_is_asked_to_stop(self, store: c.Store, clock: HandClock) -> None:
        self.parked(store, deadline=clock.now() + MINUTE)
        clock.move(MINUTE)

        assert self.do(store, c.ExpireRuns()) == 1

        assert (self.status(store), self.get(store).cancel_reason) == (Status.CANCELLING, "deadline")
        assert self.claimed(store) == ["r1"]

    def test_it_is_asked_once_even_if_it_waits_in_the_middle_of_its_undoing(self, store: c.Store, clock: HandClock) -> None:
        self.parked(store, deadline=clock.now() + MINUTE)
        clock.move(MINUTE)
        self.do(store, c.ExpireRuns())
        (run,) = self.claim(store)
        assert store.next_wake() is None
        self.park(store, run, status=Status.CANCELLING)

        assert (self.do(store, c.ExpireRuns()), store.next_wake(), self.claimed(store)) == (0, None, [])

    def test_the_deadline_of_a_held_run_is_its_holders(self, store: c.Store, clock: HandClock) -> None:
        self.hold(store, deadline=clock.now() + MINUTE)
        clock.move(MINUTE)

        assert (self.do(store, c.ExpireRuns()), store.next_wake()) == (0, None)
        assert self.status(store) is Status.RUNNING

    def test_a_stuck_run_expires(self, store: c.Store, clock: HandClock) -> None:
        run = self.hold(store, deadline=clock.now() + MINUTE)
        self.advance(store, run, status=Status.STUCK, error=STUCK, keep=False)
        clock.move(MINUTE)

        self.do(store, c.ExpireRuns())

        assert self.status(store) is Status.EXPIRED

    def test_children_expire_with_their_parent(self, store: c.Store, clock: HandClock) -> None:
        run = self.hold(store, deadline=clock.now() + MINUTE)
        self.advance(store, run, children=[self.child_of(run, "c1")])
        self.park(store, run)
        clock.move(MINUTE)

        self.do(store, c.ExpireRuns())

        assert self.status(store, "c1") is Status.EXPIRED

    def test_only_so_many_expire_at_once(self, store: c.Store, clock: HandClock) -> None:
        for number in range(5):
            self.start(store, f"r{number}", deadline=clock.now() + 1)
        clock.move(1)

        assert [self.do(store, c.ExpireRuns(limit=3)) for _ in range(3)] == [3, 2, 0]


class Sessions(Bench):
    """A session holds leases as long as it lives."""

    def end(self, store: c.Store, session_id: str = "s1", *, crashed: bool = False, limit: int = 5) -> list[str]:
        freed: list[str] = self.do(store, c.EndSession(session_id, crashed, limit))
        return freed

    def test_a_session_is_listed_until_it_ends(self, store: c.Store) -> None:
        session = self.open(store)
        assert store.sessions() == [session]

        assert self.end(store) == []

        assert store.sessions() == []

    def test_sessions_are_listed_from_the_oldest_on(self, store: c.Store) -> None:
        for session_id in ("s2", "s1", "s3"):
            self.open(store, session_id)

        assert [session.id for session in store.sessions()] == ["s1", "s2", "s3"]
        assert [session.id for session in store.sessions(limit=2)] == ["s1", "s2"]

    def test_a_session_that_opens_again_says_what_it_serves_by_now(self, store: c.Store, clock: HandClock) -> None:
        session = self.open(store)
        clock.move(SECOND)

        changed = {"serves": b'{"a":1}', "beat_at": clock.now(), "expires_at": clock.now() + 1}
        self.do(store, c.OpenSession(msgspec.structs.replace(session, **changed)))

        assert store.sessions() == [msgspec.structs.replace(session, **changed)]

    def test_a_beat_prolongs_a_session(self, store: c.Store, clock: HandClock) -> None:
        self.open(store)
        clock.move(SECOND)

        assert self.do(store, c.Beat("s1", lifetime=MINUTE)) is True

        (session,) = store.sessions()
        assert (session.beat_at, session.expires_at) == (clock.now(), clock.now() + MINUTE)

    def test_a_beat_of_a_session_that_was_taken_over_is_false(self, store: c.Store) -> None:
        self.open(store)
        self.end(store, crashed=True)

        assert self.do(store, c.Beat("s1", lifetime=MINUTE)) is False
        assert store.sessions() == []

    def test_a_beat_forgets_the_knocks_that_were_answered(self, store: c.Store) -> None:
        self.hold(store)
        for _ in range(3):
            self.do(store, c.SignalRun("r1", "paid", b"1"))
        knocks = store.knocks("s1", 0)

        self.do(store, c.Beat("s1", MINUTE, seen_knock=knocks[1][0]))

        assert knocks[0] not in store.knocks("s1", 0)
        assert store.knocks("s1", knocks[1][0]) == knocks[2:]

    def test_a_knock_after_a_beat_is_newer_than_those_that_were_answered(self, store: c.Store) -> None:
        self.hold(store)
        self.do(store, c.SignalRun("r1", "paid", b"1"))
        self.do(store, c.SignalRun("r1", "paid", b"2"))
        seen = store.knocks("s1", 0)[-1][0]
        self.do(store, c.Beat("s1", MINUTE, seen_knock=seen))

        self.do(store, c.SignalRun("r1", "paid", b"3"))

        assert [run_id for _, run_id in store.knocks("s1", seen)] == ["r1"]

    @pytest.mark.parametrize("crashed", [False, True])
    def test_what_was_at_work_is_pending_and_nobodys(self, store: c.Store, crashed: bool) -> None:
        run = self.hold(store)
        store.hints()

        assert self.end(store, crashed=crashed) == ["r1"]

        freed = self.get(store)
        assert (freed.status, freed.session_id, freed.generation) == (Status.PENDING, None, run.generation + 1)
        assert freed.crashes == (1 if crashed else 0)
        assert store.hints().ready
        with pytest.raises(LeaseLost):
            self.advance(store, run)
        assert self.claimed(store, "s2") == ["r1"]

    @pytest.mark.parametrize("crashed", [False, True])
    def test_what_was_waiting_goes_on_waiting(self, store: c.Store, clock: HandClock, crashed: bool) -> None:
        self.park(store, self.hold(store), keep=True, wake_at=clock.now() + MINUTE)

        assert self.end(store, crashed=crashed) == ["r1"]

        run = self.get(store)
        assert (run.status, run.session_id, run.waits, run.crashes) == (Status.WAITING, None, WAITS, 0)
        assert self.claimed(store, "s2") == []
        clock.move(MINUTE)
        assert self.claimed(store, "s2") == ["r1"]

    @pytest.mark.parametrize("crashed", [False, True])
    @pytest.mark.parametrize("seen", [False, True])
    def test_what_was_touched_while_it_was_waiting_wakes(self, store: c.Store, crashed: bool, seen: bool) -> None:
        self.park(store, self.hold(store), keep=True)
        self.do(store, c.SignalRun("r1", "paid", b"1"))
        if seen:  # its holder has heard the knock, and died before it could do anything about it
            self.do(store, c.Beat("s1", MINUTE, seen_knock=store.knocks("s1", 0)[-1][0]))

        self.end(store, crashed=crashed)

        assert (self.status(store), self.get(store).crashes, self.get(store).waits) == (Status.PENDING, 0, None)

    def test_what_was_touched_before_it_was_parked_goes_on_waiting(self, store: c.Store) -> None:
        run = self.hold(store)
        self.do(store, c.SignalRun("r1", "other", b"1"))
        self.park(store, run, keep=True)

        self.end(store)

        assert self.status(store) is Status.WAITING

    def test_what_waited_in_the_middle_of_its_undoing_goes_on_waiting(self, store: c.Store) -> None:
        self.hold(store)
        self.do(store, c.RequestCancel("r1", "enough"))
        self.park(store, self.get(store), keep=True, status=Status.CANCELLING)

        self.end(store, crashed=True)

        assert (self.status(store), self.get(store).crashes, self.claimed(store, "s2")) == (Status.CANCELLING, 0, [])

    def test_what_was_cancelled_while_it_was_waiting_is_undone_by_somebody_else(self, store: c.Store) -> None:
        self.park(store, self.hold(store), keep=True)
        self.do(store, c.RequestCancel("r1", "enough"))

        self.end(store, crashed=True)

        assert self.claimed(store, "s2") == ["r1"]
        assert self.status(store) is Status.CANCELLING

    def test_a_run_that_crashes_its_worker_again_and_again_is_stuck(self, store: c.Store) -> None:
        self.start(store)
        for crash in range(3):
            assert self.claimed(store, f"s{crash}") == ["r1"]
            self.end(store, f"s{crash}", crashed=True, limit=3)

        run = self.get(store)
        assert (run.status, run.crashes, self.kinds(store)) == (
            Status.STUCK,
            3,
            [Kind.LEASE_LOST, Kind.LEASE_LOST, Kind.RUN_STUCK],
        )
        assert run.error is not None
        assert msgspec.json.decode(run.error)["type"] == "TooManyCrashes"
        assert self.claimed(store) == []

    def test_progress_makes_crashes_count_from_the_start(self, store: c.Store) -> None:
        self.start(store)
        for crash in range(6):
            (run,) = self.claim(store, f"s{crash}")
            if crash % 2:
                self.advance(store, run)
            self.end(store, f"s{crash}", crashed=True, limit=3)

        assert (self.status(store), self.get(store).crashes) == (Status.PENDING, 1)

    def test_progress_counts_even_if_the_run_was_handed_over_in_peace_afterwards(self, store: c.Store) -> None:
        self.start(store)
        self.claim(store, "s0")
        self.end(store, "s0", crashed=True)
        self.advance(store, self.claim(store, "s1")[0])
        self.end(store, "s1")
        self.claim(store, "s2")
        self.end(store, "s2", crashed=True)

        assert self.get(store).crashes == 1

    def test_what_may_have_killed_its_worker_is_claimed_alone(self, store: c.Store) -> None:
        self.do(store, c.StartRuns([self.new(f"r{number}") for number in range(3)]))
        for crash in range(2):
            assert len(self.claim(store, f"s{crash}")) == 3
            self.end(store, f"s{crash}", crashed=True)
        self.start(store, "z")

        first = self.claim(store, "s2")
        assert [run.id for run in first] == ["r0", "z"]
        assert self.claimed(store, "s2") == []
        assert self.claimed(store, "s3") == ["r1"]

        self.advance(store, first[0])
        assert self.claimed(store, "s2") == ["r2"]

    def test_neighbours_of_a_run_that_kills_its_worker_are_not_stuck_with_it(self, store: c.Store) -> None:
        self.do(store, c.StartRuns([self.new("poison"), *(self.new(f"r{number}") for number in range(5))]))
        for number in range(20):
            claimed = self.claim(store, f"s{number}")
            if any(run.id == "poison" for run in claimed):
                self.end(store, f"s{number}", crashed=True)
                continue
            for run in claimed:
                self.finish(store, run)

        assert store.counts() == {"completed": 5, "stuck": 1}
        assert self.status(store, "poison") is Status.STUCK

    def test_only_what_a_session_held_is_freed(self, store: c.Store) -> None:
        self.hold(store, "r1", "s1")
        self.hold(store, "r2", "s2")

        assert self.end(store) == ["r1"]

        assert store.held("s2") == [("r2", 1, 0)]

    def test_whoever_ends_a_session_second_frees_nothing(self, store: c.Store) -> None:
        self.hold(store)
        self.end(store, crashed=True)

        assert self.end(store, crashed=True) == []
        assert self.get(store).crashes == 1

    def test_a_process_is_alive_as_long_as_it_has_its_place(self, store: c.Store) -> None:
        slot = store.take_slot()
        session = self.open(store, slot=slot)

        assert store.is_alive(session) in (True, None)
        store.free_slot(slot)
        assert store.is_alive(session) in (False, None)


class Children(Bench):
    """A parent hears of its children, and takes them with it when it ends."""

    def with_children(self, store: c.Store, count: int, *, eager: bool = False, keep: bool = False) -> list[Run]:
        """Start a parent that is parked on a map, with its children held by another session."""
        parent = self.hold(store)
        self.open(store, "s2")
        children = [self.child_of(parent, f"c{i}", parent_index=i, session_id="s2") for i in range(count)]
        self.advance(store, parent, children=children, fanouts=[Fanout("call", count, eager)])
        self.park(store, parent, keep=keep, waits=b'[{"kind":"map"}]')
        store.hints()
        return [self.get(store, f"c{i}") for i in range(count)]

    def test_children_start_with_the_write_and_know_their_parent(self, store: c.Store) -> None:
        parent = self.hold(store)

        born = self.child_of(parent, "c2", session_id="s1", on_parent_end="leave")
        answer = self.advance(store, parent, children=[self.child_of(parent, "c1"), born])

        assert [(one.id, one.created, one.leased) for one in answer.started] == [("c1", True, False), ("c2", True, True)]
        child = self.get(store, "c2")
        assert (child.parent_id, child.parent_step, child.parent_index, child.root_id) == ("r1", "call", None, "r1")
        assert (child.on_parent_end, self.get(store, "c1").on_parent_end) == ("leave", "cancel")

    def test_a_refused_child_refuses_the_whole_write(self, store: c.Store) -> None:
        parent = self.hold(store)
        self.start(store, "c2")

        with pytest.raises(RunExists):
            self.advance(store, parent, children=[self.child_of(parent, "c1"), self.child_of(parent, "c2", input=b"[9]")])

        assert (store.history("r1"), store.run("c1")) == ([], None)

    def test_children_are_listed_in_order(self, store: c.Store) -> None:
        parent = self.hold(store)
        many = [self.child_of(parent, f"m{9 - i}", parent_step="b", parent_index=i) for i in range(3)]
        self.advance(store, parent, children=[*reversed(many), self.child_of(parent, "one", parent_step="a")])

        assert [child.id for child in store.children("r1")] == ["one", "m9", "m8", "m7"]
        assert [child.id for child in store.children("r1", ["b"])] == ["m9", "m8", "m7"]
        assert store.children("r1", []) == []

    def test_the_end_of_a_child_wakes_its_parent(self, store: c.Store) -> None:
        parent = self.hold(store)
        self.advance(store, parent, children=[self.child_of(parent, "c1", session_id="s1")])
        self.park(store, parent)

        self.finish(store, self.get(store, "c1"), Status.FAILED)

        assert self.status(store) is Status.PENDING
        (child,) = store.children("r1", ["call"])
        assert (child.status, child.result, child.error) == (Status.FAILED, None, b'{"type":"ValueError","message":"no"}')

    def test_the_end_of_a_child_knocks_at_the_holder_of_its_parent(self, store: c.Store) -> None:
        parent = self.hold(store)
        self.advance(store, parent, children=[self.child_of(parent, "c1", session_id="s1")])
        self.park(store, parent, keep=True)

        self.finish(store, self.get(store, "c1"))

        assert (self.status(store), self.get(store).revision) == (Status.WAITING, 1)
        assert [run_id for _, run_id in store.knocks("s1", 0)] == ["r1"]

    def test_a_cancelled_child_wakes_its_parent_too(self, store: c.Store) -> None:
        parent = self.hold(store)
        self.advance(store, parent, children=[self.child_of(parent, "c1")])
        self.park(store, parent)

        self.do(store, c.RequestCancel("c1", "enough"))

        assert self.status(store) is Status.PENDING

    def test_of_many_the_last_that_completes_wakes_the_parent(self, store: c.Store) -> None:
        children = self.with_children(store, 3)

        seen = []
        for child in children:
            self.finish(store, child)
            seen.append(self.status(store))

        assert seen == [Status.WAITING, Status.WAITING, Status.PENDING]

    def test_of_many_the_first_that_fails_wakes_the_parent(self, store: c.Store) -> None:
        children = self.with_children(store, 3)

        self.finish(store, children[1], Status.FAILED)

        assert self.status(store) is Status.PENDING

    def test_an_eager_parent_hears_of_each(self, store: c.Store) -> None:
        children = self.with_children(store, 3, eager=True, keep=True)

        for child in children:
            self.finish(store, child)

        assert [run_id for _, run_id in store.knocks("s1", 0)] == ["r1"] * 3

    def test_a_parent_that_is_not_eager_is_knocked_at_once(self, store: c.Store) -> None:
        children = self.with_children(store, 3, keep=True)

        for child in children:
            self.finish(store, child)

        assert [run_id for _, run_id in store.knocks("s1", 0)] == ["r1"]

    def test_more_children_of_the_same_map_are_counted_with_the_others(self, store: c.Store) -> None:
        parent = self.hold(store)
        for number in range(2):
            child = self.child_of(parent, f"c{number}", parent_index=number, session_id="s1")
            self.advance(store, parent, children=[child], fanouts=[Fanout("call", 1, False)])
        self.park(store, parent)

        self.finish(store, self.get(store, "c0"))
        assert self.status(store) is Status.WAITING
        self.finish(store, self.get(store, "c1"))
        assert self.status(store) is Status.PENDING

    def test_children_that_were_there_before_are_not_counted_again(self, store: c.Store) -> None:
        parent = self.hold(store)
        first = [self.child_of(parent, "c0", parent_index=0, session_id="s1")]
        self.advance(store, parent, children=first, fanouts=[Fanout("call", 1, False)])
        self.finish(store, self.get(store, "c0"))

        both = [*first, self.child_of(parent, "c1", parent_index=1)]
        answer = self.advance(store, parent, children=both, fanouts=[Fanout("call", 2, False)])

        assert [one.created for one in answer.started] == [False, True]
        assert store.check() == []

    def test_a_parent_that_ends_takes_its_children_with_it(self, store: c.Store) -> None:
        parent = self.hold(store)
        young, old = self.child_of(parent, "young"), self.child_of(parent, "old", session_id="s1")
        self.advance(store, parent, children=[young, old, self.child_of(parent, "kept", on_parent_end="leave")])

        self.finish(store, parent, Status.FAILED, had_children=True)

        statuses = [self.status(store, run_id) for run_id in ("young", "old", "kept")]
        assert statuses == [Status.CANCELLED, Status.CANCELLING, Status.PENDING]
        assert self.status(store) is Status.FAILED

    def test_a_child_may_end_after_its_parent(self, store: c.Store) -> None:
        children = self.with_children(store, 2, keep=True)
        self.finish(store, self.get(store), had_children=False)

        for child in children:
            self.finish(store, child)

        assert (self.status(store), self.get(store).revision) == (Status.COMPLETED, 0)

    def test_a_replayed_child_is_counted_as_open_again(self, store: c.Store) -> None:
        children = self.with_children(store, 2)
        self.finish(store, children[0])

        self.do(store, c.ReplayRun("c0", []))

        assert store.check() == []
        self.finish(store, children[1])
        assert self.status(store) is Status.WAITING


class Operating(Bench):
    """What people do."""

    def test_a_stuck_run_is_resumed(self, store: c.Store) -> None:
        self.stuck(store)
        store.hints()

        assert self.do(store, c.ResumeRun("r1")) is Status.PENDING

        assert (self.get(store).error, self.get(store).crashes) == (None, 0)
        assert self.kinds(store) == [Kind.RUN_STUCK, Kind.RUN_RESUMED]
        assert store.hints().ready
        assert self.claimed(store) == ["r1"]

    def test_a_run_that_got_stuck_in_its_undoing_goes_on_with_that(self, store: c.Store) -> None:
        run = self.hold(store)
        self.do(store, c.RequestCancel("r1", "enough"))
        self.advance(store, run, status=Status.STUCK, error=STUCK, keep=False)

        assert self.do(store, c.ResumeRun("r1")) is Status.CANCELLING
        assert self.claimed(store) == ["r1"]

    def test_only_a_stuck_run_is_resumed(self, store: c.Store) -> None:
        self.start(store, "pending")
        self.parked(store, "waiting")
        self.finish(store, self.hold(store, "completed"))

        for run_id in ("pending", "waiting"):
            with pytest.raises(IllegalMove):
                self.do(store, c.ResumeRun(run_id))
        with pytest.raises(RunFinished):
            self.do(store, c.ResumeRun("completed"))
        with pytest.raises(RunNotFound):
            self.do(store, c.ResumeRun("none"))

    def test_a_finished_run_is_replayed(self, store: c.Store) -> None:
        run = self.hold(store)
        self.advance(store, run)
        self.finish(store, run, Status.FAILED)

        assert self.do(store, c.ReplayRun("r1", [2])) is Status.PENDING

        again = self.get(store)
        assert (again.error, again.finished_at, again.cancel_reason, again.deadline) == (None, None, None, None)
        assert again.generation > run.generation
        assert self.kinds(store) == [Kind.MARKED, Kind.RUN_FAILED, Kind.RUN_REPLAYED]
        assert msgspec.json.decode(store.history("r1")[-1].data or b"") == {"void": [2]}
        assert self.claimed(store) == ["r1"]

    def test_only_a_finished_run_is_replayed(self, store: c.Store) -> None:
        self.start(store)

        with pytest.raises(RunNotFinished):
            self.do(store, c.ReplayRun("r1", []))
        with pytest.raises(RunNotFound):
            self.do(store, c.ReplayRun("none", []))

    def test_a_run_comes_from_elsewhere_as_it_was(self, store: c.Store, clock: HandClock) -> None:
        run = Run(
            id="r1", namespace="n", workflow="w", version="2", lane="l", capabilities=("gpu",), status=Status.FAILED, priority=4,
            input=b"[7]", generation=9, revision=3, crashes=1, created_at=5, key="k", error=b"{}", root_id="r0", parent_id="r0",
            parent_step="x", parent_index=2, on_parent_end="leave", forked_from="f", cancel_reason="c", started_at=6,
            finished_at=8, deadline=9,
        )  # fmt: skip
        events = [
            Event(Kind.STEP_COMPLETED, "a", b"1", attempt=2, started_at=6, at=7, seq=1),
            Event(Kind.RUN_FAILED, at=8, seq=2),
        ]
        parent = msgspec.structs.replace(
            run, id="r0", parent_id=None, root_id=None, key=None, parent_step=None, parent_index=None
        )

        self.do(store, c.ImportRun(parent, {}, []))
        self.do(store, c.ImportRun(run, {"a": "b"}, events, [Signal(1, "paid", b"5", at=7)]))

        assert self.get(store) == run
        assert (store.history("r1"), store.tags("r1")) == (events, {"a": "b"})
        assert [(signal.name, signal.payload, signal.at) for signal in store.signals("r1")] == [("paid", b"5", 7)]

    @pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING, Status.CANCELLING])
    def test_what_was_at_work_elsewhere_can_be_claimed_here(self, store: c.Store, status: Status) -> None:
        run = msgspec.structs.replace(self.foreign(status), session_id="there", generation=4)

        self.do(store, c.ImportRun(run, {}, []))

        (claimed,) = self.claim(store)
        assert (claimed.status is Status.CANCELLING, claimed.generation) == (status is Status.CANCELLING, 5)

    @pytest.mark.parametrize("status", [Status.PENDING, Status.WAITING, Status.CANCELLING])
    def test_what_waited_elsewhere_waits_here(self, store: c.Store, clock: HandClock, status: Status) -> None:
        waits = None if status is Status.PENDING else WAITS
        run = msgspec.structs.replace(self.foreign(status), waits=waits, wake_at=clock.now() + MINUTE)

        self.do(store, c.ImportRun(run, {}, []))

        assert (self.get(store).status, self.claimed(store)) == (status, [])
        clock.move(MINUTE)
        assert self.claimed(store) == ["r1"]

    def foreign(self, status: Status) -> Run:
        return Run(
            id="r1", namespace="n", workflow="w", version="2", lane="l", capabilities=(), status=status, priority=0, input=b"[]",
            generation=0, revision=0, crashes=0, created_at=5, started_at=6,
        )  # fmt: skip

    def test_a_run_that_is_here_already_is_not_imported(self, store: c.Store) -> None:
        self.start(store)
        before = self.get(store)

        with pytest.raises(RunExists):
            self.do(store, c.ImportRun(self.foreign(Status.FAILED), {"a": "b"}, [Event(Kind.MARKED, seq=1)]))

        assert (self.get(store), store.tags("r1"), store.history("r1")) == (before, {}, [])
        assert list(store.routes().values()) == [ROUTE]


class Copying(Bench):
    """All that one store holds can be written into another."""

    def furnish(self, store: c.Store) -> Run:
        """A parent that waits for a map of which one child is open, with tags, and with signals taken and not taken."""
        parent = self.hold(store, "r1", key="k", tags={"b": "2", "a": "1"})
        self.do(store, c.SignalRun("r1", "paid", b"1", key="taken"))
        self.do(store, c.SignalRun("r1", "paid", b"2", key="left"))
        first, _ = store.signals("r1")
        children = [self.child_of(parent, f"r1-{place}", parent_index=place) for place in range(2)]
        fanouts = [Fanout("call", 2, eager=False)]
        self.park(store, parent, children=children, fanouts=fanouts, taken=[first.id], revision=None)
        (child, _) = self.claim(store)
        self.finish(store, child)
        self.do(store, c.EndSession("s1", crashed=True))
        return self.get(store)

    def whole(self, store: c.Store) -> list[Dossier]:
        return store.dossiers("", 100, 1 << 20)

    def test_a_dossier_has_all_about_a_run(self, store: c.Store) -> None:
        parent = self.furnish(store)

        found = {one.run.id: one for one in self.whole(store)}

        one = found["r1"]
        assert list(found) == ["r1", "r1-0", "r1-1"]
        events = [msgspec.structs.replace(event, id=0) for event in one.events]
        assert (one.run, events, one.fanouts) == (parent, store.history("r1"), [Fanout("call", 1, eager=False)])
        assert list(one.tags.items()) == [("a", "1"), ("b", "2")]
        assert [(signal.payload, signal.key, signal.taken) for signal in one.signals] == [
            (b"1", "taken", True),
            (b"2", "left", False),
        ]
        assert (found["r1-1"].crash_seq, found["r1-1"].run.crashes, found["r1-1"].rank) == (1, 1, store.now())

    def test_dossiers_come_in_portions_of_so_many_and_so_much(self, store: c.Store) -> None:
        for place in range(5):
            self.start(store, f"r{place}", input=b"x" * 1000)

        def portion(after: str, limit: int, size: int) -> list[str]:
            return [one.run.id for one in store.dossiers(after, limit, size)]

        assert portion("", 2, 1 << 20) == ["r0", "r1"]
        assert portion("r1", 9, 2500) == ["r2", "r3"]
        assert portion("r3", 9, 10) == ["r4"]
        assert portion("r4", 9, 1 << 20) == []

    def test_what_is_written_from_dossiers_is_the_same_and_goes_on(self, store: c.Store, clock: HandClock) -> None:
        self.furnish(store)
        self.do(store, c.SetLane(Lane(name="l", concurrency=3, rate_limit=1, rate_per=MINUTE)))
        there, lanes = self.whole(store), store.lanes()
        self.execute(store, "DELETE FROM holdfast.run")

        self.do(store, c.BeginCopy(lanes))
        self.do(store, c.CopyRuns(there))
        self.do(store, c.EndCopy())

        here = self.whole(store)
        for one in (*there, *here):
            one.signals = [msgspec.structs.replace(signal, id=0) for signal in one.signals]
        assert (here, store.lanes()) == (there, lanes)
        assert self.do(store, c.SignalRun("r1", "paid", b"1", key="taken")).new is False
        assert self.start(store, "other", key="k").id == "r1"
        (child,) = self.claim(store)
        self.finish(store, child)
        assert (self.status(store), store.dossiers("", 1, 1)[0].fanouts) == (Status.PENDING, [Fanout("call", 0, eager=False)])

    def test_a_store_with_runs_takes_in_no_others(self, store: c.Store) -> None:
        self.start(store)
        self.do(store, c.SetLane(Lane(name="l", concurrency=3)))

        with pytest.raises(StoreNotEmpty):
            self.do(store, c.BeginCopy([]))

        assert (self.status(store), len(store.lanes()), store.is_half_copied()) == (Status.PENDING, 1, False)

    def test_a_copy_that_did_not_end_is_known_and_the_next_one_begins_anew(self, store: c.Store, reopen: OpenStore) -> None:
        self.do(store, c.BeginCopy([Lane(name="old", concurrency=1)]))
        self.do(store, c.CopyRuns([self.dossier("r1"), self.dossier("r2")]))
        assert store.is_half_copied() and reopen().is_half_copied()

        self.do(store, c.BeginCopy([]))
        assert (self.whole(store), store.lanes(), store.is_half_copied()) == ([], [], True)
        self.do(store, c.CopyRuns([self.dossier("r1")]))
        self.do(store, c.EndCopy())

        assert (store.is_half_copied(), store.counts()) == (False, {"pending": 1})

    def test_if_one_is_there_already_none_is_written(self, store: c.Store) -> None:
        self.start(store)

        with pytest.raises(RunExists):
            self.do(store, c.CopyRuns([self.dossier("r0"), self.dossier("r1")]))

        assert [one.run.id for one in self.whole(store)] == ["r1"]

    def dossier(self, run_id: str) -> Dossier:
        run = Run(
            id=run_id, namespace="n", workflow="w", version="2", lane="l", capabilities=(), status=Status.PENDING, priority=0,
            input=b"[]", generation=0, revision=0, crashes=0, created_at=5,
        )  # fmt: skip
        return Dossier(run, {"a": "b"}, [Event(Kind.MARKED, at=7, seq=1)], [Signal(1, "paid", b"5", at=7)], rank=5)


class Pruning(Bench):
    """What has ended long ago goes, whole trees at a time."""

    def prune(self, store: c.Store, clock: HandClock, **options: Any) -> c.Pruned:
        which = {"before": clock.now(), "statuses": ["completed", "failed", "cancelled", "expired", "skipped"], **options}
        pruned: c.Pruned = self.do(store, c.Prune(**which))
        return pruned

    def ended(self, store: c.Store, clock: HandClock, run_id: str, status: Status = Status.COMPLETED, **options: Any) -> None:
        self.finish(store, self.hold(store, run_id, **options), status)
        clock.move(1)

    def test_what_ended_before_goes_with_all_that_belongs_to_it(self, store: c.Store, clock: HandClock) -> None:
        run = self.hold(store, tags={"a": "b"}, key="k")
        self.do(store, c.SignalRun("r1", "paid", b"1"))
        self.finish(store, run)
        clock.move(1)
        self.start(store, "r2")

        assert self.prune(store, clock) == c.Pruned(runs=1, last=None)

        assert (store.run("r1"), store.history("r1"), store.signals("r1"), store.tags("r1")) == (None, [], [], {})
        assert self.start(store, "r3", key="k", input=b"[3]").created

    def test_what_ended_later_or_otherwise_or_elsewhere_stays(self, store: c.Store, clock: HandClock) -> None:
        self.ended(store, clock, "old", route=Route("mine", "greet", "1", "default"))
        self.ended(store, clock, "elsewhere")
        self.ended(store, clock, "failed", Status.FAILED, route=Route("mine", "greet", "1", "default"))
        before = clock.now()
        self.ended(store, clock, "late", route=Route("mine", "greet", "1", "default"))

        self.prune(store, clock, before=before, statuses=["completed"], namespace="mine")

        assert [run.id for run in store.runs(c.Filter())] == ["late", "failed", "elsewhere"]

    def test_a_tree_goes_when_all_of_it_has_ended(self, store: c.Store, clock: HandClock) -> None:
        parent = self.hold(store)
        self.advance(store, parent, children=[self.child_of(parent, "c1", session_id="s1", on_parent_end="leave")])
        child = self.get(store, "c1")
        self.advance(store, child, children=[self.child_of(child, "d1", session_id="s1", on_parent_end="leave")])
        self.finish(store, parent)
        self.finish(store, child)
        clock.move(1)

        assert self.prune(store, clock).runs == 0
        assert sum(store.counts().values()) == 3

        self.finish(store, self.get(store, "d1"))
        clock.move(1)
        assert self.prune(store, clock).runs == 3
        assert store.counts() == {}

    def test_a_tree_ended_when_the_last_of_it_ended(self, store: c.Store, clock: HandClock) -> None:
        parent = self.hold(store)
        self.advance(store, parent, children=[self.child_of(parent, "c1", session_id="s1", on_parent_end="leave")])
        self.finish(store, parent)
        clock.move(1)
        between = clock.now()
        self.finish(store, self.get(store, "c1"))
        clock.move(1)

        assert self.prune(store, clock, before=between).runs == 0
        assert self.prune(store, clock).runs == 2

    def test_it_goes_in_portions(self, store: c.Store, clock: HandClock) -> None:
        for number in range(5):
            self.ended(store, clock, f"r{number}")

        first = self.prune(store, clock, limit=2)
        second = self.prune(store, clock, limit=2, after=first.last)
        third = self.prune(store, clock, limit=2, after=second.last)

        assert [first, second, third] == [c.Pruned(2, "r1"), c.Pruned(2, "r3"), c.Pruned(1, None)]

    def test_a_tree_that_stays_does_not_stop_the_others_from_going(self, store: c.Store, clock: HandClock) -> None:
        parent = self.hold(store, "r0")
        self.advance(store, parent, children=[self.child_of(parent, "c1", on_parent_end="leave")])
        self.finish(store, parent)
        clock.move(1)
        self.ended(store, clock, "r1")

        first = self.prune(store, clock, limit=1)
        second = self.prune(store, clock, limit=1, after=first.last)

        assert [first, second] == [c.Pruned(0, "r0"), c.Pruned(1, "r1")]


class Transactional(Bench):
    """The body of a transactional step takes effect once, with its record."""

    @pytest.fixture(autouse=True)
    def notes(self, bare_store: c.Store) -> None:
        self.execute(bare_store, "CREATE TABLE note (text TEXT)")
        self.execute(bare_store, "CREATE TABLE noted (count INTEGER)")

    def write(self, connection: Any) -> bytes:
        connection.execute("INSERT INTO note (text) VALUES ('paid')")
        return b"7"

    def written(self, store: c.Store) -> int:
        """Count the notes, in a table that can be read back by starting nothing."""
        with self.transaction(store) as connection:
            return int(next(iter(connection.execute("SELECT COUNT(*) FROM note").fetchall()))[0])

    def test_its_effect_and_its_record_come_together(self, store: c.Store) -> None:
        run = self.hold(store)

        answer = self.advance(store, run, body=self.write)

        assert (answer.data, self.written(store)) == (b"7", 1)
        assert store.history("r1")[0].data == b"7"

    def test_an_error_in_it_leaves_no_trace(self, store: c.Store) -> None:
        run = self.hold(store)

        def explode(connection: Any) -> bytes:
            self.write(connection)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            self.advance(store, run, body=explode)

        assert (self.written(store), store.history("r1")) == (0, [])

    def test_an_error_in_it_does_not_harm_its_neighbours(self, store: c.Store) -> None:
        run, other = self.hold(store), self.hold(store, "r2")

        def explode(connection: Any) -> bytes:
            self.write(connection)
            connection.execute("INSERT INTO there_is_no_such_table (x) VALUES (1)")
            return b""

        def step(run: Run, body: Any) -> c.Advance:
            return c.Advance(run_id=run.id, generation=1, events=[Event(Kind.STEP_COMPLETED, "s", seq=1)], body=body)

        answers = store.apply([step(other, self.write), step(run, explode), c.StartRuns([self.new("r3")])])

        assert isinstance(answers[0], c.Advanced)
        assert isinstance(answers[1], Exception)
        assert answers[2][0].created
        assert (self.written(store), store.history("r1"), self.kinds(store, "r2")) == (1, [], [Kind.STEP_COMPLETED])

    def test_it_is_not_called_without_a_lease(self, store: c.Store) -> None:
        run = self.hold(store)
        self.do(store, c.EndSession("s1", crashed=True))
        called: list[object] = []

        def body(connection: object) -> bytes:
            called.append(connection)
            return b""

        with pytest.raises(LeaseLost):
            self.advance(store, run, body=body)

        assert called == []

    @pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK"])
    def test_it_cannot_end_the_transaction_that_it_is_called_in(self, store: c.Store, ending: str) -> None:
        run = self.hold(store)
        before = store.apply([c.StartRuns([self.new("r2")])])
        assert before[0][0].created

        def body(connection: Any) -> bytes:
            self.write(connection)
            connection.execute(ending)
            return b""

        ops: list[c.Transition] = [
            c.StartRuns([self.new("r3")]),
            c.Advance(run_id="r1", generation=run.generation, events=[Event(Kind.STEP_COMPLETED, "s", seq=1)], body=body),
            c.StartRuns([self.new("r4")]),
        ]
        answers = store.apply(ops)

        assert [isinstance(answer, HoldfastError) for answer in answers] == [False, True, False]
        assert (self.written(store), store.history("r1")) == (0, [])
        assert {"r3", "r4"} <= {found.id for found in store.runs(c.Filter())}


class Batches(Bench):
    """Many transitions, one transaction, one answer each."""

    def test_each_gets_its_own_answer(self, store: c.Store) -> None:
        self.open(store)
        self.start(store, "r1")

        answers = store.apply(
            [
                c.StartRuns([self.new("r2", session_id="s1")]),
                c.StartRuns([self.new("r1", input=b"[2]")]),
                c.SignalRun("none", "paid", b"1"),
                c.Advance(run_id="r2", generation=1, events=[Event(Kind.MARKED, seq=1)]),
                c.Advance(run_id="r2", generation=7, events=[Event(Kind.MARKED, seq=2)]),
                c.Beat("s1", MINUTE),
            ]
        )

        kinds = [type(answer) for answer in answers]
        assert kinds == [list, RunExists, RunNotFound, c.Advanced, LeaseLost, bool]
        assert self.kinds(store, "r2") == [Kind.MARKED]

    def test_none_is_no_trouble(self, store: c.Store) -> None:
        assert store.apply([]) == []

    def test_one_that_explodes_does_not_harm_its_neighbours(self, store: c.Store) -> None:
        run = self.hold(store)
        self.advance(store, run)

        answers = store.apply(
            [
                c.StartRuns([self.new("r2", route=Route("default", "new", "1", "default"))]),
                c.Advance(run_id="r1", generation=1, events=[Event(Kind.MARKED, seq=1)]),
                c.StartRuns([self.new("r3", route=Route("default", "new", "1", "default"))]),
                c.Advance(run_id="r1", generation=1, events=[]),
            ]
        )

        assert [isinstance(answer, Exception) for answer in answers] == [False, True, False, True]
        assert (self.status(store, "r2"), self.status(store, "r3")) == (Status.PENDING, Status.PENDING)
        assert self.kinds(store) == [Kind.MARKED]

    def test_one_that_explodes_alone_is_raised_and_leaves_nothing(self, store: c.Store) -> None:
        run = self.hold(store)
        twice = [Event(Kind.MARKED, seq=1), Event(Kind.MARKED, seq=1)]

        with pytest.raises(Exception):  # noqa: B017 - whatever the database says
            self.advance(store, run, events=twice)

        assert store.history("r1") == []
        self.advance(store, run)

    def test_what_was_told_before_is_not_forgotten_when_another_explodes(self, store: c.Store) -> None:
        run = self.hold(store)
        self.start(store, "r2")
        self.do(store, c.SignalRun("r1", "paid", b"1"))

        with pytest.raises(ValueError):
            self.advance(store, run, events=[])

        assert store.hints() == c.Hints(ready=True, runs={"r1"})

    def test_what_a_refused_one_would_have_told_is_not_told(self, store: c.Store) -> None:
        run = self.hold(store)
        self.start(store, "r2")
        store.hints()

        store.apply(
            [
                c.StartRuns([self.new("r3"), self.new("r2", input=b"[2]")]),
                c.Advance(run_id="r1", generation=9, status=Status.COMPLETED, events=[Event(Kind.RUN_COMPLETED, seq=1)]),
                c.Advance(run_id="r1", generation=9, status=Status.PENDING, keep=False),
                c.Advance(
                    run_id="r1", generation=run.generation, events=[Event(Kind.MARKED, seq=1)],
                    children=[self.child_of(run, "c1"), self.child_of(run, "r2", input=b"[2]")],
                ),
            ]
        )  # fmt: skip

        assert store.hints() == c.Hints()

    def test_hints_are_told_once(self, store: c.Store) -> None:
        self.start(store)

        assert (store.hints().ready, store.hints().ready) == (True, False)


class Looking(Bench):
    """Every answer is a committed state."""

    def test_what_is_not_there_is_none_or_empty(self, store: c.Store) -> None:
        assert (store.run("none"), store.history("none"), store.signals("none"), store.tags("none")) == (None, [], [], {})
        assert (store.children("none"), store.held("none"), store.knocks("none", 0)) == ([], [], [])
        assert (store.runs(c.Filter()), store.counts(), store.routes(), store.lanes()) == ([], {}, {}, [])
        assert store.next_wake() is None

    def test_runs_are_listed_from_new_to_old_page_by_page(self, store: c.Store) -> None:
        self.do(store, c.StartRuns([self.new(f"r{number}") for number in range(5)]))

        pages, before = [], None
        while page := store.runs(c.Filter(limit=2, before=before)):
            pages.append([run.id for run in page])
            before = page[-1].id

        assert pages == [["r4", "r3"], ["r2", "r1"], ["r0"]]

    def test_a_page_is_not_disturbed_by_what_comes_meanwhile(self, store: c.Store) -> None:
        self.do(store, c.StartRuns([self.new(f"r{number}") for number in range(4)]))
        first = store.runs(c.Filter(limit=2))
        self.start(store, "r9")

        assert [run.id for run in store.runs(c.Filter(limit=2, before=first[-1].id))] == ["r1", "r0"]

    def test_runs_are_found_by_what_is_known_of_them(self, store: c.Store, clock: HandClock) -> None:
        self.open(store, "s1", worker="ann")
        self.start(store, "r0", tags={"city": "Ulm", "kind": "a"})
        clock.move(MINUTE)
        self.start(store, "r1", route=Route("shop", "order", "1", "default"), tags={"city": "Ulm", "kind": "b"})
        self.start(store, "r2", session_id="s1", tags={"city": "Bonn"})
        parent = self.get(store, "r2")
        self.advance(store, parent, children=[self.child_of(parent, "r3")])
        self.do(store, c.RequestCancel("r0", "enough"))

        def found(**which: Any) -> list[str]:
            return [run.id for run in store.runs(c.Filter(**which))]

        assert found(namespace="shop") == ["r1"]
        assert found(workflow="greet") == ["r3", "r2", "r0"]
        assert found(statuses=["cancelled", Status.RUNNING]) == ["r2", "r0"]
        assert found(tags={"city": "Ulm"}) == ["r1", "r0"]
        assert found(tags={"city": "Ulm", "kind": "b"}) == ["r1"]
        assert found(since=clock.now()) == ["r3", "r2", "r1"]
        assert found(until=clock.now()) == ["r0"]
        assert found(worker="ann") == found(worker="s1") == ["r2"]
        assert found(parent_id="r2") == ["r3"]
        assert found(roots=True) == ["r2", "r1", "r0"]
        assert found(roots=True, workflow="greet", before="r2", limit=5) == ["r0"]
        assert found(tags={"city": "x' OR '1'='1"}) == []

    def test_runs_are_counted_by_status(self, store: c.Store) -> None:
        self.do(store, c.StartRuns([self.new("r1"), self.new("r2")]))
        self.hold(store, "r3")

        assert store.counts() == {"pending": 2, "running": 1}

    def test_the_next_instant_is_the_earliest_of_timers_and_deadlines(self, store: c.Store, clock: HandClock) -> None:
        now = clock.now()
        self.start(store, "r1", available_at=now + 3 * MINUTE)
        assert store.next_wake() == now + 3 * MINUTE
        self.start(store, "r2", deadline=now + 2 * MINUTE)
        assert store.next_wake() == now + 2 * MINUTE
        self.park(store, self.hold(store, "r3"), wake_at=now + MINUTE)
        assert store.next_wake() == now + MINUTE

    def test_another_process_sees_what_was_committed_and_that_something_was(
        self, store: c.Store, reopen: OpenStore, clock: HandClock
    ) -> None:
        other = reopen(clock)
        other.changed()
        assert not other.changed()

        self.start(store)

        assert (self.hears(other), other.changed()) == (True, False)
        assert other.run("r1") == store.run("r1")
        assert not other.hints().ready

    def test_what_this_process_commits_is_no_change_to_it(self, store: c.Store) -> None:
        store.changed()
        self.start(store)

        assert not store.changed()

    def test_what_one_session_touches_the_other_process_hears(self, store: c.Store, reopen: OpenStore, clock: HandClock) -> None:
        other = reopen(clock)
        self.hold(store)

        self.do(other, c.SignalRun("r1", "paid", b"1"))

        assert self.hears(store)
        assert [run_id for _, run_id in store.knocks("s1", 0)] == ["r1"]

    def test_the_facts_say_what_the_store_is(self, store: c.Store) -> None:
        facts = store.facts()

        assert facts["schema"]
        assert all(isinstance(name, str) for name in facts)


class Time(Bench):
    """The clock of a store never goes back."""

    @pytest.mark.parametrize("trace", ["event", "run", "session"])
    def test_it_is_never_behind_what_was_written(self, store: c.Store, reopen: OpenStore, clock: HandClock, trace: str) -> None:
        run = self.hold(store)
        clock.move(MINUTE)
        if trace == "event":
            self.advance(store, run)
        elif trace == "run":
            self.start(store, "r2")
        else:
            self.do(store, c.Beat("s1", MINUTE))

        other = reopen(HandClock(MORNING))

        assert other.now() >= MORNING + MINUTE

    def test_a_store_of_the_future_is_followed(self, store: c.Store, reopen: OpenStore) -> None:
        self.start(store)

        assert reopen(HandClock(MORNING + MINUTE)).now() == MORNING + MINUTE

    def test_the_clock_of_the_machine_goes_on(self, reopen: OpenStore) -> None:
        store = reopen()

        times = [store.now() for _ in range(1000)]

        assert times == sorted(times)


GATE = (
    "INSERT INTO holdfast.gate (id, run_id, step, status, prompt, terms, assignees, roles, opened_at, closed_at, choice)"
    " VALUES ('g', {}, 'gate', {}, 'ok?', '{{}}', '[]', '[]', 1, {}, {})"
)
ENTRY = "INSERT INTO holdfast.gate_entry (gate_id, number, run_id, kind, person, at, detail) VALUES"

BROKEN = {
    "a_run_that_can_be_claimed_is_pending_or_cancelling_and_held_by_nobody": "UPDATE holdfast.run SET rank = 1 WHERE id = 'held'",
    "a_run_that_can_be_claimed_waits_for_nothing": "UPDATE holdfast.run SET wake_at = 1 WHERE id = 'pending'",
    "a_pending_run_can_be_claimed_now_or_later": "UPDATE holdfast.run SET rank = NULL WHERE id = 'pending'",
    "a_run_that_is_being_cancelled_is_held_or_can_be_claimed_or_waits": (
        "UPDATE holdfast.run SET status = 'cancelling', rank = NULL WHERE id = 'pending'"
    ),
    "a_running_run_is_held": "UPDATE holdfast.run SET status = 'running', rank = NULL WHERE id = 'pending'",
    "a_held_run_is_at_work": "UPDATE holdfast.run SET status = 'blocked' WHERE id = 'held'",
    "a_held_run_is_held_by_a_session_that_exists": "DELETE FROM holdfast.session",
    "a_waiting_run_waits_for_something": "UPDATE holdfast.run SET waits = NULL WHERE id = 'waiting'",
    "a_finished_run_has_ended_and_only_that": "UPDATE holdfast.run SET finished_at = 1 WHERE id = 'pending'",
    "a_finished_run_holds_nothing": "UPDATE holdfast.run SET wake_at = 1 WHERE id = 'completed'",
    "a_completed_run_has_no_error": "UPDATE holdfast.run SET error = '{}' WHERE id = 'completed'",
    "a_run_that_did_not_complete_has_no_result": "UPDATE holdfast.run SET result = '1' WHERE id = 'pending'",
    "a_stuck_run_says_why": "UPDATE holdfast.run SET error = NULL WHERE id = 'stuck'",
    "a_run_at_work_has_a_generation": "UPDATE holdfast.run SET generation = 0 WHERE id = 'held'",
    "a_run_has_a_route": "UPDATE holdfast.run SET route_id = 99 WHERE id = 'pending'",
    "a_history_has_no_gaps": "UPDATE holdfast.event SET seq = 9 WHERE run_id = 'held' AND seq = 1",
    "an_event_belongs_to_a_run": (
        "INSERT INTO holdfast.event (run_id, seq, kind, attempt, at) VALUES ('none', 1, 'marked', 1, 1)"
    ),
    "a_step_completes_once": (
        "INSERT INTO holdfast.event (run_id, seq, kind, step, attempt, at) VALUES ('held', 2, 'step_completed', 'a', 1, 1)"
    ),
    "a_child_has_a_parent": "UPDATE holdfast.run SET parent_id = 'none' WHERE id = 'pending'",
    "a_signal_belongs_to_a_run": "INSERT INTO holdfast.signal (run_id, name, payload, at) VALUES ('none', 'paid', '1', 1)",
    "a_tag_belongs_to_a_run": "INSERT INTO holdfast.tag (name, value, run_id) VALUES ('a', 'b', 'none')",
    "a_fanout_counts_its_open_children": (
        "INSERT INTO holdfast.fanout (run_id, step, remaining, eager) VALUES ('held', 'map', 1, 0)"
    ),
    "what_began_of_late_is_numbered_one_after_another": (
        "INSERT INTO holdfast.admission (lane, share, at, number, count) VALUES ('x', '', 1, 1, 1), ('x', '', 2, 3, 1)"
    ),
    "a_gate_belongs_to_a_run": GATE.format("'none'", "'open'", "NULL", "NULL"),
    "an_open_gate_belongs_to_a_run_that_has_not_ended": GATE.format("'completed'", "'open'", "NULL", "NULL"),
    "a_gate_is_open_until_it_is_closed": GATE.format("'held'", "'approved'", "NULL", "'yes'"),
    "a_decided_gate_has_a_choice": GATE.format("'held'", "'approved'", "1", "NULL"),
    "an_open_gate_is_in_an_inbox_and_a_closed_one_is_not": GATE.format("'held'", "'open'", "NULL", "NULL"),
    "a_run_opens_a_gate_in_its_history": GATE.format("'held'", "'expired'", "1", "NULL"),
    "what_was_done_to_a_gate_belongs_to_it": f"{ENTRY} ('none', 1, 'held', 'expired', NULL, 1, '{{}}')",
    "a_person_decides_a_gate_once": (
        f"{ENTRY} ('g', 1, 'held', 'decided', 'ann', 1, '{{}}'), ('g', 2, 'held', 'decided', 'ann', 1, '{{}}')"
    ),
    "there_is_one_current_key_if_there_is_any": (
        "INSERT INTO holdfast.key (kid, secret, created_at, expires_at) VALUES ('k', 's', 1, 2)"
    ),
    **schedules.BROKEN,
    "a_payload_that_a_run_refers_to_is_there": "INSERT INTO holdfast.payload_use (run_id, digest) VALUES ('held', 'x')",
    "whoever_refers_to_a_payload_is_a_run": "INSERT INTO holdfast.payload_use (run_id, digest) VALUES ('nobody', 'x')",
    "a_part_belongs_to_a_payload": "INSERT INTO holdfast.payload_part (digest, part, data) VALUES ('x', 0, 'y')",
    "a_payload_has_all_its_parts": (
        "INSERT INTO holdfast.payload (digest, key, form, size, stored, parts, kept_at) VALUES ('x', '', 'p', 1, 1, 1, 1)"
    ),
    "somebody_refers_to_a_payload": (
        "INSERT INTO holdfast.payload (digest, key, form, size, stored, parts, kept_at) VALUES ('x', '', 'p', 0, 0, 0, 1)"
    ),
    "a_wait_belongs_to_a_run": "INSERT INTO holdfast.wait (run_id, step, name, opened_at) VALUES ('none', 'wait', 'paid', 1)",
    "a_wait_that_is_closed_says_by_what": "UPDATE holdfast.wait SET closed_at = 1",
    "a_wait_that_was_handed_out_has_a_key": "UPDATE holdfast.wait SET kid = NULL",
    "only_what_a_run_waits_for_needs_a_person": "UPDATE holdfast.wait SET escalated_at = 1",
    "a_signal_to_a_wait_belongs_to_the_run_of_that_wait": (
        "INSERT INTO holdfast.signal (run_id, name, payload, at, wait_id) VALUES ('waiting', 'paid', '1', 1, 'w1')"
    ),
    "no_two_signals_of_a_run_have_the_same_number": (
        "INSERT INTO holdfast.signal (run_id, name, payload, at, number)"
        " VALUES ('held', 'a', '1', 1, 1), ('held', 'b', '1', 1, 1)"
    ),
    **BROKEN_BUDGETS,
}
"""One way to break each law."""


class Laws(Bench):
    """``check`` finds what should never be."""

    def populate(self, store: c.Store) -> None:
        """One run of each kind, all lawful."""
        self.start(store, "pending")
        held = self.hold(store, "held")
        wait = Wait(run_id="held", step="create w", id="w1", name="w", kid="k1", opened_at=store.now())
        self.advance(store, held, events=[Event(Kind.STEP_COMPLETED, "a", b"1", seq=1)], opened=[wait])
        self.parked(store, "waiting", budgets=("tree:waiting",), limits=Limits({"tokens": 1}))
        self.stuck(store, "stuck")
        self.finish(store, self.hold(store, "completed"))
        self.do(store, c.SetSchedule(schedules.hourly()))

    def test_a_lawful_database_breaks_none(self, bare_store: c.Store) -> None:
        self.populate(bare_store)

        assert bare_store.check() == []

    @pytest.mark.parametrize("law", queries.laws())
    def test_each_broken_law_is_found(self, bare_store: c.Store, law: str) -> None:
        self.populate(bare_store)

        self.execute(bare_store, BROKEN[law])

        assert [found for found in bare_store.check() if found.startswith(law.replace("_", " ") + ":")]
