"""Graphs and crashes: whoever dies before or after whichever commit, each member is started once,
and the graph ends the same."""

from __future__ import annotations

import signal
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Fail, Graph, step, wait_signal, workflow
from holdfast.connect.open_store import open_store
from holdfast.engine.runtime import graph_stages
from holdfast.errors import GraphFinished, MemberExists, RunFinished, StoreHalfCopied
from holdfast.payloads.sealer import PayloadSealer
from holdfast.service import graphs
from holdfast.service.export import export_graph
from holdfast.store.graphs import portions
from holdfast.store.graphs.operations import (
    AddMembers,
    CancelGraph,
    ReplayMember,
    ResolveGraphs,
    StageGraphs,
    SweepStages,
    WriteStagePart,
)
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.store import Store
from holdfast.testing import Lab, internals
from holdfast.testing.clock import VirtualClock
from holdfast.testing.faults import AFTER, BEFORE, ZOMBIE, Crash, Fault, has_effect
from holdfast.testing.recorder import CommitRecorder
from tests.crash.stages import Act, Stage, databases, replace_one, victims
from tests.crash.test_processes import until

mended = [False]


@step
async def weigh(number: int) -> int:
    return number


@workflow(name="crash_graph_add")
async def add(x: int, y: int = 1) -> int:
    return await weigh(x) + y


@workflow(name="crash_graph_listen")
async def listen() -> str:
    return await wait_signal("go", type=str)


@workflow(name="crash_graph_fickle")
async def fickle(name: str) -> str:
    if not mended[0]:
        raise Fail("not yet")
    return name


@workflow(name="crash_graph_planner")
async def planner() -> int:
    more = Graph()
    first = more.add(add, 1, name="grown")
    more.add(add, first.result, name="grown-more").after(more.member("planner"))
    return len(await holdfast.graphs.extend(more))


@workflow(name="crash_graph_large_planner")
async def large_planner() -> int:
    more = Graph()
    for number in range(5):
        more.add(add, number, name=f"x{number}").after(more.member("top"))
    more.add(add, 1, name="last").after("x0", "x1", "x2")
    return len(await holdfast.graphs.extend(more))


OURS = (
    WriteStagePart,
    SweepStages,
    StageGraphs,
    AddMembers,
    ResolveGraphs,
    CancelGraph,
    ReplayMember,
)
WORKFLOWS = [add, listen, fickle, planner, large_planner]


def start(lab: Lab) -> None:
    graph = Graph("all there is")
    top = graph.add(add, 1, name="top")
    left, right = (
        graph.add(add, top.result, name="left"),
        graph.add(add, top.result, 5, name="right"),
    )
    graph.add(add, left.result, right.result, name="bottom")
    held, slow = graph.add(listen, name="held"), graph.add(listen, name="slow")
    graph.add(listen, name="never").after("bad")
    graph.add(add, 1, name="one").after(held, slow, "never", need="any", rest="cancel")
    graph.add(fickle, "bad", name="bad")
    graph.add(planner, name="planner")
    lab.engine.graphs.start(graph, id="g")


def go(lab: Lab) -> None:
    with suppress(RunFinished):
        lab.engine.signal("g::held", "go", "on", key="go")


def extend(lab: Lab) -> None:
    more = Graph()
    more.add(add, 7, name="outside").after(more.member("one"), more.member("held"))
    with suppress(MemberExists):
        lab.engine.graphs.extend("g", more)


def hold(lab: Lab) -> None:
    graph = Graph()
    graph.add(listen, name="x")
    graph.add(add, 1, name="y").after("x")
    graph.add(listen, name="z", delay="1h")
    lab.engine.graphs.start(graph, id="g")


def mend(lab: Lab) -> None:
    """Do it again, unless that was done."""
    mended[0] = True
    if internals(lab.engine).store.graphs.member("g::never").state == "skipped":
        lab.engine.graphs.replay("g", "never")


def answer(lab: Lab) -> None:
    with suppress(RunFinished):
        lab.engine.signal("g::never", "go", "at last", key="go")


def cancel(policy: str) -> Act:
    def act(lab: Lab) -> None:
        with suppress(GraphFinished):
            lab.engine.graphs.cancel("g", policy)

    return act


def release(lab: Lab) -> None:
    with suppress(RunFinished):
        lab.engine.signal("g::x", "go", "on", key="go")


def start_large(lab: Lab) -> None:
    graph = Graph("in parts")
    top = graph.add(add, 1, name="top")
    below = [graph.add(add, top.result, number, name=f"m{number}") for number in range(3)]
    graph.add(add, 1, name="bottom").after(*below)
    lost = graph.add(fickle, "x", name="lost")
    for number in range(3):
        graph.add(add, number, name=f"skipped{number}").after(lost)
    lab.engine.graphs.start(graph, id="g")


def extend_large(lab: Lab) -> None:
    more = Graph()
    for number in range(3):
        more.add(add, number, name=f"x{number}").after(more.member("top"))
        more.add(add, number, name=f"y{number}").after(more.member("lost"))
    more.add(add, 1, name="last").after("x0", "x1", "x2")
    with suppress(MemberExists, GraphFinished):
        lab.engine.graphs.extend("g", more)


def start_to_grow(lab: Lab) -> None:
    graph = Graph("grown in parts")
    graph.add(add, 1, name="top")
    graph.add(large_planner, name="planner")
    lab.engine.graphs.start(graph, id="g")


def hold_large(lab: Lab) -> None:
    graph = Graph()
    graph.add(listen, name="x")
    for number in range(3):
        graph.add(add, number, name=f"m{number}").after("x")
        graph.add(listen, name=f"held{number}", delay="1h")
    lab.engine.graphs.start(graph, id="g")


def start_lost(lab: Lab) -> None:
    """Two fail, for each of which several are skipped, and one that waits for all of them."""
    graph = Graph("replayed in parts")
    lost = [graph.add(fickle, f"x{number}", name=f"lost{number}") for number in range(2)]
    below = [
        graph.add(add, number, name=f"m{number}").after(lost[number % 2]) for number in range(6)
    ]
    graph.add(add, 1, name="bottom").after(*below)
    lab.engine.graphs.start(graph, id="g")


def replay_lost(lab: Lab) -> None:
    """Do it again, unless all of it was."""
    mended[0] = True
    for name in ("lost0", "lost1", "bottom"):
        if internals(lab.engine).store.graphs.member(f"g::{name}").state in ("failed", "skipped"):
            lab.engine.graphs.replay("g", "bottom")
            return


def start_alone(lab: Lab) -> None:
    for name in ("solo", "late", "gone"):
        lab.engine.start(listen, id=name)
    with suppress(RunFinished):
        lab.engine.signal("gone", "go", "early", key="go")


def join_graph(lab: Lab) -> None:
    graph = Graph("of runs that exist")
    graph.add(add, 1, name="after").after(graph.join("gone"), graph.join("solo"))
    lab.engine.graphs.start(graph, id="g")


def join_late(lab: Lab) -> None:
    with suppress(GraphFinished):
        lab.engine.graphs.join("g", "late", name="last")


def go_alone(lab: Lab) -> None:
    for name in ("solo", "late"):
        with suppress(RunFinished):
            lab.engine.signal(name, "go", "on", key="go")


def join_large(lab: Lab) -> None:
    lab.engine.start(listen, id="solo")
    graph = Graph("joined in parts")
    solo = graph.join("solo")
    for number in range(5):
        graph.add(add, number, name=f"m{number}").after(solo)
    lab.engine.graphs.start(graph, id="g")


def go_solo(lab: Lab) -> None:
    with suppress(RunFinished):
        lab.engine.signal("solo", "go", "on", key="go")


LARGE: dict[str, list[Act]] = {
    "join": [join_large, go_solo],
    "replay": [start_lost, replay_lost],
    "start and extend": [start_large, extend_large],
    "grow from inside": [start_to_grow],
    "cancel all": [hold_large, cancel("all")],
    "cancel the graph": [hold_large, cancel("graph"), release],
}
"""What is done in parts."""

SCRIPTS: dict[str, list[Act]] = {
    "all there is": [start, extend, go, mend, answer],
    "join": [start_alone, join_graph, join_late, go_alone],
    "cancel all": [hold, cancel("all")],
    "cancel pending": [hold, cancel("pending"), release],
    "cancel the graph": [hold, cancel("graph"), release],
}


def play(
    database: str, script: list[Act], plans: list[Fault]
) -> tuple[dict[str, object], CommitRecorder]:
    """Return how the graph and its members ended, and what was committed."""
    mended[0] = False
    stage = Stage(database, script, plans, WORKFLOWS, VirtualClock())
    with stage.played() as store:
        whole = store.graphs.snapshot("g")
        assert whole is not None
        starts = [
            event.member for event in store.graphs.events("g") if event.kind == "member_started"
        ]
        assert len(starts) == len(set(starts))
        runs = {
            run.id: (run.status.value, run.result) for run in store.runs.find(RunFilter(limit=1000))
        }
        ended = {
            "": whole.graph.status.value,
            **{name: member.state.value for name, member in whole.members.items()},
        }
        return ended | runs, stage.ledger


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.timeout(300)
def test_a_graph_ends_the_same_wherever_whoever_dies(kind, name, request, tmp_path):
    ends_the_same(kind, SCRIPTS[name], request, tmp_path)


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.timeout(300)
def test_a_graph_that_is_written_in_parts_ends_the_same_wherever_whoever_dies(
    kind, name, request, tmp_path, monkeypatch
):
    monkeypatch.setattr(graph_stages, "PART", 4)
    monkeypatch.setattr(portions, "PORTION", 2)
    monkeypatch.setattr(portions, "LINKS", 2)
    monkeypatch.setattr(graphs, "ROOTS", 1)

    ends_the_same(kind, LARGE[name], request, tmp_path)


def ends_the_same(
    kind: str, script: list[Act], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with databases(kind, request, tmp_path) as fresh:
        expected, ledger = play(fresh(), script, [])
        commits = list(enumerate(ledger.commits, start=1))
        boundaries = [
            number
            for number, commit in commits
            if has_effect(commit.batch, commit.answers)
            and (kind == "sqlite" or any(isinstance(op, OURS) for op in commit.batch))
        ]
        assert boundaries
        plans = [
            Fault(boundaries[0], BEFORE),
            *(Fault(number, AFTER) for number in boundaries),
        ]  # before one is after another
        plans += [Fault(number, ZOMBIE) for number in boundaries] if kind == "sqlite" else []
        for plan in plans:
            assert play(fresh(), script, [plan])[0] == expected, str(plan)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals of POSIX")
def test_graphs_end_when_real_workers_are_killed(kind, request, tmp_path):
    def chain(number: int) -> Graph:
        graph = Graph(f"chain {number}")
        last = graph.add("five_steps", number, name="0")
        for place in range(1, 4):
            last = graph.add("five_steps", last.result, name=str(place))
        return graph

    with victims(kind, request, tmp_path) as (workers, engine):
        runs = engine.graphs.start_many([chain(number) for number in range(10)])
        for wanted in (9, 18):
            until(
                lambda wanted=wanted: (
                    sum(run.status == "completed" for run in engine.runs().page(limit=1000))
                    >= wanted
                )
            )
            replace_one(workers)
        for number, run in enumerate(runs):
            total = number
            for _ in range(4):
                total = 5 * total + 10
            assert run.result(timeout=60) == {"3": total}
        assert engine.database.check() == []


class Mortal:
    """A store whose process dies before or after one of its commits."""

    def __init__(self, store: Any, number: int, side: str) -> None:
        self._store, self._left, self._side = store, number, side

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def apply(self, batch: list[Any]) -> list[Any]:
        self._left -= 1
        if self._left == 0 and self._side == BEFORE:
            raise Crash
        answers = self._store.apply(batch)
        if self._left == 0:
            raise Crash
        return answers


def test_an_export_that_dies_leaves_a_whole_copy_or_one_that_says_it_is_none(tmp_path):
    with Lab(tmp_path / "source.db", workflows=WORKFLOWS) as lab:
        hold(lab)
        lab.settle()
        source = internals(lab.engine).store
        commits = 0
        for number, side in ((number, side) for number in range(1, 20) for side in (BEFORE, AFTER)):
            target = tmp_path / f"{number}{side}.db"
            try:
                export_graph(
                    source,
                    PayloadSealer(source),
                    "g",
                    lambda: Mortal(open_store(target), number, side),  # noqa: B023
                )
            except Crash:
                commits = number
                _whole_or_half(target, source, whole=number == 4 and side == AFTER)
    assert commits == 4  # it is marked, the runs, the graph, the mark is taken off


def _whole_or_half(target: Path, source: Store, *, whole: bool) -> None:
    try:
        with closing(open_store(target)) as copy:
            if whole:
                assert copy.graphs.snapshot("g") == source.graphs.snapshot("g")
            else:
                assert copy.runs.counts() == {}
            assert copy.check() == []
    except StoreHalfCopied:
        assert not whole
