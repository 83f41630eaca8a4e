"""A small front end: a workflow is a list of instructions, and its state is data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.authoring import registry
from holdfast.core.commands import (
    AwaitChild,
    AwaitSignal,
    Checkpoint,
    Command,
    Finish,
    RunStep,
    SetTimer,
    StartChild,
)
from holdfast.core.definitions import DefinitionRef
from holdfast.core.event_table import OUTCOMES
from holdfast.core.events import Event, EventKind
from holdfast.core.program import ProgramContext, StepRecord, recorded_steps
from holdfast.core.retry import RetryPolicy
from holdfast.core.runs import Route, RunRecord
from holdfast.errors import Diverged

Lines = Sequence[tuple[str, Any]]
Functions = Mapping[str, Callable[[Any], Any]]


class ListProgram:
    """The next instruction, the value that the instructions before it have made, the child that it
    waits for, and how often it has saved itself on a signal."""

    feeds_before_commit = True

    def __init__(self, definition: ListDefinition, run: RunRecord) -> None:
        self.lines, self.functions = definition.lines, definition.functions
        self.saves_on, self.run = definition.saves_on, run
        self.pending: Any = None
        self.at, self.saves, self.child = 0, 0, None
        self.value = msgspec.json.decode(run.input)[0]

    async def begin(self, history: Sequence[Event], state: bytes | None) -> list[Command]:
        if state is not None:
            self.at, self.value, self.child, self.saves = msgspec.json.decode(state)
        outcomes = [event for event in history if event.kind in OUTCOMES]
        commands = self._ask()
        for event in outcomes:
            commands = self._take(event) or commands
        listening = [self._listen()] if self.saves_on and self.at < len(self.lines) else []
        return [*commands, *listening]

    async def feed(self, events: Sequence[Event]) -> list[Command]:
        commands: list[Command] = []
        for event in events:
            is_save = event.step == f"save#{self.saves}"
            commands += self._take(event)
            commands += [self._save(), self._listen()] if is_save else []
        return commands

    def close(self) -> None:
        """There is nothing to release."""

    def _take(self, event: Event) -> list[Command]:
        if event.kind == EventKind.CANCEL_REQUESTED:
            return [Finish("cancelled")]
        if event.step == f"save#{self.saves}":
            self.saves += 1
            return []
        if self.pending is None or event.step != self.pending.id:
            raise Diverged(step=event.step, why="the list does not ask for it")
        if event.error is not None:
            return [Finish("failed", error=RuntimeError(event.error.decode()))]
        if isinstance(self.pending, StartChild):
            self.child = msgspec.json.decode(event.data or b"")["run"]
            return self._ask()
        if event.data is not None and event.kind != EventKind.TIMER_FIRED:
            self.value = msgspec.json.decode(event.data)
        self.at, self.child = self.at + 1, None
        return self._ask()

    def _ask(self) -> list[Command]:
        saved: list[Command] = []
        while self.at < len(self.lines) and self.lines[self.at][0] == "save":
            self.at += 1
            saved = [self._save()]
        if self.at == len(self.lines):
            return [*saved, Finish("completed", result=msgspec.json.encode(self.value))]
        verb, subject = self.lines[self.at]
        self.pending = getattr(self, f"_{verb}")(f"{subject}#{self.at}", subject)
        return [*saved, self.pending]

    def _save(self) -> Command:
        return Checkpoint(msgspec.json.encode([self.at, self.value, self.child, self.saves]))

    def _listen(self) -> Command:
        return AwaitSignal(f"save#{self.saves}", str(self.saves_on))

    def _call(self, id: str, name: str) -> Command:
        function, value = self.functions[name], self.value
        return RunStep(id, name, lambda info, _: function(value), False, RetryPolicy())

    def _sleep(self, id: str, seconds: int) -> Command:
        return SetTimer(id, seconds * 1_000_000)

    def _await(self, id: str, name: str) -> Command:
        return AwaitSignal(id, name)

    def _run(self, id: str, name: str) -> Command:
        if self.child is not None:
            return AwaitChild(f"{id} end", id, self.child, owned=True)
        definition = registry.find(name)
        target = DefinitionRef(name, "1" if definition is None else definition.version)
        route = Route(self.run.namespace, name, target.version, "default")
        return StartChild(id, target, route, msgspec.json.encode([self.value]), {})


class ListDefinition:
    """A workflow that is a list of instructions."""

    version, kind, lane = "1", "list", "default"
    capabilities: tuple[str, ...] = ()
    accepts_versions: frozenset[str] | None = None
    needs_thread, writes_checkpoints = False, True
    signature, schedules = None, ()

    def __init__(
        self, name: str, lines: Lines, functions: Functions, saves_on: str | None = None
    ) -> None:
        self.name, self.lines, self.functions = name, lines, functions
        self.saves_on = saves_on
        """A signal on which the program writes a checkpoint, whatever it waits for."""

    def program(self, run: RunRecord, context: ProgramContext) -> ListProgram:
        return ListProgram(self, run)

    def steps(self, run: RunRecord, history: Sequence[Event]) -> list[StepRecord]:
        return recorded_steps(history)
