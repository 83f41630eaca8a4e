"""Conformance of starts: ids and keys, leases at start, delays, and user transactions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.runs import Route
from holdfast.core.sessions import Lane
from holdfast.core.status import Status
from holdfast.errors import RunExists
from holdfast.store.database import Started
from holdfast.store.lanes.operations import SetLane
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import Claim, EndSession, StartRuns
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import MINUTE, ROUTE, SECOND, HandClock, StoreFixture


class StartConformance(StoreFixture):
    """A run is created once per id and once per key."""

    def test_a_started_run_is_as_it_was_ordered(self, store: Store, clock: HandClock) -> None:
        route = Route("shop", "order", "7", "slow", ("gpu", "net"))
        tags = {"customer": "ann", "city": "Ulm"}

        started = self.start(
            store,
            route=route,
            input=b'{"n":2}',
            priority=3,
            key="k",
            tags=tags,
            deadline=clock.now() + MINUTE,
        )

        run = self.get(store)
        assert started == Started(id="r1", created=True, leased=False, now=clock.now())
        assert (
            run.namespace,
            run.workflow,
            run.version,
            run.lane,
            run.capabilities,
        ) == msgspec.structs.astuple(route)
        assert (run.status, run.generation, run.revision, run.crashes) == (Status.PENDING, 0, 0, 0)
        assert (run.input, run.priority, run.key, run.deadline) == (
            b'{"n":2}',
            3,
            "k",
            clock.now() + MINUTE,
        )
        assert (run.created_at, run.started_at, run.finished_at, run.session_id) == (
            clock.now(),
            None,
            None,
            None,
        )
        assert store.runs.tags("r1") == tags

    def test_the_same_id_with_the_same_input_is_the_same_run(self, store: Store) -> None:
        self.start(store)
        again = self.start(store)

        assert (again.id, again.created, again.leased) == ("r1", False, False)
        assert store.runs.counts() == {"pending": 1}

    def test_the_same_id_with_other_input_is_refused_and_changes_nothing(
        self, store: Store
    ) -> None:
        self.start(store)
        before = self.get(store)

        with pytest.raises(RunExists):
            self.start(store, input=b"[2]", tags={"a": "b"})

        assert self.get(store) == before
        assert store.runs.tags("r1") == {}

    def test_the_same_id_for_another_workflow_is_refused_and_leaves_no_route(
        self, store: Store
    ) -> None:
        self.start(store)

        with pytest.raises(RunExists):
            self.start(store, route=Route("default", "other", "1", "default"))

        assert list(store.runs.routes().values()) == [ROUTE]

    def test_the_same_id_for_another_version_is_the_same_run(self, store: Store) -> None:
        self.start(store)

        assert not self.start(store, route=Route("default", "greet", "2", "default")).created
        assert self.get(store).version == "1"

    def test_the_same_key_with_the_same_input_is_the_same_run_whatever_its_id(
        self, store: Store
    ) -> None:
        self.start(store, key="k")
        again = self.start(store, "r2", key="k")

        assert (again.id, again.created) == ("r1", False)
        assert store.runs.get("r2") is None

    def test_the_same_key_with_other_input_is_refused(self, store: Store) -> None:
        self.start(store, key="k")

        with pytest.raises(RunExists) as refused:
            self.start(store, "r2", key="k", input=b"[2]")

        assert refused.value.facts == {"run": "r1", "key": "k"}
        assert store.runs.get("r2") is None

    def test_a_key_belongs_to_its_namespace_and_workflow(self, store: Store) -> None:
        routes = [
            ROUTE,
            Route("other", "greet", "1", "default"),
            Route("default", "order", "1", "default"),
        ]
        for number, route in enumerate(routes):
            assert self.start(
                store, f"r{number}", key="k", route=route, input=b"[%d]" % number
            ).created

        assert [self.get(store, f"r{number}").key for number in range(3)] == ["k", "k", "k"]

    def test_a_key_is_kept_by_a_run_that_has_ended(self, store: Store) -> None:
        self.finish(store, self.hold(store, key="k"))

        assert self.start(store, "r2", key="k").id == "r1"

    def test_a_refusal_in_the_middle_of_many_leaves_none_of_them(self, store: Store) -> None:
        self.start(store, "r2")
        store.hints()
        new_route = Route("default", "greet", "2", "default")
        many = [
            self.new("r1", tags={"a": "b"}, route=new_route),
            self.new("r2", input=b"[2]"),
            self.new("r3"),
        ]

        with pytest.raises(RunExists):
            self.do(store, StartRuns(many))

        assert store.runs.counts() == {"pending": 1}
        assert store.runs.tags("r1") == {}
        assert list(store.runs.routes().values()) == [ROUTE]
        assert not store.hints().ready

    def test_a_route_that_came_with_a_refused_start_can_be_used_later(self, store: Store) -> None:
        self.start(store, "r2")
        routes = [Route("default", "greet", version, "default") for version in ("2", "3")]
        with pytest.raises(RunExists):
            self.do(
                store, StartRuns([self.new("r1", route=routes[0]), self.new("r2", input=b"[2]")])
            )

        self.start(store, "r3", route=routes[1])
        self.start(store, "r4", route=routes[0])

        assert (self.get(store, "r3").version, self.get(store, "r4").version) == ("3", "2")

    def test_in_a_start_of_many_existing_runs_are_recognised_and_the_others_are_new(
        self, store: Store
    ) -> None:
        self.open(store)
        self.start(store, "r2")

        many = [
            self.new("r1", tags={"a": "b"}, session_id="s1"),
            self.new("r2", session_id="s1"),
            self.new("r3"),
        ]
        answers = self.do(store, StartRuns(many))

        assert [(answer.created, answer.leased) for answer in answers] == [
            (True, True),
            (False, False),
            (True, False),
        ]
        assert store.runs.tags("r1") == {"a": "b"}
        assert store.hints().ready

    def test_the_same_run_twice_among_many_is_one_run(self, store: Store) -> None:
        answers = self.do(
            store,
            StartRuns([self.new("r1", key="k"), self.new("r2", key="k"), self.new("r1", key="k")]),
        )

        assert [(answer.id, answer.created) for answer in answers] == [
            ("r1", True),
            ("r1", False),
            ("r1", False),
        ]

    def test_in_a_start_of_twenty_runs_the_existing_one_is_recognised(self, store: Store) -> None:
        self.start(store, "r05")

        answers = self.do(store, StartRuns([self.new(f"r{number:02}") for number in range(20)]))

        assert [answer.id for answer in answers if not answer.created] == ["r05"]
        assert len(store.runs.find(RunFilter(limit=100))) == 20

    def test_a_run_that_is_leased_at_start_is_running(self, store: Store, clock: HandClock) -> None:
        self.open(store)

        started = self.start(store, session_id="s1")

        run = self.get(store)
        assert started.leased
        assert (run.status, run.generation, run.session_id, run.started_at) == (
            Status.RUNNING,
            1,
            "s1",
            clock.now(),
        )
        assert store.sessions.held_by("s1") == [("r1", 1, 0)]
        assert self.claimed(store, "s2") == []

    def test_a_run_is_not_leased_at_start_to_an_ended_session(self, store: Store) -> None:
        self.open(store)
        self.do(store, EndSession("s1", crashed=True))

        assert not self.start(store, session_id="s1").leased
        assert self.claimed(store, "s2") == ["r1"]

    @pytest.mark.parametrize(
        "limits",
        [
            {"concurrency": 2},
            {"rate_limit": 2, "rate_per": SECOND},
            {"per_share": 2},
            {"share_rate_limit": 2, "share_rate_per": SECOND},
        ],
    )
    def test_runs_are_leased_at_start_within_the_limits_of_their_lane(
        self, store: Store, limits: dict[str, Any]
    ) -> None:
        self.open(store)
        self.do(store, SetLane(Lane(name="default", **limits)))
        for name, leased in (("r1", True), ("r2", True), ("r3", False)):
            assert self.start(store, name, session_id="s1", share="a").leased is leased, name

        assert not self.start(
            store, "r4", session_id="s1", share="b"
        ).leased  # a new run does not overtake runs that wait
        assert [self.status(store, name) for name in ("r1", "r3")] == [
            Status.RUNNING,
            Status.PENDING,
        ]
        assert self.claimed(store, "s1") == (
            ["r4"] if "concurrency" not in limits and "rate_limit" not in limits else []
        )

    def test_runs_that_do_not_all_fit_into_their_lane_are_all_queued(self, store: Store) -> None:
        self.open(store)
        self.do(store, SetLane(Lane(name="default", concurrency=2)))
        started = self.do(store, StartRuns([self.new(f"r{n}", session_id="s1") for n in range(3)]))

        assert [answer.leased for answer in started] == [False] * 3
        assert self.claimed(store, "s1") == ["r0", "r1"]

    def test_starting_an_existing_run_does_not_count_towards_the_rate(
        self, store: Store, clock: HandClock
    ) -> None:
        self.open(store)
        self.do(store, SetLane(Lane(name="default", rate_limit=2, rate_per=MINUTE)))
        for _ in range(3):
            self.start(store, "r1", session_id="s1")

        assert self.start(
            store, "r2", session_id="s1"
        ).leased  # the second run that the rate admits
        assert not self.start(store, "r3", session_id="s1").leased
        clock.move(MINUTE)
        assert self.claimed(store, "s1") == ["r3"]

    def test_no_run_is_leased_at_start_in_a_paused_lane(self, store: Store) -> None:
        self.open(store)
        self.do(store, SetLane(Lane(name="default", paused=True)))

        assert not self.start(store, session_id="s1").leased
        assert self.status(store) is Status.PENDING

    def test_an_empty_claim_says_whether_runs_wait_for_their_lane(self, store: Store) -> None:
        self.open(store)
        self.do(store, SetLane(Lane(name="default", per_share=1)))
        routes = [(1, "default")]
        assert not self.do(store, Claim("s1", routes, 10)).behind
        assert self.start(store, "r1", session_id="s1", share="a").leased
        self.start(store, "r2", share="a")
        routes = [(number, route.lane) for number, route in store.runs.routes().items()]

        claimed = self.do(store, Claim("s1", routes, 10))
        assert (claimed, claimed.behind) == ([], True)
        self.finish(store, self.get(store, "r1"))
        assert [run.id for run in self.do(store, Claim("s1", routes, 10))] == ["r2"]
        assert not self.do(store, Claim("s1", routes, 10)).behind

    def test_a_delayed_run_can_be_claimed_when_its_time_has_come(
        self, store: Store, clock: HandClock
    ) -> None:
        self.open(store)
        started = self.start(store, available_at=clock.now() + MINUTE, session_id="s1")

        assert not started.leased
        assert store.runs.next_wake() == clock.now() + MINUTE
        assert self.claimed(store) == []
        clock.move(MINUTE)
        assert self.claimed(store) == ["r1"]

    def test_a_delay_that_has_passed_has_no_effect(self, store: Store, clock: HandClock) -> None:
        self.start(store, available_at=clock.now())

        assert store.runs.next_wake() is None
        assert self.claimed(store) == ["r1"]

    def test_a_route_is_the_same_for_any_order_of_its_capabilities(self, store: Store) -> None:
        for number, capabilities in enumerate([("b", "a"), ("a", "b"), ("a",), ()]):
            self.start(
                store, f"r{number}", route=Route("default", "greet", "1", "default", capabilities)
            )

        assert [route.capabilities for route in store.runs.routes().values()] == [
            ("a", "b"),
            ("a",),
            (),
        ]

    def test_a_start_gives_a_hint_if_a_worker_should_claim(self, store: Store) -> None:
        self.hold(store)
        assert not store.hints().ready

        self.start(store, "r2")
        assert store.hints().ready


class UserTransactionConformance(StoreFixture):
    """Runs are created in a transaction of the caller: they exist if and only if it commits."""

    def test_runs_exist_when_the_caller_has_committed(self, store: Store) -> None:
        with self.transaction(store) as connection:
            answers = store.start_within(
                connection, [self.new("r1", tags={"a": "b"}), self.new("r2")]
            )
            assert store.runs.get("r1") is None

        assert [(answer.id, answer.created) for answer in answers] == [("r1", True), ("r2", True)]
        assert store.runs.tags("r1") == {"a": "b"}
        assert self.claimed(store) == ["r1", "r2"]
        assert self.notices_commit(store)

    def test_nothing_is_left_when_the_caller_rolls_back(self, store: Store) -> None:
        with pytest.raises(KeyError), self.transaction(store) as connection:
            store.start_within(
                connection, [self.new("r1", route=Route("default", "order", "1", "default"))]
            )
            raise KeyError

        assert (store.runs.counts(), store.runs.routes()) == ({}, {})

    def test_a_run_started_in_a_user_transaction_is_not_leased(self, store: Store) -> None:
        self.open(store)

        with self.transaction(store) as connection:
            assert not store.start_within(connection, [self.new(session_id="s1")])[0].leased

        assert self.status(store) is Status.PENDING

    def test_a_run_that_exists_is_recognised(self, store: Store) -> None:
        self.start(store, key="k")

        with self.transaction(store) as connection:
            answer = store.start_within(connection, [self.new("r2", key="k")])[0]

        assert (answer.id, answer.created) == ("r1", False)

    def test_a_refused_start_leaves_the_transaction_of_the_caller_as_it_was(
        self, store: Store
    ) -> None:
        self.start(store, "r2")

        with self.transaction(store) as connection:
            store.start_within(connection, [self.new("r1")])
            with pytest.raises(RunExists):
                store.start_within(connection, [self.new("r3"), self.new("r2", input=b"[2]")])

        assert store.runs.counts() == {"pending": 2}
        assert store.runs.get("r3") is None
