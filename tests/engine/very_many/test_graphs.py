"""Very many members of a graph are written, extended, resolved and pruned in portions."""

from __future__ import annotations

import msgspec
import pytest

import holdfast
from holdfast import Graph, workflow
from holdfast.core.status import Status
from holdfast.engine.runtime import graph_stages
from holdfast.errors import GraphBusy, GraphExists, GraphFailed, LaneDraining, RunNotFound
from holdfast.store.graphs.operations import AddMembers, WriteStagePart
from holdfast.testing import internals
from tests.engine.databases import execute
from tests.engine.very_many.workflows import leaf, total
from tests.engine.waiting import wait_until


@workflow(name="very_many_planner")
async def planner(count: int) -> int:
    return len(await holdfast.graphs.extend(added(count)))


@workflow(name="very_many_planner_of_several")
async def planner_of_several(count: int) -> list[int]:
    several = [
        added(2, "first"),
        added(count, "many"),
        *(added(1, f"last{number}") for number in range(count)),
    ]
    return [len(names) for names in await holdfast.gather(*map(holdfast.graphs.extend, several))]


def added(count: int, name: str = "x") -> Graph:
    more = Graph()
    members = [
        more.add(leaf, number, name=f"{name}{number}").after(more.member("root"))
        for number in range(count)
    ]
    more.add(total, name=f"{name}-total").after(*members, into="numbers")
    return more


@workflow(name="very_many_hear")
async def hear() -> None:
    await holdfast.wait_signal("go")


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
    assert engine.database.check() == []


@workflow(name="very_many_solo")
async def solo() -> int:
    return await holdfast.wait_signal("go", type=int)


def test_runs_that_exist_join_a_graph_that_is_written_in_parts(engine, sizes):
    for name in ("ended", "live", "late"):
        engine.start(solo, id=name)
    engine.signal("ended", "go", 100)
    engine.run("ended").result(timeout=30)
    graph = fan(20)
    joined = [graph.join("ended"), graph.join("live")]
    graph.add(total, name="joined").after(*joined, into="numbers")
    run = engine.graphs.start(graph, id="g")
    assert max(sizes) <= 10
    assert engine.graphs.start(graph, id="g").id == "g"

    more = added(20)
    more.add(leaf, 7, name="last").after(more.join("late"))
    assert run.extend(more, revision=1) == 2
    for name in ("live", "late"):
        engine.signal(name, "go", 10)

    ended = run.result(timeout=60)
    assert (ended["joined"], ended["last"], ended["x-total"]) == (110, 7, sum(range(20)))
    assert {engine.run(name).record.graph_id for name in ("ended", "live", "late")} == {"g"}
    assert engine.database.check() == []


def test_a_refused_join_of_a_graph_in_parts_leaves_no_member(engine):
    graph = fan(20)
    graph.add(leaf, 1, name="after").after(graph.join("gone"))

    with pytest.raises(RunNotFound):
        engine.graphs.start(graph, id="g")

    assert engine.graphs.list() == [] and engine.runs().count() == 0
    engine.start(solo, id="gone")
    engine.signal("gone", "go", 1)
    assert engine.graphs.start(graph, id="g").result(timeout=60)["after"] == 1
    assert engine.database.check() == []


def test_a_graph_grows_by_very_many_members(engine):
    graph = fan(2)
    graph.add(hear, name="open")
    run = engine.graphs.start(graph, id="g")
    more = Graph()
    members = [
        more.add(leaf, number, name=f"x{number}").after(more.member("root")) for number in range(20)
    ]
    more.add(total, name="more").after(*members, into="numbers")

    assert run.extend(more, revision=1) == 2
    # Members are started in parts: the run of this one may not exist yet.
    wait_until(engine, lambda: internals(engine).store.runs.get("g::open") is not None)
    engine.signal("g::open", "go")
    assert run.result(timeout=60) == {"total": 1, "more": sum(range(20)), "open": None}
    assert engine.database.check() == []


def planned(count: int, flow=planner) -> Graph:
    graph = Graph("planned")
    graph.add(leaf, 0, name="root")
    graph.add(flow, count, name="planner").after("root")
    return graph


def test_a_member_adds_very_many_members_to_its_own_graph_in_parts(engine, sizes):
    run = engine.graphs.start(planned(20), id="g")

    assert run.result(timeout=60) == {"planner": 21, "x-total": sum(range(20))}
    assert max(sizes) <= 10
    assert engine.database.check() == []


def test_a_member_adds_to_its_graph_several_times_in_one_turn(engine, sizes):
    run = engine.graphs.start(planned(12, planner_of_several), id="g")

    results = run.result(timeout=60)

    assert results["planner"] == [3, 13, *[2] * 12]
    assert results["many-total"] == sum(range(12))
    assert max(sizes) <= 10
    assert engine.database.check() == []


def test_members_are_checked_once_more_when_the_graph_is_changed_while_they_are_written(
    engine, monkeypatch
):
    store, changes = internals(engine).store, []
    apply = store.apply

    def change_once(batch):
        if not changes and any(isinstance(op, WriteStagePart) for op in batch):
            desk = internals(engine).graphs
            patch, _ = desk._patch(added(1, "other"), "g")
            op = AddMembers(graph_id="g", namespace="default", patch=patch, compose=desk._compose)
            changes.append(apply([op]))
        return apply(batch)

    monkeypatch.setattr(store, "apply", change_once)
    run = engine.graphs.start(planned(20), id="g")

    assert run.result(timeout=60) == {"planner": 21, "x-total": sum(range(20)), "other-total": 0}
    assert len(changes) == 1
    assert engine.database.check() == []


def test_a_member_fails_that_adds_very_many_members_of_which_one_is_there(engine):
    graph = planned(20)
    graph.add(leaf, 0, name="x7")

    with pytest.raises(GraphFailed):
        engine.graphs.start(graph, id="g").result(timeout=60)

    assert engine.run("g::planner").record.status is Status.FAILED
    assert engine.run("g::planner").record.error.type == "MemberExists"
    assert "graph_stage" not in internals(engine).store.installation.rows()


def test_a_member_gives_up_what_its_last_holder_has_written_when_the_code_wants_something_else(
    engine,
):
    stage_id = graph_stages.own_stage_id("g", "g::planner", "of other code")
    members = [("g", member) for member in members_of(engine, fan(2)) if member.name == "root"]
    left = [msgspec.structs.replace(member, name="x1") for _, member in members]
    internals(engine).store.apply(
        [
            WriteStagePart(
                stage_id=stage_id,
                namespace="default",
                members=[("g", member) for member in left],
                written=0,
            )
        ]
    )

    assert engine.graphs.start(planned(20), id="g").result(timeout=60) == {
        "planner": 21,
        "x-total": sum(range(20)),
    }
    assert engine.database.check() == []


def test_what_is_refused_in_the_end_leaves_nothing_behind(engine):
    engine.lanes.set("closed", draining=True)
    graph = Graph()
    for number in range(20):
        graph.add(leaf, number, name=f"m{number}", lane="closed")

    with pytest.raises(LaneDraining):
        engine.graphs.start(graph, id="g")

    assert (
        internals(engine).store.installation.rows().keys()
        & {"graph", "graph_member", "graph_stage"}
        == set()
    )


def test_what_a_dead_process_has_begun_is_deleted_for_whoever_comes_next(engine, database):
    store = internals(engine).store
    op = WriteStagePart(
        stage_id="g::dead",
        namespace="default",
        members=[("g", member) for member in members_of(engine, fan(2))],
        written=0,
    )
    store.apply([op])
    with pytest.raises(GraphBusy):
        engine.graphs.start(fan(20), id="g")

    execute(database, "UPDATE holdfast.graph_stage SET due_at = 1")

    assert engine.graphs.start(fan(20), id="g").result(timeout=60) == {"total": sum(range(20))}
    assert engine.database.check() == []


def members_of(engine, graph):
    return internals(engine).graphs._patch(graph, "g")[0].members


def test_a_large_graph_is_pruned_in_portions_and_can_be_started_again(engine):
    engine.graphs.start(fan(20), id="g").result(timeout=60)
    assert engine.graphs.prune("0s") == 1

    assert (
        internals(engine).store.installation.rows().keys()
        & {"graph", "graph_member", "graph_stage", "graph_edge", "graph_event"}
        == set()
    )
    assert engine.retention.prune("0s") == 22
    assert engine.graphs.start(fan(20), id="g").result(timeout=60) == {"total": sum(range(20))}


def test_a_damaged_member_is_named_and_holds_up_its_own_graph_only(engine, database):
    runs = {}
    for name in ("sick", "well"):
        graph = fan(2)
        graph.add(hear, name="open")
        graph.add(leaf, 1, name="late").after("open")
        runs[name] = engine.graphs.start(graph, id=name)
        wait_until(
            engine, lambda name=name: internals(engine).store.runs.get(f"{name}::open") is not None
        )
    execute(
        database,
        "UPDATE holdfast.graph_group SET state = 'odd' WHERE run_id = :late",
        late="sick::late",
    )

    for name in runs:
        engine.signal(f"{name}::open", "go")

    assert runs["well"].result(timeout=60) == {"total": 1, "late": 1}
    assert any("sick::late" in line for line in engine.database.check())
    assert "damaged" in engine.why("sick::late").reason
    execute(
        database,
        "UPDATE holdfast.graph_group SET state = 'open' WHERE run_id = :late",
        late="sick::late",
    )
    assert runs["sick"].result(timeout=60) == {"total": 1, "late": 1}
