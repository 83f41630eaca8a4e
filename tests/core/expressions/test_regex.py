"""Regular expressions of FEEL: the language of XPath, in bounded time."""

import contextlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.expressions.evaluate import evaluate
from holdfast.core.expressions.feel import parse_feel
from holdfast.core.expressions.limits import ExpressionLimits
from holdfast.core.expressions.regex_machine import search
from holdfast.core.expressions.regex_parser import BadPattern, compile_pattern
from holdfast.core.expressions.scope import Evaluation
from holdfast.errors import BadExpression

ATOMS = ["a", "b", "[ab]", "(a)", "(?:ab)", ".", "(a|b)", "[^a]", "[a-b]", "(?:^)", "(?:$)", r"\w"]
COUNTS = ["", "*", "+", "?", "{1,2}", "{2}", "{0,}", "*?", "+?", "|"]
PARTS = st.lists(st.tuples(st.sampled_from(ATOMS), st.sampled_from(COUNTS)), min_size=1, max_size=5)


def evaluation():
    return Evaluation("", ExpressionLimits(), None)


@settings(max_examples=300, deadline=None)
@given(PARTS, st.text("abc\n", max_size=8))
def test_a_pattern_finds_the_match_that_python_finds(parts, text):
    pattern = "".join(atom + count for atom, count in parts)
    program = compile_pattern(pattern, "")

    groups = search(program, text, 0, evaluation())

    # Python's $ also matches before a last line feed; that of XPath does not.
    match = re.search(pattern.replace("$", r"\Z").replace(".", "[^\n\r]"), text)
    assert (groups and groups[:2]) == (match and match.span())


@settings(max_examples=300, deadline=None)
@given(st.text("ab()[]{}*+?|\\^$.-,0129pPdsLIs&", max_size=20), st.text("ab", max_size=10))
def test_any_pattern_gets_an_answer(pattern, text):
    with contextlib.suppress(BadPattern, BadExpression):
        search(compile_pattern(pattern, ""), text, 0, evaluation())


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|aa)*b", "(a*)*b", "(a|a)*c", "(.*)(.*)(.*)x"])
def test_no_pattern_takes_exponential_time(pattern):
    small = ExpressionLimits(steps=50_000)
    expression = parse_feel("matches(text, pattern)")
    try:
        result = evaluate(expression, {"text": "a" * 300, "pattern": pattern}, limits=small)
    except BadExpression as error:
        assert "steps" in str(error)
    else:
        assert result is (pattern == "^(a+)+$")


def test_back_references_are_bounded_by_steps():
    expression = parse_feel('matches(text, "(a*)*\\\\1b")')

    with pytest.raises(BadExpression, match="steps"):
        evaluate(expression, {"text": "a" * 2000})


def test_a_program_that_would_be_large_is_refused():
    for pattern in ("(a{1000}){1000}", "a{999999}", "(" * 100 + ")" * 100, "((a{99}){99}){99}"):
        with pytest.raises(BadPattern):
            compile_pattern(pattern, "")
