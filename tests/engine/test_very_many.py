"""Very many runs and members at once: no transaction writes more than a part, so that other writers get their turn."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Fail, Graph, workflow
from holdfast.engine import client, graph_stages, graphs, wants
from holdfast.errors import GraphBusy, GraphExists, GraphFailed, LaneDraining, StartIncomplete
from holdfast.store import contract as c
from holdfast.store.transitions.graphs import pruning, sweeping, work
from tests.engine.databases import execute
from tests.engine.waiting import wait_until


@workflow(name="very_many_leaf")
async def leaf(number: int) -> int:
    return number


@workflow(name="very_many_mapped")
async def mapped(count: int) -> int:
    return sum(await holdfast.map(leaf, range(count)))


mended = []


@workflow(name="very_many_fragile")
async def fragile(number: int) -> int:
    if not mended:
        raise Fail("not yet")
    return number


@workflow(name="very_many_hear")
async def hear() -> None:
    await holdfast.wait_signal("go")


@workflow(name="very_many_total")
async def total(numbers: dict) -> int:
    return sum(numbers.values())


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(client, "PART", 4)
    monkeypatch.setattr(graph_stages, "PART", 10)
    monkeypatch.setattr(wants, "PORTION", 3)
    monkeypatch.setattr(work, "PORTION", 4)
    monkeypatch.setattr(work, "LINKS", 5)
    monkeypatch.setattr(sweeping, "PORTION", 4)
    monkeypatch.setattr(pruning, "ROWS", 5)


@pytest.fixture
def sizes(engine, monkeypatch):
    """How many runs, members and rows each transaction wrote."""
    found = []
    apply = engine._parts.store.apply

    def counted(batch):
        for op in batch:
            if isinstance(op, c.StartRuns):
                found.append(len(op.runs))
            elif isinstance(op, c.Advance):
                found.append(len(op.children))
            elif isinstance(op, c.StagePart):
                found.append(len(op.members))
        answers = apply(batch)
        found.extend(len(answer.born) for answer in answers if isinstance(answer, c.Settled))
        return answers

    monkeypatch.setattr(engine._parts.store, "apply", counted)
    return found


def fan(count: int) -> Graph:
    graph = Graph("fan")
    root = graph.add(leaf, 0, name="root")
    members = [graph.add(leaf, number, name=f"m{number}").after(root) for number in range(count)]
    graph.add(total, name="total").after(*members, into="numbers")
    return graph


def test_a_graph_is_written_and_started_in_parts_and_is_there_as_a_whole(engine, sizes):
    run = engine.graphs.start(fan(20), id="g")

    assert len(run.show().members) == 22
    assert run.result(timeout=60) == {"total": sum(range(20))}
    assert max(sizes) <= 10
    assert engine.graphs.start(fan(20), id="g").result() == {"total": sum(range(20))}
    with pytest.raises(GraphExists):
        engine.graphs.start(fan(21), id="g")
    assert engine.check() == []


def test_a_graph_grows_by_very_many_members(engine):
    graph = fan(2)
    graph.add(hear, name="open")
    run = engine.graphs.start(graph, id="g")
    more = Graph()
    members = [more.add(leaf, number, name=f"x{number}").after(more.member("root")) for number in range(20)]
    more.add(total, name="more").after(*members, into="numbers")

    assert run.extend(more, revision=1) == 2
    engine.signal("g::open", "go")
    assert run.result(timeout=60) == {"total": 1, "more": sum(range(20)), "open": None}
    assert engine.check() == []


def test_what_is_refused_in_the_end_leaves_nothing_behind(engine):
    engine.lane("closed", draining=True)
    graph = Graph()
    for number in range(20):
        graph.add(leaf, number, name=f"m{number}", lane="closed")

    with pytest.raises(LaneDraining):
        engine.graphs.start(graph, id="g")

    assert engine._parts.store.standing().keys() & {"graph", "graph_member", "graph_stage"} == set()


def test_what_a_dead_process_has_begun_is_deleted_for_whoever_comes_next(engine, database):
    store = engine._parts.store
    op = c.StagePart(
        stage_id="g::dead", namespace="default", members=[("g", member) for member in members_of(engine, fan(2))], written=0
    )
    store.apply([op])
    with pytest.raises(GraphBusy):
        engine.graphs.start(fan(20), id="g")

    execute(database, "UPDATE holdfast.graph_stage SET due_at = 1")

    assert engine.graphs.start(fan(20), id="g").result(timeout=60) == {"total": sum(range(20))}
    assert engine.check() == []


def members_of(engine, graph):
    return engine.graphs._desk._patch(graph, "g")[0].members


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
    apply = engine._parts.store.apply

    def counted(batch):
        parts.extend(len(op.replays) for op in batch if isinstance(op, c.ReplayMember))
        return apply(batch)

    monkeypatch.setattr(engine._parts.store, "apply", counted)
    mended.append(True)
    run.replay("total")

    assert run.result(timeout=60) == {"total": sum(range(10))}
    assert parts == [3, 3, 3, 1]


def test_a_large_graph_is_pruned_in_portions_and_can_be_started_again(engine):
    engine.graphs.start(fan(20), id="g").result(timeout=60)
    assert engine.graphs.prune("0s") == 1

    assert engine._parts.store.standing().keys() & {"graph", "graph_member", "graph_stage", "graph_edge", "graph_event"} == set()
    assert engine.prune("0s") == 22
    assert engine.graphs.start(fan(20), id="g").result(timeout=60) == {"total": sum(range(20))}


def test_start_many_starts_parts_that_are_whole(engine, sizes):
    runs = engine.start_many(leaf, range(10))

    assert [run.result(timeout=60) for run in runs] == list(range(10))
    assert [size for size in sizes if size] == [4, 4, 2]


def test_start_many_says_what_was_started_when_a_part_is_refused(engine, monkeypatch):
    store, parts = engine._parts.store, []
    apply = store.apply

    def drain_after_the_first_part(batch):
        parts.extend(op for op in batch if isinstance(op, c.StartRuns))
        if len(parts) == 2:
            monkeypatch.setattr(store, "apply", apply)
            engine.lane("default", draining=True)
        return apply(batch)

    with pytest.raises(LaneDraining):
        engine.lane("closed", draining=True)
        engine.start_many(leaf, range(10), lane="closed")
    monkeypatch.setattr(store, "apply", drain_after_the_first_part)
    with pytest.raises(StartIncomplete) as caught:
        engine.start_many(leaf, range(10))

    assert caught.value.facts["started"] == len(caught.value.run_ids) == 4
    assert caught.value.facts["left"] == 6
    assert [engine.run(run_id).result(timeout=60) for run_id in caught.value.run_ids] == [0, 1, 2, 3]


def test_a_map_starts_its_children_in_portions(engine, sizes):
    assert engine.start(mapped, 10).result(timeout=60) == sum(range(10))
    assert max(sizes) == 3
    assert engine.check() == []


def test_a_damaged_member_is_named_and_holds_up_its_own_graph_only(engine, database):
    runs = {}
    for name in ("sick", "well"):
        graph = fan(2)
        graph.add(hear, name="open")
        graph.add(leaf, 1, name="late").after("open")
        runs[name] = engine.graphs.start(graph, id=name)
        wait_until(engine, lambda name=name: engine._parts.store.run(f"{name}::open") is not None)
    execute(database, "UPDATE holdfast.graph_group SET state = 'odd' WHERE run_id = :late", late="sick::late")

    for name in runs:
        engine.signal(f"{name}::open", "go")

    assert runs["well"].result(timeout=60) == {"total": 1, "late": 1}
    assert any("sick::late" in line for line in engine.check())
    assert "damaged" in engine.why("sick::late").reason
    execute(database, "UPDATE holdfast.graph_group SET state = 'open' WHERE run_id = :late", late="sick::late")
    assert runs["sick"].result(timeout=60) == {"total": 1, "late": 1}
