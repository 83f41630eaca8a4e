"""Link the elements of DMN files: references become elements, requirements get an order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from holdfast.authoring.dmn.boxes import BoxReader
from holdfast.authoring.dmn.model import Box, DmnFile, DrgElement, ElementKind, ItemType
from holdfast.authoring.dmn.reading import check_types
from holdfast.authoring.dmn.types import TypeTable
from holdfast.authoring.dmn.xml import DmnElement
from holdfast.core.problems import Problem, did_you_mean


class LinkedElement(msgspec.Struct, kw_only=True, eq=False):
    """An element whose requirements are known."""

    key: str
    """``namespace#id``."""
    kind: str
    id: str
    name: str
    variable: str
    type: str
    line: int
    box: Box | None
    depth: int
    parameters: tuple[tuple[str, str], ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    requires: tuple[LinkedElement, ...] = ()
    visible: dict[str, LinkedElement] = {}
    """Required elements of the same file, and of files imported without a name."""
    imported: dict[str, dict[str, LinkedElement]] = {}
    """Required elements of imported files, by the name of the import."""
    outputs_of: dict[str, LinkedElement] = {}
    """Required decision tables by the names of their outputs."""


class LinkedModel:
    """A file with its imports."""

    def __init__(self, files: list[tuple[DmnFile, BoxReader]]) -> None:
        self.main: DmnFile = files[0][0]
        self.elements: dict[str, LinkedElement] = {}
        self._files: list[tuple[DmnFile, BoxReader]] = files
        self.types: TypeTable = TypeTable(_all_types([file for file, _ in files]))
        for file, reader in files:
            reader.types = self.types
            for element in file.elements.values():
                linked = _linked(file, element)
                self.elements[linked.key] = linked
        for file, reader in files:
            check_types(file, reader, self.types)
            for element in file.elements.values():
                self._link(file, element, reader)
        self._check_cycles()

    @property
    def problems(self) -> list[Problem]:
        """All problems of the file and of its imports."""
        return [problem for file, _ in self._files for problem in file.problems]

    def own(self, *kinds: str) -> list[LinkedElement]:
        """Return the elements of the main file of some kinds."""
        keys = (f"{self.main.namespace}#{identifier}" for identifier in self.main.elements)
        return [self.elements[key] for key in keys if self.elements[key].kind in kinds]

    def linked(self, references: Iterable[str]) -> list[LinkedElement]:
        """Return elements by the keys that references were resolved to."""
        return [self.elements[key] for key in references if key in self.elements]

    def order_of(self, element: LinkedElement) -> list[LinkedElement]:
        """Return the decisions that an element requires, each after its own requirements."""
        order: list[LinkedElement] = []
        seen = {element.key}
        stack: list[tuple[LinkedElement, Iterator[LinkedElement]]] = []
        stack.append((element, iter(element.requires)))
        while stack:
            current, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                stack.pop()
                if stack and current.kind == ElementKind.DECISION:
                    order.append(current)
            elif following.key not in seen:
                seen.add(following.key)
                stack.append((following, iter(following.requires)))
        return order

    def _link(self, file: DmnFile, element: DrgElement, reader: BoxReader) -> None:
        linked = self.elements[f"{file.namespace}#{element.id}"]
        names = {each.namespace: each.name for each in file.imports}
        targets = [self._target(file, reference, element, reader) for reference in element.requires]
        required = [target for target in targets if target is not None]
        linked.requires = tuple(required)
        linked.visible = {}
        linked.imported = {}
        linked.outputs_of = {}
        for target in required:
            import_name = names.get(target.key.rpartition("#")[0], "")
            if import_name:
                linked.imported.setdefault(import_name, {})[target.variable] = target
            else:
                linked.visible[target.variable] = target
                linked.visible.setdefault(target.name, target)
            if target.kind == ElementKind.DECISION:
                linked.outputs_of.update(dict.fromkeys(filter(None, target.outputs), target))
        if element.kind == ElementKind.SERVICE:
            linked.inputs = self._keys(file, element.inputs, element, reader)
            linked.outputs = self._keys(file, element.outputs, element, reader)

    def _keys(
        self, file: DmnFile, references: tuple[str, ...], element: DrgElement, reader: BoxReader
    ) -> tuple[str, ...]:
        targets = [self._target(file, reference, element, reader) for reference in references]
        return tuple(target.key for target in targets if target is not None)

    def _target(
        self, file: DmnFile, reference: str, element: DrgElement, reader: BoxReader
    ) -> LinkedElement | None:
        namespace, _, identifier = reference.rpartition("#")
        target = self.elements.get(f"{namespace or file.namespace}#{identifier}")
        if target is None:
            place = DmnElement("", {}, element.line)
            message = f"`{element.name}` requires `{reference}`, which does not exist"
            reader.problem(
                place, "unknown-element", message, did_you_mean(identifier, file.elements)
            )
        return target

    def _check_cycles(self) -> None:
        """Report decisions that require themselves, by way of others."""
        state: dict[str, int] = {}
        for element in self.elements.values():
            if element.key in state or element.kind != ElementKind.DECISION:
                continue
            self._visit(element, state)

    def _visit(self, start: LinkedElement, state: dict[str, int]) -> None:
        """Walk the requirements; a state of 1 means that an element is on the path."""
        stack = [(start, iter(start.requires))]
        state[start.key] = 1
        while stack:
            current, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                state[current.key] = 2
                stack.pop()
            elif state.get(following.key) == 1 and following.kind == ElementKind.DECISION:
                self._report_cycle(following)
            elif following.key not in state:
                state[following.key] = 1
                stack.append((following, iter(following.requires)))

    def _report_cycle(self, element: LinkedElement) -> None:
        namespace = element.key.rpartition("#")[0]
        for file, reader in self._files:
            if file.namespace == namespace:
                place = DmnElement("", {}, element.line)
                reader.problem(place, "cycle", f"the decision `{element.name}` requires itself")


def _linked(file: DmnFile, element: DrgElement) -> LinkedElement:
    return LinkedElement(
        key=f"{file.namespace}#{element.id}",
        kind=element.kind,
        id=element.id,
        name=element.name,
        variable=element.variable,
        type=element.type,
        line=element.line,
        box=element.box,
        depth=element.depth,
        parameters=element.parameters,
        inputs=(),
        outputs=element.outputs,
    )


def _all_types(files: list[DmnFile]) -> Mapping[str, ItemType]:
    """Return the types of all files; those of imports also with the name of the import."""
    types: dict[str, Any] = {}
    by_namespace = {file.namespace: file for file in files}
    for file in reversed(files):
        types.update(file.types)
        for each in file.imports:
            other = by_namespace.get(each.namespace)
            if other is not None and each.name:
                types.update({f"{each.name}.{name}": item for name, item in other.types.items()})
    return types
