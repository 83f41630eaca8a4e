"""Turn the XML of a BPMN file into a model.

The reader takes every valid file: a part that cannot be executed is still an element of the model,
and a part that it does not know is a note. Only the checks judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from holdfast.authoring.bpmn.dialects import camunda, flowable, zeebe
from holdfast.authoring.bpmn.dialects.texts import (
    PLAIN,
    computed,
    expression_of,
    extension_children,
    stated_language,
)
from holdfast.authoring.bpmn.model import (
    ACTIVITIES,
    CHOREOGRAPHY,
    NODES,
    SUBPROCESSES,
    Element,
    EventDefinition,
    LoopCharacteristics,
    Model,
    ModelExpression,
    ModelProblem,
    ProcessInfo,
    Work,
)
from holdfast.authoring.bpmn.xml import BPMN, XmlNode, read_xml
from holdfast.errors import ModelUnreadable

_UNCOUNTED = frozenset(
    {"incoming", "outgoing", "extensionElements", "documentation", "flowNodeRef", "text"}
)
_SHOWN = frozenset(
    {
        "dataObject",
        "dataObjectReference",
        "dataStoreReference",
        "property",
        "textAnnotation",
        "group",
        "association",
        "laneSet",
        "lane",
    }
)
_DECLARED = frozenset({"message", "signal", "error", "escalation"})
_TIMES = ("timeDuration", "timeDate", "timeCycle")


def read_model(data: bytes) -> Model:
    """Return the model of a file, without its problems. Raises ModelUnreadable."""
    root = read_xml(data)
    if root.tag != "definitions":
        raise ModelUnreadable(
            why=f"its root is {root.tag.removeprefix('other:')!r}, not definitions of {BPMN}"
        )
    return _ModelReader(root).read(data)


def is_true(text: str | None, default: bool = False) -> bool:
    """Return the value of an attribute of XML that is a boolean."""
    if text is None:
        return default
    return text.strip() in ("true", "1")


class _ModelReader:
    """One pass over a tree: declarations first, then the elements in document order."""

    def __init__(self, root: XmlNode) -> None:
        self._root: XmlNode = root
        self._language: str | None = stated_language(root.get("expressionLanguage"))
        self._declared: dict[str, XmlNode] = {}
        self._forms: dict[str, str] = {}
        self._elements: dict[str, Element] = {}
        self._counts: Counter[str] = Counter()
        self._associations: list[tuple[str, str]] = []
        self._notes: list[ModelProblem] = []
        self._process: str | None = None
        if self._language and "xpath" in self._language:
            self._language = None  # the default that tools write, whatever the conditions are

    def read(self, data: bytes) -> Model:
        for node in self._root.children:
            if node.tag in _DECLARED and node.get("id"):
                self._declared[str(node.get("id"))] = node
            if node.tag == "process":
                self._forms.update(zeebe.forms_of(node))
        processes = []
        for node in self._root.children:
            if node.tag == "process":
                processes.append(self._process_of(node))
            else:
                self._count_other(node)
        return Model(
            xml=_text_of(data),
            processes=tuple(processes),
            elements=_with_flows(self._elements),
            counts=dict(self._counts),
            associations=tuple(self._associations),
            notes=tuple(self._notes),
        )

    def _process_of(self, node: XmlNode) -> ProcessInfo:
        id = node.get("id") or f"process~{node.line}"
        self._process = id
        self._counts["process"] += 1
        self._scope(node, id, is_event_subprocess=False)
        self._process = None
        return ProcessInfo(
            id=id,
            name=node.get("name"),
            executable=is_true(node.get("isExecutable")),
            line=node.line,
            saga=node.get("holdfast:saga"),
        )

    def _scope(self, node: XmlNode, id: str, is_event_subprocess: bool) -> None:
        """Read the content of a process or sub-process."""
        for child in node.children:
            if child.tag in NODES or child.tag in CHOREOGRAPHY:
                self._node(child, id, is_event_subprocess)
            elif child.tag == "sequenceFlow":
                self._flow(child, id)
            else:
                self._count_other(child)
                if child.tag in _SHOWN and child.get("id"):
                    self._add(child, id, {"data": self._local(child.get("dataObjectRef"))})

    def _node(self, node: XmlNode, parent: str, in_event_subprocess: bool) -> None:
        events = tuple(self._events(node))
        is_event_subprocess = is_true(node.get("triggeredByEvent"))
        fields: dict[str, Any] = {
            "events": events,
            "default": self._local(node.get("default")),
            "attached_to": self._local(node.get("attachedToRef")),
            "is_for_compensation": is_true(node.get("isForCompensation")),
            "is_event_subprocess": is_event_subprocess,
            "called": self._called(node),
            "loop": self._loop(node),
            "instantiates": is_true(node.get("instantiate")),
            "needs_all": _needs_all(node, events),
            "work": self._work(node),
            **_interrupting(node),
        }
        if node.tag in ("receiveTask", "sendTask") and node.get("messageRef"):
            fields["message_ref"] = node.get("messageRef")
            fields["message"] = self._message_name(str(node.get("messageRef")))
            declared = self._find(str(node.get("messageRef")))
            fields["message_key"] = None if declared is None else zeebe.correlation_key(declared)
        if node.tag == "adHocSubProcess":
            fields.update(self._ad_hoc(node))
        element = self._add(node, parent, fields)
        self._count_node(node, element, in_event_subprocess)
        if node.tag in SUBPROCESSES:
            self._scope(node, element.id, is_event_subprocess)
        else:
            for child in node.children:
                self._count_other(child)

    def _flow(self, node: XmlNode, parent: str) -> None:
        self._counts["sequenceFlow"] += 1
        condition = node.first("conditionExpression")
        fields: dict[str, Any] = {
            "source": self._local(node.get("sourceRef")),
            "target": self._local(node.get("targetRef")),
        }
        if condition is not None:
            self._counts["conditionExpression"] += 1
            fields["condition"] = self._condition(condition)
            fields["has_empty_condition"] = fields["condition"] is None
        self._add(node, parent, fields)

    def _condition(self, node: XmlNode) -> ModelExpression | None:
        expression = self._expression(node)
        if expression is not None and expression.language == "literal":
            return ModelExpression(expression.text, PLAIN)
        return expression

    def _expression(self, node: XmlNode | None) -> ModelExpression | None:
        if node is None:
            return None
        return expression_of(node.text, node.get("language") or self._language)

    def _add(self, node: XmlNode, parent: str, fields: dict[str, Any]) -> Element:
        id = (node.get("id") or "").strip() or None
        key = id or f"{node.tag}~{len(self._elements) + 1}"
        if key in self._elements:
            self._notes.append(
                ModelProblem(
                    severity="error",
                    code="duplicate-id",
                    message=f"the id {key!r} belongs to two elements",
                    process=self._process,
                    element=key,
                    line=node.line,
                    hint=f"the other one is in line {self._elements[key].line}",
                )
            )
            key = f"{key}~{len(self._elements) + 1}"
        events = fields.get("events", ())
        kind = node.tag
        if events:
            kind = f"{node.tag}:{events[0].event if len(events) == 1 else 'multiple'}"
        element = Element(
            id=key,
            has_id=id is not None,
            tag=node.tag,
            kind=kind,
            name=node.get("name"),
            parent=parent,
            process=self._process,
            line=node.line,
            **fields,
        )
        self._elements[key] = element
        return element

    def _local(self, reference: str | None) -> str | None:
        """Return a reference without the prefix of its namespace."""
        if reference is None:
            return None
        return reference.rpartition(":")[2].strip()

    def _find(self, reference: str) -> XmlNode | None:
        return self._declared.get(reference) or self._declared.get(reference.rpartition(":")[2])

    def _message_name(self, reference: str) -> str:
        node = self._find(reference)
        return reference if node is None else node.get("name") or reference

    def _events(self, node: XmlNode) -> Iterator[EventDefinition]:
        for child in node.children:
            if child.tag.endswith("EventDefinition"):
                yield self._event(child)
            elif child.tag == "eventDefinitionRef":
                for definition in self._root.children:
                    if definition.get("id") == child.text.strip():
                        yield self._event(definition)

    def _event(self, node: XmlNode) -> EventDefinition:
        event = node.tag.removesuffix("EventDefinition")
        fields: dict[str, Any] = {"event": event, "line": node.line}
        reference = node.get(f"{event}Ref")
        if reference is not None:
            fields.update(self._referred(event, reference))
        if event == "timer":
            for time in node.all(*_TIMES):
                fields["timer"] = time.tag
                fields["expression"] = self._expression(time)
        elif event == "conditional":
            condition = node.first("condition")
            if condition is not None:
                fields["expression"] = self._condition(condition)
        elif event == "link":
            fields["name"] = node.get("name")
        elif event == "compensate":
            fields["activity"] = self._local(node.get("activityRef"))
            fields["waits"] = is_true(node.get("waitForCompletion"), default=True)
        return EventDefinition(**fields)

    def _referred(self, event: str, reference: str) -> dict[str, Any]:
        """Return what a definition refers to. A reference to something that is not declared is
        itself the code or the name."""
        node = self._find(reference)
        if node is None:
            return {"ref": reference, "name": reference, "code": reference, "is_declared": False}
        fields: dict[str, Any] = {
            "ref": reference,
            "name": node.get("name"),
            "code": node.get(f"{event}Code"),
        }
        if event in ("message", "signal"):
            fields["name"] = node.get("name") or reference
            fields["code"] = None
            fields["key"] = zeebe.correlation_key(node)
        return fields

    def _loop(self, node: XmlNode) -> LoopCharacteristics | None:
        standard = node.first("standardLoopCharacteristics")
        if standard is not None:
            maximum = standard.get("loopMaximum")
            condition = standard.first("loopCondition")
            return LoopCharacteristics(
                kind="standard",
                condition=None if condition is None else self._condition(condition),
                maximum=int(maximum) if maximum and maximum.isdigit() else None,
                test_before=is_true(standard.get("testBefore")),
            )
        several = node.first("multiInstanceLoopCharacteristics")
        if several is None:
            return None
        fields: dict[str, Any] = {
            "kind": "sequential" if is_true(several.get("isSequential")) else "parallel",
            "cardinality": self._expression(several.first("loopCardinality")),
        }
        completion = several.first("completionCondition")
        if completion is not None:
            fields["completion"] = self._condition(completion)
        item = several.first("inputDataItem")
        data = several.first("loopDataInputRef")
        if item is not None:
            fields["item"] = item.get("name") or item.get("id")
        if data is not None and data.text.strip():
            fields["collection"] = ModelExpression(data.text.strip(), "variable")
        output = several.first("loopDataOutputRef")
        output_item = several.first("outputDataItem")
        if output is not None and output.text.strip():
            fields["output"] = output.text.strip()
        if output_item is not None:
            name = output_item.get("name") or output_item.get("id") or ""
            fields["output_item"] = ModelExpression(name, "variable")
        fields.update(camunda.loop_of(several))
        fields.update(flowable.loop_of(several))
        fields.update(zeebe.loop_of(several))
        return LoopCharacteristics(**fields)

    def _ad_hoc(self, node: XmlNode) -> dict[str, Any]:
        completion = node.first("completionCondition")
        return {
            "is_sequential": node.get("ordering") == "Sequential",
            "cancels_remaining": is_true(node.get("cancelRemainingInstances"), default=True),
            "completion": None if completion is None else self._condition(completion),
        }

    def _called(self, node: XmlNode) -> str | None:
        if node.tag != "callActivity":
            return None
        called = node.get("calledElement")
        if called:
            return self._local(called) if computed(called) is None else called
        for process in extension_children(node, "zeebe:calledElement"):
            return process.get("processId")
        return None

    def _work(self, node: XmlNode) -> Work:
        fields = {**camunda.work_of(node), **flowable.work_of(node), **zeebe.work_of(node)}
        for definition in node.children:
            if definition.tag.endswith("EventDefinition"):
                fields = {
                    **camunda.work_of(definition),
                    **flowable.work_of(definition),
                    **zeebe.work_of(definition),
                    **fields,
                }
        if node.get("holdfast:saga"):
            fields["saga"] = node.get("holdfast:saga")
        if node.get("holdfast:missed"):
            fields["missed"] = node.get("holdfast:missed")
        if node.tag == "scriptTask":
            fields.update(_script(node, fields))
        if node.tag == "userTask" and fields.get("form_key"):
            fields["form_schema"] = self._forms.get(str(fields["form_key"]).rpartition(":")[2])
        return Work(**fields)

    def _count_node(self, node: XmlNode, element: Element, in_event_subprocess: bool) -> None:
        counts = self._counts
        counts[_label(element, in_event_subprocess)] += 1
        for definition in element.events:
            if definition.timer:
                counts[f"timer/{definition.timer}"] += 1
        if element.is_event_subprocess:
            counts["eventSubProcess"] += 1
        if element.default:
            tag = "task" if node.tag in ACTIVITIES else node.tag
            counts[f"{tag}@default"] += 1
        if element.is_for_compensation:
            counts["@isForCompensation"] += 1
        if element.loop is not None:
            several = element.loop.kind != "standard"
            counts[f"multiInstance({element.loop.kind})" if several else "standardLoop"] += 1

    def _count_other(self, node: XmlNode) -> None:
        """Count the parts of a file that are no flow elements, and keep the associations."""
        stack = [node]
        while stack:
            part = stack.pop()
            if ":" in part.tag or part.tag in _UNCOUNTED:
                continue
            if part.tag.endswith("EventDefinition") or part.tag.endswith("LoopCharacteristics"):
                continue
            self._counts[part.tag] += 1
            if part.tag == "association":
                source = self._local(part.get("sourceRef")) or ""
                target = self._local(part.get("targetRef")) or ""
                self._associations.append((source, target))
            stack.extend(part.children)


def _label(element: Element, in_event_subprocess: bool) -> str:
    """Return the label under which a node is counted."""
    if not element.tag.endswith("Event"):
        return element.tag
    event = element.kind.partition(":")[2] or "none"
    how = "interrupting" if element.interrupting else "non-interrupting"
    if element.tag == "boundaryEvent":
        return f"boundaryEvent({how}):{event}"
    if element.tag == "startEvent" and in_event_subprocess:
        return f"eventSubProcessStart({how}):{event}"
    return f"{element.tag}:{event}"


def _interrupting(node: XmlNode) -> dict[str, Any]:
    name = {"boundaryEvent": "cancelActivity", "startEvent": "isInterrupting"}.get(node.tag)
    if name is None or node.get(name) is None:
        return {}
    return {"interrupting": is_true(node.get(name)), "states_interrupting": True}


def _needs_all(node: XmlNode, events: tuple[EventDefinition, ...]) -> bool:
    if node.tag == "eventBasedGateway":
        return node.get("eventGatewayType") == "Parallel"
    return len(events) > 1 and is_true(node.get("parallelMultiple"))


def _script(node: XmlNode, fields: dict[str, Any]) -> dict[str, Any]:
    script = node.first("script")
    language = (node.get("scriptFormat") or "").strip().lower()
    if script is None or not script.text.strip():
        return {}
    text = script.text.strip()
    if "feel" in language:
        return {"script": ModelExpression(text, "feel")}
    marked = expression_of(text)
    if marked is not None and marked.language != "literal" and language in ("", "juel"):
        return {"script": marked}
    if "juel" in language:
        return {"script": ModelExpression(text, "juel")}
    return {} if fields.get("script") else {"script": ModelExpression(text, language or "none")}


def _with_flows(elements: dict[str, Element]) -> dict[str, Element]:
    """Add the flows of each node, in document order."""
    incoming: dict[str, list[str]] = {}
    outgoing: dict[str, list[str]] = {}
    for element in elements.values():
        if element.tag == "sequenceFlow":
            outgoing.setdefault(element.source or "", []).append(element.id)
            incoming.setdefault(element.target or "", []).append(element.id)
    for id in list(elements):
        if id in incoming or id in outgoing:
            element = elements[id]
            fields = {name: getattr(element, name) for name in Element.__struct_fields__}
            fields["incoming"] = tuple(incoming.get(id, ()))
            fields["outgoing"] = tuple(outgoing.get(id, ()))
            elements[id] = Element(**fields)
    return elements


def _text_of(data: bytes) -> str:
    """Return the text of the file, for display."""
    head = data[:200].decode("latin-1")
    for encoding in ("utf-8-sig", "utf-16"):
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            continue
    _, _, rest = head.partition('encoding="')
    try:
        return data.decode(rest.partition('"')[0] or "latin-1")
    except (LookupError, UnicodeDecodeError):
        return data.decode("latin-1")
