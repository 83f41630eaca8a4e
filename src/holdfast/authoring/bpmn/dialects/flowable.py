"""The extensions of Flowable and of Activiti: the names of Camunda 7 under other prefixes, and some
of their own."""

from __future__ import annotations

from typing import Any

from holdfast.authoring.bpmn.dialects import camunda
from holdfast.authoring.bpmn.xml import XmlNode

PREFIXES = ("flowable:", "activiti:")


def work_of(node: XmlNode) -> dict[str, Any]:
    """Return the fields of ``Work`` that the extensions of a node state."""
    fields: dict[str, Any] = {}
    for prefix in PREFIXES:
        fields.update(camunda.work_of(node, prefix))
    kind = node.get("flowable:type")
    if kind and kind != "external-worker" and "topic" not in fields:
        fields["names"] = (*fields.get("names", ()), kind)
    return fields


def loop_of(node: XmlNode) -> dict[str, Any]:
    """Return the fields of a loop that the attributes of its characteristics state."""
    fields: dict[str, Any] = {}
    for prefix in PREFIXES:
        fields.update(camunda.loop_of(node, prefix))
    return fields
