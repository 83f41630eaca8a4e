"""How an instance begins: with which start event, and with which of its variables."""

import pytest

from holdfast import bpmn
from tests.bpmn.models import boundary, flows, process_of, timer
from tests.bpmn.test_machine import complete, opened, world_of

NAMES = '<message id="m" name="paid"/><message id="n" name="called"/><signal id="g" name="alarm"/>'
PAID = '<messageEventDefinition messageRef="m"/>'
MAPPED = (
    '<extensionElements><zeebe:ioMapping><zeebe:output source="=sum" target="total"/>'
    "</zeebe:ioMapping></extensionElements>"
)


def start_of(trigger):
    return f'<startEvent id="s">{trigger}</startEvent><userTask id="t"/>' + flows("s t")


def test_a_process_that_begins_with_a_message_alone_fails_a_plain_start_and_names_it():
    world = world_of(start_of(PAID), more=NAMES)

    run = world.start("p", {})

    ending = world.instances[run].machine.state.ending
    assert ending.status == "failed" and "message paid" in ending.error["message"]


def test_a_plain_start_uses_a_condition_that_is_true_or_the_only_timer():
    large = (
        "<conditionalEventDefinition><condition>${x > 1}</condition></conditionalEventDefinition>"
    )
    conditional = world_of(start_of(large))
    timed = world_of(start_of(timer("timeCycle", "R/PT1H")))

    low = conditional.start("p", {"x": 1})
    conditional.start("p", {"x": 2})
    timed.start("p", {})

    assert conditional.instances[low].machine.state.ending.status == "failed"
    assert opened(conditional) == ["t"] and opened(timed) == ["t"]


def test_a_receive_task_can_start_the_process():
    body = '<receiveTask id="r" messageRef="m" instantiate="true"/><userTask id="t"/>' + flows(
        "r t"
    )
    world = world_of(body, more=NAMES)

    run = world.message("paid", {"sum": 7}, None, None)

    assert opened(world) == ["t"] and world.variables(run) == {"sum": 7}
    assert world.completed(run)["r"] == 1


@pytest.mark.parametrize("name", ["paid", "called"])
def test_an_event_based_gateway_can_start_the_process(name):
    body = (
        '<eventBasedGateway id="g1" instantiate="true"/><userTask id="t"/><userTask id="u"/>'
        f'<intermediateCatchEvent id="a">{PAID}</intermediateCatchEvent>'
        '<receiveTask id="b" messageRef="n"/>' + flows("g1 a", "g1 b", "a t", "b u")
    )
    world = world_of(body, more=NAMES)

    run = world.message(name, {"sum": 7}, None, None)

    element, task, flow = {"paid": ("a", "t", "f1"), "called": ("b", "u", "f2")}[name]
    assert opened(world) == [task] and world.variables(run) == {"sum": 7}
    trace = world.instances[run].machine.state.trace
    assert trace.elements["g1"].completed == 1 and trace.elements[element].completed == 1
    assert trace.flows[0] == flow
    assert world.message("called", {}, None, None) != run


@pytest.mark.parametrize(
    "body",
    [
        '<eventBasedGateway id="g1" instantiate="true" eventGatewayType="Parallel"/>'
        f'<intermediateCatchEvent id="a">{PAID}</intermediateCatchEvent>' + flows("g1 a"),
        '<eventBasedGateway id="g1" instantiate="true"/><intermediateCatchEvent id="a">'
        + timer("timeDuration", "PT1H")
        + "</intermediateCatchEvent>"
        + flows("g1 a"),
        '<startEvent id="s"/><receiveTask id="r" messageRef="m" instantiate="true"/>'
        + flows("s r"),
        '<receiveTask id="r" instantiate="true"/>',
    ],
)
def test_a_start_that_cannot_be_is_refused(body):
    problems = bpmn.load(process_of(body, more=NAMES)).problems

    assert any(problem.severity == "error" for problem in problems)


def test_the_output_mapping_of_an_event_is_what_becomes_of_its_message():
    inner = f'<startEvent id="hs">{PAID}{MAPPED}</startEvent><task id="ht"/>'
    body = (
        '<startEvent id="s"/><userTask id="u"/><userTask id="t"/>'
        + boundary("b", "u", PAID + MAPPED)
        + flows("s u", "b t")
    )
    handler = (
        '<startEvent id="s"/><userTask id="u"/><subProcess id="h" triggeredByEvent="true">'
        + inner
        + "</subProcess>"
        + flows("s u")
    )
    for model in (body, handler, start_of(PAID + MAPPED)):
        world = world_of(model, more=NAMES)
        run = world.start("p", {}) if "attachedToRef" in model or "hs" in model else None

        reached = world.message("paid", {"sum": 7, "more": 8}, None, None)

        assert world.variables(run or reached) == {"total": 7}


def test_an_output_mapping_that_cannot_be_evaluated_is_an_incident_of_the_event():
    body = (
        '<startEvent id="s"/><userTask id="u"/><userTask id="t"/>'
        + boundary("b", "u", PAID + MAPPED.replace("=sum", "${sum.missing.deep}"))
        + flows("s u", "b t")
    )
    world = world_of(body, more=NAMES)
    run = world.start("p", {})

    world.message("paid", {"other": 7}, None, None)

    state = world.instances[run].machine.state
    (incident,) = [wait for wait in state.waits.values() if wait.kind == "incident"]
    assert incident.node == "b"
    world.instances[run].machine.answer(incident.id, "retry", {"sum": {"missing": {"deep": 1}}})
    assert world.variables(run)["total"] == 1
    complete(world, "t")
    assert world.ended(run)


@pytest.mark.parametrize("action", ["retry", "skip"])
@pytest.mark.parametrize("is_inner", [False, True])
def test_an_event_subprocess_that_cannot_be_armed_is_an_incident_of_its_own(action, is_inner):
    late = timer("timeDuration", "${wait}")
    body = (
        '<startEvent id="s"/><userTask id="u"/><subProcess id="h" triggeredByEvent="true">'
        f'<startEvent id="hs">{late}</startEvent><userTask id="t"/>'
        '<sequenceFlow id="i" sourceRef="hs" targetRef="t"/></subProcess>' + flows("s u")
    )
    if is_inner:
        body = f'<startEvent id="o"/><subProcess id="sub">{body}</subProcess>' + (
            '<sequenceFlow id="of" sourceRef="o" targetRef="sub"/>'
        )
    world = world_of(body)
    run = world.start("p", {})
    state = world.instances[run].machine.state
    (incident,) = [wait for wait in state.waits.values() if wait.kind == "incident"]
    assert incident.node == "h" and opened(world) == ["u"]

    world.instances[run].machine.answer(incident.id, action, {"wait": "PT1H"})
    world.settle()
    world.advance("PT2H")

    assert opened(world) == (["t"] if action == "retry" else ["u"])
    complete(world, opened(world)[0])
    assert world.ended(run)
