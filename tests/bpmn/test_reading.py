"""The reader finds what an independent reader finds, and takes any valid file."""

import pytest

from holdfast.authoring.bpmn.model import NODES
from holdfast.authoring.bpmn.reading import read_model
from tests.bpmn.cases import CASES, needs_cases, reading

BPMN = 'xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL"'


def model_of(body, root=BPMN, head=""):
    return read_model(f"{head}<definitions {root}>{body}</definitions>".encode())


@needs_cases
@pytest.mark.parametrize("file", sorted(reading()))
def test_a_file_is_read_as_an_independent_reader_reads_it(file):
    expected = reading()[file]

    model = read_model((CASES / file).read_bytes())

    assert [process.id for process in model.processes] == expected["processes"]
    elements = [
        element
        for element in model.elements.values()
        if element.tag in NODES or element.tag == "sequenceFlow"
    ]
    ours = {element.id: facts_of(element) for element in elements if element.has_id}
    theirs = {id: without_defaults(facts) for id, facts in expected["elements"] if id is not None}
    # the other reader gives up on an id with a blank, and on references with a prefix
    assert theirs.keys() <= ours.keys() and len(ours) - len(theirs) <= 1
    assert {id: trimmed(ours[id], theirs[id]) for id in theirs} == theirs
    assert anonymous(elements) == [
        [facts["sourceRef"], facts["targetRef"]] for id, facts in expected["elements"] if id is None
    ]


def anonymous(elements):
    return [[element.source, element.target] for element in elements if not element.has_id]


def without_defaults(facts):
    return {name: value for name, value in facts.items() if value is not False or name in STATED}


STATED = ("cancelActivity", "isInterrupting")


def trimmed(ours, theirs):
    """Return our facts without the references that the other reader could not resolve."""
    if not any(event.keys() == {"event"} for event in theirs.get("events", ())):
        return ours
    return {**ours, "events": [{"event": event["event"]} for event in ours["events"]]}


def facts_of(element):
    facts = {
        "kind": element.tag,
        "parent": element.parent,
        "name": element.name,
        "sourceRef": element.source,
        "targetRef": element.target,
        "condition": element.condition and element.condition.text,
        "default": element.default,
        "attachedToRef": element.attached_to,
        "triggeredByEvent": element.is_event_subprocess or None,
        "isForCompensation": element.is_for_compensation or None,
        "calledElement": element.called,
        "messageRef": element.message_ref,
        "events": [event_of(event) for event in element.events] or None,
        "loop": element.loop and loop_of(element.loop),
    }
    if element.states_interrupting:
        name = "cancelActivity" if element.tag == "boundaryEvent" else "isInterrupting"
        facts[name] = element.interrupting
    return {name: value for name, value in facts.items() if value is not None}


def event_of(event):
    facts = {"event": event.event, "activity": event.activity}
    if event.ref and event.is_declared:
        facts |= {"ref": event.ref, "name": event.name, "code": event.code}
    if event.expression:
        facts[event.timer or "condition"] = event.expression.text
    return {name: value for name, value in facts.items() if value is not None}


def loop_of(loop):
    facts = {
        "kind": loop.kind,
        "cardinality": loop.cardinality and loop.cardinality.text,
        "completion": loop.completion and loop.completion.text,
    }
    return {name: value for name, value in facts.items() if value is not None}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "cp1252", "shift_jis"])
def test_a_file_may_have_any_encoding(encoding):
    name = "テスト" if encoding == "shift_jis" else "Prüfung"
    text = f'<?xml version="1.0" encoding="{encoding}"?>'
    text += f'<definitions {BPMN}><process id="p"><task id="t" name="{name}"/></process>'
    text += "</definitions>"

    model = read_model(text.encode(encoding))

    assert model.elements["t"].name == name


def test_any_prefix_names_the_same_elements():
    root = 'xmlns:x="http://www.omg.org/spec/BPMN/20100524/MODEL"'
    text = (
        f'<x:definitions {root}><x:process id="p"><x:userTask id="u"/></x:process></x:definitions>'
    )

    assert read_model(text.encode()).elements["u"].kind == "userTask"


def test_elements_are_counted_under_their_labels():
    model = model_of(
        """<process id="p">
        <startEvent id="s"/>
        <subProcess id="e" triggeredByEvent="true">
          <startEvent id="es" isInterrupting="false"><messageEventDefinition/></startEvent>
        </subProcess>
        <userTask id="u" default="f">
          <multiInstanceLoopCharacteristics isSequential="true"/>
        </userTask>
        <boundaryEvent id="b" attachedToRef="u">
          <timerEventDefinition><timeDuration>PT1H</timeDuration></timerEventDefinition>
        </boundaryEvent>
        <exclusiveGateway id="g" default="f"/>
        <sequenceFlow sourceRef="s" targetRef="u"/>
        </process>"""
    )

    assert model.counts == {
        "process": 1,
        "startEvent:none": 1,
        "subProcess": 1,
        "eventSubProcess": 1,
        "eventSubProcessStart(non-interrupting):message": 1,
        "userTask": 1,
        "task@default": 1,
        "multiInstance(sequential)": 1,
        "boundaryEvent(interrupting):timer": 1,
        "timer/timeDuration": 1,
        "exclusiveGateway": 1,
        "exclusiveGateway@default": 1,
        "sequenceFlow": 1,
    }
    assert model.elements["b"].kind == "boundaryEvent:timer"


def test_a_reference_to_nothing_is_itself_the_code():
    model = model_of(
        '<process id="p"><endEvent id="e"><errorEventDefinition errorRef="E7"/></endEvent>'
        "</process>"
    )

    (event,) = model.elements["e"].events
    assert event.code == "E7" and not event.is_declared
