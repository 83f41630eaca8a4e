"""The machine of one run: its program, its arguments, its variables, and the commands of its steps.

The machine knows nothing of control flow: ``sequence`` and its neighbours walk the plan.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

import msgspec

from holdfast.authoring.replay.async_program import AsyncProgram
from holdfast.authoring.wf.ast import Target
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.interpreter.plan import Plan
from holdfast.authoring.wf.interpreter.state import HIDDEN_INPUTS, FlowState
from holdfast.authoring.wf.registrations import Executor, ItemProvider
from holdfast.authoring.wf.schemas import OutputSchema
from holdfast.authoring.wf.variables import VariableMap, text_of_value
from holdfast.core import typed_json
from holdfast.core.commands import Command, RecordDecision, RunStep
from holdfast.core.events import Event, EventRole
from holdfast.core.runs import ErrorInfo

DEEPEST_RUN = 5
"""Levels of runs of texts, including the first."""


class OnlyCall(msgspec.Struct, omit_defaults=True):
    """A call that is a run of its own: its place in the text, and what it inherits there."""

    template: str
    identity: str = ""
    """The identity of the step, which is also that of the step in the run of its own."""
    schema: str | None = None
    snippets: list[str] = []
    feedback: str | None = None


class RunArguments(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The arguments of a run: the inputs and the settings, which its children inherit."""

    inputs: dict[str, Any] = {}
    dry_run: bool = False
    keep_going: bool = False
    variables: dict[str, str] = {}
    cwd: str | None = None
    depth: int = 1
    body: str | None = None
    """The template of the inline foreach whose body the run executes; None for the whole text."""
    only: OnlyCall | None = None
    """The single call that the run executes, on its lane."""
    iteration: list[int] = []
    identity: str | None = None
    is_item: bool = False
    """Whether the run is an item of a foreach, whose result leaves out the steps of the run."""


class Host(Protocol):
    """The library, as the machine sees it: all that is not in the text."""

    root: str

    def find_executor(self, name: str) -> Executor | None:
        """Return the executor of a call target: its own, else the fallback."""

    def find_provider(self, name: str) -> ItemProvider | None:
        """Return a provider of items."""

    def find_schema(self, workflow: str, name: str) -> OutputSchema | None:
        """Return a schema of structured outputs."""

    def environments(self) -> list[Any]:
        """Return the providers of environment variables, in the order in which they apply."""

    def query_runs(self) -> Any:
        """Return the function that lists runs of the engine; None outside an engine."""

    def find_definition(self, name: str) -> Any:
        """Return the definition of another kind with this name; None if there is none."""


class Machine:
    """One run of a text."""

    def __init__(
        self,
        program: AsyncProgram,
        document: Document,
        plan: Plan,
        host: Host,
        owner: Any,
        arguments: RunArguments,
        typed: Mapping[str, Any],
    ) -> None:
        self.program: AsyncProgram = program
        self.document: Document = document
        self.plan: Plan = plan
        self.host: Host = host
        self.owner: Any = owner
        """The text workflow of the run."""
        self.arguments: RunArguments = arguments
        self.typed: Mapping[str, Any] = typed
        """The declared inputs with their typed values."""
        self.run_id: str = program.run.id
        self.dry_run: bool = arguments.dry_run
        self.cwd: str = arguments.cwd or host.root
        self.fixed: frozenset[str] = frozenset({*arguments.variables, "workflow_run_id"})
        self.parallel: int = 0
        """How many parallel blocks are being executed."""
        self.busy: set[Any] = set()
        """The tasks of branches that wait for the end of a step."""
        self._executors: dict[str, Executor] = {}

    def new_state(self) -> FlowState:
        """Return the state at the beginning of the run."""
        base = {
            name: text_of_value(value)
            for name, value in self.typed.items()
            if name not in HIDDEN_INPUTS
        }
        base.update(self.arguments.variables)
        base["workflow_run_id"] = self.run_id
        base["dry_run"] = "true" if self.dry_run else "false"
        return FlowState(base)

    def executor(self, target: Target) -> Executor | None:
        """Return the executor of a call: of the target as written, else of its key."""
        executor = self._executors.get(target.text)
        if executor is None:
            executor = self.host.find_executor(target.text) or self.host.find_executor(target.key)
            if executor is not None:
                self._executors[target.text] = executor
        return executor

    def call(self, command: Command) -> Awaitable[Event]:
        """Return the outcome of a command, once awaited."""
        if not self.parallel or type(command) is not RunStep:
            return self.program.call(command)
        return self._call_in_branch(command)

    async def _call_in_branch(self, command: Command) -> Event:
        """Return the outcome of a step; a stopped block lets it end."""
        task = asyncio.current_task()
        self.busy.add(task)
        try:
            return await self.program.call(command)
        finally:
            self.busy.discard(task)

    def read(self, event: Event) -> Any:
        """Return the recorded value of an outcome."""
        return self.program.read(event, self.program.codec.decode)

    def mark(self, identity: str, value: Any, role: EventRole | None = None) -> None:
        """Record a fact that the text has decided, unless it is recorded already."""
        self.program.record_fact(RecordDecision(identity, value, role))

    def where(self, line: int) -> str:
        """Return a place in the text, for messages."""
        return f"{self.document.path}:{line}"


def error_of(event: Event) -> ErrorInfo:
    """Return the recorded error of an outcome."""
    return typed_json.decode(event.error or b'{"type": "", "message": ""}', ErrorInfo)


def texts(pairs: Any, variables: VariableMap, replace: Any) -> dict[str, str]:
    """Return the options of a map with their placeholders replaced."""
    return {name: replace(text, variables) for name, text in pairs}
