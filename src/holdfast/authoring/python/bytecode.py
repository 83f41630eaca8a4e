"""Control flow of a function's bytecode: which names it can refer to after an instruction."""

from __future__ import annotations

import dis
import functools
import types
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import msgspec

_NO_FALL_THROUGH = frozenset(
    {
        "JUMP_ABSOLUTE",
        "JUMP_BACKWARD",
        "JUMP_BACKWARD_NO_INTERRUPT",
        "JUMP_FORWARD",
        "RAISE_VARARGS",
        "RERAISE",
        "RETURN_CONST",
        "RETURN_VALUE",
    }
)
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"})
_CONSTANTS = frozenset({"KW_NAMES", "LOAD_CONST", "RETURN_CONST"})
_JUMPS = frozenset({*dis.hasjrel, *dis.hasjabs})


class Reference(msgspec.Struct, frozen=True):
    """A name that an instruction loads, with the attributes that are read from it; or a constant,
    or an imported module."""

    name: str | None = None
    """None for the attributes of a value without a name, such as the result of a call."""
    attributes: tuple[str, ...] = ()
    is_called: bool = False
    """Whether the last attribute is called as a method."""
    constant: Any = None
    imported: str | None = None
    """The module that is imported here."""
    is_chosen_id: bool = False
    """Whether this call has an argument ``id`` that is not a constant."""


class ControlFlow:
    """The references in a code object, by the instructions that load them."""

    def __init__(self, code: types.CodeType) -> None:
        self._code = code
        bytecode = dis.Bytecode(code)
        self._instructions: list[dis.Instruction] = list(bytecode)
        self._handlers: list[Any] = list(bytecode.exception_entries)  # type: ignore[attr-defined]
        self._offsets = [instruction.offset for instruction in self._instructions]
        self._places = {
            instruction.offset: place for place, instruction in enumerate(self._instructions)
        }
        self._references: dict[int, list[Reference]] = {}
        for place in range(len(self._instructions)):
            references = list(self._loaded(place))
            if references:
                self._references[place] = references
        self.all: list[Reference] = [
            reference for references in self._references.values() for reference in references
        ]
        self.values: list[Reference] = [
            reference
            for place, references in self._references.items()
            for reference in references
            if reference.name is not None and not self._is_located(place)
        ]
        """Names that are used as values: the place of their call is unknown."""

    def ahead_of(self, offset: int) -> Iterator[Reference]:
        """Yield the references of all instructions that can be executed after the one at
        *offset*."""
        # A frame may wait inside the inline cache that follows an instruction, at an offset that
        # belongs to no instruction.
        unvisited = [max(bisect_right(self._offsets, offset) - 1, 0)]
        reached: set[int] = set()
        while unvisited:
            place = unvisited.pop()
            if place not in reached:
                reached.add(place)
                unvisited.extend(self._successors(place))
        for place in reached:
            yield from self._references.get(place, ())

    def _successors(self, place: int) -> Iterator[int]:
        instruction = self._instructions[place]
        if instruction.opname not in _NO_FALL_THROUGH and place + 1 < len(self._instructions):
            yield place + 1
        if instruction.opcode in _JUMPS:
            yield self._places[instruction.argval]
        for handler in self._handlers:
            if handler.start <= instruction.offset < handler.end:
                yield self._places[handler.target]

    def _loaded(self, place: int) -> Iterator[Reference]:
        instruction = self._instructions[place]
        if instruction.opname == "IMPORT_NAME":
            yield Reference(imported=instruction.argval)
        elif instruction.opname == "IMPORT_FROM":
            yield Reference(constant=instruction.argval)
        elif instruction.opname in _CONSTANTS:
            yield from self._constants(place)
        elif instruction.opname in _ATTRIBUTES:
            if not self._extends_a_name(place):
                attributes, is_called = self._attributes(place)
                yield Reference(attributes=attributes, is_called=is_called)
        elif instruction.opname.startswith("LOAD_"):
            # Some instructions load two names at once, such as LOAD_FAST_LOAD_FAST.
            loaded = instruction.argval
            names = loaded if isinstance(loaded, tuple) else (loaded,)
            attributes, is_called = self._attributes(place + 1)
            for name in names:
                if isinstance(name, str):
                    yield Reference(name, attributes if name == names[-1] else (), is_called)

    def _constants(self, place: int) -> Iterator[Reference]:
        """Yield the texts and code objects that an instruction loads, and whether an ``id`` that is
        not a constant is among the arguments that it names."""
        instruction = self._instructions[place]
        value = instruction.argval
        if instruction.opname == "KW_NAMES":
            # dis of Python 3.11 does not resolve the argument of KW_NAMES.
            value = self._code.co_consts[instruction.arg or 0]
        constants = value if isinstance(value, tuple) else (value,)
        for constant in constants:
            if isinstance(constant, str | types.CodeType):
                yield Reference(constant=constant)
        texts = [constant for constant in constants if isinstance(constant, str)]
        if "id" in texts and self._names_arguments(place):
            arguments = self._instructions[max(place - len(constants), 0) : place]
            if any(argument.opname != "LOAD_CONST" for argument in arguments):
                yield Reference(is_chosen_id=True)

    def _names_arguments(self, place: int) -> bool:
        return (
            self._instructions[place].opname == "KW_NAMES" or self._opname(place + 1) == "CALL_KW"
        )

    def _attributes(self, place: int) -> tuple[tuple[str, ...], bool]:
        """Return the attributes that consecutive instructions from *place* on read, and whether the
        last one is called as a method."""
        attributes: list[str] = []
        is_called = False
        while self._opname(place) in _ATTRIBUTES:
            instruction = self._instructions[place]
            attributes.append(instruction.argval)
            is_called = instruction.opname == "LOAD_METHOD" or "NULL" in instruction.argrepr
            place += 1
        return tuple(attributes), is_called

    def _extends_a_name(self, place: int) -> bool:
        """Return whether the attribute at *place* is read from a name or from another attribute."""
        before = self._opname(place - 1) if place else ""
        return before.startswith("LOAD_") and before not in _CONSTANTS

    def _is_located(self, place: int) -> bool:
        """Return whether the name at *place* is called, or an attribute is read from it, right
        where it is loaded."""
        instruction = self._instructions[place]
        following = self._opname(place + 1)
        preceding = self._opname(place - 1) if place else ""
        return (
            "NULL" in instruction.argrepr
            or following in {"PUSH_NULL", *_ATTRIBUTES}
            or preceding == "PUSH_NULL"
        )

    def _opname(self, place: int) -> str:
        if place < len(self._instructions):
            return self._instructions[place].opname
        return ""


@functools.lru_cache(maxsize=4096)
def control_flow(code: types.CodeType) -> ControlFlow:
    """Return the control flow of *code*. It is cached, because disassembly is slow."""
    return ControlFlow(code)
