"""Graphs at work: runs that depend on each other, on both databases."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

import holdfast
from holdfast import AsyncEngine, Engine, Fail, Graph, sync, task, wait_signal, workflow
from holdfast.codecs import Encrypted
from holdfast.errors import (
    BadGraph,
    BadOption,
    GraphCancelled,
    GraphChanged,
    GraphCycle,
    GraphExists,
    GraphFailed,
    GraphFinished,
    GraphNotFound,
    MemberExists,
    MemberNotFound,
    NamespaceBound,
    ResultTimeout,
    RunNotFinished,
    RunNotFound,
    StoreSealed,
    UnknownWorkflow,
    WrongType,
)
from holdfast.testing import Lab, internals
from tests.engine.waiting import unseal, wait_for, wait_until

broken: set[str] = set()
"""What cannot be done, for now."""


@pytest.fixture(autouse=True)
def _mended():
    broken.clear()


@workflow(name="graph_add")
async def add(x: int, y: int = 1) -> int:
    return x + y


@workflow(name="graph_fickle")
async def fickle(name: str) -> str:
    if name in broken:
        raise Fail(f"{name} is broken")
    return name


@workflow(name="graph_listen")
async def listen(name: str) -> str:
    return f"{name} {await wait_signal('go', type=str)}"


@workflow(name="graph_pick")
async def pick(offers: dict) -> dict:
    return offers


@task(name="graph_task")
def double(x: int) -> int:
    return 2 * x


@workflow(name="graph_planner")
async def planner(count: int) -> dict:
    more = Graph()
    parts = [more.add(add, number, name=f"part-{number}") for number in range(count)]
    more.add(pick, name="sum").after(*parts, more.member("planner"), into="offers")
    return await holdfast.graphs.extend(more)


@workflow(name="graph_planner_sync")
def plain_planner(again: bool) -> dict:
    more = Graph()
    more.add(add, 1, name="planner" if again else "more")
    return sync.graphs.extend(more)


@workflow(name="graph_lonely")
async def lonely() -> dict:
    return await holdfast.graphs.extend(Graph())


def states(run) -> dict[str, str]:
    return {member.name: member.state.value for member in run.show().members}


def diamond() -> Graph:
    graph = Graph("diamond")
    top = graph.add(add, 1, name="top")
    left, right = (
        graph.add(add, top.result, name="left"),
        graph.add(double, top.result, name="right"),
    )
    graph.add(add, left.result, y=right.result, name="bottom")
    return graph


def test_results_pass_along_edges_from_workflows_and_tasks(engine):
    run = engine.graphs.start(diamond())

    assert run.result(timeout=20) == {"bottom": 7}
    assert run.status == "completed"
    shown = run.show()
    assert shown.summary == {"completed": 4}
    assert shown.members[0].name == "top"
    assert [need.of for need in shown.members[-1].needs] == [["left", "right"]]
    assert engine.run(f"{run.id}::left").result() == 3


def test_the_asynchronous_engine_does_the_same(database):
    async def play():
        async with AsyncEngine(database) as engine:
            first, second = await engine.graphs.start_many([diamond(), diamond()])
            more = Graph()
            more.add(add, more.member("top").result, name="more")
            assert await asyncio.gather(first.result(timeout=20), second.result(timeout=20)) == [
                {"bottom": 7},
                {"bottom": 7},
            ]
            with pytest.raises(GraphFinished):
                await first.extend(more)
            held = Graph()
            held.add(listen, "x", name="x")
            third = await engine.graphs.start(held, id="third")
            assert await third.extend(graph_of(add, 3)) == 2
            assert await third.cancel() in ("cancelling", "cancelled")
            with pytest.raises(GraphCancelled):
                await third.result(timeout=20)
            assert (await (await engine.graphs.open("third")).show()).name == "graph"
            assert await engine.database.check() == []

    asyncio.run(play())


def graph_of(workflow, *args) -> Graph:
    graph = Graph()
    graph.add(workflow, *args, name="one")
    return graph


def test_any_of_them_is_enough_and_the_rest_stops(engine):
    graph = Graph()
    quick, slow, bad = (
        graph.add(add, 1, name="quick"),
        graph.add(listen, "s", name="slow"),
        graph.add(fickle, "bad", name="bad"),
    )
    broken.add("bad")
    graph.add(pick, name="pick").after(quick, slow, bad, need="any", rest="cancel", into="offers")
    run = engine.graphs.start(graph)

    assert run.result(timeout=20) == {"pick": {"quick": 2}}
    assert states(run) == {
        "quick": "completed",
        "slow": "cancelled",
        "bad": "failed",
        "pick": "completed",
    }
    assert "satisfied" in next(
        member.note for member in run.show().members if member.name == "slow"
    )


def test_what_waits_in_vain_is_skipped_and_can_be_done_again(engine):
    broken.add("a")
    graph = Graph()
    first = graph.add(fickle, "a", name="a")
    graph.add(fickle, first.result, name="b")
    graph.add(add, 1, name="c").after("b")
    run = engine.graphs.start(graph)

    with pytest.raises(GraphFailed) as failed:
        run.result(timeout=20)
    assert failed.value.facts == {
        "graph": run.id,
        "failed": "a",
        "skipped": "b, c",
        "member": "a",
        "type": "Fail",
        "message": "a is broken",
    }
    assert "did not complete: a (failed)" in str(engine.graphs.why(run.id, "b"))
    assert engine.graphs.why(run.id, "b").remedy == f"holdfast graphs replay {run.id} b"

    broken.clear()
    run.replay("c")
    assert run.result(timeout=20) == {"c": 2}
    assert engine.replay(f"{run.id}::a") in ("pending", "running", "completed")
    assert run.result(timeout=20) == {"c": 2}


def test_why_names_those_that_are_missing(engine):
    graph = Graph()
    one, two = graph.add(listen, "1", name="one"), graph.add(listen, "2", name="two")
    graph.add(pick, name="last").after(one, two, into="offers")
    run = engine.graphs.start(graph)
    why = engine.why(f"{run.id}::last")

    assert (why.status, why.workflow) == ("waiting", "graph_pick")
    assert (
        "it waits for all of 2 to complete; 2 more of: one (started), two (started)" in why.reason
    )
    assert why.remedy == f"holdfast why {run.id}::one"
    wait_for(engine, engine.run(f"{run.id}::one"), "waiting")
    assert "signal 'go'" in engine.why(f"{run.id}::one").reason
    with pytest.raises(RunNotFound):
        engine.why(f"{run.id}::nobody")
    engine.signal(f"{run.id}::one", "go", "x")
    engine.signal(f"{run.id}::two", "go", "y")
    assert run.result(timeout=20) == {"last": {"one": "1 x", "two": "2 y"}}


def test_a_graph_grows_from_outside_if_nobody_was_faster(engine):
    run = engine.graphs.start(graph_of(listen, "x"))
    more = Graph()
    more.add(add, 1, name="next").after(more.member("one"))

    assert run.extend(more, revision=run.revision) == 2
    with pytest.raises(GraphChanged):
        run.extend(graph_of(add, 1), revision=1)
    ring = Graph()
    ring.member("next").after(ring.add(add, 1, name="middle").after("next"))
    with pytest.raises(GraphCycle):
        run.extend(ring)
    assert states(run) == {"one": "started", "next": "waiting"}
    engine.signal(f"{run.id}::one", "go", "on")
    assert run.result(timeout=20) == {"next": 2}
    with pytest.raises(GraphFinished):
        run.extend(graph_of(add, 1))


def test_a_graph_grows_from_inside(engine):
    graph = Graph()
    graph.add(planner, 2, name="planner")
    run = engine.graphs.start(graph)
    ids = {name: f"{run.id}::{name}" for name in ("part-0", "part-1", "sum")}

    assert run.result(timeout=20) == {"sum": {"part-0": 1, "part-1": 2, "planner": ids}}
    assert [event.kind for event in engine.run(f"{run.id}::planner").history()] == [
        "graph_extended",
        "run_completed",
    ]


def test_what_cannot_be_added_from_inside_fails_the_run_by_name(engine):
    graph = Graph()
    graph.add(plain_planner, True, name="planner")
    run = engine.graphs.start(graph)

    with pytest.raises(GraphFailed):
        run.result(timeout=20)
    assert engine.run(f"{run.id}::planner").record.error.type == "MemberExists"
    assert states(run) == {"planner": "failed"}
    fine = Graph()
    fine.add(plain_planner, False, name="planner")
    assert engine.graphs.start(fine).result(timeout=20) == {
        "planner": {"more": f"{engine.graphs.list()[0].id}::more"},
        "more": 2,
    }
    with pytest.raises(Exception, match="not a member of a graph"):
        engine.start(lonely).result(timeout=20)
    held = engine.graphs.start(graph_of(listen, "x"))
    with pytest.raises(BadOption, match="belong to the members of graphs"):
        engine.start(plain_planner, False, id=f"{held.id}::nobody")
    assert states(held) == {"one": "started"}


@pytest.mark.parametrize(
    ("policy", "left"), [("graph", "started"), ("pending", "started"), ("all", "cancelled")]
)
def test_a_cancel_reaches_what_its_policy_says(engine, policy, left):
    graph = Graph()
    busy = graph.add(listen, "x", name="busy")
    graph.add(add, 1, name="later", delay="1h")
    graph.add(add, 1, name="waits").after(busy)
    run = engine.graphs.start(graph)
    wait_for(engine, engine.run(f"{run.id}::busy"), "waiting")

    run.cancel(policy, "no more")
    if policy == "graph":
        assert [each_graph.summary for each_graph in engine.graphs.list()] == [
            {"ended": 1, "live": 2}
        ]
        engine.signal(f"{run.id}::busy", "go", "on")
        engine.cancel(f"{run.id}::later")
        wait_until(
            engine,
            lambda: (
                [each_graph.summary for each_graph in engine.graphs.list()]
                == [{"cancelled": 2, "completed": 1}]
            ),
        )
        left = "completed"
    wait_until(
        engine,
        lambda: (
            states(run)["busy"] == left
            and (policy == "graph" or states(run)["later"] == "cancelled")
        ),
    )
    assert states(run)["waits"] == "cancelled"
    if policy == "pending":
        assert run.status == "cancelling"
        engine.signal(f"{run.id}::busy", "go", "on")
    with pytest.raises(GraphCancelled, match="no more"):
        run.result(timeout=20)


def test_a_graph_with_an_id_is_started_once(engine):
    first, second = (engine.graphs.start(diamond(), id="order-7") for _ in range(2))

    assert first.id == second.id == "order-7"
    assert len(engine.graphs.list()) == 1
    with pytest.raises(GraphExists):
        engine.graphs.start(graph_of(add, 1), id="order-7")
    assert first.result(timeout=20) == {"bottom": 7}


def test_what_makes_no_sense_is_refused_before_anything_is_written(engine):
    graph = Graph()
    graph.add(add, "no number", name="a")
    with pytest.raises(WrongType):
        engine.graphs.start(graph)
    with pytest.raises(BadGraph):
        engine.graphs.start(Graph())
    with pytest.raises(MemberExists):
        graph.add(add, 1, name="a")
    for name in ("a\0b", "half \ud800", "two\nlines", 7):
        with pytest.raises(BadGraph):
            Graph(name)
    for thing in (len, None, object()):
        with pytest.raises(UnknownWorkflow):
            graph.add(thing)
    with pytest.raises(BadGraph):
        graph.add(add, 1).after("a", rest=[])
    for into in (7, "", "no name"):
        with pytest.raises(BadGraph):
            graph.add(add, 1).after("a", into=into)
    with pytest.raises(ResultTimeout):
        engine.graphs.start(graph_of(listen, "x"), id="long").result(timeout="1ms")
    calls = engine.graphs
    for wrong, call in (
        (BadGraph, lambda: calls.start("order")),
        (BadGraph, lambda: calls.start_many([graph_of(add, 1), None])),
        (BadGraph, lambda: calls.extend("long", "more")),
        (BadOption, lambda: calls.extend("long", graph_of(add, 1), revision="1")),
        (GraphNotFound, lambda: calls.extend(7, graph_of(add, 1))),
        (BadOption, lambda: calls.cancel("long", ["all"])),
        (BadOption, lambda: calls.cancel("long", "all", 7)),
        (BadOption, lambda: calls.cancel("long", "all", "a\0b")),
        (BadOption, lambda: calls.cancel("long", "all", "half \ud800")),
        (BadOption, lambda: calls.start(graph_of(add, 1), id="order:")),
        (GraphNotFound, lambda: calls.cancel(7)),
        (GraphNotFound, lambda: calls.get("a\0b")),
        (MemberNotFound, lambda: calls.why("long", "nobody")),
        (BadOption, lambda: calls.list(limit=-1)),
        (BadOption, lambda: calls.list(status=["running"])),
        (BadOption, lambda: calls.events("long", limit="7")),
        (BadOption, lambda: calls.prune("0s", batch=0)),
    ):
        with pytest.raises(wrong):
            call()
    assert calls.get("long").revision == 1
    assert [each_graph.id for each_graph in engine.graphs.list()] == ["long"]
    assert engine.runs().count() == 1


def test_nothing_of_another_namespace_can_be_seen_or_touched(database, tmp_path):
    mine, theirs = Engine(database, namespace="mine"), Engine(database, namespace="theirs")
    mine.graphs.start(diamond(), id="g")
    before, calls = mine.graphs.events("g"), theirs.graphs

    for call in (
        calls.get,
        calls.status,
        calls.events,
        calls.open,
        calls.cancel,
        calls.result,
        lambda one: calls.why(one, "bottom"),
        lambda one: calls.extend(one, graph_of(add, 1)),
        lambda one: calls.replay(one, "top"),
        lambda one: calls.export(one, tmp_path / "theirs.db"),
    ):
        with pytest.raises(GraphNotFound):
            call("g")
    with pytest.raises(GraphExists):
        calls.start(diamond(), id="g")
    assert (calls.list(), calls.prune("0s")) == ([], 0)
    foreign = Graph()
    foreign.add(add, 1, name="far", namespace="mine")
    with pytest.raises(NamespaceBound):
        calls.start(foreign)
    assert (mine.graphs.events("g"), list(theirs.runs(namespace="theirs"))) == (before, [])
    mine.close()
    theirs.close()


def test_a_result_of_the_wrong_type_needs_a_person(engine):
    graph = Graph()
    graph.add(add, graph.add(fickle, "text", name="a").result, name="b")
    run = engine.graphs.start(graph)

    wait_until(
        engine,
        lambda: [str(member.status) for member in run.show().members] == ["completed", "stuck"],
    )
    assert "argument 'x'" in engine.graphs.why(run.id, "b").reason
    engine.cancel(f"{run.id}::b", force=True)
    with pytest.raises(GraphFailed, match="cancelled='b'"):
        run.result(timeout=20)


def test_graphs_go_with_their_runs(database):
    with Lab(database) as lab:
        run = lab.engine.graphs.start(diamond())
        lab.settle()
        lab.advance("2d")
        assert lab.engine.retention.prune("1d") == 4
        assert lab.engine.graphs.list() == []
        kept = lab.engine.graphs.start(diamond())
        lab.settle()
        lab.advance("2d")
        assert lab.engine.graphs.prune("1d") == 1
        assert lab.engine.run(f"{kept.id}::top").status == "completed"
        assert run.id != kept.id
        torn = lab.engine.graphs.start(graph_of(double, 1))
        lab.settle()
        lab.advance("2d")
        assert lab.engine.retention.prune("1d", workflow="graph_task") == 2
        assert (
            lab.engine.graphs.why(torn.id, "one").reason == "it was completed; its run was pruned"
        )
        with pytest.raises(RunNotFound, match="pruned"):
            torn.result()
        assert lab.engine.database.check() == []


def test_a_graph_is_copied_to_a_file_of_its_own_and_goes_on_there(database, tmp_path):
    copy = tmp_path / "copy.db"
    graph = Graph("to be copied")
    held = graph.add(listen, "held", name="held")
    graph.add(pick, {"of": held.result, "and": graph.add(add, 1, name="done").result}, name="last")
    with Engine(database, workflows=[add, listen, pick]) as engine:
        run = engine.graphs.start(graph, id="g")
        wait_for(engine, engine.run("g::held"), "waiting")
        wait_until(engine, lambda: engine.graphs.get("g").summary.get("completed") == 1)
        told: list[int] = []
        assert engine.graphs.export("g", copy, progress=told.append) == sum(told) == 2
        with pytest.raises(RunNotFinished, match="export it to a new database"):
            engine.graphs.export("g", copy)
        with pytest.raises(GraphNotFound):
            engine.graphs.export("nobody", tmp_path / "other.db")
        seen, trail = engine.graphs.get("g"), engine.graphs.events("g")
        engine.graphs.cancel("g")
        with pytest.raises(GraphCancelled):
            run.result(timeout=20)
    with closing(Engine(copy, workflows=[])) as engine:
        assert engine.graphs.get("g") == seen
        assert engine.graphs.events("g") == trail
        assert engine.database.check() == []
    with (
        pytest.raises(StoreSealed, match="copied_from"),
        Engine(copy, workflows=[add, listen, pick]),
    ):
        pass
    unseal(copy)
    with Engine(copy, workflows=[add, listen, pick]) as engine:
        engine.signal("g::held", "go", "there")
        assert engine.graphs.result("g", timeout=20) == {"last": {"of": "held there", "and": 2}}
        assert engine.database.check() == []


def test_inputs_and_results_that_are_sealed_pass_along(database):
    first, second = (
        Encrypted({"k1": b"1" * 32}, "k1"),
        Encrypted({"k2": b"2" * 32, "k1": b"1" * 32}, "k2"),
    )
    large = "x" * 200_000
    with Engine(database, codec=first, inline_limit=1000) as engine:
        graph = Graph()
        held = graph.add(listen, large, name="held")
        graph.add(pick, {"text": large, "of": held.result}, name="last")
        run = engine.graphs.start(graph)
        wait_for(engine, engine.run(f"{run.id}::held"), "waiting")
    with closing(Engine(database, codec=second, workflows=[])) as engine:
        engine.keys.rekey()
        assert set(internals(engine).store.payloads.keys_in_use()) == {"k2"}
    with Engine(database, codec=second, inline_limit=1000) as engine:
        engine.signal(f"{run.id}::held", "go", "on")
        result = engine.graphs.result(run.id, timeout=20)
        assert result == {"last": {"text": large, "of": f"{large} on"}}
        assert engine.database.check() == []


def test_a_graph_that_was_started_where_nobody_works_is_taken_up(database):
    with closing(Engine(database, workflows=[add, double])) as engine:
        run = engine.graphs.start(diamond())
    with Engine(database, workflows=[add, double]) as engine:
        assert engine.graphs.result(run.id, timeout=20) == {"bottom": 7}


def test_members_with_a_policy_start_and_other_graphs_go_on(engine):
    graph = Graph()
    first = graph.add("leased-first", name="first", policy={"retries": 2})
    graph.add("leased-second", name="second", policy={"retries": 3, "delay": "1s"}).after(first)
    started = engine.graphs.start(graph)
    other = Graph()
    other.add("leased-first", name="only")
    beside = engine.graphs.start(other)

    with engine.tasks.worker("holder", workflows=["leased-first", "leased-second"]) as leases:
        for lease in leases.claim(2, wait="20s"):
            lease.complete(1)
        (last,) = leases.claim(1, wait="20s")
        last.complete(2)

    assert started.result(timeout=20) == {"second": 2}
    assert beside.result(timeout=20) == {"only": 1}


def test_the_dependencies_of_a_graph_can_be_listed(database):
    with Engine(database, work=False) as engine:
        graph = Graph("edges")
        first = graph.add("render", 1, name="first")
        second = graph.add("render", 2, name="second")
        third = graph.add("render", 3, name="third").after(first, second, need="any")
        graph.add("render", third.result, name="last").after(first)
        run = engine.graphs.start(graph)
        engine.tasks.override(f"{run.id}::first", "by hand")
        engine.tasks.override(f"{run.id}::second", "by hand", failed=True)

        edges = {
            (edge.upstream, edge.member): edge.state.value for edge in engine.graphs.edges(run.id)
        }

        assert edges == {
            ("first", "third"): "satisfied",
            ("second", "third"): "impossible",
            ("first", "last"): "satisfied",
            ("third", "last"): "open",
        }
        assert run.show().edges == engine.graphs.edges(run.id)
        of_last = engine.graphs.edges(run.id, member="last")
        assert {edge.upstream for edge in of_last} == {"first", "third"}
        assert len({edge.group for edge in of_last}) == 2
        on_first = engine.graphs.edges(run.id, upstream="first", member="third")
        assert [edge.member for edge in on_first] == ["third"]
        assert engine.run(f"{run.id}::first").record.graph_id == run.id
        with pytest.raises(MemberNotFound):
            engine.graphs.edges(run.id, member="nothing")


def test_graphs_are_listed_by_the_time_of_their_start(database, clock):
    with Engine(database, work=False, clock=clock) as engine:
        for id in ("b", "c", "a"):
            graph = Graph()
            graph.add("render", 1, name="only")
            engine.graphs.start(graph, id=id)
            clock.advance("1s")

        assert [graph.id for graph in engine.graphs.list()] == ["a", "c", "b"]
        page = engine.graphs.list(limit=2)
        assert [graph.id for graph in engine.graphs.list(before=page[-1].id)] == ["b"]
        with pytest.raises(GraphNotFound):
            engine.graphs.list(before="nothing")
