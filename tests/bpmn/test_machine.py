"""Rules of the token machine, each with a small model."""

import pytest

from tests.bpmn.models import boundary, compensation, error, flows, process_of, timer
from tests.bpmn.pure_world import PureWorld


def world_of(body, handlers=None, more="", saga=None):
    world = PureWorld([process_of(body, more=more)], handlers or {})
    assert not world.refused
    world.saga = saga
    return world


def failing(**variables):
    raise ValueError("no")


def opened(world):
    return sorted(task.element for task in world.open_tasks())


def complete(world, element, variables=None):
    task = next(task for task in world.open_tasks() if task.element == element)
    world.complete(task, variables or {})


def incidents(world):
    return [
        wait
        for _, state in world.live()
        for wait in state.waits.values()
        if wait.kind == "incident"
    ]


def test_a_parallel_join_takes_one_token_of_each_flow():
    world = world_of(
        '<startEvent id="s"/><userTask id="a"/><userTask id="b"/><exclusiveGateway id="x"/>'
        '<parallelGateway id="join"/><userTask id="after"/>'
        + flows("s a", "s a", "s b", "a x", "x join", "b join", "join after")
    )
    world.start("p", {})

    complete(world, "a")
    complete(world, "a")
    assert opened(world) == ["b"]

    complete(world, "b")
    assert opened(world) == ["after"]


def test_a_join_that_can_never_fire_is_an_incident_that_names_the_flow():
    world = world_of(
        '<startEvent id="s"/><exclusiveGateway id="x" default="f3"/><parallelGateway id="join"/>'
        '<task id="a"/><task id="b"/>' + flows("s x", "x a ${go}", "x b", "a join", "b join")
    )

    run = world.start("p", {"go": True})

    (incident,) = incidents(world)
    assert incident.node == "join" and "f5" in incident.data["error"]["message"]
    assert not world.ended(run)
    world.instances[run].machine.answer(incident.id, "skip")
    assert world.ended(run)


def test_results_of_a_loop_are_collected_by_item_not_by_completion():
    world = world_of(
        '<startEvent id="s"/><userTask id="t"><multiInstanceLoopCharacteristics>'
        "<extensionElements><zeebe:loopCharacteristics"
        ' inputCollection="=items" inputElement="item" outputCollection="results"'
        ' outputElement="=item * factor"/></extensionElements>'
        "</multiInstanceLoopCharacteristics></userTask>" + flows("s t")
    )
    run = world.start("p", {"items": [1, 2, 3], "factor": 10})

    tasks = world.open_tasks()
    for task in reversed(tasks):
        world.complete(task, {})

    assert world.variables(run)["results"] == [10, 20, 30]
    assert "item" not in world.variables(run)


def test_ten_thousand_instances_and_turns_need_no_stack():
    world = world_of(
        '<startEvent id="s"/><task id="t"><multiInstanceLoopCharacteristics isSequential="true">'
        "<loopCardinality>10000</loopCardinality></multiInstanceLoopCharacteristics></task>"
        + flows("s t")
    )

    run = world.start("p", {})

    assert world.ended(run) and world.completed(run)["t"] == 10_000


def test_a_cycle_fires_as_often_as_it_says_and_its_tokens_outlive_the_task():
    world = world_of(
        '<startEvent id="s"/><userTask id="t"/><userTask id="remind"/>'
        + boundary("b", "t", timer("timeCycle", "R3/PT1H"), interrupting=False)
        + flows("s t", "b remind")
    )
    run = world.start("p", {})

    world.advance("PT10H")
    assert opened(world) == ["remind", "remind", "remind", "t"]

    complete(world, "t")
    assert opened(world) == ["remind"] * 3 and not world.ended(run)


def test_an_inner_handler_precedes_the_boundary_and_a_code_precedes_catch_all():
    inner = (
        '<startEvent id="is"/><endEvent id="thrown">'
        + error("E1")
        + '</endEvent><subProcess id="handler" triggeredByEvent="true"><startEvent id="hs">'
        + error("E1")
        + '</startEvent><userTask id="inside"/>'
        + '<sequenceFlow id="h1" sourceRef="hs" targetRef="inside"/></subProcess>'
        + '<sequenceFlow id="i1" sourceRef="is" targetRef="thrown"/>'
    )
    world = world_of(
        f'<startEvent id="s"/><subProcess id="sub">{inner}</subProcess><userTask id="outside"/>'
        + boundary("b", "sub", error("E1"))
        + flows("s sub", "b outside")
    )
    world.start("p", {})

    assert opened(world) == ["inside"]


def test_a_compensation_undoes_in_reverse_order_each_once():
    undone = []
    handlers = {
        "undoA": lambda **_: undone.append("a") or {},
        "undoB": lambda **_: undone.append("b") or {},
    }
    world = world_of(
        '<startEvent id="s"/><task id="a"/><task id="b"/>'
        '<serviceTask id="undoA" isForCompensation="true"/>'
        '<serviceTask id="undoB" isForCompensation="true"/>'
        '<intermediateThrowEvent id="c1"><compensateEventDefinition/></intermediateThrowEvent>'
        '<intermediateThrowEvent id="c2"><compensateEventDefinition/></intermediateThrowEvent>'
        + compensation("a", "undoA")
        + compensation("b", "undoB")
        + flows("s a", "a b", "b c1", "c1 c2"),
        handlers,
    )

    run = world.start("p", {})

    assert undone == ["b", "a"] and world.ended(run)


def test_a_failed_compensation_is_an_incident_and_the_others_continue():
    undone = []
    handlers = {"undoA": lambda **_: undone.append("a") or {}, "undoB": failing}
    world = world_of(
        '<startEvent id="s"/><task id="a"/><task id="b"/>'
        '<serviceTask id="undoA" isForCompensation="true"/>'
        '<serviceTask id="undoB" isForCompensation="true"/>'
        '<intermediateThrowEvent id="c"><compensateEventDefinition/></intermediateThrowEvent>'
        + compensation("a", "undoA")
        + compensation("b", "undoB")
        + flows("s a", "a b", "b c"),
        handlers,
    )
    run = world.start("p", {})

    (incident,) = incidents(world)
    assert (incident.node, undone, world.ended(run)) == ("undoB", ["a"], False)

    world.instances[run].machine.answer(incident.id, "skip")
    assert world.ended(run)


SAGA = (
    '<startEvent id="s"/><task id="book"/><serviceTask id="unbook" isForCompensation="true"/>'
    '<subProcess id="sub"><startEvent id="is"/><task id="pay"/>'
    '<serviceTask id="refund" isForCompensation="true"/><serviceTask id="ship"/>'
    + compensation("pay", "refund")
    + '<sequenceFlow id="i1" sourceRef="is" targetRef="pay"/>'
    + '<sequenceFlow id="i2" sourceRef="pay" targetRef="ship"/></subProcess>'
    + compensation("book", "unbook")
    + flows("s book", "book sub")
)


@pytest.mark.parametrize(
    ("saga", "undone", "status"),
    [
        (None, [], "ship"),
        ("scope", ["refund"], "sub"),
        ("instance", ["refund", "unbook"], "failed"),
    ],
)
def test_a_saga_undoes_the_scope_or_the_instance(saga, undone, status):
    calls = []
    handlers = {
        "ship": failing,
        "refund": lambda **_: calls.append("refund") or {},
        "unbook": lambda **_: calls.append("unbook") or {},
    }
    world = world_of(SAGA, handlers, saga=saga)

    run = world.start("p", {})

    assert calls == undone
    ending = world.instances[run].machine.state.ending
    if status == "failed":
        assert ending.status == "failed" and "no" in ending.error["message"]
    else:
        assert ending is None and [wait.node for wait in incidents(world)] == [status]


def test_a_condition_fires_on_each_change_from_false_to_true():
    condition = (
        "<conditionalEventDefinition><condition>${x > 1}</condition></conditionalEventDefinition>"
    )
    world = world_of(
        '<startEvent id="s"/><userTask id="t"/><userTask id="seen"/>'
        + boundary("b", "t", condition, interrupting=False)
        + flows("s t", "b seen")
    )
    run = world.start("p", {})

    for x in (0, 2, 3, 0, 5):
        world.set_variables(run, {"x": x})

    assert opened(world) == ["seen", "seen", "t"]


def test_an_ad_hoc_sub_process_runs_what_a_person_picks():
    world = world_of(
        '<startEvent id="s"/><adHocSubProcess id="room"><userTask id="a"/><userTask id="b"/>'
        "<completionCondition>${done}</completionCondition></adHocSubProcess>" + flows("s room")
    )
    run = world.start("p", {"done": False})

    world.instruct(run, "start_activity", {"scope": "room", "activity": "a"})
    world.instruct(run, "start_activity", {"scope": "room", "activity": "b"})
    assert opened(world) == ["a", "b"]

    complete(world, "a", {"done": True})
    assert world.ended(run)


def test_parallel_branches_write_only_their_own_variables():
    world = world_of(
        '<startEvent id="s"/><userTask id="a"/><userTask id="b"/>' + flows("s a", "s b")
    )
    run = world.start("p", {"x": 0, "y": 0})

    complete(world, "a", {"x": 1})
    complete(world, "b", {"y": 2})

    assert world.variables(run) == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    "declaration",
    [
        '<dataObject id="d" name="own"/>',
        '<dataObject id="d"/><dataObjectReference id="r" name="own" dataObjectRef="d"/>',
        '<property id="q" name="own"/>',
        '<property id="own"/>',
    ],
)
def test_data_of_a_sub_process_ends_with_it(declaration):
    world = world_of(
        '<startEvent id="s"/><dataObject id="outer" name="of-all"/>'
        f'<subProcess id="sub">{declaration}<startEvent id="is"/><userTask id="a"/>'
        '<dataObjectReference id="o" name="shared" dataObjectRef="outer"/>'
        '<sequenceFlow id="i" sourceRef="is" targetRef="a"/></subProcess>'
        '<userTask id="b"/>' + flows("s sub", "sub b")
    )
    world.start("p", {})

    complete(world, "a", {"own": 1, "shared": 2})
    complete(world, "b", {"more": 3})

    assert world.variables("p-1") == {"shared": 2, "more": 3}


def test_an_incident_of_a_gateway_is_retried_with_new_variables():
    world = world_of(
        '<startEvent id="s"/><exclusiveGateway id="g"/><endEvent id="yes"/><endEvent id="no"/>'
        + flows("s g", "g yes ${x == 1}", "g no ${x == 2}")
    )
    run = world.start("p", {"x": 3})
    (incident,) = incidents(world)

    world.instances[run].machine.answer(incident.id, "retry", {"x": 2})

    assert world.ended(run) and world.completed(run) == {"s": 1, "g": 1, "no": 1}
