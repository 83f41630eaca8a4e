"""Bulk verbs of ``engine.runs(...)``: durable operations with a dry run, refusals and a stop."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

import holdfast
from holdfast import Engine, Fail, Graph, step, wait_signal, workflow
from holdfast.codecs import Encrypted
from holdfast.connect import operation_procedures
from holdfast.core.operations import PART, TAKEOVER
from holdfast.errors import BadOption, OperationNotFound, StoreBusy
from holdfast.service import bulk_verbs
from holdfast.service.requests import Request, identity
from holdfast.store.operations.operations import CarryOut
from holdfast.testing import Lab, internals
from tests.engine.databases import execute
from tests.engine.waiting import wait_until

mended = threading.Event()


@step
async def weigh(number: int) -> int:
    if not mended.is_set():
        raise Fail("too heavy")
    return number


@workflow(name="bulk.weighing")
async def weighing(number: int) -> int:
    return await weigh(number)


@workflow(name="bulk.family")
async def family() -> int:
    return await weighing(1)


@workflow(name="bulk.listening")
async def listening() -> list[object]:
    return [await wait_signal("go"), await wait_signal("end")]


@workflow(name="bulk.sleeping")
async def sleeping() -> str:
    await holdfast.sleep("1d")
    return "rested"


WORKFLOWS = [weighing, family, listening, sleeping]


@pytest.fixture
def lab(database):
    mended.clear()
    with closing(Lab(database, workflows=WORKFLOWS)) as lab:
        yield lab


@pytest.fixture
def client(database):
    """An engine that never claims."""
    with closing(Engine(database, workflows=[], work=False)) as engine:
        yield engine


def failed(lab, count):
    """Let so many runs fail, and return their ids, from new to old."""
    runs = lab.engine.start_many(weighing, range(count))
    lab.settle()
    return [run.id for run in runs][::-1]


def test_a_client_without_a_worker_replays_all_failed_runs(lab, client):
    ids = failed(lab, PART + 5)
    mended.set()
    counts = []

    report = client.runs(status="failed").replay(by="ann", progress=counts.append)

    assert (report.status, report.changed, report.refusals) == ("completed", len(ids), 0)
    assert sorted(report.done) == sorted(ids)
    assert sum(counts) == len(ids) and len(counts) > 1
    wait_until(lab.engine, lambda: client.runs(status="completed").count() == len(ids))
    (operation,) = client.operations.list()
    assert (operation.verb, operation.by, operation.filters) == (
        "replay",
        "ann",
        {"status": "failed"},
    )
    assert client.runs().first().status == "completed"


def test_a_portion_is_one_commit(lab, client):
    failed(lab, 50)
    database = internals(client).store.database
    before = database.commits

    client.runs(status="failed").replay()

    assert database.commits - before == 2  # the operation itself, and one portion


def test_a_dry_run_says_which_runs_would_be_changed_and_writes_nothing(lab, client):
    ids = failed(lab, 3)
    waiting = lab.engine.start(listening)
    lab.settle()
    database = internals(client).store.database
    before = database.commits

    report = client.runs().replay(dry_run=True)

    assert (report.dry_run, report.id, report.status) == (True, None, None)
    assert sorted(report.done) == sorted(ids)
    assert list(report.refused) == [waiting.id]
    assert database.commits == before
    assert client.operations.list() == []


def test_runs_are_selected_by_ids_and_unknown_ones_are_refused(lab, client):
    first, second = (lab.engine.start(listening, id=name) for name in ("a", "b"))
    lab.settle()

    report = client.runs(ids=["b", "gone", "a", "b"]).signal("go", 7)

    assert (report.total, report.done, list(report.refused)) == (3, ["b", "a"], ["gone"])
    assert "no such run" in report.refused["gone"]
    assert [run.id for run in client.runs(ids=["b", "gone", "a"])] == ["b", "a"]
    assert client.runs(ids=["b", "gone"]).count() == 1
    client.runs(ids=[first.id, second.id]).signal("end")
    assert first.result(timeout=60) == [7, None]
    for wrong in ({"ids": "a"}, {"ids": [1]}, {"ids": ["a"], "status": "failed"}):
        with pytest.raises(BadOption):
            client.runs(**wrong).cancel()


def test_a_wrong_argument_is_refused_before_anything_is_written(lab, client):
    lab.engine.start(listening)
    for call in (
        lambda: client.runs().signal(""),
        lambda: client.runs().prioritise(5000),
        lambda: client.runs(status=[]).cancel(),
        lambda: client.runs(parent_id="x").delete(),
        lambda: client.runs().cancel(dry_run="yes"),
    ):
        with pytest.raises(BadOption):
            call()

    assert client.operations.list() == []


def test_a_run_whose_status_has_changed_since_is_refused(lab, client):
    (run_id,) = failed(lab, 1)
    report = client.runs(status="failed").replay(wait=False)
    assert (report.status, report.changed) == ("running", 0)
    mended.set()
    lab.engine.replay(run_id)
    lab.settle()

    done = client.operations.wait(report.id)

    assert (done.status, list(done.refused)) == ("completed", [run_id])
    assert lab.engine.run(run_id).status == "completed"


def test_runs_that_are_started_later_are_not_touched(lab, client):
    first = lab.engine.start(listening)
    report = client.runs().cancel(wait=False)
    later = lab.engine.start(listening)

    assert client.operations.wait(report.id).done == [first.id]
    assert later.status in ("pending", "running", "waiting")


def test_a_worker_carries_out_an_operation_that_is_not_waited_for(database):
    mended.clear()
    with Engine(database, workflows=WORKFLOWS) as engine:
        runs = [engine.start(listening) for _ in range(3)]

        report = engine.runs(live=True).cancel("closed", wait=False)

        wait_until(engine, lambda: engine.operations.get(report.id).status == "completed")
        for run in runs:
            run.wait_until("cancelled", timeout=30)


def test_a_worker_continues_the_operation_of_a_dead_process(lab):
    engine = lab.engine
    ids = failed(lab, 3)
    mended.set()
    parts = internals(engine)
    request = parts.operations.start(
        bulk_verbs.replay(None), {"status": "failed"}, None, by=None, waits=True
    )
    record = parts.commit(request)
    # The first portion, and then the process dies.
    parts.commit(Request(parts.operations.prepare(record, 1, {}).portion, identity))
    lab.settle()
    assert engine.runs(status="failed").count() == 2

    lab.advance(f"{TAKEOVER // 1_000_000 + 1}s")
    wait_until(engine, lambda: engine.operations.get(record.id).status == "completed")
    lab.settle()

    assert engine.runs(status="completed").count() == len(ids)


def test_a_stopped_operation_leaves_the_rest_as_it_is(lab, client):
    ids = failed(lab, PART + 3)
    mended.set()  # or the lab would let the replayed runs fail again
    report = client.runs(ids=ids).replay(wait=False)
    carrier = operation_procedures._Carrier(internals(client), report.id)
    assert carrier.next_portion()

    stopped = client.operations.stop(report.id)

    assert (stopped.status, stopped.changed) == ("stopped", PART)
    assert client.operations.wait(report.id).changed == PART
    assert client.runs(status="failed").count() == 3
    with pytest.raises(OperationNotFound):
        client.operations.stop("nothing")


def test_a_damaged_run_is_refused_and_the_others_are_changed(lab, client, database):
    ids = failed(lab, 5)
    execute(database, "UPDATE holdfast.event SET at = -1 WHERE run_id = :id", id=ids[1])
    execute(database, "UPDATE holdfast.run SET wake_at = -1 WHERE id = :id", id=ids[3])

    report = client.runs(ids=ids).replay()

    assert sorted(report.done) == sorted([ids[0], ids[2], ids[4]])
    assert sorted(report.refused) == sorted([ids[1], ids[3]])


def test_an_error_of_the_store_loses_nothing(lab, client, monkeypatch):
    ids = failed(lab, 4)
    store = internals(client).store
    apply = store.apply
    failures = [0]

    def failing(batch):
        if failures[0] == 0 and any(isinstance(op, CarryOut) for op in batch):
            failures[0] += 1
            raise StoreBusy(path="x")
        return apply(batch)

    monkeypatch.setattr(store, "apply", failing)
    with pytest.raises(StoreBusy):
        client.runs(status="failed").replay()

    (operation,) = client.operations.list(status="running")
    assert client.operations.wait(operation.id).changed == len(ids)


def test_a_parent_is_replayed_with_its_children(lab, client):
    run = lab.engine.start(family)
    lab.settle()
    mended.set()

    report = client.runs(ids=[run.id]).replay()

    assert report.done == [run.id]
    assert run.result(timeout=30) == 1


def test_members_of_a_graph_are_replayed(lab, client):
    graph = Graph()
    graph.add(weighing, 1, name="a")
    graph.add(weighing, 2, name="b")
    lab.engine.graphs.start(graph, id="g")
    lab.settle()
    mended.set()

    report = client.runs(status="failed").replay()

    assert sorted(report.done) == ["g::a", "g::b"]
    wait_until(lab.engine, lambda: lab.engine.graphs.get("g").status == "completed")


def test_waits_are_released_and_runs_deleted_with_their_children(lab, client):
    sleeper = lab.engine.start(sleeping)
    parent = lab.engine.start(family)
    lab.settle()

    released = client.runs(workflow="bulk.sleeping").release(by="ann")
    assert released.done == [sleeper.id]
    sleeper.wait_until("completed", timeout=30)

    live = lab.engine.start(listening)
    deleted = client.runs().delete()

    assert sorted(deleted.done) == sorted([sleeper.id, parent.id])
    assert list(deleted.refused) == [live.id]
    assert [run.id for run in client.runs()] == [live.id]
    assert client.database.check() == []


def test_the_payload_of_a_bulk_signal_is_encrypted_and_rekeyed(database):
    keys = {"k1": b"1" * 32, "k2": b"2" * 32}
    with closing(Engine(database, codec=Encrypted(keys, "k1"), workflows=[])) as engine:
        run = engine.start("nothing")
        report = engine.runs().signal("go", "the crown jewels", wait=False)
    ((stored,),) = execute(database, "SELECT payload FROM holdfast.operation")
    assert b"crown" not in bytes(stored)
    with closing(Engine(database, codec=Encrypted(keys, "k2"), workflows=[])) as engine:
        engine.keys.rekey()
    only_new = Encrypted({"k2": keys["k2"]}, "k2")
    with closing(Engine(database, codec=only_new, workflows=[])) as engine:
        assert engine.operations.wait(report.id).done == [run.id]
        assert engine.database.check() == []
    ((left,),) = execute(database, "SELECT payload FROM holdfast.operation")
    assert left is None
