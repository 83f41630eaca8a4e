"""Runs that exist join a graph, on both databases."""

from __future__ import annotations

import asyncio
import json

import pytest

import holdfast
from holdfast import AsyncEngine, Engine, Fail, Graph, gather, step, wait_signal, workflow
from holdfast.codecs import Encrypted
from holdfast.core.graphs.document import read
from holdfast.errors import (
    BadGraph,
    GraphFailed,
    MemberElsewhere,
    MemberExists,
    MemberStarted,
    RunNotFound,
)

broken: set[str] = set()


@workflow(name="joins_listen")
async def listen(name: str) -> str:
    answer = await wait_signal("go", type=str)
    if name in broken:
        raise Fail(f"{name} is broken")
    return f"{name} {answer}"


@workflow(name="joins_take")
async def take(text: str) -> str:
    return f"took {text}"


@step
async def note(number: int) -> int:
    return number


@workflow(name="joins_busy")
async def busy() -> str:
    """Has work in memory while it waits, so that its worker holds it all the time."""
    await gather(note(1), note(2))
    return await listen("busy")


@workflow(name="joins_planner")
async def planner(run_id: str) -> dict:
    more = Graph()
    solo = more.join(run_id, name="solo")
    more.add(take, solo.result, name="taken").after(more.member("planner"))
    return await holdfast.graphs.extend(more)


def with_joined(run) -> Graph:
    graph = Graph("joined")
    solo = graph.join(run, name="solo")
    graph.add(take, solo.result, name="next")
    return graph


def states(run) -> dict[str, str]:
    return {member.name: member.state.value for member in run.show().members}


def test_a_run_that_a_worker_holds_joins_and_its_result_is_passed_on(engine):
    solo = engine.start(listen, "a", id="solo-1")
    solo.wait_until("waiting")

    graph = engine.graphs.start(with_joined(solo))

    assert states(graph) == {"solo": "started", "next": "waiting"}
    assert [member.run for member in graph.show().members] == ["solo-1", f"{graph.id}::next"]
    assert engine.run("solo-1").record.graph_id == graph.id
    assert "solo" in str(engine.graphs.why(graph.id, "next").blockers)
    assert engine.graphs.why(graph.id, "solo").run == "solo-1"
    solo.signal("go", "on")
    assert graph.result(timeout=20) == {"next": "took a on"}
    assert engine.database.check() == []


def test_a_run_that_has_ended_counts_at_once(engine):
    done = engine.start(take, "b", id="done-1")
    done.result(timeout=20)

    only = Graph("only")
    only.join("done-1")
    alone = engine.graphs.start(only, id="alone")

    assert alone.status == "completed"
    assert alone.result() == {"done-1": "took b"}
    with pytest.raises(MemberElsewhere):
        engine.graphs.start(with_joined(done))


def test_a_failed_run_fails_the_graph_with_its_error_and_is_replayed_with_it(engine):
    broken.add("b")
    solo = engine.start(listen, "b", id="solo-2")
    graph = engine.graphs.start(with_joined("solo-2"), id="failing")
    solo.signal("go", "yes")

    with pytest.raises(GraphFailed, match=r"b is broken.*member solo"):
        graph.result(timeout=20)
    assert "b is broken" in str(engine.why("failing::next"))

    broken.clear()
    engine.replay("solo-2")
    assert graph.result(timeout=20) == {"next": "took b yes"}


def test_join_is_a_verb_that_can_be_repeated(database):
    async def play():
        async with AsyncEngine(database) as engine:
            graph = Graph("open")
            graph.add(listen, "x", name="x")
            run = await engine.graphs.start(graph)
            solo = await engine.start(take, "c", id="solo-3")
            await solo.result(timeout=20)

            first = await engine.graphs.join(run.id, "solo-3", name="solo")
            again = await engine.graphs.join(run.id, "solo-3", name="solo")

            assert (first, again) == (2, 2)
            with pytest.raises(MemberExists):
                await engine.graphs.join(run.id, "solo-3", name="other")
            with pytest.raises(RunNotFound):
                await engine.graphs.join(run.id, "nothing")
            await engine.signal(f"{run.id}::x", "go", "on")
            assert await run.result(timeout=20) == {"solo": "took c", "x": "x on"}

    asyncio.run(play())


def test_a_child_cannot_join(engine):
    parent = engine.start(busy, id="parent-1")
    child = wait_for_child(engine, parent.id)

    with pytest.raises(MemberElsewhere, match="child"):
        engine.graphs.start(with_joined(child))

    engine.signal(child, "go", "on")
    assert parent.result(timeout=20) == "busy on"


def wait_for_child(engine, parent_id: str) -> str:
    engine.run(parent_id).wait_until("waiting")
    return engine.runs(parent_id=parent_id).first().id


def test_workflow_code_lets_a_run_join_its_graph(engine):
    solo = engine.start(listen, "d", id="solo-4")
    graph = Graph("planned")
    graph.add(planner, "solo-4", name="planner")
    run = engine.graphs.start(graph)

    solo.signal("go", "on")

    assert run.result(timeout=20) == {"taken": "took d on"}
    assert engine.run(f"{run.id}::planner").result() == {
        "solo": "solo-4",
        "taken": f"{run.id}::taken",
    }


def test_a_leased_task_joins_and_its_sealed_result_is_passed_on(database):
    with Engine(database, codec=Encrypted({"k1": bytes(32)}, current="k1")) as engine:
        task = engine.tasks.submit("joins_outside", {"width": 80}, id="leased-1").run
        with engine.tasks.worker("w", workflows=["joins_outside"]) as leases:
            (lease,) = leases.claim()
            graph = engine.graphs.start(with_joined(task.id))
            lease.complete("done outside")
        assert graph.result(timeout=20) == {"next": "took done outside"}


def test_a_document_names_the_run(engine):
    engine.start(take, "e", id="solo-5").result(timeout=20)
    document = {
        "members": {
            "solo": {"run": "solo-5"},
            "next": {"workflow": "joins_take", "args": [{"$result": "solo"}]},
        }
    }

    assert engine.graphs.start(read(json.dumps(document).encode())).result(timeout=20) == {
        "next": "took took e"
    }
    document["members"]["solo"]["args"] = [1]
    with pytest.raises(BadGraph, match="a run that exists"):
        read(json.dumps(document).encode())


def test_a_member_that_joins_is_checked_while_the_graph_is_built():
    graph = Graph()
    solo = graph.join("solo")
    with pytest.raises(MemberStarted):
        solo.after("other")
    with pytest.raises(MemberExists):
        graph.join("other", name="solo")
    with pytest.raises(MemberElsewhere):
        graph.join("g::x")
    for odd in (None, 7, "", "\ud800", "a b"):
        with pytest.raises(BadGraph):
            graph.join(odd)


def test_a_graph_is_exported_with_the_runs_that_have_joined_it(engine, tmp_path):
    engine.start(take, "f", id="solo-6").result(timeout=20)
    graph = engine.graphs.start(with_joined("solo-6"), id="exported")
    graph.result(timeout=20)

    assert engine.graphs.export("exported", tmp_path / "one.db") == 2

    with Engine(tmp_path / "one.db", work=False) as copy:
        assert copy.run("solo-6").result() == "took f"
        assert copy.graphs.get("exported").status == "completed"
        assert copy.database.check() == []
