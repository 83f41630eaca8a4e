"""Values that ``rekey`` replaces between the read of their row and the fetch of what it refers to:
each reader reads again."""

from __future__ import annotations

import pytest

from holdfast import Engine, Graph, map, start, step, wait_signal, workflow
from holdfast.codecs import Encrypted
from holdfast.payloads import rekey
from holdfast.store.graphs import start as graph_start
from holdfast.store.payloads import apply as payloads
from holdfast.store.runs import start as run_start
from holdfast.testing import internals
from holdfast.waits import all_of, wait_for
from tests.engine.waiting import wait_for as wait_for_status

KEYS = {"k1": b"1" * 32, "k2": b"2" * 32}
BIG = "the crown jewels" * 100
LARGE = 200


def engine_of(database, key="k2", **options):
    return Engine(database, codec=Encrypted(KEYS, key), inline_limit=LARGE, **options)


@step
async def tell(text: str) -> str:
    return text + "!"


@workflow(name="rekeying.keeping")
async def keeping(text: str) -> str:
    reply = await tell(text)
    return reply + await wait_signal("more")


@workflow(name="rekeying.two")
async def two() -> list[str]:
    met = await wait_for(all_of("one", "two"))
    return [signal.payload for signal in met.signals]


@workflow(name="rekeying.late")
async def late(text: str) -> str:
    await wait_signal("go")
    return text


@workflow(name="rekeying.parent")
async def parent(text: str, mapped: bool) -> list[str]:
    if mapped:
        return await map(late, [text])
    child = await start(late, text)
    return [await child.result()]


@workflow(name="rekeying.joined")
async def joined(text: str, more: str) -> int:
    return len(text) + len(more)


def rekey_at_the_next_fetch(engine, other):
    """Let another engine put everything under its key between the read of a row and the fetch of
    what it refers to."""
    values = internals(engine).sealer.values
    fetch, done = values.fetch, []

    def rekey_first(digest):
        values.fetch = fetch
        done.append(other.keys.rekey().values)
        return fetch(digest)

    values.fetch = rekey_first
    return done


def rekey_one(engine, run_id):
    """Put the values of one run under the current key of an engine; return how many these were."""
    parts, done = internals(engine), rekey.Rekeyed()
    (one,) = (
        snapshot
        for snapshot in parts.store.run_snapshots.page("", 100, 1 << 20)
        if snapshot.run.id == run_id
    )
    return sum(parts.writer.call(op) for op in rekey._operations(parts.sealer, one, done))


def rekey_within(monkeypatch, module, rekey_now):
    """The same for a fetch in a transaction."""
    done = []

    def rekey_first(ask, digest):
        monkeypatch.setattr(module, "fetch", payloads.fetch)
        done.append(rekey_now())
        return payloads.fetch(ask, digest)

    monkeypatch.setattr(module, "fetch", rekey_first)
    return done


@pytest.fixture
def other(database):
    engine = engine_of(database)
    yield engine
    engine.close()


def finished(database):
    """Leave a run that has ended, with large values everywhere, under the first key."""
    with engine_of(database, "k1") as engine:
        run = engine.start(keeping, BIG, id="kept")
        run.signal("more", BIG)
        assert run.result(timeout=20)
    return run.id


def shown(engine, run_id):
    return (
        internals(engine).sealer.display.run(internals(engine).client.get(run_id), large=True).input
    )


def shown_event(engine, run_id):
    return (
        internals(engine)
        .sealer.display.events(run_id, internals(engine).store.runs.history(run_id), large=True)[0]
        .data
    )


READERS = {
    "result": lambda engine, run_id: engine.run(run_id).result(timeout=20),
    "record": lambda engine, run_id: engine.run(run_id).record.input,
    "history": lambda engine, run_id: engine.run(run_id).history()[0].data,
    "events": lambda engine, run_id: (
        next(iter(engine.events.read(after="beginning", kind="step_completed"))).data
    ),
    "show": shown,
    "show the history": shown_event,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_is_rekeyed_while_it_is_read_is_read_again(database, other, read):
    run_id = finished(database)
    reader = engine_of(database)
    done = rekey_at_the_next_fetch(reader, other)

    found = read(reader, run_id)

    assert BIG in str(found)
    assert done[0] > 0
    reader.close()


def test_a_run_that_is_rekeyed_while_a_worker_takes_it_up_goes_on(database, other):
    with engine_of(database, "k1") as engine:
        run = engine.start(keeping, BIG)
        wait_for_status(engine, run, "waiting")
    with engine_of(database, workflows=[]) as idle:
        idle.signal(run.id, "more", "x")
    engine = engine_of(database)
    rekey_at_the_next_fetch(engine, other)
    with engine:
        assert engine.run(run.id).result(timeout=20)
        assert engine.database.check() == []


def test_a_signal_that_a_run_keeps_in_memory_is_read_again_after_a_rekey(database, other):
    client = engine_of(database, "k1")
    run = client.start(two)
    run.signal("one", BIG)
    with engine_of(database, "k1") as engine:
        wait_for_status(engine, run, "waiting")
        (driver,) = internals(engine).worker.executions.values()
        assert [signal.name for signal in driver.signals] == ["one"]

        assert other.keys.rekey().values > 0

        run.signal("two", BIG)
        assert run.result(timeout=20) == [BIG, BIG]
        assert engine.database.check() == []
    client.close()


@pytest.mark.parametrize("mapped", [False, True])
def test_a_child_that_is_rekeyed_while_its_parent_reads_its_result(database, other, mapped):
    with engine_of(database, "k1") as engine:
        run = engine.start(parent, BIG, mapped)
        wait_for_status(engine, run, "waiting")
        (child,) = list(engine.runs(parent_id=run.id))
        wait_for_status(engine, engine.run(child.id), "waiting")
        done = rekey_at_the_next_fetch(engine, other)

        engine.signal(child.id, "go")

        assert run.result(timeout=20) == [BIG]
        assert done[0] > 0


def test_the_input_of_a_lease_is_read_again_after_a_rekey(database, other):
    engine = engine_of(database, "k1")
    engine.start("rekeying.render", BIG)
    with engine.tasks.worker("render-7", workflows=["rekeying.render"]) as leases:
        (lease,) = leases.claim(1)
        assert other.keys.rekey().values > 0
        assert lease.input == BIG
    engine.close()


def test_the_result_of_a_member_that_is_rekeyed_while_the_next_member_is_made(
    database, other, monkeypatch
):
    if not database.startswith("postgresql"):
        pytest.skip("a transaction of SQLite excludes all other writers")
    graph = Graph("rekeyed")
    early, last = graph.add(late, BIG, name="early"), graph.add(late, "x", name="last")
    graph.add(joined, early.result, last.result, name="joined")
    with engine_of(database, "k1") as engine:
        run = engine.graphs.start(graph, id="g")
        wait_for_status(engine, engine.run("g::last"), "waiting")
        engine.run("g::early").signal("go")
        engine.run("g::early").result(timeout=20)
        done = rekey_within(monkeypatch, graph_start, lambda: rekey_one(other, "g::early"))
        engine.run("g::last").signal("go")
        assert run.result(timeout=20) == {"joined": len(BIG) + 1}
        assert done


def test_a_start_of_a_run_that_is_there_and_is_rekeyed_at_that_moment(database, other, monkeypatch):
    if not database.startswith("postgresql"):
        pytest.skip("a transaction of SQLite excludes all other writers")
    run_id = finished(database)
    engine = engine_of(database)
    done = rekey_within(monkeypatch, run_start, lambda: other.keys.rekey().values)
    assert engine.start(keeping, BIG, id=run_id).id == run_id
    assert done[0] > 0
    engine.close()


def test_a_fork_of_a_run_that_is_rekeyed_at_that_moment(database, other, monkeypatch):
    run_id = finished(database)
    engine = engine_of(database)
    fork, done = internals(engine).sealer.copy_for_fork, []

    def rekey_afterwards(*given):
        forked = fork(*given)
        monkeypatch.undo()
        done.append(other.keys.rekey().values)
        return forked

    monkeypatch.setattr(internals(engine).sealer, "copy_for_fork", rekey_afterwards)
    forked = engine.fork(run_id)
    assert forked.record.input == [BIG]
    assert done[0] > 0
    assert engine.database.check() == []
    engine.close()


def test_a_payload_is_whole_or_gone(database, other):
    run_id = finished(database)
    store = internals(other).store
    (digest, *_) = store.payloads.of_run(run_id)
    ask = store._reader.rows

    def rekey_between(query, **values):
        found = ask(query, **values)
        if query in ("payload", "payload_parts"):
            other.keys.rekey()
        return found

    payload = payloads.fetch(rekey_between, digest)

    assert payload is None or payload.parts
