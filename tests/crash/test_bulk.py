"""Bulk operations and crashes: each run is changed once, wherever a process dies, and however many
processes carry out the operation."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

import pytest

from holdfast import Engine, Fail, step, wait_signal, workflow
from holdfast.connect import operation_procedures
from holdfast.connect.open_store import open_store
from holdfast.core.events import EventKind
from holdfast.service import operations
from holdfast.store.operations.operations import CarryOut, StartOperation
from holdfast.store.runs.list_query import RunFilter
from holdfast.testing import Lab
from holdfast.testing.clock import VirtualClock
from holdfast.testing.faults import AFTER, BEFORE, Fault
from holdfast.testing.recorder import CommitRecorder
from tests.crash.stages import Stage, databases
from tests.engine.databases import execute
from tests.engine.waiting import wait_until

RUNS = 5
mended = [False]


@step
async def try_once() -> str:
    if not mended[0]:
        raise Fail("not yet")
    return "done"


@workflow(name="crash_bulk_failing")
async def failing() -> str:
    return await try_once()


@workflow(name="crash_bulk_listening")
async def listening() -> object:
    return await wait_signal("go")


WORKFLOWS = [failing, listening]
VERBS = {
    "signal": (listening, lambda runs: runs.signal("go", 7)),
    "cancel": (listening, lambda runs: runs.cancel("closed")),
    "replay": (failing, lambda runs: runs.replay()),
    "delete": (failing, lambda runs: runs.delete()),
}


def play(database: str, verb: str, plans: list[Fault]) -> CommitRecorder:
    """Apply a verb to some runs, and check that each was changed once; return what was
    committed."""
    flow, apply = VERBS[verb]
    mended[0] = False

    def begin(lab: Lab) -> None:
        for number in range(RUNS):
            lab.engine.start(flow, id=f"r{number}")

    def change(lab: Lab) -> None:
        mended[0] = True
        stored = lab.engine.operations.list()
        if stored:
            lab.engine.operations.wait(stored[0].id)
        else:
            apply(lab.engine.runs(workflow=flow.name))

    stage = Stage(database, [begin, change], plans, WORKFLOWS, VirtualClock())
    with stage.played() as store:
        (operation,) = store.operations.find(None)
        assert (operation.status, operation.done, operation.refused) == ("completed", RUNS, 0)
        runs = store.runs.find(RunFilter(limit=100))
        assert len(runs) == (0 if verb == "delete" else RUNS)
        for run in runs:
            kinds = [event.kind for event in store.runs.history(run.id)]
            assert kinds.count(EventKind.RUN_REPLAYED) == (verb == "replay")
            assert run.status == ("cancelled" if verb == "cancel" else "completed")
    return stage.ledger


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.timeout(300)
def test_each_run_is_changed_once_wherever_a_process_dies(
    kind, verb, request, tmp_path, monkeypatch
):
    for module in (operations, operation_procedures):
        monkeypatch.setattr(module, "PART", 2)
    with databases(kind, request, tmp_path) as fresh:
        commits = enumerate(play(fresh(), verb, []).commits, start=1)
        boundaries = [
            number
            for number, commit in commits
            if any(isinstance(op, StartOperation | CarryOut) for op in commit.batch)
        ]
        assert len(boundaries) == 4  # the operation, and three portions
        for number in boundaries:
            for moment in (BEFORE, AFTER):
                play(fresh(), verb, [Fault(number, moment)])


CARRIER = """
import sys
from holdfast import Engine
from holdfast.connect import operation_procedures
from holdfast.service import operations
operations.PART = operation_procedures.PART = 3
with Engine(sys.argv[1], workflows=[], work=False) as engine:
    tell = lambda count: print(count, flush=True)
    if len(sys.argv) > 2:
        engine.operations.wait(sys.argv[2], progress=tell)
    else:
        engine.runs().signal("go", 7, progress=tell)
"""
MANY = 300


def carry_out(database: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CARRIER, database, *words], stdout=subprocess.PIPE, text=True
    )


def signals_of(database: str) -> set[int]:
    """Return how many signals the runs have."""
    with closing(open_store(database)) as store:
        runs = store.runs.find(RunFilter(limit=2 * MANY))
        assert len(runs) == MANY
        return {len(store.signals.of_run(run.id)) for run in runs}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.timeout(120)
def test_a_worker_finishes_the_operation_of_a_killed_process(kind, request, tmp_path):
    with databases(kind, request, tmp_path) as fresh:
        database = fresh()
        with closing(Engine(database, workflows=[])) as engine:
            engine.start_many("nothing", range(MANY))
        carrier = carry_out(database)
        assert carrier.stdout is not None
        carrier.stdout.readline()
        carrier.kill()
        carrier.wait()
        carrier.stdout.close()
        with closing(Engine(database, workflows=[])) as engine:
            (operation,) = engine.operations.list()
            assert operation.status == "running"
            assert 0 < operation.changed < MANY
            execute(database, "UPDATE holdfast.operation SET due_at = 1")
            engine.work()

            wait_until(engine, lambda: engine.operations.get(operation.id).status == "completed")

            assert engine.operations.get(operation.id).changed == MANY
        assert signals_of(database) == {1}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.timeout(120)
def test_two_processes_that_carry_out_an_operation_change_each_run_once(kind, request, tmp_path):
    with databases(kind, request, tmp_path) as fresh:
        database = fresh()
        with closing(Engine(database, workflows=[])) as engine:
            engine.start_many("nothing", range(MANY))
            operation = engine.runs().signal("go", 7, wait=False)
            carriers = [carry_out(database, str(operation.id)) for _ in range(2)]
            counts = [carrier.communicate(timeout=100)[0].split() for carrier in carriers]

            assert [carrier.returncode for carrier in carriers] == [0, 0]
            assert sum(int(count) for line in counts for count in line) >= MANY
            assert engine.operations.get(str(operation.id)).changed == MANY
        assert signals_of(database) == {1}
