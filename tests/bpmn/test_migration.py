"""Migration of instances to another version of their process, in the token machine alone."""

import pytest

from holdfast.authoring.bpmn.token_machine.migration import (
    ProcessVersion,
    continue_migrated,
    plan_migration,
)
from holdfast.authoring.bpmn.token_machine.snapshot import snapshot_of
from tests.bpmn.models import boundary, compensation, flows, process_of, timer
from tests.bpmn.pure_world import PureWorld
from tests.bpmn.test_machine import complete, incidents, opened, world_of

TIMER = timer("timeDuration", "PT1H")
CONDITION = "<conditionalEventDefinition><condition>${%s}</condition></conditionalEventDefinition>"


def version_of(body, handlers=None, more=""):
    world = PureWorld([process_of(body, more=more)], handlers or {})
    assert not world.refused
    return ProcessVersion(version="2", graph=world.graphs["p"], bind=world.binders["p"])


def migrate(world, body, mapping=None, handlers=None, more=""):
    """Migrate the only instance; return the plan."""
    (instance,) = world.instances.values()
    version = version_of(body, {**world.handlers, **(handlers or {})}, more)
    before = snapshot_of(instance.machine.state, {})
    plan, state = plan_migration(instance.machine.state, version, mapping or {})
    assert snapshot_of(instance.machine.state, {}) == before
    if state is not None:
        instance.machine.state = state
        continue_migrated(instance.machine)
        world.settle()
    return plan


def state_of(world):
    return next(iter(world.instances.values())).machine.state


def armed(world):
    return sorted(wait.node for wait in state_of(world).waits.values() if wait.role != "own")


def tasks(*ids):
    return '<startEvent id="s"/>' + "".join(f'<userTask id="{id}"/>' for id in ids)


def started(body, variables=None, **options):
    world = world_of(body, **options)
    world.start("p", variables or {})
    return world


def test_a_token_moves_to_the_element_that_the_mapping_names():
    world = started(tasks("a") + flows("s a"))

    plan = migrate(world, tasks("b", "c") + flows("s b", "b c"), {"a": "b"})

    assert plan.moved == [str(id) for id in state_of(world).tokens]
    complete(world, "b")
    assert opened(world) == ["c"]


def test_every_token_that_cannot_move_is_named_with_its_reason():
    world = started(tasks("a", "b", "c", "d") + flows("s a", "s b", "s c", "s d"))
    other = (
        '<startEvent id="s"/><serviceTask id="a"/><subProcess id="sub"><userTask id="b"/>'
        '</subProcess><userTask id="c"><multiInstanceLoopCharacteristics><loopCardinality>2'
        '</loopCardinality></multiInstanceLoopCharacteristics></userTask><userTask id="d"/>'
    )

    plan = migrate(world, other + flows("s a", "s sub", "s c", "s d"), handlers={"a": lambda: None})

    assert plan.moved == []
    reasons = {state_of(world).tokens[int(id)].node: why for id, why in plan.refused.items()}
    assert sorted(reasons) == ["a", "b", "c"]
    assert "a is a userTask, and a of the other version is a serviceTask" in reasons["a"]
    assert "inside sub" in reasons["b"]
    assert "parallel multi-instance" in reasons["c"]


def test_a_mapping_is_checked_line_by_line():
    world = started(tasks("a") + flows("s a"))
    body = tasks("a") + flows("s a")

    plan = migrate(world, body, {"x": "a", "a": "nowhere", "s": "a"})

    assert len(plan.problems) == 3 and plan.moved == []


def test_boundary_events_stay_as_they_are_armed_and_others_come_and_go():
    world = started(
        tasks("a", "x")
        + boundary("kept", "a", TIMER)
        + boundary("gone", "a", TIMER)
        + boundary("fired", "a", TIMER, interrupting=False)
        + flows("s a", "kept x", "gone x", "fired x")
    )
    world.advance("PT30M")
    due = {
        wait.node: wait.data["at"] for wait in state_of(world).waits.values() if "at" in wait.data
    }
    other = (
        tasks("a", "x")
        + boundary("kept", "a", timer("timeDuration", "PT9H"))
        + boundary("fired", "a", TIMER, interrupting=False)
        + boundary("new", "a", TIMER)
        + flows("s a", "kept x", "fired x", "new x")
    )

    migrate(world, other)

    waits = {wait.node: wait for wait in state_of(world).waits.values() if wait.role == "boundary"}
    assert sorted(waits) == ["fired", "kept", "new"]
    assert waits["kept"].data["at"] == due["kept"]
    assert waits["new"].data["at"] == state_of(world).now + 3_600_000_000


def test_an_event_that_has_fired_is_not_armed_again():
    body = (
        tasks("a", "x") + boundary("late", "a", TIMER, interrupting=False) + flows("s a", "late x")
    )
    world = started(body)
    world.advance("PT1H")
    assert opened(world) == ["a", "x"]

    migrate(world, body)

    assert armed(world) == []


def test_a_gateway_waits_for_the_events_of_the_other_version():
    def events(*ids):
        gateway = '<startEvent id="s"/><eventBasedGateway id="g"/>'
        catches = "".join(
            f'<intermediateCatchEvent id="{id}">{TIMER}</intermediateCatchEvent>' for id in ids
        )
        return gateway + catches + flows("s g", *(f"g {id}" for id in ids))

    world = started(events("e1", "e2"))

    migrate(world, events("e2", "e3"))

    assert armed(world) == ["e2", "e3"]


def test_event_sub_processes_are_armed_and_disarmed():
    def body(*ids):
        return (
            tasks("a")
            + flows("s a")
            + "".join(
                f'<subProcess id="{id}" triggeredByEvent="true"><startEvent id="{id}-s">{TIMER}'
                "</startEvent></subProcess>"
                for id in ids
            )
        )

    world = started(body("h1", "h2"))

    migrate(world, body("h2", "h3"))

    assert armed(world) == ["h2", "h3"]


def test_a_join_that_is_full_in_the_other_version_fires():
    def body(*branches):
        return (
            tasks(*branches, "after")
            + '<parallelGateway id="join"/>'
            + "".join(
                f'<sequenceFlow id="in-{id}" sourceRef="s" targetRef="{id}"/>'
                f'<sequenceFlow id="out-{id}" sourceRef="{id}" targetRef="join"/>'
                for id in branches
            )
            + flows("join after")
        )

    world = started(body("a", "b", "c"))
    complete(world, "a")
    complete(world, "b")

    refused = migrate(world, body("a", "c", "d"))
    assert "no flow out-b" in next(iter(refused.refused.values()))

    (token,) = [token for token in state_of(world).tokens.values() if token.node == "c"]
    world.instruct("p-1", "modify", {"moves": [{"kind": "cancel", "token": token.id}]})
    migrate(world, body("a", "b"))

    assert opened(world) == ["after"]


def test_a_sub_process_moves_with_its_scope_and_variables():
    def body(sub, task):
        return (
            f'<startEvent id="s"/><subProcess id="{sub}"><startEvent id="is"/>'
            f'<userTask id="{task}"/><sequenceFlow id="i" sourceRef="is" targetRef="{task}"/>'
            '<dataObject id="d" name="own"/></subProcess>' + flows(f"s {sub}")
        )

    world = started(body("one", "a"))

    migrate(world, body("two", "b"), {"one": "two", "a": "b"})

    assert [scope.spec for scope in state_of(world).scopes.values()] == ["p", "two"]
    complete(world, "b", {"own": 1})
    assert world.ended("p-1")
    assert world.variables("p-1") == {}


def test_instances_of_a_loop_move_together():
    def body(id):
        return (
            f'<startEvent id="s"/><userTask id="{id}"><multiInstanceLoopCharacteristics>'
            "<loopCardinality>3</loopCardinality></multiInstanceLoopCharacteristics></userTask>"
            + flows(f"s {id}")
        )

    world = started(body("a"))
    complete(world, "a")

    migrate(world, body("b"), {"a": "b"})

    assert opened(world) == ["b", "b"]
    complete(world, "b")
    complete(world, "b")
    assert world.ended("p-1")


def test_completed_work_is_undone_by_the_handler_of_the_other_version():
    calls = []
    handlers = {
        "charge": lambda: {},
        "refund": lambda: calls.append("refund") or {},
        "reverse": lambda: calls.append("reverse") or {},
    }

    def body(handler):
        undone = ""
        if handler:
            undone = f'<serviceTask id="{handler}" isForCompensation="true"/>'
            undone += compensation("charge", handler)
        return (
            '<startEvent id="s"/><serviceTask id="charge"/><userTask id="a"/>'
            '<endEvent id="c"><compensateEventDefinition/></endEvent>'
            + undone
            + flows("s charge", "charge a", "a c")
        )

    world = started(body("refund"), handlers=handlers)

    refused = migrate(world, body(None))
    assert "cannot compensate it" in refused.refused["charge"]

    migrate(world, body("reverse"))
    complete(world, "a")
    assert calls == ["reverse"]
    assert world.ended("p-1")


def test_a_condition_of_the_other_version_is_evaluated_at_once():
    def body(condition):
        catch = f'<intermediateCatchEvent id="c">{CONDITION % condition}</intermediateCatchEvent>'
        return tasks("after") + catch + flows("s c", "c after")

    world = started(body("x > 9"), {"x": 5})
    assert opened(world) == []

    migrate(world, body("x > 4"))

    assert opened(world) == ["after"]


def test_an_incident_stays_and_a_retry_tries_the_new_element():
    def broken():
        raise ValueError("no")

    world = started(
        '<startEvent id="s"/><serviceTask id="a"/>' + flows("s a"), handlers={"a": broken}
    )
    (incident,) = incidents(world)

    migrate(
        world,
        '<startEvent id="s"/><serviceTask id="b"/>' + flows("s b"),
        {"a": "b"},
        handlers={"b": lambda: {"done": True}},
    )

    (kept,) = incidents(world)
    assert (kept.id, kept.data["element"]) == (incident.id, "b")
    world.instances["p-1"].machine.answer(kept.id, "retry")
    world.settle()
    assert world.variables("p-1") == {"done": True}


@pytest.mark.parametrize("before, after", [("", 'messageRef="m"'), ('messageRef="m"', "")])
def test_a_receive_task_waits_as_the_other_version_says(before, after):
    def body(message):
        return f'<startEvent id="s"/><receiveTask id="r" {message}/>' + flows("s r")

    more = '<message id="m" name="paid"/>'
    world = started(body(before), more=more)

    migrate(world, body(after), more=more)

    (wait,) = state_of(world).waits.values()
    assert wait.kind == ("message" if after else "trigger")


def test_an_event_that_cannot_be_armed_refuses_the_migration():
    world = started(tasks("a") + flows("s a"))
    late = boundary("late", "a", timer("timeDuration", "${unknown}"))

    plan = migrate(world, tasks("a") + late + flows("s a"))

    assert "cannot be armed" in next(iter(plan.refused.values()))
