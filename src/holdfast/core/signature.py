"""Encode and decode the arguments and the result of a function by its signature.

The signature is read once, when the function is decorated. Stored arguments are a JSON array, or
{"args": [...], "kwargs": {...}} if some of them cannot be passed by position.
"""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import (
    Any,
    NamedTuple,
    Never,
    NoReturn,
    ParamSpecArgs,
    ParamSpecKwargs,
    Self,
    Unpack,
    get_origin,
)

from holdfast.core.codec import PLAIN, Codec, check_type, decoder_of, fit, same
from holdfast.errors import NotEncodable, WrongType

Args = tuple[Any, ...]
Kwargs = dict[str, Any]

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_NO_DATA = (Never, NoReturn, Self)


class ParameterInfo(NamedTuple):
    """A parameter that can be passed by name."""

    name: str
    type: Any
    default: Any

    @property
    def is_required(self) -> bool:
        """Whether each call has to pass it."""
        return self.default is inspect.Parameter.empty


class Signature:
    """The parameters and the result of one function, with their types."""

    def __init__(self, fn: Callable[..., Any], names: Mapping[str, object] | None = None) -> None:
        """Read the signature of *fn*; *names* are further names that its annotations may use, such
        as the local variables of the enclosing function."""
        self.name: str = getattr(fn, "__name__", type(fn).__name__)
        self._signature = _signature(fn)
        parameters = list(self._signature.parameters.values())
        resolve = _Resolver(fn, names or {})
        self._types = {p.name: resolve(p.name, p.annotation) for p in parameters}
        self.return_type = resolve("return", self._signature.return_annotation)
        self.unresolved = tuple(resolve.unresolved)
        """The parameters (or "return") whose annotation could not be resolved; they are treated as
        Any."""

        self._positional = [p.name for p in parameters if p.kind in _BY_POSITION]
        self._kinds = [self._types[name] for name in self._positional]
        self._named = frozenset(p.name for p in parameters if p.kind in _BY_NAME)
        self._rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "")
        self._extra = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), "")
        self._min_args, self._max_args = _arity(parameters)
        self._untyped = all(kind is Any for kind in self._types.values())

    @property
    def names(self) -> frozenset[str]:
        """The parameters that can be passed by name."""
        return self._named

    @property
    def takes_other_names(self) -> bool:
        """Whether arguments with any name are accepted."""
        return bool(self._extra)

    def parameters(self) -> list[ParameterInfo]:
        """Return the parameters that can be passed by name, in order."""
        return [
            ParameterInfo(name, self._types[name], parameter.default)
            for name, parameter in self._signature.parameters.items()
            if name in self._named
        ]

    def encode_args(self, codec: Codec, args: Args, kwargs: Kwargs) -> bytes:
        """Return the arguments of a call as bytes, which do not depend on whether an argument was
        passed by position or by name. Raises WrongType, NotEncodable."""
        args, kwargs = self._bound(args, kwargs)
        try:
            if kwargs:
                return codec.encode({"args": args, "kwargs": kwargs})
            return codec.encode(args)
        except NotEncodable:
            self._raise_for_argument(codec, args, kwargs)
            raise

    def decode_args(self, codec: Codec, data: bytes) -> tuple[Args, Kwargs]:
        """Return the arguments to call the function with; defaults are left to the function.

        Raises WrongType, BadData."""
        stored = codec.decode(data, label=f"the arguments of {self.name}()")
        args, kwargs = self._bound(*self._split(stored))
        if self._untyped or (not kwargs and self._has_types(args)):
            return args, kwargs
        typed_args = tuple(
            self._fit(name, value)
            for name, value in zip(self._names_by_position(), args, strict=False)
        )
        typed_kwargs = {
            name: self._fit(name if name in self._named else self._extra, value)
            for name, value in kwargs.items()
        }
        return typed_args, typed_kwargs

    def encode_checked(self, codec: Codec, args: Args, kwargs: Kwargs) -> bytes:
        """Return the arguments of a call as bytes, after checking that they can be decoded again.

        Raises WrongType, NotEncodable, BadData."""
        data = self.encode_args(codec, args, kwargs)
        # plain values of the annotated types certainly decode to themselves: saves the decoding
        if kwargs or not all(map(same, args, self._kinds)) or len(args) > len(self._kinds):
            self.decode_args(codec, data)
        return data

    def _has_types(self, args: Args) -> bool:
        """Return whether each argument already has exactly the annotated type, so that no
        conversion is needed."""
        for value, kind in zip(args, self._kinds, strict=False):
            if kind is not Any and type(value) is not kind:
                return False
        return len(args) <= len(self._kinds)

    def decode_result(self, codec: Codec, data: bytes) -> Any:
        """Return a stored result as the annotated return type. Raises WrongType, BadData."""
        return codec.decode(data, self.return_type, label=f"the result of {self.name}()")

    def result_decoder(self, codec: Codec) -> Callable[[bytes], Any]:
        """Return ``decode_result`` for one codec."""
        return decoder_of(codec, self.return_type, f"the result of {self.name}()")

    def check_types(self) -> None:
        """Raise WrongType if stored values cannot be decoded as one of the annotations, so that the
        error comes before any work is done."""
        for name, kind in self._types.items():
            check_type(kind, self._argument(name))
        check_type(self.return_type, f"the result of {self.name}()")

    def _bound(self, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
        """Return the arguments, by position where possible. Raises WrongType if they do not match
        the signature."""
        # saves the slow bind() of a call without keywords
        if not kwargs and self._min_args <= len(args) <= self._max_args:
            return args, kwargs
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            takes = ", ".join(self._signature.parameters) or "nothing"
            raise WrongType(value=f"{self.name}()", why=str(error), takes=takes) from None
        return bound.args, bound.kwargs

    def _split(self, stored: object) -> tuple[Args, Kwargs]:
        arguments = split_arguments(stored, f"the arguments of {self.name}()")
        return tuple(arguments.args), arguments.kwargs

    def _fit(self, name: str, value: Any) -> Any:
        kind = self._types[name]
        if kind is Any or type(value) is kind:
            return value
        return fit(value, kind, self._argument(name))

    def _names_by_position(self) -> Iterator[str]:
        yield from self._positional
        while self._rest:
            yield self._rest

    def _argument(self, name: str) -> str:
        return f"argument {name!r} of {self.name}()"

    def _raise_for_argument(self, codec: Codec, args: Args, kwargs: Kwargs) -> None:
        """Encode the arguments one by one, so that the error names the one that fails."""
        for name, value in [*zip(self._names_by_position(), args, strict=False), *kwargs.items()]:
            try:
                codec.encode(value, label=name)
            except NotEncodable as error:
                raise NotEncodable(**error.facts, function=self.name) from error


class _Resolver:
    """Resolve annotations to types, one at a time, so that an unknown name affects only its own
    annotation."""

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
        return Any if _accepts_anything(kind) else kind


def encode_arguments(codec: Codec, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
    """Return the arguments of a call without a known signature as bytes. Raises NotEncodable."""
    if kwargs:
        return codec.encode({"args": list(args), "kwargs": dict(kwargs)}, label="the arguments")
    return codec.encode(list(args), label="the arguments")


class GivenArguments(NamedTuple):
    """The arguments with which a run was started, as plain data."""

    args: list[Any]
    kwargs: dict[str, Any]

    @property
    def value(self) -> Any:
        """The arguments as one value: the only argument, the keywords if there are only keywords,
        None if there is nothing; otherwise an object with ``args`` and ``kwargs``."""
        if not self.kwargs and len(self.args) <= 1:
            return self.args[0] if self.args else None
        if not self.args:
            return self.kwargs
        return {"args": self.args, "kwargs": self.kwargs}


def split_arguments(stored: object, label: str) -> GivenArguments:
    """Return the arguments that a decoded input holds. Raises WrongType, which names the input as
    *label*."""
    if isinstance(stored, list):
        return GivenArguments(stored, {})
    if isinstance(stored, dict) and stored.keys() <= {"args", "kwargs"}:
        args = stored.get("args", [])
        kwargs = stored.get("kwargs", {})
        if isinstance(args, list) and isinstance(kwargs, dict):
            return GivenArguments(args, kwargs)
    raise WrongType(value=label, why='expected an array, or an object of "args" and "kwargs"')


def _accepts_anything(kind: object) -> bool:
    """Return whether an annotation gives no type that stored data can be converted to."""
    special = isinstance(kind, ParamSpecArgs | ParamSpecKwargs) or get_origin(kind) is Unpack
    return special or kind in _NO_DATA or kind in PLAIN


def _arity(parameters: list[inspect.Parameter]) -> tuple[int, int]:
    """Return the minimum and the maximum number of arguments of a call without keywords.

    If each call needs keywords, the minimum is greater than the maximum."""
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters):
        return sys.maxsize, 0
    by_position = [p for p in parameters if p.kind in _BY_POSITION]
    minimum = sum(p.default is p.empty for p in by_position)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return minimum, sys.maxsize
    return minimum, len(by_position)


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    if sys.version_info >= (3, 14):  # pragma: no cover
        from annotationlib import Format

        return inspect.signature(fn, annotation_format=Format.FORWARDREF)
    return inspect.signature(fn)


def _innermost(fn: Any) -> Any:
    """Return the plain function inside a wrapper, partial, method or callable object."""
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
