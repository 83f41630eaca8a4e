"""Incidents, instructions, tokens at rest and external tasks of the runs of models."""

from __future__ import annotations

import pytest

from holdfast import Engine, bpmn
from holdfast.errors import BadOption, NotThere, RunChanged, RunFinished
from tests.bpmn.models import flows, process_of
from tests.engine.databases import execute
from tests.engine.models.toy_models import toy
from tests.engine.waiting import until


def waiting(engine, name, variables=None):
    run = engine.start(name, variables or {})
    run.wait_until("waiting", timeout=60)
    return run


def test_an_incident_keeps_the_run_alive_until_an_operator_resolves_it(engine):
    engine.models.deploy(toy("order", ("break", "pay"), ("break", "ship")))
    run = waiting(engine, "order")

    (incident,) = engine.models.incidents(run=run.id)
    assert (incident.run_id, incident.element, incident.attempts) == (run.id, "pay", 3)
    assert incident.error["message"] == "pay is broken"
    assert [each.id for each in engine.models.incidents()] == [incident.id]

    engine.models.retry(incident.id, {"x": 1}, by="ann")
    (second,) = until(
        lambda: [each for each in engine.models.incidents() if each.element == "ship"]
    )
    with pytest.raises(NotThere):
        engine.models.retry(incident.id)
    engine.models.skip(second.id)

    result = run.result(timeout=60)
    assert result["pay"] == {"action": "retry", "variables": {"x": 1}, "by": "ann"}
    assert result["ship"]["action"] == "skip"
    assert engine.models.incidents() == []


def test_an_incident_survives_its_worker(database):
    with Engine(database, shutdown_timeout=1) as engine:
        engine.models.deploy(toy("order", ("break", "pay")))
        run = waiting(engine, "order")
    with Engine(database, work=False) as client:
        (incident,) = client.models.incidents()
        client.models.retry(incident.id)
    with Engine(database, shutdown_timeout=1) as engine:
        assert engine.run(run.id).result(timeout=60)["pay"]["action"] == "retry"
        assert engine.database.check() == []


def test_an_instruction_is_answered_after_its_commit(engine):
    engine.models.deploy(toy("order", ("wait", "paid")))
    run = waiting(engine, "order")

    engine.models.set_variables(run.id, {"x": 2}, by="ann")

    assert [event.kind for event in run.history()][-1] == "instructed"
    engine.models.message("paid", {})
    assert run.result(timeout=60) == {"x": 2, "paid": {}}
    with pytest.raises(RunFinished):
        engine.models.set_variables(run.id, {"x": 3})


def test_a_refused_instruction_changes_nothing(engine):
    engine.models.deploy(toy("order", ("wait", "paid")))
    run = waiting(engine, "order")

    with pytest.raises(NotThere) as refused:
        engine.models.trigger(run.id, "nowhere")
    assert refused.value.facts["element"] == "nowhere"
    with pytest.raises(RunChanged):
        engine.models.modify(run.id, expect=0)

    engine.models.message("paid", {})
    assert run.result(timeout=60) == {"paid": {}}


def test_a_dry_run_tells_the_tokens_and_changes_nothing(engine):
    tasks = '<startEvent id="s"/><userTask id="a"/><userTask id="b"/><endEvent id="e"/>'
    engine.models.deploy(process_of(tasks + flows("s a", "a b", "b e")))
    run = waiting(engine, "p")
    (token,) = engine.models.tokens(run.id)
    events = [event.seq for event in run.history()]

    moved = engine.models.modify(run.id, bpmn.move(token.id, "b"), dry_run=True)
    ended = engine.models.modify(run.id, bpmn.move(token.id, "e"), dry_run=True)

    assert [(each.element, each.waits_for) for each in moved] == [("b", "user")]
    assert ended == []
    for moves, error in (
        ([bpmn.move("77", "b")], NotThere),
        ([bpmn.add("gone")], NotThere),
        (["b"], BadOption),
    ):
        with pytest.raises(error):
            engine.models.modify(run.id, *moves, dry_run=True)
    with pytest.raises(RunChanged):
        engine.models.modify(run.id, bpmn.add("b"), dry_run=True, expect=events[-1] - 1)
    assert [event.seq for event in run.history()] == events
    assert engine.models.tokens(run.id) == [token]

    (done,) = engine.models.modify(run.id, bpmn.move(token.id, "b"), expect=events[-1])
    assert (done.element, done.id) == ("b", moved[0].id)
    engine.models.modify(run.id, bpmn.cancel(done.id))
    run.result(timeout=60)
    with pytest.raises(RunFinished):
        engine.models.modify(run.id, bpmn.add("b"), dry_run=True)


def test_tokens_at_rest_are_rows(engine, database):
    engine.models.deploy(toy("order", ("wait", "paid"), ("wait", "shipped"), rests=True))
    run = waiting(engine, "order")
    query = "SELECT element FROM holdfast.resting_token WHERE run_id = :run"

    assert [tuple(row) for row in execute(database, query, run=run.id)] == [("paid",)]
    engine.models.message("paid", {})
    engine.models.message("shipped", {}, ttl="1h")
    run.result(timeout=60)
    assert execute(database, query, run=run.id) == []


def test_external_tasks_are_leased_by_their_topic(engine):
    engine.models.deploy(toy("order", ("topic", "ship")))
    run = waiting(engine, "order", {"x": 1})
    (task,) = engine.models.tasks(run=run.id)
    assert (task.kind, task.topic, task.element, task.variables) == (
        "external",
        "ship",
        "ship",
        {"x": 1},
    )

    with engine.tasks.worker("w1", topics=["ship"]) as worker:
        (lease,) = worker.claim(limit=1)
        assert (lease.input, lease.element) == ({"x": 1}, "ship")
        lease.complete({"parcel": 7})

    assert run.result(timeout=60) == {"x": 1, "ship": {"parcel": 7}}


def test_an_external_task_can_be_completed_without_a_worker_or_throw(engine):
    engine.models.deploy(toy("order", ("topic", "ship"), ("topic", "bill")))
    run = waiting(engine, "order")
    (task,) = engine.models.tasks(run=run.id)
    engine.models.complete(task.id, {"parcel": 8}, by="ann")

    with engine.tasks.worker("w1", topics=["bill"]) as worker:
        (lease,) = worker.claim(limit=1, wait="5s")
        lease.throw("too-much", "not today", {"limit": 5})

    assert run.result(timeout=60) == {"ship": {"parcel": 8}, "bill": "BpmnError"}


def test_elements_are_events_if_the_deployment_asks_for_them(database):
    body = '<startEvent id="s"/><userTask id="u"/><task id="t"/><endEvent id="e"/>' + flows(
        "s u", "u t", "t e"
    )
    with Engine(database, shutdown_timeout=1) as engine:
        engine.models.deploy(process_of(body, "quiet"))
        assert engine.models.deploy(process_of(body, "loud"), element_events=True).created
        quiet, loud = waiting(engine, "quiet"), waiting(engine, "loud")
    with Engine(database, shutdown_timeout=1) as engine:  # taken over: none is recorded twice
        for task in engine.models.tasks():
            engine.models.complete(task.id, by="ann")
        for run in (quiet, loud):
            engine.run(run.id).result(timeout=60)
        events = [
            (event.kind.removeprefix("element_"), event.data["element"])
            for event in engine.run(loud.id).history()
            if event.kind.startswith("element_")
        ]
        assert events == [
            (what, element) for element in "sute" for what in ("entered", "completed")
        ]
        kinds = {event.kind for event in engine.run(quiet.id).history()}
        assert not any(kind.startswith("element_") for kind in kinds)
        read = [event.run_id for event in engine.events.read(kind="element_entered")]
        assert read == [loud.id] * 4
        with pytest.raises(BadOption):
            engine.models.deploy(process_of(body, "odd"), element_events="yes")
        assert engine.database.check() == []
