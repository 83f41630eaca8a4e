"""Graphs in the pure core: random ones, ended in random order, against what anybody can count."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.graphs.builder import PLACE, Graph, fill_places, with_places
from holdfast.core.graphs.document import mermaid, read
from holdfast.core.graphs.model import (
    ENDED,
    LOST,
    EdgeRecord,
    GraphPatch,
    GraphSnapshot,
    GroupRecord,
    GroupState,
    MemberRecord,
    MemberSpec,
    MemberState,
    NewMember,
    RemainderPolicy,
)
from holdfast.core.graphs.model import GraphRecord as Record
from holdfast.core.graphs.resolution import Link, Resolver, Upstream, judged
from holdfast.core.graphs.validation import check_patch, cycle_in, ending, group_from, replay_roots
from holdfast.core.runs import Route
from holdfast.errors import (
    BadGraph,
    EdgeAcrossNamespaces,
    EdgeExists,
    GraphCycle,
    MemberElsewhere,
    MemberExists,
    MemberNotFound,
    SelfEdge,
)

S, G = MemberState, GroupState
FAILURES = (S.FAILED, S.CANCELLED, S.EXPIRED)


class Board:
    """A graph in memory: what a store would hold, and how it would be written."""

    def __init__(self, groups: list[list[tuple[list[int], int, RemainderPolicy]]]) -> None:
        self.members = [f"m{number}" for number in range(len(groups))]
        self.state = {
            name: S.STARTED if not mine else S.WAITING
            for name, mine in zip(self.members, groups, strict=True)
        }
        self.groups: dict[tuple[str, int], GroupRecord] = {}
        self.edges: list[EdgeRecord] = []
        self.started = [name for name in self.members if self.state[name] is S.STARTED]
        self.asked: set[str] = set()
        self.decisions: list[tuple[str, int]] = []
        for name, mine in zip(self.members, groups, strict=True):
            for number, (upstreams, need, rest) in enumerate(mine):
                self.groups[name, number] = GroupRecord(
                    run_id=name, number=number, need=need, total=len(upstreams), rest=rest
                )
                self.edges += [
                    EdgeRecord(self.members[upstream], name, number) for upstream in upstreams
                ]

    def end(self, ends: dict[str, MemberState]) -> None:
        resolution = Resolver(self._downward, self._upward).resolve(ends)
        assert all(self.state[name] is S.STARTED for name in ends)
        self.state.update(ends)
        self.groups.update(resolution.groups)
        self.decisions += [(group.run_id, group.number) for group in resolution.decided]
        for name in resolution.starts:
            assert self.state[name] is S.WAITING
            self.state[name] = S.STARTED
            self.started.append(name)
        for name in [*resolution.skips, *resolution.cancels]:
            assert self.state[name] is S.WAITING
        self.state.update(
            dict.fromkeys(resolution.skips, S.SKIPPED)
            | dict.fromkeys(resolution.cancels, S.CANCELLED)
        )
        assert all(self.state[name] is S.STARTED for name in resolution.stops)
        self.asked |= set(resolution.stops)
        self.check()

    def _downward(self, names, limit):
        found = []
        for edge in self.edges:
            if edge.upstream in names:
                group = msgspec.structs.replace(self.groups[edge.dependent, edge.number])
                found.append(
                    Link(
                        edge.upstream,
                        group,
                        self.state[edge.dependent],
                        self.missing(edge.dependent),
                    )
                )
        return found

    def _upward(self, name, number):
        return [
            Upstream(edge.upstream, self.state[edge.upstream])
            for edge in self.edges
            if (edge.dependent, edge.number) == (name, number)
        ]

    def missing(self, name: str) -> int:
        return sum(
            group.state is not G.SATISFIED for (who, _), group in self.groups.items() if who == name
        )

    def check(self) -> None:
        """What is counted is what is so, and nobody waits who could start, or in vain."""
        for (name, number), group in self.groups.items():
            states = [
                self.state[edge.upstream]
                for edge in self.edges
                if (edge.dependent, edge.number) == (name, number)
            ]
            assert group.done == states.count(S.COMPLETED)
            assert group.lost == sum(state in LOST for state in states)
            assert group.state is judged(group) or group.state is G.SATISFIED
            if self.state[name] is S.WAITING:
                assert group.state is not G.IMPOSSIBLE
        for name, state in self.state.items():
            assert state is not S.WAITING or self.missing(name) > 0
        assert len(set(self.decisions)) == len(self.decisions)
        assert len(set(self.started)) == len(self.started)


@st.composite
def graphs(draw, rests=(RemainderPolicy.RUN,)):
    size = draw(st.integers(1, 9))
    found = []
    for number in range(size):
        others = (
            draw(st.lists(st.integers(0, number - 1), unique=True, max_size=4)) if number else []
        )
        cut = draw(st.integers(0, len(others)))
        parts = [part for part in (others[:cut], others[cut:]) if part]
        found.append(
            [
                (part, draw(st.integers(1, len(part))), draw(st.sampled_from(rests)))
                for part in parts
            ]
        )
    return found


@given(data=st.data(), groups=graphs())
@settings(max_examples=150, deadline=None)
def test_who_is_started_and_who_is_skipped_does_not_depend_on_the_order_of_ends(data, groups):
    board = Board(groups)
    fates = {
        name: data.draw(st.sampled_from([S.COMPLETED, S.COMPLETED, *FAILURES]), label=name)
        for name in board.members
    }
    while live := [name for name, state in board.state.items() if state is S.STARTED]:
        some = data.draw(st.lists(st.sampled_from(live), min_size=1, unique=True))
        board.end({name: fates[name] for name in some})

    assert board.state == expected(board, groups, fates)


def expected(board: Board, groups, fates) -> dict[str, MemberState]:
    """Count it all, from the first to the last."""
    found: dict[str, MemberState] = {}
    for name, mine in zip(board.members, groups, strict=True):
        met = [
            sum(found[f"m{upstream}"] is S.COMPLETED for upstream in upstreams) >= need
            for upstreams, need, _ in mine
        ]
        found[name] = fates[name] if all(met) else S.SKIPPED
    return found


@given(data=st.data(), groups=graphs(rests=(RemainderPolicy.RUN, RemainderPolicy.CANCEL)))
@settings(max_examples=150, deadline=None)
def test_when_the_rest_is_cancelled_nobody_is_who_others_wait_for(data, groups):
    board = Board(groups)
    while live := [name for name, state in board.state.items() if state is S.STARTED]:
        name = data.draw(st.sampled_from(live))
        fate = (
            S.CANCELLED
            if name in board.asked
            else data.draw(st.sampled_from([S.COMPLETED, *FAILURES]))
        )
        asked = set(board.asked)
        board.end({name: fate})
        for stopped in board.asked - asked:
            mine = [
                board.groups[edge.dependent, edge.number]
                for edge in board.edges
                if edge.upstream == stopped
            ]
            assert all(
                one.state is not G.OPEN or board.state[one.run_id] is not S.WAITING for one in mine
            )

    assert set(board.state.values()) <= ENDED


@given(data=st.data(), groups=graphs())
@settings(max_examples=100, deadline=None)
def test_what_is_done_again_can_end_well(data, groups):
    board = Board(groups)
    while live := [name for name, state in board.state.items() if state is S.STARTED]:
        board.end({live[0]: data.draw(st.sampled_from([S.COMPLETED, S.FAILED]))})
    lost = [name for name, state in board.state.items() if state in LOST]
    if not lost:
        return
    chosen = data.draw(st.sampled_from(lost))
    roots = replay_roots(whole(board), chosen)

    assert all(board.state[name] is S.FAILED for name in roots)
    assert (chosen in roots) is (board.state[chosen] is S.FAILED)
    can_complete = {name for name, state in board.state.items() if state is S.COMPLETED} | roots
    for name in board.members:  # each comes after those that it waits for
        mine = groups[board.members.index(name)]
        if board.state[name] is S.SKIPPED and all(
            sum(f"m{upstream}" in can_complete for upstream in upstreams) >= need
            for upstreams, need, _ in mine
        ):
            can_complete.add(name)
    assert chosen in can_complete


def whole(board: Board) -> GraphSnapshot:
    record = Record(
        id="g",
        namespace="default",
        name="g",
        status="running",
        revision=1,
        members=len(board.members),
        live=0,
        events=0,
        fingerprint="",
        created_at=0,
    )
    members = {
        name: MemberRecord(
            run_id=name,
            graph_id="g",
            workflow="w",
            state=state,
            missing=board.missing(name),
            spec=b"",
            input=b"",
            started_at=None if state is S.SKIPPED else 1,
        )
        for name, state in board.state.items()
    }
    return GraphSnapshot(record, members, dict(board.groups), list(board.edges))


# What a graph may look like


def member(
    name: str, *after: str, namespace: str = "default", takes: tuple[str, ...] = ()
) -> NewMember:
    groups = (group_from(after),) if after else ()
    return NewMember(
        name=name,
        spec=MemberSpec(route=Route(namespace, "w", "1", "default"), takes=takes),
        input=b"[]",
        groups=groups,
    )


@pytest.mark.parametrize(
    ("members", "error", "said"),
    [
        ([member("a", "a")], SelfEdge, "a"),
        ([member("a", "b")], MemberNotFound, "b"),
        ([member("a"), member("a")], MemberExists, "a"),
        ([member("a", "c"), member("b", "a"), member("c", "b")], GraphCycle, " -> "),
        ([member("a", namespace="other")], EdgeAcrossNamespaces, "other"),
        ([member("a"), member("b", takes=("a",))], BadGraph, "does not wait"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(members, error, said):
    with pytest.raises(error, match=said):
        check_patch("g", "default", GraphPatch(tuple(members)), {})


def test_an_edge_is_there_once():
    patch = GraphPatch((), (("b", group_from(["a"])),))

    with pytest.raises(EdgeExists):
        check_patch("g", "default", patch, {"a": "default", "b": "default"}, [EdgeRecord("a", "b")])


def test_an_edge_between_members_that_are_there_may_close_a_ring():
    patch = GraphPatch((), (("a", group_from(["b"])),))

    with pytest.raises(GraphCycle):
        check_patch("g", "default", patch, {"a": "default", "b": "default"}, [EdgeRecord("a", "b")])


@given(st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("abcdef"))))
@settings(deadline=None)
def test_a_ring_is_found_if_and_only_if_there_is_one(after):
    def reaches(one, wanted, seen):
        return any(
            next_ == wanted or (next_ not in seen and reaches(next_, wanted, seen | {next_}))
            for next_ in after.get(one, ())
        )

    ring = cycle_in(after)

    assert bool(ring) == any(reaches(one, one, {one}) for one in after)
    assert all(later in after[former] for former, later in itertools.pairwise(ring))
    assert not ring or ring[0] == ring[-1]


@pytest.mark.parametrize("need", [0, 3, "some", True, 1.5])
def test_a_group_needs_some_of_its_members(need):
    with pytest.raises(BadGraph):
        group_from(["a", "b"], need)


def test_a_graph_ends_as_its_last_members_do():
    assert ending(["completed"], cancelled=False) == "completed"
    assert ending(["completed", "skipped"], cancelled=False) == "failed"
    assert ending(["completed"], cancelled=True) == "cancelled"


# Drawing up


def test_a_member_waits_for_those_whose_results_it_takes():
    graph = Graph()
    a, b = graph.add("load", 1, name="a"), graph.add("load", 2, name="b")
    c = graph.add("join", [a.result, {"deep": b.result}], name="c").after(a, need="any")

    assert [(group.upstreams, group.need) for group in c.needs()] == [(("a",), 1), (("b",), 1)]
    assert with_places(c.args) == [[{PLACE: "a"}, {"deep": {PLACE: "b"}}]]
    assert fill_places(with_places(c.args), {"a": 7}) == [[7, {"deep": None}]]


def test_members_are_named_after_their_workflows_and_belong_to_one_graph():
    graph, other = Graph(), Graph()
    first, second = graph.add("load"), graph.add("load")

    assert (first.name, second.name) == ("load", "load-2")
    with pytest.raises(MemberElsewhere):
        other.add("join").after(first)
    with pytest.raises(MemberElsewhere):
        graph.add("join").after("other::load")
    with pytest.raises(MemberExists):
        graph.add("load", name="load")
    with pytest.raises(SelfEdge):
        first.after(first)


def test_a_document_draws_up_a_graph():
    graph = read(
        b"""{"name": "checkout", "members": {
          "charge": {"workflow": "charge", "args": [7], "options": {"priority": 3}},
          "pack": {"workflow": "pack"},
          "ship": {"workflow": "ship", "kwargs": {"payment": {"$result": "charge"}},
                   "after": ["pack", {"of": ["charge"], "need": "any", "rest": "cancel"}]},
          "there": {"after": ["ship"]}}}"""
    )

    assert graph.members["charge"].options == {"priority": 3}
    assert [(need.upstreams, need.rest) for need in graph.members["ship"].needs()] == [
        (("pack",), "run"),
        (("charge",), "cancel"),
    ]
    assert graph.members["ship"].takes() == ["charge"]
    assert [group.upstreams for group in graph.existing["there"].groups] == [("ship",)]


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b'{"members": {"a": {"workflow": "w", "nonsense": 1}}}',
        b'{"members": {"a": {"args": [1]}}}',
        b'{"members": {"a": {"workflow": "\xff"}}}',
        b'{"members": {"a": {"workflow": "w", "args": ['
        + 100_000 * b"["
        + 100_000 * b"]"
        + b"]}}}",
    ],
    ids=["cut off", "an unknown word", "no workflow", "no Unicode", "too deep"],
)
def test_a_document_that_makes_no_sense_is_refused(text):
    with pytest.raises(BadGraph):
        read(text)


def test_a_graph_can_be_drawn():
    lines = list(
        mermaid(
            {
                "a": ("completed", []),
                "b": ("waiting", [(["a"], 1, "run")]),
                "c": ("waiting", [(["a", "b"], 1, "cancel")]),
            }
        )
    )

    assert lines[0] == "flowchart TD"
    assert '    m0["a<br/>completed"]:::completed' in lines
    assert "    m0 --> m1" in lines
    assert "    m1 -->|1 of 2, cancel rest| m2" in lines
