"""What a function takes and gives, read once when it is decorated; its arguments go to the store
and come back by it.

Stored arguments are a JSON array, or {"args": [...], "kwargs": {...}} if some cannot be given by
position.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any, Never, NoReturn, ParamSpecArgs, ParamSpecKwargs, Self, Unpack, get_origin

from holdfast.core.codec import PLAIN, Codec, check_type, fit, same
from holdfast.errors import NotEncodable, WrongType

Args = tuple[Any, ...]
Kwargs = dict[str, Any]

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_NO_DATA = (Never, NoReturn, Self)


class Signature:
    """The arguments and the result of one function, with their types."""

    def __init__(self, fn: Callable[..., Any], names: Mapping[str, object] | None = None) -> None:
        """Read *fn*; *names* are further names that its annotations may use, such as the locals
        around it."""
        self.name: str = getattr(fn, "__name__", type(fn).__name__)
        self._signature = _signature(fn)
        parameters = list(self._signature.parameters.values())
        resolve = _Resolver(fn, names or {})
        self._types = {one.name: resolve(one.name, one.annotation) for one in parameters}
        self.return_type = resolve("return", self._signature.return_annotation)
        self.unresolved = tuple(resolve.unresolved)
        """The parameters (or "return") whose annotation could not be understood; they are taken as
        Any."""

        self._positional = [one.name for one in parameters if one.kind in _BY_POSITION]
        self._kinds = [self._types[name] for name in self._positional]
        self._named = frozenset(one.name for one in parameters if one.kind in _BY_NAME)
        self._rest = next((one.name for one in parameters if one.kind is one.VAR_POSITIONAL), "")
        self._extra = next((one.name for one in parameters if one.kind is one.VAR_KEYWORD), "")
        self._least, self._most = _arity(parameters)
        self._untyped = all(kind is Any for kind in self._types.values())

    def encode_args(self, codec: Codec, args: Args, kwargs: Kwargs) -> bytes:
        """Turn the arguments of a call into bytes, the same ones however they were passed. Raises
        WrongType, NotEncodable."""
        args, kwargs = self._bound(args, kwargs)
        try:
            return codec.encode({"args": args, "kwargs": kwargs} if kwargs else args)
        except NotEncodable:
            self._blame(codec, args, kwargs)
            raise

    def decode_args(self, codec: Codec, data: bytes) -> tuple[Args, Kwargs]:
        """Give the arguments to call the function with; defaults are left to it. Raises WrongType,
        BadData."""
        args, kwargs = self._bound(
            *self._split(codec.decode(data, what=f"the arguments of {self.name}()"))
        )
        if self._untyped or (not kwargs and self._has_types(args)):
            return args, kwargs
        return (
            tuple(
                self._fit(name, value)
                for name, value in zip(self._names_by_position(), args, strict=False)
            ),
            {
                name: self._fit(name if name in self._named else self._extra, value)
                for name, value in kwargs.items()
            },
        )

    def encode_checked(self, codec: Codec, args: Args, kwargs: Kwargs) -> bytes:
        """Turn the arguments of a call into bytes, if the function can be called with what comes
        back of them. Raises WrongType, NotEncodable, BadData."""
        data = self.encode_args(codec, args, kwargs)
        if kwargs or not all(map(same, args, self._kinds)) or len(args) > len(self._kinds):
            self.decode_args(codec, data)
        return data

    def _has_types(self, args: Args) -> bool:
        """Say whether these are just what is asked for, and need not be made of anything else."""
        for value, kind in zip(args, self._kinds, strict=False):
            if kind is not Any and type(value) is not kind:
                return False
        return len(args) <= len(self._kinds)

    def decode_result(self, codec: Codec, data: bytes) -> Any:
        """Turn a stored result into what the function is annotated to return. Raises WrongType,
        BadData."""
        return codec.decode(data, self.return_type, what=f"the result of {self.name}()")

    def check_types(self) -> None:
        """Refuse annotations that no stored value could be read as, before any work is done. Raises
        WrongType."""
        for name, kind in self._types.items():
            check_type(kind, self._argument(name))
        check_type(self.return_type, f"the result of {self.name}()")

    def _bound(self, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        """Pass by position what can be; refuse what does not fit."""
        if not kwargs and self._least <= len(args) <= self._most:
            return args, kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise WrongType(what=f"{self.name}()", why=str(error)) from None
        return bound.args, bound.kwargs

    def _split(self, stored: object) -> tuple[Args, Kwargs]:
        if isinstance(stored, list):
            return tuple(stored), {}
        if isinstance(stored, dict) and stored.keys() <= {"args", "kwargs"}:
            args, kwargs = stored.get("args", []), stored.get("kwargs", {})
            if isinstance(args, list) and isinstance(kwargs, dict):
                return tuple(args), kwargs
        raise WrongType(
            what=f"the arguments of {self.name}()",
            why='expected an array, or an object of "args" and "kwargs"',
        )

    def _fit(self, name: str, value: Any) -> Any:
        kind = self._types[name]
        return (
            value if kind is Any or type(value) is kind else fit(value, kind, self._argument(name))
        )

    def _names_by_position(self) -> Iterator[str]:
        yield from self._positional
        while self._rest:
            yield self._rest

    def _argument(self, name: str) -> str:
        return f"argument {name!r} of {self.name}()"

    def _blame(self, codec: Codec, args: Args, kwargs: Kwargs) -> None:
        """Encode one by one what did not encode together, so that the error names the argument."""
        for name, value in [*zip(self._names_by_position(), args, strict=False), *kwargs.items()]:
            try:
                codec.encode(value, what=name)
            except NotEncodable as error:
                raise NotEncodable(**error.facts, function=self.name) from error


class _Resolver:
    """Makes types of annotations, one at a time, so that one unknown name spoils only its own."""

    def __init__(self, fn: Callable[..., Any], names: Mapping[str, object]) -> None:
        inner = _innermost(fn)
        self.globals: dict[str, Any] = getattr(inner, "__globals__", {})
        self.locals = {**_closure(inner), **names}
        self.unresolved: list[str] = []

    def __call__(self, name: str, annotation: object) -> object:
        if annotation is inspect.Parameter.empty:
            return Any
        holder = SimpleNamespace(__annotations__={"it": annotation})
        try:
            kind = typing.get_type_hints(holder, self.globals, self.locals)["it"]
        except Exception:  # an annotation is code: evaluating it can raise anything
            self.unresolved.append(name)
            return Any
        return Any if _asks_nothing(kind) else kind


def _asks_nothing(kind: object) -> bool:
    special = isinstance(kind, ParamSpecArgs | ParamSpecKwargs) or get_origin(kind) is Unpack
    return special or kind in _NO_DATA or kind in PLAIN


def _arity(parameters: list[inspect.Parameter]) -> tuple[int, int]:
    """Say how many arguments a call without keywords needs and may have; more than it may have if
    there is none such."""
    by_position = [one for one in parameters if one.kind in _BY_POSITION]
    least = sum(one.default is one.empty for one in by_position)
    most = (
        sys.maxsize
        if any(one.kind is one.VAR_POSITIONAL for one in parameters)
        else len(by_position)
    )
    needs_names = any(
        one.kind is one.KEYWORD_ONLY and one.default is one.empty for one in parameters
    )
    return (sys.maxsize, 0) if needs_names else (least, most)


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):  # pragma: no cover
        from annotationlib import Format

        return inspect.signature(fn, annotation_format=Format.FORWARDREF)
    return inspect.signature(fn)


def _innermost(fn: Any) -> Any:
    """Find the plain function in a wrapper, partial, method or callable object."""
    fn = inspect.unwrap(fn)
    if isinstance(fn, partial):
        return _innermost(fn.func)
    if inspect.ismethod(fn):
        return fn.__func__
    return fn if inspect.isfunction(fn) else type(fn).__call__


def _closure(fn: Any) -> dict[str, object]:
    names = getattr(getattr(fn, "__code__", None), "co_freevars", ())
    cells = getattr(fn, "__closure__", None) or ()
    return {
        name: cell.cell_contents
        for name, cell in zip(names, cells, strict=False)
        if not _is_empty(cell)
    }


def _is_empty(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False
