"""``@step``: a function whose result is recorded; once recorded, the call is never made again."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar, cast, overload
from uuid import uuid4

from holdfast.authoring.replay.async_program import AsyncProgram
from holdfast.authoring.replay.identity import current_branch
from holdfast.authoring.replay.replay import ReplayProgram, current_program
from holdfast.authoring.replay.sync_program import SyncProgram
from holdfast.core import duration, typed_json
from holdfast.core.codec import Codec, same
from holdfast.core.commands import RunStep
from holdfast.core.duration import Duration
from holdfast.core.events import Event, EventKind
from holdfast.core.retry import RetryPolicy, policy_from
from holdfast.core.runs import ErrorInfo
from holdfast.core.signature import Signature
from holdfast.core.step_info import StepInfo, current_step
from holdfast.core.validation import checked_flag, checked_text
from holdfast.errors import BadOption, NotEncodable, NotInWorkflow, StepFailed
from holdfast.errors.base import safe_repr

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
T = TypeVar("T")

current_reservation: ContextVar[str | None] = ContextVar("holdfast_reservation", default=None)
"""The identity of the innermost reservation of the workflow code, which spending counts against."""
current_connection: ContextVar[Any] = ContextVar("holdfast_connection", default=None)


KEPT_BYTES = 1_000_000
"""The largest arguments of a step that are kept."""


class _BoundStep(NamedTuple):
    """The functions of a step that depend on the codec."""

    codec: Codec
    fits: Callable[[Any, bytes], None]
    """Raises WrongType if a result, which is also given as stored, does not fit the return type."""
    read: Callable[[bytes], Any]
    """Returns a stored result."""


class Step(Generic[P, R]):
    """A function whose calls are recorded if a workflow makes them; other calls are plain calls.

    In an ``async def`` workflow a call is awaited; in a ``def`` workflow it returns the value,
    whether or not the step itself is async. Where the two differ, ``.aio(...)`` and ``.sync(...)``
    have the right types for a type checker.
    """

    def __init__(
        self,
        fn: Callable[P, R],
        name: str,
        policy: RetryPolicy,
        timeout: int | None,
        transactional: bool,
        capture: bool | None = None,
        keep_args: bool | None = None,
    ) -> None:
        self.fn: Callable[P, R] = fn
        self.name: str = name
        self.policy: RetryPolicy = policy
        self.timeout: int | None = timeout
        """The limit of an attempt, in microseconds."""
        self.transactional: bool = transactional
        self.capture: bool | None = capture
        """Whether printed and logged lines become output; None leaves that to the engine."""
        self.keep_args: bool | None = keep_args
        """Whether the arguments of its calls are recorded; None leaves that to the engine."""
        self.is_async: bool = inspect.iscoroutinefunction(fn)
        self.signature: Signature = Signature(fn)
        self.identity: str | None = None
        """The name of the calls in place of the function's name."""
        self._bound: _BoundStep | None = None
        if transactional and self.is_async:
            raise BadOption(
                option="transactional", step=name, why="a transactional step must be a plain def"
            )
        if transactional and timeout is not None:
            raise BadOption(
                option="timeout",
                step=name,
                why="a transactional step cannot be interrupted: limit the time of its statements",
            )
        functools.update_wrapper(self, fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        program = current_program.get()
        running = current_step.get()
        if program is None or running is not None:
            if program is not None and running is not None and running.run_id != program.run.id:
                why = (
                    "the call would not be recorded, because the current context belongs to a step"
                    f" of run {running.run_id}"
                )
                raise NotInWorkflow(step=self.name, run=program.run.id, why=why)
            return self.fn(*args, **kwargs)
        identity = current_branch.get(program.root).identify(self.identity or self.name)
        if isinstance(program, AsyncProgram):
            recorded: Any = self._recorded(program, identity, args, kwargs)
            return recorded  # type: ignore[no-any-return]
        assert isinstance(program, SyncProgram)
        event = program.call(self.command(program, identity, args, kwargs))
        return cast(R, self._decode(program, event))

    # Workflow code may wrap this coroutine in a task. Its name is then part of step identities in
    # recorded histories (see WorkflowLoop.create_task), so it must not change.
    async def _recorded(self, program: AsyncProgram, identity: str, args: Any, kwargs: Any) -> Any:
        event = await program.call(self.command(program, identity, args, kwargs))
        return self._decode(program, event)

    def _decode(self, program: ReplayProgram, event: Event) -> Any:
        """Return the result of the step. Raises StepFailed."""
        if event.kind == EventKind.STEP_FAILED:
            raise failed(event)
        current_branch.get(program.root).last = event.step
        bound = self._bound  # read once: another thread may replace it, for another codec
        if bound is None or bound.codec is not program.codec:
            bound = self._bind(program.codec)
        return program.read(event, bound.read)

    def _bind(self, codec: Codec) -> _BoundStep:
        """Return the functions that every call needs, and keep them for the next call."""
        bound = _BoundStep(
            codec,
            functools.partial(self._check_result, codec),
            self.signature.result_decoder(codec),
        )
        self._bound = bound
        return bound

    def command(
        self, program: ReplayProgram, identity: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> RunStep:
        """Return the command that makes this call."""
        command = run_step(self.fn, identity, self.name, args, kwargs, self)
        bound = self._bound
        if bound is None or bound.codec is not program.codec:
            bound = self._bind(program.codec)
        command.fits = bound.fits
        if self.keep_args or (self.keep_args is None and program.context.keeps_args):
            command.kept_args = functools.partial(encode_args, program.codec, args, kwargs)
        return command

    def _check_result(self, codec: Codec, value: Any, data: bytes) -> None:
        """Raise WrongType if *data*, the encoded *value*, cannot be decoded as the return type."""
        kind = self.signature.return_type
        is_exact = kind is type(value) and (kind is int or kind is str)  # saves a call per step
        if not is_exact and not same(value, kind):
            self.signature.decode_result(codec, data)

    @overload
    def aio(
        self: Step[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]: ...
    @overload
    def aio(self: Step[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...
    def aio(self, *args: Any, **kwargs: Any) -> Any:
        """Call this step from ``async def`` code, whether or not the step is async."""
        program = current_program.get()
        if isinstance(program, AsyncProgram) or self.is_async:
            return self(*args, **kwargs)
        return asyncio.to_thread(self.fn, *args, **kwargs)

    @overload
    def sync(self: Step[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def sync(self: Step[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...
    def sync(self, *args: Any, **kwargs: Any) -> Any:
        """Call this step from ``def`` code, whether or not the step is async."""
        program = current_program.get()
        if isinstance(program, AsyncProgram):
            raise NotInWorkflow(
                step=self.name, why="an async workflow must await its steps: use .aio"
            )
        result: Any = self(*args, **kwargs)
        if not inspect.iscoroutine(result):
            return result
        return asyncio.run(result)

    def options(
        self,
        *,
        id: str | None = None,
        retries: int | RetryPolicy | None = None,
        timeout: Duration | None = None,
        **more: Any,
    ) -> Step[P, R]:
        """Return the same step with other settings; *id* names its calls in place of the function's
        name."""
        policy = self.policy if retries is None and not more else policy_from(retries, **more)
        limit = self.timeout if timeout is None else duration.parse(timeout)
        other: Step[P, R] = Step(
            self.fn, self.name, policy, limit, self.transactional, self.capture, self.keep_args
        )
        other.identity = checked_text("id", id)
        return other

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        return functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<step {self.name}>"


@functools.lru_cache(maxsize=1024)
def _is_async(fn: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(fn)


def run_step(
    fn: Callable[..., Any],
    identity: str,
    name: str,
    args: Any,
    kwargs: Any,
    settings: Any,
    role: str | None = None,
) -> RunStep:
    """Return the command that calls *fn* as a step."""
    is_async = _is_async(fn)
    capture: bool | None = getattr(settings, "capture", None)

    def call(info: StepInfo, connection: Any) -> Any:
        if info.sink is not None and (info.sink.captures if capture is None else capture):
            captured = _captured_async if is_async else _captured
            return captured(fn, args, kwargs, info, connection)
        if is_async:
            return _inside_async(fn, args, kwargs, info, connection)
        return _inside(fn, args, kwargs, info, connection)

    return RunStep(
        identity,
        name,
        call,
        is_async,
        settings.policy,
        timeout=settings.timeout,
        transactional=settings.transactional,
        under=current_reservation.get(),
        role=role,
    )


def encode_args(codec: Codec, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """Return the arguments of a call as they are recorded: for people, not to call it again. An
    argument that cannot be stored is described, and so are arguments of more than KEPT_BYTES."""
    try:
        data = codec.encode({"args": args, "kwargs": kwargs})
    except NotEncodable:
        described = {name: _described(codec, value) for name, value in kwargs.items()}
        data = codec.encode(
            {"args": [_described(codec, value) for value in args], "kwargs": described}
        )
    if len(data) > KEPT_BYTES:
        return codec.encode({"omitted": f"{len(data)} bytes, of which {KEPT_BYTES} can be kept"})
    return data


def _described(codec: Codec, value: Any) -> Any:
    """Return a value that can be stored: itself, or its description."""
    try:
        codec.encode(value)
    except NotEncodable:
        return safe_repr(value)
    return value


def _inside(fn: Callable[..., Any], args: Any, kwargs: Any, info: StepInfo, connection: Any) -> Any:
    """Call *fn* in the context of a step."""
    outer_step = current_step.set(info)
    outer_connection = current_connection.set(connection)
    try:
        if info.tracing is not None:
            with info.tracing.attempt(info):
                return fn(*args, **kwargs)
        return fn(*args, **kwargs)
    finally:
        current_step.reset(outer_step)
        current_connection.reset(outer_connection)


async def _inside_async(
    fn: Callable[..., Any], args: Any, kwargs: Any, info: StepInfo, connection: None
) -> Any:
    outer_step = current_step.set(info)
    try:
        if info.tracing is not None:
            with info.tracing.attempt(info):
                return await fn(*args, **kwargs)
        return await fn(*args, **kwargs)
    finally:
        current_step.reset(outer_step)


def _captured(
    fn: Callable[..., Any], args: Any, kwargs: Any, info: StepInfo, connection: Any
) -> Any:
    from holdfast.authoring.python.capture import capturing  # on use: few engines capture

    with capturing(info):
        return _inside(fn, args, kwargs, info, connection)


async def _captured_async(
    fn: Callable[..., Any], args: Any, kwargs: Any, info: StepInfo, connection: Any
) -> Any:
    from holdfast.authoring.python.capture import capturing  # on use: few engines capture

    with capturing(info):
        return await _inside_async(fn, args, kwargs, info, connection)


def failed(event: Event) -> StepFailed:
    """Return the error that a workflow gets for a step whose last attempt has failed."""
    info = typed_json.decode(event.error or b"{}", ErrorInfo)
    details: dict[str, object] = {"details": info.facts} if info.facts else {}
    if info.cause is not None:
        details["cause"] = info.cause
    error = StepFailed(
        step=event.step, type=info.type, message=info.message, attempts=event.attempt, **details
    )
    error.traceback = info.traceback
    return error


def info() -> StepInfo:
    """Return facts about the running step: run, step, attempt, generation, idempotency key.

    Outside a run, where a step is a plain function, there is no run, and the attempt is 1. Raises
    NotInWorkflow in the code of a workflow."""
    step_info = current_step.get()
    if step_info is not None:
        return step_info
    if current_program.get() is not None:
        raise NotInWorkflow(call="info", why="only a running step has these facts")
    return StepInfo("", "", "", 1, 0, plain_key=uuid4().hex)


def connection() -> Any:
    """Return the database connection of the running transactional step. Raises NotInWorkflow."""
    step_connection = current_connection.get()
    if step_connection is None:
        raise NotInWorkflow(call="connection", why="only a step with transactional=True has one")
    return step_connection


@overload
def step(fn: Callable[P, R], /) -> Step[P, R]: ...
@overload
def step(
    *,
    name: str | None = None,
    retries: int | RetryPolicy | None = None,
    delay: Duration = ...,
    factor: float = ...,
    cap: Duration = ...,
    jitter: float = ...,
    when: Callable[[Exception], bool] | None = None,
    timeout: Duration | None = None,
    transactional: bool = False,
    capture: bool | None = None,
    keep_args: bool | None = None,
) -> Callable[[Callable[P, R]], Step[P, R]]: ...
def step(
    fn: Any = None,
    /,
    *,
    name: str | None = None,
    retries: Any = None,
    timeout: Any = None,
    transactional: bool = False,
    capture: bool | None = None,
    keep_args: bool | None = None,
    **policy: Any,
) -> Any:
    """Make a function a step: its result is recorded; once recorded, it is not called again.

    With *keep_args* its arguments are recorded, too, for people who look at the run."""

    def decorate(fn: Callable[..., Any]) -> Step[..., Any]:
        if not callable(fn):
            raise BadOption(option="step", value=fn, why="@step decorates a function")
        limit = duration.parse_optional(timeout)
        own_name: str = getattr(fn, "__name__", "") or type(fn).__name__
        step_name = checked_text("name", name) or own_name
        checked_flag("transactional", transactional)
        if capture is not None:
            checked_flag("capture", capture)
        if keep_args is not None:
            checked_flag("keep_args", keep_args)
        return Step(
            fn, step_name, policy_from(retries, **policy), limit, transactional, capture, keep_args
        )

    if fn is None:
        return decorate
    return decorate(fn)


__all__ = ["ReplayProgram", "Step", "connection", "info", "step"]
