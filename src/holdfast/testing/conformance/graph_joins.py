"""Conformance of graphs: runs that exist become members."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from holdfast.core.graphs.builder import PLACE
from holdfast.core.graphs.model import GraphPatch, JoiningRun, NewMember, run_of
from holdfast.core.status import Status
from holdfast.errors import (
    GraphFinished,
    HoldfastError,
    MemberElsewhere,
    MemberExists,
    RunNotFound,
)
from holdfast.store.graphs.operations import AddMembers, PruneGraphs, ReplayMember, StagedGraph
from holdfast.store.runs.operations import Prune, ReplayRun, StartChildren
from holdfast.store.store import Store
from holdfast.store.tasks.operations import CompleteLeases, TaskCompletion
from holdfast.testing.conformance.fixture import ROUTE, HandClock
from holdfast.testing.conformance.graph_fixture import GraphFixture, compose


class GraphJoinConformance(GraphFixture):
    """A run that exists joins a graph under a name, and its outcome counts once."""

    def join(
        self, store: Store, *joins: tuple[str, str], members: Sequence[NewMember] = ()
    ) -> StagedGraph:
        """Let runs join the graph, each by its name and its id."""
        patch = GraphPatch(tuple(members), (), tuple(JoiningRun(*join) for join in joins))
        op = AddMembers(graph_id="g", namespace="default", patch=patch, compose=compose)
        staged: StagedGraph = self.do(store, op)
        return staged

    def next_of_x(self) -> NewMember:
        return self.new_member("next", [(["x"], 1)], data=[{PLACE: "x"}], takes=["x"])

    def stage_with(self, store: Store, run_id: str) -> None:
        """Stage a graph whose member ``next`` takes the result of the run, which joins as x."""
        self.stage_graph(store, self.new_member("other", delay=10**12))
        self.join(store, ("x", run_id), members=[self.next_of_x()])

    def test_a_run_that_ends_later_resolves_its_graph(self, store: Store) -> None:
        self.start(store)
        self.stage_with(store, "r1")
        assert self.member_states(store) == {"other": "started", "x": "started", "next": "waiting"}
        self.claim(store)

        self.finish(store, self.get(store))
        self.resolve_graphs(store)

        assert self.member_states(store)["x"] == "completed"
        assert self.get(store, "g::next").input == b"[1]"
        assert self.get(store).graph_id == "g"
        assert "member_joined x" in self.graph_trail(store)

    def test_a_holder_that_does_not_know_of_the_graph_resolves_it_too(self, store: Store) -> None:
        held = self.hold(store)
        plain = self.hold(store, "r2")
        self.stage_with(store, "r1")
        self.join(store, ("y", "r2"))

        self.finish(store, held, graph_id=None)
        self.finish(store, plain, Status.FAILED, graph_id=None)
        self.resolve_graphs(store)

        states = self.member_states(store)
        assert (states["x"], states["y"], states["next"]) == ("completed", "failed", "started")

    def test_a_leased_task_that_is_completed_with_others_resolves_its_graph(
        self, store: Store
    ) -> None:
        held = [self.hold(store, name) for name in ("r1", "r2", "r3")]
        self.stage_with(store, "r2")

        done = [
            TaskCompletion(run.id, run.generation, len(store.runs.history(run.id)), b"7")
            for run in held
        ]
        assert self.do(store, CompleteLeases(done)) == [True, True, True]
        self.resolve_graphs(store)

        assert self.member_states(store)["x"] == "completed"
        assert self.get(store, "g::next").input == b"[7]"
        assert self.do(store, CompleteLeases(done)) == [False, False, False]

    @pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED])
    def test_a_run_that_has_ended_counts_at_once(self, store: Store, status: Status) -> None:
        self.finish(store, self.hold(store), status)

        self.stage_with(store, "r1")

        states = self.member_states(store)
        assert states["x"] == status.value
        assert states["next"] == ("started" if status is Status.COMPLETED else "skipped")

    def test_a_join_that_is_refused_leaves_no_trace(self, store: Store) -> None:
        parent = self.hold(store, "parent")
        child = self.child_of(parent, "child")
        self.advance(store, parent, effects=[StartChildren([child])])
        self.start(store, "elsewhere")
        self.stage_graph(store, self.new_member("own"), graph="h")
        self.stage_graph(store, self.new_member("own"))
        self.join(store, ("x", "elsewhere"))
        self.start(store, "foreign", route=msgspec.structs.replace(ROUTE, namespace="n2"))
        refusals: list[tuple[str, str, type[HoldfastError]]] = [
            ("a", "missing", RunNotFound),
            ("a", "foreign", RunNotFound),
            ("a", "child", MemberElsewhere),
            ("a", "h::own", MemberElsewhere),
            ("a", "g::own", MemberExists),
            ("a", "elsewhere", MemberExists),
            ("own", "parent", MemberExists),
        ]
        before = store.graphs.snapshot("g")

        for name, run_id, error in refusals:
            with pytest.raises(error):
                self.join(store, (name, run_id), members=[self.new_member("more")])
        with pytest.raises(MemberExists):
            self.join(store, ("a", "parent"), ("b", "parent"))

        assert store.graphs.snapshot("g") == before
        assert self.get(store, "parent").graph_id is None

    def test_a_run_belongs_to_one_graph(self, store: Store) -> None:
        self.start(store)
        self.stage_graph(store, self.new_member("own"), graph="h")
        self.stage_with(store, "r1")
        op = AddMembers(
            graph_id="h",
            namespace="default",
            patch=GraphPatch((), (), (JoiningRun("x", "r1"),)),
            compose=compose,
        )

        with pytest.raises(MemberElsewhere, match="it belongs to graph g") as refusal:
            self.do(store, op)

        assert refusal.value.facts["graph"] == "h"
        assert self.member_states(store, "h") == {"own": "started"}

    def test_a_repeated_join_changes_nothing(self, store: Store) -> None:
        self.finish(store, self.hold(store))
        self.stage_with(store, "r1")
        before = store.graphs.snapshot("g")

        again = self.join(store, ("x", "r1"))

        assert again.created is False
        assert store.graphs.snapshot("g") == before
        self.cancel_graph(store)
        self.resolve_graphs(store)
        assert self.join(store, ("x", "r1")).graph.status == "cancelled"
        self.start(store, "r2")
        with pytest.raises(GraphFinished):
            self.join(store, ("y", "r2"))

    def test_a_graph_stops_the_runs_that_have_joined_it(self, store: Store) -> None:
        begun = self.hold(store)
        self.start(store, "r2")
        self.stage_graph(store, self.new_member("own"))
        self.join(store, ("x", "r1"), ("y", "r2"))

        self.cancel_graph(store)

        assert self.get(store).status is Status.CANCELLING
        assert self.get(store, "r2").status is Status.CANCELLED
        assert self.member_states(store)["y"] == "cancelled"
        self.finish(store, begun, Status.FAILED)
        self.resolve_graphs(store)
        assert self.member_states(store)["x"] == "failed"
        assert self.graph_status(store) == "cancelled"

    def test_the_rest_of_a_group_may_be_a_joined_run(self, store: Store) -> None:
        self.hold(store)
        self.finish(store, self.hold(store, "r2"))
        self.stage_graph(store, self.new_member("own", delay=10**12))
        first = self.new_member("first", [(["x", "y"], 1, "cancel")])

        self.join(store, ("x", "r1"), ("y", "r2"), members=[first])

        assert self.member_states(store)["first"] == "started"
        assert self.get(store).status is Status.CANCELLING

    def test_a_joined_run_is_replayed_with_its_graph(self, store: Store) -> None:
        self.finish(store, self.hold(store), Status.FAILED)
        self.stage_with(store, "r1")
        assert self.member_states(store)["next"] == "skipped"
        op = ReplayMember(
            graph_id="g",
            namespace="default",
            name="x",
            roots=["x"],
            replays={run_of("g", "x"): ReplayRun("r1", [])},
            compose=compose,
        )

        self.do(store, op)

        assert self.get(store).status is Status.PENDING
        assert self.member_states(store)["next"] == "waiting"
        self.claim(store)
        self.finish(store, self.get(store))
        self.resolve_graphs(store)
        assert self.member_states(store)["next"] == "started"

    def test_a_joined_run_stays_as_long_as_its_graph(self, store: Store, clock: HandClock) -> None:
        self.finish(store, self.hold(store))
        self.stage_with(store, "r1")
        clock.advance(10)

        self.do(store, Prune(clock.now(), [Status.COMPLETED]))
        assert self.get(store).graph_id == "g"

        self.cancel_graph(store)
        self.resolve_graphs(store)
        clock.advance(10)
        self.do(store, PruneGraphs(clock.now()))
        self.do(store, Prune(clock.now(), [Status.COMPLETED]))
        assert store.runs.get("r1") is None

    def test_a_run_of_a_deleted_graph_can_join_another(
        self, store: Store, clock: HandClock
    ) -> None:
        self.finish(store, self.hold(store))
        self.stage_graph(store, self.new_member("own"))
        self.join(store, ("x", "r1"))
        self.end_members(store, "own")
        clock.advance(10)
        self.do(store, PruneGraphs(clock.now()))

        self.stage_graph(store, self.new_member("own2"), fingerprint="2")
        self.join(store, ("z", "r1"))

        assert self.member_states(store)["z"] == "completed"
