"""Events with several triggers: any of them, or all of them; throwing several events at once."""

import pytest

from holdfast import bpmn
from tests.bpmn.models import boundary, compensation, error, flows, process_of, timer
from tests.bpmn.pure_world import PureWorld
from tests.bpmn.test_machine import complete, incidents, opened, world_of

NAMES = (
    '<message id="m" name="paid"/><message id="n" name="called"/><signal id="g" name="alarm"/>'
    '<escalation id="e" escalationCode="up"/>'
)
PAID = '<messageEventDefinition messageRef="m"/>'
CALLED = '<messageEventDefinition messageRef="n"/>'
ALARM = '<signalEventDefinition signalRef="g"/>'
HOUR = timer("timeDuration", "PT1H")
LARGE = "<conditionalEventDefinition><condition>${x > 1}</condition></conditionalEventDefinition>"
CATCH = '<startEvent id="s"/><intermediateCatchEvent id="c"{}>{}</intermediateCatchEvent>'
ALL = ' parallelMultiple="true"'


def world(body):
    return world_of(body, more=NAMES)


def happens(world, run, trigger):
    if trigger == "paid":
        world.message("paid", {"sum": 7}, None, None)
    elif trigger == "alarm":
        world.signal("alarm", {"loud": True})
    elif trigger == "hour":
        world.advance("PT1H")
    else:
        world.set_variables(run, {"x": 2})


@pytest.mark.parametrize("trigger", ["paid", "alarm", "hour", "large"])
def test_the_first_of_several_triggers_ends_the_wait_for_the_others(trigger):
    w = world(
        CATCH.format("", PAID + ALARM + HOUR + LARGE) + '<userTask id="t"/>' + flows("s c", "c t")
    )
    run = w.start("p", {})
    (token,) = w.instances[run].machine.state.tokens.values()
    assert token.until == w.now + 3600_000_000

    happens(w, run, trigger)

    assert opened(w) == ["t"]
    assert [wait.kind for wait in w.instances[run].machine.state.waits.values()] == ["user"]


def test_an_event_that_needs_all_waits_for_the_last_and_keeps_what_came_before():
    w = world(CATCH.format(ALL, PAID + ALARM + HOUR) + '<userTask id="t"/>' + flows("s c", "c t"))
    run = w.start("p", {})

    happens(w, run, "hour")
    happens(w, run, "paid")
    (token,) = w.instances[run].machine.state.tokens.values()
    assert opened(w) == [] and token.waits_for == "signal" and token.until is None

    happens(w, run, "alarm")
    assert opened(w) == ["t"]
    assert w.variables(run) == {"sum": 7, "loud": True}


def test_an_interrupting_boundary_event_ends_its_task_with_any_of_its_triggers():
    w = world(
        '<startEvent id="s"/><userTask id="u"/><userTask id="t"/>'
        + boundary("b", "u", PAID + ALARM)
        + flows("s u", "b t")
    )
    run = w.start("p", {})

    happens(w, run, "alarm")

    assert opened(w) == ["t"] and w.variables(run) == {"loud": True}
    assert w.message("paid", {}, None, None) is None


def test_an_event_that_does_not_interrupt_fires_with_each_trigger_again_and_again():
    w = world(
        '<startEvent id="s"/><userTask id="u"/><userTask id="t"/>'
        + boundary("b", "u", PAID + HOUR, interrupting=False)
        + flows("s u", "b t")
    )
    run = w.start("p", {})

    for trigger in ("paid", "hour", "paid"):
        happens(w, run, trigger)
    w.advance("PT5H")

    assert opened(w) == ["t", "t", "t", "u"]  # the time comes once


def test_an_event_that_needs_all_and_does_not_interrupt_waits_for_all_again():
    w = world(
        '<startEvent id="s"/><userTask id="u"/><userTask id="t"/>'
        + boundary("b", "u", PAID + ALARM, interrupting=False).replace(" id", f"{ALL} id", 1)
        + flows("s u", "b t")
    )
    run = w.start("p", {})

    for trigger in ("paid", "alarm", "alarm", "alarm"):
        happens(w, run, trigger)
    assert opened(w) == ["t", "u"]

    happens(w, run, "paid")
    assert opened(w) == ["t", "t", "u"]


def test_an_error_ends_the_task_although_the_event_does_not_interrupt_otherwise():
    w = world(
        '<startEvent id="s"/><subProcess id="sub"><startEvent id="is"/><userTask id="u"/>'
        '<endEvent id="ie">' + error("E1") + '</endEvent><sequenceFlow id="i1" sourceRef="is"'
        ' targetRef="u"/><sequenceFlow id="i2" sourceRef="u" targetRef="ie"/></subProcess>'
        '<userTask id="t"/>'
        + boundary("b", "sub", ALARM + error("E1"), interrupting=False)
        + flows("s sub", "b t")
    )
    run = w.start("p", {})

    happens(w, run, "alarm")
    assert opened(w) == ["t", "u"]

    complete(w, "u")
    assert opened(w) == ["t", "t"] and not incidents(w)


@pytest.mark.parametrize(("needs", "after"), [("", ["t"]), (ALL, ["u"])])
def test_the_start_of_an_event_subprocess_may_have_several_triggers(needs, after):
    w = world(
        '<startEvent id="s"/><userTask id="u"/><subProcess id="h" triggeredByEvent="true">'
        f'<startEvent id="hs"{needs}>{PAID}{LARGE}</startEvent><userTask id="t"/>'
        '<sequenceFlow id="i" sourceRef="hs" targetRef="t"/></subProcess>' + flows("s u")
    )
    run = w.start("p", {})

    happens(w, run, "large")
    assert opened(w) == after

    happens(w, run, "paid")
    assert opened(w) == ["t"]


def test_an_event_after_a_gateway_may_have_several_triggers():
    w = world(
        '<startEvent id="s"/><eventBasedGateway id="g1"/><intermediateCatchEvent id="a">'
        f'{PAID}{ALARM}</intermediateCatchEvent><intermediateCatchEvent id="b">{HOUR}'
        '</intermediateCatchEvent><userTask id="t"/>' + flows("s g1", "g1 a", "g1 b", "a t", "b t")
    )
    run = w.start("p", {})

    happens(w, run, "alarm")

    assert opened(w) == ["t"] and w.completed(run)["a"] == 1
    assert not any(wait.kind == "timer" for wait in w.instances[run].machine.state.waits.values())


@pytest.mark.parametrize("trigger", ["paid", "alarm"])
def test_each_trigger_of_a_start_event_starts_the_process(trigger):
    body = f'<startEvent id="s">{PAID}{ALARM}</startEvent><userTask id="t"/>' + flows("s t")
    w = world(body)

    happens(w, None, trigger)

    assert opened(w) == ["t"] and len(w.instances) == 1


def test_a_throwing_event_throws_all_of_its_events_and_ends_its_scope_last():
    w = world(
        '<startEvent id="s"/><parallelGateway id="fork"/><task id="done"/>'
        f'<intermediateCatchEvent id="c1">{PAID}</intermediateCatchEvent><task id="a1"/>'
        f'<intermediateCatchEvent id="c2">{CALLED}</intermediateCatchEvent><task id="a2"/>'
        f'<intermediateCatchEvent id="c3">{ALARM}</intermediateCatchEvent><userTask id="a3"/>'
        '<userTask id="u"/><userTask id="undo" isForCompensation="true"/>'
        + compensation("done", "undo")
        + f'<endEvent id="end"><terminateEventDefinition/>{PAID}{CALLED}{ALARM}'
        "<compensateEventDefinition/></endEvent>"
        + flows("s done", "done fork", "fork c1", "fork c2", "fork c3", "fork u", "u end")
        + '<sequenceFlow id="x1" sourceRef="c1" targetRef="a1"/>'
        '<sequenceFlow id="x2" sourceRef="c2" targetRef="a2"/>'
        '<sequenceFlow id="x3" sourceRef="c3" targetRef="a3"/>'
    )
    run = w.start("p", {})

    complete(w, "u")
    done = w.completed(run)
    assert (done["c1"], done["c2"], done["c3"], done["a1"], done["a2"]) == (1, 1, 1, 1, 1)
    assert opened(w) == ["a3", "undo"] and not w.ended(run)

    complete(w, "undo")
    assert w.ended(run) and w.completed(run).get("a3", 0) == 0


def test_an_error_that_no_event_catches_is_thrown_again_without_its_message():
    w = world(
        f'<startEvent id="s"/><endEvent id="end">{error("E1")}{PAID}</endEvent><userTask id="u"/>'
        f'<intermediateCatchEvent id="a">{PAID}</intermediateCatchEvent>'
        f'<intermediateCatchEvent id="b">{PAID}</intermediateCatchEvent>'
        + flows("s a", "a b", "s u", "u end")
    )
    run = w.start("p", {})
    complete(w, "u")
    (incident,) = incidents(w)
    assert w.completed(run)["a"] == 1

    w.instances[run].machine.answer(incident.id, "retry")
    w.settle()

    assert len(incidents(w)) == 1 and w.completed(run).get("b", 0) == 0


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (CATCH.format(ALL, PAID + '<linkEventDefinition name="l"/>'), "bad-event"),
        (boundary("b", "u", PAID + error("E1")).replace(" id", f"{ALL} id", 1), "bad-event"),
        (f'<startEvent id="z"{ALL}>{PAID}{ALARM}</startEvent>', "unsupported"),
        (f'<endEvent id="z">{error("E1")}<terminateEventDefinition/></endEvent>', "bad-event"),
        (CATCH.format("", PAID + "<messageEventDefinition/>"), "no-message"),
        (CATCH.format("", PAID + timer("timeDuration", "PT")), "bad-time"),
    ],
)
def test_triggers_that_do_not_go_together_are_refused(event, code):
    body = event if "startEvent" in event else f'<startEvent id="s"/>{event}'
    text = process_of(f'{body}<userTask id="u"/>', more=NAMES)

    assert PureWorld([text], {}).refused
    assert code in [problem.code for problem in bpmn.load(text).problems]
