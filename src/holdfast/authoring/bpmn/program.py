"""The program of a model's run: recorded outcomes in, commands out.

The tokens follow from the history alone: the program feeds each outcome to the token machine, with
the time of the outcome, and turns the requests of the machine into commands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast.authoring.bpmn.answers import ANSWERS, decoded
from holdfast.authoring.bpmn.outcomes import (
    catches_escalations,
    error_of,
    exception_of,
    facts_of,
    first_argument,
)
from holdfast.authoring.bpmn.requests import (
    END,
    FindDefinition,
    Requests,
    escalation_signal,
)
from holdfast.authoring.bpmn.resting import TokenRows
from holdfast.authoring.bpmn.token_machine.instructions import instruct
from holdfast.authoring.bpmn.token_machine.machine import TokenMachine, described
from holdfast.authoring.bpmn.token_machine.migration import (
    ProcessVersion,
    answer_of,
    continue_migrated,
    plan_migration,
    renamed_waits,
)
from holdfast.authoring.bpmn.token_machine.snapshot import restore, snapshot_of
from holdfast.authoring.bpmn.token_machine.state import MachineState, TokenWait
from holdfast.authoring.bpmn.token_machine.throwing import throw_escalation
from holdfast.authoring.bpmn.token_machine.trace import ElementLog
from holdfast.core.commands import (
    AnswerInstruction,
    AwaitSignal,
    ChangeVersion,
    Checkpoint,
    Command,
    Drop,
    EndChildren,
    Finish,
)
from holdfast.core.event_table import OUTCOMES
from holdfast.core.events import Event, EventKind
from holdfast.core.program import ProgramContext
from holdfast.core.runs import RunRecord
from holdfast.core.versions import first_version, version_changes
from holdfast.errors import (
    Diverged,
    HoldfastError,
    MappingRefused,
    ModelNotFound,
    NotThere,
)

CHECKPOINT_AFTER = 500
"""A run that rests writes a checkpoint after so many outcomes and requests; a run with many tokens
after half as many as it has tokens: a checkpoint has all of them, and must not cost more than the
events that it replaces."""

SHOWS_TOKENS = True
"""Whether tokens at rest are written as rows."""

FindVersion = Callable[[str], ProcessVersion | None]
"""Returns another version of the process, or None."""

CHILDREN = "children"
HEARD = ":escalated"


class ModelProgram:
    """The execution of one run of a process."""

    feeds_before_commit = True

    def __init__(
        self,
        version: ProcessVersion,
        run: RunRecord,
        context: ProgramContext,
        find: FindDefinition,
        versions: FindVersion,
    ) -> None:
        self._run: RunRecord = run
        self._context: ProgramContext = context
        self._find: FindDefinition = find
        self._versions: FindVersion = versions
        self.version: ProcessVersion = version
        self.machine: TokenMachine = TokenMachine(
            version.graph, version.bind, now=run.created_at, saga=version.saga
        )
        self.machine.state.has_caller = run.parent_id is not None
        self._requests: Requests = Requests(run, context.codec, version.graph, version.bind, find)
        self._resting: TokenRows = TokenRows(version.graph)
        self._hears: bool = catches_escalations(version.graph)
        self._children: dict[str, str] = {}
        """The runs of the children that have not ended, by the id of their wait."""
        self._ended: dict[str, str] = {}
        """The children that have ended in this turn."""
        self._elements: ElementLog | None = None
        """What happens at elements, if the deployment asks for an event for each."""
        self._since_checkpoint: int = 0
        self._recorded_changes: frozenset[str] | None = None
        """While a history is fed: the instructions that have changed the version."""
        self._must_checkpoint: bool = False
        """Whether the version has changed: the next holder begins with the state after it."""
        self._leaves: bool = False
        """Whether another process must continue: it has the handlers of the other version."""
        self._is_restored: bool = False
        """Whether a checkpoint has the requests that are open at the beginning."""
        self._stopping: str | None = None
        """Why the run ends once its children have ended."""
        self._extra: list[Command] = []

    async def begin(self, history: Sequence[Event], state: bytes | None) -> list[Command]:
        self._load(history, state)
        if self._elements is not None:
            self._elements.forget_recorded(history, state)
        if self._context.asked_time is False:
            self._context.asked_time = self._has_timers()
        return self._pending()

    def replay(self, history: Sequence[Event], state: bytes | None = None) -> None:
        """Feed a history, or the part after a checkpoint with *state*, without asking for anything:
        to see the tokens that it leads to."""
        self._load(history, state)

    def _load(self, history: Sequence[Event], state: bytes | None) -> None:
        if state is None:
            self._begin_with(first_version(history))
            variables, start = self._input()
            self.machine.start(variables, start)
        else:
            self._is_restored = True
            more = restore(self.machine.state, state)
            self._children = more["children"]
            self._stopping = more["stopping"]
            if more.get("migrated"):
                continue_migrated(self.machine)
        self._recorded_changes = version_changes(history)
        for event in history:
            if event.kind in OUTCOMES:
                self._take(event)
            elif event.kind == EventKind.INCIDENT_RAISED:
                self._refused_before(event)
        self._recorded_changes = None

    def _refused_before(self, event: Event) -> None:
        """Repeat the incident of a request that could not become a command, as a call of a process
        that did not exist: it may exist by now."""
        step = event.step or ""
        wait = self.machine.state.waits.get(step.rpartition("!")[0])
        if wait is not None and step not in self.machine.state.waits:
            self.machine.answer(wait.id, "failed", error_of(event.error))

    def _begin_with(self, version: str | None) -> None:
        """Begin with the version that the run was started with, if it was migrated since."""
        if version is None or version == self.version.version:
            return
        first = self._versions(version)
        if first is None:
            why = f"the run began with version {version}, which is not stored"
            raise Diverged(step=self._run.workflow, why=why)
        state = self.machine.state
        began = MachineState(first.graph, first.bind, state.now, first.saga)
        began.has_caller = state.has_caller
        began.trace = state.trace
        self._use(first, began)

    def _use(self, version: ProcessVersion, state: MachineState) -> None:
        """Execute a version of the process, from a state on."""
        self.version = version
        self.machine.state = state
        self._requests = Requests(
            self._run, self._context.codec, version.graph, version.bind, self._find
        )
        self._hears = catches_escalations(version.graph)

    def _input(self) -> tuple[dict[str, Any], str | None]:
        """Return the variables that the run was started with, and the start event."""
        stored = self._context.codec.decode(self._run.input, label="the variables")
        if isinstance(stored, dict):
            return {**first_argument(stored.get("args")), **stored.get("kwargs", {})}, None
        start = None
        if isinstance(stored, list) and len(stored) > 1 and isinstance(stored[1], dict):
            start = stored[1].get("start")
        return first_argument(stored), start

    async def feed(self, events: Sequence[Event]) -> list[Command]:
        state = self.machine.state
        state.requests.clear()
        state.dropped.clear()
        self._extra.clear()
        self._ended.clear()
        for event in events:
            self._take(event)
        state = self.machine.state  # a migration replaces it
        if self._leaves:
            state.requests.clear()  # the next holder asks for them
        if any(wait.kind == "timer" for wait in state.requests.values()):
            self._context.asked_time = True
        commands: list[Command] = [
            Drop(self._requests.drop_id(id, self._children.get(id) or self._ended.get(id)))
            for id in state.dropped
        ]
        commands += self._extra
        commands += [command for wait in state.requests.values() for command in self._ask(wait)]
        self._since_checkpoint += len(state.requests)
        return [*self._visits(), *commands, *self._rest(), *self._end()]

    def close(self) -> None:
        """There is nothing to release."""

    def _has_timers(self) -> bool:
        return any(wait.kind == "timer" for wait in self.machine.state.waits.values())

    def _pending(self) -> list[Command]:
        state = self.machine.state
        state.requests.clear()
        state.dropped.clear()
        self._extra.clear()
        commands = [
            command
            for wait in list(state.waits.values())
            if wait.kind not in ("condition", "trigger")
            for command in self._ask(wait)
        ]
        if not self._is_restored:
            self._since_checkpoint += len(commands)
        return [*self._visits(), *commands, *self._extra, *self._rest(), *self._end()]

    def record_elements(self) -> None:
        """Let the history have an event for each element."""
        self._elements = ElementLog()
        self.machine.state.trace = self._elements

    def _visits(self) -> list[Command]:
        """Return the commands that record elements. They come first: in the commit of the outcome
        that led there."""
        return [] if self._elements is None else self._elements.commands()

    def _ask(self, wait: TokenWait) -> list[Command]:
        """Return the commands of a request. A call of something that does not exist becomes an
        incident instead."""
        try:
            commands = [self._requests.command(wait)]
        except HoldfastError as error:
            return self._refused(wait, error)
        run_id = wait.data.get("run")
        if run_id is not None and self._hears and wait.kind == "call":
            number = wait.data.get("heard", 0)
            commands.append(AwaitSignal(f"{wait.id}{HEARD}{number}", escalation_signal(run_id)))
        return commands

    def _refused(self, wait: TokenWait, error: HoldfastError) -> list[Command]:
        state = self.machine.state
        self.machine.answer(wait.id, "failed", described(error))
        requests = [request for id, request in state.requests.items() if id != wait.id]
        state.requests = {request.id: request for request in requests}
        return [self._requests.command(entry) for entry in requests if entry.kind == "incident"]

    def _take(self, event: Event) -> None:
        state = self.machine.state
        state.now = max(state.now, event.at)
        state.version = event.seq or state.version + 1
        self._since_checkpoint += 1
        if event.kind == EventKind.CANCEL_REQUESTED:
            self._stopping = "cancelled"
        elif event.kind == EventKind.INSTRUCTED:
            self._instructed(event)
        elif event.kind == EventKind.CHILDREN_ENDED:
            self._ended.update(self._children)
            self._children = {}
        elif event.kind == EventKind.SIGNAL_RECEIVED:
            self._escalated(event)
        else:
            self._outcome(event)

    def _outcome(self, event: Event) -> None:
        step = event.step or ""
        id = step.removesuffix(END) if event.kind == EventKind.CHILD_ENDED else step
        wait = self.machine.state.waits.get(id)
        if event.kind == EventKind.CHILD_ENDED:
            self._end_child(id)
        if wait is None:
            self._check_dropped(id)
            return
        if event.kind == EventKind.CHILD_STARTED:
            self._child_started(wait, event)
            return
        answer = ANSWERS.get(event.kind)
        if answer is None:
            raise Diverged(step=step, why=f"the model does not expect {event.kind}")
        answer(self.machine, self._context.codec, wait, event)

    def _end_child(self, id: str) -> None:
        run_id = self._children.pop(id, None)
        if run_id is not None:
            self._ended[id] = run_id

    def _check_dropped(self, id: str) -> None:
        """Raise Diverged for an outcome that the model never asked for."""
        element = id.partition("#")[0].partition(":")[0].partition("!")[0]
        if self.machine.state.counts.get(element, 0) == 0:
            raise Diverged(step=id, why="the model has not reached this element")

    def _child_started(self, wait: TokenWait, event: Event) -> None:
        run_id = msgspec.json.decode(event.data or b"{}")["run"]
        wait.data["run"] = run_id
        self._children[wait.id] = run_id
        self._extra += self._ask(wait)

    def _instructed(self, event: Event) -> None:
        facts = facts_of(event)
        try:
            if facts.get("verb") == "migrate":
                answer = self._migrate(facts)
            else:
                answer = instruct(self.machine, facts.get("verb", ""), facts)
        except HoldfastError as error:
            self._extra.append(AnswerInstruction(facts["id"], error=error))
            return
        encoded = self._context.codec.encode(answer)
        self._extra.append(AnswerInstruction(facts["id"], encoded))

    def _migrate(self, facts: dict[str, Any]) -> Any:
        """Continue with another version of the process, or refuse that. Raises MappingRefused,
        ModelNotFound, NotThere."""
        recorded = self._recorded_changes
        if recorded is not None and facts["id"] not in recorded:
            return None  # it was refused
        if self._stopping:
            raise NotThere(run=self._run.id, why="the run is being cancelled")
        version = self._versions(facts["to"])
        if version is None:
            raise ModelNotFound(process=self._run.workflow, version=facts["to"])
        plan, state = plan_migration(self.machine.state, version, facts.get("mapping") or {})
        if plan.problems:
            raise MappingRefused(process=self._run.workflow, problems="; ".join(plan.problems))
        if state is None:
            return answer_of(plan)
        self._leaves = recorded is None and not version.is_served
        change = ChangeVersion(version.version, self.version.version, facts["id"], not self._leaves)
        change.places = renamed_waits(self.machine.state, state)
        self._use(version, state)
        if change.continues:
            continue_migrated(self.machine)
        self._must_checkpoint = recorded is None
        self._extra.append(change)
        return answer_of(plan)

    def _escalated(self, event: Event) -> None:
        """Throw the escalation of a called process at its call activity."""
        state = self.machine.state
        id = (event.step or "").partition(HEARD)[0]
        wait = state.waits.get(id)
        token = None if wait is None else state.tokens.get(wait.token or 0)
        if wait is None or token is None:
            self._check_dropped(id)
            return
        wait.data["heard"] = wait.data.get("heard", 0) + 1
        facts = decoded(self._context.codec, event) or {}
        if isinstance(facts, dict) and "payload" in facts:
            facts = facts["payload"]
        throw_escalation(state, token, facts.get("code"), facts.get("variables") or {})
        self.machine.run()
        if id in state.waits:
            self._extra += self._ask(wait)[1:]

    def _rest(self) -> list[Command]:
        """Return the tokens at rest and a checkpoint, if nothing is being executed here."""
        state = self.machine.state
        if state.ending is not None or self._stopping:
            return []
        commands: list[Command] = []
        is_working = self._resting.is_working(state)
        if SHOWS_TOKENS and not is_working and not self._leaves:
            commands = self._resting.changes(state)
        is_due = self._since_checkpoint >= max(CHECKPOINT_AFTER, len(state.tokens) // 2)
        if (is_due and not is_working) or self._must_checkpoint:
            self._since_checkpoint = 0
            self._must_checkpoint = False
            more: dict[str, Any] = {"children": self._children, "stopping": self._stopping}
            if self._leaves:
                more["migrated"] = True
            commands.append(Checkpoint(snapshot_of(state, more)))
        return commands

    def _end(self) -> list[Command]:
        ending = self.machine.state.ending
        if ending is None and self._stopping is None:
            return []
        if self._children:
            return [EndChildren(CHILDREN)]
        if ending is None:
            return [Finish("cancelled")]
        if ending.status == "completed":
            return [Finish("completed", result=self._context.codec.encode(ending.variables))]
        return [Finish("failed", error=exception_of(ending))]
