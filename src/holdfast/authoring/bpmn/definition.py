"""A deployed process as a definition that the engine executes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.authoring.bpmn.compile import ProcessGraph, compile_process
from holdfast.authoring.bpmn.diagram import RunTrace, draw_model
from holdfast.authoring.bpmn.handlers import HandlerBinder
from holdfast.authoring.bpmn.model import Model
from holdfast.authoring.bpmn.program import ModelProgram
from holdfast.authoring.bpmn.recorded import RecordedBinder
from holdfast.authoring.bpmn.requests import FindDefinition
from holdfast.authoring.bpmn.resting import resting_token
from holdfast.authoring.bpmn.token_machine.instructions import instruct
from holdfast.authoring.bpmn.token_machine.migration import (
    MigrationPlan,
    ProcessVersion,
    plan_migration,
)
from holdfast.authoring.bpmn.token_machine.snapshot import overview_of
from holdfast.authoring.bpmn.token_machine.state import MachineState
from holdfast.authoring.bpmn.token_machine.trace import TraceLog
from holdfast.authoring.bpmn.token_machine.variables import seen_by
from holdfast.core.codec import Codec
from holdfast.core.diagrams import Diagram
from holdfast.core.event_table import OUTCOMES
from holdfast.core.events import Event
from holdfast.core.program import OfflineContext, ProgramContext, StepRecord, recorded_steps
from holdfast.core.resting_tokens import RestingToken
from holdfast.core.runs import RunRecord
from holdfast.core.schedules.model import ScheduleDeclaration
from holdfast.core.signature import Signature
from holdfast.errors import ModelNotFound, NotThere

_AUTOMATIC = frozenset({"serviceTask", "sendTask", "businessRuleTask", "scriptTask"})


class ProcessContent(msgspec.Struct):
    """The stored content of a process: the model, which of its processes, and the Saga of the
    deployment."""

    process: str
    xml: str = ""
    form: dict[str, Any] | None = None
    """A process in the JSON form, in place of XML."""
    saga: str | None = None
    records_elements: bool = False
    """Whether the histories of its runs have an event for each element."""


class ModelState(msgspec.Struct, kw_only=True):
    """An instance as of one event of its history."""

    tokens: list[RestingToken]
    variables: dict[str, Any]
    trace: TraceLog | None = None
    version: str = ""
    xml: str = ""
    """The model of this version."""
    places: dict[str, str] = {}
    """The elements at which the run waits, by the step of the wait."""


class ModelDefinition:
    """A process of a model, with the handlers of one engine."""

    kind: str = "bpmn"
    lane: str = "default"
    capabilities: tuple[str, ...] = ()
    needs_thread: bool = False
    writes_checkpoints: bool = True

    def __init__(
        self,
        content: ProcessContent,
        model: Model,
        version: str,
        binder: HandlerBinder,
        find: FindDefinition,
        others: Callable[[str], ModelDefinition | None] = lambda version: None,
    ) -> None:
        self.name: str = content.process
        self.version: str = version
        self.accepts_versions: frozenset[str] | None = frozenset({version})
        self.graph: ProcessGraph = compile_process(model, content.process)
        self.model: Model = model
        self._saga: str | None = content.saga
        self._records_elements: bool = content.records_elements
        self._binder: HandlerBinder = binder
        self._find: FindDefinition = find
        self._others: Callable[[str], ModelDefinition | None] = others
        """Returns the definition of another version of the process."""

    @property
    def signature(self) -> Signature | None:
        return None

    @property
    def schedules(self) -> Sequence[ScheduleDeclaration]:
        return ()

    def missing_handlers(self) -> list[str]:
        """Return the tasks that neither a handler here nor an remote worker can do."""
        return [
            node.id
            for node in self.graph.nodes.values()
            if node.tag in _AUTOMATIC and self._binder(node).kind == "missing"
        ]

    def needed_handlers(self) -> list[str]:
        """Return the tasks that need a handler, whether or not this process has it."""
        return [
            node.id
            for node in self.graph.nodes.values()
            if node.tag in _AUTOMATIC and self._binder.without_handler(node).kind == "missing"
        ]

    def program(self, run: RunRecord, context: ProgramContext) -> ModelProgram:
        def version(name: str) -> ProcessVersion | None:
            definition = self._version(name)
            return None if definition is None else definition.as_version()

        program = ModelProgram(self.as_version(), run, context, self._find, version)
        if self._records_elements:
            program.record_elements()
        return program

    def _version(self, version: str) -> ModelDefinition | None:
        return self if version == self.version else self._others(version)

    def as_version(self, history: Sequence[Event] | None = None) -> ProcessVersion:
        """Return the process as an instance executes it; with *history*, with tasks that are bound
        as the history shows."""
        binder = self._binder if history is None else RecordedBinder(self._binder, history)
        return ProcessVersion(
            version=self.version,
            graph=self.graph,
            bind=binder,
            saga=self._saga,
            is_served=not self.missing_handlers(),
        )

    def steps(self, run: RunRecord, history: Sequence[Event]) -> list[StepRecord]:
        return recorded_steps(history)

    def inspect(
        self,
        run: RunRecord,
        history: Sequence[Event],
        context: OfflineContext,
        element: str | None = None,
    ) -> ModelState:
        """Return the tokens, the variables and the trace that a history leads to; with *element*,
        the variables as seen from an active element. Raises NotThere."""
        program = self._replayed(run, history, context)
        state = program.machine.state
        variables = dict(state.root.variables) if state.ending is None else state.ending.variables
        if element is not None:
            token = next(
                (
                    token
                    for token in state.tokens.values()
                    if element in (token.node, token.activation, str(token.id))
                ),
                None,
            )
            if token is None:
                raise NotThere(run=run.id, element=element)
            variables = seen_by(state, token).flat()
        places = {wait.id: wait.node for wait in state.waits.values()}
        definition = self._version(program.version.version) or self
        return ModelState(
            tokens=_tokens(state),
            variables=variables,
            trace=state.trace,
            version=definition.version,
            xml=definition.model.xml,
            places=places,
        )

    def overview(
        self,
        run: RunRecord,
        history: Sequence[Event],
        state: bytes | None,
        context: OfflineContext,
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the variables of an instance, and the elements of its waits, that a checkpoint and
        the events after it lead to."""
        if state is not None and not any(event.kind in OUTCOMES for event in history):
            return overview_of(state)
        machine = self._replayed(run, history, context, state).machine.state
        places = {wait.id: wait.node for wait in machine.waits.values()}
        if machine.ending is not None:
            return machine.ending.variables, places
        return machine.root.variables, places

    def preview(
        self,
        run: RunRecord,
        history: Sequence[Event],
        context: OfflineContext,
        moves: Sequence[Mapping[str, Any]],
    ) -> list[RestingToken]:
        """Return the tokens that a run would have after a modification, up to the next work of
        handlers, people and other systems. Raises NotThere, BadExpression."""
        machine = self._replayed(run, history, context).machine
        instruct(machine, "modify", {"moves": moves})
        return _tokens(machine.state)

    def plan_migration(
        self,
        run: RunRecord,
        history: Sequence[Event],
        context: OfflineContext,
        to: str,
        mapping: Mapping[str, str],
    ) -> MigrationPlan:
        """Return what a migration to another version would do to each token of a run. Raises
        ModelNotFound."""
        version = self._version(to)
        if version is None:
            raise ModelNotFound(process=self.name, version=to)
        state = self._replayed(run, history, context).machine.state
        return plan_migration(state, version.as_version(history), mapping)[0]

    def diagram(self, run: RunRecord | None, history: Sequence[Event], codec: Codec) -> Diagram:
        """Return the process as nodes and edges; with *run*, with the states that its trace shows.
        The values of the run and of its events are opened, and none of the events is void."""
        if run is None:
            return draw_model(self.model, self.name, None)
        state = self.inspect(run, history, OfflineContext(codec))
        trace = RunTrace(
            status=run.status,
            tokens=state.tokens,
            trace=state.trace or TraceLog(),
            history=history,
        )
        return draw_model(self.model, self.name, trace)

    def _replayed(
        self,
        run: RunRecord,
        history: Sequence[Event],
        context: OfflineContext,
        state: bytes | None = None,
    ) -> ModelProgram:
        """Return a program in the state that a history leads to; it asks for nothing."""

        def version(name: str) -> ProcessVersion | None:
            definition = self._version(name)
            return None if definition is None else definition.as_version(history)

        program = ModelProgram(self.as_version(history), run, context, self._find, version)
        program.machine.state.trace = TraceLog()
        program.replay(history, state)
        return program


def _tokens(state: MachineState) -> list[RestingToken]:
    if state.ending is not None:
        return []
    return [resting_token(state, token) for token in state.tokens.values()]
