"""Replays and crashes: a run and its failed children are put back to work together, wherever a
process dies."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Fail, compensate, step, workflow
from holdfast.core.events import EventKind
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import ReplayRun
from holdfast.testing import Lab
from holdfast.testing.clock import VirtualClock
from holdfast.testing.faults import AFTER, BEFORE, ZOMBIE, Fault, has_effect
from holdfast.testing.recorder import CommitRecorder
from tests.crash.stages import Stage, databases

mended = [False]


@step
async def weigh(number: int) -> int:
    if number == 2 and not mended[0]:
        raise Fail("two is too heavy")
    return number


@step
async def unweigh(number: int) -> None:
    return None


@workflow(name="crash_replay_leaf")
async def leaf(number: int) -> int:
    return await weigh(number)


@workflow(name="crash_replay_branch")
async def branch(number: int) -> int:
    return await leaf(number) + await weigh(1)


@workflow(name="crash_replay_parent")
async def parent() -> list[int]:
    return [await weigh(0), await branch(2)]


@workflow(name="crash_replay_map")
async def mapping() -> list[int]:
    return await holdfast.map(branch, [1, 2, 3])


@workflow(name="crash_replay_saga")
async def saga() -> list[int]:
    await weigh(7)
    compensate(unweigh, 7)
    return [await leaf(1), *await holdfast.map(leaf, [3, 2])]


WORKFLOWS = [leaf, branch, parent, mapping, saga]
RESULTS = {parent: b"[0,3]", mapping: b"[2,3,4]", saga: b"[1,3,2]"}


def play(database: str, flow: object, plans: list[Fault]) -> CommitRecorder:
    """Let a run fail, replay it, and check that it has completed with its children; return what was
    committed."""
    mended[0] = False

    def begin(lab: Lab) -> None:
        lab.engine.start(flow, id="root")

    def mend(lab: Lab) -> None:
        mended[0] = True
        if lab.engine.run("root").status == "failed":
            lab.engine.replay("root")

    stage = Stage(database, [begin, mend], plans, WORKFLOWS, VirtualClock())
    with stage.played() as store:
        root = store.runs.get("root")
        assert root is not None
        assert (root.status, root.result) == ("completed", RESULTS[flow])
        for run in store.runs.find(RunFilter(limit=1000)):
            replays = [
                event
                for event in store.runs.history(run.id)
                if event.kind == EventKind.RUN_REPLAYED
            ]
            assert len(replays) <= 1
            was_replaced = "before replay" in (run.parent_step or "")
            assert run.status == "completed" or was_replaced
    return stage.ledger


@pytest.mark.parametrize("flow", RESULTS, ids=lambda flow: flow.name)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.timeout(300)
def test_a_replay_takes_failed_children_along_wherever_a_process_dies(
    kind, flow, request, tmp_path
):
    with databases(kind, request, tmp_path) as fresh:
        commits = list(enumerate(play(fresh(), flow, []).commits, start=1))
        replay = next(
            number
            for number, commit in commits
            if any(isinstance(op, ReplayRun) for op in commit.batch)
        )
        boundaries = [
            number
            for number, commit in commits
            if number >= replay and has_effect(commit.batch, commit.answers)
        ]
        if kind == "postgres":
            boundaries = boundaries[:3]
        plans = [Fault(replay, BEFORE), *(Fault(number, AFTER) for number in boundaries)]
        plans += [Fault(number, ZOMBIE) for number in boundaries] if kind == "sqlite" else []
        for plan in plans:
            play(fresh(), flow, [plan])
