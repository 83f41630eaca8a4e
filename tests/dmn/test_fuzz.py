"""Any text and any values get an answer: a value or a named error, in bounded time."""

import contextlib
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import dmn
from holdfast.core.expressions.conditions import parse_condition
from holdfast.core.expressions.evaluate import evaluate
from holdfast.core.expressions.feel import parse_feel, parse_unary_tests
from holdfast.core.expressions.juel import parse_juel
from holdfast.core.expressions.limits import ExpressionLimits
from holdfast.core.expressions.references import references
from holdfast.core.expressions.text_conditions import parse_text_condition
from holdfast.errors import HoldfastError

WORDS = [
    "a",
    "b",
    "x",
    "item",
    "?",
    "null",
    "true",
    "false",
    "1",
    "2.5",
    "-3",
    "0",
    "1e9",
    "1e6000",
    "99999999999999999999",
    '"t"',
    '""',
    '@"2026-01-31"',
    '@"P1M"',
    '@"PT1H"',
    '@"10:00:00@Europe/Paris"',
    '@"2026-01-01T00:00:00Z"',
    "+",
    "-",
    "*",
    "/",
    "**",
    "=",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "and",
    "or",
    "not(",
    ")",
    "(",
    "(",
    ")",
    ")",
    "[",
    "]",
    "[",
    "]",
    "{",
    "}",
    ",",
    ",",
    ".",
    "..",
    ":",
    "if",
    "then",
    "else",
    "for",
    "in",
    "return",
    "some",
    "every",
    "satisfies",
    "between",
    "instance",
    "of",
    "function(a)",
    "sum(",
    "count(",
    "string(",
    "date(",
    "time(",
    "duration(",
    "range(",
    "sort(",
    "split(",
    "matches(",
    "replace(",
    "decimal(",
    "modulo(",
    "floor(",
    "substring(",
    "context(",
    "list<number>",
    "number",
    "string",
]
PARSERS = {
    "feel": parse_feel,
    "tests": parse_unary_tests,
    "juel": lambda text: parse_juel("${" + text + "}"),
    "condition": parse_condition,
    "text condition": parse_text_condition,
}
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True)
    | st.text(max_size=5)
    | st.datetimes()
    | st.dates()
    | st.timedeltas(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
SMALL = ExpressionLimits(steps=5000, size=100_000)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
FUZZ = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def answer(parse, text, variables):
    with contextlib.suppress(HoldfastError):
        expression = parse(text)
        references(expression)
        evaluate(expression, variables, limits=SMALL, now=NOW)


@pytest.mark.parametrize("language", PARSERS)
@FUZZ
@given(st.lists(st.sampled_from(WORDS), max_size=25), VALUES, VALUES)
def test_any_words_get_an_answer(language, words, a, x):
    answer(PARSERS[language], " ".join(words), {"a": a, "x": x, "b": [1, 2], "?": 3})


@pytest.mark.parametrize("language", PARSERS)
@FUZZ
@given(st.text(max_size=40))
def test_any_text_gets_an_answer(language, text):
    answer(PARSERS[language], text, {})


@FUZZ
@given(st.sampled_from("+-*/").flatmap(lambda sign: st.just(sign)), VALUES, VALUES)
def test_any_values_can_be_combined(sign, left, right):
    for operator in (sign, "**", "=", "<", "in"):
        answer(parse_feel, f"a {operator} x", {"a": left, "x": right})


MODEL = b"""<definitions xmlns="https://www.omg.org/spec/DMN/20191111/MODEL/" namespace="n">
<inputData id="i" name="x"><variable name="x" typeRef="number"/></inputData>
<decision id="d" name="D">
<informationRequirement><requiredInput href="#i"/></informationRequirement>
<decisionTable hitPolicy="COLLECT" aggregation="SUM"><input><inputExpression><text>x</text>
</inputExpression></input><output name="o"/><rule><inputEntry><text>&lt; 5</text></inputEntry>
<outputEntry><text>1</text></outputEntry></rule></decisionTable></decision></definitions>"""
EDITS = st.lists(
    st.tuples(
        st.integers(0, len(MODEL)),
        st.integers(0, 30),
        st.binary(max_size=6) | st.sampled_from([b"<rule>", b"</text>", b"'", b'"', b"&#0;", b"<"]),
    ),
    max_size=4,
)


@FUZZ
@given(EDITS)
def test_any_edit_of_a_file_gets_an_answer(edits):
    data = MODEL
    for place, length, inserted in edits:
        data = data[:place] + inserted + data[place + length :]

    with contextlib.suppress(HoldfastError):
        model = dmn.load(data)
        assert all(problem.message and problem.line for problem in model.problems)
        for decision in model.decisions:
            with contextlib.suppress(HoldfastError):
                model.evaluate(decision, {"x": 3}, limits=SMALL)
