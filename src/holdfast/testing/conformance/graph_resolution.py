"""Conformance of graphs: resolution of member outcomes."""

from __future__ import annotations

from holdfast.core.graphs.builder import PLACE
from holdfast.core.sessions import Lane
from holdfast.core.status import Status
from holdfast.errors import (
    GraphExists,
)
from holdfast.store.database import Hints
from holdfast.store.graphs.operations import (
    ImportGraph,
    PruneGraphs,
    ResolvedGraphs,
    ResolveGraphs,
)
from holdfast.store.lanes.operations import SetLane
from holdfast.store.runs.operations import (
    Advance,
    Advanced,
    ExpireRuns,
    Heartbeat,
    RequestCancel,
)
from holdfast.store.store import Store
from holdfast.store.tasks.operations import OverrideRun
from holdfast.testing.conformance.fixture import MINUTE, HandClock
from holdfast.testing.conformance.graph_fixture import GraphFixture, compose, raise_error, refuse


class GraphResolutionConformance(GraphFixture):
    """The outcomes of members start, skip or cancel other members, and end the graph."""

    def test_results_are_there_before_a_dependent_starts(self, store: Store) -> None:
        place = {"$holdfast.result": "a"}
        self.stage_graph(
            store,
            self.new_member("a"),
            self.new_member("b", [(["a"], 1)], data=[place, 7], takes=["a"]),
        )
        self.end_members(store, "a")

        assert self.get(store, "g::b").input == b"[1,7]"
        assert self.member_states(store) == {"a": "completed", "b": "started"}

    def test_a_member_outcome_is_resolved_later_and_once(
        self, store: Store, clock: HandClock
    ) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]))
        (run,) = self.claim(store)
        store.hints()
        self.finish(store, run)

        assert store.hints().graphs
        assert store.runs.next_due().graph == clock.now()
        assert self.member_states(store)["a"] == "started"
        assert [born.run.id for born in self.resolve_graphs(store).born] == ["g::b"]
        assert self.resolve_graphs(store) == ResolvedGraphs([], more=False)
        assert store.runs.next_due().graph is None
        assert store.runs.next_due().at is None

    def test_a_group_needs_all_any_or_a_number_of_its_members(self, store: Store) -> None:
        ups = ["a", "b", "c"]
        needs = {"all": 3, "any": 1, "two": 2}
        groups = [self.new_member(name, [(ups, need)]) for name, need in needs.items()]
        self.stage_graph(store, *map(self.new_member, ups), *groups)

        self.end_members(store, "a")
        assert {name: self.member_states(store)[name] for name in needs} == {
            "all": "waiting",
            "any": "started",
            "two": "waiting",
        }
        self.end_members(store, "b", status=Status.FAILED)
        assert {name: self.member_states(store)[name] for name in needs} == {
            "all": "skipped",
            "any": "started",
            "two": "waiting",
        }
        self.end_members(store, "c", "any")
        assert {name: self.member_states(store)[name] for name in needs} == {
            "all": "skipped",
            "any": "completed",
            "two": "started",
        }
        self.end_members(store, "two")
        assert self.graph_status(store) == "failed"

    def test_a_group_fires_once(self, store: Store) -> None:
        self.stage_graph(
            store,
            self.new_member("a"),
            self.new_member("b"),
            self.new_member("z", [(["a", "b"], 1)]),
        )
        self.end_members(store, "a")
        self.end_members(store, "z")
        self.end_members(store, "b")

        assert self.graph_trail(store).count("member_started z") == 1
        assert self.graph_trail(store).count("group_satisfied z") == 1
        assert self.graph_status(store) == "completed"

    def test_a_member_whose_group_cannot_be_met_is_skipped_with_its_dependents(
        self, store: Store
    ) -> None:
        chain = [
            self.new_member(name, [([before], 1)])
            for before, name in (("a", "b"), ("b", "c"), ("c", "d"))
        ]
        self.stage_graph(store, self.new_member("a"), *chain)
        self.end_members(store, "a", status=Status.FAILED)

        assert self.member_states(store) == {
            "a": "failed",
            "b": "skipped",
            "c": "skipped",
            "d": "skipped",
        }
        assert self.graph_status(store) == "failed"
        graph = store.graphs.get("g")
        assert graph is not None and graph.summary == b'{"failed":1,"skipped":3}'
        assert store.hints().finished >= {"g"}

    def test_the_rest_of_a_group_is_cancelled_when_it_is_decided(self, store: Store) -> None:
        ups = ["a", "b", "c", "d"]
        late = self.new_member("late", [(["d"], 1)])
        self.stage_graph(
            store,
            *map(self.new_member, ups),
            late,
            self.new_member("z", [([*ups[:3], "late"], 1, "cancel")]),
        )
        self.claim(store, limit=2)
        self.finish(store, self.get(store, "g::a"))
        self.resolve_graphs(store)

        assert self.member_states(store)["z"] == "started"
        assert self.status(store, "g::b") == "cancelling"
        assert self.status(store, "g::c") == "cancelled"
        assert self.member_states(store)["late"] == "cancelled"
        self.resolve_graphs(store)
        assert self.member_states(store)["c"] == "cancelled"
        assert self.get(store, "g::d").finished_at is None

    def test_a_member_that_another_group_needs_is_not_cancelled(self, store: Store) -> None:
        other = self.new_member("other", [(["b"], 1)])
        self.stage_graph(
            store,
            self.new_member("a"),
            self.new_member("b"),
            self.new_member("z", [(["a", "b"], 1, "cancel")]),
            other,
        )
        self.end_members(store, "a")

        assert self.get(store, "g::b").cancel_reason is None
        self.end_members(store, "b")
        assert self.member_states(store)["other"] == "started"

    def test_a_member_may_wait_for_several_groups(self, store: Store) -> None:
        self.stage_graph(
            store,
            *map(self.new_member, ["a", "b", "c"]),
            self.new_member("z", [(["a"], 1), (["b", "c"], 1)]),
        )
        self.end_members(store, "b")
        assert self.member_states(store)["z"] == "waiting"
        self.end_members(store, "a")
        assert self.member_states(store)["z"] == "started"

    def test_many_graphs_are_resolved_together(self, store: Store) -> None:
        for number in range(5):
            self.stage_graph(
                store, self.new_member("a"), self.new_member("b", [(["a"], 1)]), graph=f"g{number}"
            )
        for run in self.claim(store):
            self.finish(store, run)

        assert len(self.resolve_graphs(store).born) == 5

    def test_outcomes_resolved_in_their_own_transaction_leave_none_in_the_outbox(
        self, store: Store
    ) -> None:
        first = self.new_member("a")
        second = self.new_member("b", [(["a"], 1)], data=[{PLACE: "a"}], takes=["a"])
        self.stage_graph(store, first, second)
        (run,) = self.claim(store)
        ends = Advance(
            run_id=run.id,
            generation=run.generation,
            status=Status.COMPLETED,
            result=b"7",
            graph_id=run.graph_id,
        )

        answers = store.apply([ends, ResolveGraphs(compose=compose)])

        assert [born.run.input for born in answers[1].born] == [b"[7]"]
        assert not store.hints().graphs
        assert self.resolve_graphs(store) == ResolvedGraphs([], more=False)
        assert store.check() == []

    def test_ends_of_the_same_batch_leave_the_outbox_to_the_next_call(self, store: Store) -> None:
        self.stage_graph(
            store,
            self.new_member("a"),
            self.new_member("b"),
            self.new_member("x", [(["a"], 1)]),
            self.new_member("y", [(["b"], 1)]),
        )
        runs = {run.id: run for run in self.claim(store)}
        self.finish(store, runs["g::a"], Status.COMPLETED)  # its outcome goes to the outbox
        ends = Advance(
            run_id="g::b",
            generation=runs["g::b"].generation,
            status=Status.COMPLETED,
            result=b"7",
            graph_id="g",
        )

        _, resolved = store.apply([ends, ResolveGraphs(compose=compose)])

        assert [born.run.id for born in resolved.born] == ["g::y"]
        assert resolved.more
        assert [born.run.id for born in self.resolve_graphs(store).born] == ["g::x"]

    def test_the_rest_of_a_group_that_has_not_begun_is_gone_at_once(self, store: Store) -> None:
        rest = [self.new_member(f"m{number}") for number in range(3)]
        self.stage_graph(
            store,
            self.new_member("a", priority=9),
            *rest,
            self.new_member("z", [(["a", "m0", "m1", "m2"], 1, "cancel")]),
        )
        (run,) = self.claim(store, limit=1)
        ends = Advance(
            run_id=run.id,
            generation=run.generation,
            status=Status.COMPLETED,
            result=b"7",
            graph_id=run.graph_id,
        )

        store.apply([ends, ResolveGraphs(compose=compose)])

        states = {
            "a": "completed",
            "m0": "cancelled",
            "m1": "cancelled",
            "m2": "cancelled",
            "z": "started",
        }
        assert self.member_states(store) == states
        assert self.resolve_graphs(store) == ResolvedGraphs([], more=False)
        assert store.check() == []

    def test_a_process_without_a_key_leaves_outcomes_of_its_transaction_in_the_outbox(
        self, store: Store
    ) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]))
        (run,) = self.claim(store)
        ends = Advance(
            run_id=run.id,
            generation=run.generation,
            status=Status.COMPLETED,
            result=b"7",
            graph_id=run.graph_id,
        )

        answers = store.apply([ends, ResolveGraphs(compose=refuse)])

        assert set(answers[1].left) == {"g"}
        assert [born.run.id for born in self.resolve_graphs(store).born] == ["g::b"]

    def test_an_error_during_resolution_does_not_affect_the_ends_of_its_batch(
        self, store: Store
    ) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]))
        (run,) = self.claim(store)
        store.hints()
        ends = Advance(
            run_id=run.id,
            generation=run.generation,
            status=Status.COMPLETED,
            result=b"7",
            graph_id=run.graph_id,
        )

        answers = store.apply([ends, ResolveGraphs(compose=raise_error), Heartbeat("s1", 1)])

        assert [type(answer) for answer in answers] == [Advanced, ZeroDivisionError, bool]
        assert store.hints() == Hints(finished={run.id}, graphs=True)
        assert [born.run.id for born in self.resolve_graphs(store).born] == ["g::b"]
        assert store.check() == []

    def test_the_last_runs_of_several_graphs_are_read_together(self, store: Store) -> None:
        for graph in ("g", "h"):
            self.stage_graph(
                store, self.new_member("a"), self.new_member("b", [(["a"], 1)]), graph=graph
            )
        self.end_members(store, "a")

        assert store.graphs.last_runs(["g", "h", "none"]) == [self.get(store, "g::b")]
        assert {graph.id for graph in store.graphs.by_id(["g", "none", "h"])} == {"g", "h"}

    def test_an_imported_graph_receives_the_outcomes_of_members_that_have_ended(
        self, store: Store
    ) -> None:
        self.stage_graph(store, self.new_member("a"))
        whole = store.graphs.snapshot("g")
        trail = store.graphs.events("g")
        assert whole is not None
        assert isinstance(store.apply([ImportGraph(whole, trail)])[0], GraphExists)
        self.end_members(store, "a")
        assert self.do(store, PruneGraphs(before=store.now() + 1)) == 1

        self.do(store, ImportGraph(whole, trail))

        assert (store.graphs.snapshot("g"), store.graphs.events("g")) == (whole, trail)
        self.resolve_graphs(store)
        assert self.graph_status(store) == "completed"
        assert store.check() == []

    def test_a_process_without_a_key_leaves_a_graph_to_other_processes(self, store: Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]))
        self.stage_graph(store, self.new_member("a"), graph="h")
        for run in self.claim(store):
            self.finish(store, run)

        left = self.do(store, ResolveGraphs(compose=refuse))
        assert list(left.left) == ["g"]
        assert self.graph_status(store, "h") == "completed"
        assert self.member_states(store) == {"a": "started", "b": "waiting"}
        assert [born.run.id for born in self.resolve_graphs(store).born] == ["g::b"]

    def test_a_lane_that_is_drained_lets_a_graph_go_on(self, store: Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]))
        self.claim(store)
        self.do(store, SetLane(Lane(name="default", draining=True)))
        self.finish(store, self.get(store, "g::a"))

        assert [born.run.id for born in self.resolve_graphs(store).born] == ["g::b"]

    def test_a_member_that_cannot_be_started_fails(self, store: Store) -> None:
        broken = self.new_member("b", [(["a"], 1)], budgets=("nobody's",))
        self.stage_graph(
            store,
            self.new_member("a"),
            broken,
            self.new_member("c", [(["b"], 1)]),
            self.new_member("d", [(["a"], 1)]),
        )
        self.end_members(store, "a")

        assert self.member_states(store) == {
            "a": "completed",
            "b": "failed",
            "c": "skipped",
            "d": "started",
        }

    def test_a_run_whose_id_only_looks_like_a_member_is_not_resolved(self, store: Store) -> None:
        run = self.hold(store, "nobody::x")
        self.finish(store, run)

        assert self.resolve_graphs(store).born == []
        assert store.runs.next_due().graph is None

    def test_a_graph_receives_the_outcome_of_a_member_that_ends_in_any_way(
        self, store: Store, clock: HandClock
    ) -> None:
        names = ["cancelled", "expired", "overridden"]
        members = [
            self.new_member(name, deadline=MINUTE if name == "expired" else None) for name in names
        ]
        self.stage_graph(store, *members, self.new_member("z", [(names, 1)]))
        self.do(store, RequestCancel("g::cancelled", "no"))
        clock.move(MINUTE)
        self.do(store, ExpireRuns())
        op = OverrideRun(
            run_id="g::overridden",
            namespace="default",
            status=Status.COMPLETED,
            reason="by hand",
            result=b"1",
        )
        self.do(store, op)
        self.resolve_graphs(store)

        assert self.member_states(store) == {
            "cancelled": "cancelled",
            "expired": "expired",
            "overridden": "completed",
            "z": "started",
        }
