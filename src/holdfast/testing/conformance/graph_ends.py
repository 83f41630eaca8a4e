"""Conformance of graphs: cancellation, replay of members, listing, copying and pruning."""

from __future__ import annotations

import pytest

from holdfast.core.graphs.builder import PLACE
from holdfast.core.status import Status
from holdfast.errors import GraphChanged, GraphFinished, MemberNotFound, RunNotFinished
from holdfast.store.graphs.operations import NeededResult, PruneGraphs, ReplayMember, ResealMember
from holdfast.store.runs.copy_operations import BeginCopy, CopyRuns, EndCopy
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import Prune
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import MINUTE, HandClock, OpenStore
from holdfast.testing.conformance.graph_fixture import GraphFixture, compose
from holdfast.testing.conformance.graph_joins import GraphJoinConformance
from holdfast.testing.conformance.graph_parts import GraphPortionConformance
from holdfast.testing.conformance.graph_resolution import GraphResolutionConformance
from holdfast.testing.conformance.graphs import GraphStageConformance
from holdfast.testing.conformance.reading import BROKEN


class GraphCancelConformance(GraphFixture):
    """A cancel reaches the members that its policy names, even if it takes several portions."""

    def small_graph(self, store: Store) -> None:
        self.stage_graph(
            store,
            self.new_member("begun"),
            self.new_member("unbegun"),
            self.new_member("late", [(["begun"], 1)]),
        )
        self.claim(store, limit=1)

    def test_cancelling_the_graph_alone_leaves_its_started_members_running(
        self, store: Store
    ) -> None:
        self.small_graph(store)
        self.cancel_graph(store, "graph")

        assert self.graph_status(store) == "cancelled"
        assert self.member_states(store) == {
            "begun": "started",
            "unbegun": "started",
            "late": "cancelled",
        }
        self.finish(store, self.get(store, "g::begun"))
        assert self.resolve_graphs(store).born == []
        assert self.member_states(store)["begun"] == "completed"
        trail = self.graph_trail(store)
        self.cancel_graph(store, "graph")  # a repeated cancel is accepted and changes nothing
        assert (self.graph_status(store), self.graph_trail(store)) == ("cancelled", trail)
        with pytest.raises(GraphFinished):
            self.cancel_graph(store)

    def test_cancelling_pending_members_leaves_running_members_alone(self, store: Store) -> None:
        self.small_graph(store)
        self.cancel_graph(store, "pending")
        self.resolve_graphs(store)

        assert self.graph_status(store) == "cancelling"
        assert self.member_states(store) == {
            "begun": "started",
            "unbegun": "cancelled",
            "late": "cancelled",
        }
        assert self.status(store, "g::begun") == "running"
        self.finish(store, self.get(store, "g::begun"))
        self.resolve_graphs(store)
        assert self.graph_status(store) == "cancelled"

    def test_cancelling_all_records_each_member_that_is_asked_to_stop(self, store: Store) -> None:
        self.small_graph(store)
        self.cancel_graph(store, "pending")
        self.cancel_graph(store, "all")
        self.cancel_graph(store, "all")
        self.resolve_graphs(store)

        assert self.status(store, "g::begun") == "cancelling"
        whole = store.graphs.snapshot("g")
        assert whole is not None and whole.members["g::begun"].asked_at is not None
        assert self.graph_trail(store).count("member_asked_to_stop begun") == 1
        with pytest.raises(GraphFinished):
            self.extend_graph(store, self.new_member("more"))
        self.finish(store, self.get(store, "g::begun"), Status.CANCELLED)
        self.resolve_graphs(store)
        assert self.graph_status(store) == "cancelled"

    @pytest.mark.parametrize("policy", ["graph", "pending"])
    def test_a_group_of_a_cancelled_member_does_not_stop_running_members(
        self, store: Store, policy: str
    ) -> None:
        racers = [self.new_member(name) for name in "abc"]
        self.stage_graph(store, *racers, self.new_member("z", [(["a", "b", "c"], 1, "cancel")]))
        self.claim(store)
        self.cancel_graph(store, policy)
        self.end_members(store, "a")

        assert self.member_states(store) == {
            "a": "completed",
            "b": "started",
            "c": "started",
            "z": "cancelled",
        }
        assert self.status(store, "g::b") == "running"

    def test_a_cancel_of_many_members_continues_until_all_are_cancelled(self, store: Store) -> None:
        self.stage_graph(store, *(self.new_member(f"m{number}") for number in range(1001)))
        self.cancel_graph(store)
        assert sum(run.status == "pending" for run in store.runs.find(RunFilter(limit=2000))) == 1

        while self.resolve_graphs(store).more:
            continue
        assert set(self.member_states(store).values()) == {"cancelled"}
        assert self.graph_status(store) == "cancelled"


class GraphReplayConformance(GraphFixture):
    """A replay runs a finished member again, together with the members that were skipped because
    of it."""

    def test_replaying_a_failed_member_replays_the_members_skipped_because_of_it(
        self, store: Store
    ) -> None:
        self.stage_graph(
            store,
            self.new_member("a"),
            self.new_member("b", [(["a"], 1)]),
            self.new_member("c", [(["b"], 1)]),
        )
        self.end_members(store, "a", status=Status.FAILED)
        self.replay_member(store, "a")

        assert self.member_states(store) == {"a": "started", "b": "waiting", "c": "waiting"}
        assert (self.graph_status(store), self.status(store, "g::a")) == ("running", "pending")
        for name in "abc":
            self.end_members(store, name)
        assert self.graph_status(store) == "completed"

    def test_replaying_a_skipped_member_replays_the_failures_that_caused_the_skip(
        self, store: Store
    ) -> None:
        self.stage_graph(
            store,
            self.new_member("a"),
            self.new_member("b"),
            self.new_member("z", [(["a", "b"], 2)]),
        )
        self.end_members(store, "a", "b", status=Status.FAILED)
        self.replay_member(store, "z")

        assert self.member_states(store) == {"a": "started", "b": "started", "z": "waiting"}
        self.end_members(store, "a", "b")
        assert self.member_states(store)["z"] == "started"

    def test_a_group_that_had_become_impossible_can_be_satisfied(self, store: Store) -> None:
        self.stage_graph(
            store, *map(self.new_member, "abc"), self.new_member("z", [(["a", "b", "c"], 2)])
        )
        self.end_members(store, "a", "b", status=Status.FAILED)
        self.end_members(store, "c")
        assert self.member_states(store)["z"] == "skipped"
        self.replay_member(store, "b")
        self.end_members(store, "b")

        assert self.member_states(store)["z"] == "started"

    def test_replaying_a_member_does_not_restart_started_dependents(self, store: Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("z", [(["a"], 1)]))
        self.end_members(store, "a")
        self.end_members(store, "z")
        self.replay_member(store, "a")
        self.end_members(store, "a")

        assert self.member_states(store) == {"a": "completed", "z": "completed"}
        assert self.graph_trail(store).count("member_started z") == 1
        assert self.graph_status(store) == "completed"

    def test_a_replayed_member_that_was_cancelled_while_waiting_starts_if_its_groups_allow(
        self, store: Store
    ) -> None:
        late = self.new_member("late", [(["b"], 1)])
        self.stage_graph(
            store,
            self.new_member("a"),
            self.new_member("b"),
            late,
            self.new_member("z", [(["a", "late"], 1, "cancel")]),
        )
        self.end_members(store, "a")
        self.end_members(store, "b", "z")
        assert self.member_states(store)["late"] == "cancelled"
        self.replay_member(store, "late")

        assert self.member_states(store)["late"] == "started"

    def test_replaying_a_member_cancelled_while_waiting_replays_failed_members_it_needs(
        self, store: Store
    ) -> None:
        late = self.new_member("late", [(["b"], 1)])
        self.stage_graph(
            store,
            self.new_member("a"),
            self.new_member("b"),
            late,
            self.new_member("z", [(["a", "late"], 1, "cancel")]),
        )
        self.end_members(store, "a")
        self.end_members(store, "b", status=Status.FAILED)
        self.replay_member(store, "late")

        assert self.member_states(store) == {
            "a": "completed",
            "b": "started",
            "late": "waiting",
            "z": "started",
        }
        self.end_members(store, "b")
        assert self.member_states(store)["late"] == "started"

    def test_a_waiting_member_waits_for_the_replayed_member_and_gets_its_new_result(
        self, store: Store
    ) -> None:
        last = self.new_member("z", [(["a"], 1), (["b"], 1)], data=[{PLACE: "a"}], takes=["a"])
        self.stage_graph(store, self.new_member("a"), self.new_member("b"), last)
        self.end_members(store, "a")
        self.replay_member(store, "a")
        self.end_members(store, "b")

        assert self.member_states(store) == {"a": "started", "b": "completed", "z": "waiting"}
        self.end_members(store, "a")
        assert self.get(store, "g::z").input == b"[1]"

    def test_only_a_finished_member_can_be_replayed(self, store: Store) -> None:
        self.stage_graph(
            store, self.new_member("a"), self.new_member("b"), self.new_member("z", [(["a"], 1)])
        )
        with pytest.raises(RunNotFinished):
            self.replay_member(store, "z")
        with pytest.raises(MemberNotFound):
            self.replay_member(store, "nobody")
        self.end_members(store, "a", status=Status.FAILED)
        with pytest.raises(GraphChanged):
            self.do(
                store,
                ReplayMember(
                    graph_id="g",
                    namespace="default",
                    name="a",
                    roots="a",
                    replays={},
                    compose=compose,
                ),
            )
        self.cancel_graph(store)
        with pytest.raises(GraphFinished):
            self.replay_member(store, "a")


class GraphRetentionConformance(GraphFixture):
    """Graphs are listed, copied and pruned like runs."""

    def test_graphs_are_listed_and_waiting_members_name_the_members_they_need(
        self, store: Store
    ) -> None:
        for name in ("g1", "g2"):
            self.stage_graph(
                store, self.new_member("a"), self.new_member("b", [(["a"], 1)]), graph=name
            )
        self.end_members(store, "a", graph="g1")
        self.end_members(store, "b", graph="g1")

        assert [graph.id for graph in store.graphs.find("default")] == ["g2", "g1"]
        assert [graph.id for graph in store.graphs.find("default", before="g2")] == ["g1"]
        assert [graph.id for graph in store.graphs.find("default", status="completed")] == ["g1"]
        assert store.graphs.find("other") == []
        assert store.graphs.needed_by("g2::b") == [NeededResult(0, "g2::a", "started", None)]  # type: ignore[arg-type]
        assert [(group.need, group.total) for group in store.graphs.groups_of_member("g2::b")] == [
            (1, 1)
        ]
        member = store.graphs.member("g2::b")
        assert member is not None and member.state == "waiting"
        assert store.graphs.member("g2::nobody") is None

    def test_a_copy_keeps_graphs_and_unprocessed_member_outcomes(self, store: Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]))
        (run,) = self.claim(store)
        self.finish(store, run)
        standing = store.installation.rows()
        runs = store.run_snapshots.page("", 100, 10**6)
        assert standing["graph_outbox"] == [["g", "g::a", "completed", store.now(), None]]
        before = store.graphs.snapshot("g")
        self.execute(store, "DELETE FROM holdfast.event")
        self.execute(store, "DELETE FROM holdfast.run")
        self.end_sessions(store)
        self.do(store, BeginCopy([], standing))
        self.do(store, CopyRuns(runs))
        self.do(store, EndCopy())

        assert store.graphs.snapshot("g") == before
        assert [born.run.id for born in self.resolve_graphs(store).born] == ["g::b"]

    def test_runs_of_a_graph_are_pruned_with_it_once_it_has_ended(
        self, store: Store, clock: HandClock
    ) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]))
        self.end_members(store, "a")
        clock.move(MINUTE)
        assert self.do(store, Prune(clock.now(), ["completed"])).runs == 0
        self.end_members(store, "b")
        clock.move(MINUTE)
        assert self.do(store, Prune(clock.now(), ["completed"])).runs == 2

        assert store.graphs.get("g") is None
        assert (
            store.installation.rows().keys()
            & {"graph", "graph_member", "graph_group", "graph_edge", "graph_event"}
            == set()
        )

    def test_a_graph_that_is_kept_does_not_keep_others_from_being_pruned(
        self, store: Store, clock: HandClock
    ) -> None:
        for name, status in (("kept", Status.FAILED), ("gone", Status.COMPLETED)):
            self.stage_graph(store, self.new_member("a"), graph=name)
            self.end_members(store, "a", status=status, graph=name)
            clock.move(MINUTE)
        self.do(store, Prune(store.now(), ["completed"], limit=1))

        assert [graph.id for graph in store.graphs.find("default")] == ["kept"]

    def test_graphs_can_be_pruned_without_their_runs(self, store: Store, clock: HandClock) -> None:
        self.stage_graph(store, self.new_member("a"))
        self.stage_graph(store, self.new_member("a"), graph="h")
        self.end_members(store, "a")
        clock.move(MINUTE)

        assert self.do(store, PruneGraphs(clock.now(), "other")) == 0
        assert self.do(store, PruneGraphs(clock.now(), "default")) == 1
        assert [graph.id for graph in store.graphs.find("default")] == ["h"]
        assert self.status(store, "g::a") == "completed"

    def test_the_input_of_a_member_that_waits_can_be_put_into_another_seal(
        self, store: Store
    ) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)], data=[1]))

        assert store.graphs.members_to_seal("", 10) == [("g::b", b"[1]")]
        assert not self.do(store, ResealMember("g::b", b"[2]", b"[3]"))
        assert self.do(store, ResealMember("g::b", b"[1]", b"[3]"))
        self.end_members(store, "a")
        assert self.get(store, "g::b").input == b"[3]"

    def test_two_processes_resolve_a_graph_and_each_member_outcome_counts_once(
        self, store: Store, reopen: OpenStore, clock: HandClock
    ) -> None:
        other = reopen(clock)
        self.stage_graph(
            store,
            self.new_member("a"),
            self.new_member("b"),
            self.new_member("z", [(["a", "b"], 2)]),
        )
        first, second = self.claim(store)
        self.finish(store, first)
        self.finish(store, second)

        assert [len(self.resolve_graphs(process).born) for process in (store, other)] == [1, 0]


class GraphConformance(
    GraphStageConformance,
    GraphPortionConformance,
    GraphResolutionConformance,
    GraphCancelConformance,
    GraphReplayConformance,
    GraphRetentionConformance,
    GraphJoinConformance,
):
    """All tests of graphs."""


_MEMBER = (
    "INSERT INTO holdfast.graph_member (run_id, graph_id, workflow, state, missing, spec, input)"
    " VALUES ('{run}', 'g', 'w', '{state}', {missing}, '', '')"
)
_GRAPH = (
    "INSERT INTO holdfast.graph (id, namespace, name, status, revision, members, live, events,"
    " fingerprint, created_at) VALUES ('g', 'n', 'g', '{status}', 1, {members}, {live}, {events},"
    " '', 1)"
)


def _graph(status: str = "running", members: int = 0, live: int = 0, events: int = 0) -> str:
    return _GRAPH.format(status=status, members=members, live=live, events=events)


def _member(run: str = "g::x", state: str = "skipped", missing: int = 0) -> str:
    return _MEMBER.format(run=run, state=state, missing=missing)


def _joined(run_id: str, state: str = "completed") -> str:
    return (
        "INSERT INTO holdfast.graph_member (run_id, graph_id, workflow, state, missing, spec,"
        f" input, joined) VALUES ('g::x', 'g', 'w', '{state}', 0, '', '', '{run_id}')"
    )


def _group(need: int = 1, total: int = 1, done: int = 0, state: str = "open") -> str:
    columns = "run_id, number, need, total, done, lost, rest, state"
    return (
        f"INSERT INTO holdfast.graph_group ({columns}) VALUES ('g::x', 0, {need}, {total}, {done},"
        f" 0, 'run', '{state}')"
    )


BROKEN |= {
    "the_member_count_of_a_graph_is_correct": _graph(members=1),
    "the_live_member_count_of_a_graph_is_correct": _graph(live=1),
    "a_graph_ends_with_its_last_member": _graph(),
    "the_event_count_of_a_graph_matches_its_audit_trail": _graph(events=1),
    "a_graph_member_belongs_to_a_graph_or_a_stage": _member(),
    "a_graph_member_is_staged_exactly_if_it_belongs_to_a_stage": _member(state="staged"),
    "a_staged_graph_member_has_no_run": _member(run="completed", state="staged"),
    "the_member_count_of_a_graph_stage_is_correct": (
        "INSERT INTO holdfast.graph_stage (id, written, due_at, discarded) VALUES ('g', 1, 1, 0)"
    ),
    "a_started_graph_member_has_a_run": _member(state="started"),
    "a_waiting_graph_member_has_no_run_and_has_an_open_dependency": _member(state="waiting"),
    "the_end_of_a_graph_member_is_settled_or_in_the_graph_outbox": _member(
        run="completed", state="started"
    ),
    "a_run_that_has_joined_a_graph_names_it_and_has_no_parent": _joined("completed"),
    "a_joined_graph_member_waits_for_nothing": _joined("r9", state="waiting"),
    "the_open_dependency_count_of_a_waiting_graph_member_is_correct": _member(
        state="waiting", missing=1
    ),
    "the_size_and_need_of_a_dependency_group_match_its_edges": _group(need=2),
    "the_outcome_counts_of_a_dependency_group_are_correct": _group(done=1),
    "a_waiting_graph_member_can_still_be_started": _group(need=1, done=1),
    "the_edges_of_a_graph_form_no_cycle": (
        "INSERT INTO holdfast.graph_edge (upstream, dependent, number) VALUES ('g::x', 'g::x', 0)"
    ),
    "a_graph_outbox_row_has_a_known_status": (
        "INSERT INTO holdfast.graph_outbox (graph_id, run_id, status, at) VALUES ('g', 'g::x',"
        " 'x', 1)"
    ),
    "a_graph_edge_connects_members_of_one_graph": (
        "INSERT INTO holdfast.graph_edge (upstream, dependent, number) VALUES ('g::x', 'h::y', 0)"
    ),
}
