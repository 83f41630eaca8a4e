"""Rules of decision tables that match the same input are found when the file is read."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import dmn
from holdfast.errors import RulesOverlap
from tests.dmn.files import decision, definitions, table


def model_of(inputs, *rules, policy="UNIQUE", allowed=""):
    rows = [(list(tests), ["1"]) for tests in rules]
    logic = table(policy, inputs, ["out"], rows, allowed=allowed)
    return dmn.load(definitions(decision("D", logic)))


def warnings_of(inputs, *rules, **options):
    model = model_of(inputs, *rules, **options)
    assert not any(problem.is_error for problem in model.problems)
    return [problem.message for problem in model.problems if problem.code == "rules-overlap"]


@pytest.mark.parametrize(
    "first, second, example",
    [
        ("< 10", ">= 9", "x = 9"),
        ("> 1", "< 2", "x = 1.5"),
        ("[1..5]", "[5..9]", "x = 5"),
        ("-", "7", "x = 7"),
        ("1, 2, 3", "3, 4", "x = 3"),
        ('"a", "b"', '"b"', 'x = "b"'),
        ('not("a")', 'not("b")', 'x = "another value"'),
        ("true", "-", "x = true"),
        ('< date("2026-01-05")', '> date("2026-01-01")', "x = 2026-01-0"),
        ('@"2026-01-01T10:00:00"', '>= @"2026-01-01T09:00:00"', "x = 2026-01-01T10:00:00"),
        ('< @"PT2H"', '> @"PT1H"', "x = "),
        ("-", "-", ""),
    ],
)
def test_two_rules_that_match_the_same_input_are_a_warning(first, second, example):
    (message,) = warnings_of(["x"], [first], [second])

    assert message.startswith("the rules 1 and 2 match the same input")
    assert example in message


@pytest.mark.parametrize(
    "first, second",
    [
        ("< 10", ">= 10"),
        ("[1..5[", "[5..9]"),
        ("]1..5]", "1"),
        ('"a"', '"b", "c"'),
        ('"a"', 'not("a")'),
        ("true", "false"),
        ('< date("2026-01-05")', '>= date("2026-01-05")'),
        ('<= date("2026-01-05")', '>= date("2026-01-06")'),
        ("< 10", '"a"'),
        ("< limit", "> limit"),
    ],
)
def test_rules_that_exclude_each_other_are_none(first, second):
    assert warnings_of(["x"], [first], [second]) == []


def test_rules_overlap_only_if_all_inputs_do():
    rules = (["< 10", '"a"'], ["> 5", '"b"'], ["[6..7]", '"a"'])

    (message,) = warnings_of(["x", "y"], *rules)

    assert message == 'the rules 1 and 3 match the same input, such as for x = 6, y = "a"'


def test_columns_of_the_same_input_have_the_same_value():
    assert warnings_of(["x", "x"], ["> 5", "-"], ["-", "< 5"]) == []
    assert len(warnings_of(["x", "x"], ["> 5", "-"], ["-", "< 7"])) == 1


def test_inputs_that_depend_on_each_other_are_not_examined():
    assert warnings_of(["x", "x + 1"], ["5", "-"], ["-", "3"]) == []


def test_allowed_values_and_other_policies_need_no_warning():
    assert warnings_of(["x"], ['not("a")'], ['not("b")'], allowed='"a", "b"') == []
    assert warnings_of(["x"], ["-"], ["-"], policy="FIRST") == []


def test_a_large_table_is_read_in_short_time_and_reports_ten_pairs():
    rules = [[f"[{number}..{number + 1}]"] for number in range(100)]

    assert len(warnings_of(["x"], *rules)) == 10


TESTS = st.sampled_from(
    ["-", "< 3", "<= 3", "> 2", ">= 5", "[1..4]", "]1..4[", "4", "2, 6", "not(3)", "not(< 5)"]
)


@given(rules=st.lists(st.tuples(TESTS, TESTS), min_size=2, max_size=5))
@settings(max_examples=60, deadline=None)
def test_a_table_without_a_warning_never_overlaps(rules):
    model = model_of(["x", "y"], *rules)
    has_warning = any(problem.code == "rules-overlap" for problem in model.problems)

    overlaps = False
    for x in range(8):
        for y in range(8):
            try:
                model.evaluate("D", {"x": x, "y": y})
            except RulesOverlap:
                overlaps = True

    assert overlaps <= has_warning
