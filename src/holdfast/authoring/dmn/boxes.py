"""Boxed expressions of DMN: elements to functions of the scope.

Everything that cannot be read becomes a problem with its line; the box is then None, and the
decision cannot be evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.authoring.dmn.model import Box
from holdfast.authoring.dmn.overlaps import TableColumn, find_overlaps
from holdfast.authoring.dmn.table import (
    DecisionTable,
    HitPolicy,
    TableInput,
    TableOutput,
    TableRule,
)
from holdfast.authoring.dmn.types import TypeTable
from holdfast.authoring.dmn.xml import DmnElement
from holdfast.core.expressions.feel import parse_feel, parse_unary_tests
from holdfast.core.expressions.feel_calls import function_value
from holdfast.core.expressions.feel_evaluation import compile_feel, filter_values, iterate
from holdfast.core.expressions.scope import Scope
from holdfast.core.expressions.tree import Expression, TypeOf, UnaryTests
from holdfast.core.expressions.values import FeelFunction
from holdfast.core.problems import Problem, Severity
from holdfast.errors import BadExpression

_FEEL = ("feel", "FEEL")
_BUILT_IN_TYPES = ("string", "Any")
"""The types of texts without declared values."""
_AGGREGATIONS = ("", "SUM", "MIN", "MAX", "COUNT")


class BoxReader:
    """Reads the boxed expressions of one file."""

    def __init__(self, path: str, names: frozenset[str], language: str) -> None:
        self.path: str = path
        self.names: frozenset[str] = names
        self.language: str = language
        self.problems: list[Problem] = []
        self.types: TypeTable = TypeTable({})
        self.depth: int = 0
        """The levels of the deepest expression that was read."""

    def problem(self, element: DmnElement, code: str, message: str, hint: str = "") -> None:
        """Add an error at an element."""
        self._add(element, code, message, hint, Severity.ERROR)

    def warning(self, element: DmnElement, code: str, message: str, hint: str = "") -> None:
        """Add a warning at an element."""
        self._add(element, code, message, hint, Severity.WARNING)

    def _add(
        self, element: DmnElement, code: str, message: str, hint: str, severity: Severity
    ) -> None:
        problem = Problem(
            path=self.path,
            line=element.line,
            column=1,
            severity=severity,
            code=code,
            message=message,
            hint=hint,
        )
        self.problems.append(problem)

    def box_in(self, element: DmnElement | None) -> Box | None:
        """Return the boxed expression inside an element, None if there is none."""
        if element is None:
            return None
        child = element.first(*_BOXES)
        if child is None:
            return None
        return self.box(child)

    def box(self, element: DmnElement) -> Box | None:
        """Return a boxed expression."""
        box = _BOXES[element.tag](self, element)
        type_name = type_of(element)
        if box is None or not type_name:
            return box
        return self.typed(box, type_name)

    def needed(self, element: DmnElement | None, parent: DmnElement, part: str) -> Box:
        """Return the box inside an element; a problem if it is missing."""
        box = self.box_in(element)
        if box is None:
            self.problem(parent, "missing-expression", f"{part} has no expression")
            return _null
        return box

    def typed(self, box: Box, type_name: str) -> Box:
        """Return a box whose value is converted to a type."""

        def typed(scope: Scope) -> Any:
            return self.types.coerced(box(scope), type_name, scope)

        return typed

    # Texts

    def feel(self, element: DmnElement, text: str) -> Box | None:
        """Return an expression of FEEL."""
        return self._parsed(element, text, parse_feel)

    def tests(self, element: DmnElement, text: str) -> Box | None:
        """Return unary tests, as a function of a scope with the variable ``?``."""
        return self._parsed(element, text, parse_unary_tests)

    def _parsed(
        self,
        element: DmnElement,
        text: str,
        parse: Callable[[str, frozenset[str]], Expression],
    ) -> Box | None:
        language = element.get("expressionLanguage") or self.language
        if language and not language.rstrip("/").endswith(_FEEL):
            hint = "write the expression in FEEL"
            self.problem(element, "unknown-language", f"`{language}` is not understood", hint)
            return None
        try:
            expression = parse(text, self.names)
        except BadExpression as error:
            self.problem(element, "bad-expression", f"`{text}`: {error.facts.get('why')}")
            return None
        self.depth = max(self.depth, expression.depth)
        return compile_feel(expression.tree)

    def _literal(self, element: DmnElement) -> Box | None:
        text = element.content()
        if not text:
            return _null
        return self.feel(element, text)

    # Tables

    def _table(self, element: DmnElement) -> Box | None:
        policy = element.get("hitPolicy", HitPolicy.UNIQUE)
        aggregation = element.get("aggregation")
        if policy not in list(HitPolicy) or aggregation not in _AGGREGATIONS:
            message = f"the hit policy `{policy} {aggregation}`".rstrip("` ") + "` does not exist"
            self.problem(element, "bad-hit-policy", message)
            return None
        inputs = list(element.all("input"))
        outputs = list(element.all("output"))
        if not outputs:
            self.problem(element, "missing-output", "the table has no output")
        if aggregation and len(outputs) > 1:
            message = f"{aggregation} needs a table with one output"
            self.problem(element, "bad-hit-policy", message)
        errors = len(self.problems)
        table = DecisionTable(
            name=element.get("outputLabel") or element.get("id"),
            policy=HitPolicy(policy),
            aggregation=aggregation,
            inputs=tuple(self._table_input(child) for child in inputs),
            outputs=tuple(self._table_output(child) for child in outputs),
            rules=tuple(
                self._table_rule(rule, len(inputs), outputs) for rule in element.all("rule")
            ),
        )
        if table.policy is HitPolicy.UNIQUE and len(self.problems) == errors:
            self._check_overlaps(element, inputs)
        return table

    def _check_overlaps(self, element: DmnElement, inputs: list[DmnElement]) -> None:
        """Warn of rules that match the same input."""
        rules = list(element.all("rule"))
        tests = [[entry.content() for entry in rule.all("inputEntry")] for rule in rules]
        columns = [
            _column(child, tuple(row[place] for row in tests)) for place, child in enumerate(inputs)
        ]
        for overlap in find_overlaps(columns, self.names):
            example = f", such as for {overlap.example}" if overlap.example else ""
            self.warning(
                rules[overlap.second - 1],
                "rules-overlap",
                f"the rules {overlap.first} and {overlap.second} match the same input{example}",
                "narrow one of them, or choose another hit policy",
            )

    def _table_input(self, element: DmnElement) -> TableInput:
        expression = element.first("inputExpression")
        value: Box | None = None
        if expression is not None and expression.content():
            value = self.feel(expression, expression.content())
            if value is not None and expression.get("typeRef"):
                value = self.typed(value, type_of(expression))
        elif element.get("label"):
            value = self.feel(element, element.get("label"))
        else:
            self.problem(element, "missing-expression", "the input has no expression")
        return TableInput(
            value=value or _null,
            allowed=self.allowed(element.first("inputValues")),
            variable=element.get("camunda:inputVariable"),
        )

    def allowed(self, element: DmnElement | None) -> Box | None:
        """Return the test of allowed values, None if there are none."""
        if element is None or not element.content():
            return None
        return self.tests(element, element.content())

    def _table_output(self, element: DmnElement) -> TableOutput:
        default = element.first("defaultOutputEntry")
        default_box = None
        if default is not None:
            default_box = self._literal(default)
        return TableOutput(
            name=element.get("name") or element.get("label") or element.get("id"),
            default=default_box,
            ranking=self._ranking(element.first("outputValues")),
        )

    def _ranking(self, element: DmnElement | None) -> tuple[Box, ...]:
        if element is None or not element.content():
            return ()
        try:
            tree = parse_unary_tests(element.content(), self.names).tree
        except BadExpression as error:
            why = error.facts.get("why")
            self.problem(element, "bad-expression", f"`{element.content()}`: {why}")
            return ()
        assert isinstance(tree, UnaryTests)
        return tuple(compile_feel(test) for test in tree.tests)

    def _table_rule(self, element: DmnElement, inputs: int, outputs: list[DmnElement]) -> TableRule:
        tests = list(element.all("inputEntry"))
        values = list(element.all("outputEntry"))
        if len(tests) != inputs or len(values) != len(outputs):
            message = (
                f"the rule has {len(tests)} tests and {len(values)} outputs, "
                f"the table {inputs} and {len(outputs)}"
            )
            self.problem(element, "bad-rule", message)
        return TableRule(
            tests=tuple(self.tests(test, test.content()) or _null for test in tests),
            outputs=tuple(self._rule_output(*pair) for pair in zip(values, outputs, strict=False)),
        )

    def _rule_output(self, entry: DmnElement, output: DmnElement) -> Box:
        box = self._literal(entry) or _null
        if output.get("typeRef"):
            return self.typed(box, type_of(output))
        return box

    # Boxes of other kinds

    def _context(self, element: DmnElement) -> Box | None:
        entries: list[tuple[str, Box]] = []
        for entry in element.all("contextEntry"):
            variable = entry.first("variable")
            name = ""
            if variable is not None:
                name = variable.get("name")
            box = self.needed(entry, entry, f"the entry `{name}`")
            if variable is not None and type_of(variable):
                box = self.typed(box, type_of(variable))
            entries.append((name, box))
        return _context_box(entries)

    def _list(self, element: DmnElement) -> Box | None:
        boxes = [self.box(child) or _null for child in element.all(*_BOXES)]

        def list_box(scope: Scope) -> Any:
            return [box(scope) for box in boxes]

        return list_box

    def _relation(self, element: DmnElement) -> Box | None:
        columns = [column.get("name") for column in element.all("column")]
        rows = []
        for row in element.all("row"):
            boxes = [self.box(child) or _null for child in row.all(*_BOXES)]
            if len(boxes) != len(columns):
                message = f"the row has {len(boxes)} values, the relation {len(columns)} columns"
                self.problem(row, "bad-row", message)
            rows.append(boxes)

        def relation(scope: Scope) -> Any:
            return [
                {name: box(scope) for name, box in zip(columns, row, strict=False)} for row in rows
            ]

        return relation

    def _invocation(self, element: DmnElement) -> Box | None:
        function = self.needed(element, element, "the invocation")
        bindings: list[tuple[str, Box]] = []
        for binding in element.all("binding"):
            parameter = binding.first("parameter")
            if parameter is None:
                self.problem(binding, "missing-parameter", "the binding names no parameter")
                continue
            bindings.append((parameter.get("name"), self.box_in(binding) or _null))

        def invocation(scope: Scope) -> Any:
            target = function(scope)
            if not isinstance(target, FeelFunction):
                return None
            values = {name: box(scope) for name, box in bindings}
            if not values.keys() <= {name for name, _ in target.parameters}:
                return None
            return target.call([values.get(name) for name, _ in target.parameters])

        return invocation

    def _function(self, element: DmnElement) -> Box | None:
        if element.get("kind", "FEEL") != "FEEL":
            message = f"a function of kind {element.get('kind')} cannot be called"
            self.problem(element, "unknown-language", message, "write it in FEEL")
            return None
        outer = self.depth
        self.depth = 0
        body = self.needed(element, element, "the function")
        depth = self.depth + 10
        self.depth = max(outer, self.depth)
        parameters = self.parameters(element)

        def function(scope: Scope) -> Any:
            return function_value(parameters, body, depth, scope)

        return function

    def parameters(self, element: DmnElement) -> tuple[tuple[str, TypeOf | None], ...]:
        """Return the formal parameters of a function."""
        parameters: list[tuple[str, TypeOf | None]] = []
        for parameter in element.all("formalParameter"):
            type_name = type_of(parameter)
            parameter_type = None
            if type_name and type_name != "Any":
                parameter_type = TypeOf(type_name)
            parameters.append((parameter.get("name"), parameter_type))
        return tuple(parameters)

    def _conditional(self, element: DmnElement) -> Box | None:
        test = self.needed(element.first("if"), element, "`if`")
        then = self.needed(element.first("then"), element, "`then`")
        otherwise = self.needed(element.first("else"), element, "`else`")

        def conditional(scope: Scope) -> Any:
            if test(scope) is True:
                return then(scope)
            return otherwise(scope)

        return conditional

    def _filter(self, element: DmnElement) -> Box | None:
        values = self.needed(element.first("in"), element, "`in`")
        match = self.needed(element.first("match"), element, "`match`")

        def filtered(scope: Scope) -> Any:
            return filter_values(values(scope), match, scope)

        return filtered

    def _loop(self, element: DmnElement) -> Box | None:
        values = self.needed(element.first("in"), element, "`in`")
        result = element.first("return", "satisfies")
        body = self.needed(result, element, "`return` or `satisfies`")
        return iterate(element.tag, element.get("iteratorVariable"), values, body)


def _context_box(entries: list[tuple[str, Box]]) -> Box:
    def context_box(scope: Scope) -> Any:
        context: dict[str, Any] = {}
        inner = scope.inner(context)
        for name, box in entries:
            value = box(inner)
            if not name:
                return value
            context[name] = value
        return context

    return context_box


def _null(scope: Scope) -> Any:
    return None


def _column(element: DmnElement, tests: tuple[str, ...]) -> TableColumn:
    """Return an input of a table, with the tests of its rules."""
    expression = element.first("inputExpression")
    values = element.first("inputValues")
    text = "" if expression is None else expression.content()
    type_name = "" if expression is None else expression.get("typeRef")
    return TableColumn(
        expression=text or element.get("label"),
        tests=tests,
        allowed="" if values is None else values.content(),
        variable=element.get("camunda:inputVariable"),
        is_open=not type_name or type_name.rpartition(":")[2] in _BUILT_IN_TYPES,
    )


def type_of(element: DmnElement) -> str:
    """Return the type that an element names, without the prefix of its namespace."""
    name = element.get("typeRef") or element.content("typeRef")
    return name.rpartition(":")[2]


_BOXES: dict[str, Callable[[BoxReader, DmnElement], Box | None]] = {
    "literalExpression": BoxReader._literal,
    "decisionTable": BoxReader._table,
    "context": BoxReader._context,
    "list": BoxReader._list,
    "relation": BoxReader._relation,
    "invocation": BoxReader._invocation,
    "functionDefinition": BoxReader._function,
    "conditional": BoxReader._conditional,
    "filter": BoxReader._filter,
    "for": BoxReader._loop,
    "every": BoxReader._loop,
    "some": BoxReader._loop,
}
