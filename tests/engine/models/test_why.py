"""``why`` of the run of a model: the incident, the topic or the handler that it needs."""

from __future__ import annotations

import pytest

from holdfast import Engine, bpmn
from tests.bpmn.models import flows, model_of, process_of
from tests.engine.models.test_operators import until, waiting

PAY = process_of(
    '<startEvent id="s"/><serviceTask id="why-pay"/><userTask id="u"/>' + flows("s why-pay", "s u"),
    id="why_payment",
)
SHIP = process_of(
    '<startEvent id="s"/><serviceTask id="send" camunda:topic="ship"/>' + flows("s send"), id="ship"
)
HEAR = model_of(
    '<message id="m" name="payment received"/><signal id="g" name="prices"/>'
    '<process id="hear" isExecutable="true"><startEvent id="s"/>'
    '<receiveTask id="money" messageRef="m"/><intermediateCatchEvent id="news">'
    '<signalEventDefinition signalRef="g"/></intermediateCatchEvent>'
    + flows("s money", "s news")
    + "</process>"
)


def fail(**variables):
    raise ValueError("no route to bank")


@pytest.fixture
def payer(database):
    with Engine(
        database, handlers={"why-pay": bpmn.handler("why-fail", retries=3, delay="1ms")(fail)}
    ) as engine:
        engine.models.deploy(PAY)
        yield engine


def test_an_incident_comes_first_with_the_command_that_retries_it(payer):
    run = payer.start("why_payment", {})
    (incident,) = until(lambda: payer.models.incidents(run=run.id))

    why = run.why()

    assert why.reason.startswith("element 'why-pay' failed with ValueError: no route to bank")
    assert f", after {incident.attempts} attempts; it needs an operator" in why.reason
    assert why.remedy == f"holdfast models retry '{incident.id}'"
    assert [blocker.kind for blocker in why.blockers] == ["incident", "gate"]


def test_a_resolved_incident_needs_only_a_worker(payer, database):
    run = payer.start("why_payment", {})
    until(payer.models.incidents)
    payer.close(shutdown_timeout=1)
    with Engine(database, work=False) as client:
        (incident,) = client.models.incidents()
        client.models.retry(incident.id)

        why = client.why(run.id)

    assert "incident" not in [blocker.kind for blocker in why.blockers]
    assert why.reason.startswith("no worker is alive")


def test_a_worker_without_the_handler_is_told_the_task(payer, database):
    payer.close(shutdown_timeout=1)
    with Engine(database, shutdown_timeout=1) as engine:
        run = engine.start("why_payment", {})

        why = run.why()

    assert "no live worker serves the workflow why_payment" in why.reason
    assert "(MODULE binds the handlers of the model why_payment, version 1: why-pay)" in why.reason
    assert why.remedy == "holdfast worker MODULE"


def test_a_topic_that_no_live_worker_offers(engine):
    engine.models.deploy(SHIP)
    run = waiting(engine, "ship")

    why = run.why()
    assert why.reason == (
        "task 'send' waits for a worker of the topic 'ship', and no live worker offers it"
    )
    assert why.remedy == "holdfast tasks claim --workflow ship"

    with engine.tasks.worker("w1", topics=["ship"]):
        assert "no live worker" not in run.why().reason


def test_messages_and_broadcasts_are_named_with_their_commands(engine):
    engine.models.deploy(HEAR)
    run = waiting(engine, "hear")

    assert [(each.kind, each.remedy) for each in run.why().blockers] == [
        ("message", "holdfast models message 'payment received'"),
        ("broadcast", "holdfast models broadcast prices"),
    ]
