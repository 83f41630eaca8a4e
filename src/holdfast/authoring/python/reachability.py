"""Find what a suspended workflow can still ask for, by following its bytecode and the values that
it names.

Each live frame is followed from the instruction at which it waits: along jumps, loops and exception
handlers, into the functions, classes and objects that it names, in whatever module they are. The
answer errs towards "can still be called":

- a step or function that is used as a value anywhere in the code, such as ``map(charge, items)`` or
  ``[charge, pack]``, counts as callable from everywhere in it, because its call cannot be located;
- attributes and text count by their name, for methods and for ``options(id="charge")``;
- where the search cannot follow the code (``getattr``, an import inside a function, a method of a
  value that does not exist yet, an installed library, too much code), there is no answer.
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
"""How many values and functions are looked at before the search gives up."""
ITEMS = 100
"""How many items of a collection are looked at."""

_PACKAGE = __name__.partition(".")[0]
_CALLS_STEPS = f"{_PACKAGE}.agents"
"""The part of the package that calls steps itself."""
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
"""Methods of plain values, and of what workflow code gets from the engine: they call no step of
another name."""


def names_ahead(frames: Iterable[types.FrameType]) -> frozenset[str] | None:
    """Return the names of what the code can ask for after the instructions at which these frames
    wait; None if unknown.

    Attributes are there with a dot before them as well.
    """
    search = _Search()
    try:
        for frame in frames:
            search.follow_frame(frame)
    except _CannotTell:
        return None
    return frozenset(search.names)


class _CannotTell(Exception):
    """The code leads to where it cannot be followed."""


class _Search:
    def __init__(self) -> None:
        self.names: set[str] = set()
        self._seen: set[int] = set()
        self._kept: list[object] = []
        """What was looked at: an id stays that of one object while the object lives."""

    def follow_frame(self, frame: types.FrameType) -> None:
        around = {**frame.f_globals, **frame.f_locals}
        flow = control_flow(frame.f_code)
        for reference in (*flow.ahead_of(frame.f_lasti), *flow.values):
            self._follow(reference, around)

    def _follow(self, reference: Reference, around: Mapping[str, Any]) -> None:
        if reference.is_chosen_id:
            raise _CannotTell
        elif isinstance(reference.constant, types.CodeType):
            self._explore(reference.constant, around)
        elif isinstance(reference.constant, str):
            self.names.add(reference.constant)
        elif reference.imported is not None:
            self._import(reference.imported)
        else:
            self._follow_name(reference, around)

    def _follow_name(self, reference: Reference, around: Mapping[str, Any]) -> None:
        self.names.update(reference.attributes)
        self.names.update(f".{attribute}" for attribute in reference.attributes)
        if reference.name is not None:
            self.names.update({reference.name, f"undo {reference.name}"})
        if reference.name is None or reference.name not in around:
            is_known = reference.name is not None and hasattr(
                sys.modules["builtins"], reference.name
            )
            if is_known:
                self._look(getattr(sys.modules["builtins"], str(reference.name)))
            elif reference.is_called and reference.attributes[-1] not in _HARMLESS:
                raise _CannotTell
            return
        value = around[reference.name]
        for attribute in reference.attributes:
            if not isinstance(value, types.ModuleType | type):
                break  # all methods of an object are looked at
            value = inspect.getattr_static(value, attribute, None)
        self._look(value)

    def _import(self, name: str) -> None:
        """Follow an import inside a function: what a module of yours has is not known before it is
        executed."""
        self.names.add(name)
        _require_known(name)

    def _look(self, value: Any) -> None:
        """Add what a value leads to."""
        if isinstance(value, str):
            self.names.add(value)
            return
        if isinstance(value, _PLAIN) or id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._kept.append(value)
        if len(self._kept) > LARGEST or any(value is one for one in _OPAQUE):
            raise _CannotTell
        elif isinstance(value, Step):
            self.names.update({value.name, value.identity or value.name, f"undo {value.name}"})
        else:
            self._look_into(value)

    def _look_into(self, value: Any) -> None:
        if isinstance(value, types.FunctionType):
            self._follow_function(value)
        elif isinstance(value, types.MethodType):
            self._look_at_all((value.__func__, value.__self__))
        elif isinstance(value, staticmethod | classmethod):
            self._look(value.__func__)
        elif isinstance(value, property):
            self._look_at_all((value.fget, value.fset))
        elif isinstance(value, functools.partial):
            self._look_at_all((value.func, *value.args, *value.keywords.values()))
        elif isinstance(value, types.CoroutineType):
            self._follow_coroutine(value)
        elif isinstance(value, types.ModuleType):
            _require_known(value.__name__)
        elif isinstance(value, type):
            self._look_at_class(value)
        elif isinstance(value, _COLLECTIONS):
            self._look_at_collection(value)
        else:
            self._look_at_object(value)

    def _look_at_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self._look(value)

    def _look_at_collection(self, value: Any) -> None:
        if len(value) > ITEMS:
            raise _CannotTell
        self._look_at_all(value)
        if isinstance(value, dict):
            self._look_at_all(value.values())
        if type(value) not in _COLLECTIONS:
            self._look(type(value))

    def _look_at_class(self, kind: type) -> None:
        if _origin(kind.__module__) == "opaque" and not issubclass(kind, BaseException):
            raise _CannotTell
        for base in kind.__mro__:
            if _origin(base.__module__) == "user":
                self._look_at_all(vars(base).values())

    def _look_at_object(self, value: Any) -> None:
        origin = _origin(type(value).__module__)
        if origin == "ours":
            self.names.add(str(getattr(value, "name", "")))  # a workflow or a task
        if origin == "opaque":
            raise _CannotTell
        if origin != "user":
            return
        self._look(type(value))
        self._look_at_all(getattr(value, "__dict__", {}).values())
        for base in type(value).__mro__:
            for slot in vars(base).values():
                if isinstance(slot, types.MemberDescriptorType):
                    self._look(_slot(slot, value))

    def _follow_function(self, function: types.FunctionType) -> None:
        origin = _origin(str(function.__globals__.get("__name__", "")))
        self.names.update({function.__name__, f"undo {function.__name__}"})
        if origin == "opaque":
            raise _CannotTell
        closure = _closure(function)
        self._look_at_all(closure.values())
        if origin == "user":
            self._look_at_all(function.__defaults__ or ())
            self._explore(function.__code__, {**function.__globals__, **closure})

    def _follow_coroutine(self, coroutine: types.CoroutineType[Any, Any, Any]) -> None:
        """Follow a call that was made and is not awaited yet."""
        frame = coroutine.cr_frame
        if frame is None:
            return
        if _origin(str(frame.f_globals.get("__name__", ""))) == "user":
            self.follow_frame(frame)
        else:
            self._look_at_all(frame.f_locals.values())

    def _explore(self, code: types.CodeType, around: Mapping[str, Any]) -> None:
        """Follow every instruction of *code*."""
        if id(code) in self._seen:
            return
        self._seen.add(id(code))
        self._kept.append(code)
        for reference in control_flow(code).all:
            self._follow(reference, around)


@functools.lru_cache(maxsize=1024)
def _origin(module: str) -> str:
    """Return whose a module is: "ours", "standard", "opaque" for libraries and what calls steps by
    itself, else "user"."""
    top = module.partition(".")[0]
    if top == _PACKAGE:
        return "opaque" if module.startswith(_CALLS_STEPS) else "ours"
    if top in sys.stdlib_module_names:
        return "standard"
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "opaque" if _LIBRARIES.search(file) else "user"


def _require_known(module: str) -> None:
    """Raise _CannotTell unless a module as a whole is known to call no steps."""
    if _origin(module) in ("opaque", "user"):
        raise _CannotTell


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
