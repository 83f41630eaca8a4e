"""Very many runs and events are replayed and forked in portions."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Fail, Graph, step, workflow
from holdfast.errors import GraphFailed, RunExists, RunFailed, StageGone
from holdfast.service import fork as fork_service
from holdfast.service import graphs
from holdfast.service import replay as replay_service
from holdfast.store import batch
from holdfast.store.graphs.operations import ReplayMember, SweepStages
from holdfast.store.postgres import batch as postgres_writing
from holdfast.store.runs.copy_operations import ImportRun, StageEvents
from holdfast.store.runs.operations import ReplayRun, ReplayRuns
from holdfast.testing import internals
from tests.engine.very_many.workflows import total


@workflow(name="very_many_fragile_map")
async def fragile_map(count: int) -> int:
    return sum(await holdfast.map(fragile, range(count), min_success=count))


mended = []


@workflow(name="very_many_fragile")
async def fragile(number: int) -> int:
    if not mended:
        raise Fail("not yet")
    return number


@workflow(name="very_many_steps")
async def many_steps(count: int) -> int:
    numbers = await holdfast.gather(*(weigh(number) for number in range(count)))
    return await add_up(numbers)


@step
async def weigh(number: int) -> int:
    return number


@step
async def add_up(numbers: list) -> int:
    return sum(numbers)


def test_a_replay_puts_very_many_runs_back_to_work_in_parts(engine, monkeypatch):
    monkeypatch.setattr(graphs, "ROOTS", 3)
    graph = Graph()
    members = [graph.add(fragile, number, name=f"m{number}") for number in range(10)]
    graph.add(total, name="total").after(*members, into="numbers")
    mended.clear()
    run = engine.graphs.start(graph, id="g")
    with pytest.raises(GraphFailed):
        run.result(timeout=60)
    parts = []
    apply = internals(engine).store.apply

    def counted(batch):
        parts.extend(len(op.replays) for op in batch if isinstance(op, ReplayMember))
        return apply(batch)

    monkeypatch.setattr(internals(engine).store, "apply", counted)
    mended.append(True)
    run.replay("total")

    assert run.result(timeout=60) == {"total": sum(range(10))}
    assert parts == [3, 3, 3, 1]


def test_a_long_history_is_forked_in_portions(engine, monkeypatch):
    monkeypatch.setattr(fork_service, "PART", 4)
    run = engine.start(many_steps, 20)
    run.result(timeout=60)
    written = []
    apply = internals(engine).store.apply

    def counted(batch):
        written.extend(len(op.events) for op in batch if isinstance(op, ImportRun | StageEvents))
        return apply(batch)

    monkeypatch.setattr(internals(engine).store, "apply", counted)
    fork = engine.fork(run.id, from_step="add_up")

    assert fork.result(timeout=60) == sum(range(20))
    assert written == [4, 4, 4, 4, 4, 1]
    kinds = [event.kind for event in fork.history()]
    assert kinds == ["step_completed"] * 20 + ["run_forked", "step_completed", "run_completed"]
    assert "graph_stage" not in internals(engine).store.installation.rows()
    assert engine.database.check() == []


def test_few_events_with_large_values_are_forked_in_portions(engine, monkeypatch):
    monkeypatch.setattr(fork_service, "BYTES", 3)
    run = engine.start(many_steps, 12)
    run.result(timeout=60)

    fork = engine.fork(run.id, from_step="add_up")

    assert fork.result(timeout=60) == sum(range(12))
    assert engine.database.check() == []


def test_a_fork_that_is_refused_leaves_nothing_behind(engine, monkeypatch):
    monkeypatch.setattr(fork_service, "PART", 4)
    run = engine.start(many_steps, 20)
    run.result(timeout=60)
    apply = internals(engine).store.apply

    def give_up_at_the_end(batch):
        for op in batch:
            if isinstance(op, ImportRun):
                apply([SweepStages(op.staged.stage_id, give_up=True)])
        return apply(batch)

    monkeypatch.setattr(internals(engine).store, "apply", give_up_at_the_end)
    with pytest.raises(StageGone):
        engine.fork(run.id, from_step="add_up", id="fork")

    assert "graph_stage" not in internals(engine).store.installation.rows()
    assert internals(engine).store.runs.counts() == {"completed": 1}
    assert engine.database.check() == []


def test_a_fork_with_an_id_is_made_once(engine, monkeypatch):
    monkeypatch.setattr(fork_service, "PART", 4)
    run = engine.start(many_steps, 20)
    run.result(timeout=60)
    fork = engine.fork(run.id, from_step="add_up", id="fork")

    assert engine.fork(run.id, from_step="add_up", id="fork").id == fork.id == "fork"
    assert fork.result(timeout=60) == sum(range(20))
    assert engine.fork(run.id, from_step="add_up", id="fork").id == "fork"
    for source, from_step in ((run.id, None), (fork.id, "add_up")):
        with pytest.raises(RunExists):
            engine.fork(source, from_step=from_step, id="fork")
    with pytest.raises(RunExists):
        engine.fork(run.id, from_step="add_up", id=run.id)
    assert internals(engine).store.runs.counts() == {"completed": 2}


def test_very_many_children_are_replayed_in_portions_before_their_parent(engine, monkeypatch):
    mended.clear()
    run = engine.start(fragile_map, 10)
    with pytest.raises(RunFailed):
        run.result(timeout=60)
    parts = []
    apply = internals(engine).store.apply

    def counted(batch):
        parts.extend(len(op.replays) for op in batch if isinstance(op, ReplayRuns))
        return apply(batch)

    monkeypatch.setattr(internals(engine).store, "apply", counted)
    mended.append(True)
    engine.replay(run.id)

    assert run.result(timeout=60) == sum(range(10))
    assert parts == [3, 3, 3, 1]
    assert engine.database.check() == []


@pytest.fixture
def statements(monkeypatch):
    """How many statements each replay takes."""
    found = []

    def counting(apply):
        def counted(tx, op):
            counter = StatementCounter(tx)
            answer = apply(counter, op)
            found.append(counter.statements)
            return answer

        return counted

    for applied in (batch.APPLY, postgres_writing._APPLY):
        for kind in (ReplayRuns, ReplayRun):
            monkeypatch.setitem(applied, kind, counting(applied[kind]))
    return found


class StatementCounter:
    """A transaction that counts its calls."""

    def __init__(self, tx):
        self._tx = tx
        self.statements = 0

    def __getattr__(self, name):
        self.statements += name in ("rows", "change", "many")
        return getattr(self._tx, name)


@pytest.mark.parametrize("portion", [8, 100])
def test_a_portion_is_replayed_with_few_statements(engine, monkeypatch, statements, portion):
    monkeypatch.setattr(replay_service, "PORTION", portion)
    mended.clear()
    run = engine.start(fragile_map, 16)
    with pytest.raises(RunFailed):
        run.result(timeout=60)

    mended.append(True)
    engine.replay(run.id)

    assert run.result(timeout=60) == sum(range(16))
    assert statements
    assert max(statements) <= 16
    assert engine.database.check() == []
