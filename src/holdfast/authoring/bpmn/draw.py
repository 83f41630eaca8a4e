"""Draw a model as Mermaid text: nodes, flows, boundary events and sub-processes."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.authoring.bpmn.model import NODES, SUBPROCESSES, Element, Model

_SHAPES = {
    "startEvent": ("((", "))"),
    "endEvent": ("(((", ")))"),
    "intermediateCatchEvent": ("((", "))"),
    "intermediateThrowEvent": ("((", "))"),
    "boundaryEvent": ("((", "))"),
    "exclusiveGateway": ("{", "}"),
    "parallelGateway": ("{", "}"),
    "inclusiveGateway": ("{", "}"),
    "eventBasedGateway": ("{", "}"),
    "complexGateway": ("{", "}"),
}
_MARKS = {
    "exclusiveGateway": "X",
    "parallelGateway": "+",
    "inclusiveGateway": "O",
    "eventBasedGateway": "event",
    "complexGateway": "*",
}


def mermaid(model: Model) -> str:
    """Return the model as a Mermaid flowchart; each process is a subgraph if there are several."""
    lines = ["flowchart LR"]
    for process in model.processes:
        nested = len(model.processes) > 1
        if nested:
            lines.append(f"  subgraph {_key(process.id)}[{_text(process.name or process.id)}]")
        lines += _scope(model, process.id, "    " if nested else "  ")
        if nested:
            lines.append("  end")
    return "\n".join(lines) + "\n"


def _scope(model: Model, scope: str, indent: str) -> Iterator[str]:
    for element in model.elements.values():
        if element.parent != scope or element.tag not in NODES:
            continue
        if element.tag in SUBPROCESSES:
            yield f"{indent}subgraph {_key(element.id)}[{_label(element)}]"
            yield from _scope(model, element.id, indent + "  ")
            yield f"{indent}end"
        else:
            left, right = _SHAPES.get(element.tag, ("[", "]"))
            yield f"{indent}{_key(element.id)}{left}{_label(element)}{right}"
    for element in model.elements.values():
        if element.parent != scope:
            continue
        if element.tag == "sequenceFlow":
            yield indent + _flow(model, element)
        elif element.tag == "boundaryEvent" and element.attached_to:
            yield f"{indent}{_key(element.attached_to)} -.- {_key(element.id)}"


def _flow(model: Model, flow: Element) -> str:
    label = flow.name or (flow.condition.text if flow.condition else "")
    source = model.elements.get(flow.source or "")
    if not label and source is not None and source.default == flow.id:
        label = "default"
    arrow = f"-->|{_text(label)}|" if label else "-->"
    return f"{_key(flow.source or '')} {arrow} {_key(flow.target or '')}"


def _label(element: Element) -> str:
    event = element.kind.partition(":")[2]
    mark = _MARKS.get(element.tag, event)
    name = element.name or ("" if mark else element.id)
    return _text(" ".join(part for part in (mark, name) if part))


def _key(id: str) -> str:
    """Return an id that Mermaid accepts: its keywords and most signs are not allowed."""
    return "n_" + "".join(sign if sign.isalnum() else "_" for sign in id)


def _text(text: str) -> str:
    cleaned = " ".join(text.split()).replace('"', "#quot;")
    return f'"{cleaned}"'
