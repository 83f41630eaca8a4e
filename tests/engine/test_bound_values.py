"""Encrypted values are bound to their places: one that is moved to another place is refused by
name, and runs nothing."""

from __future__ import annotations

from contextlib import closing

import pytest

from holdfast import Engine, Fail, Graph, step, wait_signal, workflow
from holdfast.codecs import Encrypted
from holdfast.connect.open_store import open_store
from holdfast.errors import BadData, GraphFailed, RunFailed
from holdfast.service.copy import copy_store
from holdfast.streams import emit, null, progress, stream
from tests.engine.databases import execute
from tests.engine.waiting import wait_for

MOVED = "moved here from another place|belongs to another place"
SIZES = pytest.mark.parametrize("size", [1, 100_000], ids=["in their rows", "kept apart"])


def codec():
    return Encrypted({"k1": b"1" * 32}, "k1")


@step
async def tell(text: str) -> str:
    return text + "!"


@step
async def show(text: str) -> None:
    emit(text)
    stream("summary").patch({"text": text, "none": null})
    progress(50, text)


@workflow(name="bound.echo")
async def echo(text: str) -> str:
    return text


@workflow(name="bound.refuse")
async def refuse(text: str) -> None:
    raise Fail(text)


@workflow(name="bound.showing")
async def showing(text: str) -> None:
    await show(text)


@workflow(name="bound.listening")
async def listening(text: str) -> list[str]:
    reply = await tell(text)
    more = await wait_signal("more")
    last = await wait_signal("last")
    return [text, reply, more, last]


@workflow(name="bound.pair")
async def pair(text: str) -> list[str]:
    first = await tell.options(id="first")(text)
    second = await tell.options(id="second")(text * 2)
    return [first, second, await wait_signal("more")]


def swap(database, column, first, second):
    """Exchange the values of two rows. A column is written ``table.column``, a row as a
    condition."""
    table, name = column.split(".")
    read, write = (
        f"SELECT {name} FROM holdfast.{table} WHERE ",
        f"UPDATE holdfast.{table} SET {name} = :value WHERE ",
    )
    ((one,),) = execute(database, read + first)
    ((other,),) = execute(database, read + second)
    assert one != other
    execute(database, write + first, value=other)
    execute(database, write + second, value=one)


def of_runs(database, column, more=""):
    """Exchange the values of run a and run b."""
    of = "id" if column.startswith("run.") else "run_id"
    swap(database, column, f"{of} = 'a'{more}", f"{of} = 'b'{more}")


@SIZES
def test_results_of_two_runs(database, size):
    with Engine(database, codec=codec()) as engine:
        runs = [engine.start(echo, name * size, id=name) for name in ("a", "b")]
        assert [run.result(timeout=20) for run in runs] == ["a" * size, "b" * size]
        of_runs(database, "run.result")
        for run in runs:
            with pytest.raises(BadData, match=f"the result of run {run.id}.*({MOVED})"):
                run.result(timeout=20)
        of_runs(database, "run.result")
        assert runs[0].result(timeout=20) == "a" * size


@SIZES
def test_errors_of_two_runs(database, size):
    with Engine(database, codec=codec()) as engine:
        runs = [engine.start(refuse, name * size, id=name) for name in ("a", "b")]
        for run in runs:
            with pytest.raises(RunFailed):
                run.result(timeout=20)
        of_runs(database, "run.error")
        for run in runs:
            with pytest.raises(BadData, match=f"the error of run {run.id}.*({MOVED})"):
                run.result(timeout=20)


@pytest.mark.parametrize(
    "column", ["frame.data", "frame.nulls", "stream.summary", "output.message"]
)
def test_output_of_two_runs(database, column):
    with Engine(database, codec=codec()) as engine:
        for name in ("a", "b"):
            engine.start(showing, name, id=name).result(timeout=20)
        of_runs(database, column, " AND mode = 'summary'" if column.startswith("frame.") else "")
        if column == "output.message":
            assert "moved here from another place" in engine.streams.progress("a").message
            return
        read = (
            engine.streams.read
            if column.startswith("frame.")
            else lambda run: engine.streams.summary(run, step="show")
        )
        with pytest.raises(BadData, match=f"of run a.*({MOVED})"):
            read("a")


def test_frames_of_one_run(database):
    with Engine(database, codec=codec()) as engine:
        engine.start(showing, "a", id="a").result(timeout=20)
        assert [frame.value for frame in engine.streams.read("a")] == [
            "a",
            {"text": "a", "none": None},
        ]
        swap(database, "frame.data", "seq = 1", "seq = 2")
        with pytest.raises(BadData, match=f"frame 1 of run a.*({MOVED})"):
            engine.streams.read("a")


@SIZES
@pytest.mark.parametrize("column", ["run.input", "event.data", "signal.payload"])
def test_a_run_does_not_go_on_with_the_values_of_another(database, column, size):
    with Engine(database, codec=codec()) as engine:
        for name in ("a", "b"):
            wait_for(engine, engine.start(listening, name * size, id=name), "waiting")
    with Engine(database, codec=codec(), workflows=[], lanes=["elsewhere"]) as engine:
        for name in ("a", "b"):
            engine.signal(name, "last", name * 2 * size)
            engine.signal(name, "more", name * 3 * size)
    more = {
        "run.input": "",
        "event.data": " AND kind = 'step_completed'",
        "signal.payload": " AND name = 'last'",
    }[column]
    of_runs(database, column, more)
    with Engine(database, codec=codec()) as engine:
        wait_for(engine, engine.run("a"), "stuck")
        assert "another place" in engine.why("a").reason
        wait_for(engine, engine.run("b"), "stuck")
    of_runs(database, column, more)
    with Engine(database, codec=codec()) as engine:
        for name in ("a", "b"):
            engine.resume(name)
            told = [name * size, name * size + "!", name * 3 * size, name * 2 * size]
            assert engine.run(name).result(timeout=20) == told
        assert engine.database.check() == []


def test_steps_of_one_run(database):
    with Engine(database, codec=codec()) as engine:
        run = engine.start(pair, "a")
        wait_for(engine, run, "waiting")
    swap(
        database,
        "event.data",
        "kind = 'step_completed' AND step = 'first'",
        "kind = 'step_completed' AND step = 'second'",
    )
    with Engine(database, codec=codec()) as engine:
        engine.signal(run.id, "more", "")
        wait_for(engine, engine.run(run.id), "stuck")
        assert "another place" in engine.why(run.id).reason


def test_a_reference_that_names_no_key_leads_to_nothing_encrypted(database):
    with Engine(database, codec=codec()) as engine:
        runs = [engine.start(echo, name * 100_000, id=name) for name in ("a", "b")]
        for run in runs:
            run.result(timeout=20)
        ((reference,),) = execute(database, "SELECT result FROM holdfast.run WHERE id = 'b'")
        bare = bytes(reference)[:-16].replace(b"\x00k1\x00a", b"\x00\x00a")
        execute(
            database, "INSERT INTO holdfast.setting (name, value) VALUES ('clear_values', 'on')"
        )
        execute(database, "UPDATE holdfast.run SET result = :bare WHERE id = 'a'", bare=bare)
        with pytest.raises(BadData, match=r"the result of run a.*names another key"):
            runs[0].result(timeout=20)


@SIZES
def test_inputs_of_members_that_wait(database, size):
    with Engine(database, codec=codec(), inline_limit=1000) as engine:
        graph = Graph()
        held = graph.add(listening, "x", name="held")
        for name in ("a", "b"):
            graph.add(echo, name * size, name=name).after(held)
        engine.graphs.start(graph, id="g")
        wait_for(engine, engine.run("g::held"), "waiting")
        swap(database, "graph_member.input", "substr(run_id, 4) = 'a'", "substr(run_id, 4) = 'b'")
        engine.signal("g::held", "more", "")
        engine.signal("g::held", "last", "")
        assert engine.run("g::held").result(timeout=20) == ["x", "x!", "", ""]
        with pytest.raises(GraphFailed):
            engine.graphs.result("g", timeout=20)
        notes = {member.name: member.note or "" for member in engine.graphs.get("g").members}
        assert "another place" in notes["a"]
        assert "another place" in notes["b"]


@SIZES
def test_forks_own_their_values(database, size):
    with Engine(database, codec=codec()) as engine:
        run = engine.start(listening, "a" * size)
        run.signal("more", "m" * size)
        run.signal("last", "l")
        whole = run.result(timeout=20)
        fork = engine.fork(run.id, from_step="tell")
        engine.signal(fork.id, "more", "m" * size)
        engine.signal(fork.id, "last", "l")
        assert engine.run(fork.id).result(timeout=20) == whole
        assert engine.database.check() == []


def test_values_are_opened_in_the_database_that_they_were_copied_to(database, tmp_path):
    source = str(tmp_path / "source.db")
    with Engine(source, codec=codec(), inline_limit=1000) as engine:
        engine.start(showing, "s", id="shown").result(timeout=20)
        wait_for(engine, engine.start(listening, "a" * 2000, id="a"), "waiting")
        graph = Graph()
        graph.add(echo, "m", name="last").after(graph.add(listening, "x", name="held"))
        engine.graphs.start(graph, id="g")
        wait_for(engine, engine.run("g::held"), "waiting")
    with closing(open_store(source)) as store:
        assert copy_store(store, lambda: open_store(database, half_copied=True)).same
    with Engine(database, codec=codec(), inline_limit=1000) as engine:
        for run in ("a", "g::held"):
            engine.signal(run, "more", "m")
            engine.signal(run, "last", "l")
        assert engine.run("a").result(timeout=20) == ["a" * 2000, "a" * 2000 + "!", "m", "l"]
        assert engine.graphs.result("g", timeout=20) == {"last": "m"}
        assert [frame.value for frame in engine.streams.read("shown")] == [
            "s",
            {"text": "s", "none": None},
        ]
        assert engine.streams.summary("shown", step="show") == {"text": "s", "none": None}
        assert engine.streams.progress("shown").message == "s"
        assert engine.database.check() == []
