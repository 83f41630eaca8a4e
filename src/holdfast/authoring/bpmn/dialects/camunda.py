"""The extensions of Camunda 7. Those of Flowable and Activiti have the same names, so they share
this reader, with another prefix."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.authoring.bpmn.dialects.texts import (
    LIST,
    MAP,
    computed,
    expression_of,
    extension,
    extension_children,
    texts_of,
)
from holdfast.authoring.bpmn.model import Assignment, FormField, ModelExpression
from holdfast.authoring.bpmn.timers import retry_terms
from holdfast.authoring.bpmn.xml import XmlNode

PREFIX = "camunda:"
_NAME = re.compile(r"[$#]\{\s*([\w.-]+)\s*\}")


def work_of(node: XmlNode, prefix: str = PREFIX) -> dict[str, Any]:
    """Return the fields of ``Work`` that the extensions of a node state."""
    attributes = {
        key[len(prefix) :]: value
        for key, value in node.attributes.items()
        if key.startswith(prefix)
    }
    if not attributes and node.first("extensionElements") is None:
        return {}
    fields: dict[str, Any] = {
        "names": tuple(_names(attributes)),
        "topic": attributes.get("topic"),
        "computed_topic": computed(attributes.get("topic")),
        "result": attributes.get("resultVariable") or attributes.get("resultVariableName"),
        "expression": expression_of(attributes.get("expression")),
        "decision": attributes.get("decisionRef"),
        "decision_result": attributes.get("mapDecisionResult"),
        "assignee": expression_of(attributes.get("assignee")),
        "users": texts_of(attributes.get("candidateUsers")),
        "groups": texts_of(attributes.get("candidateGroups")),
        "due": expression_of(attributes.get("dueDate")),
        "form_key": attributes.get("formKey"),
        "form": tuple(_form(node, prefix)),
        "headers": tuple(_headers(node, prefix)),
        "version": _version(attributes),
        "error_code_variable": attributes.get("errorCodeVariable"),
        "error_message_variable": attributes.get("errorMessageVariable"),
        "ignored": tuple(_ignored(node, attributes, prefix)),
    }
    fields.update(_mappings(node, prefix))
    fields.update(_retries(node, prefix))
    if fields["computed_topic"] is not None:
        del fields["topic"]
    return {key: value for key, value in fields.items() if value}


def _ignored(node: XmlNode, attributes: dict[str, str], prefix: str) -> Iterator[str]:
    if attributes.get("skipExpression"):
        yield f"{prefix}skipExpression"
    for name in ("executionListener", "taskListener", "connector", "field"):
        if extension(node, f"{prefix}{name}") is not None:
            yield f"{prefix}{name}"


def loop_of(node: XmlNode, prefix: str = PREFIX) -> dict[str, Any]:
    """Return the fields of a loop that the attributes of its characteristics state."""
    collection = node.get(f"{prefix}collection")
    fields: dict[str, Any] = {"item": node.get(f"{prefix}elementVariable")}
    if collection:
        fields["collection"] = expression_of(collection) or None
        if not _is_marked(collection):
            fields["collection"] = ModelExpression(collection.strip(), "variable")
    return {key: value for key, value in fields.items() if value}


def _is_marked(text: str) -> bool:
    return text.strip()[:1] in ("$", "#", "=")


def _names(attributes: dict[str, str]) -> Iterator[str]:
    if attributes.get("topic") and computed(attributes["topic"]) is None:
        yield attributes["topic"]
    delegate = _NAME.fullmatch(attributes.get("delegateExpression", "").strip())
    if delegate:
        yield delegate.group(1)
    if attributes.get("class"):
        yield attributes["class"]
        yield attributes["class"].rpartition(".")[2]
    for name in ("decisionRef", "resource"):
        if attributes.get(name) and computed(attributes[name]) is None:
            yield attributes[name]


def _version(attributes: dict[str, str]) -> str | None:
    if attributes.get("calledElementBinding") == "version":
        return attributes.get("calledElementVersion")
    return None


def _retries(node: XmlNode, prefix: str) -> dict[str, Any]:
    cycle = extension(node, f"{prefix}failedJobRetryTimeCycle")
    if cycle is None:
        return {}
    terms = retry_terms(cycle.text)
    if terms is None:
        return {"computed_retries": computed(cycle.text)}
    return {"retries": terms[0], "delay": terms[1]}


def _headers(node: XmlNode, prefix: str) -> Iterator[tuple[str, str]]:
    for properties in extension_children(node, f"{prefix}properties"):
        for entry in properties.children:
            name = entry.get("name")
            if name:
                yield name, entry.get("value") or ""


def _form(node: XmlNode, prefix: str) -> Iterator[FormField]:
    for data in extension_children(node, f"{prefix}formData"):
        for field in data.all(f"{prefix}formField"):
            yield _field(field, prefix)
    for entry in extension_children(node, f"{prefix}formProperty"):
        yield FormField(
            id=entry.get("id") or "",
            label=entry.get("name"),
            type=entry.get("type") or "string",
            required=entry.get("required") == "true",
            default=entry.get("default"),
            options=_values(entry, prefix),
        )


def _field(field: XmlNode, prefix: str) -> FormField:
    rules = {
        constraint.get("name"): constraint.get("config")
        for validation in field.all(f"{prefix}validation")
        for constraint in validation.children
    }
    return FormField(
        id=field.get("id") or "",
        label=field.get("label"),
        type=field.get("type") or "string",
        required="required" in rules and rules["required"] != "false",
        default=field.get("defaultValue"),
        options=_values(field, prefix),
        minimum=rules.get("min"),
        maximum=rules.get("max"),
        shortest=rules.get("minlength"),
        longest=rules.get("maxlength"),
    )


def _values(field: XmlNode, prefix: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (value.get("id") or "", value.get("name") or value.get("id") or "")
        for value in field.all(f"{prefix}value")
    )


def _mappings(node: XmlNode, prefix: str) -> dict[str, Any]:
    inputs: list[Assignment] = []
    outputs: list[Assignment] = []
    fields: dict[str, Any] = {}
    for block in extension_children(node, f"{prefix}inputOutput"):
        for line in block.children:
            target = outputs if line.tag.endswith("outputParameter") else inputs
            target.extend(_parameter(line))
    for tag, lines, everything in (
        ("in", inputs, "passes_all_in"),
        ("out", outputs, "passes_all_out"),
    ):
        for line in extension_children(node, f"{prefix}{tag}"):
            if line.get("variables") == "all":
                fields[everything] = True
            elif line.get("businessKey"):
                fields["business_key"] = expression_of(line.get("businessKey"))
            else:
                lines.extend(_copy(line))
    return {**fields, "inputs": tuple(inputs), "outputs": tuple(outputs)}


def _parameter(line: XmlNode) -> Iterator[Assignment]:
    name = line.get("name")
    if name:
        yield Assignment(_value(line), name)


def _value(line: XmlNode) -> ModelExpression:
    """Return the value of a parameter or entry: a text, a script, a list or a map."""
    for child in line.children:
        kind = child.tag.partition(":")[2]
        if kind == "script":
            language = (child.get("scriptFormat") or "").lower()
            return ModelExpression(child.text.strip(), language)
        if kind in (LIST, MAP):
            parts = tuple((entry.get("key") or "", _value(entry)) for entry in child.children)
            return ModelExpression(kind, kind, parts)
    return expression_of(line.text) or ModelExpression("", "literal")


def _copy(line: XmlNode) -> Iterator[Assignment]:
    target = line.get("target")
    source = line.get("source")
    computed = expression_of(line.get("sourceExpression"))
    if target and source:
        yield Assignment(ModelExpression(source, "variable"), target)
    elif target and computed is not None:
        yield Assignment(computed, target)
