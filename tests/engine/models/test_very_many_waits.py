"""Runs with very many open waits: what one of them costs does not grow with their number."""

from __future__ import annotations

import json

import pytest

from holdfast import Engine, gate, gather, sleep, workflow
from holdfast.errors import NotThere, WaitNotFound
from holdfast.testing import internals
from tests.bpmn.models import flows, process_of
from tests.engine.databases import execute
from tests.engine.waiting import until

LISTED = 100


def many_tasks(kind="userTask", more=""):
    """Return a process with an activity for each of ``n`` instances at once."""
    loop = (
        "<multiInstanceLoopCharacteristics><loopCardinality>${n}</loopCardinality>"
        "</multiInstanceLoopCharacteristics>"
    )
    body = f'<startEvent id="s"/><{kind} id="work" {more}>{loop}</{kind}><endEvent id="e"/>'
    return process_of(body + flows("s work", "work e"), id="many")


def waiting(engine, size):
    run = engine.start("many", {"n": size})
    run.wait_until("waiting", timeout=20)
    return run


def stored_waits(database, run):
    ((waits,),) = map(
        tuple, execute(database, "SELECT waits FROM holdfast.run WHERE id = :run", run=run.id)
    )
    return json.loads(bytes(waits))


@pytest.mark.sqlite_only
def test_completing_one_of_many_tasks_costs_the_same_statements(tmp_path):
    """As many statements, and none that is longer for the tasks that stay open."""
    with Engine(tmp_path / "cost.db", poll="1h", session_ttl="1h", driver="sqlite3") as engine:
        engine.models.deploy(many_tasks())
        said: list[str] = []
        connection = internals(engine).store.database._db.raw

        def cost(size: int) -> tuple[int, int]:
            run = waiting(engine, size)
            costs = []
            for task in engine.models.tasks(run=run.id, limit=4):
                seen = run.history()[-1].seq
                said.clear()
                connection.set_trace_callback(said.append)
                engine.models.complete(task.id, {"x": 1}, by="ann")
                until(lambda seen=seen: run.history()[-1].seq != seen)
                run.wait_until("waiting", timeout=60)
                connection.set_trace_callback(None)
                written = [text for text in said if text.split()[0] in ("INSERT", "UPDATE")]
                costs.append((len(written), sum(map(len, written))))
            return min(costs)

        few, many = cost(2 * LISTED), cost(6 * LISTED)

    assert few[0] == many[0]
    assert many[1] <= 1.05 * few[1]


def test_the_row_of_a_run_lists_the_first_of_very_many_waits(engine, database):
    engine.models.deploy(many_tasks())
    run = waiting(engine, LISTED + 30)

    waits = stored_waits(database, run)

    assert len(waits) == LISTED + 1
    assert waits[-1] == {"kind": "others", "of": "gate", "count": 30}
    texts = [blocker.text for blocker in engine.why(run.id).blockers]
    assert "it has 30 more waits of the kind gate" in texts
    tasks = engine.models.tasks(run=run.id)
    for task in reversed(tasks):  # the ones that are not listed first
        engine.models.complete(task.id, by="ann")
    assert run.result(timeout=20) == {"n": LISTED + 30}


def test_very_many_tasks_are_completed_by_another_worker(database):
    """Decisions are found that came while no worker held the run, and later ones."""
    with Engine(database, shutdown_timeout=1) as engine:
        engine.models.deploy(many_tasks())
        run = waiting(engine, LISTED + 20)
    with Engine(database, work=False) as client:
        first, *others = client.models.tasks(run=run.id)
        client.models.complete(others[-1].id, by="ann")
        client.models.complete(first.id, by="ann")
    with Engine(database, shutdown_timeout=1) as engine:
        for task in others[:-1]:
            engine.models.complete(task.id, by="ann")
        assert engine.run(run.id).result(timeout=20) == {"n": LISTED + 20}
        assert engine.database.check() == []


@workflow
async def many_naps(size: int) -> int:
    naps = [sleep(f"{10 if index == size - 5 else 1000}h") for index in range(size)]
    await gather(*naps)
    return size


@workflow
async def many_questions(size: int) -> int:
    questions = [
        gate(f"q{index}", options=["yes"], timeout=f"{10 if index == size - 5 else 1000}h")
        for index in range(size)
    ]
    return len(await gather(*questions, return_exceptions=True))


@pytest.mark.parametrize("target", [many_naps, many_questions])
def test_the_earliest_instant_counts_although_its_wait_is_not_listed(database, clock, target):
    with Engine(database, clock=clock) as engine:
        run = engine.start(target, LISTED + 20)
        run.wait_until("waiting", timeout=20)
        record = run.record
        assert record.wake_at is not None
        assert 9.9 * 3600 < (record.wake_at - record.created_at).total_seconds() < 10.1 * 3600


def test_a_timer_that_is_not_listed_can_be_released(engine, database):
    run = engine.start(many_naps, LISTED + 20)
    run.wait_until("waiting", timeout=20)
    listed = {wait.get("step") for wait in stored_waits(database, run)}
    steps = [event.step for event in run.history() if event.kind == "timer_set"]
    hidden = next(step for step in steps if step not in listed)

    with pytest.raises(WaitNotFound):
        engine.waits.release(run.id, step="sleep#9999")
    engine.waits.release(run.id, step=hidden)

    until(lambda: any(event.kind == "timer_fired" for event in run.history()))
    assert [event.step for event in run.history() if event.kind == "timer_fired"] == [hidden]
    run.cancel()


def test_tasks_and_incidents_are_listed_in_pages(engine):
    engine.models.deploy(many_tasks())
    runs = [waiting(engine, size) for size in (7, 4)]
    listed = [task.id for task in engine.models.tasks(limit=100)]
    pages: list[list[str]] = []
    while not pages or len(pages[-1]) == 3:
        after = pages[-1][-1] if pages else None
        pages.append([task.id for task in engine.models.tasks(after=after, limit=3)])
    assert [task for page in pages for task in page] == listed
    assert len(listed) == 11
    of_second = engine.models.tasks(run=runs[1].id, element="work", limit=3)
    assert [task.variables["loopCounter"] for task in of_second] == [0, 1, 2]
    assert of_second[0].variables["n"] == 4
    assert engine.models.tasks(element="other") == []
    for run in runs:
        run.cancel()


def test_incidents_are_listed_in_pages(engine):
    engine.models.deploy(
        many_tasks("scriptTask", 'scriptFormat="juel"').replace(
            b"<multiInstance", b"<script>${missing.name + 1}</script><multiInstance"
        )
    )
    run = waiting(engine, 7)
    whole = engine.models.incidents(run=run.id)
    assert len(whole) == 7
    page = engine.models.incidents(limit=3)
    rest = engine.models.incidents(after=page[-1].id, limit=100)
    assert [each.id for each in (*page, *rest)] == [each.id for each in whole]
    with pytest.raises(NotThere):
        engine.models.incidents(after="nothing@nowhere")
    engine.models.skip(page[-1].id)
    until(lambda: len(engine.models.incidents()) == 6)
    # a place stays a place after the incident was resolved
    assert [each.id for each in engine.models.incidents(after=page[-1].id)] == [
        each.id for each in rest
    ]
    run.cancel()
