"""The tree of a ``.wf`` text: one frozen Struct per kind of node. The tree has no behaviour.

- ``start`` and ``end`` are offsets into the text of the document; ``Document.position(offset)``
  (``document.py``) returns the line and the column. A node starts at its keyword.
- Durations are whole microseconds. Texts are unescaped; their placeholders are not replaced.
- Defaults are those of the language, so an option that is not given needs no further rule.
- ``kind_of(node)`` is the kind of ``Document.summary()``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

GATE_TIMEOUT = 24 * 3_600_000_000


class Word(msgspec.Struct, frozen=True):
    """A name or a text, and where it is."""

    text: str
    start: int

    def __str__(self) -> str:
        return self.text


class Target(msgspec.Struct, frozen=True):
    """The target of a call: the name or the path of an executor, as written."""

    text: str
    is_path: bool
    start: int

    @property
    def key(self) -> str:
        """Return the key of the step: the name, or the stem of the path."""
        if not self.is_path:
            return self.text
        name = self.text.rstrip("/").rpartition("/")[2]
        stem, dot, _ = name.rpartition(".")
        return stem if dot and stem else name


class FieldRef(msgspec.Struct, frozen=True):
    """``step.field``: a field of the output of a step."""

    step: str
    field: str
    start: int


class MarkerCondition(msgspec.Struct, frozen=True):
    """``step.marker``: the latest result of the step has the marker."""

    step: str
    marker: str
    start: int


class InputCondition(msgspec.Struct, frozen=True):
    """``name``: the boolean input is true."""

    name: str
    start: int


class ExpressionCondition(msgspec.Struct, frozen=True):
    """``(EXPR)``: *text* is the text between the parentheses, *start* is its offset. If the
    condition is the text of an option, *start* is the offset of the option's value."""

    text: str
    start: int
    exact: bool = True
    """Whether offsets in *text* are offsets in the document, counted from *start*."""


Condition = MarkerCondition | InputCondition | ExpressionCondition


class RetryRule(msgspec.Struct, frozen=True):
    """``retry = { max backoff on }``. *on* is empty if every failure is retried."""

    max: int
    backoff: int = 0
    on: tuple[str, ...] = ()


class CallNode(msgspec.Struct, frozen=True, kw_only=True):
    """``call NAME`` or ``call "path"``."""

    start: int
    end: int
    target: Target
    retries: int = 0
    retry: RetryRule | None = None
    on_fail: Target | None = None
    """The handler of a failure."""
    tolerates: bool = False
    """``on_fail = continue``: a failure does not fail the run."""
    output: Word | None = None
    snippets: tuple[Word, ...] = ()
    identity: str | None = None
    plugin_dirs: tuple[str, ...] = ()
    timeout: int | None = None
    max_turns: int | None = None
    undo: Target | None = None
    lane: str | None = None
    condition: Condition | None = None
    """``if = "..."`` of a call in a parallel block."""


class CallWorkflowNode(msgspec.Struct, frozen=True, kw_only=True):
    """``call workflow NAME``."""

    start: int
    end: int
    name: Word
    inputs: tuple[tuple[str, str], ...] = ()
    retries: int = 0
    retry: RetryRule | None = None
    on_fail: Target | None = None
    tolerates: bool = False
    identity: str | None = None
    undo: Target | None = None
    lane: str | None = None


class ScriptNode(msgspec.Struct, frozen=True, kw_only=True):
    """``script NAME { run = ... }``."""

    start: int
    end: int
    name: str
    run: Word
    env: tuple[tuple[str, str], ...] = ()
    timeout: int | None = None
    retries: int = 0
    retry: RetryRule | None = None
    on_fail: Target | None = None
    tolerates: bool = False
    identity: str | None = None
    undo: Target | None = None


class IfNode(msgspec.Struct, frozen=True, kw_only=True):
    """``if CONDITION { }``."""

    start: int
    end: int
    condition: Condition
    body: tuple[Node, ...] = ()


class UnlessNode(msgspec.Struct, frozen=True, kw_only=True):
    """``unless CONDITION { }``."""

    start: int
    end: int
    condition: Condition
    body: tuple[Node, ...] = ()


class WhileNode(msgspec.Struct, frozen=True, kw_only=True):
    """``while CONDITION { }``."""

    start: int
    end: int
    condition: Condition
    max_iterations: int
    stuck_after: int | None = None
    on_max_iter: str = "fail"
    body: tuple[Node, ...] = ()


class DoWhileNode(msgspec.Struct, frozen=True, kw_only=True):
    """``do { } while CONDITION``."""

    start: int
    end: int
    condition: Condition
    max_iterations: int
    stuck_after: int | None = None
    on_max_iter: str = "fail"
    body: tuple[Node, ...] = ()


class DoNode(msgspec.Struct, frozen=True, kw_only=True):
    """``do { }``: a sequence whose calls inherit *output* and *snippets*."""

    start: int
    end: int
    output: Word | None = None
    snippets: tuple[Word, ...] = ()
    body: tuple[Node, ...] = ()


class ParallelNode(msgspec.Struct, frozen=True, kw_only=True):
    """``parallel { }``: every node of *body* is a branch. *min_success* None: all of them."""

    start: int
    end: int
    fail_fast: bool = True
    min_success: int | None = None
    output: Word | None = None
    snippets: tuple[Word, ...] = ()
    body: tuple[Node, ...] = ()


class GateNode(msgspec.Struct, frozen=True, kw_only=True):
    """``gate TYPE { }``. *options* are pairs of value and label, or a field of a step's output."""

    start: int
    end: int
    type: str
    prompt: str = ""
    min_approvals: int = 1
    mode: str = "min_approvals"
    timeout: int = GATE_TIMEOUT
    on_timeout: str = "fail"
    identity: str | None = None
    options: tuple[tuple[str, str], ...] | FieldRef = ()


class QualityGateNode(msgspec.Struct, frozen=True, kw_only=True):
    """``gate quality_gate { source threshold }``."""

    start: int
    end: int
    source: Word
    threshold: int
    on_fail: str = "fail"
    identity: str | None = None


class AlwaysNode(msgspec.Struct, frozen=True, kw_only=True):
    """A nested ``always { }``: an inline block."""

    start: int
    end: int
    body: tuple[Node, ...] = ()


class ForeachNode(msgspec.Struct, frozen=True, kw_only=True):
    """``foreach NAME { }``. Exactly one of *workflow* and *do* is given."""

    start: int
    end: int
    name: str
    over: Word
    max_parallel: int
    workflow: Word | None = None
    do: DoNode | None = None
    scope: tuple[tuple[str, str], ...] = ()
    filter: tuple[tuple[str, str], ...] = ()
    inputs: tuple[tuple[str, str], ...] = ()
    ordered: bool = False
    on_cycle: str = "fail"
    on_child_fail: str = "continue"
    lane: str | None = None


class SleepNode(msgspec.Struct, frozen=True, kw_only=True):
    """``sleep "10m"``. The duration may contain placeholders."""

    start: int
    end: int
    duration: Word


class WaitNode(msgspec.Struct, frozen=True, kw_only=True):
    """``wait signal NAME { }``. *timeout* None: no limit."""

    start: int
    end: int
    signal: str
    timeout: int | None = None
    on_timeout: str = "fail"


class EmitNode(msgspec.Struct, frozen=True, kw_only=True):
    """``emit "text"``."""

    start: int
    end: int
    text: Word


Node = (
    CallNode
    | CallWorkflowNode
    | ScriptNode
    | IfNode
    | UnlessNode
    | WhileNode
    | DoWhileNode
    | DoNode
    | ParallelNode
    | GateNode
    | QualityGateNode
    | AlwaysNode
    | ForeachNode
    | SleepNode
    | WaitNode
    | EmitNode
)


class InputDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """An input. *type* is string, number, boolean, list or choice. *default* is a text (of a list:
    JSON) or None."""

    start: int
    name: str
    type: str = "string"
    required: bool = False
    default: str | None = None
    description: str = ""
    choices: tuple[str, ...] = ()


class OutputDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """An output of the workflow: a field of a step's output, or a text with placeholders."""

    start: int
    name: str
    value: FieldRef | str


class BudgetLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A hard limit. *limit* is a decimal number as text, such as ``5.00``."""

    start: int
    metric: str
    limit: str


class TemplateHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The front matter of a ``.wft`` file."""

    name: str
    description: str = ""
    version: str = ""
    target_types: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()


_KINDS: dict[type, str] = {
    CallNode: "call",
    CallWorkflowNode: "call_workflow",
    ScriptNode: "script",
    IfNode: "if",
    UnlessNode: "unless",
    WhileNode: "while",
    DoWhileNode: "do_while",
    DoNode: "do",
    ParallelNode: "parallel",
    GateNode: "gate",
    QualityGateNode: "gate",
    AlwaysNode: "always",
    ForeachNode: "foreach",
    SleepNode: "sleep",
    WaitNode: "wait",
    EmitNode: "emit",
}

BLOCKS = (IfNode, UnlessNode, WhileNode, DoWhileNode, DoNode, ParallelNode, AlwaysNode)
"""The nodes that have a body."""


def kind_of(node: Node) -> str:
    """Return the kind of a node, as ``summary()`` counts it."""
    return _KINDS[type(node)]


def key_of(node: Node) -> str | None:
    """Return the key that conditions use for a node, and that ``steps()`` shows; None for a node
    that is not a step."""
    match node:
        case CallNode():
            return node.target.key
        case CallWorkflowNode():
            return node.name.text
        case ScriptNode() | ForeachNode():
            return node.name
        case GateNode():
            return node.type
        case QualityGateNode():
            return "quality_gate"
        case WaitNode():
            return node.signal
        case SleepNode() | EmitNode():
            return kind_of(node)
    return None


def children_of(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly inside a node."""
    if isinstance(node, BLOCKS):
        return node.body
    if isinstance(node, ForeachNode) and node.do is not None:
        return node.do.body
    return ()


_CONTAINERS = frozenset((*BLOCKS, ForeachNode))


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """Return nodes and everything inside them, in text order."""
    for node in nodes:
        yield node
        if type(node) in _CONTAINERS:
            yield from walk(children_of(node))
