"""Conditions of models in JSON form: texts, numbers where they are ordered, no parentheses."""

import pytest

from holdfast.core.expressions.evaluate import evaluate_condition
from holdfast.core.expressions.text_conditions import parse_text_condition
from holdfast.errors import BadExpression, ExpressionFailed

VARIABLES = {
    "amount": "120",
    "count": 3,
    "status": "open",
    "other": "open",
    "empty": "",
    "no": None,
}


def test_and_binds_more_tightly_than_or():
    condition = parse_text_condition("status == 'x' and amount > 5 or count == 3")

    assert evaluate_condition(condition, VARIABLES) is True


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("status", True),
        ("empty", False),
        ("no", False),
        ("missing", False),
        ("not missing", True),
        ("status == 'open'", True),
        ('status != "closed"', True),
        ("status == other", True),
        ("status == closed", False),
        ("status == open", True),
        ("amount >= 120", True),
        ("amount > -5", True),
        ("amount < '200'", True),
        ("count <= 3", True),
        ("count == 3", True),
        ("missing == 3", False),
        ("status == 'a or b'", False),
        ("${ amount > 100 and status == 'open' }", True),
    ],
)
def test_a_condition_has_the_value_of_its_comparisons(text, expected):
    assert evaluate_condition(parse_text_condition(text), VARIABLES) is expected


@pytest.mark.parametrize(
    "text", ["", "  ", "${}", "a ==", "a==b", "a or ", "(a)", "a == 'x", "= 3"]
)
def test_a_text_that_cannot_be_read_is_refused(text):
    with pytest.raises(BadExpression):
        parse_text_condition(text)


@pytest.mark.parametrize("text", ["status > 3", "missing < 3", "amount > 'x'"])
def test_ordering_needs_numbers(text):
    with pytest.raises(ExpressionFailed, match="is not a number"):
        evaluate_condition(parse_text_condition(text), VARIABLES)
