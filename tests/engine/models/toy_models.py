"""A small front end whose source is data: a model is a name and a list of steps, as a dict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.authoring import registry
from holdfast.core.commands import (
    AnswerInstruction,
    AwaitChild,
    Broadcast,
    Command,
    Drop,
    Finish,
    OpenGate,
    Publish,
    RaiseIncident,
    Rest,
    RunStep,
    SetTimer,
    StartChild,
    Subscribe,
)
from holdfast.core.definitions import (
    CompiledDefinition,
    DefinitionRef,
    StartTrigger,
    StoredDefinition,
    freeze,
    ref_to,
    short_version,
)
from holdfast.core.event_table import OUTCOMES
from holdfast.core.events import Event, EventKind
from holdfast.core.gates.model import GateTerms
from holdfast.core.program import StepRecord, recorded_steps
from holdfast.core.resting_tokens import RestingToken
from holdfast.core.retry import RetryPolicy
from holdfast.core.runs import Route, RunRecord
from holdfast.core.tasks.policy import TaskPolicy
from holdfast.errors import Diverged, NotThere, UnknownWorkflow

VALUES = (EventKind.STEP_COMPLETED, EventKind.CHILD_ENDED)


class ToyProgram:
    """The next step, and the variables."""

    feeds_before_commit = True

    def __init__(self, definition: ToyModel, run: RunRecord) -> None:
        self.model = definition
        self.run = run
        self.at = 0
        self.open: dict[str, Any] = {}
        arguments = msgspec.json.decode(run.input)
        self.variables: dict[str, Any] = dict(arguments[0]) if arguments else {}
        if len(arguments) > 1:
            self.variables["started_by"] = arguments[1]["start"]

    async def begin(self, history: Sequence[Event], state: bytes | None) -> list[Command]:
        self._next()
        for event in history:
            if event.kind in OUTCOMES:
                self._take(event)
        return [*self.open.values(), *self._end()]

    async def feed(self, events: Sequence[Event]) -> list[Command]:
        before = dict(self.open)
        answers: list[Command] = []
        for event in events:
            answers += self._take(event)
        drops = [Drop(id) for id in before if id not in self.open and id in self.dropped]
        new = [command for id, command in self.open.items() if id not in before]
        return [*answers, *drops, *new, *self._end()]

    def close(self) -> None:
        """There is nothing to release."""

    @property
    def dropped(self) -> set[str]:
        return getattr(self, "_dropped", set())

    def _take(self, event: Event) -> list[Command]:
        if event.kind == EventKind.CANCEL_REQUESTED:
            self.at = len(self.model.lines)
            self.cancelled = True
            self._dropped = set(self.open)
            self.open = {}
            return []
        data = msgspec.json.decode(event.data) if event.data else None
        if event.kind == EventKind.INSTRUCTED:
            return self._instructed(data)
        command = self.open.pop(event.step or "", None)
        if command is None:
            raise Diverged(step=event.step, why="the model does not wait for it")
        if event.kind == EventKind.CHILD_STARTED:
            child = AwaitChild(f"{command.id} end", command.id, data["run"], owned=True)
            self.open[child.id] = child
            return []
        self._note(event, command, data)
        if self.open and isinstance(command, Subscribe | SetTimer):  # a race: the first one wins
            self._dropped = self.dropped | set(self.open)
            self.open = {}
        if not self.open:
            self.at += 1
            self._next()
        return []

    def _note(self, event: Event, command: Any, data: Any) -> None:
        name = command.id.partition("#")[0].removesuffix(" end")
        if event.error is not None:
            self.variables[name] = msgspec.json.decode(event.error)["type"]
        elif event.kind == EventKind.TIMER_FIRED:
            self.variables["timer"] = "fired"
        elif event.kind in VALUES or isinstance(data, dict):
            self.variables[name] = data

    def _instructed(self, data: dict[str, Any]) -> list[Command]:
        if data["verb"] != "set_variables":
            refusal = NotThere(run=self.run.id, element=data.get("element"))
            return [AnswerInstruction(data["id"], error=refusal)]
        self.variables.update(data["variables"])
        return [AnswerInstruction(data["id"], msgspec.json.encode({"by": data.get("by")}))]

    def _end(self) -> list[Command]:
        if self.at < len(self.model.lines):
            resting = [
                RestingToken(id=id, element=id.partition("#")[0], waits_for=type(command).__name__)
                for id, command in self.open.items()
            ]
            return [Rest(resting)] if self.model.rests else []
        if getattr(self, "cancelled", False):
            return [Finish("cancelled")]
        return [Finish("completed", result=msgspec.json.encode(self.variables))]

    def _next(self) -> None:
        while self.at < len(self.model.lines) and not self.open:
            for number, step in enumerate(self.model.lines[self.at]):
                verb, *args = step
                command = getattr(self, f"_{verb}")(f"{args[0]}#{self.at}.{number}", *args)
                self.open[command.id] = command
            if not self.open:
                self.at += 1

    def _call(self, id: str, name: str) -> Command:
        function = self.model.functions[name]
        variables = dict(self.variables)
        return RunStep(id, name, lambda info, _: function(variables), False, RetryPolicy())

    def _wait(self, id: str, name: str, key: str | None = None) -> Command:
        if key is not None:
            key = str(self.variables[key])
        return Subscribe(id, "message", name, key, element=name)

    def _hear(self, id: str, name: str) -> Command:
        return Subscribe(id, "signal", name, element=name)

    def _send(self, id: str, name: str, key: str | None = None, ttl: int = 0) -> Command:
        if key is not None:
            key = str(self.variables[key])
        return Publish(id, name, key, msgspec.json.encode({"from": self.run.id}), ttl)

    def _shout(self, id: str, name: str) -> Command:
        return Broadcast(id, name, msgspec.json.encode({"from": self.run.id}))

    def _sleep(self, id: str, name: str, seconds: int) -> Command:
        return SetTimer(id, seconds * 1_000_000)

    def _until(self, id: str, name: str, instant: int) -> Command:
        return SetTimer(id, until=instant)

    def _break(self, id: str, name: str) -> Command:
        error = {"type": "ValueError", "message": f"{name} is broken"}
        return RaiseIncident(id, name, msgspec.json.encode(error), attempts=3)

    def _ask(self, id: str, name: str) -> Command:
        return OpenGate(id, name, GateTerms())

    def _topic(self, id: str, name: str) -> Command:
        route = Route(self.run.namespace, name, "1", "default")
        variables = msgspec.json.encode([self.variables])
        policy = TaskPolicy()
        return StartChild(id, DefinitionRef(name, "1"), route, variables, {}, policy=policy)

    def _run(self, id: str, name: str) -> Command:
        child = self.model.children[name]
        route = Route(self.run.namespace, name, child.version, "default")
        return StartChild(id, ref_to(child), route, msgspec.json.encode([self.variables]), {})


class ToyModel:
    """A model whose version is its content, or the number of its deployment."""

    kind, lane = "toy", "default"
    capabilities: tuple[str, ...] = ()
    needs_thread, writes_checkpoints = False, False
    signature, schedules = None, ()

    def __init__(
        self,
        content: bytes,
        functions: Mapping[str, Callable[..., Any]],
        name: str = "",
        version: str = "",
    ) -> None:
        source = msgspec.json.decode(content)
        self.frozen = freeze(content)
        self.name: str = name or source["name"]
        children = source.get("children", {})
        self.lines = children.get(name, source["steps"]) if name else source["steps"]
        self.rests = bool(source.get("rests"))
        self.version: str = version or short_version(self.frozen.digest)
        self.accepts_versions = frozenset({self.version})
        self.functions = functions
        self.children = {
            child: ToyModel(content, functions, child, self.version)
            for child in ({} if name else children)
        }

    def program(self, run: RunRecord, context: Any) -> ToyProgram:
        return ToyProgram(self, run)

    def steps(self, run: RunRecord, history: Sequence[Event]) -> list[StepRecord]:
        return recorded_steps(history)


class ToyKind:
    """How toy models are read, stored and loaded."""

    kind = "toy"

    def accepts(self, source: Any) -> bool:
        return isinstance(source, dict) and "steps" in source

    def compile(
        self, sources: Sequence[Any], options: Mapping[str, Any], context: Any
    ) -> list[CompiledDefinition]:
        return [
            CompiledDefinition(
                kind="toy",
                name=source["name"],
                content=msgspec.json.encode(source),
                starts=[StartTrigger(*start) for start in source.get("starts", ())],
            )
            for source in sources
        ]

    def load(self, stored: StoredDefinition, context: registry.LoadContext) -> Any:
        source = msgspec.json.decode(stored.content)
        needed = [step[1] for steps in source["steps"] for step in steps if step[0] == "call"]
        missing = [name for name in needed if name not in context.handlers]
        if missing:
            raise UnknownWorkflow(workflow=stored.name, why=f"no handler for {missing}")
        own = "" if stored.name == source["name"] else stored.name
        return ToyModel(stored.content, context.handlers, own, stored.version)

    def describe(self, stored: StoredDefinition) -> Mapping[str, Any]:
        return {"xml": stored.content.decode()}


registry.register_kind(ToyKind())


def toy(name: str, *steps: Any, **more: Any) -> dict[str, Any]:
    """Return the source of a model; each step is one instruction, or a list of instructions that
    race."""
    raced = [step if isinstance(step, list) else [step] for step in steps]
    return {"name": name, "steps": raced, **more}
