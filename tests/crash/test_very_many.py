"""A crash at every commit of what is deleted or started in parts: the same call goes on where it ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

import holdfast
from holdfast import Graph, workflow
from holdfast.engine import client, graph_stages
from holdfast.errors import StartIncomplete
from holdfast.store import contract as c
from holdfast.store.transitions import trees
from holdfast.store.transitions.graphs import pruning, sweeping
from holdfast.testing import Lab
from holdfast.testing.boundaries import AFTER, BEFORE, Plan, has_effect
from holdfast.testing.clock import VirtualClock
from holdfast.testing.ledger import Ledger
from tests.crash.scene import Act, Stage, databases

TABLES = {"graph", "graph_member", "graph_group", "graph_edge", "graph_event", "graph_news", "graph_stage"}
begun: list[bool] = []


@workflow(name="crash_many_leaf")
async def leaf(number: int) -> int:
    return number


@workflow(name="crash_many_family")
async def family(count: int) -> int:
    return sum(await holdfast.map(leaf, range(count)))


WORKFLOWS = [leaf, family]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(client, "PART", 2)
    monkeypatch.setattr(graph_stages, "PART", 4)
    monkeypatch.setattr(pruning, "ROWS", 3)
    monkeypatch.setattr(sweeping, "PORTION", 2)
    monkeypatch.setattr(trees, "RUNS", 2)


def start_graph(lab: Lab) -> None:
    graph = Graph("pruned in parts")
    top = graph.add(leaf, 1, name="top")
    for number in range(5):
        graph.add(leaf, number, name=f"m{number}").after(top)
    lab.engine.graphs.start(graph, id="g")


def prune_graphs(lab: Lab) -> None:
    lab.advance("1h")
    lab.engine.graphs.prune("1m")


def start_family(lab: Lab) -> None:
    lab.engine.start(family, 6, id="parent")


def prune_runs(lab: Lab) -> None:
    lab.advance("1h")
    lab.engine.prune("1m")


def start_many(lab: Lab) -> None:
    """Start them, once: whoever calls again starts others."""
    if not begun:
        begun.append(True)
        with suppress(StartIncomplete):  # the process is dead, and nobody hears of it
            lab.engine.start_many(leaf, range(7))


def nothing_is_left(store: c.Store, ledger: Ledger) -> None:
    assert store.standing().keys() & TABLES == set()
    assert store.counts() == {}


def only_runs_are_left(store: c.Store, ledger: Ledger) -> None:
    assert store.standing().keys() & TABLES == set()
    assert store.counts() == {"completed": 6}


def parts_are_whole(store: c.Store, ledger: Ledger) -> None:
    """What was committed has run, and nothing else was started: the parts up to the crash."""
    started = [run for commit in ledger.commits for op in commit.batch if isinstance(op, c.StartRuns) for run in op.runs]
    runs = store.runs(c.Filter(limit=100))
    assert {run.id for run in runs} == {run.id for run in started}
    assert sorted(int(run.result or b"") for run in runs) == list(range(len(runs)))
    assert len(runs) in (0, 2, 4, 6, 7)


Check = Callable[[c.Store, Ledger], None]

SCRIPTS: dict[str, tuple[list[Act], type, Check]] = {
    "a graph is pruned": ([start_graph, prune_graphs], c.SweepStages, only_runs_are_left),
    "a graph is pruned with its runs": ([start_graph, prune_runs], c.SweepStages, nothing_is_left),
    "a tree is pruned": ([start_family, prune_runs], c.Prune, nothing_is_left),
    "many are started": ([start_many], c.StartRuns, parts_are_whole),
}
"""What is done, what is done in parts in it, and what is true at the end."""


def play(database: str, script: list[Act], plans: list[Plan], is_right: Check) -> Ledger:
    begun.clear()
    stage = Stage(database, script, plans, WORKFLOWS, VirtualClock())
    with stage.played() as store:
        is_right(store, stage.ledger)
    return stage.ledger


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.timeout(300)
def test_what_is_done_in_parts_is_done_wherever_whoever_dies(kind, name, request, tmp_path):
    script, part, is_right = SCRIPTS[name]
    with databases(kind, request, tmp_path) as fresh:
        commits = play(fresh(), script, [], is_right).commits
        parts = [
            number
            for number, commit in enumerate(commits, start=1)
            if any(isinstance(op, part) for op in commit.batch) and has_effect(commit.batch, commit.answers)
        ]
        assert len(parts) > 2
        for number in parts:
            for side in (BEFORE, AFTER):
                play(fresh(), script, [Plan(number, side)], is_right)
