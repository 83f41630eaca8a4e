"""Checks of single elements: events, tasks, loops and the expressions in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.authoring.bpmn.dialects.texts import LITERAL, PLAIN, computed
from holdfast.authoring.bpmn.expressions import EVALUATED, check_expression
from holdfast.authoring.bpmn.forms import form_faults
from holdfast.authoring.bpmn.model import (
    ACTIVITIES,
    WAITING,
    Element,
    EventDefinition,
    Model,
    ModelExpression,
)
from holdfast.authoring.bpmn.timers import check_time
from holdfast.errors import BadDuration, BadExpression

Finding = tuple[str, str, str, str | None]
"""Severity, code, message and hint."""

_ALLOWED = {
    "startEvent": {
        "message",
        "timer",
        "signal",
        "conditional",
        "error",
        "escalation",
        "compensate",
    },
    "intermediateCatchEvent": {"message", "timer", "signal", "conditional", "link"},
    "intermediateThrowEvent": {"message", "signal", "escalation", "link", "compensate"},
    "boundaryEvent": {
        "message",
        "timer",
        "signal",
        "conditional",
        "error",
        "escalation",
        "compensate",
        "cancel",
    },
    "endEvent": {
        "message",
        "signal",
        "error",
        "escalation",
        "terminate",
        "cancel",
        "compensate",
    },
}
_DIVIDE = "make two events of it"
_ENDING = {"error", "terminate", "cancel"}
_TOP_STARTS = {"message", "timer", "signal", "conditional"}


def _error(code: str, message: str, hint: str | None = None) -> Finding:
    return ("error", code, message, hint)


def _warning(code: str, message: str, hint: str | None = None) -> Finding:
    return ("warning", code, message, hint)


def _catches_all_errors(node: Element) -> bool:
    if node.tag not in ("boundaryEvent", "startEvent"):
        return False
    return any(event.event == "error" and not event.ref for event in node.events)


class NodeChecks:
    """Judges one element at a time."""

    def __init__(self, model: Model, knows: Callable[[str], bool]) -> None:
        self._model: Model = model
        self._knows: Callable[[str], bool] = knows
        self._handlers: dict[str, str] = dict(model.associations)

    def of(self, node: Element) -> Iterator[Finding]:
        """Return the findings about a node."""
        if node.tag.endswith("Event"):
            yield from self._event(node)
        if node.tag in ACTIVITIES:
            yield from self._activity(node)
        if self._starts_process(node):
            yield from self._start_names(node)
        for extension in node.work.ignored:
            yield _warning(
                "ignored-extension",
                f"{extension} has no effect here",
                "do its work in a handler or in a task of its own",
            )
        for text, place in self._expressions(node):
            yield from self._text(text, place)

    def _starts_process(self, node: Element) -> bool:
        if node.parent != node.process:
            return False
        sources = [self._model.elements[id].source or "" for id in node.incoming]
        return node.tag == "startEvent" or any(
            element is not None and element.instantiates
            for element in (node, *(self._model.elements.get(id) for id in sources))
        )

    def _start_names(self, node: Element) -> Iterator[Finding]:
        """Check that a message or signal that starts the process is known before it starts."""
        for name in (node.message, *(event.name for event in node.events)):
            if computed(name) is not None:
                yield _error(
                    "computed-start",
                    f"what starts the process is computed, and nothing is known yet: {name}",
                    "write the name itself",
                )

    def _event(self, node: Element) -> Iterator[Finding]:
        if len(node.events) > 1:
            yield from self._several(node)
        if node.tag in ("boundaryEvent", "intermediateCatchEvent") and not node.events:
            yield _error("no-trigger", f"the {node.tag} waits for nothing", "add a trigger")
        if node.tag == "boundaryEvent":
            yield from self._boundary(node)
        for event in node.events:
            if event.event not in _ALLOWED[node.tag]:
                yield _error("bad-event", f"a {node.tag} cannot be a {event.event} event", None)
            else:
                yield from self._trigger(node, event)

    def _several(self, node: Element) -> Iterator[Finding]:
        """Check what several triggers of one event may be."""
        kinds = [event.event for event in node.events]
        throws = node.tag in ("intermediateThrowEvent", "endEvent")
        alone = ("link",) if throws else ("link", "compensate")
        for kind in alone:
            if kind in kinds:
                yield _error("bad-event", f"a {kind} event has no other trigger", _DIVIDE)
        if sum(kind in _ENDING for kind in kinds if throws) > 1:
            yield _error("bad-event", "the event ends its scope twice", "keep one of its triggers")
        if not node.needs_all:
            return
        if any(kind not in WAITING for kind in kinds):
            yield _error(
                "bad-event",
                "an event that needs all its triggers waits for messages, signals, times and"
                " conditions only",
                _DIVIDE,
            )
        if node.tag == "startEvent" and node.parent == node.process:
            yield _error(
                "unsupported",
                "a process cannot start once several things have happened",
                "start with one of them, and wait for the others in a catch event",
            )

    def _boundary(self, node: Element) -> Iterator[Finding]:
        host = self._model.elements.get(node.attached_to or "")
        if host is None or host.tag not in ACTIVITIES or host.parent != node.parent:
            yield _error(
                "bad-attachment",
                f"the event is attached to {node.attached_to!r}, which is no activity beside it",
                "correct attachedToRef",
            )
            return
        for event in node.events:
            if event.event == "cancel" and host.tag != "transaction":
                yield _error("bad-event", "a cancel event belongs to a transaction", None)
            if event.event == "compensate" and self._handlers.get(node.id) not in (
                self._model.elements
            ):
                yield _error(
                    "no-handler",
                    "no activity is associated with the compensation event",
                    "draw an association to an activity with isForCompensation",
                )

    def _trigger(self, node: Element, event: EventDefinition) -> Iterator[Finding]:
        kind = event.event
        if kind in ("message", "signal") and not event.name:
            if kind == "message" and node.work.names and len(node.events) == 1:
                return  # a handler sends it
            yield _error(f"no-{kind}", f"the event names no {kind}", f"set {kind}Ref")
        elif kind == "timer":
            yield from self._timer(event)
        elif kind == "conditional" and event.expression is None:
            yield _error("no-condition", "the event has no condition", "add a condition")
        elif kind == "link" and not event.name:
            yield _error("no-link", "the link has no name", "name it")
        elif kind == "error" and node.tag == "endEvent" and not (event.code or event.ref):
            yield self._unnamed_error(node)
        elif kind == "escalation" and not event.code and node.tag != "boundaryEvent":
            yield _warning("no-escalation", "the escalation has no code", None)
        yield from self._place(node, kind)

    def _unnamed_error(self, node: Element) -> Finding:
        """An error without a code can only be caught by an event around it that catches all."""
        message = "the error end event names no error"
        parent = self._model.elements.get(node.parent or "")
        while parent is not None:
            for other in self._model.elements.values():
                is_around = other.attached_to == parent.id or other.parent == parent.parent
                if is_around and other.events and _catches_all_errors(other):
                    return _warning("no-error", message, "only an event that catches all gets it")
            parent = self._model.elements.get(parent.parent or "")
        return _error("no-error", message, "set errorRef")

    def _place(self, node: Element, kind: str) -> Iterator[Finding]:
        """Check whether such an event may be at this place."""
        parent = self._model.elements.get(node.parent or "")
        if kind == "cancel" and node.tag == "endEvent":
            if parent is None or parent.tag != "transaction":
                yield _error("bad-event", "a cancel end event belongs in a transaction", None)
        elif node.tag == "startEvent" and parent is None and kind not in _TOP_STARTS:
            yield _error("bad-start", f"a process cannot start with a {kind} event", None)

    def _timer(self, event: EventDefinition) -> Iterator[Finding]:
        if event.timer is None or event.expression is None:
            yield _error("no-time", "the timer has no time", "add a timeDuration, as in PT15M")
        elif event.expression.language == LITERAL:
            try:
                check_time(event.timer, event.expression.text)
            except BadDuration as error:
                why = error.facts.get("why")
                yield _error(
                    "bad-time", f"{event.expression.text!r} is not a {event.timer}", str(why)
                )

    def _activity(self, node: Element) -> Iterator[Finding]:
        yield from self._loop(node)
        if node.tag == "callActivity":
            if not node.called:
                yield _error("no-call", "the call activity calls nothing", "set calledElement")
        elif node.tag in ("serviceTask", "businessRuleTask", "sendTask"):
            yield from self._implementation(node)
        elif node.tag == "scriptTask":
            yield from self._script(node)
        elif node.tag == "userTask":
            for severity, message in form_faults(node.work):
                yield (severity, "bad-form", message, "correct the form in the modeller")
        elif node.tag == "receiveTask" and node.instantiates:
            yield from self._starting_task(node)
        if node.is_for_compensation and (node.incoming or node.outgoing):
            yield _error("compensation-flow", "a compensation activity has no sequence flows", None)

    def _starting_task(self, node: Element) -> Iterator[Finding]:
        """Check a receive task that starts the process."""
        if not node.message:
            yield _error("no-message", "the task that starts the process names no message", None)
        if node.incoming or node.parent != node.process or node.loop is not None:
            yield _error(
                "bad-start",
                "a task that starts the process has no incoming flow, no loop and no sub-process"
                " around",
                "use a message start event",
            )

    def _implementation(self, node: Element) -> Iterator[Finding]:
        work = node.work
        has_message = node.tag == "sendTask" and node.message
        is_external = work.topic or work.computed_topic is not None
        if self._is_bound(node) or work.expression or is_external or work.decision or has_message:
            return
        if work.names:
            yield _warning(
                "unbound-task",
                f"no handler is known here for {work.names[0]}",
                f"bind one with bpmn.handler({work.names[-1]!r}) where it is executed",
            )
        else:
            yield _error(
                "unbound-task",
                "the task names nothing to do",
                f"bind a function with bpmn.handler({node.id!r})",
            )

    def _is_bound(self, node: Element) -> bool:
        names = (node.id, f"{node.process}.{node.id}", *node.work.names)
        return any(self._knows(name) for name in names)

    def _script(self, node: Element) -> Iterator[Finding]:
        script = node.work.script
        is_external = node.work.topic or node.work.computed_topic is not None
        if self._is_bound(node) or is_external or (script and script.language in EVALUATED):
            return
        if script is None and node.work.names:
            yield _warning("unbound-task", f"no handler is known for {node.work.names[0]}", None)
            return
        language = "no script" if script is None else f"a script in {script.language}"
        yield _error(
            "unbound-script",
            f"the script task has {language}",
            f"bind a function with bpmn.handler({node.id!r}), or write FEEL",
        )

    def _loop(self, node: Element) -> Iterator[Finding]:
        loop = node.loop
        if loop is None:
            return
        if loop.kind == "standard":
            if loop.condition is None and loop.maximum is None:
                yield _error("endless-loop", "the loop has neither condition nor maximum", None)
        elif loop.cardinality is None and loop.collection is None:
            yield _error(
                "no-cardinality",
                "the multi-instance activity has neither a number nor a collection",
                "add loopCardinality or a collection",
            )

    def _expressions(self, node: Element) -> Iterator[tuple[ModelExpression, str]]:
        """Return all expressions of a node and of the flows that leave it."""
        for id in node.outgoing:
            flow = self._model.elements[id]
            if flow.condition is not None and id != node.default:
                yield flow.condition, f"the condition of the flow {id}"
        named: list[tuple[ModelExpression | None, str]] = [
            (node.completion, "the completion condition"),
            (node.message_key, "the correlation key"),
            (computed(node.message), "the name of the message"),
            (computed(node.called), "the name of the called process"),
        ]
        for event in node.events:
            named.append((computed(event.name), f"the name of the {event.event}"))
            named.append((computed(event.code), f"the code of the {event.event}"))
            named.append((event.expression, "the time or condition of the event"))
            named.append((event.key, "the correlation key"))
        for name in ("cardinality", "collection", "completion", "condition", "output_item"):
            named.append((getattr(node.loop, name, None), f"the {name} of the loop"))
        for text, place in (*named, *self._work_expressions(node)):
            if text is not None:
                yield text, place

    def _work_expressions(self, node: Element) -> Iterator[tuple[ModelExpression | None, str]]:
        """Return the expressions in the extensions of a node."""
        work = node.work
        for entry in (*work.inputs, *work.outputs):
            yield entry.source, f"the mapping to {entry.target}"
        for text in (work.assignee, work.due, work.business_key):
            yield text, "an expression of the task"
        yield work.computed_topic, "the topic or type of the task"
        yield work.computed_retries, "the retries of the task"
        yield computed(work.decision), "the name of the decision"
        yield computed(work.version), "the version of the called process"
        if not self._is_replaced(node):
            yield work.expression, "the expression of the task"
        for text in (*work.users, *work.groups):
            yield text, "the candidates of the task"
        if work.script is not None and work.script.language in EVALUATED:
            yield work.script, "the script"

    def _is_replaced(self, node: Element) -> bool:
        """Return whether a handler does the work instead of the expression of a task."""
        return node.work.expression is not None and self._is_bound(node)

    def _text(self, text: ModelExpression, place: str) -> Iterator[Finding]:
        if text.language not in EVALUATED:
            yield _error(
                "unknown-language",
                f"{place} is in {text.language}, which is not understood: {text.text[:80]}",
                "write ${...} or =... (FEEL)",
            )
            return
        try:
            check_expression(text)
        except BadExpression as error:
            why = error.facts.get("why", "")
            yield _error("bad-expression", f"{place} cannot be read: {text.text[:80]}", str(why))
            return
        if text.language == PLAIN:
            yield _warning(
                "no-language", f"{place} names no language and is read as FEEL", "write =..."
            )
