"""Handlers: Python functions that do the work of tasks, bound by the id of an element, a topic, a
type or a delegate."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from holdfast.authoring.bpmn.binding import TaskBinding
from holdfast.authoring.bpmn.compile import NodeSpec
from holdfast.authoring.bpmn.expressions import EVALUATED
from holdfast.authoring.bpmn.model import Work
from holdfast.core import duration
from holdfast.core.retry import RetryPolicy, policy_from
from holdfast.core.step_info import StepInfo
from holdfast.core.validation import checked_flag
from holdfast.errors import BadOption, BpmnError, Fail
from holdfast.errors.base import safe_repr

F = TypeVar("F", bound=Callable[..., Any])

THROWN = "holdfast:error"
"""The key of a recorded result that is a BPMN error."""

_POLICY = ("retries", "delay", "factor", "cap", "jitter", "when")
_registered: dict[str, BoundHandler] = {}


class HandlerTask:
    """The task that a handler executes, passed for a parameter with this annotation."""

    __slots__ = (
        "attempt",
        "element",
        "headers",
        "idempotency_key",
        "local",
        "name",
        "run_id",
        "variables",
    )

    def __init__(
        self,
        info: StepInfo,
        node: NodeSpec,
        variables: Mapping[str, Any],
        local: Mapping[str, Any],
    ) -> None:
        self.run_id: str = info.run_id
        self.element: str = node.id
        self.name: str | None = node.name
        self.variables: dict[str, Any] = dict(variables)
        """All visible variables."""
        self.local: dict[str, Any] = dict(local)
        """The loop counter and the item of an instance of a loop."""
        self.attempt: int = info.attempt
        self.idempotency_key: str = info.idempotency_key
        self.headers: dict[str, str] = dict(node.element.work.headers)


class BoundHandler(msgspec.Struct, frozen=True):
    """A function with its options."""

    function: Callable[..., Any]
    is_async: bool
    parameters: tuple[str, ...]
    """The names of the variables that it takes."""
    required: tuple[str, ...]
    task_parameter: str | None
    takes_all: bool
    """Whether it takes all variables, as keyword arguments."""
    policy: RetryPolicy | None = None
    timeout: int | None = None
    transactional: bool = False

    def call(
        self, node: NodeSpec, variables: Mapping[str, Any], local: Mapping[str, Any]
    ) -> Callable[[StepInfo, Any], Any]:
        """Return the call of the function with its variables, as a step makes it."""
        if self.is_async:
            return self._async_call(node, variables, local)

        def run(info: StepInfo, connection: Any) -> Any:
            try:
                return _result(self.function(**self._args(info, node, variables, local)), node)
            except BpmnError as error:
                return thrown(error)

        return run

    def _async_call(
        self, node: NodeSpec, variables: Mapping[str, Any], local: Mapping[str, Any]
    ) -> Callable[[StepInfo, Any], Any]:
        async def run(info: StepInfo, connection: Any) -> Any:
            try:
                value = await self.function(**self._args(info, node, variables, local))
                return _result(value, node)
            except BpmnError as error:
                return thrown(error)

        return run

    def _args(
        self,
        info: StepInfo,
        node: NodeSpec,
        variables: Mapping[str, Any],
        local: Mapping[str, Any],
    ) -> dict[str, Any]:
        missing = [name for name in self.required if name not in variables]
        if missing:
            names = ", ".join(missing)
            raise Fail(f"the variable {names} has no value, and the handler of {node.id} needs it")
        if self.takes_all:
            args = dict(variables)
        else:
            args = {name: variables[name] for name in self.parameters if name in variables}
        if self.task_parameter is not None:
            args[self.task_parameter] = HandlerTask(info, node, variables, local)
        return args


def _result(value: Any, node: NodeSpec) -> Any:
    if value is None or isinstance(value, Mapping):
        return value
    plain = msgspec.to_builtins(value, enc_hook=str)
    if isinstance(plain, dict):
        return plain
    if node.element.work.result:
        return {node.element.work.result: plain}
    raise Fail(
        f"the handler of {node.id} returned {type(value).__name__}: return a dict of variables,"
        " or set a result variable in the model"
    )


def thrown(error: BpmnError) -> dict[str, Any]:
    """Return a BPMN error as the result that is recorded."""
    facts = {"code": error.code, "message": error.message, "variables": error.variables}
    return {THROWN: facts}


def handler(*names: str, **options: Any) -> Callable[[F], F]:
    """Bind a function to tasks: by the id of an element, a topic, a type or a delegate.

    The options are those of ``step``. A function that is already a step keeps its own. Raises
    BadOption, BadDuration."""
    if not names or not all(isinstance(name, str) and name for name in names):
        raise BadOption(option="names", value=names, why="name the tasks that the function does")

    def bind(function: F) -> F:
        bound = bound_handler(function, options)
        for name in names:
            _registered[name] = bound
        return function

    return bind


def registered(name: str) -> BoundHandler | None:
    """Return the handler of this Python process with that name."""
    return _registered.get(name)


def is_any_registered() -> bool:
    """Return whether this Python process has bound a handler."""
    return bool(_registered)


def bound_handler(function: Any, options: Mapping[str, Any] | None = None) -> BoundHandler:
    """Return a function with its options. Raises BadOption, BadDuration."""
    if isinstance(function, BoundHandler):
        return function
    if not callable(function):
        raise BadOption(option="handler", value=safe_repr(function), why="it must be a function")
    plain = getattr(function, "fn", function)
    is_step = plain is not function
    facts: dict[str, Any] = {}
    if is_step:
        facts = {
            "policy": function.policy,
            "timeout": function.timeout,
            "transactional": function.transactional,
        }
    elif options:
        facts = _options(options)
    elif plain in _by_function:
        return _by_function[plain]
    bound = BoundHandler(
        function=plain,
        is_async=inspect.iscoroutinefunction(plain),
        **_parameters(plain),
        **facts,
    )
    if not is_step:
        _by_function[plain] = bound
    return bound


_by_function: dict[Any, BoundHandler] = {}
"""The handlers by function, so that one which is bound twice keeps its options."""


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    known = (*_POLICY, "timeout", "transactional", "name", "capture", "keep_args")
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise BadOption(option=unknown[0], known=", ".join(known))
    policy = {name: options[name] for name in _POLICY if name in options}
    return {
        "policy": policy_from(**policy) if policy else None,
        "timeout": duration.parse_optional(options.get("timeout")),
        "transactional": checked_flag("transactional", options.get("transactional", False)),
    }


def _parameters(function: Callable[..., Any]) -> dict[str, Any]:
    """Return what a function takes: names of variables, and perhaps the task itself."""
    names: list[str] = []
    required: list[str] = []
    task_parameter = None
    takes_all = False
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a built-in function
        parameters = {}.values()
        takes_all = True
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_all = True
        elif parameter.kind is parameter.VAR_POSITIONAL:
            continue
        elif parameter.annotation is HandlerTask or _is_task(parameter.annotation):
            task_parameter = parameter.name
        else:
            names.append(parameter.name)
            if parameter.default is parameter.empty:
                required.append(parameter.name)
    return {
        "parameters": tuple(names),
        "required": tuple(required),
        "task_parameter": task_parameter,
        "takes_all": takes_all,
    }


def _is_task(annotation: Any) -> bool:
    """Return whether an annotation that is a text names the task."""
    return isinstance(annotation, str) and annotation.rpartition(".")[2] in ("Task", "HandlerTask")


class HandlerBinder:
    """Decides what each task does, with the handlers of one engine and of the process."""

    def __init__(
        self,
        process: str,
        handlers: Mapping[str, Any],
        decide: Callable[[Work], BoundHandler] | None = None,
    ) -> None:
        self._process: str = process
        self._handlers: Mapping[str, Any] = handlers
        self._decide_by: Callable[[Work], BoundHandler] | None = decide
        """Returns the handler that evaluates a deployed decision."""
        self._bindings: dict[str, TaskBinding] = {}

    def __call__(self, node: NodeSpec, topic: str | None = None) -> TaskBinding:
        """Return the behaviour of a task; *topic* is its computed topic, if it has one."""
        if topic is not None:
            return self._decide(node, (topic,))
        binding = self._bindings.get(node.id)
        if binding is None:
            binding = self._bindings[node.id] = self._decide(node)
        return binding

    def find(self, name: str) -> BoundHandler | None:
        """Return the handler of a name: of the engine, or else of the process."""
        own = self._handlers.get(name)
        return registered(name) if own is None else bound_handler(own)

    def knows(self, name: str) -> bool:
        return self.find(name) is not None

    def _decide(self, node: NodeSpec, topics: tuple[str, ...] = ()) -> TaskBinding:
        work = node.element.work
        names = (f"{self._process}.{node.id}", node.id, *work.names, *topics)
        for name in names:
            bound = self.find(name)
            if bound is not None:
                return _to_handler(bound)
        return self.without_handler(node)

    def without_handler(self, node: NodeSpec) -> TaskBinding:
        """Return what a task does if no handler is bound to it."""
        work = node.element.work
        if work.decision and self._decide_by is not None:
            return _to_handler(self._decide_by(work))
        script = work.script
        if work.expression is not None or (script is not None and script.language in EVALUATED):
            return TaskBinding("expression")
        if work.topic or work.computed_topic is not None:
            return TaskBinding("external", retries=work.retries)
        if node.element.message or (node.event is not None and node.event.name):
            return TaskBinding("send")
        if node.tag in ("task", "manualTask"):
            return TaskBinding("pass")
        return TaskBinding("missing")


def _to_handler(bound: BoundHandler) -> TaskBinding:
    needs_all = bound.takes_all or bound.task_parameter is not None
    return TaskBinding("handler", bound, None if needs_all else bound.parameters)
