"""Graphs of leased members in processes without a worker: every end resolves its graph."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from holdfast import Engine, Graph
from holdfast.errors import ResultTimeout
from holdfast.testing import internals


def two_in_a_row(engine: Engine, id: str = "g"):
    graph = Graph("row")
    first = graph.add("draw", 1, name="a")
    graph.add("draw", first.result, name="b")
    return engine.graphs.start(graph, id=id)


def states(run) -> dict[str, str]:
    return {member.name: member.state.value for member in run.show().members}


def claimed(engine: Engine, worker: str = "painter"):
    return engine.tasks.worker(worker, workflows=["draw"]).claim()


def test_a_graph_of_leased_members_runs_to_its_end(database):
    with Engine(database, work=False) as engine:
        run = two_in_a_row(engine)
        (first,) = claimed(engine)
        first.complete("sketch")

        assert states(run) == {"a": "completed", "b": "started"}
        (second,) = claimed(engine)
        assert second.input == "sketch"
        second.complete("picture")
        assert run.result(timeout="60s") == {"b": "picture"}
        assert engine.database.check() == []


def test_the_transaction_that_ends_a_lease_resolves_its_graph(database):
    with Engine(database, work=False) as engine:
        two_in_a_row(engine)
        (first,) = claimed(engine)
        batches = []
        store = internals(engine).store
        apply = store.apply
        store.apply = lambda ops: batches.append([type(op).__name__ for op in ops]) or apply(ops)

        first.complete("sketch")

        assert batches == [["Advance", "ResolveGraphs"]]


def test_a_failed_lease_skips_the_members_after_it(database):
    with Engine(database, work=False) as engine:
        run = two_in_a_row(engine)
        (first,) = claimed(engine)
        first.fail("permanent", "no paint")

        assert states(run) == {"a": "failed", "b": "skipped"}
        assert run.status == "failed"


def test_completions_of_one_call_resolve_their_graphs(database):
    with Engine(database, work=False) as engine:
        runs = [two_in_a_row(engine, id) for id in ("g", "h")]
        engine.start("draw", 9)
        with engine.tasks.worker("painter", workflows=["draw"]) as worker:
            worker.complete_all([(lease, 1) for lease in worker.claim(10)])

        assert [states(run)["b"] for run in runs] == ["started", "started"]


@pytest.mark.parametrize("end", ["force", "override", "revoked"])
def test_an_operator_who_ends_a_member_resolves_its_graph(database, end):
    with Engine(database, work=False) as engine:
        run = two_in_a_row(engine)
        if end == "force":
            engine.run("g::a").cancel(force=True)
        elif end == "override":
            engine.tasks.override("g::a", "done by hand", result="sketch")
        else:
            claimed(engine)
            engine.run("g::a").cancel()
            engine.run("g::a").cancel(force=True)

        assert states(run)["b"] == ("started" if end == "override" else "skipped")


def test_an_attempt_that_times_out_resolves_its_graph(database, clock):
    with Engine(database, work=False, clock=clock) as engine:
        graph = Graph("timed")
        graph.add("draw", 1, name="a", policy={"timeout": "10s"})
        graph.add("draw", 2, name="b").after(graph.member("a"))
        run = engine.graphs.start(graph, id="g")
        claimed(engine)
        clock.advance("11s")

        assert claimed(engine, "other") == []
        assert states(run) == {"a": "failed", "b": "skipped"}


KILLED = """
    import os, sys
    from holdfast import Engine
    from holdfast.testing import internals
    from holdfast.store.graphs.operations import ResolveGraphs

    engine = Engine(sys.argv[1], work=False)
    store = internals(engine).store
    apply = store.apply

    def mortal(ops):
        if any(isinstance(op, ResolveGraphs) for op in ops):
            os.kill(os.getpid(), 9)
        return apply(ops)

    store.apply = mortal
    engine.tasks.override("g::a", "done by hand", result="sketch")
"""


@pytest.mark.parametrize("next_call", ["claim", "get", "result", "end", "worker"])
def test_a_process_that_is_killed_before_the_resolution_leaves_it_to_the_next(database, next_call):
    with Engine(database, work=False) as engine:
        run = two_in_a_row(engine)
        other = two_in_a_row(engine, "h")
        killed = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(KILLED), database], check=False
        )
        assert killed.returncode == -9
        assert internals(engine).store.graphs.is_unresolved("g")

        if next_call == "claim":
            worker = engine.tasks.worker("painter", workflows=["draw"])
            assert {lease.run_id for lease in worker.claim(10)} == {"g::b", "h::a"}
        elif next_call == "get":
            assert states(run)["b"] == "started"
        elif next_call == "end":
            engine.run("h::a").cancel(force=True)
            assert states(other)["b"] == "skipped"
        elif next_call == "result":
            with pytest.raises(ResultTimeout):
                run.result(timeout="10ms")
        else:
            with Engine(database) as worker:
                worker.work()
        assert not internals(engine).store.graphs.is_unresolved("g")
        assert states(run)["b"] == "started"
