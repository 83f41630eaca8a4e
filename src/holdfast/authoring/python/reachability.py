"""Reachability analysis: find the names that a suspended workflow can still call.

The search follows each live frame from the instruction at which it waits: along jumps, loops and
exception handlers, into the functions, classes and objects that it names, in any module. The answer
errs towards "can still be called":

- A step or function that is used as a value anywhere in the code, such as ``map(charge, items)`` or
  ``[charge, pack]``, counts as callable from everywhere in it, because its call cannot be located.
- Attributes and texts count by their name, for methods and for ``options(id="charge")``.
- Where the search cannot follow the code (``getattr``, an import inside a function, a method of a
  value that does not exist yet, an installed library, too much code), the answer is unknown.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from holdfast.authoring.python.bytecode import Reference, control_flow
from holdfast.authoring.python.step import Step

LARGEST = 500
"""How many values and functions the search visits before it gives up."""
ITEMS = 100
"""The largest collection that the search visits; it gives up at a larger one."""

_PACKAGE = __name__.partition(".")[0]
_CALLS_STEPS = f"{_PACKAGE}.agents"
"""The subpackage of Holdfast that calls steps itself."""
_LIBRARIES = re.compile(r"[/\\](site|dist)-packages[/\\]")
_OPAQUE: tuple[object, ...] = (getattr, eval, exec, globals, locals, vars, __import__)
_PLAIN = (int, float, complex, bytes, bytearray, type(None), type(Ellipsis))
_COLLECTIONS = (dict, list, tuple, set, frozenset)
_HARMLESS = frozenset(
    name
    for kind in (
        str,
        bytes,
        int,
        float,
        dict,
        list,
        set,
        tuple,
        BaseException,
        types.CodeType,
        types.FunctionType,
    )
    for name in dir(kind)
) | {"aio", "cancel", "isoformat", "options", "result", "signal", "sync", "total_seconds"}
"""Methods of plain values, and of the objects that workflow code gets from the engine: they call no
step of another name."""


def names_ahead(frames: Iterable[types.FrameType]) -> frozenset[str] | None:
    """Return the names that the code can call after the instructions at which these frames wait;
    None if they are unknown.

    An attribute is in the result twice, with and without a leading dot.
    """
    search = _Search()
    try:
        for frame in frames:
            search.follow_frame(frame)
    except _Unknown:
        return None
    return frozenset(search.names)


class _Unknown(Exception):
    """The search cannot follow the code, so the names are unknown."""


class _Search:
    """A search from one or more frames, which collects names."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._seen: set[int] = set()
        """The ids of the visited objects."""
        self._visited: list[object] = []
        """The visited objects. They are kept alive, because an id may be reused afterwards."""

    def follow_frame(self, frame: types.FrameType) -> None:
        """Follow the code that the frame can still execute."""
        if _origin(str(frame.f_globals.get("__name__", ""))) == "standard":
            # Only its arguments lead back to code of the user. Its module would lead to everything
            # that the process holds, such as all threads.
            self._visit_all(frame.f_locals.values())
            return
        scope = {**frame.f_globals, **frame.f_locals}
        flow = control_flow(frame.f_code)
        for reference in (*flow.ahead_of(frame.f_lasti), *flow.values):
            self._follow(reference, scope)

    def _follow(self, reference: Reference, scope: Mapping[str, Any]) -> None:
        if reference.is_chosen_id:
            raise _Unknown
        elif isinstance(reference.constant, types.CodeType):
            self._explore(reference.constant, scope)
        elif isinstance(reference.constant, str):
            self.names.add(reference.constant)
        elif reference.imported is not None:
            self._import(reference.imported)
        else:
            self._follow_name(reference, scope)

    def _follow_name(self, reference: Reference, scope: Mapping[str, Any]) -> None:
        self.names.update(reference.attributes)
        self.names.update(f".{attribute}" for attribute in reference.attributes)
        if reference.name is not None:
            self.names.update({reference.name, f"undo {reference.name}"})
        if reference.name is None or reference.name not in scope:
            is_known = reference.name is not None and hasattr(
                sys.modules["builtins"], reference.name
            )
            if is_known:
                self._visit(getattr(sys.modules["builtins"], str(reference.name)))
            elif reference.is_called and reference.attributes[-1] not in _HARMLESS:
                raise _Unknown
            return
        value = scope[reference.name]
        for attribute in reference.attributes:
            if not isinstance(value, types.ModuleType | type):
                break  # the search visits all methods of an object
            value = inspect.getattr_static(value, attribute, None)
        self._visit(value)

    def _import(self, name: str) -> None:
        """Follow an import inside a function. Raises _Unknown for a module of the user, because its
        contents are unknown before it is imported."""
        self.names.add(name)
        _require_stepless(name)

    def _visit(self, value: Any) -> None:
        """Add the names that a value leads to."""
        if isinstance(value, str):
            self.names.add(value)
            return
        if isinstance(value, _PLAIN) or id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._visited.append(value)
        if len(self._visited) > LARGEST or any(value is opaque for opaque in _OPAQUE):
            raise _Unknown
        elif isinstance(value, Step):
            self.names.update({value.name, value.identity or value.name, f"undo {value.name}"})
        else:
            self._visit_parts(value)

    def _visit_parts(self, value: Any) -> None:
        if isinstance(value, types.FunctionType):
            self._follow_function(value)
        elif isinstance(value, types.MethodType):
            self._visit_all((value.__func__, value.__self__))
        elif isinstance(value, staticmethod | classmethod):
            self._visit(value.__func__)
        elif isinstance(value, property):
            self._visit_all((value.fget, value.fset))
        elif isinstance(value, functools.partial):
            self._visit_all((value.func, *value.args, *value.keywords.values()))
        elif isinstance(value, types.CoroutineType):
            self._follow_coroutine(value)
        elif isinstance(value, types.ModuleType):
            _require_stepless(value.__name__)
        elif isinstance(value, type):
            self._visit_class(value)
        elif isinstance(value, _COLLECTIONS):
            self._visit_collection(value)
        else:
            self._visit_object(value)

    def _visit_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self._visit(value)

    def _visit_collection(self, value: Any) -> None:
        if len(value) > ITEMS:
            raise _Unknown
        self._visit_all(value)
        if isinstance(value, dict):
            self._visit_all(value.values())
        if type(value) not in _COLLECTIONS:
            self._visit(type(value))

    def _visit_class(self, kind: type) -> None:
        if _origin(kind.__module__) == "opaque" and not issubclass(kind, BaseException):
            raise _Unknown
        for base in kind.__mro__:
            if _origin(base.__module__) == "user":
                self._visit_all(vars(base).values())

    def _visit_object(self, value: Any) -> None:
        origin = _origin(type(value).__module__)
        if origin == "ours":
            self.names.add(str(getattr(value, "name", "")))  # a workflow or a task
        if origin == "opaque":
            raise _Unknown
        if origin != "user":
            return
        self._visit(type(value))
        self._visit_all(getattr(value, "__dict__", {}).values())
        for base in type(value).__mro__:
            for slot in vars(base).values():
                if isinstance(slot, types.MemberDescriptorType):
                    self._visit(_slot(slot, value))

    def _follow_function(self, function: types.FunctionType) -> None:
        origin = _origin(str(function.__globals__.get("__name__", "")))
        self.names.update({function.__name__, f"undo {function.__name__}"})
        if origin == "opaque":
            raise _Unknown
        closure = _closure(function)
        self._visit_all(closure.values())
        if origin == "user":
            self._visit_all(function.__defaults__ or ())
            self._explore(function.__code__, {**function.__globals__, **closure})

    def _follow_coroutine(self, coroutine: types.CoroutineType[Any, Any, Any]) -> None:
        """Follow a coroutine that was created and is not awaited yet."""
        frame = coroutine.cr_frame
        if frame is None:
            return
        if _origin(str(frame.f_globals.get("__name__", ""))) == "user":
            self.follow_frame(frame)
        else:
            self._visit_all(frame.f_locals.values())

    def _explore(self, code: types.CodeType, scope: Mapping[str, Any]) -> None:
        """Follow every instruction of *code*."""
        if id(code) in self._seen:
            return
        self._seen.add(id(code))
        self._visited.append(code)
        for reference in control_flow(code).all:
            self._follow(reference, scope)


@functools.lru_cache(maxsize=1024)
def _origin(module: str) -> str:
    """Return the owner of a module: "ours", "standard", "opaque" for installed libraries and for
    the subpackage that calls steps itself, else "user"."""
    top = module.partition(".")[0]
    if top == _PACKAGE:
        return "opaque" if module.startswith(_CALLS_STEPS) else "ours"
    if top in sys.stdlib_module_names:
        return "standard"
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "opaque" if _LIBRARIES.search(file) else "user"


def _require_stepless(module: str) -> None:
    """Raise _Unknown unless it is known that nothing in a module calls steps."""
    if _origin(module) in ("opaque", "user"):
        raise _Unknown


def _closure(function: Callable[..., Any]) -> dict[str, Any]:
    code: types.CodeType = function.__code__
    cells = zip(code.co_freevars, getattr(function, "__closure__", None) or (), strict=False)
    return {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}


def _slot(slot: types.MemberDescriptorType, value: object) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return None


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
