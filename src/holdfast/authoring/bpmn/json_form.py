"""Processes as plain data: nodes with outgoing edges, and conditions in a small language.

``{"id": ..., "start": ..., "nodes": {id: {"id": ..., "type": {"kind": ...}, "outgoing_edges":
[{"target": ..., "condition": ...}]}}}``. A form that is not valid is a model with problems.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.authoring.bpmn.dialects.texts import CONDITION
from holdfast.authoring.bpmn.model import (
    Element,
    Model,
    ModelExpression,
    ModelProblem,
    ProcessInfo,
    Work,
)

_TAGS = {
    "Start": "startEvent",
    "End": "endEvent",
    "ServiceTask": "serviceTask",
    "ExternalTask": "serviceTask",
    "UserTask": "userTask",
    "ExclusiveGateway": "exclusiveGateway",
    "ParallelFork": "parallelGateway",
    "ParallelJoin": "parallelGateway",
}
_FIELDS = {
    "process": {"id", "start", "nodes", "name"},
    "node": {"id", "type", "outgoing_edges", "name"},
    "type": {"kind", "handler_ref", "expected", "topic"},
    "edge": {"target", "condition"},
    "condition": {"type", "key", "value", "expression"},
}


def is_json_form(source: Any) -> bool:
    """Return whether a source is a process as plain data."""
    return isinstance(source, Mapping) and "nodes" in source


def read_json_form(form: Mapping[str, Any]) -> Model:
    """Return the model of a process as plain data."""
    return _FormReader(form).read()


class _FormReader:
    """One pass over a form; problems are collected."""

    def __init__(self, form: Mapping[str, Any]) -> None:
        self._form: Mapping[str, Any] = form
        self._process: str = str(form.get("id") or "process")
        self._elements: dict[str, Element] = {}
        self._problems: list[ModelProblem] = []
        self._expected: dict[str, Any] = {}

    def read(self) -> Model:
        self._check_fields("process", self._form, None)
        nodes = self._form.get("nodes")
        if not isinstance(nodes, Mapping):
            self._problem("bad-form", "nodes must be an object of nodes by id", None)
            nodes = {}
        for id, node in nodes.items():
            self._node(str(id), node)
        for id, node in nodes.items():
            if isinstance(node, Mapping):
                self._edges(str(id), node)
        self._link()
        self._check_start()
        return Model(
            xml="",
            processes=(
                ProcessInfo(id=self._process, name=self._form.get("name"), executable=True),
            ),
            elements=self._elements,
            counts={},
            notes=tuple(self._problems),
        )

    def _problem(self, code: str, message: str, element: str | None) -> None:
        self._problems.append(
            ModelProblem(
                severity="error",
                code=code,
                message=message,
                process=self._process,
                element=element,
                hint="see the JSON form of processes in the guide",
            )
        )

    def _check_fields(self, kind: str, value: Any, element: str | None) -> bool:
        if not isinstance(value, Mapping):
            self._problem("bad-form", f"a {kind} must be an object", element)
            return False
        unknown = sorted(set(value) - _FIELDS[kind])
        if unknown:
            self._problem("unknown-field", f"a {kind} has no field {unknown[0]!r}", element)
        return True

    def _node(self, id: str, node: Any) -> None:
        if not self._check_fields("node", node, id):
            return
        if node.get("id", id) != id:
            self._problem("bad-form", f"the node {id!r} has the id {node['id']!r}", id)
        type = node.get("type")
        if not self._check_fields("type", type, id):
            return
        tag = _TAGS.get(str(type.get("kind")))
        if tag is None:
            self._problem("bad-form", f"there is no kind of node {type.get('kind')!r}", id)
            return
        work = Work()
        if type.get("handler_ref"):
            work = Work(names=(str(type["handler_ref"]),))
        elif type.get("kind") == "ExternalTask":
            topic = str(type.get("topic") or "default")
            work = Work(names=(topic,), topic=topic)
        self._expected[id] = type.get("expected")
        self._elements[id] = Element(
            id=id,
            tag=tag,
            kind=tag,
            name=node.get("name"),
            parent=self._process,
            process=self._process,
            work=work,
        )

    def _edges(self, id: str, node: Mapping[str, Any]) -> None:
        edges = node.get("outgoing_edges", [])
        if not isinstance(edges, list):
            self._problem("bad-form", "outgoing_edges must be a list", id)
            return
        for number, edge in enumerate(edges, 1):
            if self._check_fields("edge", edge, id):
                self._edge(id, f"{id}-{number}", edge)

    def _edge(self, source: str, id: str, edge: Mapping[str, Any]) -> None:
        condition = None
        stated = edge.get("condition")
        if stated is not None and stated != "default" and self._is_condition(stated, source):
            condition = _condition(stated)
        is_default = stated == "default" or (
            isinstance(stated, Mapping) and stated.get("type") == "default"
        )
        self._elements[id] = Element(
            id=id,
            tag="sequenceFlow",
            kind="sequenceFlow",
            parent=self._process,
            process=self._process,
            source=source,
            target=str(edge.get("target")),
            condition=condition,
        )
        if is_default and source in self._elements:
            owner = self._elements[source]
            if owner.default is not None:
                self._problem("two-defaults", "two edges are the default", source)
            self._elements[source] = msgspec.structs.replace(owner, default=id)

    def _is_condition(self, stated: Any, element: str) -> bool:
        if isinstance(stated, str):
            return True
        return self._check_fields("condition", stated, element)

    def _link(self) -> None:
        flows = [entry for entry in self._elements.values() if entry.tag == "sequenceFlow"]
        for id, element in list(self._elements.items()):
            if element.tag == "sequenceFlow":
                continue
            incoming = tuple(flow.id for flow in flows if flow.target == id)
            outgoing = tuple(flow.id for flow in flows if flow.source == id)
            expected = self._expected.get(id)
            if expected is not None and expected != len(incoming):
                self._problem(
                    "bad-join", f"the join expects {expected} of {len(incoming)} edges", id
                )
            self._elements[id] = msgspec.structs.replace(
                element, incoming=incoming, outgoing=outgoing
            )

    def _check_start(self) -> None:
        start = self._form.get("start")
        node = self._elements.get(str(start))
        if node is None or node.tag != "startEvent":
            self._problem("no-start", f"the start {start!r} is not a node of the kind Start", None)


def _condition(stated: Any) -> ModelExpression | None:
    if isinstance(stated, str):
        return ModelExpression(_stripped(stated), CONDITION)
    if stated.get("type") == "variable_eq":
        value = stated.get("value")
        quoted = str(value).replace("'", "\\'")
        return ModelExpression(f"{stated.get('key')} == '{quoted}'", CONDITION)
    if stated.get("type") == "expression" or "expression" in stated:
        return ModelExpression(_stripped(str(stated.get("expression") or "")), CONDITION)
    return None


def _stripped(text: str) -> str:
    text = text.strip()
    if text.startswith("${") and text.endswith("}"):
        return text[2:-1].strip()
    return text
