"""Large diagrams with folded boxes: few nodes, no lost edges, open pools."""

from __future__ import annotations

from holdfast.core.diagrams import Diagram, DiagramEdge, DiagramNode, NodeShape, NodeState
from holdfast.views.diagram_folds import EVERY_BOX, folded
from holdfast.views.layout import placed


def node(name, shape=NodeShape.TASK, **fields):
    return DiagramNode(id=name, label=name, shape=shape, **fields)


def edge(source, target, **fields):
    return DiagramEdge(source=source, target=target, **fields)


DIAGRAM = Diagram(
    kind="bpmn",
    nodes=[
        node("pool", NodeShape.LANE),
        node("before", inside="pool"),
        node("outer", NodeShape.BOX, inside="pool"),
        node("first", inside="outer", state=NodeState.COMPLETED, steps=["first"]),
        node("inner", NodeShape.BOX, inside="outer"),
        node("deep", inside="inner", state=NodeState.FAILED, steps=["deep"]),
        node("caught", NodeShape.EVENT, inside="pool", attached="outer"),
        node("after", inside="pool"),
    ],
    edges=[
        edge("before", "first", taken=True),
        edge("before", "deep"),
        edge("first", "deep", points=[(0, 0), (1, 1)]),
        edge("deep", "after"),
    ],
)


def test_a_box_is_one_node_and_a_pool_stays_open():
    diagram = folded(DIAGRAM, most=3)

    boxes = {node.id: node for node in diagram.nodes}
    assert list(boxes) == ["pool", "before", "outer", "caught", "after"]
    outer = boxes["outer"]
    assert (outer.folded, outer.state, outer.steps) == (2, NodeState.FAILED, ["first", "deep"])
    assert [(edge.source, edge.target, edge.taken) for edge in diagram.edges] == [
        ("before", "outer", True),
        ("outer", "after", False),
    ]
    assert {node.id for node in placed(diagram).nodes} == set(boxes)


def test_an_opened_box_keeps_the_boxes_in_it_folded():
    diagram = folded(DIAGRAM, ["outer"], most=3)

    assert [(node.id, node.folded) for node in diagram.nodes if node.inside == "outer"] == [
        ("first", 0),
        ("inner", 1),
    ]
    assert [(edge.source, edge.target) for edge in diagram.edges] == [
        ("before", "first"),
        ("before", "inner"),
        ("first", "inner"),
        ("inner", "after"),
    ]


def test_small_diagrams_and_opened_ones_stay_as_they_are():
    assert folded(DIAGRAM) is DIAGRAM
    assert folded(DIAGRAM, [EVERY_BOX], most=3) is DIAGRAM


def test_boxes_that_contain_each_other_end_the_walk():
    circle = Diagram(
        kind="bpmn",
        nodes=[node("a", NodeShape.BOX, inside="b"), node("b", NodeShape.BOX, inside="a")],
        edges=[],
    )

    assert len(folded(circle, most=1).nodes) <= 2
