"""Parse the declarations of a workflow: meta, inputs, outputs, budget and use."""

from __future__ import annotations

import json
import re
from typing import Any

from holdfast.authoring.wf import values
from holdfast.authoring.wf.ast import (
    BudgetLimit,
    FieldRef,
    InputDeclaration,
    OutputDeclaration,
    Word,
)
from holdfast.authoring.wf.cursor import Cursor
from holdfast.authoring.wf.option_reader import OptionReader
from holdfast.authoring.wf.option_syntax import GivenOption, parse_options, parse_value
from holdfast.authoring.wf.problems import Code
from holdfast.authoring.wf.values import ListValue, OptionValue, Scalar, ValueProblem
from holdfast.core.problems import did_you_mean

TYPES = ("string", "number", "boolean", "list")
_AMOUNT = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")
_NUMBER = re.compile(r"-?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?")
_MODIFIERS_WITH_VALUE = ("default", "description", "type", "choices")


class Declarations:
    """The declarations of one workflow, collected while its items are parsed."""

    __slots__ = ("_budget", "_cursor", "_inputs", "_meta", "_options", "_outputs", "_uses")

    def __init__(self, cursor: Cursor, options: OptionReader) -> None:
        self._cursor: Cursor = cursor
        self._options: OptionReader = options
        self._meta: dict[str, Any] = {}
        self._inputs: dict[str, InputDeclaration] = {}
        self._outputs: dict[str, OutputDeclaration] = {}
        self._budget: dict[str, BudgetLimit] = {}
        self._uses: list[Word] = []

    def fields(self) -> dict[str, Any]:
        """Return the fields of the document that the declarations decide."""
        return {
            **self._meta,
            "inputs": tuple(self._inputs.values()),
            "outputs": tuple(self._outputs.values()),
            "budget": tuple(self._budget.values()),
            "uses": tuple(self._uses),
        }

    def parse_next(self) -> bool:
        """Parse a declaration. Return False if the next token begins none. Raises Panic."""
        token = self._cursor.texts[self._cursor.index]
        if token == "meta":
            self._parse_meta()
        elif token == "inputs":
            self._parse_inputs()
        elif token == "budget" and self._cursor.peek(1) == "{":
            self._parse_budget()
        elif token == "outputs" and self._cursor.peek(1) == "{":
            self._parse_outputs()
        elif token == "use" and self._cursor.peek(1)[:1] == '"':
            self._parse_use()
        else:
            return False
        return True

    def _parse_meta(self) -> None:
        assigned, start = self._option_block("`meta`")
        read = self._options.read("meta", assigned, start, "meta")
        trigger = read.get("trigger")
        if trigger in ("pr", "scheduled"):
            place = next(value.start for key, _, value in assigned if key == "trigger")
            self._cursor.problems.warning(
                place,
                Code.TRIGGER,
                f"the trigger `{trigger}` has no effect: the workflow is started by hand",
                "start it from a schedule or a webhook of your own",
            )
        self._meta.update(read)

    def _option_block(self, label: str) -> tuple[list[GivenOption], int]:
        cursor = self._cursor
        start = cursor.start()
        cursor.index += 1
        cursor.open(label, start)
        assigned = parse_options(cursor, label, start)
        cursor.close(label, start)
        return assigned, start

    def _parse_use(self) -> None:
        self._cursor.index += 1
        path = self._cursor.string("a path")
        if not path.text.strip() or path.text.startswith(("/", "\\")):
            problem = ValueProblem(
                path.start,
                f"`{path.text}` is not a path relative to this file",
                'write `use "common/publish.wf"`',
            )
            self._options.report(problem)
        self._uses.append(path)

    def _parse_budget(self) -> None:
        assigned, _ = self._option_block("`budget`")
        for metric, place, value in assigned:
            limit = self._options.value(_amount, value)
            if isinstance(limit, str):
                self._warn_if_twice(metric, place, metric in self._budget, "budget")
                self._budget[metric] = BudgetLimit(start=place, metric=metric, limit=limit)

    def _parse_outputs(self) -> None:
        assigned, _ = self._option_block("`outputs`")
        for name, place, value in assigned:
            source = self._options.value(_output_source, value)
            if isinstance(source, FieldRef | str):
                self._warn_if_twice(name, place, name in self._outputs, "outputs")
                self._outputs[name] = OutputDeclaration(start=place, name=name, value=source)

    def _warn_if_twice(self, name: str, place: int, is_known: bool, label: str) -> None:
        if is_known:
            self._cursor.problems.warning(
                place,
                Code.DUPLICATE_OPTION,
                f"`{name}` of `{label}` is given twice",
                "the last value counts",
            )

    # Inputs

    def _parse_inputs(self) -> None:
        cursor = self._cursor
        start = cursor.start()
        cursor.index += 1
        cursor.open("`inputs`", start)
        while cursor.peek() != "}":
            if cursor.peek() == "," and self._inputs:
                cursor.panic("unexpected `,`", "inputs are separated by blanks")
                cursor.index += 1
            elif not cursor.peek():
                raise cursor.not_closed("`inputs`", start)
            else:
                self._parse_input()
        cursor.close("`inputs`", start)

    def _parse_input(self) -> None:
        cursor = self._cursor
        name = cursor.name("the name of an input")
        if cursor.peek() == "=":
            raise cursor.panic(
                f"unexpected `=` after the input `{name.text}`",
                f'write `{name.text} default = "..."`',
            )
        flags: set[str] = set()
        assigned: dict[str, OptionValue] = {}
        while True:
            token = cursor.peek()
            if token in ("required", "boolean"):
                flags.add(token)
                cursor.index += 1
            elif token in ("default", "description") or self._at_modifier(token):
                cursor.index += 1
                cursor.expect("=", f"`{token}` of the input `{name.text}`")
                assigned[token] = parse_value(cursor, token)
            else:
                break
        self._warn_if_twice(name.text, name.start, name.text in self._inputs, "inputs")
        self._inputs[name.text] = self._input(name, flags, assigned)

    def _at_modifier(self, token: str) -> bool:
        return token in _MODIFIERS_WITH_VALUE and self._cursor.peek(1) == "="

    def _input(
        self, name: Word, flags: set[str], assigned: dict[str, OptionValue]
    ) -> InputDeclaration:
        choices = self._choices(assigned)
        kind = self._type(name, "boolean" in flags, assigned, bool(choices))
        default = self._default(kind, assigned, choices)
        description = ""
        if "description" in assigned:
            description = str(self._options.value(values.text, assigned["description"]) or "")
        is_optional = kind == "boolean" or ("default" in assigned and "required" not in flags)
        if kind == "boolean" and default is None:
            default = "false"
        return InputDeclaration(
            start=name.start,
            name=name.text,
            type=kind,
            required=not is_optional,
            default=default,
            description=description,
            choices=choices,
        )

    def _type(
        self, name: Word, is_boolean: bool, assigned: dict[str, OptionValue], has_choices: bool
    ) -> str:
        """Return the type of an input, and report modifiers that contradict each other."""
        kind = "boolean" if is_boolean else "string"
        declared = assigned.get("type")
        if declared is not None:
            read = self._options.value(values.choice(*TYPES), declared)
            if is_boolean and read not in (None, "boolean"):
                self._contradiction(declared, "`boolean` and `type` contradict each other")
            kind = read if isinstance(read, str) else kind
        if not has_choices:
            return kind
        if kind != "string":
            self._contradiction(assigned["choices"], f"`choices` are texts, not of type {kind}")
        return "choice"

    def _contradiction(self, value: OptionValue, message: str) -> None:
        self._options.report(ValueProblem(value.start, message, "remove one of them"))

    def _choices(self, assigned: dict[str, OptionValue]) -> tuple[str, ...]:
        if "choices" not in assigned:
            return ()
        read = self._options.value(_choice_list, assigned["choices"])
        return read if isinstance(read, tuple) else ()

    def _default(
        self, kind: str, assigned: dict[str, OptionValue], choices: tuple[str, ...]
    ) -> str | None:
        if "default" not in assigned:
            return None
        value = assigned["default"]

        def read_default(value: OptionValue) -> str:
            return _default_of(kind, value, choices)

        read = self._options.value(read_default, value)
        return read if isinstance(read, str) else None


def _default_of(kind: str, value: OptionValue, choices: tuple[str, ...]) -> str:
    if isinstance(value, ListValue) and kind == "list":
        return json.dumps([item.text for item in value.items if isinstance(item, Scalar)])
    text = values.text(value)
    if kind == "number" and _NUMBER.fullmatch(text) is None:
        raise ValueProblem(value.start, f"the default `{text}` is not a number")
    if kind == "choice" and text not in choices:
        hint = did_you_mean(text, choices) or f"the choices are {', '.join(choices)}"
        raise ValueProblem(value.start, f"the default `{text}` is not one of the choices", hint)
    if kind == "list" and not _is_json_list(text):
        raise ValueProblem(value.start, f"the default `{text}` is not a list")
    return text


def _is_json_list(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list)
    except (ValueError, RecursionError):
        return False


def _choice_list(value: OptionValue) -> tuple[str, ...]:
    if not isinstance(value, ListValue) or not value.items:
        raise ValueProblem(
            value.start, "the choices must be a list of texts", 'e.g. ["low", "high"]'
        )
    return values.texts(value)


def _amount(value: OptionValue) -> str:
    read = values.scalar(value, "a number")
    if _AMOUNT.fullmatch(read.text) is None:
        hint = 'write a whole number, or a decimal number in quotes such as "5.00"'
        raise ValueProblem(read.start, f"`{read.text}` is not a limit", hint)
    return read.text


def _output_source(value: OptionValue) -> FieldRef | str:
    read = values.scalar(value, "`step.field` or a text")
    if read.dot:
        return FieldRef(read.text[: read.dot], read.text[read.dot + 1 :], read.start)
    if not read.quoted:
        hint = "write `step.field`, or a text in quotes"
        raise ValueProblem(read.start, f"`{read.text}` is not the source of an output", hint)
    return read.text
