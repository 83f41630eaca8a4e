"""``TextWorkflow``: a text of a bundle as a definition that the engine, children and schedules
start."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import FrameType
from typing import Any

import msgspec

from holdfast.authoring.replay.async_program import AsyncProgram
from holdfast.authoring.replay.replay import current_program
from holdfast.authoring.replay.sync_program import SyncProgram
from holdfast.authoring.wf.bundle import Bundle
from holdfast.authoring.wf.diagram import TextPart, draw_text, item_counts, steps_drawn
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.identity import (
    CHILD,
    ITEMS,
    end_of,
    template_of,
    without_attempt,
)
from holdfast.authoring.wf.inputs import check_inputs, typed_inputs
from holdfast.authoring.wf.interpreter.flow import run_flow
from holdfast.authoring.wf.interpreter.machine import Host, Machine, RunArguments
from holdfast.authoring.wf.interpreter.plan import Plan
from holdfast.authoring.wf.schemas import OutputSchema
from holdfast.authoring.wf.variables import VariableMap
from holdfast.authoring.wf.view import TextStep, steps_of
from holdfast.core import typed_json
from holdfast.core.codec import Codec
from holdfast.core.commands import AwaitChild, StartChild
from holdfast.core.definitions import FrozenContent, ref_to
from holdfast.core.diagrams import Diagram
from holdfast.core.duration import Duration
from holdfast.core.events import Event
from holdfast.core.program import ProgramContext, StepRecord, recorded_steps
from holdfast.core.runs import ErrorInfo, Route, RunRecord
from holdfast.core.signature import Signature, split_arguments
from holdfast.core.status import FINAL
from holdfast.core.step_info import current_step
from holdfast.errors import BadOption, ChildFailed, NotInWorkflow


def _parameters(
    inputs: dict[str, Any] | None = None,
    *,
    dry_run: bool = False,
    keep_going: bool = False,
    variables: dict[str, str] | None = None,
    cwd: str | None = None,
) -> Any:
    """The parameters of every text workflow."""


class TextSignature(Signature):
    """The parameters of a text workflow; its declared inputs are checked before a run starts."""

    def __init__(self, document: Document) -> None:
        super().__init__(_parameters)
        self.name = document.name
        self._document: Document = document

    def encode_args(self, codec: Codec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """Return the checked arguments as bytes. Raises BadOption, WrongType."""
        bound, named = self._bound(args, kwargs)
        inputs = bound[0] if bound else None
        if inputs is None:
            inputs = {}
        if not isinstance(inputs, Mapping):
            raise BadOption(option="inputs", value=inputs, why="the inputs are an object")
        check_inputs(self._document, inputs)
        settings = {name: value for name, value in named.items() if value not in (None, False)}
        variables = settings.get("variables")
        if variables is not None:
            settings["variables"] = _texts(variables)
        if settings.get("cwd") is not None:
            settings["cwd"] = os.path.abspath(os.fspath(settings["cwd"]))
        return codec.encode({"args": [dict(inputs)], "kwargs": settings}, label="the arguments")


def _texts(variables: Any) -> dict[str, str]:
    if not isinstance(variables, Mapping):
        raise BadOption(option="variables", value=variables, why="variables are an object")
    for name, value in variables.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise BadOption(option="variables", value=name, why="each variable is a text")
    return dict(variables)


class TextSource:
    """The text as the source of replayed code: the places that it has, and their lines."""

    def __init__(self, plan: Plan, body: str | None) -> None:
        self._plan: Plan = plan
        self._prefix: str = "" if body is None else f"{body}:"

    def find_unreachable(
        self, frames: Iterable[FrameType], outcomes: Sequence[Event]
    ) -> Event | None:
        """Return the first outcome at a place that the text does not have."""
        return next((event for event in outcomes if not self._has(event.step or "")), None)

    def place_of(self, step: str) -> str | None:
        """Return the path and the line of a step."""
        line = self._plan.lines.get(self._prefix + template_of(step_of(step)))
        if line is None:
            return None
        return f"{self._plan.document.path}:{line}"

    def _has(self, step: str) -> bool:
        return self._prefix + template_of(step_of(step)) in self._plan.steps


def step_of(identity: str) -> str:
    """Return the identity of the step to which a command belongs: a foreach has several."""
    step = identity.removesuffix(ITEMS).removesuffix(" end").removesuffix(" delay")
    return without_attempt(step.partition(CHILD)[0])


class TextWorkflow:
    """A workflow of a bundle, with the library that executes its calls."""

    kind = "wf"
    accepts_versions: frozenset[str] | None
    needs_thread = False
    writes_checkpoints = False
    capabilities: tuple[str, ...] = ()
    schedules: Sequence[Any] = ()

    def __init__(self, bundle: Bundle, document: Document, library: Host) -> None:
        self.bundle: Bundle = bundle
        self.document: Document = document
        self.library: Host = library
        self.name: str = document.name
        self.version: str = bundle.version
        self.lane: str = "default"
        self.accepts_versions = frozenset({self.version})
        self.signature: TextSignature = TextSignature(document)
        self.plan: Plan = bundle.plan(document)
        self.workflow: TextWorkflow = self
        """The workflow without start options."""
        self.start_options: dict[str, Any] | None = None
        self._host: BundleHost = BundleHost(bundle, library)
        self._source: TextSource = TextSource(self.plan, None)
        self._siblings: dict[str, TextWorkflow] = {}

    @property
    def frozen(self) -> FrozenContent:
        """The content that its runs keep."""
        return self.bundle.frozen

    @property
    def start_budget(self) -> dict[str, str] | None:
        """The hard limits of each run, as its text declares them; None without limits."""
        limits = {limit.metric: limit.limit for limit in self.document.budget}
        return limits or None

    def options(
        self,
        *,
        id: str | None = None,
        key: str | None = None,
        lane: str | None = None,
        priority: int | None = None,
        delay: Duration | datetime | None = None,
        deadline: Duration | datetime | None = None,
        tags: Mapping[str, str] | None = None,
        namespace: str | None = None,
        budget: Any = None,
        share: str | None = None,
        on_parent_end: str | None = None,
    ) -> TextWorkflow:
        """Return the same workflow with options of its start, apart from its arguments."""
        named = dict(locals())
        named.pop("self")
        other = copy.copy(self)
        other.start_options = {name: value for name, value in named.items() if value is not None}
        return other

    def program(self, run: RunRecord, context: ProgramContext) -> AsyncProgram:
        """Return a program for *run*, not yet begun. Raises WrongType, BadData, BadOption."""
        arguments = self._arguments(context.codec, run)
        source = self._source
        if arguments.body is not None:
            source = TextSource(self.plan, arguments.body)
        typed = arguments.inputs
        if arguments.only is None and arguments.body is None:
            typed = typed_inputs(self.document, arguments.inputs)

        async def call() -> bytes:
            return await run_flow(machine)

        program = AsyncProgram(run, context, source, call, stop_undoing=False)
        machine = Machine(program, self.document, self.plan, self._host, self, arguments, typed)
        return program

    def _arguments(self, codec: Codec, run: RunRecord) -> RunArguments:
        stored = split_arguments(codec.decode(run.input), f"the arguments of {self.name}")
        inputs = stored.args[0] if stored.args else {}
        return typed_json.convert({**stored.kwargs, "inputs": inputs or {}}, RunArguments)

    def steps(self, run: RunRecord, history: Sequence[Event]) -> list[StepRecord]:
        """Return the steps of a run under their identities; none of the events is void."""
        return recorded_steps(history)

    def text_steps(
        self,
        run: RunRecord,
        history: Sequence[Event],
        codec: Codec,
        children: Sequence[tuple[str, str, int | None, str, bytes | None]],
    ) -> list[TextStep]:
        """Return the steps of the text, in the order in which they started; *children* are the
        child runs: id, step, index, status, result."""
        arguments = self._arguments(codec, run)
        steps = steps_of(self.plan, arguments.body, history, codec, children)
        if run.status in FINAL:
            for step in steps:
                if step.status in ("running", "waiting"):
                    step.status = "cancelled"
        return steps

    def diagram(self, run: RunRecord | None, history: Sequence[Event], codec: Codec) -> Diagram:
        """Return the text as nodes and edges; with *run*, with the states of that run. The values
        of the run and of its events are opened, and none of the events is void."""
        if run is None:
            return draw_text(self.plan, TextPart(), (), None)
        arguments = self._arguments(codec, run)
        only = None if arguments.only is None else arguments.only.template
        part = TextPart(body=arguments.body, only=only)
        steps = steps_drawn(self.plan, part, history, codec)
        return draw_text(self.plan, part, steps, run.status, item_counts(history))

    # Called by the interpreter

    def sibling(self, name: str) -> TextWorkflow | None:
        """Return the text workflow of that name which this text calls; None if there is none."""
        workflow = self._siblings.get(name)
        if workflow is None:
            document = self.bundle.document(name, self.document)
            if document is None:
                return None
            workflow = TextWorkflow(self.bundle, document, self.library)
            self._siblings[name] = workflow
        return workflow

    def template(self, arguments: RunArguments, identity: str) -> str:
        """Return the place in the text of an identity of a run with these arguments."""
        prefix = "" if arguments.body is None else f"{arguments.body}:"
        return prefix + template_of(identity)

    def visible_variables(self, variables: VariableMap) -> dict[str, str]:
        """Return the variables that the body of a foreach may use. All earlier contexts may be
        large: they are passed on only if the text mentions them."""
        return {
            name: variables[name]
            for name in variables
            if name != "prior_contexts" or name in self.document.text
        }

    # Called by Python workflows

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it as a child of the calling Python workflow and return its result; in an
        ``async def`` workflow, return a coroutine of it. Raises NotInWorkflow elsewhere."""
        program = current_program.get()
        if program is None or current_step.get() is not None:
            raise NotInWorkflow(call=self.name, why="a text workflow runs in an engine: start it")
        data = self.signature.encode_args(program.codec, args, kwargs)
        identity = program.identify(f"run {self.name}")
        lane = (self.start_options or {}).get("lane") or self.lane
        route = Route(program.run.namespace, self.name, self.version, lane)
        start = StartChild(identity, ref_to(self.workflow), route, data, {})
        program.open_children.add(identity)
        if isinstance(program, AsyncProgram):
            return self._call_child(program, start)
        assert isinstance(program, SyncProgram)
        run_id = _run_id(program.call(start))
        return self._end(program, start, run_id, program.call(_await(program, start, run_id)))

    async def _call_child(self, program: AsyncProgram, start: StartChild) -> Any:
        run_id = _run_id(await program.call(start))
        return self._end(program, start, run_id, await program.call(_await(program, start, run_id)))

    def _end(self, program: Any, start: StartChild, run_id: str, event: Event) -> Any:
        program.open_children.discard(start.id)
        if event.error is not None:
            info = typed_json.decode(event.error, ErrorInfo)
            raise ChildFailed(workflow=self.name, run=run_id, type=info.type, message=info.message)
        return program.read(event, program.codec.decode)

    def __repr__(self) -> str:
        return f"<workflow {self.name} of {self.document.path}>"


def _run_id(event: Event) -> str:
    run_id: str = msgspec.json.decode(event.data or b"{}")["run"]
    return run_id


def _await(program: Any, start: StartChild, run_id: str) -> AwaitChild:
    return AwaitChild(program.identify(end_of(start.id)), start.id, run_id, owned=True)


class BundleHost:
    """The library as the runs of one bundle see it: schemas come from the bundle first."""

    def __init__(self, bundle: Bundle, library: Host) -> None:
        self._bundle: Bundle = bundle
        self._library: Host = library
        self.root: str = library.root
        self.find_executor = library.find_executor
        self.find_provider = library.find_provider
        self.environments = library.environments
        self.find_definition = library.find_definition
        self.query_runs = library.query_runs

    def find_schema(self, workflow: str, name: str) -> OutputSchema | None:
        """Return the schema that a run of this bundle was started with."""
        return self._bundle.schema(workflow, name) or self._library.find_schema(workflow, name)
