"""JUEL as people write it in models: operators, fields, methods of a fixed table, nothing else."""

from datetime import datetime

import pytest

from holdfast.core.expressions.evaluate import evaluate, evaluate_condition
from holdfast.core.expressions.juel import parse_juel
from holdfast.errors import BadExpression, ExpressionFailed, VariableMissing

VARIABLES = {
    "amount": 120,
    "price": 2.5,
    "name": "Ann",
    "approved": True,
    "text": "true",
    "order": {"items": [{"sku": "a", "count": 2}], "customer": {"city": "Oslo"}},
    "nothing": None,
    "tags": ["x", "y"],
    "blank": "",
}


def value(text):
    return evaluate(parse_juel(text), VARIABLES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${amount > 100 && approved}", True),
        ("${amount gt 100 and not approved}", False),
        ("${amount == 120 || missing}", True),
        ("${!approved or amount le 120}", True),
        ("#{amount * 2 - 40 / 4}", 230.0),
        ("${amount % 7}", 1),
        ("${-amount}", -120),
        ("${approved ? 'yes' : 'no'}", "yes"),
        ("${amount > 200 ? 'a' : amount > 100 ? 'b' : 'c'}", "b"),
        ("${order.items[0].sku}", "a"),
        ("${order['customer'].city == 'Oslo'}", True),
        ("${order.getCustomer().getCity()}", "Oslo"),
        ("${order.missing}", None),
        ("${order.missing == null}", True),
        ("${empty nothing}", True),
        ("${empty blank && empty order.missing}", True),
        ("${not empty tags}", True),
        ("${amount == '120'}", True),
        ("${text == true}", True),
        ("${name == 'Ann'}", True),
        ("${name eq 'Bob'}", False),
        ("${name.equals('Ann')}", True),
        ("${name.toUpperCase().startsWith('AN')}", True),
        ("${name.equalsIgnoreCase('ann')}", True),
        ("${name.substring(1, 3)}", "nn"),
        ("${name.length() + tags.size()}", 5),
        ("${tags.contains('x')}", True),
        ("${order.containsKey('items')}", True),
        ("${execution.getVariable('amount') > 100}", True),
        ("${execution.getVariable('missing') == null}", True),
        ("${execution.hasVariable('missing')}", False),
        ("${vars:getOrDefault('missing', 7)}", 7),
        ("${vars:equals('name', 'Ann')}", True),
        ("${nothing > 5}", False),
        ("Dear ${name}, ${amount}!", "Dear Ann, 120!"),
        ("no expression", "no expression"),
        ("\\${name} is ${name}", "${name} is Ann"),
        ("${'it\\'s'}", "it's"),
        ('${"}"}', "}"),
        (" ${amount} ", 120),
        ("${1.5e2}", 150.0),
    ],
)
def test_an_expression_has_the_value_of_its_operators(text, expected):
    result = value(text)

    assert result == expected
    assert type(result) is type(expected)


def test_the_time_is_a_parameter():
    now = datetime(2026, 1, 1)

    assert evaluate(parse_juel("${now()}"), {}, now=now) == now
    with pytest.raises(ExpressionFailed, match="time is not known"):
        evaluate(parse_juel("${now()}"), {})


@pytest.mark.parametrize("text", ["${missing}", "${missing > 5}", "${nothing.field}"])
def test_a_variable_without_a_value_is_an_error_of_its_own(text):
    with pytest.raises(VariableMissing) as caught:
        value(text)

    assert isinstance(caught.value.facts["offset"], int)


@pytest.mark.parametrize(
    "text",
    ["${name > 5}", "${name + 1}", "${tags * 2}", "${amount / 0}", "${tags && true}", "${name.x}"],
)
def test_values_that_do_not_fit_fail(text):
    with pytest.raises(ExpressionFailed):
        value(text)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("${amount", 0),
        ("${}", 2),
        ("${amount >}", 10),
        ("${a b}", 4),
        ("${bean.doWork()}", 7),
        ("${doWork(amount)}", 2),
        ("${execution.setVariable('a', 1)}", 12),
        ("${name.getClass().forName('x')}", 18),
        ("${a ? b}", 7),
        ("${'open}", 2),
        ("${a = 1}", 4),
        ("ok ${1} and ${2 +}", 17),
        ("${a[1}", 5),
        ("${and}", 2),
    ],
)
def test_a_text_that_cannot_be_read_is_refused_with_its_place(text, offset):
    with pytest.raises(BadExpression) as caught:
        parse_juel(text)

    assert caught.value.facts["offset"] == offset


def test_no_attribute_of_python_can_be_reached():
    assert value("${order.__class__}") is None
    for text in ("${name.__class__}", "${tags.__class__}", "${tags['__class__']}"):
        with pytest.raises(ExpressionFailed):
            value(text)


def test_a_condition_must_be_true_or_false():
    assert evaluate_condition(parse_juel("${approved}"), VARIABLES) is True
    with pytest.raises(ExpressionFailed, match="neither true nor false"):
        evaluate_condition(parse_juel("${amount}"), VARIABLES)


@pytest.mark.parametrize(
    "text",
    [
        "${" + "(" * 3000 + "1" + ")" * 3000 + "}",
        "${" + "!" * 3000 + "a}",
        "${a" + ".b" * 3000 + "}",
    ],
)
def test_deep_nesting_is_refused_by_name(text):
    with pytest.raises(BadExpression, match="nested deeper than 64"):
        parse_juel(text)
