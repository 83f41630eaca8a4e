"""Turn the requests of the token machine into commands of the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.authoring import registry
from holdfast.authoring.bpmn.binding import BindTask
from holdfast.authoring.bpmn.compile import ProcessGraph
from holdfast.authoring.bpmn.forms import schema_of
from holdfast.authoring.bpmn.handlers import BoundHandler
from holdfast.authoring.bpmn.timers import DAY, SECOND, read_period
from holdfast.authoring.bpmn.token_machine.state import COMPENSATION, TokenWait
from holdfast.core.codec import Codec
from holdfast.core.commands import (
    AwaitChild,
    Broadcast,
    Command,
    OpenGate,
    Publish,
    RaiseIncident,
    RunStep,
    SendSignal,
    SetTimer,
    StartChild,
    Subscribe,
)
from holdfast.core.definitions import DefinitionRef, ref_to
from holdfast.core.events import EventRole
from holdfast.core.gates.model import ANY_FORM, APPROVE, GateTerms, Option
from holdfast.core.program import Definition
from holdfast.core.retry import RetryPolicy
from holdfast.core.runs import Route, RunRecord
from holdfast.core.tasks.policy import TaskPolicy
from holdfast.errors import BadDuration, NotThere, UnknownWorkflow

OF_TOPICS = "topic"
"""The version of external tasks. The versions of models are numbers: a process with the name of a
topic never executes its tasks."""

END = " end"
"""The suffix of the command that waits for the end of a child."""

COMPLETED = Option("complete", means=APPROVE)
"""The one choice of a user task."""

_NO_RETRIES = RetryPolicy()

FindDefinition = Callable[[str, str | None], Any]
"""Returns the stored definition of a name and version, or None."""


class Requests:
    """Builds the commands of one run."""

    def __init__(
        self,
        run: RunRecord,
        codec: Codec,
        graph: ProcessGraph,
        binder: BindTask,
        find: FindDefinition,
    ) -> None:
        self._run: RunRecord = run
        self._codec: Codec = codec
        self._graph: ProcessGraph = graph
        self._binder: BindTask = binder
        self._find: FindDefinition = find
        self._build: dict[str, Callable[[TokenWait], Command]] = {
            "work": self._work,
            "external": self._external,
            "user": self._user,
            "timer": self._timer,
            "message": self._subscribe,
            "signal": self._subscribe,
            "publish": self._publish,
            "broadcast": self._broadcast,
            "call": self._call,
            "incident": self._incident,
            "escalate": self._escalate,
        }

    def command(self, wait: TokenWait) -> Command:
        """Return the command of a request; of a child that was started, the wait for its end."""
        run_id = wait.data.get("run")
        if run_id is not None:
            return AwaitChild(f"{wait.id}{END}", wait.id, run_id, owned=True)
        return self._build[wait.kind](wait)

    def drop_id(self, wait_id: str, run_id: str | None) -> str:
        return wait_id if run_id is None else f"{wait_id}{END}"

    def _work(self, wait: TokenWait) -> Command:
        node = self._graph.nodes[wait.node]
        bound: BoundHandler | None = self._binder(node, wait.data.get("topic")).handler
        if bound is None:  # the task was migrated to a version that has it done otherwise
            raise NotThere(element=node.id, why="no handler is known for this task: retry it")
        data = wait.data
        work = node.element.work
        retries = data.get("retries", work.retries)
        delay = data.get("delay", work.delay)
        return RunStep(
            wait.id,
            node.id,
            bound.call(node, data["args"], data["local"]),
            bound.is_async,
            bound.policy or _model_policy(retries, delay),
            bound.timeout,
            bound.transactional,
            role=EventRole.COMPENSATION if data.get("mode") == COMPENSATION else None,
        )

    def _external(self, wait: TokenWait) -> Command:
        data = wait.data
        topic = data["topic"]
        route = Route(self._run.namespace, topic, OF_TOPICS, self._run.lane)
        policy = _model_policy(data["retries"], data.get("delay"))
        return StartChild(
            wait.id,
            DefinitionRef(topic, OF_TOPICS),
            route,
            self._codec.encode([data["variables"]]),
            {},
            policy=TaskPolicy(retries=policy.retries, delay=policy.delay, cap=policy.cap),
        )

    def _user(self, wait: TokenWait) -> Command:
        data = wait.data
        work = self._graph.nodes[wait.node].element.work
        people = ([str(data["assignee"])] if data.get("assignee") else []) + data["users"]
        shown = {"element": wait.node, "process": self._graph.id, "form_key": work.form_key}
        if data.get("due") is not None:
            shown["due"] = data["due"]
            shown["due_at"] = data["due_at"]
        if data.get("local"):
            shown["local"] = data["local"]
        return OpenGate(
            wait.id,
            str(data["name"]),
            GateTerms(options=(COMPLETED,), form=schema_of(work) or ANY_FORM),
            assignees=tuple(dict.fromkeys(people)),
            roles=tuple(dict.fromkeys(data["groups"])),
            data=self._codec.encode({key: value for key, value in shown.items() if value}),
            due_at=data.get("due_at"),
        )

    def _timer(self, wait: TokenWait) -> Command:
        return SetTimer(wait.id, until=wait.data["at"])

    def _subscribe(self, wait: TokenWait) -> Command:
        data = wait.data
        return Subscribe(wait.id, wait.kind, data["name"], data.get("key"), element=wait.node)

    def _publish(self, wait: TokenWait) -> Command:
        data = wait.data
        payload = self._codec.encode(data["variables"])
        return Publish(wait.id, data["name"], data.get("key"), payload)

    def _broadcast(self, wait: TokenWait) -> Command:
        data = wait.data
        return Broadcast(wait.id, data["name"], self._codec.encode(data["variables"]))

    def _incident(self, wait: TokenWait) -> Command:
        data = wait.data
        error = msgspec.json.encode(data["error"])
        return RaiseIncident(wait.id, data["element"], error, attempts=data["attempts"])

    def _escalate(self, wait: TokenWait) -> Command:
        payload = self._codec.encode(wait.data)
        name = escalation_signal(self._run.id)
        return SendSignal(wait.id, self._run.parent_id or "", name, payload)

    def _call(self, wait: TokenWait) -> Command:
        """Start the called process, or a workflow of another kind: the latest version, pinned by
        the start of the child."""
        data = wait.data
        name = data["target"]
        target, lane, capabilities, definition = self._target(name, data.get("version"))
        route = Route(self._run.namespace, name, target.version, lane, capabilities)
        return StartChild(
            wait.id, target, route, self._called_input(definition, data["variables"]), {}
        )

    def _target(
        self, name: str, version: str | None
    ) -> tuple[DefinitionRef, str, tuple[str, ...], Definition | None]:
        stored = self._find(name, version)
        if stored is not None:
            ref = DefinitionRef(name, stored.version, stored.kind)
            return ref, self._run.lane, (), None
        definition = registry.find(name)
        if definition is None:
            raise UnknownWorkflow(
                workflow=name, why="no deployed model and no workflow is named so"
            )
        return ref_to(definition), definition.lane, definition.capabilities, definition

    def _called_input(self, definition: Definition | None, variables: dict[str, Any]) -> bytes:
        """Return the input of a called workflow: its variables, or for a function the variables
        that its parameters name."""
        signature = None if definition is None else definition.signature
        if signature is None:
            return self._codec.encode([variables])
        named = {key: value for key, value in variables.items() if key in signature.names}
        if not named and len(signature.names) == 1:
            return signature.encode_args(self._codec, (variables,), {})
        return signature.encode_args(self._codec, (), named)


def escalation_signal(run_id: str) -> str:
    """Return the name of the signal with which a called process escalates to its caller."""
    return f"bpmn escalation {run_id}"


def _model_policy(retries: int | None, delay: str | None) -> RetryPolicy:
    """Return the retries that the model asks for."""
    if not retries:
        return _NO_RETRIES
    if delay is None:
        return RetryPolicy(retries=retries)
    try:
        period = read_period(delay)
    except BadDuration:
        return RetryPolicy(retries=retries)
    micros = period.micros + period.days * DAY
    return RetryPolicy(retries=retries, delay=micros, factor=1.0, cap=max(micros, SECOND))
