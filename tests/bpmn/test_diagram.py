"""The diagram of a model: places from the file, states from the trace of a run."""

from contextlib import closing
from xml.etree import ElementTree

import pytest

from holdfast.authoring.bpmn.diagram import draw_model
from holdfast.bpmn import load
from holdfast.core.diagrams import NodeShape, NodeState
from holdfast.testing.lab import Lab
from holdfast.views import svg
from holdfast.views.diagram import mermaid
from holdfast.views.layout import Layout
from tests.bpmn.models import boundary, compensation, flows, model_of, process_of, timer

LANES = '<collaboration id="c"><participant id="pool" name="Shop" processRef="p"/></collaboration>'
BODY = (
    '<laneSet id="ls"><lane id="sales" name="Sales"><flowNodeRef>s</flowNodeRef>'
    "<flowNodeRef>check</flowNodeRef><flowNodeRef>g</flowNodeRef></lane>"
    '<lane id="store" name="Store"><flowNodeRef>pack</flowNodeRef><flowNodeRef>late</flowNodeRef>'
    "<flowNodeRef>remind</flowNodeRef><flowNodeRef>ship</flowNodeRef><flowNodeRef>e</flowNodeRef>"
    "<flowNodeRef>no</flowNodeRef></lane></laneSet>"
    '<startEvent id="s" name="Order"/><serviceTask id="check" name="Check order"/>'
    '<exclusiveGateway id="g" name="In stock?" default="f4"/>'
    '<subProcess id="pack" name="Pack"><startEvent id="s2"/><userTask id="pick" name="Pick"/>'
    '<serviceTask id="wrap" name="Wrap"/><endEvent id="e2"/>'
    '<sequenceFlow id="i1" sourceRef="s2" targetRef="pick"/>'
    '<sequenceFlow id="i2" sourceRef="pick" targetRef="wrap"/>'
    '<sequenceFlow id="i3" sourceRef="wrap" targetRef="e2"/></subProcess>'
    + boundary("late", "pack", timer("timeDuration", "PT1H"), interrupting=False)
    + '<serviceTask id="remind" name="Remind"/><serviceTask id="ship" name="Ship"/>'
    '<endEvent id="e" name="Shipped"/><endEvent id="no" name="Refused"/>'
    + flows("s check", "check g", "g pack ${stock > 0}", "g no", "pack ship", "ship e")
    + '<sequenceFlow id="f9" sourceRef="late" targetRef="remind"/>'
)

DI = (
    'xmlns:bpmndi="http://www.omg.org/spec/BPMN/20100524/DI"'
    ' xmlns:dc="http://www.omg.org/spec/DD/20100524/DC"'
    ' xmlns:di="http://www.omg.org/spec/DD/20100524/DI"'
)
SHAPES = {
    "pool": (0, 0, 900, 420),
    "sales": (30, 0, 870, 140),
    "store": (30, 140, 870, 280),
    "s": (60, 50, 36, 36),
    "check": (140, 28, 100, 80),
    "g": (290, 43, 50, 50),
    "pack": (260, 170, 380, 150),
    "s2": (280, 227, 36, 36),
    "pick": (340, 205, 100, 80),
    "wrap": (470, 205, 100, 80),
    "e2": (590, 227, 36, 36),
    "late": (560, 302, 36, 36),
    "remind": (660, 330, 100, 80),
    "ship": (680, 205, 100, 80),
    "e": (830, 227, 36, 36),
    "no": (420, 50, 36, 36),
}


def with_diagram(shapes, waypoints="", collapsed=()):
    """Return the model with a diagram of these shapes."""
    drawn = "".join(
        f'<bpmndi:BPMNShape id="{name}_di" bpmnElement="{name}"'
        + (' isExpanded="false"' if name in collapsed else "")
        + f'><dc:Bounds x="{x}" y="{y}" width="{width}" height="{height}"/></bpmndi:BPMNShape>'
        for name, (x, y, width, height) in shapes.items()
    )
    plane = f'<bpmndi:BPMNPlane id="pl" bpmnElement="c">{drawn}{waypoints}</bpmndi:BPMNPlane>'
    diagram = f'<bpmndi:BPMNDiagram {DI} id="d">{plane}</bpmndi:BPMNDiagram>'
    process = f'{LANES}<process id="p" isExecutable="true">{BODY}</process>'
    return model_of(process + diagram)


EDGE = (
    '<bpmndi:BPMNEdge id="x" bpmnElement="f1"><di:waypoint x="96" y="68"/>'
    '<di:waypoint x="140" y="68"/></bpmndi:BPMNEdge>'
)


def idle(**variables):
    return None


HANDLERS = dict.fromkeys(("check", "wrap", "remind", "ship"), idle)


def nodes_of(diagram):
    return {node.id: node for node in diagram.nodes}


def taken(diagram):
    return {(edge.source, edge.target) for edge in diagram.edges if edge.taken}


def drawn(source, tmp_path, check=idle):
    """Return the diagram of a run that waits in the sub-process, after its boundary timer."""
    with closing(Lab(tmp_path / "x.db", handlers={**HANDLERS, "check": check})) as lab:
        lab.engine.models.deploy(source)
        run = lab.start("p", {"stock": 2})
        lab.settle()
        lab.advance("PT2H")
        return lab.engine.run(run.id).diagram()


def test_states_counts_and_flows_come_from_the_trace(tmp_path):
    diagram = drawn(process_of(BODY, more=LANES), tmp_path)

    nodes = nodes_of(diagram)
    assert diagram.kind == "bpmn"
    assert {
        name: node.state for name, node in nodes.items() if node.shape is not NodeShape.LANE
    } == {
        "s": NodeState.COMPLETED,
        "check": NodeState.COMPLETED,
        "g": NodeState.COMPLETED,
        "pack": NodeState.RUNNING,
        "s2": NodeState.COMPLETED,
        "pick": NodeState.WAITING,
        "wrap": NodeState.NOT_REACHED,
        "e2": NodeState.NOT_REACHED,
        "late": NodeState.COMPLETED,
        "remind": NodeState.COMPLETED,
        "ship": NodeState.NOT_REACHED,
        "e": NodeState.NOT_REACHED,
        "no": NodeState.NOT_REACHED,
    }
    assert taken(diagram) == {
        ("s", "check"),
        ("check", "g"),
        ("g", "pack"),
        ("s2", "pick"),
        ("late", "remind"),
    }
    assert nodes["late"].attached == "pack" and nodes["late"].icon == "timer"
    assert nodes["pick"].shape is NodeShape.GATE and nodes["pick"].inside == "pack"
    assert nodes["pack"].shape is NodeShape.BOX and nodes["pack"].inside == "store"
    assert nodes["store"].inside == "pool" and nodes["pool"].shape is NodeShape.LANE
    assert nodes["check"].steps == ["check"]
    labels = {(edge.source, edge.target): edge.label for edge in diagram.edges}
    assert labels["g", "pack"] == "${stock > 0}" and labels["g", "no"] == "default"


def test_a_model_without_coordinates_is_laid_out(tmp_path):
    diagram = drawn(process_of(BODY, more=LANES), tmp_path)

    at = Layout(diagram).bounds
    assert set(at) == {node.id for node in diagram.nodes}
    for node in diagram.nodes:
        if node.inside is not None and node.attached is None:
            assert is_within(at[node.id], at[node.inside]), node.id
    assert at["store"].y >= at["sales"].y + at["sales"].height
    assert at["store"].width == at["sales"].width < at["pool"].width
    # A boundary event is on the border of its host, a step of the process behind it.
    assert at["late"].y < at["pack"].y + at["pack"].height < at["late"].y + at["late"].height
    assert at["ship"].x > at["pack"].x + at["pack"].width
    ElementTree.fromstring(svg.draw(diagram))
    assert " -.- " in mermaid(diagram)


def is_within(inner, outer):
    return (
        outer.x <= inner.x
        and outer.y <= inner.y
        and inner.x + inner.width <= outer.x + outer.width
        and inner.y + inner.height <= outer.y + outer.height
    )


def test_a_model_keeps_its_own_coordinates(tmp_path):
    diagram = drawn(with_diagram(SHAPES, EDGE), tmp_path)

    places = {
        node.id: (node.at.x, node.at.y, node.at.width, node.at.height) for node in diagram.nodes
    }
    assert places == SHAPES
    (edge,) = [edge for edge in diagram.edges if (edge.source, edge.target) == ("s", "check")]
    assert edge.points == [(96.0, 68.0), (140.0, 68.0)] and edge.taken
    assert nodes_of(diagram)["pick"].state is NodeState.WAITING
    ElementTree.fromstring(svg.draw(diagram))


def test_a_collapsed_sub_process_is_one_node(tmp_path):
    inner = {"s2", "pick", "wrap", "e2"}
    shapes = {name: place for name, place in SHAPES.items() if name not in inner}
    diagram = drawn(with_diagram(shapes, collapsed=["pack"]), tmp_path)

    nodes = nodes_of(diagram)
    assert inner.isdisjoint(nodes)
    assert nodes["pack"].shape is NodeShape.RUN and nodes["pack"].state is NodeState.RUNNING


@pytest.mark.parametrize(
    "broken",
    [
        {name: place for name, place in SHAPES.items() if name != "ship"},
        {**SHAPES, "ship": ("NaN", 1, 100, 80)},
        {**SHAPES, "ship": (1, 1, 0, 80)},
        {**SHAPES, "ship": ("1e300", 1, 100, 80)},
        {**SHAPES, "ship": ("left", 1, 100, 80)},
        {},
    ],
    ids=["missing", "nan", "no width", "far away", "no number", "empty"],
)
def test_a_broken_diagram_is_laid_out_like_none(broken, tmp_path):
    diagram = drawn(with_diagram(broken, EDGE), tmp_path)

    assert all(node.at is None for node in diagram.nodes)
    assert all(not edge.points for edge in diagram.edges)
    ElementTree.fromstring(svg.draw(diagram))


def test_incidents_and_loops(tmp_path):
    body = (
        '<startEvent id="s"/><serviceTask id="t"/><exclusiveGateway id="g" default="f3"/>'
        '<serviceTask id="bad"/>' + flows("s t", "t g", "g bad", "g t ${again}")
    )

    def t(count):
        return {"count": count + 1, "again": count < 6}

    def bad(**variables):
        raise ValueError("no route to bank")

    with closing(Lab(tmp_path / "x.db", handlers={"t": t, "bad": bad})) as lab:
        lab.engine.models.deploy(process_of(body))
        run = lab.start("p", {"count": 1, "again": False})
        lab.settle()
        diagram = lab.engine.run(run.id).diagram()

    nodes = nodes_of(diagram)
    assert nodes["t"].count == 6 and nodes["t"].steps == ["t#*"]
    assert nodes["bad"].state is NodeState.FAILED
    assert ("g", "t") in taken(diagram)


def test_retries_and_compensation(tmp_path):
    failures = [ValueError("no route")]

    def book():
        if failures:
            raise failures.pop()

    body = (
        '<startEvent id="s"/><serviceTask id="book"><extensionElements>'
        "<camunda:failedJobRetryTimeCycle>R3/PT1M</camunda:failedJobRetryTimeCycle>"
        '</extensionElements></serviceTask><serviceTask id="refund" isForCompensation="true"/>'
        '<userTask id="decide"/><intermediateThrowEvent id="undo"><compensateEventDefinition/>'
        '</intermediateThrowEvent><endEvent id="e"/>'
        + compensation("book", "refund")
        + flows("s book", "book decide", "decide undo", "undo e")
    )
    with closing(Lab(tmp_path / "x.db", handlers={"book": book, "refund": idle})) as lab:
        lab.engine.models.deploy(process_of(body))
        run = lab.start("p", {})
        lab.settle()
        lab.advance("PT1M")
        before = nodes_of(lab.engine.run(run.id).diagram())
        (task,) = lab.engine.models.tasks(run=run.id)
        lab.engine.models.complete(task.id)
        lab.finish(run)
        diagram = lab.engine.run(run.id).diagram()

    assert before["book"].state is NodeState.RETRIED
    assert before["refund"].state is NodeState.NOT_REACHED
    after = nodes_of(diagram)
    assert after["book"].state is NodeState.COMPENSATED
    assert after["refund"].state is NodeState.COMPLETED and after["refund"].icon == "compensation"
    assert ("undo-book", "refund") in taken(diagram)
    ElementTree.fromstring(svg.draw(diagram))


def test_a_process_that_knows_neither_the_file_nor_the_handlers_draws_the_run(tmp_path):
    expected = drawn(with_diagram(SHAPES, EDGE), tmp_path)

    with closing(Lab(tmp_path / "x.db", handlers={})) as lab:
        (run,) = lab.engine.runs()
        assert lab.engine.run(run.id).diagram() == expected


def test_a_definition_without_a_run_has_only_nodes_that_are_not_reached(tmp_path):
    model = load(process_of(BODY, more=LANES))

    diagram = draw_model(model, "p", None)

    assert {node.state for node in diagram.nodes} == {NodeState.NOT_REACHED}
    assert not taken(diagram)
