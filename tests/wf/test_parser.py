import ast as python_ast
import time

import pytest

from holdfast.authoring.wf import ast
from holdfast.authoring.wf.parser import MOST_BRACES, parse, read
from holdfast.errors import BadWorkflow
from tests.wf.cases import ARE_THERE, manifest, texts

HOUR = 3_600_000_000


def problems(text):
    """Return the code, the line and the column of each problem."""
    return [(problem.code, problem.line, problem.column) for problem in read(text).problems]


def body(text):
    return parse(f"workflow a {{ {text} }}").body


def node(text):
    (only,) = body(text)
    return only


def refused(text):
    """Return the first problem of a node."""
    return read(f"workflow a {{\n{text}\n}}\n").problems[0]


# Tokens


def test_a_string_may_have_escapes_and_several_lines():
    call = node(r'emit "a\n\t\"\\\q' + '\nb"')

    assert call.text.text == 'a\n\t"\\q\nb'


def test_a_number_loses_its_leading_zeros():
    assert node("call b { retries = 007 }").retries == 7


def test_scalars_are_texts_however_they_are_written():
    assert node('call b { retries = "2" as = continue }').retries == 2


def test_names_have_hyphens_and_reserved_words_may_be_names():
    names = [step.name for step in body('script a-b { run = "x" } script if { run = "x" }')]

    assert names == ["a-b", "if"]


def test_windows_line_ends_are_blanks():
    assert parse("workflow a {\r\n  call b\r\n}\r\n").body[0].target.text == "b"


# Nodes


def test_the_options_of_a_call():
    call = node(
        'call "agents/fix.v2.md" { retries = 2 on_fail = "agents/rescue.md" output = verdict '
        'with = ["a", b] as = "bot" plugin_dirs = ["p"] timeout = "20m" max_turns = 9 lane = gpu '
        "undo = refund }"
    )

    assert (call.target.key, call.target.is_path) == ("fix.v2", True)
    assert (call.retries, call.max_turns, call.identity) == (2, 9, "bot")
    assert (call.on_fail.text, call.on_fail.is_path) == ("agents/rescue.md", True)
    assert (call.output.text, [word.text for word in call.snippets]) == ("verdict", ["a", "b"])
    assert (call.plugin_dirs, call.timeout) == (("p",), HOUR // 3)
    assert (call.undo.text, call.lane) == ("refund", "gpu")


@pytest.mark.parametrize(
    ("text", "tolerates", "handler"),
    [
        ("continue", True, None),
        ("rescue", False, ("rescue", False)),
        ('"rescue"', False, ("rescue", False)),
        ('"a/rescue.md"', False, ("a/rescue.md", True)),
    ],
)
def test_on_fail_tolerates_or_names_a_handler(text, tolerates, handler):
    call = node(f"call b {{ on_fail = {text} }}")

    assert call.tolerates is tolerates
    assert (call.on_fail and (call.on_fail.text, call.on_fail.is_path)) == handler


def test_a_sub_workflow_has_inputs_before_and_after_its_options():
    call = node("call workflow w { retries = 1 inputs { a = b c = 3 } on_fail = continue }")

    assert (call.name.text, call.inputs) == ("w", (("a", "b"), ("c", "3")))
    assert (call.retries, call.tolerates) == (1, True)


def test_loops_have_a_limit():
    loop = node("while b.c { max_iterations = 3 stuck_after = 2 on_max_iter = continue call b }")
    other = node("do { max_iterations = 3 call b } while b.c")

    assert (loop.max_iterations, loop.stuck_after, loop.on_max_iter) == (3, 2, "continue")
    assert isinstance(other, ast.DoWhileNode)
    assert other.condition == ast.MarkerCondition("b", "c", other.condition.start)


def test_the_calls_of_a_parallel_block_may_have_conditions():
    block = node('parallel { fail_fast = false min_success = 1 call x { if = "b.c" } call y }')

    assert (block.fail_fast, block.min_success) == (False, 1)
    assert block.body[0].condition.step == "b"


def test_gates_have_options_as_lists_maps_and_fields():
    listed = node('gate g { options = ["a" b] timeout = "2h" }')
    mapped = node('gate g { options = { a = "A" b = "B" } }')
    field = node("gate g { options = judge.choices }")
    quality = node("gate quality_gate { source = judge threshold = 75 on_fail = continue }")

    assert listed.options == (("a", "a"), ("b", "b"))
    assert mapped.options == (("a", "A"), ("b", "B"))
    assert (field.options.step, field.options.field) == ("judge", "choices")
    assert (listed.timeout, field.timeout) == (2 * HOUR, 24 * HOUR)
    assert (quality.source.text, quality.threshold, quality.on_fail) == ("judge", 75, "continue")


def test_inputs_are_required_unless_they_have_a_default_or_are_boolean():
    document = parse(
        'workflow a { inputs { a required b default = "x" c boolean d boolean default = true e '
        'required default = "y" type choices type = number default = 3 '
        'level choices = ["low", "high"] default = low } }'
    )

    declared = {item.name: (item.type, item.required, item.default) for item in document.inputs}
    assert declared == {
        "a": ("string", True, None),
        "b": ("string", False, "x"),
        "c": ("boolean", False, "false"),
        "d": ("boolean", False, "true"),
        "e": ("string", True, "y"),
        "type": ("string", True, None),
        "choices": ("number", False, "3"),
        "level": ("choice", False, "low"),
    }


def test_always_blocks_are_joined_and_nested_ones_are_nodes():
    document = parse("workflow a { always { call x } do { always { call y } } always { call z } }")

    assert [step.target.text for step in document.always] == ["x", "z"]
    assert document.summary()["nodes"] == {"always": 1, "call": 3, "do": 1}


# What Holdfast adds


def test_words_of_the_additions_are_names_elsewhere():
    document = parse(
        "workflow sleep { inputs { wait emit } call sleep call emit { as = budget } "
        'script wait { run = "x" } gate use { } if sleep.outputs { call use } }'
    )

    assert document.summary()["body"] == ["call", "call", "script", "gate", "if"]


def test_sleep_wait_and_emit():
    nodes = body('sleep "10m" wait signal paid { timeout = "3d" } wait signal x emit "done {{b}}"')

    assert [ast.kind_of(item) for item in nodes] == ["sleep", "wait", "wait", "emit"]
    assert (nodes[1].signal, nodes[1].timeout, nodes[2].timeout) == ("paid", 72 * HOUR, None)


def test_retry_is_a_map_with_a_list():
    call = node('call b { retry = { max = 5 backoff = "10s" on = [timed_out, "OSError"] } }')

    assert call.retry == ast.RetryRule(5, 10_000_000, ("timed_out", "OSError"))


def test_declarations_of_a_workflow():
    document = parse(
        'workflow a { use "common/b.wf" budget { cost_usd = "5.00" tokens = 7 } '
        'outputs { v = judge.verdict note = "{{x}}" } call judge }'
    )

    assert [word.text for word in document.uses] == ["common/b.wf"]
    assert [(item.metric, item.limit) for item in document.budget] == [
        ("cost_usd", "5.00"),
        ("tokens", "7"),
    ]
    assert document.summary()["outputs"] == ["v", "note"]
    assert document.summary()["uses"]["files"] == ["common/b.wf"]


@pytest.mark.parametrize("path", ["", "/etc/x.wf"])
def test_a_used_path_is_relative(path):
    assert [problem[0] for problem in problems(f'workflow a {{ use "{path}" }}')] == ["bad-value"]
    assert problems('workflow a { use "../common/b.wf" }') == []


def test_a_foreach_has_a_workflow_or_a_body():
    inline = node("foreach f { over = tickets max_parallel = 3 do { call b } lane = x }")

    assert [step.target.text for step in inline.do.body] == ["b"]
    assert parse("workflow a { foreach f { over = x max_parallel = 1 do { call b } } }").summary()[
        "nodes"
    ] == {"call": 1, "foreach": 1}


def test_an_expression_is_kept_with_its_place():
    text = 'workflow a { inputs { n } if (n == ")" // why\n and (n != "x")) { call b } }'
    condition = parse(text).body[0].condition

    assert condition.text.split() == ["n", "==", '")"', "and", "(n", "!=", '"x")']
    assert text[condition.start :].startswith('n == ")"')


# Problems


@pytest.mark.parametrize(
    ("text", "code", "line", "column", "hint"),
    [
        ("call b { retrys = 2 }", "unknown-option", 2, 10, "retries"),
        ("call b { skip_unless = x.y }", "unknown-option", 2, 10, "another version"),
        ("if x { retries = 1 call b }", "unknown-option", 2, 8, "no options"),
        ('call b { if = "x.y" }', "unknown-option", 2, 10, "if step.marker"),
        ("call b\nwhile b.c { call b }", "missing-option", 3, 1, "max_iterations"),
        ("foreach f { over = x workflow = y }", "missing-option", 2, 1, "max_parallel"),
        ("foreach f { over = x max_parallel = 1 }", "missing-option", 2, 1, "do {"),
        ("script s { }", "missing-option", 2, 1, "run"),
        ("call b { retries = [1] }", "bad-value", 2, 20, "number"),
        ("call b { retries = many }", "bad-value", 2, 20, "number"),
        ('call b { timeout = "soon" }', "bad-value", 2, 20, "20m"),
        ('script s { run = "x" timeout = "10m" }', "bad-value", 2, 32, "600"),
        ('call "../b"', "bad-value", 2, 6, "below"),
        ('call b { with = [["x"]] }', "bad-value", 2, 18, ""),
        ("script s { run = x env = { a = { b = c } } }", "bad-value", 2, 32, ""),
        ("gate g { options = word }", "bad-value", 2, 20, "step.field"),
        ("gate g { mode = review_decision min_approvals = 2 }", "bad-value", 2, 33, "remove"),
        (
            "gate quality_gate { source = b threshold = 5 on_fail = pause }",
            "bad-value",
            2,
            56,
            "continue",
        ),
        ("gate quality_gate { source = b threshold = 101 }", "bad-value", 2, 44, ""),
        ("if (x + ) { }", "syntax", 2, 9, ""),
        ('parallel { call b { if = "(x +)" } }', "syntax", 2, 31, ""),
        ("call b { retries = 1 retry = { max = 2 } }", "bad-value", 2, 22, "remove"),
        ("call b { retry = { most = 2 } }", "bad-value", 2, 20, "max"),
        ('sleep "soon"', "bad-value", 2, 7, "90s"),
        ("call b { retries = 99999999999 }", "syntax", 2, 20, ""),
        ("call b { timeout = 2h }", "syntax", 2, 21, '"2h"'),
        ("call b, call c", "syntax", 2, 7, "blanks"),
        ("call b { retries = 2, as = x }", "syntax", 2, 21, "blanks"),
        ('script s { run = "x" env { A = "b" } }', "syntax", 2, 26, "env = {"),
        ("do b.c { call b }", "syntax", 2, 4, "do { ... } while"),
        ("-- a note", "syntax", 2, 1, "//"),
        ("call b ; a note", "syntax", 2, 8, "//"),
        ('emit """a"""', "syntax", 2, 6, "several lines"),
        ("emit 'a'", "syntax", 2, 6, "double quotes"),
        ("call b retries = 2", "syntax", 2, 8, "before"),
        ("cal b", "syntax", 2, 1, "call"),
        ("parallel { }", "syntax", 2, 1, "branch"),
        ("call b { retries 2 }", "syntax", 2, 18, ""),
        ("if (a == 1 { call b }", "syntax", 2, 4, ""),
        ("while b { max_iterations = 1 }", "syntax", 2, 9, "step.marker"),
        ("do { meta { } }", "syntax", 2, 6, "top level"),
        ("if b.c { } else { }", "syntax", 2, 12, "unless"),
        ("call b < 3", "syntax", 2, 8, ""),
    ],
)
def test_a_problem_has_its_place_and_a_hint(text, code, line, column, hint):
    problem = refused(text)

    assert (problem.code, problem.line, problem.column) == (code, line, column), str(problem)
    assert hint in problem.hint


def test_all_problems_are_reported_at_once_in_text_order():
    text = """workflow a {
  meta { trigger = weekly }
  call b { retrys = 2 }
  frobnicate
  while b.c { call b }
  if b.c {
    call { }
    call b { retries = x }
  }
}
}
"""

    assert problems(text) == [
        ("bad-value", 2, 20),
        ("unknown-option", 3, 12),
        ("syntax", 4, 3),
        ("missing-option", 5, 3),
        ("syntax", 7, 10),
        ("bad-value", 8, 24),
        ("trailing-text", 11, 1),
    ]


def test_a_block_that_is_not_closed_is_one_problem_at_its_keyword():
    assert problems("workflow a {\n  if b.c {\n    call d {\n") == [("syntax", 3, 5)]
    assert problems('workflow a {\n  call b { as = "x }\n}\n')[0] == ("syntax", 2, 17)
    assert problems("workflow a\n\n") == [("syntax", 1, 10)]
    assert problems("workflow a {\n  call\n") == [("syntax", 2, 3)]


def test_warnings_do_not_refuse_a_text():
    document = parse("workflow a { meta { trigger = pr } call b { retries = 1 retries = 2 } }")

    assert document.body[0].retries == 2
    assert [problem.code for problem in document.warnings] == ["trigger", "duplicate-option"]


def test_an_error_shows_its_problems():
    with pytest.raises(BadWorkflow) as caught:
        parse("workflow a { call b { retrys = 2 } }", "x.wf")

    assert "x.wf:1:23: error: `call b` has no option `retrys`" in str(caught.value)
    assert caught.value.problems[0].code == "unknown-option"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\x00",
        "\ufeffworkflow a { }",
        "workflow a { call b\x00 }",
        'workflow a { emit "\ud800" }',
        "{" * (MOST_BRACES - 1),
        "{" * (5 * MOST_BRACES),
        "workflow a {" + "do {" * 10_000 + "}" * 10_001,
        "workflow a {" + "do {" * 10_000,
        "workflow a {" * 50_000,
        "workflow a { if (" + "(" * 100_000,
        "workflow a { call b { with = " + "[" * 100_000,
        "workflow a { call b { env = " + "{ a = " * 100_000,
        '"\\"' * 50_000,
        '"""' * 50_001,
        "# x\n" * 50_000,
        "x" * 1_000_000,
        "workflow a { call b { " + "x" * 500_000 + " = 1 } }",
        "//" * 1_000_000,
        "workflow a { " + "x call " * 200_000,
        "workflow a { " + "call b { retrys = 1 } " * 20_000,
        "workflow a { inputs { " + "x, " * 200_000,
        "workflow a { if (" + "a + " * 200_000,
        " " * 1_000_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_any_text_gets_an_answer_soon(text):
    began = time.process_time()

    found = problems(text)

    assert found and all(line >= 1 and column >= 1 for _, line, column in found)
    assert len(found) <= 200
    assert time.process_time() - began < 10


def test_blocks_may_be_nested_a_hundred_levels_deep():
    text = "workflow a {" + "do {" * 110 + "call b" + "}" * 111

    assert parse(text).summary()["nodes"] == {"call": 1, "do": 110}


def test_reading_is_not_slower_than_that_of_python():
    """The best of some attempts: other processes of the machine must not decide."""
    lines = 10_000
    text = "workflow a {\n" + "call x { retries = 2 }\n" * lines + "}\n"
    code = "x(retries=2)\n" * lines

    ratio = min(best(lambda: read(text)) / best(lambda: python_ast.parse(code)) for _ in range(3))

    assert ratio <= 1


def best(function):
    times = []
    for _ in range(3):
        began = time.process_time()
        function()
        times.append(time.process_time() - began)
    return min(times)


# Cases


@pytest.mark.skipif(not ARE_THERE, reason="the cases are not there: set HOLDFAST_CASES")
@pytest.mark.parametrize("case", manifest().get("refused", []), ids=lambda case: case["id"])
def test_a_case_is_refused(case):
    with pytest.raises(BadWorkflow) as caught:
        parse(case["text"])

    problem = caught.value.problems[0]
    assert (problem.code, problem.line) == (case["code"], case["line"])
    assert case.get("hint", "") in problem.hint


@pytest.mark.skipif(not ARE_THERE, reason="the cases are not there: set HOLDFAST_CASES")
@pytest.mark.parametrize("path", texts(), ids=lambda path: path.name)
def test_the_programs_of_the_cases_have_no_problems(path):
    assert read(path.read_text("utf-8"), str(path)).problems == ()
