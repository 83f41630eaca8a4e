"""The grammar of nodes: recursive descent over the tokens, with recovery at the next node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.authoring.wf import ast, values
from holdfast.authoring.wf.condition_syntax import parse_condition
from holdfast.authoring.wf.cursor import (
    NODE_KEYWORDS,
    NOT_TARGETS,
    Cursor,
    Panic,
)
from holdfast.authoring.wf.declarations import Declarations
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.lexer import (
    LETTERS,
    string_value,
)
from holdfast.authoring.wf.option_reader import OptionReader
from holdfast.authoring.wf.option_syntax import (
    GivenOption,
    at_option,
    parse_leading_options,
    parse_options,
)
from holdfast.authoring.wf.problems import Code
from holdfast.core.problems import did_you_mean

_CONTEXTUAL = {"sleep": '"', "emit": '"', "wait": "signal"}
"""Words that begin a node only before their own next token: a string, or the word itself."""

_FORMS = {"sleep": '`sleep "10m"`', "emit": '`emit "text"`', "wait": "`wait signal NAME`"}
_TOP_LEVEL = {"budget": "{", "outputs": "{", "use": '"'}


class NodeParser:
    """The grammar of nodes. Every method begins at the keyword of its construct."""

    __slots__ = ("_cursor", "_declarations", "_methods", "_options", "_parallel", "_path")

    def __init__(self, cursor: Cursor, path: str) -> None:
        self._cursor: Cursor = cursor
        self._path: str = path
        self._options: OptionReader = OptionReader(cursor.problems)
        self._declarations: Declarations = Declarations(cursor, self._options)
        self._parallel: bool = False
        self._methods: dict[str, Callable[[], ast.Node]] = {
            "call": self._call,
            "if": self._if,
            "unless": self._unless,
            "while": self._while,
            "do": self._do,
            "parallel": self._parallel_block,
            "gate": self._gate,
            "always": self._always,
            "script": self._script,
            "foreach": self._foreach,
        }

    # The file

    def document(self) -> Document | None:
        """Parse the whole text. Return None if it has no workflow."""
        cursor = self._cursor
        if not _find_workflow(cursor):
            return None
        start = cursor.start()
        cursor.index += 1
        try:
            name = _workflow_name(cursor, start)
            cursor.open(f"`workflow {name.text}`", start)
            body, always = self._items()
            cursor.close(f"`workflow {name.text}`", start)
        except Panic:
            return None
        if cursor.peek():
            cursor.problems.error(
                cursor.start(),
                Code.TRAILING_TEXT,
                f"unexpected {cursor.described()} after the end of the workflow",
                "a file has one workflow",
            )
        declared = self._declarations.fields()
        declared["title"] = declared.get("title") or name.text
        return Document(
            path=self._path,
            text=cursor.text,
            name=name.text,
            start=name.start,
            body=tuple(body),
            always=tuple(always),
            **declared,
        )

    def _items(self) -> tuple[list[ast.Node], list[ast.Node]]:
        """Parse the items of the workflow, and return the nodes of its body and of its always
        blocks."""
        cursor = self._cursor
        body: list[ast.Node] = []
        always: list[ast.Node] = []
        while (token := cursor.texts[cursor.index]) and token != "}":
            first = cursor.index
            depth = cursor.depth
            try:
                if token == "always":
                    always.extend(self._always().body)
                elif not self._declarations.parse_next():
                    body.append(self._node())
            except Panic:
                cursor.recover(depth, first)
        return body, always

    # Nodes

    def _nodes(self) -> tuple[ast.Node, ...]:
        """Parse nodes up to the closing brace of the block."""
        cursor = self._cursor
        nodes: list[ast.Node] = []
        while (token := cursor.texts[cursor.index]) and token != "}":
            first = cursor.index
            depth = cursor.depth
            try:
                nodes.append(self._node())
            except Panic:
                cursor.recover(depth, first)
        return tuple(nodes)

    def _node(self) -> ast.Node:
        cursor = self._cursor
        token = cursor.texts[cursor.index]
        method = self._methods.get(token)
        if method is not None:
            return method()
        if token in _CONTEXTUAL and cursor.peek(1)[:1] == _CONTEXTUAL[token][:1]:
            return self._contextual(token)
        raise _not_a_node(cursor, token)

    def _contextual(self, token: str) -> ast.Node:
        cursor = self._cursor
        start = cursor.start()
        cursor.index += 1
        if token == "wait":
            return self._wait(start)
        text = cursor.string("a text")
        end = cursor.last_end()
        if token == "emit":
            return ast.EmitNode(start=start, end=end, text=text)
        if "{{" not in text.text:
            self._options.value(values.delay, values.Scalar(text.text, text.start, True))
        return ast.SleepNode(start=start, end=end, duration=text)

    def _wait(self, start: int) -> ast.Node:
        cursor = self._cursor
        cursor.index += 1
        if cursor.texts[cursor.index - 1] != "signal":
            cursor.index -= 1
            raise cursor.panic(f"expected `signal` after `wait`, found {cursor.described()}")
        name = cursor.name("the name of a signal").text
        assigned = self._optional_block(f"`wait signal {name}`", start)
        fields = self._options.read("wait", assigned, start, f"wait signal {name}")
        return ast.WaitNode(start=start, end=cursor.last_end(), signal=name, **fields)

    def _optional_block(self, label: str, start: int) -> list[GivenOption]:
        """Parse ``{ options }`` if a brace follows."""
        if self._cursor.texts[self._cursor.index] != "{":
            return []
        return self._option_block(label, start)

    def _option_block(self, label: str, start: int) -> list[GivenOption]:
        cursor = self._cursor
        cursor.open(label, start)
        assigned = parse_options(cursor, label, start)
        cursor.close(label, start)
        return assigned

    def _call(self) -> ast.Node:
        cursor = self._cursor
        index = cursor.index
        token = cursor.texts[index + 1]
        start = cursor.ends[index] - 4
        if token == "workflow":
            return self._call_workflow(start)
        cursor.index = index + 1
        target = self._target(token)
        cursor.index = index + 2
        kind = "call in parallel" if self._parallel else "call"
        fields: dict[str, Any] = {}
        if cursor.texts[cursor.index] == "{":
            label = f"call {target.text}"
            assigned = self._option_block(f"`{label}`", start)
            fields = self._options.read(kind, assigned, start, label)
        return ast.CallNode(start=start, end=cursor.ends[cursor.index - 1], target=target, **fields)

    def _target(self, token: str) -> ast.Target:
        cursor = self._cursor
        start = cursor.start()
        if token[:1] in LETTERS and token not in NOT_TARGETS:
            return ast.Target(token, False, start)
        if token[:1] != '"':
            reserved = token in NOT_TARGETS
            hint = "a reserved word cannot be called: write it in quotes" if reserved else ""
            raise cursor.panic(
                f"expected a name or a path after `call`, found {cursor.described()}", hint
            )
        written = string_value(token)
        try:
            return values.target_of(written, start, is_path=True)
        except values.ValueProblem as problem:
            self._options.report(problem)
            return ast.Target(written, False, start)

    def _call_workflow(self, start: int) -> ast.Node:
        cursor = self._cursor
        cursor.index += 2
        if cursor.peek()[:1] == '"':
            cursor.panic("the name of a sub-workflow is written without quotes")
            name = cursor.string("a name")
        else:
            name = cursor.name("the name of a workflow after `call workflow`")
        label = f"call workflow {name.text}"
        assigned: list[GivenOption] = []
        inputs: tuple[tuple[str, str], ...] | None = None
        if cursor.peek() == "{":
            assigned, inputs = self._call_workflow_block(label, start)
        fields = self._options.read("call workflow", assigned, start, label)
        if inputs is not None:
            fields["inputs"] = inputs
        return ast.CallWorkflowNode(start=start, end=cursor.last_end(), name=name, **fields)

    def _call_workflow_block(
        self, label: str, start: int
    ) -> tuple[list[GivenOption], tuple[tuple[str, str], ...] | None]:
        cursor = self._cursor
        cursor.open(f"`{label}`", start)
        assigned: list[GivenOption] = []
        inputs: dict[str, str] | None = None
        while cursor.peek() != "}":
            if cursor.peek() == "inputs" and cursor.peek(1) == "{":
                inputs = {**(inputs or {}), **self._inputs_of_call(start)}
            elif at_option(cursor):
                assigned += parse_leading_options(cursor)
            else:
                assigned += parse_options(cursor, f"`{label}`", start)
        cursor.close(f"`{label}`", start)
        return assigned, None if inputs is None else tuple(inputs.items())

    def _inputs_of_call(self, start: int) -> dict[str, str]:
        self._cursor.index += 1
        assigned = self._option_block("`inputs`", start)
        read: dict[str, str] = {}
        for key, _, value in assigned:
            text = self._options.value(values.text, value)
            read[key] = text if isinstance(text, str) else ""
        return read

    def _script(self) -> ast.Node:
        start, name = _keyword_and_name(self._cursor, "the name of the script")
        label = f"script {name}"
        assigned = self._option_block(f"`{label}`", start)
        fields = self._options.read("script", assigned, start, label)
        return ast.ScriptNode(start=start, end=self._cursor.last_end(), name=name, **fields)

    def _gate(self) -> ast.Node:
        start, name = _keyword_and_name(self._cursor, "the type of the gate")
        label = f"gate {name}"
        assigned = self._option_block(f"`{label}`", start)
        end = self._cursor.last_end()
        if name == "quality_gate":
            fields = self._options.read("quality gate", assigned, start, label)
            return ast.QualityGateNode(start=start, end=end, **fields)
        fields = self._options.read("gate", assigned, start, label)
        return ast.GateNode(start=start, end=end, type=name, **fields)

    def _if(self) -> ast.Node:
        start, end, fields = self._conditional("if")
        return ast.IfNode(start=start, end=end, **fields)

    def _unless(self) -> ast.Node:
        start, end, fields = self._conditional("unless")
        return ast.UnlessNode(start=start, end=end, **fields)

    def _while(self) -> ast.Node:
        start, end, fields = self._conditional("while")
        return ast.WhileNode(start=start, end=end, **fields)

    def _conditional(self, keyword: str) -> tuple[int, int, dict[str, Any]]:
        """Parse ``KEYWORD CONDITION { options nodes }``."""
        cursor = self._cursor
        start = cursor.start()
        cursor.index += 1
        condition = self._condition(bare=keyword != "while")
        assigned, body, end = self._body(f"`{keyword}`", start)
        fields = self._options.read(keyword, assigned, start, keyword)
        return start, end, {**fields, "condition": condition, "body": body}

    def _condition(self, *, bare: bool) -> ast.Condition:
        condition = parse_condition(self._cursor, bare=bare)
        if isinstance(condition, ast.ExpressionCondition):
            self._options.check_expression(condition)
        return condition

    def _body(
        self, label: str, start: int, parallel: bool = False
    ) -> tuple[list[GivenOption], tuple[ast.Node, ...], int]:
        """Parse ``{ options nodes }``; return both, and the end of the block."""
        cursor = self._cursor
        cursor.open(label, start)
        assigned = parse_leading_options(cursor)
        outer = self._parallel
        self._parallel = parallel
        try:
            nodes = self._nodes()
        finally:
            self._parallel = outer
        return assigned, nodes, cursor.close(label, start)

    def _do(self) -> ast.Node:
        cursor = self._cursor
        start = cursor.start()
        cursor.index += 1
        if cursor.peek(1) == "." and cursor.peek(3) == "{":
            raise cursor.panic(
                "a `do` block has its condition after it",
                "write `do { ... } while step.marker`",
            )
        assigned, body, end = self._body("`do`", start)
        if cursor.peek() != "while":
            fields = self._options.read("do", assigned, start, "do")
            return ast.DoNode(start=start, end=end, body=body, **fields)
        cursor.index += 1
        condition = self._condition(bare=False)
        if cursor.peek() == "{":
            raise cursor.panic(
                "unexpected `{` after the condition of `do`",
                "a `while` directly after `do { }` is its condition: put another node between them",
            )
        end = cursor.last_end()
        fields = self._options.read("do while", assigned, start, "do")
        return ast.DoWhileNode(start=start, end=end, condition=condition, body=body, **fields)

    def _parallel_block(self) -> ast.Node:
        cursor = self._cursor
        start = cursor.start()
        cursor.index += 1
        errors = cursor.problems.has_errors
        assigned, body, end = self._body("`parallel`", start, parallel=True)
        fields = self._options.read("parallel", assigned, start, "parallel")
        if not body and cursor.problems.has_errors == errors:
            cursor.panic("`parallel` has no branches", "write a node for each branch", start)
        return ast.ParallelNode(start=start, end=end, body=body, **fields)

    def _always(self) -> ast.AlwaysNode:
        cursor = self._cursor
        start = cursor.start()
        cursor.index += 1
        assigned, body, end = self._body("`always`", start)
        self._options.read("always", assigned, start, "always")
        return ast.AlwaysNode(start=start, end=end, body=body)

    def _foreach(self) -> ast.Node:
        cursor = self._cursor
        start, name = _keyword_and_name(cursor, "the name of the foreach")
        label = f"foreach {name}"
        cursor.open(f"`{label}`", start)
        assigned = parse_leading_options(cursor)
        inline: ast.DoNode | None = None
        if cursor.peek() == "do":
            inline = self._inline_body()
        assigned += parse_options(cursor, f"`{label}`", start)
        end = cursor.close(f"`{label}`", start)
        fields = self._options.read("foreach", assigned, start, label)
        self._require_one_body(fields, inline, start, label)
        return ast.ForeachNode(start=start, end=end, name=name, do=inline, **fields)

    def _inline_body(self) -> ast.DoNode:
        cursor = self._cursor
        start = cursor.start()
        cursor.index += 1
        assigned, body, end = self._body("`do`", start)
        fields = self._options.read("do", assigned, start, "do")
        return ast.DoNode(start=start, end=end, body=body, **fields)

    def _require_one_body(
        self, fields: dict[str, Any], inline: ast.DoNode | None, start: int, label: str
    ) -> None:
        workflow = fields.get("workflow")
        if workflow is None and inline is None:
            self._cursor.problems.error(
                start,
                Code.MISSING_OPTION,
                f"`{label}` has no `workflow`",
                "name the workflow of the items, or write `do { ... }`",
            )
        elif workflow is not None and inline is not None:
            self._cursor.problems.error(
                workflow.start,
                Code.BAD_VALUE,
                f"`{label}` has both `workflow` and `do`",
                "remove one of them",
            )


def _find_workflow(cursor: Cursor) -> bool:
    """Move to the word ``workflow`` and report the text before it."""
    if cursor.peek() == "workflow":
        return True
    if not (cursor.index == 0 and not cursor.peek() and cursor.problems.has_errors):
        cursor.problems.error(
            cursor.start(),
            Code.SYNTAX,
            f"expected `workflow NAME {{`, found {cursor.described()}",
            did_you_mean(cursor.peek(), ["workflow"]),
        )
    if "workflow" not in cursor.texts:
        return False
    cursor.index = cursor.texts.index("workflow")
    return True


def _workflow_name(cursor: Cursor, keyword: int) -> ast.Word:
    if cursor.peek() == "{":
        cursor.panic("the workflow has no name", "write `workflow NAME {`")
        return ast.Word("", keyword)
    if cursor.peek()[:1] == '"':
        cursor.panic("the name of a workflow is written without quotes")
        return cursor.string("a name")
    return cursor.name("the name of the workflow")


def _not_a_node(cursor: Cursor, token: str) -> Panic:
    if cursor.problems.is_full:
        return Panic()  # finding hints takes longer than parsing
    hint = did_you_mean(token, [*NODE_KEYWORDS, *_CONTEXTUAL])
    if at_option(cursor):
        return cursor.panic(
            f"unexpected option `{token}`", "options come before the nodes of a block"
        )
    if token in ("meta", "inputs") or cursor.peek(1)[:1] == _TOP_LEVEL.get(token, "-"):
        return cursor.panic(
            f"`{token}` belongs to the workflow, not to a block inside it",
            "move it to the top level of the workflow",
        )
    if token in _FORMS:
        hint = f"write {_FORMS[token]}"
    elif token == "else":
        hint = "write `unless` with the same condition"
    elif token == ",":
        hint = "nodes are separated by blanks"
    return cursor.panic(f"expected a node, found {cursor.described()}", hint)


def _keyword_and_name(cursor: Cursor, role: str) -> tuple[int, str]:
    start = cursor.start()
    cursor.index += 1
    return start, cursor.name(role).text
