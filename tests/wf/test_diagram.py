"""The diagram of a text: its shape from the document, its states from a run."""

from contextlib import closing
from xml.etree import ElementTree

from holdfast.codecs import Encrypted
from holdfast.core.diagrams import NodeShape, NodeState
from holdfast.testing import Lab
from holdfast.views import svg
from holdfast.views.diagram import mermaid
from tests.wf.flows import Flows

TEXT = """workflow release {
  inputs { fast boolean }
  script build { run = "true" }
  parallel { call lint  call check { on_fail = mend } }
  unless fast { call slow-tests }
  do { max_iterations = 5 call review } while review.again
  gate human_review { prompt = "Ship it?" }
  if fast { call shortcut }
  call workflow publish
  always { call report }
}"""
PUBLISH = "workflow publish { call push }"


def nodes_of(diagram):
    return {node.id: node for node in diagram.nodes}


def taken(diagram):
    return {(edge.source, edge.target) for edge in diagram.edges if edge.taken}


def flows(**answers):
    again = {"markers": ["again"]}
    return Flows(TEXT, PUBLISH, **{"review": [again, again, None], **answers})


def drawn(lab, texts):
    run = lab.start(texts["release"], {"fast": False})
    lab.settle()
    return run, lab.engine.run(run.id).diagram()


def test_shape_states_and_counts_of_a_run_that_waits(tmp_path):
    texts = flows()
    with closing(Lab(tmp_path / "x.db", workflows=[texts.library])) as lab:
        _, diagram = drawn(lab, texts)

    nodes = nodes_of(diagram)
    assert diagram.kind == "wf"
    assert nodes["build"].state is NodeState.COMPLETED
    assert nodes["slow-tests"].state is NodeState.COMPLETED
    assert nodes["human_review"].state is NodeState.WAITING
    assert nodes["human_review"].shape is NodeShape.GATE
    assert nodes["publish"].shape is NodeShape.RUN
    assert nodes["check/on_fail/mend"].state is NodeState.NOT_REACHED
    loop = nodes["review.again[]"]
    assert (loop.shape, loop.count, loop.state) == (NodeShape.BOX, 3, NodeState.COMPLETED)
    review = nodes["review.again[]/review"]
    assert review.inside == "review.again[]" and review.count == 3
    assert review.steps == [f"review.again[{number}]/review" for number in range(3)]
    assert nodes["always/report"].inside == "(always)"
    assert nodes["(end)"].state is NodeState.NOT_REACHED
    fork, join = [node.id for node in diagram.nodes if node.icon == "parallel"]
    slow, again, fast = [node.id for node in diagram.nodes if node.icon == "exclusive"]
    assert taken(diagram) == {
        ("(start)", "build"),
        ("build", fork),
        (fork, "lint"),
        (fork, "check"),
        ("lint", join),
        ("check", join),
        (join, slow),
        (slow, "slow-tests"),
        ("slow-tests", "review.again[]/review"),
        ("review.again[]/review", again),
        (again, "review.again[]/review"),
        (again, "human_review"),
    }
    assert nodes[fast].state is NodeState.NOT_REACHED
    ElementTree.fromstring(svg.draw(diagram))
    assert "subgraph" in mermaid(diagram)


def test_the_branch_that_a_run_passed_and_its_child(tmp_path):
    texts = flows()
    with closing(Lab(tmp_path / "x.db", workflows=[texts.library])) as lab:
        run, _ = drawn(lab, texts)
        (gate,) = lab.engine.gates.list(run=run.id)
        lab.engine.gates.approve(gate.id, by="ann")
        lab.finish(run)
        diagram = lab.engine.run(run.id).diagram()
        nodes = nodes_of(diagram)
        inner = lab.engine.run(nodes["publish"].run).diagram()

    fast = [node.id for node in diagram.nodes if node.icon == "exclusive"][2]
    assert nodes["shortcut"].state is NodeState.NOT_REACHED
    assert (fast, "publish") in taken(diagram) and (fast, "shortcut") not in taken(diagram)
    assert nodes["publish"].state is NodeState.COMPLETED
    assert ("always/report", "(end)") in taken(diagram)
    assert nodes["(end)"].state is NodeState.COMPLETED
    assert nodes_of(inner)["push"].state is NodeState.COMPLETED


def test_a_failure_leads_through_its_handler_to_the_always_block(tmp_path):
    texts = flows(check=[ValueError("no compiler")])
    with closing(Lab(tmp_path / "x.db", workflows=[texts.library])) as lab:
        _, diagram = drawn(lab, texts)

    nodes = nodes_of(diagram)
    assert nodes["check"].state is NodeState.FAILED
    assert nodes["check/on_fail/mend"].state is NodeState.COMPLETED
    assert ("check", "check/on_fail/mend") in taken(diagram)
    assert ("check/on_fail/mend", "always/report") in taken(diagram)
    assert nodes["(end)"].state is NodeState.FAILED


def test_a_foreach_counts_its_items_and_its_children_draw_the_body(tmp_path):
    texts = Flows(
        "workflow each { call more while more.yes { max_iterations = 2 call more } foreach parts {"
        " over = things max_parallel = 2 do { call first if (1 == 2) { call second } } } }"
    )

    @texts.library.provider("things")
    def things(ask):
        return [{"id": "a"}, {"id": "b"}, {"id": "c"}]

    with closing(Lab(tmp_path / "x.db", workflows=[texts.library])) as lab:
        run = lab.start(texts["each"])
        lab.finish(run)
        diagram = lab.engine.run(run.id).diagram()
        child = lab.engine.run(run.id).steps()[-1].items[0]["run"]
        inner = nodes_of(lab.engine.run(child).diagram())

    parts = nodes_of(diagram)["parts"]
    assert (parts.shape, parts.count, parts.state) == (NodeShape.RUN, 3, NodeState.COMPLETED)
    assert inner["parts:first"].state is NodeState.COMPLETED
    assert inner["parts:first"].steps == ["first"]
    assert inner["parts:second"].state is NodeState.NOT_REACHED


def test_a_call_on_a_lane_is_a_run_that_draws_the_call(tmp_path):
    texts = Flows(
        "workflow w { do { max_iterations = 3 call render { lane = gpu } } while render.more }",
        render=[{"markers": ["more"]}, None],
    )
    with closing(Lab(tmp_path / "x.db", workflows=[texts.library])) as lab:
        run = lab.start(texts["w"])
        lab.finish(run)
        outer = nodes_of(lab.engine.run(run.id).diagram())
        child = next(other for other in lab.engine.runs() if other.id != run.id)
        inner = lab.engine.run(child.id).diagram()

    assert outer["render.more[]/render"].state is NodeState.COMPLETED
    assert outer["render.more[]/render"].count == 2
    assert [node.id for node in inner.nodes] == ["(start)", "render.more[]/render", "(end)"]
    assert [node.state for node in inner.nodes] == [NodeState.COMPLETED] * 3
    assert inner.nodes[1].steps == ["render"]


def test_a_process_without_the_files_draws_the_text_that_the_run_keeps(tmp_path):
    texts = flows()
    with closing(Lab(tmp_path / "x.db", workflows=[texts.library])) as lab:
        run, expected = drawn(lab, texts)

    with closing(Lab(tmp_path / "x.db", workflows=[])) as lab:
        assert lab.engine.run(run.id).diagram() == expected


def test_a_text_without_a_run_has_only_nodes_that_are_not_reached():
    diagram = flows()["release"].diagram(None, (), None)

    assert {node.state for node in diagram.nodes} == {NodeState.NOT_REACHED}
    assert not taken(diagram)


def test_without_the_key_a_run_is_drawn_from_its_history(tmp_path):
    texts = flows()
    with closing(
        Lab(tmp_path / "x.db", workflows=[texts.library], codec=Encrypted({"a": b"1" * 32}, "a"))
    ) as lab:
        run, expected = drawn(lab, texts)
    assert nodes_of(expected)["build"].state is NodeState.COMPLETED

    with closing(
        Lab(tmp_path / "x.db", workflows=[], codec=Encrypted({"b": b"2" * 32}, "b"))
    ) as lab:
        nodes = nodes_of(lab.engine.run(run.id).diagram())

    assert nodes["build"].state is NodeState.COMPLETED
    assert "always/report" not in nodes  # the history has only what was reached
