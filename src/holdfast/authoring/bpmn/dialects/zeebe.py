"""The extensions of Zeebe (Camunda 8)."""

from __future__ import annotations

from typing import Any

from holdfast.authoring.bpmn.dialects.texts import (
    assignment,
    computed,
    expression_of,
    extension,
    extension_children,
    texts_of,
)
from holdfast.authoring.bpmn.model import Assignment, ModelExpression
from holdfast.authoring.bpmn.xml import XmlNode


def work_of(node: XmlNode) -> dict[str, Any]:
    """Return the fields of ``Work`` that the extensions of a node state."""
    if node.first("extensionElements") is None:
        return {}
    fields: dict[str, Any] = {**_definition(node), **_mapping(node), **_people(node)}
    fields.update(_called(node))
    script = extension(node, "zeebe:script")
    if script is not None:
        fields["script"] = expression_of(script.get("expression"), "feel")
        fields["result"] = script.get("resultVariable")
    fields["headers"] = tuple(
        (header.get("key") or "", header.get("value") or "")
        for block in extension_children(node, "zeebe:taskHeaders")
        for header in block.children
    )
    fields["ignored"] = tuple(
        tag
        for tag in ("zeebe:executionListeners", "zeebe:taskListeners")
        if extension(node, tag) is not None
    )
    return {key: value for key, value in fields.items() if value}


def loop_of(node: XmlNode) -> dict[str, Any]:
    """Return the fields of a loop that the extension of its characteristics states."""
    loop = extension(node, "zeebe:loopCharacteristics")
    if loop is None:
        return {}
    fields = {
        "collection": expression_of(loop.get("inputCollection"), "feel"),
        "item": loop.get("inputElement"),
        "output": loop.get("outputCollection"),
        "output_item": expression_of(loop.get("outputElement"), "feel"),
    }
    return {key: value for key, value in fields.items() if value}


def correlation_key(message: XmlNode) -> ModelExpression | None:
    """Return the correlation key of a message."""
    subscription = extension(message, "zeebe:subscription")
    return None if subscription is None else expression_of(subscription.get("correlationKey"))


def forms_of(owner: XmlNode) -> dict[str, str]:
    """Return the JSON texts of the forms that a process holds, by id."""
    return {
        form.get("id") or "": form.text for form in extension_children(owner, "zeebe:userTaskForm")
    }


def _definition(node: XmlNode) -> dict[str, Any]:
    definition = extension(node, "zeebe:taskDefinition")
    if definition is None:
        return {}
    kind = (definition.get("type") or "").strip()
    retries = (definition.get("retries") or "").strip()
    fields: dict[str, Any] = {"names": (kind,), "topic": kind}
    if computed(kind) is not None:
        fields = {"computed_topic": computed(kind)}
    if retries.isdigit():
        fields["retries"] = max(int(retries) - 1, 0)
    fields["computed_retries"] = computed(retries)
    return fields


def _mapping(node: XmlNode) -> dict[str, Any]:
    inputs: list[Assignment] = []
    outputs: list[Assignment] = []
    for block in extension_children(node, "zeebe:ioMapping"):
        for line in block.children:
            entry = assignment(line.get("source"), line.get("target"))
            if entry is not None and line.tag == "zeebe:output":
                outputs.append(entry)
            elif entry is not None:
                inputs.append(entry)
    return {"inputs": tuple(inputs), "outputs": tuple(outputs)}


def _people(node: XmlNode) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    people = extension(node, "zeebe:assignmentDefinition")
    if people is not None:
        fields["assignee"] = expression_of(people.get("assignee"))
        fields["users"] = texts_of(people.get("candidateUsers"))
        fields["groups"] = texts_of(people.get("candidateGroups"))
    times = extension(node, "zeebe:taskSchedule")
    if times is not None:
        fields["due"] = expression_of(times.get("dueDate"))
    form = extension(node, "zeebe:formDefinition")
    if form is not None:
        fields["form_key"] = form.get("formKey") or form.get("formId")
    return fields


def _called(node: XmlNode) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    process = extension(node, "zeebe:calledElement")
    if process is not None:
        fields["names"] = (process.get("processId") or "",)
        fields["passes_all_in"] = process.get("propagateAllParentVariables") != "false"
        fields["passes_all_out"] = process.get("propagateAllChildVariables") != "false"
    decision = extension(node, "zeebe:calledDecision")
    if decision is not None:
        fields["decision"] = decision.get("decisionId")
        fields["result"] = decision.get("resultVariable")
        if computed(decision.get("decisionId")) is None:
            fields["names"] = (decision.get("decisionId") or "",)
    return fields
