"""Conditions of `.wf` texts: names with hyphens, null for missing values, no mixing of types."""

import pytest

from holdfast.core.expressions.conditions import parse_condition
from holdfast.core.expressions.evaluate import evaluate, evaluate_condition
from holdfast.core.expressions.limits import ExpressionLimits
from holdfast.core.expressions.references import references
from holdfast.errors import BadExpression, ExpressionFailed

VARIABLES = {
    "count": 5,
    "level": "high",
    "names": ["ann", "bob"],
    "judge": {"output": {"score": 70, "notes": ["a", "b"]}, "markers": ["approved"]},
    "my-scan": {"has_findings": False, "status": "completed"},
    "nothing": None,
}


def value(text, **variables):
    return evaluate(parse_condition(text), {**VARIABLES, **variables})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count > 3 and judge.output.score < 75 and not my-scan.has_findings", True),
        ("count - 3", 2),
        ("1 + 2 * 3 - 4 / 2", 5),
        ("7 % 4", 3),
        ("-count + 10", 5),
        ("7 / 2", 3.5),
        ("2.5 * 2", 5.0),
        ('"a" in names or "bob" in names', True),
        ('"approved" in judge.markers', True),
        ("judge.output.notes[1]", "b"),
        ("judge.output.notes[9]", None),
        ("judge.output.missing", None),
        ("missing", None),
        ("missing.output.field", None),
        ("missing == null", True),
        ('count == "5"', False),
        ('count != "5"', True),
        ("true == 1", False),
        ("[1, 2] == [1, 2]", True),
        ("length(names) == 2 and length(level) == 4", True),
        ('upper(level) + lower("X")', "HIGHx"),
        ('starts_with(level, "hi") and ends_with(level, "gh")', True),
        ('number("12") + number("0.5")', 12.5),
        ("string(count)", "5"),
        ("min(3, 1, 2) + max([1, 9]) + sum([1, 2, 3])", 16),
        ("not not true", True),
        ("(count) >= 5", True),
        ('"a\\"b"', 'a"b'),
        ("1 < 2 or missing > 1", True),
    ],
)
def test_an_expression_has_the_value_of_its_operators(text, expected):
    result = value(text)

    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("", 0),
        ("count >", 7),
        ("count > > 3", 8),
        ("count = 3", 6),
        ("open(count)", 0),
        ("count and or", 10),
        ("(count > 3", 10),
        ("count > 3)", 9),
        ('"open', 0),
        ("1 < 2 < 3", 6),
        ("a.", 2),
        ("a ? b", 2),
        ("[1 2]", 3),
        ("judge.output.score > 3 $", 23),
        ("in", 0),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_at_its_first_wrong_token(text, offset):
    with pytest.raises(BadExpression) as caught:
        parse_condition(text)

    assert caught.value.facts["offset"] == offset
    assert caught.value.facts["why"]


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ('count < "a"', 6),
        ("missing < 3", 8),
        ("null + 1", 5),
        ("count / 0", 6),
        ("count and true", 6),
        ("level.field", 5),
        ('number("x")', 0),
        ("length(5)", 0),
        ("lower(5)", 0),
        ("sum([1, level])", 0),
        ("count in 5", 6),
        ("-level", 0),
    ],
)
def test_values_that_do_not_fit_fail_with_their_place(text, offset):
    with pytest.raises(ExpressionFailed) as caught:
        value(text)

    assert caught.value.facts["offset"] == offset
    assert caught.value.facts["expression"] == text


def test_a_condition_must_be_true_or_false():
    assert evaluate_condition(parse_condition("count > 3"), VARIABLES) is True

    with pytest.raises(ExpressionFailed, match="neither true nor false"):
        evaluate_condition(parse_condition("count"), VARIABLES)


def test_references_tell_every_name_with_its_place():
    uses = references(parse_condition("count > 3 and my-scan.output.x[count] == lower(level)"))

    assert [(use.path, use.offset) for use in uses] == [
        (("count",), 0),
        (("my-scan", "output", "x"), 14),
        (("count",), 31),
        (("level",), 47),
    ]


def test_an_expression_is_hashable_and_equal_to_the_same_text():
    first = parse_condition("count > 3")

    assert first == parse_condition("count > 3")
    assert first != parse_condition("count > 4")
    assert {first: 1}[parse_condition("count > 3")] == 1


@pytest.mark.parametrize(
    "text",
    ["(" * 5000 + "1" + ")" * 5000, "-" * 5000 + "1", "not " * 5000 + "true", "a" + "[0]" * 5000],
)
def test_deep_nesting_is_refused_by_name(text):
    with pytest.raises(BadExpression, match="nested deeper than 64"):
        parse_condition(text)


def test_a_long_chain_is_not_deep():
    assert value(" + ".join(["1"] * 5000)) == 5000
    assert value(" or ".join(["false"] * 4000)) is False


def test_length_and_size_are_limited():
    with pytest.raises(BadExpression, match="the limit is 10"):
        parse_condition("1 + 1 + 1 + 1", ExpressionLimits(length=10))
    with pytest.raises(ExpressionFailed, match="too large"):
        value(" * ".join(["9999999999"] * 40))
    with pytest.raises(BadExpression, match="more than 1000 characters"):
        small = ExpressionLimits(size=1000)
        evaluate(parse_condition("text + text"), {"text": "x" * 600}, limits=small)
