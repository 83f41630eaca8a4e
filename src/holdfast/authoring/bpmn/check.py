"""Check a model: all problems that prevent the execution of a process, and all parts that are
ignored, each with its element, its line and a hint."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.authoring.bpmn.check_nodes import NodeChecks
from holdfast.authoring.bpmn.model import (
    ACTIVITIES,
    CHOREOGRAPHY,
    NODES,
    SUBPROCESSES,
    WAITING,
    Element,
    Model,
    ModelProblem,
    ProcessInfo,
)

Knows = Callable[[str], bool]
"""Whether a handler has this name."""


def check_model(model: Model, knows: Knows = lambda name: False) -> list[ModelProblem]:
    """Return all problems of a model, in the order of lines."""
    problems = list(model.notes)
    if not model.processes:
        problems.append(
            ModelProblem(
                severity="warning",
                code="no-process",
                message="the file has no process",
                hint="add a process with isExecutable",
            )
        )
    for process in model.processes:
        problems += _ProcessChecks(model, process, knows).problems()
    return sorted(problems, key=lambda problem: problem.line or 0)


class _ProcessChecks:
    """The checks of one process."""

    def __init__(self, model: Model, process: ProcessInfo, knows: Knows) -> None:
        self._model: Model = model
        self._process: ProcessInfo = process
        self._elements: list[Element] = [
            element for element in model.elements.values() if element.process == process.id
        ]
        self._nodes: list[Element] = [element for element in self._elements if element.tag in NODES]
        self._details: NodeChecks = NodeChecks(model, knows)

    def problems(self) -> list[ModelProblem]:
        collected = [*self._process_itself(), *self._flows(), *self._links()]
        for scope in (self._process.id, *self._scopes()):
            collected += self._scope(scope)
        for node in self._nodes:
            collected += self._node(node)
            collected += [
                self._problem(node, code, message, hint, severity)
                for severity, code, message, hint in self._details.of(node)
            ]
        return collected

    def _problem(
        self,
        element: Element | None,
        code: str,
        message: str,
        hint: str | None = None,
        severity: str = "error",
    ) -> ModelProblem:
        return ModelProblem(
            severity=severity,
            code=code,
            message=message,
            process=self._process.id,
            element=None if element is None else element.id,
            line=self._process.line if element is None else element.line,
            hint=hint,
        )

    def _process_itself(self) -> Iterator[ModelProblem]:
        if not self._process.executable:
            yield self._problem(
                None,
                "not-executable",
                "the process is not declared executable",
                'it is executed all the same; isExecutable="true" says so',
                "warning",
            )
        if not self._nodes:
            yield self._problem(None, "empty", "the process has no elements", "add a start event")
        if self._process.saga not in (None, "none", "scope", "instance"):
            yield self._problem(
                None, "bad-saga", f"saga is {self._process.saga!r}", "use scope or instance"
            )
        for element in self._elements:
            if element.tag in CHOREOGRAPHY:
                yield self._problem(
                    element, "unsupported", "choreographies are not executed", "model a process"
                )
            elif element.tag == "dataStoreReference":
                yield self._problem(
                    element, "shown-only", "the data store is only shown", None, "warning"
                )

    def _scopes(self) -> list[str]:
        return [node.id for node in self._nodes if node.tag in SUBPROCESSES]

    def _scope(self, scope: str) -> Iterator[ModelProblem]:
        """Check the start of a process or sub-process."""
        inner = [node for node in self._nodes if node.parent == scope]
        owner = self._model.elements.get(scope)
        starts = [node for node in inner if node.tag == "startEvent"]
        if owner is not None and owner.is_event_subprocess:
            yield from self._event_subprocess(owner, starts)
        elif owner is not None and owner.tag == "adHocSubProcess":
            if not any(node.tag in ACTIVITIES for node in inner):
                yield self._problem(owner, "empty", "the ad hoc sub-process has no activity", None)
        elif owner is not None:
            yield from self._subprocess(owner, inner, starts)
        else:
            plain = [start for start in starts if not start.events]
            for start in plain[1:]:
                yield self._problem(
                    start,
                    "two-starts",
                    "the process has two none start events",
                    f"keep one of {plain[0].id} and {start.id}, or give one a message",
                )
            yield from self._entries(None, inner)

    def _subprocess(
        self, owner: Element, inner: list[Element], starts: list[Element]
    ) -> Iterator[ModelProblem]:
        for start in starts[1:]:
            yield self._problem(
                start,
                "two-starts",
                f"the sub-process {owner.id} has two start events",
                "keep one of them",
            )
        for start in starts:
            if start.events:
                yield self._problem(
                    start,
                    "bad-start",
                    "the start event of an embedded sub-process must be a none event",
                    'for an event sub-process set triggeredByEvent="true"',
                )
        if inner:
            yield from self._entries(owner, inner)

    def _entries(self, owner: Element | None, inner: list[Element]) -> Iterator[ModelProblem]:
        if not inner:
            return
        has_entry = any(
            not node.incoming
            and not node.is_event_subprocess
            and not node.is_for_compensation
            and node.tag != "boundaryEvent"
            for node in inner
        )
        if not has_entry:
            yield self._problem(
                owner,
                "no-start",
                "no token can start here",
                "add a start event without incoming flow",
            )

    def _event_subprocess(self, owner: Element, starts: list[Element]) -> Iterator[ModelProblem]:
        if owner.incoming or owner.outgoing:
            yield self._problem(
                owner, "event-subprocess-flow", "an event sub-process has no sequence flows", None
            )
        if len(starts) != 1 or not starts[0].events:
            yield self._problem(
                owner,
                "event-subprocess-start",
                "an event sub-process needs exactly one start event with a trigger",
                "add a start event with a message, a timer, a signal or another trigger",
            )

    def _flows(self) -> Iterator[ModelProblem]:
        elements = self._model.elements
        for flow in self._elements:
            if flow.tag != "sequenceFlow":
                continue
            for end, id in (("source", flow.source), ("target", flow.target)):
                node = elements.get(id or "")
                if node is None or node.tag not in NODES:
                    yield self._problem(
                        flow,
                        "flow-to-nothing",
                        f"the {end} of the flow, {id!r}, is not an element of the process",
                        f"correct {end}Ref",
                    )
                elif node.parent != flow.parent:
                    yield self._problem(
                        flow,
                        "flow-across-scopes",
                        f"the flow crosses the border of the sub-process of {node.id}",
                        "end the flow at the sub-process itself",
                    )

    def _links(self) -> Iterator[ModelProblem]:
        catches: dict[tuple[str | None, str | None], Element] = {}
        for node in self._nodes:
            if node.kind == "intermediateCatchEvent:link":
                key = (node.parent, node.events[0].name)
                if key in catches:
                    yield self._problem(
                        node,
                        "two-links",
                        f"two catch events have the link {key[1]!r}",
                        f"the other one is {catches[key].id}",
                    )
                catches[key] = node
        for node in self._nodes:
            if node.kind == "intermediateThrowEvent:link":
                key = (node.parent, node.events[0].name)
                if key not in catches:
                    yield self._problem(
                        node, "no-link", f"no catch event has the link {key[1]!r}", "add one"
                    )

    def _node(self, node: Element) -> Iterator[ModelProblem]:
        if node.default is not None and node.default not in node.outgoing:
            yield self._problem(
                node,
                "bad-default",
                f"the default flow {node.default!r} does not leave this element",
                "name one of its outgoing flows",
            )
        if node.tag in ("startEvent", "boundaryEvent") and node.incoming:
            yield self._problem(node, "flow-into-start", f"a flow leads into the {node.tag}", None)
        if node.tag == "endEvent" and node.outgoing:
            yield self._problem(node, "flow-out-of-end", "a flow leaves the end event", None)
        if node.tag in ("exclusiveGateway", "inclusiveGateway"):
            yield from self._choice(node)
        if node.tag == "eventBasedGateway":
            yield from self._event_gateway(node)
        if node.tag == "complexGateway":
            yield self._problem(
                node,
                "unsupported",
                "complex gateways are not executed",
                "use an inclusive or a parallel gateway",
            )

    def _choice(self, node: Element) -> Iterator[ModelProblem]:
        """A diverging gateway needs a condition on each flow except its default."""
        if len(node.outgoing) < 2:
            return
        for id in node.outgoing:
            flow = self._model.elements[id]
            if flow.condition is not None or id == node.default:
                continue
            if node.tag == "exclusiveGateway":
                yield self._problem(
                    node,
                    "no-condition",
                    f"the flow {id} has no condition",
                    "add a condition, or make it the default flow",
                )
            else:
                yield self._problem(
                    node,
                    "no-condition",
                    f"the flow {id} has no condition and is always taken",
                    None,
                    "warning",
                )

    def _event_gateway(self, node: Element) -> Iterator[ModelProblem]:
        if node.instantiates:
            yield from self._starting_gateway(node)
        elif node.needs_all:
            yield self._problem(
                node, "bad-start", "a parallel event-based gateway starts a process", None
            )
        if not node.outgoing:
            yield self._problem(node, "no-events", "no event follows the gateway", None)
        for id in node.outgoing:
            target = self._model.elements.get(self._model.elements[id].target or "")
            if target is None:
                continue
            is_event = target.tag == "intermediateCatchEvent" and all(
                event.event in WAITING for event in target.events
            )
            if not is_event and target.tag != "receiveTask":
                yield self._problem(
                    node,
                    "event-gateway-target",
                    f"the gateway leads to {target.id}, which waits for no event",
                    "lead to catch events or receive tasks only",
                )
            elif len(target.incoming) > 1:
                yield self._problem(
                    target,
                    "event-gateway-target",
                    "an event after an event-based gateway has one incoming flow",
                    None,
                )

    def _starting_gateway(self, node: Element) -> Iterator[ModelProblem]:
        """Check an event-based gateway that starts the process."""
        if node.needs_all:
            yield self._problem(
                node,
                "unsupported",
                "a process cannot start once several things have happened",
                "start with one of them, and wait for the others in a catch event",
            )
        if node.incoming or node.parent != self._process.id:
            yield self._problem(
                node,
                "bad-start",
                "a gateway that starts the process has no incoming flow, and no sub-process around",
                None,
            )
        for id in node.outgoing:
            target = self._model.elements.get(self._model.elements[id].target or "")
            for event in () if target is None else target.events:
                if event.event not in ("message", "signal"):
                    yield self._problem(
                        target,
                        "bad-start",
                        f"a gateway cannot start the process with a {event.event} event",
                        "lead to messages and signals only, or use a start event",
                    )
