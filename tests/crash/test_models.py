"""Models of each kind of element, killed before and after each of their commits."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress

import pytest

from holdfast import workflow
from holdfast.authoring.bpmn.definition import ModelDefinition, ProcessContent
from holdfast.authoring.bpmn.handlers import HandlerBinder
from holdfast.authoring.bpmn.loading import load_model
from holdfast.errors import BpmnError, LeaseLost
from holdfast.store.messages.operations import InstructRun
from holdfast.testing import internals
from tests.bpmn.models import boundary, compensation, error, flows, process_of, timer

world: Counter[str] = Counter()


def counted(name, result=None, raises=None):
    """Return a handler that counts its calls, which may be repeated after a crash."""

    def work(**variables):
        world[name] += 1
        if raises is not None:
            raise raises
        return result or {}

    return work


@workflow(name="crash_models.double")
async def double(amount: int) -> dict:
    return {"doubled": 2 * amount}


HANDLERS = {
    "charge": counted("charge", {"payment": "p-1"}),
    "pack": counted("pack", {"packed": True}),
    "refund": counted("refund", {"refunded": True}),
    "throw": counted("throw", raises=BpmnError("E1", limit=3)),
}
UNDONE = '<serviceTask id="refund" isForCompensation="true"/>' + compensation("charge", "refund")
MODELS = {
    "tasks and gateways": (
        '<startEvent id="s"/><parallelGateway id="fork"/><parallelGateway id="join"/>'
        '<serviceTask id="charge"/><serviceTask id="pack"/><inclusiveGateway id="or"/>'
        '<task id="a"/><task id="b"/><inclusiveGateway id="orjoin"/>'
        + flows(
            "s fork",
            "fork charge",
            "fork pack",
            "charge join",
            "pack join",
            "join or",
            "or a ${amount > 1}",
            "or b ${amount > 2}",
            "a orjoin",
            "b orjoin",
        )
    ),
    "user task and boundary timer": (
        '<startEvent id="s"/><userTask id="u"/><serviceTask id="pack"/><userTask id="v"/>'
        + boundary("late", "u", timer("timeDuration", "PT1H"), interrupting=False)
        + flows("s u", "u v", "late pack")
    ),
    "timer that interrupts": (
        '<startEvent id="s"/><subProcess id="sub"><startEvent id="is"/><receiveTask id="r"/>'
        '<sequenceFlow id="i" sourceRef="is" targetRef="r"/></subProcess>'
        '<serviceTask id="pack"/>'
        + boundary("late", "sub", timer("timeDuration", "PT1H"))
        + flows("s sub", "late pack")
    ),
    "error and event sub-process": (
        '<startEvent id="s"/><serviceTask id="throw"/><serviceTask id="charge"/>'
        '<subProcess id="h" triggeredByEvent="true"><startEvent id="hs">'
        + error("E1")
        + '</startEvent><serviceTask id="pack"/>'
        + '<sequenceFlow id="i" sourceRef="hs" targetRef="pack"/></subProcess>'
        + flows("s charge", "charge throw")
    ),
    "compensation": (
        '<startEvent id="s"/><serviceTask id="charge"><multiInstanceLoopCharacteristics>'
        "<loopCardinality>3</loopCardinality></multiInstanceLoopCharacteristics></serviceTask>"
        '<endEvent id="c"><compensateEventDefinition/></endEvent>'
        + UNDONE
        + flows("s charge", "charge c")
    ),
    "transaction": (
        '<startEvent id="s"/><transaction id="tx"><startEvent id="is"/><serviceTask id="charge"/>'
        '<endEvent id="no"><cancelEventDefinition/></endEvent>'
        + UNDONE
        + '<sequenceFlow id="i1" sourceRef="is" targetRef="charge"/>'
        '<sequenceFlow id="i2" sourceRef="charge" targetRef="no"/></transaction>'
        '<serviceTask id="pack"/>'
        + boundary("cancelled", "tx", "<cancelEventDefinition/>")
        + flows("s tx", "cancelled pack")
    ),
    "events of every kind": (
        '<startEvent id="s"/><eventBasedGateway id="first"/><intermediateCatchEvent id="late">'
        + timer("timeDuration", "PT1H")
        + '<signalEventDefinition signalRef="crash bell"/></intermediateCatchEvent>'
        '<receiveTask id="r" messageRef="crash call"/><intermediateThrowEvent id="go">'
        '<linkEventDefinition name="there"/></intermediateThrowEvent>'
        '<intermediateCatchEvent id="there"><linkEventDefinition name="there"/>'
        '</intermediateCatchEvent><subProcess id="sub"><startEvent id="is"/>'
        '<intermediateThrowEvent id="up"><escalationEventDefinition escalationRef="E2"/>'
        '</intermediateThrowEvent><sequenceFlow id="i" sourceRef="is" targetRef="up"/>'
        '</subProcess><serviceTask id="pack"/><scriptTask id="x" scriptFormat="feel"'
        ' camunda:resultVariable="x"><script>amount + 1</script></scriptTask>'
        '<intermediateCatchEvent id="large"><conditionalEventDefinition><condition>${x > 3}'
        "</condition></conditionalEventDefinition></intermediateCatchEvent>"
        '<serviceTask id="charge"/><exclusiveGateway id="both"/><receiveTask id="never"/>'
        '<endEvent id="end"><terminateEventDefinition/>'
        '<signalEventDefinition signalRef="crash bell"/></endEvent>'
        + boundary(
            "heard", "sub", '<escalationEventDefinition escalationRef="E2"/>', interrupting=False
        )
        + flows(
            "s first",
            "s large",
            "s never",
            "first late",
            "first r",
            "late go",
            "there sub",
            "heard pack",
            "sub x",
            "large charge",
            "charge both",
            "both end",
        )
    ),
    "loop and call": (
        '<startEvent id="s"/><serviceTask id="pack">'
        '<multiInstanceLoopCharacteristics isSequential="true">'
        "<loopCardinality>2</loopCardinality></multiInstanceLoopCharacteristics></serviceTask>"
        '<callActivity id="call" calledElement="crash_models.double"><extensionElements>'
        '<camunda:in source="amount" target="amount"/>'
        '<camunda:out source="doubled" target="twice"/>'
        "</extensionElements></callActivity>" + flows("s pack", "pack call")
    ),
}


NAMES = '<message id="m" name="crash paid"/><signal id="g" name="crash alarm"/>'
MESSAGES = (
    '<startEvent id="s"/><userTask id="u"/><receiveTask id="r" messageRef="m"/>'
    '<serviceTask id="pay"/><intermediateCatchEvent id="hear">'
    '<signalEventDefinition signalRef="g"/></intermediateCatchEvent>'
    '<intermediateThrowEvent id="tell"><messageEventDefinition messageRef="m"/>'
    '</intermediateThrowEvent><endEvent id="shout"><signalEventDefinition signalRef="g"/>'
    "</endEvent>" + flows("s r", "s hear", "s pay", "s u", "u tell", "tell shout")
)


def broken_until_fixed(fixed=False, **variables):
    if not fixed:
        raise ValueError("no route to bank")
    return {"paid": True}


def operate(lab, gate):
    """Set a variable and retry the incident, then complete the task."""
    facts = {"verb": "set_variables", "variables": {"fixed": True}, "element": None}
    op = InstructRun(run_id=gate.run, payload=json.dumps(facts).encode(), by="ann")
    internals(lab.engine).writer.call(op)
    for incident in lab.engine.models.incidents():
        lab.engine.models.retry(incident.id, by="ann")
    completes(lab, gate)


def test_messages_signals_incidents_and_instructions_count_once(crashing):
    """The run receives its own message and its own signal, and an operator mends its incident."""
    definition = definition_of(MESSAGES, {"pay": broken_until_fixed}, more=NAMES)

    def mended(lab):
        assert lab.engine.models.incidents() == []

    report = crashing(definition, {}, people=[operate], check=mended)

    assert report.boundaries >= 3


ROOM = (
    '<startEvent id="s"/><userTask id="u"/><adHocSubProcess id="room"><serviceTask id="pack"/>'
    "<completionCondition>${packed}</completionCondition></adHocSubProcess>"
    '<serviceTask id="send" camunda:type="external" camunda:topic="crash send"/>'
    '<userTask id="v"/>' + flows("s u", "s room", "room send", "room v")
)


def starts_the_activity(lab, gate):
    """Start the activity of the ad hoc sub-process, and complete the user task beside it."""
    facts = {"verb": "start_activity", "scope": "room", "activity": "pack"}
    op = InstructRun(run_id=gate.run, payload=json.dumps(facts).encode(), by="ann")
    internals(lab.engine).writer.call(op)
    completes(lab, gate)


def does_external_work(lab, gate):
    """Complete the external task, and the user task that was opened with it."""
    with lab.engine.tasks.worker("w1", topics=["crash send"], ttl="1m") as worker:
        while lab.engine.runs(workflow="crash send", live=True).count():
            for lease in worker.claim():
                with suppress(LeaseLost):
                    lease.complete({"sent": True})
            lab.advance("2m")  # then the lock of a worker that has crashed has expired
    completes(lab, gate)


def test_an_ad_hoc_activity_and_an_external_task_come_to_the_same_end(crashing):
    def sent(lab):
        kinds = [event.kind for event in lab.engine.run("crash-test").history()]
        assert kinds.count("child_ended") == 1

    report = crashing(
        definition_of(ROOM, HANDLERS),
        {"packed": False},
        people=[starts_the_activity, does_external_work],
        setup=world.clear,
        check=sent,
        zombies=False,  # the worker of the external task may lease it again
    )

    assert report.boundaries >= 3


def definition_of(body, handlers, saga=None, more=""):
    """Return a process as a definition, without a deployment."""
    xml = process_of(body, "crash_models", more).decode()
    model = load_model(xml, lambda name: name in handlers)
    content = ProcessContent(process="crash_models", xml=xml, saga=saga, records_elements=True)
    binder = HandlerBinder("crash_models", handlers)
    return ModelDefinition(content, model, "1", binder, lambda name, version: None)


def completes(lab, gate):
    lab.engine.gates.approve(gate.id, by="ann", form={"by": "ann"})


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_comes_to_the_same_end(crashing, kind):
    people = [completes, completes] if "userTask" in MODELS[kind] else []

    ends: set[tuple[tuple[str, str], ...]] = set()

    def note(lab):
        """Note the elements that the history has, each visit as one event."""
        events = lab.engine.run("crash-test").history()
        visits = [event for event in events if event.kind.startswith("element_")]
        ends.add(tuple(sorted((event.kind, event.data["element"]) for event in visits)))

    report = crashing(
        definition_of(MODELS[kind], HANDLERS),
        {"amount": 3},
        people=people,
        setup=world.clear,
        check=note,
    )

    assert report.boundaries >= 2
    assert len(ends) == 1, ends


def test_a_saga_undoes_everything_and_then_fails(crashing):
    handlers = {**HANDLERS, "pack": counted("pack", raises=ValueError("no box"))}
    body = '<startEvent id="s"/><serviceTask id="charge"/><serviceTask id="pack"/>' + UNDONE
    saga = definition_of(body + flows("s charge", "charge pack"), handlers, saga="instance")

    crashing(saga, {"amount": 3}, setup=world.clear, check=lambda lab: world["refund"] or 1 / 0)
