"""``HttpOperation``: one operation of the HTTP API, declared once.

A declaration names a method of the engine, an address and a right. The signature of the method
gives the parameters and the answer, its docstring the summary and the problems. The router, the
checks of a request, OpenAPI and the remote client are made from it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, TypeVar, get_type_hints

import msgspec

from holdfast import errors
from holdfast.authoring.python.workflow import Workflow
from holdfast.connect.async_engine import AsyncEngine
from holdfast.connect.async_run import AsyncRun
from holdfast.connect.lease import AsyncLease
from holdfast.connect.namespaces import AsyncNamespaces
from holdfast.connect.runs import AsyncRunQuery
from holdfast.core.api_keys import Right
from holdfast.core.lazy_parts import part_class, part_names
from holdfast.core.status import Status
from holdfast.core.unset import UNSET
from holdfast.server.wire import is_moment, item_type, moment, wire_type
from holdfast.views.why import WhyView

NOT_ON_THE_WIRE = frozenset({"callback", "connection", "path", "progress"})
"""Parameters that only a program in the same process can pass."""

_IN_PATH = re.compile(r"\{(\w+)\}")
_ERROR_NAME = re.compile(r"\b[A-Z][a-z]+[A-Z]?[A-Za-z]*\b")

Handler = Callable[[Any], Awaitable[Any]]
"""Makes the call of an ``HttpCall``, and returns the answer."""


class HttpParameter(msgspec.Struct, frozen=True):
    """A parameter of an operation. ``type`` is its type on the wire."""

    name: str
    type: Any
    required: bool
    default: Any = UNSET
    is_moment: bool = False
    is_rest: bool = False
    """Whether its items are passed by position, as ``*args``."""
    is_keywords: bool = False
    """Whether its items are passed by name, as ``**kwargs``."""


PAGE_PARAMETERS = (
    HttpParameter("cursor", str | None, False),
    HttpParameter("limit", int, False),
)
"""The parameters of every list that is read in pages."""


class HttpOperation(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One operation: a method, its address and the right that it requires."""

    name: str
    """The method as users of Python name it: ``gates.decide``, ``run.cancel``."""
    method: str
    path: str
    """The address below ``/api/v1``; ``{name}`` is a parameter."""
    right: Right | None
    """None: every authenticated caller may call it."""
    public: bool = False
    """Whether a token among the arguments takes the place of an API key."""
    status: int = 200
    field: str = "value"
    """The field of the answer, if the method returns a single value."""
    fixed: Mapping[str, Any] = {}
    """Arguments that a request cannot choose."""
    cursor: str = "id"
    """The attribute of the last item of a page with which the next page begins."""
    idempotent_by: str | None = None
    """The parameter that receives the header ``Idempotency-Key``."""
    derived_id: str | None = None
    """The parameter for an id that is derived from the header ``Idempotency-Key``, unless the
    request has one."""
    owns_key: bool = False
    """Whether the method itself compares repeated requests, so that the server stores no key."""
    confirms: bool = False
    """Whether the handler confirms the API key of its caller, in the transaction of its write."""
    other_right: Right | None = None
    """Another right that suffices; then the handler restricts the answer."""
    pages_by: str | None = None
    """The argument with which a page begins, if a handler without a method reads pages."""
    needs_values: bool = False
    """Whether the operation is about values of users, and nothing else."""
    handler: Handler | None = None
    """Makes the call, if it is not simply a call of the method."""
    answer: Any = UNSET
    """The type of the answer, if it is not the one of the method."""
    extra: tuple[HttpParameter, ...] = ()
    """Parameters of the handler that the method does not have."""
    media: str = "application/json"
    problems_of: tuple[str, ...] = ()
    """Errors that the docstring does not name."""

    @cached_property
    def function(self) -> Callable[..., Any] | None:
        """The method of the engine; None if a handler has no method behind it."""
        owner, _, verb = self.name.rpartition(".")
        function: Callable[..., Any] | None = getattr(OWNERS.get(owner), verb, None)
        return function

    @cached_property
    def in_path(self) -> tuple[str, ...]:
        """The names of the parameters in the address."""
        return tuple(_IN_PATH.findall(self.path))

    @cached_property
    def parameters(self) -> tuple[HttpParameter, ...]:
        """The parameters that a request passes, without the ones in the address."""
        own = [] if self.function is None else parameters_of(self.function)
        taken = {*self.in_path, *self.fixed, *(parameter.name for parameter in self.extra)}
        kept = [parameter for parameter in own if parameter.name not in taken]
        if self.page_parameter is not None:
            kept = [item for item in kept if item.name not in (self.page_parameter, "limit")]
            kept += PAGE_PARAMETERS
        return (*kept, *self.extra)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all parameters."""
        return frozenset(parameter.name for parameter in self.parameters)

    @cached_property
    def request_type(self) -> type[msgspec.Struct]:
        """The struct that the parameters are decoded into; it refuses unknown fields."""
        return struct_of(_camel(self.name) + "Request", self.parameters)

    @cached_property
    def returns(self) -> Any:
        """The type that the method returns."""
        if self.answer is not UNSET:
            return self.answer
        hints = {} if self.function is None else _hints_of(self.function)
        returned = hints.get("return", Any)
        if isinstance(returned, TypeVar):
            return Any
        return returned

    @cached_property
    def is_list(self) -> bool:
        """Whether the answer is a list, which is sent as a page."""
        return item_type(self.returns) is not None

    @cached_property
    def page_parameter(self) -> str | None:
        """The parameter with which a page of the method begins; None if the list is not read in
        pages, or by numbers."""
        if self.function is None:
            return self.pages_by
        if not self.is_list or self.method != "GET":
            return None
        own = {item.name: item.type for item in parameters_of(self.function)}
        if "limit" not in own:
            return None
        return next((name for name in ("after", "before") if own.get(name) == str | None), None)

    @cached_property
    def summary(self) -> str:
        """The first sentence of the docstring."""
        text = inspect.getdoc(self.function or self.handler) or ""
        return " ".join(re.split(r"(?<=\.)\s", text.strip(), maxsplit=1)[0].split())

    @cached_property
    def description(self) -> str:
        """The docstring without its line breaks."""
        text = inspect.getdoc(self.function or self.handler) or ""
        return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))

    @cached_property
    def problems(self) -> tuple[str, ...]:
        """The errors that the method says it raises."""
        text = inspect.getdoc(self.function or self.handler) or ""
        _, _, raised = text.partition("Raises")
        named = [name for name in _ERROR_NAME.findall(raised) if hasattr(errors, name)]
        return tuple(dict.fromkeys([*named, *self.problems_of]))

    @property
    def takes_key(self) -> bool:
        """Whether the header ``Idempotency-Key`` has an effect."""
        changes = self.method == "POST" and self.right not in (None, Right.VIEW)
        return changes or self.idempotent_by is not None

    @property
    def claims_key(self) -> bool:
        """Whether the server stores which request an ``Idempotency-Key`` belongs to. Strangers,
        whose token is not checked yet, store nothing."""
        return self.takes_key and not self.owns_key and not self.public

    @property
    def changes(self) -> bool:
        """Whether the operation may write."""
        return self.method not in ("GET", "HEAD")


OWNERS: dict[str, type] = {
    "engine": AsyncEngine,
    "run": AsyncRun,
    "runs": AsyncRunQuery,
    "lease": AsyncLease,
    **{
        name: part_class(AsyncNamespaces, name, f"holdfast.connect.{name}")
        for name in part_names(AsyncNamespaces)
    },
}
"""The classes whose methods are operations."""


_TYPES = {kind.__name__: kind for kind in (AsyncRun, AsyncRunQuery, WhyView, Workflow)}
"""The types that the engine names, but does not load before it is opened."""


def _hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(function, localns=_TYPES)


def operation(name: str, address: str, right: Right | None, /, **options: Any) -> HttpOperation:
    """Declare an operation: ``operation("gates.get", "GET /gates/{gate}", Right.VIEW)``."""
    method, path = address.split(" ", 1)
    return HttpOperation(name=name, method=method, path=path, right=right, **options)


def parameters_of(function: Callable[..., Any]) -> list[HttpParameter]:
    """Return the parameters of a method that a request can pass."""
    hints = _hints_of(function)
    taken = []
    for parameter in inspect.signature(function).parameters.values():
        hint = hints.get(parameter.name)
        if parameter.name in NOT_ON_THE_WIRE or hint is None:
            continue
        taken.append(_parameter(parameter, hint))
    return [parameter for parameter in taken if parameter.type is not None]


def _parameter(parameter: inspect.Parameter, hint: Any) -> HttpParameter:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return HttpParameter(parameter.name, list[Any], False, is_rest=True)
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return HttpParameter(parameter.name, dict[str, Any], False, is_keywords=True)
    wire: Any = wire_type(hint)
    if parameter.name in ("workflow", "task") and hint is Any:
        wire = str | None if parameter.default is None else str
    is_required = parameter.default is inspect.Parameter.empty
    return HttpParameter(
        parameter.name,
        wire,
        is_required,
        UNSET if is_required else parameter.default,
        is_moment=is_moment(hint),
    )


def struct_of(name: str, parameters: Iterable[HttpParameter]) -> type[msgspec.Struct]:
    """Return the struct that parameters are decoded into; it refuses unknown fields."""
    fields: list[Any] = [_field(parameter) for parameter in parameters]
    return msgspec.defstruct(name, fields, forbid_unknown_fields=True, kw_only=True)


def values_of(parsed: msgspec.Struct, parameters: Iterable[HttpParameter]) -> dict[str, Any]:
    """Return the parameters that a request has passed, with times as times."""
    values: dict[str, Any] = {}
    for parameter in parameters:
        value = getattr(parsed, parameter.name)
        if value is not msgspec.UNSET:
            values[parameter.name] = moment(value) if parameter.is_moment else value
    return values


def _field(parameter: HttpParameter) -> tuple[Any, ...]:
    if parameter.required:
        return (parameter.name, parameter.type)
    return (parameter.name, parameter.type | msgspec.UnsetType, msgspec.UNSET)


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in re.split(r"[._-]", name))


def scalar_field(operation: HttpOperation) -> str:
    """Return the name of the field that holds the answer of a method that returns one value."""
    if operation.returns is Status and operation.field == "value":
        return "status"
    return operation.field
