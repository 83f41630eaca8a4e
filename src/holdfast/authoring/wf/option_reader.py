"""Read the options of a node by the table of its kind, and report the wrong ones."""

from __future__ import annotations

from typing import Any

from holdfast.authoring.wf.ast import ExpressionCondition, Word
from holdfast.authoring.wf.conditions import expression_fault
from holdfast.authoring.wf.option_syntax import GivenOption
from holdfast.authoring.wf.options import HINTS, OLD_OPTIONS, OPTIONS, REQUIRED, OptionRule
from holdfast.authoring.wf.problems import Code, ProblemCollector
from holdfast.authoring.wf.values import OptionValue, Reader, ValueProblem
from holdfast.core.problems import did_you_mean

_ABSENT = object()


class OptionReader:
    """Turn the options of a text into fields of the tree."""

    __slots__ = ("_problems",)

    def __init__(self, problems: ProblemCollector) -> None:
        self._problems: ProblemCollector = problems

    def read(
        self, kind: str, assigned: list[GivenOption], start: int, label: str
    ) -> dict[str, Any]:
        """Return the fields of a node. A required option that is missing or wrong gets a
        placeholder, so that the rest of the text can be checked."""
        fields: dict[str, Any] = {}
        rules = OPTIONS[kind]
        keys: set[str] = set()
        for key, place, value in assigned:
            rule = rules.get(key)
            if rule is None:
                self._unknown(kind, key, place, label)
                continue
            if key in keys:
                self._problems.warning(
                    place,
                    Code.DUPLICATE_OPTION,
                    f"`{key}` of `{label}` is given twice",
                    "the last value counts",
                )
            keys.add(key)
            self._read_one(rule, value, fields)
        for key in REQUIRED[kind]:
            if key not in keys:
                self._missing(key, start, label)
            if rules[key].field not in fields:
                fields[rules[key].field] = _placeholder(key, start)
        if assigned:
            self._combine(assigned, fields)
        return fields

    def value(self, reader: Reader, value: OptionValue) -> object:
        """Return a value; None with a problem if it is wrong."""
        try:
            return reader(value)
        except ValueProblem as problem:
            self.report(problem)
            return None

    def report(self, problem: ValueProblem) -> None:
        self._problems.error(problem.start, Code.BAD_VALUE, problem.message, problem.hint)

    def check_expression(self, condition: ExpressionCondition) -> None:
        """Report an expression that cannot be parsed, at its first wrong token."""
        fault = expression_fault(condition)
        if fault is not None:
            self._problems.error(fault[0], Code.SYNTAX, f"the condition: {fault[1]}")

    def _read_one(self, rule: OptionRule, value: OptionValue, fields: dict[str, Any]) -> None:
        try:
            fields[rule.field] = rule.read(value)
        except ValueProblem as problem:
            hint = problem.hint or f"`{rule.key}` takes {rule.form}"
            self._problems.error(
                problem.start, Code.BAD_VALUE, f"`{rule.key}`: {problem.message}", hint
            )

    def _unknown(self, kind: str, key: str, place: int, label: str) -> None:
        if self._problems.is_full:
            return
        known = OPTIONS[kind]
        hint = OLD_OPTIONS.get(key) or HINTS.get((kind, key)) or did_you_mean(key, known)
        if not hint:
            listed = ", ".join(f"`{name}`" for name in known)
            hint = f"its options are {listed}" if known else "it has no options"
        self._problems.error(place, Code.UNKNOWN_OPTION, f"`{label}` has no option `{key}`", hint)

    def _missing(self, key: str, start: int, label: str) -> None:
        hint = (
            f'write `{key} = "..."`' if key in ("run", "over", "source") else f"write `{key} = N`"
        )
        self._problems.error(start, Code.MISSING_OPTION, f"`{label}` has no `{key}`", hint)

    def _combine(self, assigned: list[GivenOption], fields: dict[str, Any]) -> None:
        """Apply the rules that concern more than one option, and translate ``continue``."""
        condition = fields.get("condition")
        if isinstance(condition, ExpressionCondition):
            self.check_expression(condition)
        if "on_fail" in fields and fields["on_fail"] is None:
            del fields["on_fail"]
            fields["tolerates"] = True
        if "fail_fast" in fields:
            fields["fail_fast"] = self._fail_fast(assigned, fields["fail_fast"])
        if "retries" in fields and fields.get("retry") is not None:
            self._exclude(assigned, "retry", "retries")
        if fields.get("mode") == "review_decision" and "min_approvals" in fields:
            self._exclude(assigned, "min_approvals", "mode = review_decision")

    def _fail_fast(self, assigned: list[GivenOption], text: str) -> bool:
        if text not in ("true", "false"):
            place = next(value.start for key, _, value in assigned if key == "fail_fast")
            self._problems.warning(
                place,
                Code.BAD_VALUE,
                f"`{text}` means `false` here",
                "write `true` or `false`",
            )
        return text == "true"

    def _exclude(self, assigned: list[GivenOption], key: str, other: str) -> None:
        place = next(place for name, place, _ in assigned if name == key)
        self._problems.error(
            place, Code.BAD_VALUE, f"`{key}` and `{other}` exclude each other", "remove one of them"
        )


def _placeholder(key: str, start: int) -> object:
    return Word("", start) if key in ("run", "over", "source") else 0
