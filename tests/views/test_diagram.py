"""Diagrams: observed from histories, of graphs, and drawn as SVG and Mermaid."""

from __future__ import annotations

import itertools
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from holdfast.core.diagrams import Diagram, DiagramEdge, DiagramNode, NodeShape, NodeState
from holdfast.core.events import Event, EventKind, EventRole
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.views import diagram as diagrams
from holdfast.views import runs, svg
from holdfast.views.layout import Layout

START = 1_794_916_800_000_000
RECORDED = sorted((Path(__file__).parent / "diagrams").glob("*.json"))
ERROR = b'{"type":"ValueError","message":"no route"}'
HOSTILE = '<script>alert("x")</script>]] --> end\x00\n&'


def observed(*events, status=Status.RUNNING, waits=None):
    record = RunRecord(
        id="r1",
        namespace="default",
        workflow="checkout",
        version="1",
        lane="default",
        capabilities=(),
        status=status,
        priority=0,
        input=b"[]",
        generation=1,
        revision=0,
        crashes=0,
        created_at=START,
        started_at=START,
        finished_at=START + 10_000 if status is Status.COMPLETED else None,
        waits=waits,
    )
    for number, event in enumerate(events, start=1):
        event.seq = number
    return diagrams.observed(runs.of(record), list(events))


def done(step, start, end, **fields):
    return Event(EventKind.STEP_COMPLETED, step, started_at=START + start, at=START + end, **fields)


def edges(diagram):
    return {(edge.source, edge.target) for edge in diagram.edges}


def node(diagram, node_id):
    return next(node for node in diagram.nodes if node.id == node_id)


def test_steps_in_sequence_are_a_chain():
    diagram = observed(done("a", 0, 10), done("b", 20, 30), status=Status.COMPLETED)

    assert edges(diagram) == {("(start)", "a"), ("a", "b"), ("b", "(end)")}
    assert all(edge.taken for edge in diagram.edges)
    assert node(diagram, "(end)").state is NodeState.COMPLETED


def test_parallel_steps_part_and_meet_again():
    diagram = observed(done("a", 0, 10), done("b", 20, 40), done("c", 21, 30), done("d", 50, 60))

    assert {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")} <= edges(diagram)
    assert ("c", "b") not in edges(diagram)


def test_the_branches_of_a_gather_are_folded_with_their_counts():
    diagram = observed(
        done("a", 0, 10),
        done("line/pack", 20, 40),
        done("line#2/pack", 21, 41),
        done("line/label", 45, 50),
        done("line#2/label", 46, 51),
        done("b", 60, 70),
    )

    assert node(diagram, "line/pack").count == 2
    assert edges(diagram) == {
        ("(start)", "a"),
        ("a", "line/pack"),
        ("line/pack", "line/label"),
        ("line/label", "b"),
        ("b", "(end)"),
    }


def test_a_loop_is_drawn_once_with_an_edge_back():
    events = []
    for number in range(1, 4):
        suffix = "" if number == 1 else f"#{number}"
        events += [
            done(f"read{suffix}", number * 100, number * 100 + 10),
            done(f"write{suffix}", number * 100 + 20, number * 100 + 30),
        ]

    diagram = observed(*events)

    assert node(diagram, "read").count == node(diagram, "write").count == 3
    assert {("read", "write"), ("write", "read")} <= edges(diagram)


def test_states_follow_from_the_history():
    diagram = observed(
        Event(EventKind.STEP_RETRIED, "a", b'{"until":1}', ERROR, started_at=START, at=START + 1),
        done("a", 5, 6, attempt=2),
        Event(EventKind.STEP_FAILED, "b", error=ERROR, started_at=START + 7, at=START + 8),
        done("undo x", 9, 10, role=EventRole.COMPENSATION),
        Event(EventKind.STEP_STARTED, "d", started_at=START + 11, at=START + 12),
        Event(EventKind.GATE_OPENED, "gate", b'{"prompt":"Ship it?"}', at=START + 13),
    )

    states = {node.label: node.state.value for node in diagram.nodes}
    assert states["a"] == "retried"
    assert states["b"] == "failed"
    assert states["undo x"] == "compensated"
    assert states["d"] == "running"
    assert states["Ship it?"] == "waiting"
    assert states["end"] == "not reached"
    assert node(diagram, "gate").shape is NodeShape.GATE
    assert [edge.kind for edge in diagram.edges if edge.target == "undo x"] == ["compensation"]
    assert not any(edge.taken for edge in diagram.edges if edge.target == "(end)")


def test_children_are_runs_and_a_map_has_the_number_of_its_children():
    diagram = observed(
        Event(EventKind.CHILD_STARTED, "run p", b'{"run":"r2","workflow":"pay"}', at=START),
        Event(EventKind.MAP_STARTED, "map q", b'{"count":10000,"workflow":"q"}', at=START + 5),
    )

    child = node(diagram, "run p")
    assert (child.label, child.shape, child.run, child.state) == ("pay", "run", "r2", "running")
    assert node(diagram, "map q").count == 10_000


def test_a_run_that_has_not_started_is_drawn_too():
    diagram = observed()

    assert edges(diagram) == {("(start)", "(end)")}


def test_many_steps_make_few_nodes():
    events = [done("pack", 0, 1)]
    events += [done(f"pack#{number}", number * 2, number * 2 + 1) for number in range(2, 20_001)]

    diagram = observed(*events)

    assert len(diagram.nodes) == 3
    assert node(diagram, "pack").count == 20_000
    assert node(diagram, "pack").steps == ["pack#*"]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_recorded_diagrams_of_every_kind_are_drawn(path):
    diagram = msgspec.json.decode(path.read_bytes(), type=Diagram)

    root = ElementTree.fromstring(svg.draw(diagram))
    text = diagrams.mermaid(diagram)

    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    for drawn in diagram.nodes:
        if drawn.shape not in (NodeShape.BOX, NodeShape.LANE):
            assert any((drawn.label or drawn.id) in title for title in titles), drawn.id
    paths = list(root.iter("{http://www.w3.org/2000/svg}path"))
    assert sum("edge" in (item.get("class") or "") for item in paths) == len(diagram.edges)
    assert len([line for line in text.splitlines() if "->" in line or "=>" in line]) == len(
        diagram.edges
    )
    assert msgspec.json.decode(msgspec.json.encode(diagram), type=Diagram) == diagram


def test_nodes_do_not_overlap_and_edges_lead_right():
    names = [f"n{number}" for number in range(12)]
    diagram = Diagram(
        kind="python",
        nodes=[DiagramNode(id=name, label=name, shape=NodeShape.TASK) for name in names],
        edges=[
            DiagramEdge(source=names[number // 2], target=names[number]) for number in range(1, 12)
        ],
    )

    bounds = Layout(diagram).bounds

    places = list(bounds.values())
    for number, first in enumerate(places):
        for second in places[number + 1 :]:
            apart_x = first.x + first.width <= second.x or second.x + second.width <= first.x
            apart_y = first.y + first.height <= second.y or second.y + second.height <= first.y
            assert apart_x or apart_y
    assert all(bounds[edge.source].x < bounds[edge.target].x for edge in diagram.edges)


def test_names_are_only_ever_text():
    diagram = Diagram(
        kind="python",
        nodes=[DiagramNode(id="a", label=HOSTILE, shape=NodeShape.TASK)],
        edges=[DiagramEdge(source="a", target="a", label=HOSTILE, kind=HOSTILE)],
    )

    text = svg.draw(diagram, HOSTILE)
    drawn = diagrams.mermaid(diagram)

    ElementTree.fromstring(text)
    assert "<script" not in text
    label = drawn.splitlines()[1]
    assert label.startswith('    n0["') and label.endswith('"]:::not_reached')
    assert '"' not in label[8 : -len('"]:::not_reached')] and "]" not in label[8:-16]


def test_a_diagram_deeper_than_the_stack_of_python_is_drawn():
    names = [f"s{number}" for number in range(3000)]
    diagram = Diagram(
        kind="graph",
        nodes=[DiagramNode(id=name, label=name, shape=NodeShape.RUN) for name in names],
        edges=[
            DiagramEdge(source=source, target=target)
            for source, target in itertools.pairwise(names)
        ],
    )

    assert svg.draw(diagram).count("<g class=") == 3000


def box(node_id, inside=None, shape=NodeShape.BOX):
    return DiagramNode(id=node_id, label=node_id, shape=shape, inside=inside)


def test_boxes_are_laid_out_from_the_inside():
    diagram = Diagram(
        kind="wf",
        nodes=[
            box("a", shape=NodeShape.TASK),
            box("outer"),
            box("inner", "outer"),
            box("empty", "outer"),
            box("b", "inner", NodeShape.TASK),
            box("c", "inner", NodeShape.TASK),
            box("d", "outer", NodeShape.TASK),
            box("e", shape=NodeShape.TASK),
        ],
        edges=[
            DiagramEdge(source="a", target="b"),
            DiagramEdge(source="b", target="c"),
            DiagramEdge(source="c", target="b"),
            DiagramEdge(source="c", target="d"),
            DiagramEdge(source="d", target="e"),
            DiagramEdge(source="a", target="e"),
        ],
    )

    layout = Layout(diagram)

    at = layout.bounds
    assert set(at) == {"a", "outer", "inner", "b", "c", "d", "e"}  # an empty box has no place
    assert at["a"].x + at["a"].width < at["outer"].x < at["inner"].x < at["b"].x < at["c"].x
    assert at["c"].x + at["c"].width < at["inner"].x + at["inner"].width < at["d"].x
    assert at["outer"].x + at["outer"].width < at["e"].x
    # The edge past the box runs below or above it, not through it.
    (past,) = [
        points for edge, points in layout.corners if (edge.source, edge.target) == ("a", "e")
    ]
    outer = at["outer"]
    for x, y in past:
        assert not (outer.x < x < outer.x + outer.width and outer.y < y < outer.y + outer.height)
    heights = {y for (x, y), (x2, _) in itertools.pairwise(past) if x <= outer.x and x2 > outer.x}
    assert all(y < outer.y or y > outer.y + outer.height for y in heights)


def test_a_dense_diagram_is_laid_out_without_a_place_for_each_edge():
    names = [f"n{number}" for number in range(120)]
    diagram = Diagram(
        kind="graph",
        nodes=[box(name, shape=NodeShape.RUN) for name in names],
        edges=[
            DiagramEdge(source=first, target=second)
            for first, second in itertools.combinations(names, 2)
        ],
    )

    layout = Layout(diagram)

    assert len(layout.bounds) == 120 and len(layout.corners) == 120 * 119 / 2
    assert len({place.y for place in layout.bounds.values()}) == 1
