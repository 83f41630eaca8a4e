"""Names that a model computes: topics, messages, signals, errors, called processes, decisions."""

import pytest

from holdfast import bpmn, workflow
from tests.bpmn.models import boundary, error, flows, process_of
from tests.bpmn.test_running import lab_with

ZEEBE = '<extensionElements><zeebe:taskDefinition type="{}" retries="{}"/></extensionElements>'


def task(type='="ship-" + country', retries="1"):
    definition = ZEEBE.format(type.replace('"', "&quot;"), retries)
    return f'<startEvent id="s"/><serviceTask id="t">{definition}</serviceTask>' + flows("s t")


def message(name, key="=order"):
    return (
        f'<message id="m" name="{name}"><extensionElements>'
        f'<zeebe:subscription correlationKey="{key}"/></extensionElements></message>'
    )


def test_the_type_of_a_task_finds_its_handler():
    handlers = {"ship-de": lambda: {"by": "rail"}, "ship-us": lambda: {"by": "air"}}
    with lab_with(process_of(task()), handlers=handlers) as lab:
        assert lab.finish(lab.start("p", {"country": "de"}))["by"] == "rail"
        assert lab.finish(lab.start("p", {"country": "us"}))["by"] == "air"


def test_a_task_without_a_handler_of_its_topic_waits_for_a_worker_of_that_topic():
    body = '<startEvent id="s"/><serviceTask id="t" camunda:topic="ship-${country}"/>'
    with lab_with(process_of(body + flows("s t"))) as lab:
        run = lab.start("p", {"country": "fr"})
        lab.settle()

        (open_task,) = lab.engine.models.tasks(run=run.id)
        assert open_task.topic == "ship-fr"
        (lease,) = lab.engine.tasks.worker("w", topics=["ship-fr"]).claim()
        lease.complete({"sent": True})
        assert lab.finish(run)["sent"] is True


def test_a_task_has_as_many_attempts_as_its_model_computes():
    attempts = []

    def work():
        attempts.append(1)
        raise ValueError("no route")

    with lab_with(process_of(task("work", "=tries")), handlers={"work": work}) as lab:
        lab.start("p", {"tries": 3})
        lab.settle()
        lab.advance("1h")

        assert len(attempts) == 3
        assert [incident.element for incident in lab.engine.models.incidents()] == ["t"]


def test_a_cycle_of_retries_can_be_computed():
    attempts = []

    def work():
        attempts.append(1)
        raise ValueError("no route")

    body = (
        '<startEvent id="s"/><serviceTask id="t"><extensionElements>'
        "<camunda:failedJobRetryTimeCycle>${cycle}</camunda:failedJobRetryTimeCycle>"
        "</extensionElements></serviceTask>" + flows("s t")
    )
    with lab_with(process_of(body), handlers={"t": work}) as lab:
        lab.start("p", {"cycle": "R2/PT10M"})
        lab.settle()
        assert len(attempts) == 1

        lab.advance("PT10M")

        assert len(attempts) == 2
        assert len(lab.engine.models.incidents()) == 1


@pytest.mark.parametrize("topic", [None, [1], True, ""])
def test_a_value_that_is_no_name_is_an_incident_that_can_be_repaired(topic):
    with lab_with(process_of(task("=topic")), handlers={"good": lambda: {"ok": True}}) as lab:
        run = lab.start("p", {"topic": topic})
        lab.settle()

        (incident,) = lab.engine.models.incidents()
        assert incident.element == "t" and "must give a name" in incident.error["message"]
        lab.engine.models.retry(incident.id, {"topic": "good"})
        assert lab.finish(run)["ok"] is True


def test_messages_meet_by_a_computed_name_and_key():
    receiver = process_of(
        '<startEvent id="s"/><receiveTask id="r" messageRef="m"/>' + flows("s r"),
        id="receiver",
        more=message('="paid-" + country'.replace('"', "&quot;")),
    )
    sender = process_of(
        '<startEvent id="s"/><sendTask id="t" messageRef="m"/>' + flows("s t"),
        id="sender",
        more=message('="paid-" + country'.replace('"', "&quot;")),
    )
    with lab_with(receiver, sender) as lab:
        waiting = lab.start("receiver", {"order": "7", "country": "de"})
        other = lab.start("receiver", {"order": "7", "country": "us"})
        lab.finish(lab.start("sender", {"order": "7", "country": "de"}))

        lab.finish(waiting)
        lab.settle()
        assert other.status == "waiting"


def test_a_signal_is_thrown_and_caught_by_a_name_with_an_expression_in_it():
    signal = '<signal id="g" name="closed-${shop}"/>'
    definition = '<signalEventDefinition signalRef="g"/>'
    catcher = process_of(
        f'<startEvent id="s"/><intermediateCatchEvent id="c">{definition}</intermediateCatchEvent>'
        + flows("s c"),
        id="catcher",
        more=signal,
    )
    thrower = process_of(
        f'<startEvent id="s"/><endEvent id="e">{definition}</endEvent>' + flows("s e"),
        id="thrower",
        more=signal,
    )
    with lab_with(catcher, thrower) as lab:
        mine = lab.start("catcher", {"shop": "bonn"})
        other = lab.start("catcher", {"shop": "ulm"})
        lab.settle()
        lab.finish(lab.start("thrower", {"shop": "bonn"}))

        lab.finish(mine)
        lab.settle()
        assert other.status == "waiting"


def test_an_error_is_thrown_with_a_computed_code():
    body = (
        '<startEvent id="s"/><subProcess id="sub"><startEvent id="s2"/><endEvent id="e2">'
        '<errorEventDefinition errorRef="x"/></endEvent>'
        '<sequenceFlow id="i" sourceRef="s2" targetRef="e2"/></subProcess>'
        + boundary("b", "sub", error("late"))
        + '<endEvent id="caught"/>'
        + flows("s sub", "b caught")
    )
    codes = '<error id="x" errorCode="=code"/><error id="late" errorCode="late"/>'
    with lab_with(process_of(body, more=codes)) as lab:
        run = lab.start("p", {"code": "late"})
        lab.finish(run)

        assert "caught" in lab.engine.models.trace(run.id).elements


def test_a_call_computes_the_name_of_what_it_calls():
    @workflow
    def called_in_de(order: str) -> dict:
        return {"tax": 19}

    body = (
        '<startEvent id="s"/><callActivity id="c" calledElement="called_in_${country}">'
        '<extensionElements><camunda:in variables="all"/><camunda:out variables="all"/>'
        "</extensionElements></callActivity>" + flows("s c")
    )
    with lab_with(process_of(body)) as lab:
        assert lab.finish(lab.start("p", {"country": "de", "order": "7"}))["tax"] == 19


def test_a_business_rule_task_computes_the_name_of_its_decision():
    decision = (
        '<definitions xmlns="https://www.omg.org/spec/DMN/20191111/MODEL/" id="d" name="d"'
        ' namespace="x"><decision id="tax-de" name="tax-de"><variable name="tax-de"/>'
        "<literalExpression><text>amount * 2</text></literalExpression></decision></definitions>"
    )
    body = (
        '<startEvent id="s"/><businessRuleTask id="t"><extensionElements>'
        '<zeebe:calledDecision decisionId="=&quot;tax-&quot; + country" resultVariable="tax"/>'
        "</extensionElements></businessRuleTask>" + flows("s t")
    )
    with lab_with(process_of(body), decision) as lab:
        assert lab.finish(lab.start("p", {"country": "de", "amount": 4}))["tax"] == 8


@pytest.mark.parametrize(
    ("body", "more", "code"),
    [
        (task("=open("), "", "bad-expression"),
        (task("work", "=1 +"), "", "bad-expression"),
        (
            '<startEvent id="s"/><callActivity id="t" calledElement="${a +}"/>' + flows("s t"),
            "",
            "bad-expression",
        ),
        (
            '<startEvent id="s"/><receiveTask id="t" messageRef="m"/>' + flows("s t"),
            message("=a +"),
            "bad-expression",
        ),
        (
            '<startEvent id="s"/><endEvent id="t"><signalEventDefinition signalRef="g"/>'
            "</endEvent>" + flows("s t"),
            '<signal id="g" name="x-${1 +}"/>',
            "bad-expression",
        ),
        (
            '<startEvent id="t"><messageEventDefinition messageRef="m"/></startEvent>',
            message("=country"),
            "computed-start",
        ),
        (
            '<startEvent id="t"><signalEventDefinition signalRef="g"/></startEvent>',
            '<signal id="g" name="x-${country}"/>',
            "computed-start",
        ),
    ],
)
def test_a_name_that_cannot_be_computed_is_refused_with_its_element(body, more, code):
    problems = bpmn.load(process_of(body, more=more)).problems

    errors = [problem for problem in problems if problem.severity == "error"]
    assert {(problem.code, problem.element) for problem in errors} == {(code, "t")}
