"""A model of a file as the judge of recorded runs: whether it would have done the same so far.

A run keeps the version that it was started with, so the model of a file executes none of the runs
that it judges. It replays each of them from its beginning: the state in a checkpoint belongs to the
version that has written it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.authoring.bpmn.definition import ModelDefinition, ProcessContent
from holdfast.authoring.bpmn.handlers import HandlerBinder
from holdfast.authoring.bpmn.kind import executed
from holdfast.authoring.bpmn.loading import load_model
from holdfast.authoring.bpmn.model import Model
from holdfast.authoring.bpmn.program import ModelProgram
from holdfast.authoring.bpmn.token_machine.migration import ProcessVersion
from holdfast.core.commands import Command
from holdfast.core.event_table import OUTCOMES, REQUESTS
from holdfast.core.events import Event
from holdfast.core.program import ProgramContext
from holdfast.core.runs import RunRecord
from holdfast.errors import Diverged, ModelNotFound, ModelUnreadable


def _find_nothing(*_: Any) -> None:
    """Return None: a file has no other deployed definitions."""


class JudgedModel:
    """A process of a file as a definition that judges runs of all versions. Everything but
    ``program`` is that of the process."""

    writes_checkpoints: bool = False

    def __init__(self, definition: ModelDefinition) -> None:
        self.accepts_versions: frozenset[str] | None = None
        self._definition: ModelDefinition = definition

    def __getattr__(self, name: str) -> Any:
        return getattr(self._definition, name)

    def program(self, run: RunRecord, context: ProgramContext) -> JudgedProgram:
        """Return a program that replays a run and executes nothing."""
        return JudgedProgram(self._definition, run, context)


class JudgedProgram:
    """Replays one run with the model of a file. Tasks are bound as the history shows, because the
    process that judges need not have the handlers."""

    feeds_before_commit = True

    def __init__(
        self, definition: ModelDefinition, run: RunRecord, context: ProgramContext
    ) -> None:
        self._definition: ModelDefinition = definition
        self._run: RunRecord = run
        self._context: ProgramContext = context

    async def begin(self, history: Sequence[Event], state: bytes | None) -> list[Command]:
        """Return what the model asks for after a history. Raises Diverged, ModelNotFound."""
        program = ModelProgram(
            self._definition.as_version(history),
            self._run,
            self._context,
            _find_nothing,
            self._other_version,
        )
        commands = await program.begin(history, None)
        self._check_open(program, history)
        return commands

    async def feed(self, events: Sequence[Event]) -> list[Command]:
        """Return nothing: a judged run gets no outcomes."""
        return []

    def close(self) -> None:
        """There is nothing to release."""

    def _check_open(self, program: ModelProgram, history: Sequence[Event]) -> None:
        """Raise Diverged for a request without an outcome at an element that the model has not
        reached."""
        answered = {event.step for event in history if event.kind in OUTCOMES}
        counts = program.machine.state.counts
        for event in history:
            step = event.step or ""
            if event.kind in REQUESTS and step not in answered:
                element = step.partition("#")[0].partition(":")[0].partition("!")[0]
                if counts.get(element, 0) == 0:
                    raise Diverged(
                        step=step,
                        recorded=event.kind,
                        why="the model has not reached this element",
                    )

    def _other_version(self, version: str) -> ProcessVersion | None:
        raise ModelNotFound(
            process=self._run.workflow,
            version=version,
            why="the run was migrated from this version, which the file does not have:"
            " `holdfast models migrate --dry-run` judges it",
        )


def judged_models(source: Any) -> dict[str, JudgedModel]:
    """Return the processes of a file, by their ids, to judge runs; none if it has errors or cannot
    be read."""
    try:
        model = load_model(source, lambda name: True)
    except ModelUnreadable:
        return {}
    if any(problem.severity == "error" for problem in model.problems):
        return {}
    return {process.id: _judged(model, process.id) for process in executed(model)}


def _judged(model: Model, process: str) -> JudgedModel:
    content = ProcessContent(process=process, xml=model.xml)
    binder = HandlerBinder(process, {})
    return JudgedModel(ModelDefinition(content, model, "file", binder, _find_nothing))
