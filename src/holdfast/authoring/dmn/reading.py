"""Read a DMN file: its elements, types and imports, and all problems at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.authoring.dmn.boxes import BoxReader, type_of
from holdfast.authoring.dmn.model import DmnFile, DmnImport, DrgElement, ElementKind, ItemType
from holdfast.authoring.dmn.types import TypeTable
from holdfast.authoring.dmn.xml import DmnElement, read_dmn_xml
from holdfast.core.expressions.feel_names import SIMPLE, normalized

_NAMED = (
    "variable",
    "inputData",
    "decision",
    "businessKnowledgeModel",
    "decisionService",
    "formalParameter",
    "parameter",
    "column",
    "itemComponent",
    "itemDefinition",
    "output",
    "import",
)
"""Elements whose names expressions may use."""


class DmnSource:
    """A file whose XML was read; its expressions are read once the names of its imports are
    known."""

    def __init__(self, data: bytes, path: str) -> None:
        self.path: str = path
        self.root: DmnElement = read_dmn_xml(data)
        self.namespace: str = self.root.get("namespace")
        self.names: frozenset[str] = frozenset(_special_names(self.root))
        self.imports: list[DmnImport] = [
            DmnImport(
                name=normalized(element.get("name")),
                namespace=element.get("namespace"),
                location=element.get("locationURI"),
                line=element.line,
            )
            for element in self.root.all("import")
            if "DMN" in element.get("importType")
        ]

    def read(self, names: frozenset[str]) -> tuple[DmnFile, BoxReader]:
        """Return the content of the file; *names* are known names of other files."""
        reader = BoxReader(self.path, self.names | names, self.root.get("expressionLanguage"))
        elements: dict[str, DrgElement] = {}
        for element in self.root.children:
            read = _READERS.get(element.tag)
            if read is None:
                continue
            drg_element = read(reader, element)
            if drg_element.id in elements:
                reader.problem(
                    element, "duplicate-id", f"two elements have the id `{drg_element.id}`"
                )
            elements[drg_element.id] = drg_element
        types = {
            item.get("name"): _item_type(reader, item) for item in self.root.all("itemDefinition")
        }
        file = DmnFile(
            name=self.root.get("name"),
            namespace=self.namespace,
            elements=elements,
            types=types,
            imports=self.imports,
            problems=reader.problems,
        )
        return file, reader


def _special_names(element: DmnElement) -> Iterator[str]:
    """Yield the names that are not a single word."""
    stack = [element]
    while stack:
        current = stack.pop()
        stack.extend(current.children)
        name = current.get("iteratorVariable")
        if current.tag in _NAMED:
            name = current.get("name")
        if name and not SIMPLE.fullmatch(name):
            yield normalized(name)


def _name_of(element: DmnElement) -> str:
    return normalized(element.get("name")) or element.get("id")


def _drg_element(kind: str, element: DmnElement, **facts: Any) -> DrgElement:
    """Return an element with its identity, its requirements and further facts."""
    name = normalized(element.get("name"))
    variable = element.first("variable")
    variable_name = name
    type_name = ""
    if variable is not None:
        variable_name = normalized(variable.get("name")) or name
        type_name = type_of(variable)
    known = {"type": type_name, "requires": _requirements(element), **facts}
    return DrgElement(
        kind=kind,
        id=element.get("id") or name,
        name=_name_of(element),
        variable=variable_name,
        line=element.line,
        **known,
    )


def _requirements(element: DmnElement) -> tuple[str, ...]:
    return tuple(
        required.get("href")
        for requirement in element.all("informationRequirement", "knowledgeRequirement")
        for required in requirement.all("requiredDecision", "requiredInput", "requiredKnowledge")
    )


def _decision(reader: BoxReader, element: DmnElement) -> DrgElement:
    reader.depth = 0
    before = len(reader.problems)
    box = reader.box_in(element)
    if box is None and len(reader.problems) == before:
        message = f"the decision `{_name_of(element)}` has no logic"
        reader.warning(element, "missing-expression", message)
    table = element.first("decisionTable")
    outputs: tuple[str, ...] = ()
    if table is not None:
        outputs = tuple(output.get("name") for output in table.all("output"))
    return _drg_element(ElementKind.DECISION, element, box=box, depth=reader.depth, outputs=outputs)


def _input_data(reader: BoxReader, element: DmnElement) -> DrgElement:
    return _drg_element(ElementKind.INPUT, element)


def _knowledge(reader: BoxReader, element: DmnElement) -> DrgElement:
    logic = element.first("encapsulatedLogic")
    reader.depth = 0
    box = None
    parameters: tuple[tuple[str, str], ...] = ()
    if logic is None:
        message = f"the model `{_name_of(element)}` has no logic"
        reader.problem(element, "missing-expression", message)
    elif logic.get("kind", "FEEL") != "FEEL":
        message = f"a function of kind {logic.get('kind')} cannot be called"
        reader.problem(logic, "unknown-language", message, "write it in FEEL")
    else:
        box = reader.box_in(logic)
        parameters = tuple(
            (normalized(parameter.get("name")), type_of(parameter))
            for parameter in logic.all("formalParameter")
        )
    return _drg_element(
        ElementKind.KNOWLEDGE,
        element,
        type="",  # that of the function, not of its value
        box=box,
        depth=reader.depth,
        parameters=parameters,
    )


def _service(reader: BoxReader, element: DmnElement) -> DrgElement:
    return _drg_element(
        ElementKind.SERVICE,
        element,
        type="",
        outputs=tuple(each.get("href") for each in element.all("outputDecision")),
        inputs=tuple(each.get("href") for each in element.all("inputDecision", "inputData")),
    )


_READERS = {
    "decision": _decision,
    "inputData": _input_data,
    "businessKnowledgeModel": _knowledge,
    "decisionService": _service,
}


def _item_type(reader: BoxReader, element: DmnElement) -> ItemType:
    components = tuple(
        (component.get("name"), _item_type(reader, component))
        for component in element.all("itemComponent")
    )
    allowed = element.first("allowedValues")
    constraint = element.first("typeConstraint")
    base = type_of(element)
    return ItemType(
        name=element.get("name"),
        base=base,
        is_collection=element.get("isCollection") == "true",
        components=components,
        allowed=reader.allowed(constraint if constraint is not None else allowed),
        allowed_for_list=constraint is not None and element.get("isCollection") == "true",
        is_function=element.first("functionItem") is not None,
    )


def check_types(file: DmnFile, reader: BoxReader, types: TypeTable) -> None:
    """Report types that are named and not declared."""
    for element in file.elements.values():
        if element.type and not types.knows(element.type):
            place = DmnElement("", {}, element.line)
            message = f"`{element.name}` has the type `{element.type}`, which is not declared"
            reader.warning(place, "unknown-type", message, "declare it as an item definition")
