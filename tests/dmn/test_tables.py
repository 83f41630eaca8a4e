"""Decision tables: hit policies, outputs, allowed values, and the tables of the shared cases."""

import pytest

from holdfast import dmn
from holdfast.errors import ModelRefused, RulesDisagree, RulesOverlap
from tests.core.expressions.feel_cases import CASES, cases, decoded, needs_cases, same
from tests.dmn.files import decision, definitions, literal, table

RULES = [
    (["< 10"], ['"small"', "1"]),
    (["> 5"], ['"big"', "2"]),
    (["[6..8]"], ['"middle"', "3"]),
]


def outcome(policy, x, outputs=1, rules=RULES, **options):
    names = ["size", "rank"][:outputs]
    rows = [(tests, values[-outputs:] if outputs == 1 else values) for tests, values in rules]
    model = dmn.load(definitions(decision("d", table(policy, ["x"], names, rows, **options))))
    return model.evaluate("d", {"x": x})


@needs_cases
@pytest.mark.parametrize("case", cases("tables.json"), ids=lambda case: case["id"])
def test_the_tables_of_the_compatibility_kit_have_their_values(case):
    model = dmn.load(CASES / case["model"])

    result = model.evaluate(case["decision"], decoded(case["inputs"]))

    assert same(result, decoded(case["expected"]))


@pytest.mark.parametrize(
    ("policy", "x", "options", "expected"),
    [
        ("UNIQUE", 3, {}, 1),
        ("UNIQUE", 12, {}, 2),
        ("FIRST", 7, {}, 1),
        ("RULE ORDER", 7, {}, [1, 2, 3]),
        ("COLLECT", 7, {}, [1, 2, 3]),
        ("COLLECT", 7, {"aggregation": "SUM"}, 6),
        ("COLLECT", 7, {"aggregation": "MIN"}, 1),
        ("COLLECT", 7, {"aggregation": "MAX"}, 3),
        ("COLLECT", 7, {"aggregation": "COUNT"}, 3),
        ("PRIORITY", 7, {"ranking": "3, 1, 2"}, 3),
        ("OUTPUT ORDER", 7, {"ranking": "3, 1, 2"}, [3, 1, 2]),
        ("UNIQUE", None, {}, None),
        ("UNIQUE", None, {"default": "99"}, 99),
        ("COLLECT", None, {}, []),
        ("COLLECT", None, {"aggregation": "COUNT"}, 0),
        ("COLLECT", None, {"aggregation": "SUM"}, None),
        ("UNIQUE", 12, {"allowed": "< 10"}, None),
        ("UNIQUE", 3, {"allowed": "< 10"}, 1),
    ],
)
def test_a_hit_policy_combines_the_rules_that_match(policy, x, options, expected):
    assert outcome(policy, x, **options) == expected


def test_several_outputs_are_a_context():
    assert outcome("FIRST", 7, outputs=2) == {"size": "small", "rank": 1}
    assert outcome("COLLECT", 12, outputs=2) == [{"size": "big", "rank": 2}]


def test_rules_that_overlap_under_unique_are_refused_by_name():
    with pytest.raises(RulesOverlap) as caught:
        outcome("UNIQUE", 7)

    assert caught.value.facts["rules"] == "1, 2, 3"


def test_rules_of_any_must_agree():
    agreeing = [(["< 10"], ["1"]), (["> 5"], ["1"])]

    assert outcome("ANY", 7, rules=agreeing) == 1
    with pytest.raises(RulesDisagree, match="rules=1, 2, 3"):
        outcome("ANY", 7)


def test_outputs_and_tests_may_be_expressions():
    rules = [(["? > limit and ? < limit * 10"], ["x * factor"]), (["not(> limit)"], ["0"])]
    model = dmn.load(definitions(decision("d", table("UNIQUE", ["x"], ["o"], rules))))

    assert model.evaluate("d", {"x": 7, "limit": 5, "factor": 3}) == 21
    assert model.evaluate("d", {"x": 3, "limit": 5, "factor": 3}) == 0


@pytest.mark.parametrize(
    ("logic", "code"),
    [
        (table("BEST", ["x"], ["o"], []), "bad-hit-policy"),
        (table("COLLECT", ["x"], ["a", "b"], [], aggregation="SUM"), "bad-hit-policy"),
        (table("UNIQUE", ["x"], ["o"], [(["1", "2"], ["3"])]), "bad-rule"),
        (table("UNIQUE", ["x"], ["o"], [(["1 +"], ["3"])]), "bad-expression"),
        (table("UNIQUE", ["x +"], ["o"], [(["1"], ["3"])]), "bad-expression"),
        (table("UNIQUE", ["x"], ["o"], [(["1"], ["(3"])]), "bad-expression"),
        (table("UNIQUE", ["x"], [], []), "missing-output"),
        (literal("1 +"), "bad-expression"),
        (
            '<literalExpression expressionLanguage="groovy"><text>1</text></literalExpression>',
            "unknown-language",
        ),
        (
            "<context><contextEntry><variable name='a'/></contextEntry></context>",
            "missing-expression",
        ),
        ("<functionDefinition kind='Java'/>", "unknown-language"),
    ],
)
def test_all_problems_are_named_with_their_line(logic, code):
    model = dmn.load(definitions("<extensionElements/>", decision("d", logic)))

    assert [(problem.code, problem.line) for problem in model.problems] == [(code, 3)]
    with pytest.raises(ModelRefused) as caught:
        model.evaluate("d", {"x": 1})
    assert caught.value.problems == model.problems
