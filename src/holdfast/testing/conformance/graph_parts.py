"""Conformance of graphs with very many members: staged in invisible parts; started, resolved and
deleted in portions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.core.graphs.model import GraphPatch, NewMember
from holdfast.core.sessions import Lane
from holdfast.core.status import Status
from holdfast.errors import (
    BudgetNotFound,
    GraphBusy,
    GraphChanged,
    GraphExists,
    LaneDraining,
    MemberElsewhere,
)
from holdfast.store.graphs import portions, sweep
from holdfast.store.graphs.operations import (
    AddMembers,
    GraphStage,
    PreparedMember,
    StagedGraph,
    StageGraphs,
    SweepStages,
    WriteStagePart,
)
from holdfast.store.graphs.queued_writes import QueuedWrites
from holdfast.store.lanes.operations import SetLane
from holdfast.store.runs.copy_operations import STAGE_TTL
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import HandClock, OpenStore
from holdfast.testing.conformance.graph_fixture import GraphFixture, compose

DAMAGE = {
    "the state of a member that ends": (
        "graph_member",
        "state",
        "'odd'",
        "'started'",
        "run_id = 'g::a'",
    ),
    "the state of a member that waits": (
        "graph_member",
        "state",
        "'odd'",
        "'waiting'",
        "run_id = 'g::b'",
    ),
    "the specification of a member": (
        "graph_member",
        "spec",
        "input",
        "(SELECT spec FROM holdfast.graph_member WHERE run_id = 'h::b')",
        "run_id = 'g::b'",
    ),
    "the state of a group": ("graph_group", "state", "'odd'", "'open'", "run_id = 'g::b'"),
    "the status of a graph": ("graph", "status", "'odd'", "'running'", "id = 'g'"),
}
"""Damage by name: table, column, invalid value, valid value, and the condition of the row."""


class GraphPortionConformance(GraphFixture):
    """The members of a stage are invisible until all of them become visible in one commit."""

    def stage_part(
        self,
        store: Store,
        *members: NewMember,
        written: int = 0,
        extends: str | None = None,
        outside: Sequence[str] = (),
        stage: str = "g::stage",
        graph: str = "g",
    ) -> int:
        op = WriteStagePart(
            stage_id=stage,
            namespace="default",
            members=[(graph, member) for member in members],
            written=written,
            extends=extends,
            outside=outside,
        )
        count: int = self.do(store, op)
        return count

    def begin_staged_graph(
        self, store: Store, members: int, *, fingerprint: str = "f", **named: Any
    ) -> StagedGraph:
        stage = GraphStage(
            id="g", namespace="default", name="test", fingerprint=fingerprint, patch=GraphPatch(())
        )
        prepared = PreparedMember("g::stage", {"g": members}, **named)
        staged: list[StagedGraph] = self.do(
            store, StageGraphs(stages=[stage], compose=compose, prepared=prepared)
        )
        return staged[0]

    def extend_prepared(
        self, store: Store, members: int, revision: int = 1, **named: Any
    ) -> StagedGraph:
        prepared = PreparedMember("g::stage", {"g": members}, **named)
        op = AddMembers(
            graph_id="g",
            namespace="default",
            patch=GraphPatch(()),
            compose=compose,
            revision=revision,
            prepared=prepared,
        )
        staged: StagedGraph = self.do(store, op)
        return staged

    def resolve_all(self, store: Store) -> list[str]:
        """Resolve graphs until no outcome is left; return the ids of the runs that were started."""
        run_ids: list[str] = []
        while True:
            resolved = self.resolve_graphs(store)
            run_ids += [started.run.id for started in resolved.born]
            if not resolved.more:
                return run_ids

    def sweep_all(self, store: Store, stage: str | None = None) -> int:
        count = 0
        while self.do(store, SweepStages(stage)):
            count += 1
        return count

    def test_a_stage_is_invisible_before_it_is_complete(self, store: Store) -> None:
        assert self.stage_part(store, self.new_member("a")) == 1
        assert self.stage_part(store, self.new_member("b", [(["a"], 1)]), written=1) == 2

        assert (
            store.graphs.get("g"),
            store.graphs.snapshot("g"),
            store.graphs.member("g::a"),
            store.graphs.find("default"),
        ) == (None, None, None, [])
        assert self.resolve_all(store) == []
        assert self.begin_staged_graph(store, 2).created
        assert self.member_states(store) == {"a": "waiting", "b": "waiting"}
        assert self.resolve_all(store) == ["g::a"]
        self.end_members(store, "a")
        self.end_members(store, "b")
        assert self.graph_status(store) == "completed"

    def test_a_stage_is_continued_where_it_ended(
        self, store: Store, reopen: OpenStore, clock: HandClock
    ) -> None:
        other = reopen(clock)
        self.stage_part(store, self.new_member("a"))

        assert self.stage_part(other, self.new_member("a")) == 1
        assert self.stage_part(other, self.new_member("b"), written=1) == 2
        assert self.stage_part(store, self.new_member("b"), written=1) == 2
        assert (
            self.begin_staged_graph(store, 2).created,
            self.begin_staged_graph(other, 2).created,
        ) == (True, False)
        assert self.resolve_all(store) == ["g::a", "g::b"]

    def test_an_incomplete_stage_starts_nothing(self, store: Store) -> None:
        self.stage_part(store, self.new_member("a"))

        with pytest.raises(GraphChanged):
            self.begin_staged_graph(store, 2)

        assert store.graphs.get("g") is None

    def test_a_refused_start_of_a_staged_graph_leaves_the_stage_invisible(
        self, store: Store
    ) -> None:
        self.stage_part(store, self.new_member("a"))
        self.do(store, SetLane(Lane(name="closed", draining=True)))
        with pytest.raises(LaneDraining):
            self.begin_staged_graph(store, 1, lanes=["closed"])
        with pytest.raises(BudgetNotFound):
            self.begin_staged_graph(store, 1, budgets=["none"])
        self.stage_graph(store, self.new_member("z"))
        with pytest.raises(GraphExists):
            self.begin_staged_graph(store, 1, fingerprint="another")

        assert self.member_states(store) == {"z": "started"}

    def test_a_stage_takes_no_id_that_a_run_has(self, store: Store) -> None:
        self.start(store, "g::a")

        with pytest.raises(MemberElsewhere):
            self.stage_part(store, self.new_member("a"))

    def test_an_abandoned_stage_is_swept_and_the_same_graph_can_be_started(
        self, store: Store, clock: HandClock
    ) -> None:
        self.stage_part(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]))
        assert self.sweep_all(store) == 0
        with pytest.raises(GraphBusy):
            self.stage_graph(store, self.new_member("a"))
        assert store.graphs.get("g") is None
        clock.move(STAGE_TTL + 1)
        look = store.runs.next_due()

        assert look.stage is not None and look.stage < clock.now()
        assert self.sweep_all(store) > 0
        assert store.runs.next_due().stage is None
        assert (
            store.installation.rows().keys()
            & {"graph_stage", "graph_member", "graph_group", "graph_edge"}
            == set()
        )
        self.stage_graph(store, self.new_member("a"))
        assert self.status(store, "g::a") == "pending"

    def test_a_stage_that_is_being_deleted_must_be_started_from_the_beginning(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sweep, "PORTION", 1)
        self.stage_part(store, self.new_member("a"), self.new_member("b"))
        self.do(store, SweepStages("g::stage", give_up=True))

        with pytest.raises(GraphBusy):
            self.stage_part(store, self.new_member("c"), written=2)
        self.sweep_all(store, "g::stage")
        assert self.stage_part(store, self.new_member("a")) == 1

    def test_a_graph_is_extended_by_a_stage_and_members_that_end_meanwhile_count(
        self, store: Store
    ) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b"), self.new_member("c"))
        self.end_members(store, "a")
        late = [self.new_member(f"after-{name}", [([name], 1)]) for name in "abc"]
        self.stage_part(store, *late, self.new_member("free"), extends="g", outside=["a", "b", "c"])
        self.end_members(store, "b", status=Status.FAILED)

        assert self.member_states(store) == {"a": "completed", "b": "failed", "c": "started"}
        assert self.extend_prepared(store, 4).graph.revision == 2
        assert self.resolve_all(store) == ["g::after-a", "g::free"]
        states = self.member_states(store)
        assert [states[f"after-{name}"] for name in "abc"] == ["started", "skipped", "waiting"]
        self.end_members(store, "c")
        assert self.member_states(store)["after-c"] == "started"

    def test_staged_members_do_not_affect_the_result_of_a_graph(self, store: Store) -> None:
        self.stage_graph(store, self.new_member("a"))
        self.stage_part(store, self.new_member("late", [(["a"], 1)]), extends="g", outside=["a"])
        self.end_members(store, "a")

        assert self.graph_status(store) == "completed"
        assert [run.id for run in store.graphs.last_runs(["g"])] == ["g::a"]
        whole = store.graphs.snapshot("g")
        assert whole is not None and list(whole.members) == ["g::a"] and whole.edges == []

    def test_a_stage_for_another_revision_adds_nothing(self, store: Store) -> None:
        self.stage_graph(store, self.new_member("a"))
        self.stage_part(store, self.new_member("b"), extends="g")
        self.extend_graph(store, self.new_member("c"))

        with pytest.raises(GraphChanged):
            self.extend_prepared(store, 1)
        assert self.extend_prepared(store, 1, revision=2).graph.revision == 3

    @pytest.mark.parametrize("damaged", DAMAGE)
    def test_a_graph_with_a_damaged_row_is_left_alone_and_the_others_go_on(
        self, store: Store, damaged: str
    ) -> None:
        table, column, wrong, right, row = DAMAGE[damaged]
        for graph in "gh":
            members = [
                self.new_member("a"),
                self.new_member("b", [(["a"], 1)]),
                self.new_member("z", [(["b"], 1)]),
            ]
            self.stage_graph(store, *members, graph=graph)
        self.claim(store)
        self.execute(store, f"UPDATE holdfast.{table} SET {column} = {wrong} WHERE {row}")
        for graph in "gh":
            self.finish(store, self.get(store, f"{graph}::a"))

        resolved = self.resolve_graphs(store)

        assert [started.run.id for started in resolved.born] == ["h::b"]
        assert list(resolved.left) == ["g"]
        assert not resolved.more
        assert store.check() != []
        self.execute(
            store,
            f"UPDATE holdfast.{table} SET {column} = {right.replace('h::b', 'h::z')} WHERE {row}",
        )
        assert [started.run.id for started in self.resolve_graphs(store).born] == ["g::b"]

    def test_very_many_members_start_in_portions(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(portions, "PORTION", 2)
        self.stage_graph(store, *(self.new_member(f"m{number}") for number in range(5)))

        assert list(self.member_states(store).values()).count("started") == 2
        assert [len(self.resolve_graphs(store).born) for _ in range(3)] == [2, 1, 0]

    def test_graphs_of_one_stage_start_together_in_portions(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        graphs = ["g", "h", "i"]
        for number, graph in enumerate(graphs):
            members = [self.new_member(name) for name in ("a", "b")]
            self.stage_part(store, *members, written=2 * number, graph=graph)
        stages = [
            GraphStage(
                id=graph, namespace="default", name="test", fingerprint="f", patch=GraphPatch(())
            )
            for graph in graphs
        ]
        prepared = PreparedMember("g::stage", dict.fromkeys(graphs, 2))
        self.do(store, StageGraphs(stages=stages, compose=compose, prepared=prepared))
        monkeypatch.setattr(portions, "PORTION", 3)
        asked: list[str] = []
        ask = QueuedWrites.ask

        def counted(writes: QueuedWrites, query: str, **values: object) -> Any:
            asked.append(query)
            return ask(writes, query, **values)

        monkeypatch.setattr(QueuedWrites, "ask", counted)
        started = [{member.run.id for member in self.resolve_graphs(store).born} for _ in range(3)]

        assert [len(run_ids) for run_ids in started] == [3, 3, 0]
        assert set().union(*started) == {f"{graph}::{name}" for graph in graphs for name in "ab"}
        assert asked.count("ready_members") == 2

    def test_an_outcome_with_very_many_dependents_is_resolved_in_portions(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(portions, "LINKS", 2)
        below = [self.new_member(f"m{number}", [(["a"], 1)]) for number in range(5)]
        self.stage_graph(
            store, self.new_member("a"), *below, self.new_member("z", [(["a"], 1), (["m0"], 1)])
        )
        self.end_members(store, "a", status=Status.FAILED)
        assert list(self.member_states(store).values()).count("skipped") == 2
        self.extend_graph(
            store, self.new_member("late", [(["a"], 1)]), self.new_member("m00", [(["a"], 1)])
        )

        self.resolve_all(store)

        assert set(self.member_states(store).values()) == {"failed", "skipped"}
        assert self.graph_status(store) == "failed"

    def test_outcomes_beside_one_with_very_many_dependents_are_read_together(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        below = [self.new_member(f"m{number}", [(["a"], 1)]) for number in range(20)]
        others = [self.new_member(f"b{number}") for number in range(8)]
        self.stage_graph(
            store, self.new_member("a"), *below, *others, self.new_member("z", [(["b0"], 1)])
        )
        monkeypatch.setattr(portions, "LINKS", 15)
        monkeypatch.setattr(portions, "PORTION", 10)
        asked: list[str] = []
        ask = QueuedWrites.ask

        def counted(writes: QueuedWrites, query: str, **values: object) -> Any:
            asked.append(query)
            return ask(writes, query, **values)

        monkeypatch.setattr(QueuedWrites, "ask", counted)
        self.end_members(store, "a", *(f"b{number}" for number in range(8)))
        self.resolve_all(store)

        assert asked.count("links_page") <= 3
        assert list(self.member_states(store).values()).count("started") == 21

    def replayed_count(self, store: Store) -> int:
        return sum(event.kind == "member_replayed" for event in store.graphs.events("g"))

    def test_very_many_skipped_members_wait_again_in_portions(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        below = [self.new_member(f"m{number}", [(["a"], 1)]) for number in range(7)]
        last = self.new_member("z", [([f"m{number}" for number in range(7)], 7)])
        self.stage_graph(store, self.new_member("a"), *below, last)
        self.end_members(store, "a", status=Status.FAILED)
        self.resolve_all(store)
        monkeypatch.setattr(portions, "PORTION", 2)
        monkeypatch.setattr(portions, "LINKS", 4)
        self.replay_member(store, "z")
        counts = [self.replayed_count(store)]
        while self.resolve_graphs(store).more:
            counts.append(self.replayed_count(store))
        counts.append(self.replayed_count(store))

        sizes = [after - before for before, after in zip([0, *counts], counts, strict=False)]
        assert max(sizes) <= 3
        assert counts[-1] == 9
        assert set(self.member_states(store).values()) == {"started", "waiting"}
        self.end_members(store, "a")
        self.resolve_all(store)
        self.end_members(store, *(f"m{number}" for number in range(7)))
        self.resolve_all(store)
        self.end_members(store, "z")
        assert self.graph_status(store) == "completed"

    @pytest.mark.parametrize("again", [Status.COMPLETED, Status.FAILED])
    def test_a_member_that_ends_while_its_previous_end_is_taken_back_counts_once(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, again: Status
    ) -> None:
        below = [self.new_member(f"m{number}", [(["a"], 1)]) for number in range(5)]
        both = self.new_member("z", [(["a", "b"], 2)])
        self.stage_graph(store, self.new_member("a"), self.new_member("b"), *below, both)
        self.end_members(store, "a", status=Status.FAILED)
        self.resolve_all(store)
        monkeypatch.setattr(portions, "PORTION", 1)
        monkeypatch.setattr(portions, "LINKS", 2)
        self.replay_member(store, "a")
        (run,) = [run for run in self.claim(store) if run.id == "g::a"]
        self.finish(store, run, status=again)

        assert store.check() == []
        self.resolve_all(store)
        assert store.check() == []
        states = self.member_states(store)
        wanted = "started" if again is Status.COMPLETED else "skipped"
        assert {states[f"m{number}"] for number in range(5)} == {wanted}
        assert states["z"] == ("waiting" if again is Status.COMPLETED else "skipped")
        assert self.graph_status(store) == "running"

    def test_a_graph_does_not_end_before_all_skipped_members_wait_again(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        below = [self.new_member(f"m{number}", [(["a"], 1)]) for number in range(5)]
        self.stage_graph(store, self.new_member("a"), *below)
        self.end_members(store, "a", status=Status.FAILED)
        self.resolve_all(store)
        monkeypatch.setattr(portions, "PORTION", 1)
        monkeypatch.setattr(portions, "LINKS", 1)
        self.replay_member(store, "a")
        for run in self.claim(store):
            self.finish(store, run, status=Status.FAILED)

        while self.resolve_graphs(store).more:
            assert store.check() == []

        assert self.graph_status(store) == "failed"
        assert store.check() == []

    def test_members_that_are_added_during_a_replay_in_portions_wait_for_the_new_end(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        below = [self.new_member(f"m{number}", [(["a"], 1)]) for number in range(5)]
        self.stage_graph(store, self.new_member("a"), self.new_member("b"), *below)
        self.end_members(store, "a", status=Status.FAILED)
        self.resolve_all(store)
        monkeypatch.setattr(portions, "PORTION", 1)
        monkeypatch.setattr(portions, "LINKS", 1)
        self.replay_member(store, "a")
        self.extend_graph(
            store, self.new_member("late", [(["a"], 1)]), self.new_member("m00", [(["a"], 1)])
        )
        self.stage_part(
            store,
            self.new_member("more", [(["a"], 1)]),
            self.new_member("m01", [(["a"], 1)]),
            extends="g",
            outside="a",
        )
        assert store.check() == []

        self.resolve_all(store)
        self.extend_prepared(store, 2, revision=2)
        self.resolve_all(store)

        assert store.check() == []
        assert list(self.member_states(store).values()).count("waiting") == 9
        self.end_members(store, "a")
        self.resolve_all(store)
        assert list(self.member_states(store).values()).count("started") == 10

    def test_a_cancel_during_a_replay_in_portions_lets_no_member_wait_again(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        below = [self.new_member(f"m{number}", [(["a"], 1)]) for number in range(5)]
        self.stage_graph(store, self.new_member("a"), *below)
        self.end_members(store, "a", status=Status.FAILED)
        self.resolve_all(store)
        monkeypatch.setattr(portions, "PORTION", 1)
        monkeypatch.setattr(portions, "LINKS", 1)
        self.replay_member(store, "a")
        self.cancel_graph(store)

        while self.resolve_graphs(store).more:
            assert store.check() == []
        self.end_members(store, "a", status=Status.CANCELLED)

        assert self.graph_status(store) == "cancelled"
        assert set(self.member_states(store).values()) == {"cancelled", "skipped"}
        assert store.check() == []
