"""Graphs: how they are staged, settled, cancelled and done again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest

from holdfast.core.graphs.drawing import filled
from holdfast.core.graphs.records import CancelPolicy, NewGroup, NewMember, Patch, Rest, Spec, run_of
from holdfast.core.records import Fetch, Lane, Payload
from holdfast.core.status import Status
from holdfast.errors import (
    GraphChanged,
    GraphCycle,
    GraphExists,
    GraphFinished,
    GraphNotFound,
    KeyMissing,
    LaneDraining,
    MemberElsewhere,
    MemberExists,
    MemberNotFound,
    MemberStarted,
    RunNotFinished,
)
from holdfast.store import contract as c
from holdfast.testing.conformance.bench import MINUTE, ROUTE, Bench, HandClock, OpenStore
from holdfast.testing.conformance.runs import BROKEN

Groups = Sequence[tuple[Sequence[str], int] | tuple[Sequence[str], int, str]]


def compose(data: bytes, results: Mapping[str, bytes], fetch: Fetch) -> tuple[bytes, list[Payload]]:
    """Put results in their places."""
    values = {name: msgspec.json.decode(one) for name, one in results.items()}
    return msgspec.json.encode(filled(msgspec.json.decode(data), values)), []


def refuse(data: bytes, results: Mapping[str, bytes], fetch: Fetch) -> tuple[bytes, list[Payload]]:
    """Be somebody who has no key."""
    raise KeyMissing(key="k2")


class GraphBench(Bench):
    """Short words for what is done to graphs."""

    def new_member(
        self, name: str, groups: Groups = (), *, data: Any = (), takes: Sequence[str] = (), **options: Any
    ) -> NewMember:
        spec = Spec(route=options.pop("route", ROUTE), takes=tuple(takes), **options)
        made = tuple(NewGroup(tuple(group[0]), group[1], Rest(group[2] if len(group) > 2 else "run")) for group in groups)
        return NewMember(name=name, spec=spec, input=msgspec.json.encode(list(data)), groups=made)

    def stage_graph(
        self, store: c.Store, *members: NewMember, graph: str = "g", fingerprint: str = "f", **options: Any
    ) -> c.Staged:
        stage = c.Stage(id=graph, namespace="default", name="test", fingerprint=fingerprint, patch=Patch(members))
        staged: list[c.Staged] = self.do(store, c.StageGraphs(stages=[stage], compose=compose, **options))
        return staged[0]

    def extend_graph(
        self, store: c.Store, *members: NewMember, more: Sequence[tuple[str, NewGroup]] = (), revision: int | None = None
    ) -> c.Staged:
        op = c.ExtendGraph(
            graph_id="g", namespace="default", patch=Patch(members, tuple(more)), compose=compose, revision=revision
        )
        staged: c.Staged = self.do(store, op)
        return staged

    def settle_graphs(self, store: c.Store) -> c.Settled:
        settled: c.Settled = self.do(store, c.SettleGraphs(compose=compose))
        return settled

    def members_end(self, store: c.Store, *names: str, status: Status = Status.COMPLETED, graph: str = "g") -> None:
        """Let the runs of members end, all at once, and the graph hear of it."""
        self.claim(store)
        for name in names:
            self.finish(store, self.get(store, run_of(graph, name)), status)
        self.settle_graphs(store)

    def member_states(self, store: c.Store, graph: str = "g") -> dict[str, str]:
        whole = store.whole_graph(graph)
        assert whole is not None
        return {member.name: member.state.value for member in whole.members.values()}

    def graph_status(self, store: c.Store, graph: str = "g") -> str:
        found = store.graph(graph)
        assert found is not None
        return found.status.value

    def graph_trail(self, store: c.Store, graph: str = "g") -> list[str]:
        return [f"{event.kind} {event.member or ''}".strip() for event in store.graph_events(graph)]

    def cancel_graph(self, store: c.Store, policy: str = "all") -> Any:
        op = c.CancelGraph(graph_id="g", namespace="default", policy=CancelPolicy(policy), reason="enough")
        return self.do(store, op)

    def replay_member(self, store: c.Store, name: str) -> Any:
        whole = store.whole_graph("g")
        assert whole is not None
        voids: dict[str, list[int]] = {run_id: [] for run_id in whole.members}
        return self.do(store, c.ReplayMember(graph_id="g", namespace="default", name=name, voids=voids, compose=compose))


class StagingGraphs(GraphBench):
    """All or nothing, and nothing that makes no sense."""

    def test_members_that_wait_for_nobody_are_started_the_others_are_rows(self, store: c.Store, clock: HandClock) -> None:
        staged = self.stage_graph(store, self.new_member("a", data=[1]), self.new_member("b", [(["a"], 1)]))

        assert [born.run.id for born in staged.born] == ["g::a"]
        assert self.member_states(store) == {"a": "started", "b": "waiting"}
        assert self.get(store, "g::a").input == b"[1]"
        assert store.run("g::b") is None
        found = store.graph("g")
        assert found is not None
        assert (found.status, found.revision, found.members, found.live) == ("running", 1, 2, 2)
        assert found.created_at == clock.now()
        assert self.graph_trail(store) == ["graph_started", "member_started a"]

    def test_members_can_be_born_leased(self, store: c.Store) -> None:
        self.open(store)
        staged = self.stage_graph(store, self.new_member("a"), lease=lambda route: "s1")

        assert [born.started.leased for born in staged.born] == [True]
        assert self.get(store, "g::a").session_id == "s1"

    def test_the_same_graph_is_started_once_and_another_one_is_refused(self, store: c.Store) -> None:
        self.stage_graph(store, self.new_member("a"))

        assert not self.stage_graph(store, self.new_member("a")).created
        with pytest.raises(GraphExists):
            self.stage_graph(store, self.new_member("b"), fingerprint="another")
        assert self.member_states(store) == {"a": "started"}

    def test_what_is_refused_leaves_nothing_behind(self, store: c.Store) -> None:
        with pytest.raises(GraphCycle):
            self.stage_graph(store, self.new_member("c"), self.new_member("a", [(["b"], 1)]), self.new_member("b", [(["a"], 1)]))
        self.start(store, "g::a")
        with pytest.raises(MemberElsewhere):
            self.stage_graph(store, self.new_member("a"))
        self.do(store, c.SetLane(Lane(name="default", draining=True)))
        with pytest.raises(LaneDraining):
            self.stage_graph(store, self.new_member("b"))
        assert store.graph("g") is None
        assert store.standing().keys() & {"graph", "graph_member", "graph_edge", "graph_event"} == set()

    def test_a_graph_grows_while_it_runs(self, store: c.Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("z", [(["a"], 1)]))
        self.members_end(store, "a")
        grown = self.extend_graph(store, self.new_member("b", [(["a"], 1)]), self.new_member("c", [(["b", "z"], 2)]), revision=1)

        assert (grown.graph.revision, [born.run.id for born in grown.born]) == (2, ["g::b"])
        self.members_end(store, "b", "z")
        self.members_end(store, "c")
        assert self.graph_status(store) == "completed"

    def test_a_member_that_waits_can_be_made_to_wait_for_more(self, store: c.Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b"), self.new_member("z", [(["a"], 1)]))
        self.extend_graph(store, more=[("z", NewGroup(("b",), 1))])
        self.members_end(store, "a")

        assert self.member_states(store)["z"] == "waiting"
        self.members_end(store, "b")
        assert self.member_states(store)["z"] == "started"

    def test_a_stale_revision_is_told_apart_from_a_finished_graph(self, store: c.Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("z", [(["a"], 1)]))
        self.extend_graph(store, self.new_member("b"), revision=1)
        with pytest.raises(GraphChanged) as stale:
            self.extend_graph(store, self.new_member("c"), revision=1)
        assert stale.value.facts == {"graph": "g", "expected": 1, "actual": 2}
        self.members_end(store, "a", "b")
        self.members_end(store, "z")
        with pytest.raises(GraphFinished):
            self.extend_graph(store, self.new_member("c"), revision=1)
        assert self.member_states(store) == {"a": "completed", "b": "completed", "z": "completed"}

    def test_what_cannot_be_added_is_refused_by_name(self, store: c.Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("y", [(["a"], 1)]), self.new_member("z", [(["y"], 1)]))
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
            patch = Patch((self.new_member("b"),))
            self.do(store, c.ExtendGraph(graph_id="g", namespace="other", patch=patch, compose=compose))
        assert (self.member_states(store), self.graph_trail(store)) == before

    def test_what_is_added_and_can_never_start_is_skipped_at_once(self, store: c.Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b"))
        self.members_end(store, "a", status=Status.FAILED)
        self.extend_graph(store, self.new_member("c", [(["a"], 1)]), self.new_member("d", [(["c"], 1)]))

        assert self.member_states(store) == {"a": "failed", "b": "started", "c": "skipped", "d": "skipped"}


class SettlingGraphs(GraphBench):
    """What the ends of members lead to."""

    def test_results_are_there_before_a_dependent_starts(self, store: c.Store) -> None:
        place = {"$holdfast.result": "a"}
        self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)], data=[place, 7], takes=["a"]))
        self.members_end(store, "a")

        assert self.get(store, "g::b").input == b"[1,7]"
        assert self.member_states(store) == {"a": "completed", "b": "started"}

    def test_an_end_is_heard_of_later_and_once(self, store: c.Store, clock: HandClock) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]))
        (run,) = self.claim(store)
        store.hints()
        self.finish(store, run)

        assert store.hints().graphs
        assert store.next_look().graph == clock.now()
        assert self.member_states(store)["a"] == "started"
        assert [born.run.id for born in self.settle_graphs(store).born] == ["g::b"]
        assert self.settle_graphs(store) == c.Settled([], more=False)
        assert store.next_look().graph is None
        assert store.next_look().at is None

    def test_all_of_them_any_of_them_so_many_of_them(self, store: c.Store) -> None:
        ups = ["a", "b", "c"]
        needs = {"all": 3, "any": 1, "two": 2}
        groups = [self.new_member(name, [(ups, need)]) for name, need in needs.items()]
        self.stage_graph(store, *map(self.new_member, ups), *groups)

        self.members_end(store, "a")
        assert {name: self.member_states(store)[name] for name in needs} == {"all": "waiting", "any": "started", "two": "waiting"}
        self.members_end(store, "b", status=Status.FAILED)
        assert {name: self.member_states(store)[name] for name in needs} == {"all": "skipped", "any": "started", "two": "waiting"}
        self.members_end(store, "c", "any")
        assert {name: self.member_states(store)[name] for name in needs} == {
            "all": "skipped",
            "any": "completed",
            "two": "started",
        }
        self.members_end(store, "two")
        assert self.graph_status(store) == "failed"

    def test_a_group_fires_once(self, store: c.Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b"), self.new_member("z", [(["a", "b"], 1)]))
        self.members_end(store, "a")
        self.members_end(store, "z")
        self.members_end(store, "b")

        assert self.graph_trail(store).count("member_started z") == 1
        assert self.graph_trail(store).count("group_satisfied z") == 1
        assert self.graph_status(store) == "completed"

    def test_who_waits_in_vain_is_skipped_and_all_below(self, store: c.Store) -> None:
        chain = [self.new_member(name, [([before], 1)]) for before, name in (("a", "b"), ("b", "c"), ("c", "d"))]
        self.stage_graph(store, self.new_member("a"), *chain)
        self.members_end(store, "a", status=Status.FAILED)

        assert self.member_states(store) == {"a": "failed", "b": "skipped", "c": "skipped", "d": "skipped"}
        assert self.graph_status(store) == "failed"
        found = store.graph("g")
        assert found is not None and found.summary == b'{"failed":1,"skipped":3}'
        assert store.hints().finished >= {"g"}

    def test_the_rest_of_a_group_is_cancelled_when_it_is_decided(self, store: c.Store) -> None:
        ups = ["a", "b", "c", "d"]
        late = self.new_member("late", [(["d"], 1)])
        self.stage_graph(store, *map(self.new_member, ups), late, self.new_member("z", [([*ups[:3], "late"], 1, "cancel")]))
        self.claim(store, limit=2)
        self.finish(store, self.get(store, "g::a"))
        self.settle_graphs(store)

        assert self.member_states(store)["z"] == "started"
        assert self.status(store, "g::b") == "cancelling"
        assert self.status(store, "g::c") == "cancelled"
        assert self.member_states(store)["late"] == "cancelled"
        self.settle_graphs(store)
        assert self.member_states(store)["c"] == "cancelled"
        assert self.get(store, "g::d").finished_at is None

    def test_nobody_is_cancelled_whom_others_wait_for(self, store: c.Store) -> None:
        other = self.new_member("other", [(["b"], 1)])
        self.stage_graph(
            store, self.new_member("a"), self.new_member("b"), self.new_member("z", [(["a", "b"], 1, "cancel")]), other
        )
        self.members_end(store, "a")

        assert self.get(store, "g::b").cancel_reason is None
        self.members_end(store, "b")
        assert self.member_states(store)["other"] == "started"

    def test_a_member_may_wait_for_several_groups(self, store: c.Store) -> None:
        self.stage_graph(
            store, *map(self.new_member, ["a", "b", "c"]), self.new_member("z", [(["a"], 1), (["b", "c"], 1)])
        )  # fmt: skip
        self.members_end(store, "b")
        assert self.member_states(store)["z"] == "waiting"
        self.members_end(store, "a")
        assert self.member_states(store)["z"] == "started"

    def test_many_graphs_are_settled_together(self, store: c.Store) -> None:
        for number in range(5):
            self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]), graph=f"g{number}")
        for run in self.claim(store):
            self.finish(store, run)

        assert len(self.settle_graphs(store).born) == 5

    def test_whoever_has_no_key_leaves_a_graph_to_others(self, store: c.Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]))
        self.stage_graph(store, self.new_member("a"), graph="h")
        for run in self.claim(store):
            self.finish(store, run)

        left = self.do(store, c.SettleGraphs(compose=refuse))
        assert list(left.left) == ["g"]
        assert self.graph_status(store, "h") == "completed"
        assert self.member_states(store) == {"a": "started", "b": "waiting"}
        assert [born.run.id for born in self.settle_graphs(store).born] == ["g::b"]

    def test_a_lane_that_is_drained_lets_a_graph_go_on(self, store: c.Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]))
        self.claim(store)
        self.do(store, c.SetLane(Lane(name="default", draining=True)))
        self.finish(store, self.get(store, "g::a"))

        assert [born.run.id for born in self.settle_graphs(store).born] == ["g::b"]

    def test_a_member_that_cannot_be_started_fails(self, store: c.Store) -> None:
        broken = self.new_member("b", [(["a"], 1)], budgets=("nobody's",))
        self.stage_graph(
            store, self.new_member("a"), broken, self.new_member("c", [(["b"], 1)]), self.new_member("d", [(["a"], 1)])
        )
        self.members_end(store, "a")

        assert self.member_states(store) == {"a": "completed", "b": "failed", "c": "skipped", "d": "started"}

    def test_a_run_that_only_looks_like_a_member_disturbs_nobody(self, store: c.Store) -> None:
        run = self.hold(store, "nobody::x")
        self.finish(store, run)

        assert self.settle_graphs(store).born == []
        assert store.next_look().graph is None

    def test_runs_that_end_in_any_way_are_heard_of(self, store: c.Store, clock: HandClock) -> None:
        names = ["cancelled", "expired", "overridden"]
        members = [self.new_member(name, deadline=MINUTE if name == "expired" else None) for name in names]
        self.stage_graph(store, *members, self.new_member("z", [(names, 1)]))
        self.do(store, c.RequestCancel("g::cancelled", "no"))
        clock.move(MINUTE)
        self.do(store, c.ExpireRuns())
        op = c.OverrideRun(run_id="g::overridden", namespace="default", status=Status.COMPLETED, reason="by hand", result=b"1")
        self.do(store, op)
        self.settle_graphs(store)

        assert self.member_states(store) == {
            "cancelled": "cancelled",
            "expired": "expired",
            "overridden": "completed",
            "z": "started",
        }


class CancellingGraphs(GraphBench):
    """What a cancel reaches, and that it gets there."""

    def small_graph(self, store: c.Store) -> None:
        self.stage_graph(store, self.new_member("begun"), self.new_member("unbegun"), self.new_member("late", [(["begun"], 1)]))
        self.claim(store, limit=1)

    def test_the_graph_alone(self, store: c.Store) -> None:
        self.small_graph(store)
        self.cancel_graph(store, "graph")

        assert self.graph_status(store) == "cancelled"
        assert self.member_states(store) == {"begun": "started", "unbegun": "started", "late": "cancelled"}
        self.finish(store, self.get(store, "g::begun"))
        assert self.settle_graphs(store).born == []
        assert self.member_states(store)["begun"] == "completed"
        with pytest.raises(GraphFinished):
            self.cancel_graph(store)

    def test_what_has_not_begun(self, store: c.Store) -> None:
        self.small_graph(store)
        self.cancel_graph(store, "pending")
        self.settle_graphs(store)

        assert self.graph_status(store) == "cancelling"
        assert self.member_states(store) == {"begun": "started", "unbegun": "cancelled", "late": "cancelled"}
        assert self.status(store, "g::begun") == "running"
        self.finish(store, self.get(store, "g::begun"))
        self.settle_graphs(store)
        assert self.graph_status(store) == "cancelled"

    def test_all_of_it_and_each_member_that_was_asked_is_noted(self, store: c.Store) -> None:
        self.small_graph(store)
        self.cancel_graph(store, "pending")
        self.cancel_graph(store, "all")
        self.cancel_graph(store, "all")
        self.settle_graphs(store)

        assert self.status(store, "g::begun") == "cancelling"
        whole = store.whole_graph("g")
        assert whole is not None and whole.members["g::begun"].asked_at is not None
        assert self.graph_trail(store).count("member_asked_to_stop begun") == 1
        with pytest.raises(GraphFinished):
            self.extend_graph(store, self.new_member("more"))
        self.finish(store, self.get(store, "g::begun"), Status.CANCELLED)
        self.settle_graphs(store)
        assert self.graph_status(store) == "cancelled"

    def test_a_cancel_of_many_goes_on_until_it_is_through(self, store: c.Store) -> None:
        self.stage_graph(store, *(self.new_member(f"m{number}") for number in range(1001)))
        self.cancel_graph(store)
        assert sum(run.status == "pending" for run in store.runs(c.Filter(limit=2000))) == 1

        while self.settle_graphs(store).more:
            continue
        assert set(self.member_states(store).values()) == {"cancelled"}
        assert self.graph_status(store) == "cancelled"


class ReplayingMembers(GraphBench):
    """Members end anew, and with them those that were skipped."""

    def test_a_failed_member_and_those_that_were_skipped_because_of_it(self, store: c.Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]), self.new_member("c", [(["b"], 1)]))
        self.members_end(store, "a", status=Status.FAILED)
        self.replay_member(store, "a")

        assert self.member_states(store) == {"a": "started", "b": "waiting", "c": "waiting"}
        assert (self.graph_status(store), self.status(store, "g::a")) == ("running", "pending")
        for name in "abc":
            self.members_end(store, name)
        assert self.graph_status(store) == "completed"

    def test_a_skipped_member_takes_along_those_that_it_was_skipped_for(self, store: c.Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b"), self.new_member("z", [(["a", "b"], 2)]))
        self.members_end(store, "a", "b", status=Status.FAILED)
        self.replay_member(store, "z")

        assert self.member_states(store) == {"a": "started", "b": "started", "z": "waiting"}
        self.members_end(store, "a", "b")
        assert self.member_states(store)["z"] == "started"

    def test_a_group_that_had_become_impossible_can_be_satisfied(self, store: c.Store) -> None:
        self.stage_graph(store, *map(self.new_member, "abc"), self.new_member("z", [(["a", "b", "c"], 2)]))
        self.members_end(store, "a", "b", status=Status.FAILED)
        self.members_end(store, "c")
        assert self.member_states(store)["z"] == "skipped"
        self.replay_member(store, "b")
        self.members_end(store, "b")

        assert self.member_states(store)["z"] == "started"

    def test_what_has_been_started_is_not_started_again(self, store: c.Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("z", [(["a"], 1)]))
        self.members_end(store, "a")
        self.members_end(store, "z")
        self.replay_member(store, "a")
        self.members_end(store, "a")

        assert self.member_states(store) == {"a": "completed", "z": "completed"}
        assert self.graph_trail(store).count("member_started z") == 1
        assert self.graph_status(store) == "completed"

    def test_who_was_cancelled_while_waiting_waits_again_or_starts(self, store: c.Store) -> None:
        late = self.new_member("late", [(["b"], 1)])
        self.stage_graph(
            store, self.new_member("a"), self.new_member("b"), late, self.new_member("z", [(["a", "late"], 1, "cancel")])
        )
        self.members_end(store, "a")
        self.members_end(store, "b", "z")
        assert self.member_states(store)["late"] == "cancelled"
        self.replay_member(store, "late")

        assert self.member_states(store)["late"] == "started"

    def test_only_what_has_ended_can_end_anew(self, store: c.Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b"), self.new_member("z", [(["a"], 1)]))
        with pytest.raises(RunNotFinished):
            self.replay_member(store, "z")
        with pytest.raises(MemberNotFound):
            self.replay_member(store, "nobody")
        self.members_end(store, "a", status=Status.FAILED)
        with pytest.raises(GraphChanged):
            self.do(store, c.ReplayMember(graph_id="g", namespace="default", name="a", voids={}, compose=compose))
        self.cancel_graph(store)
        with pytest.raises(GraphFinished):
            self.replay_member(store, "a")


class KeepingGraphs(GraphBench):
    """They are listed, moved and deleted like all else."""

    def test_graphs_are_listed_and_those_who_wait_say_for_whom(self, store: c.Store) -> None:
        for name in ("g1", "g2"):
            self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]), graph=name)
        self.members_end(store, "a", graph="g1")
        self.members_end(store, "b", graph="g1")

        assert [graph.id for graph in store.graphs("default")] == ["g2", "g1"]
        assert [graph.id for graph in store.graphs("default", before="g2")] == ["g1"]
        assert [graph.id for graph in store.graphs("default", status="completed")] == ["g1"]
        assert store.graphs("other") == []
        assert store.needed_by("g2::b") == [c.Needed(0, "g2::a", "started", None)]  # type: ignore[arg-type]
        assert [(group.need, group.total) for group in store.groups_of_member("g2::b")] == [(1, 1)]
        member = store.member("g2::b")
        assert member is not None and member.state == "waiting"
        assert store.member("g2::nobody") is None

    def test_graphs_move_with_the_installation(self, store: c.Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]))
        (run,) = self.claim(store)
        self.finish(store, run)
        standing, runs = store.standing(), store.dossiers("", 100, 10**6)
        assert standing["graph_news"] == [["g", "g::a", "completed", store.now()]]
        before = store.whole_graph("g")
        self.execute(store, "DELETE FROM holdfast.event")
        self.execute(store, "DELETE FROM holdfast.run")
        self.do(store, c.BeginCopy([], standing))
        self.do(store, c.CopyRuns(runs))
        self.do(store, c.EndCopy())

        assert store.whole_graph("g") == before
        assert [born.run.id for born in self.settle_graphs(store).born] == ["g::b"]

    def test_runs_of_a_graph_go_when_the_graph_has_ended_and_it_with_them(self, store: c.Store, clock: HandClock) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)]))
        self.members_end(store, "a")
        clock.move(MINUTE)
        assert self.do(store, c.Prune(clock.now(), ["completed"])).runs == 0
        self.members_end(store, "b")
        clock.move(MINUTE)
        assert self.do(store, c.Prune(clock.now(), ["completed"])).runs == 2

        assert store.graph("g") is None
        assert store.standing().keys() & {"graph", "graph_member", "graph_group", "graph_edge", "graph_event"} == set()

    def test_graphs_can_go_alone(self, store: c.Store, clock: HandClock) -> None:
        self.stage_graph(store, self.new_member("a"))
        self.stage_graph(store, self.new_member("a"), graph="h")
        self.members_end(store, "a")
        clock.move(MINUTE)

        assert self.do(store, c.PruneGraphs(clock.now(), "other")) == 0
        assert self.do(store, c.PruneGraphs(clock.now(), "default")) == 1
        assert [graph.id for graph in store.graphs("default")] == ["h"]
        assert self.status(store, "g::a") == "completed"

    def test_the_input_of_a_member_that_waits_can_be_put_into_another_seal(self, store: c.Store) -> None:
        self.stage_graph(store, self.new_member("a"), self.new_member("b", [(["a"], 1)], data=[1]))

        assert store.members_to_seal("", 10) == [("g::b", b"[1]")]
        assert not self.do(store, c.ResealMember("g::b", b"[2]", b"[3]"))
        assert self.do(store, c.ResealMember("g::b", b"[1]", b"[3]"))
        self.members_end(store, "a")
        assert self.get(store, "g::b").input == b"[3]"

    def test_two_processes_settle_and_each_end_counts_once(self, store: c.Store, reopen: OpenStore, clock: HandClock) -> None:
        other = reopen(clock)
        self.stage_graph(store, self.new_member("a"), self.new_member("b"), self.new_member("z", [(["a", "b"], 2)]))
        first, second = self.claim(store)
        self.finish(store, first)
        self.finish(store, second)

        assert [len(self.settle_graphs(one).born) for one in (store, other)] == [1, 0]


class Graphs(StagingGraphs, SettlingGraphs, CancellingGraphs, ReplayingMembers, KeepingGraphs):
    """All promises about graphs."""


_MEMBER = (
    "INSERT INTO holdfast.graph_member (run_id, graph_id, workflow, state, missing, spec, input)"
    " VALUES ('{run}', 'g', 'w', '{state}', {missing}, '', '')"
)
_GRAPH = (
    "INSERT INTO holdfast.graph (id, namespace, name, status, revision, members, live, events, fingerprint, created_at)"
    " VALUES ('g', 'n', 'g', '{status}', 1, {members}, {live}, {events}, '', 1)"
)


def _graph(status: str = "running", members: int = 0, live: int = 0, events: int = 0) -> str:
    return _GRAPH.format(status=status, members=members, live=live, events=events)


def _member(run: str = "g::x", state: str = "skipped", missing: int = 0) -> str:
    return _MEMBER.format(run=run, state=state, missing=missing)


def _group(need: int = 1, total: int = 1, done: int = 0, state: str = "open") -> str:
    columns = "run_id, number, need, total, done, lost, rest, state"
    return f"INSERT INTO holdfast.graph_group ({columns}) VALUES ('g::x', 0, {need}, {total}, {done}, 0, 'run', '{state}')"


BROKEN |= {
    "a_graph_counts_its_members": _graph(members=1),
    "a_graph_counts_its_members_that_have_not_ended": _graph(live=1),
    "a_graph_ends_with_its_last_member": _graph(),
    "a_graph_tells_each_change_in_its_audit_trail": _graph(events=1),
    "a_member_belongs_to_a_graph": _member(),
    "a_member_that_was_started_has_a_run": _member(state="started"),
    "a_member_that_waits_has_no_run_and_waits_for_something": _member(state="waiting"),
    "a_graph_hears_of_the_end_of_a_member": _member(run="completed", state="started"),
    "a_member_that_waits_counts_what_it_waits_for": _member(state="waiting", missing=1),
    "a_group_has_as_many_edges_as_it_says": _group(need=2),
    "a_group_counts_how_its_members_ended": _group(done=1),
    "whoever_waits_can_still_be_started": _group(need=1, done=1),
    "an_edge_stays_in_its_graph": "INSERT INTO holdfast.graph_edge (upstream, dependent, number) VALUES ('g::x', 'h::y', 0)",
}
