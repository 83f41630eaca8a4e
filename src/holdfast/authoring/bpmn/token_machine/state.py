"""The state of one instance: tokens, scopes, waits and compensation runs. All of it is data."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from holdfast.authoring.bpmn.binding import BindTask
from holdfast.authoring.bpmn.compile import NodeSpec, ProcessGraph, ScopeSpec
from holdfast.authoring.bpmn.token_machine.trace import TraceLog

FORWARD = "forward"
COMPENSATION = "compensation"

ENTER = "enter"
ACTIVE = "active"
COMPLETE = "complete"
THROW = "throw"
ARM = "arm"
LEAVE = "leave"


class ProcessToken(msgspec.Struct):
    """A token at a node."""

    id: int
    node: str
    scope: int
    via: str | None = None
    """The flow through which it came."""
    stage: str = ENTER
    """What happens next to a token in the queue; ``active`` for a token that waits."""
    mode: str = FORWARD
    waits_for: str | None = None
    activation: str = ""
    """The identity of this activation of the node: its id, and a number from the second on."""
    locals: dict[str, Any] | None = None
    results: dict[str, Any] | None = None
    """Variables that the work has returned, until they are written."""
    waits: list[str] = []
    """The ids of the open waits of the token and of its boundary events."""
    inner: int | None = None
    """The scope that the token owns."""
    body: int | None = None
    """The multi-instance or loop body that the token is an instance of."""
    item: int = 0
    loop: LoopState | None = None
    undo: int | None = None
    """The compensation run that the token belongs to."""
    attempt: int = 1
    since: int = 0
    until: int | None = None
    version: int = 0
    """The number of the outcome that moved it last."""
    thrown: int = 0
    """How many of several events it has thrown here."""

    @property
    def sent_id(self) -> str:
        """The identity of the message or signal that it sends."""
        number = self.thrown if self.thrown > 1 else ""
        return f"{self.activation}:sent{number}"


class LoopState(msgspec.Struct):
    """The progress of a multi-instance activity or a loop."""

    total: int | None
    """The number of instances; None for a loop that a condition ends."""
    started: int = 0
    completed: int = 0
    active: dict[int, None] = {}
    """The ids of the tokens of the active instances."""
    items: list[Any] | None = None
    outputs: list[Any] | None = None
    log: list[UndoRecord] = []


class UndoRecord(msgspec.Struct):
    """A completed activity that can be compensated."""

    node: str
    handler: str | None = None
    """The activity that undoes it; None for a sub-process, whose own log is undone."""
    locals: dict[str, Any] | None = None
    variables: dict[str, Any] | None = None
    """The variables of the sub-process when it completed."""
    log: list[UndoRecord] = []


class CompensationRun(msgspec.Struct):
    """Records that are being undone, the last one first."""

    id: int
    scope: int
    records: list[UndoRecord]
    host: int | None = None
    """The token that waits for the end."""
    then: str = LEAVE
    """What the host does afterwards: ``leave``, ``complete``, ``cancel`` or ``fail``."""
    active: list[int] = []
    error: dict[str, Any] | None = None


class ScopeState(msgspec.Struct):
    """A process or sub-process that is being executed."""

    id: int
    spec: str
    parent: int | None = None
    owner: int | None = None
    """The token whose activity it is."""
    variables: dict[str, Any] = {}
    tokens: dict[int, None] = {}
    """The ids of its tokens, in the order in which they were made."""
    joins: dict[str, dict[str, list[int]]] = {}
    """Tokens that wait at joins: by node and by the flow through which they came."""
    waits: list[str] = []
    """The ids of the waits of its event sub-processes."""
    log: list[UndoRecord] = []
    has_run: bool = False
    """Whether an activity of an ad hoc sub-process was started."""
    met: bool = False
    """Whether the completion condition of an ad hoc sub-process is met."""


class TokenWait(msgspec.Struct):
    """Something that the instance waits for; a request to the engine, unless it is internal."""

    id: str
    kind: str
    """``work``, ``external``, ``user``, ``timer``, ``message``, ``signal``, ``call``, ``incident``,
    ``publish``, ``broadcast``, ``escalate``; internal: ``condition``, ``trigger``."""
    node: str
    token: int | None = None
    scope: int | None = None
    role: str = "own"
    """``own``, ``boundary``, ``gateway`` or ``start`` (of an event sub-process)."""
    data: dict[str, Any] = {}


INTERNAL = frozenset({"condition", "trigger"})
SENT = frozenset({"publish", "broadcast", "escalate"})
"""The kinds whose token does not wait for the answer."""


class Ending(msgspec.Struct, frozen=True):
    """The end of the instance: ``completed`` or ``failed``."""

    status: str
    variables: dict[str, Any] = {}
    error: dict[str, Any] | None = None


class MachineState:
    """All that changes while an instance runs, and the primitive operations on it."""

    def __init__(
        self,
        graph: ProcessGraph,
        bind: BindTask,
        now: int,
        saga: str | None = None,
    ) -> None:
        self.graph: ProcessGraph = graph
        self.bind: BindTask = bind
        self.saga: str | None = saga
        self.now: int = now
        self.version: int = 0
        self.has_caller: bool = False
        self.suspended: bool = False
        self.tokens: dict[int, ProcessToken] = {}
        self.scopes: dict[int, ScopeState] = {}
        self.waits: dict[str, TokenWait] = {}
        self.conditions: dict[str, TokenWait] = {}
        """The waits for a condition: they are evaluated whenever a variable changes."""
        self.runs: dict[int, CompensationRun] = {}
        self.counts: dict[str, int] = {}
        """How often each element was activated."""
        self.last_id: int = 0
        self.working: int = 0
        """How many handlers of this process are being executed."""
        self.ending: Ending | None = None
        self.queue: deque[int] = deque()
        self.emptied: dict[int, None] = {}
        """Scopes that may have completed."""
        self.conditions_changed: bool = False
        self.joins_changed: bool = False
        self.touched: dict[int, None] = {}
        """The ids of the tokens that may have changed since they were shown last."""
        self.requests: dict[str, TokenWait] = {}
        """Requests of this turn."""
        self.dropped: list[str] = []
        """Requests of earlier turns that are no longer needed."""
        self.trace: TraceLog | None = None

    def node(self, token: ProcessToken) -> NodeSpec:
        return self.graph.nodes[token.node]

    def spec(self, scope: ScopeState) -> ScopeSpec:
        return self.graph.scopes[scope.spec]

    @property
    def root(self) -> ScopeState:
        return self.scopes[1]

    def next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def activate(self, node: str) -> str:
        """Return the identity of the next activation of a node."""
        count = self.counts.get(node, 0) + 1
        self.counts[node] = count
        return node if count == 1 else f"{node}#{count}"

    def new_token(self, node: str, scope: ScopeState, **facts: Any) -> ProcessToken:
        """Create a token and queue it."""
        token = ProcessToken(id=self.next_id(), node=node, scope=scope.id, since=self.now, **facts)
        token.version = self.version
        self.tokens[token.id] = token
        self.touched[token.id] = None
        scope.tokens[token.id] = None
        self.queue.append(token.id)
        self.joins_changed = True
        return token

    def queue_token(self, token: ProcessToken, stage: str) -> None:
        """Let a token move on at a stage."""
        token.stage = stage
        token.waits_for = None
        token.until = None
        token.version = self.version
        self.touched[token.id] = None
        self.queue.append(token.id)

    def remove_token(self, token: ProcessToken) -> None:
        """End a token; its scope may be complete now."""
        del self.tokens[token.id]
        self.touched[token.id] = None
        scope = self.scopes.get(token.scope)
        if scope is not None:
            scope.tokens.pop(token.id, None)
            self.emptied[scope.id] = None
        self.joins_changed = True

    def new_scope(self, spec: str, parent: ScopeState | None, owner: int | None) -> ScopeState:
        scope = ScopeState(
            id=self.next_id(),
            spec=spec,
            parent=None if parent is None else parent.id,
            owner=owner,
        )
        self.scopes[scope.id] = scope
        return scope

    def wait(self, token: ProcessToken, kind: str, reason: str, **facts: Any) -> TokenWait:
        """Let a token wait for the answer to a request."""
        token.stage = ACTIVE
        token.waits_for = reason
        self.touched[token.id] = None
        return self.open_wait(TokenWait(kind=kind, token=token.id, node=token.node, **facts))

    def open_wait(self, wait: TokenWait) -> TokenWait:
        """Register a wait under its token or scope, and request it of the engine."""
        self.waits[wait.id] = wait
        self.working += wait.kind == "work"
        if wait.kind not in SENT:
            if wait.token is not None:
                self.tokens[wait.token].waits.append(wait.id)
            elif wait.scope is not None:
                self.scopes[wait.scope].waits.append(wait.id)
        if wait.kind not in INTERNAL:
            self.requests[wait.id] = wait
        elif wait.kind == "condition":
            self.conditions[wait.id] = wait
            self.conditions_changed = True  # it may be true already
        return wait

    def take_wait(self, id: str) -> TokenWait | None:
        """Remove a wait that was answered, and return it; None if it is not open."""
        wait = self.waits.pop(id, None)
        if wait is None:
            return None
        self.working -= wait.kind == "work"
        self.conditions.pop(id, None)
        if wait.token is not None:
            self.touched[wait.token] = None
        owner: ProcessToken | ScopeState | None = self.tokens.get(wait.token or 0)
        if owner is None:
            owner = self.scopes.get(wait.scope or 0)
        if owner is not None and id in owner.waits:
            owner.waits.remove(id)
        return wait

    def close_wait(self, id: str) -> None:
        """Forget a wait, and drop its command if the engine has it."""
        wait = self.take_wait(id)
        if wait is None or wait.kind in INTERNAL:
            return
        if self.requests.pop(id, None) is None:
            self.dropped.append(id)

    def close_waits(self, ids: list[str]) -> None:
        for id in list(ids):
            self.close_wait(id)
