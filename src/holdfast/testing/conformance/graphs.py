"""Conformance of graphs: staging and extension."""

from __future__ import annotations

import pytest

from holdfast.core.graphs.model import (
    GraphPatch,
    NewGroup,
)
from holdfast.core.sessions import Lane
from holdfast.core.status import Status
from holdfast.errors import (
    GraphChanged,
    GraphCycle,
    GraphExists,
    GraphFinished,
    GraphNotFound,
    LaneDraining,
    MemberElsewhere,
    MemberExists,
    MemberNotFound,
    MemberStarted,
)
from holdfast.store.graphs.operations import (
    AddMembers,
)
from holdfast.store.lanes.operations import SetLane
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import HandClock
from holdfast.testing.conformance.graph_fixture import GraphFixture, compose


class GraphStageConformance(GraphFixture):
    """A graph or an extension is written as a whole or refused as a whole."""

    def test_members_without_dependencies_are_started_and_the_others_are_rows(
        self, store: Store, clock: HandClock
    ) -> None:
        staged = self.stage_graph(
            store, self.new_member("a", data=[1]), self.new_member("b", [(["a"], 1)])
        )

        assert [born.run.id for born in staged.born] == ["g::a"]
        assert self.member_states(store) == {"a": "started", "b": "waiting"}
        assert self.get(store, "g::a").input == b"[1]"
        assert store.runs.get("g::b") is None
        graph = store.graphs.get("g")
        assert graph is not None
        assert (graph.status, graph.revision, graph.members, graph.live) == ("running", 1, 2, 2)
        assert graph.created_at == clock.now()
        assert self.graph_trail(store) == ["graph_started", "member_started a"]

    def test_members_can_be_leased_at_start(self, store: Store) -> None:
        self.open(store)
        staged = self.stage_graph(store, self.new_member("a"), lease=lambda route: "s1")

        assert [born.started.leased for born in staged.born] == [True]
        assert self.get(store, "g::a").session_id == "s1"

    def test_the_same_graph_is_started_once_and_another_one_is_refused(self, store: Store) -> None:
        self.stage_graph(store, self.new_member("a"))

        assert not self.stage_graph(store, self.new_member("a")).created
        with pytest.raises(GraphExists):
            self.stage_graph(store, self.new_member("b"), fingerprint="another")
        assert self.member_states(store) == {"a": "started"}

    def test_a_refused_graph_leaves_nothing_behind(self, store: Store) -> None:
        with pytest.raises(GraphCycle):
            self.stage_graph(
                store,
                self.new_member("c"),
                self.new_member("a", [(["b"], 1)]),
                self.new_member("b", [(["a"], 1)]),
            )
        self.start(store, "g::a")
        with pytest.raises(MemberElsewhere):
            self.stage_graph(store, self.new_member("a"))
        self.do(store, SetLane(Lane(name="default", draining=True)))
        with pytest.raises(LaneDraining):
            self.stage_graph(store, self.new_member("b"))
        assert store.graphs.get("g") is None
        assert (
            store.installation.rows().keys()
            & {"graph", "graph_member", "graph_edge", "graph_event"}
            == set()
        )

    def test_the_id_of_a_member_that_another_run_has_is_refused_even_if_it_waits(
        self, store: Store
    ) -> None:
        self.start(store, "g::b")
        with pytest.raises(MemberElsewhere, match="g::b"):
            self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]))
        assert store.graphs.get("g") is None

    def test_a_graph_is_extended_while_it_runs(self, store: Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("z", [(["a"], 1)]))
        self.end_members(store, "a")
        grown = self.extend_graph(
            store,
            self.new_member("b", [(["a"], 1)]),
            self.new_member("c", [(["b", "z"], 2)]),
            revision=1,
        )

        assert (grown.graph.revision, [born.run.id for born in grown.born]) == (2, ["g::b"])
        self.end_members(store, "b", "z")
        self.end_members(store, "c")
        assert self.graph_status(store) == "completed"

    def test_a_member_that_waits_can_be_made_to_wait_for_more(self, store: Store) -> None:
        self.stage_graph(
            store, self.new_member("a"), self.new_member("b"), self.new_member("z", [(["a"], 1)])
        )
        self.extend_graph(store, more=[("z", NewGroup(("b",), 1))])
        self.end_members(store, "a")

        assert self.member_states(store)["z"] == "waiting"
        self.end_members(store, "b")
        assert self.member_states(store)["z"] == "started"

    def test_a_stale_revision_is_told_apart_from_a_finished_graph(self, store: Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("z", [(["a"], 1)]))
        self.extend_graph(store, self.new_member("b"), revision=1)
        with pytest.raises(GraphChanged) as stale:
            self.extend_graph(store, self.new_member("c"), revision=1)
        assert stale.value.facts == {"graph": "g", "expected": 1, "actual": 2}
        self.end_members(store, "a", "b")
        self.end_members(store, "z")
        with pytest.raises(GraphFinished):
            self.extend_graph(store, self.new_member("c"), revision=1)
        assert self.member_states(store) == {"a": "completed", "b": "completed", "z": "completed"}

    def test_members_that_cannot_be_added_are_refused_by_name(self, store: Store) -> None:
        self.stage_graph(
            store,
            self.new_member("a"),
            self.new_member("y", [(["a"], 1)]),
            self.new_member("z", [(["y"], 1)]),
        )
        before = (self.member_states(store), self.graph_trail(store))

        with pytest.raises(MemberStarted):
            self.extend_graph(store, self.new_member("b"), more=[("a", NewGroup(("b",), 1))])
        with pytest.raises(GraphCycle):
            self.extend_graph(store, more=[("y", NewGroup(("z",), 1))])
        with pytest.raises(MemberExists):
            self.extend_graph(store, self.new_member("a"))
        with pytest.raises(MemberNotFound):
            self.extend_graph(store, self.new_member("b", [(["nobody"], 1)]))
        with pytest.raises(GraphNotFound):
            patch = GraphPatch((self.new_member("b"),))
            self.do(
                store, AddMembers(graph_id="g", namespace="other", patch=patch, compose=compose)
            )
        assert (self.member_states(store), self.graph_trail(store)) == before

    def test_an_added_member_that_can_never_start_is_skipped_at_once(self, store: Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b"))
        self.end_members(store, "a", status=Status.FAILED)
        self.extend_graph(
            store, self.new_member("c", [(["a"], 1)]), self.new_member("d", [(["c"], 1)])
        )

        assert self.member_states(store) == {
            "a": "failed",
            "b": "started",
            "c": "skipped",
            "d": "skipped",
        }
