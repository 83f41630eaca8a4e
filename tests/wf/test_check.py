import time

import pytest

from holdfast.authoring.wf.check.documents import check_document
from holdfast.authoring.wf.check.surroundings import (
    CalledWorkflow,
    ProviderFacts,
    SchemaFault,
    ScriptFault,
)
from holdfast.authoring.wf.library import Library
from holdfast.authoring.wf.parser import parse
from tests.wf.cases import ARE_THERE, manifest


class Around:
    """Surroundings whose names are all known."""

    def __init__(self, *texts):
        self.documents = {document.name: document for document in map(parse, texts)}

    def workflow(self, name, caller):
        known = {**self.documents, caller.name: caller}
        if name == "python_flow":
            return CalledWorkflow(name=name)
        return CalledWorkflow(name=name, document=known[name]) if name in known else None

    def workflow_names(self, caller):
        return [*self.documents, "python_flow"]

    def used_file(self, path, caller):
        return None if path == "there.wf" else "there is no such file"

    def executors(self):
        return {"known", "rescue"}

    def resolves_path(self, path):
        return path == "agents/known.md"

    def providers(self):
        return {
            "tickets": ProviderFacts(ordered=True),
            "runs": ProviderFacts(needs_filter=True),
        }

    def provider_faults(self, name, scope, filter):
        return [] if "label" in scope or name == "runs" else ["`label` is missing"]

    def gate_types(self):
        return {"pr_checks"}

    def schema_fault(self, name, caller):
        if name == "broken":
            return SchemaFault(is_missing=False, why="line 3")
        return None if name == "verdict" else SchemaFault(is_missing=True, why="")

    def schema_names(self, caller):
        return ["verdict"]

    def script_fault(self, command, caller):
        word = command.split()[0]
        if word == "tools/there.sh":
            return None
        missing = word != "tools/plain.sh"
        return ScriptFault(is_missing=missing, why="searched in .", hint="chmod +x")

    def allowed_targets(self):
        return {"repo", "ticket"}


def problems(text, *others):
    document = parse(f"workflow a {{\n{text}\n}}")
    return check_document(document, Around(document.text, *others))


def found(text, *others):
    return [(problem.code, problem.line, problem.column) for problem in problems(text, *others)]


@pytest.mark.parametrize(
    "text",
    [
        "call known if known.x { call known }",
        'script s { run = "tools/there.sh" } if s.x { }',
        "if x { } inputs { x boolean }",
        "while known.x { max_iterations = 2 call known }" + " call known",
        "do { max_iterations = 2 call known } while known.m",
        "if w.m { }",
        'call known parallel { call known { if = "known.m" } call rescue } if rescue.m { }',
        "wait signal paid if paid.received { }",
        "foreach f { over = tickets max_parallel = 1 workflow = python_flow "
        'scope = { label = "x" } } if f.has_failures { }',
        "call workflow python_flow if python_flow.m { }",
        "call workflow sub { inputs { x = 1 } } if inner.m { } if sub.m { }",
        "always { if known.m { } } call known",
        "call known outputs { v = known.field }",
        "inputs { n type = number } call known "
        "if (n > 3 and inputs.n < 9 and known.output.x == 1 and variables.y != null) { }",
        'call "agents/known.md" if known.m { }',
        "gate human_thing { } gate pr_checks { }",
        'use "there.wf"',
        'foreach f { over = tickets max_parallel = 1 scope = { label = "x" } do {'
        ' if (item.id == "x" and item.size != null) { call known } } }',
    ],
)
def test_names_that_exist_are_accepted(text):
    if text.startswith(("while", "if w")):
        text = 'call known\ncall known { as = x } script w { run = "tools/there.sh" }' + text
    sub = "workflow sub { inputs { x required } do { script inner { run = x } } }"

    assert [problem for problem in problems(text, sub) if problem.is_error] == []


@pytest.mark.parametrize(
    ("text", "code", "column", "hint"),
    [
        ("if known.m { } call known", "unknown-step", 4, "later"),
        ("call known if knwon.m { }", "unknown-step", 15, "known"),
        ("gate human_x { } if human_x.m { }", "unknown-step", 21, "no markers"),
        ("if deep { }", "unknown-input", 4, "inputs { deep boolean }"),
        ("inputs { deep } if deep { }", "unknown-input", 20, "deep boolean"),
        ("inputs { deep boolean } if depe { }", "unknown-input", 28, "deep"),
        ("call known if known { }", "unknown-input", 15, "known.MARKER"),
        ('parallel { call known { if = "rescue.m" } call rescue }', "unknown-step", 30, ""),
        ("parallel { call known if known.m { } }", "unknown-step", 26, "another branch"),
        ("gate quality_gate { source = judge threshold = 5 }", "unknown-step", 30, ""),
        ("gate human_x { options = judge.list }", "unknown-step", 26, ""),
        ("outputs { v = judge.field }", "unknown-step", 15, ""),
        ("if (n > 3) { }", "unknown-input", 5, "inputs { n }"),
        ("if (3 < inputs.n) { }", "unknown-input", 9, ""),
        ("if (1 == 1 and judge.output.x > 3) { }", "unknown-step", 16, ""),
        (
            "foreach f { over = tickets max_parallel = 1 scope = { label = x } do { if f.m { } } }",
            "unknown-step",
            75,
            "",
        ),
        ("call workflow subb", "unknown-workflow", 15, "sub"),
        ("call workflow sub", "missing-input", 1, "inputs { x"),
        ("call workflow sub { inputs { xx = 1 } }", "missing-input", 1, "x"),
        ('use "gone.wf"', "unknown-workflow", 5, ""),
        (
            "foreach f { over = tickts max_parallel = 1 workflow = python_flow }",
            "unknown-provider",
            20,
            "tickets",
        ),
        (
            "foreach f { over = runs max_parallel = 1 workflow = python_flow }",
            "missing-filter",
            1,
            "filter",
        ),
        (
            "foreach f { over = runs max_parallel = 1 ordered = true filter = { s = x } "
            "workflow = python_flow }",
            "not-ordered",
            1,
            "tickets",
        ),
        (
            "foreach f { over = tickets max_parallel = 1 workflow = python_flow }",
            "bad-scope",
            1,
            "",
        ),
        (
            "foreach f { over = tickets max_parallel = 1 scope = { label = x } "
            "on_child_fail = skip_dependents workflow = python_flow }",
            "no-effect",
            1,
            "ordered",
        ),
        ("call knwon", "unknown-executor", 6, "known"),
        ('call "agents/none.md"', "unknown-executor", 6, "executor"),
        ("call known { on_fail = resue }", "unknown-executor", 24, "rescue"),
        ("call known { undo = resue }", "unknown-executor", 21, "rescue"),
        ("gate pr_check { }", "unknown-gate", 1, "pr_checks"),
        ("call known { output = verdct }", "unknown-schema", 23, "verdict"),
        ("do { output = broken }", "bad-schema", 15, ""),
        ('script s { run = "tools/gone.sh x" }', "missing-script", 18, ""),
        ('script s { run = "tools/plain.sh" }', "not-executable", 18, "chmod"),
        ("meta { targets = [repo, tiket] }", "unknown-target", 25, "ticket"),
        ("meta { trigger = pr }", "trigger", 18, ""),
        ('script s { run = "tools/there.sh" env = { PATH = "x" } }', "bad-value", 1, ""),
    ],
)
def test_a_name_that_does_not_exist_is_reported_at_its_place(text, code, column, hint):
    (problem,) = problems(text, "workflow sub { inputs { x required } call known }")

    assert (problem.code, problem.line, problem.column) == (code, 2, column), str(problem)
    assert hint in problem.hint
    assert problem.is_error is (code not in ("unknown-gate", "trigger", "bad-value"))


def test_the_steps_of_an_unknown_workflow_are_unknown_too():
    assert found("call workflow gone if inner.m { }") == [("unknown-workflow", 2, 15)]


def chain(length):
    """Return workflows that call each other, the last one a leaf."""
    texts = [f"workflow w{n} {{ call workflow w{n + 1} }}" for n in range(1, length)]
    return [*texts, f"workflow w{length} {{ call known }}"]


def test_five_levels_are_allowed_the_first_included():
    assert found("call workflow w1", *chain(4)) == []
    assert found("call workflow w1", *chain(5)) == [("too-deep", 2, 1)]
    assert found("call workflow w1", *chain(3000)) == [("too-deep", 2, 1)]


def test_an_inline_body_is_a_level():
    inline = "foreach f {{ over = runs filter = {{ s = x }} max_parallel = 1 do {{ {} }} }}"

    assert found(inline.format("call workflow w1"), *chain(3)) == []
    assert found(inline.format("call workflow w1"), *chain(4)) == [("too-deep", 2, 66)]


def test_a_cycle_is_reported_with_its_names():
    others = [
        "workflow b { if x { call workflow c } }",
        "workflow c { always { call workflow a } }",
    ]
    (problem,) = problems("call workflow b", *others)

    assert (problem.code, "a -> b -> c -> a" in problem.message) == ("cycle", True)
    assert found("call workflow a") == [("cycle", 2, 1)]


def test_many_calls_of_the_same_workflows_are_checked_soon():
    """Each level calls the next one many times: the number of paths is astronomical."""
    others = [
        f"workflow w{n} {{ {'call workflow w' + str(n + 1) + ' '} }}".replace(
            "{ call", "{ " + f"call workflow w{n + 1} " * 50 + " call"
        )
        for n in range(1, 4)
    ]

    assert found("call workflow w1 " * 500, *others, "workflow w4 { call known }") == []


def test_a_file_with_another_name_than_its_workflow_is_a_warning():
    document = parse("workflow a { }", "flows/b.wf")

    (problem,) = check_document(document, Around())

    assert (problem.severity, problem.line, problem.column) == ("warning", 1, 10)
    assert check_document(parse("workflow a { }", "flows/a.wf"), Around()) == []


def test_many_unknown_names_among_many_known_ones_are_reported_soon():
    calls = " ".join(f"call step-{number}" for number in range(5000))
    conditions = " ".join(f"if stap-{number}.m {{ }}" for number in range(5000))
    began = time.process_time()

    problems = check_document(parse(f"workflow a {{ {calls} {conditions} }}"))

    assert len(problems) == 200
    assert "step-0" in problems[0].hint
    assert time.process_time() - began < 20


@pytest.mark.skipif(not ARE_THERE, reason="the cases are not there: set HOLDFAST_CASES")
@pytest.mark.parametrize("case", manifest().get("checked", []), ids=lambda case: case["id"])
def test_a_case_is_checked(case):
    library = Library()
    for path, text in case["texts"].items():
        library.add(text, path=path)

    errors = [problem for problem in library.check(case["workflow"]) if problem.is_error]

    assert [problem.code for problem in errors] == [code for code, _ in case["problems"]]
    for problem, (_, line) in zip(errors, case["problems"], strict=True):
        assert line in (None, problem.line)
