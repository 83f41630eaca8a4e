"""A crash at every commit of what is deleted or started in parts: the same call goes on where it
ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec
import pytest

import holdfast
from holdfast import Fail, Graph, step, workflow
from holdfast.core.runs import NewRun, Route
from holdfast.engine.execution import commits
from holdfast.engine.runtime import graph_stages
from holdfast.errors import RunFinished, StartIncomplete
from holdfast.service import fork as fork_service
from holdfast.service import graph_stages as graph_stage_service
from holdfast.service import replay as replay_service
from holdfast.service import starts as start_service
from holdfast.store.graphs import prune as graph_prune
from holdfast.store.graphs import sweep as graph_sweep
from holdfast.store.graphs.operations import SweepStages
from holdfast.store.runs import advance as run_advance
from holdfast.store.runs import cancel as run_cancel
from holdfast.store.runs import sessions, trees
from holdfast.store.runs.copy_operations import ImportRun, StageEvents
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import (
    Advance,
    EndSession,
    OpenSession,
    Prune,
    ReplayRuns,
    RequestCancel,
    StartRuns,
)
from holdfast.store.store import Store
from holdfast.testing import Lab, internals
from holdfast.testing.clock import VirtualClock
from holdfast.testing.faults import AFTER, BEFORE, Fault, has_effect
from holdfast.testing.recorder import CommitRecorder
from tests.crash.stages import Act, Stage, databases

TABLES = {
    "graph",
    "graph_member",
    "graph_group",
    "graph_edge",
    "graph_event",
    "graph_outbox",
    "graph_stage",
}
begun: list[bool] = []


@workflow(name="crash_many_leaf")
async def leaf(number: int) -> int:
    return number


@workflow(name="crash_many_family")
async def family(count: int) -> int:
    return sum(await holdfast.map(leaf, range(count)))


@workflow(name="crash_many_gathered")
async def gathered(count: int) -> int:
    return sum(await holdfast.gather(*(leaf(number) for number in range(count))))


@workflow(name="crash_many_sleeper")
async def sleeper(number: int) -> None:
    await holdfast.wait_signal("never")


@workflow(name="crash_many_left_behind")
async def left_behind(count: int) -> int:
    for number in range(count):
        await holdfast.start(sleeper, number, delay="1d")
    return count


@workflow(name="crash_many_waiting")
async def waiting(count: int) -> None:
    await holdfast.gather(*(sleeper(number) for number in range(count)))


@workflow(name="crash_many_fragile")
async def fragile(number: int) -> int:
    if not mended:
        raise Fail("not yet")
    return number


@workflow(name="crash_many_fragile_map")
async def fragile_map(count: int) -> int:
    return sum(await holdfast.map(fragile, range(count), min_success=count))


@workflow(name="crash_many_steps")
async def many_steps(count: int) -> int:
    numbers = await holdfast.gather(*(weigh(number) for number in range(count)))
    return await add_up(numbers)


@step
async def weigh(number: int) -> int:
    return number


@step
async def add_up(numbers: list) -> int:
    return sum(numbers)


mended: list[bool] = []
WORKFLOWS = [
    leaf,
    family,
    gathered,
    sleeper,
    left_behind,
    waiting,
    fragile,
    fragile_map,
    many_steps,
]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(start_service, "PART", 2)
    monkeypatch.setattr(graph_stages, "PART", 4)
    monkeypatch.setattr(fork_service, "PART", 2)
    monkeypatch.setattr(graph_prune, "ROWS", 3)
    monkeypatch.setattr(graph_sweep, "PORTION", 2)
    monkeypatch.setattr(trees, "RUNS", 2)
    monkeypatch.setattr(commits, "PORTION", 2)
    monkeypatch.setattr(replay_service, "PORTION", 2)
    monkeypatch.setattr(run_cancel, "PORTION", 2)
    monkeypatch.setattr(run_advance, "PORTION", 2)
    monkeypatch.setattr(sessions, "PORTION", 2)


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
    lab.engine.retention.prune("1m")


def start_many(lab: Lab) -> None:
    """Start them, once: whoever calls again starts others."""
    if not begun:
        begun.append(True)
        with suppress(StartIncomplete):  # the process is dead, and nobody hears of it
            lab.engine.start_many(leaf, range(7))


def gather(lab: Lab) -> None:
    lab.engine.start(gathered, 5, id="parent")


def leave_behind(lab: Lab) -> None:
    lab.engine.start(left_behind, 7, id="parent")


def start_waiting(lab: Lab) -> None:
    lab.engine.start(waiting, 9, id="parent")


def cancel(lab: Lab) -> None:
    with suppress(RunFinished):  # the call that died has done it
        lab.engine.cancel("parent")


def cancel_by_force(lab: Lab) -> None:
    with suppress(RunFinished):
        lab.engine.cancel("parent", force=True)


def fail(lab: Lab) -> None:
    mended.clear()
    lab.engine.start(fragile_map, 5, id="parent")


def replay(lab: Lab) -> None:
    mended.append(True)
    if lab.engine.run("parent").status == "failed":
        lab.engine.replay("parent")


def take_steps(lab: Lab) -> None:
    lab.engine.start(many_steps, 5, id="steps")


def fork_steps(lab: Lab) -> None:
    lab.engine.fork("steps", from_step="add_up", id="fork")


def sweep(lab: Lab) -> None:
    lab.advance("1h")
    graph_stage_service.sweep_all(internals(lab.engine).commit)


def all_are_forked(store: Store, ledger: CommitRecorder) -> None:
    """There is one fork, with the whole history, and nothing else."""
    fork = store.runs.get("fork")
    assert fork is not None
    assert fork.result == b"10"
    kinds = [event.kind for event in store.runs.history("fork") if event.kind != "lease_lost"]
    assert kinds == ["step_completed"] * 5 + ["run_forked", "step_completed", "run_completed"]
    assert store.runs.counts() == {"completed": 2}
    assert "graph_stage" not in store.installation.rows()


def lose_a_worker(lab: Lab) -> None:
    """Let a worker elsewhere hold runs and die, and end its session."""
    store = internals(lab.engine).store
    if store.runs.get("r0") is None:
        own = store.sessions.all()[0]
        gone = msgspec.structs.replace(
            own, id="gone", host="elsewhere", slot=-1, expires_at=store.now() + 60_000_000
        )
        route = Route("default", "crash_many_leaf", "1", "default", ())
        runs = [
            NewRun(id=f"r{number}", route=route, input=b"[1]", session_id="gone")
            for number in range(7)
        ]
        store.apply([OpenSession(gone), StartRuns(runs)])
    while ends := [session.id for session in store.sessions.all() if session.id.startswith("gone")]:
        store.apply([EndSession(ends[0], crashed=True)])


def all_were_taken_over(store: Store, ledger: CommitRecorder) -> None:
    """They are claimed, or wait to be claimed, and no session stands for the dead one."""
    counts = store.runs.counts()
    assert counts.get("pending", 0) + counts.get("completed", 0) == 7
    assert not any(session.id.startswith("gone") for session in store.sessions.all())


def all_are_summed(store: Store, ledger: CommitRecorder) -> None:
    parent = store.runs.get("parent")
    assert parent is not None
    assert parent.result == b"10"
    assert store.runs.counts() == {"completed": 6}


def all_are_left_behind(store: Store, ledger: CommitRecorder) -> None:
    assert store.runs.counts() == {"completed": 1, "cancelled": 7}


def all_are_cancelled(store: Store, ledger: CommitRecorder) -> None:
    assert store.runs.counts() == {"cancelled": 10}


def nothing_is_left(store: Store, ledger: CommitRecorder) -> None:
    assert store.installation.rows().keys() & TABLES == set()
    assert store.runs.counts() == {}


def only_runs_are_left(store: Store, ledger: CommitRecorder) -> None:
    assert store.installation.rows().keys() & TABLES == set()
    assert store.runs.counts() == {"completed": 6}


def parts_are_whole(store: Store, ledger: CommitRecorder) -> None:
    """What was committed has run, and nothing else was started: the parts up to the crash."""
    started = [
        run
        for commit in ledger.commits
        for op in commit.batch
        if isinstance(op, StartRuns)
        for run in op.runs
    ]
    runs = store.runs.find(RunFilter(limit=100))
    assert {run.id for run in runs} == {run.id for run in started}
    assert sorted(int(run.result or b"") for run in runs) == list(range(len(runs)))
    assert len(runs) in (0, 2, 4, 6, 7)


Check = Callable[[Store, CommitRecorder], None]

FORKING = (StageEvents, ImportRun, SweepStages)

SCRIPTS: dict[str, tuple[list[Act], type | tuple[type, ...], Check]] = {
    "a graph is pruned": ([start_graph, prune_graphs], SweepStages, only_runs_are_left),
    "a graph is pruned with its runs": ([start_graph, prune_runs], SweepStages, nothing_is_left),
    "a tree is pruned": ([start_family, prune_runs], Prune, nothing_is_left),
    "many are started": ([start_many], StartRuns, parts_are_whole),
    "many are gathered": ([gather], Advance, all_are_summed),
    "a parent ends before many children": ([leave_behind], Advance, all_are_left_behind),
    "a tree is cancelled": ([start_waiting, cancel], RequestCancel, all_are_cancelled),
    "a tree is cancelled by force": (
        [start_waiting, cancel_by_force],
        RequestCancel,
        all_are_cancelled,
    ),
    "a worker dies that held many": ([lose_a_worker], EndSession, all_were_taken_over),
    "a long history is forked": ([take_steps, fork_steps, sweep], FORKING, all_are_forked),
    "many children are replayed": ([fail, replay], ReplayRuns, all_are_summed),
}
"""What is done, what is done in parts in it, and what is true at the end."""


def play(database: str, script: list[Act], plans: list[Fault], is_right: Check) -> CommitRecorder:
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
            if any(isinstance(op, part) for op in commit.batch)
            and has_effect(commit.batch, commit.answers)
        ]
        assert len(parts) >= 2
        for number in parts:
            for side in (BEFORE, AFTER):
                play(fresh(), script, [Fault(number, side)], is_right)
