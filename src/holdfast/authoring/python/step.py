"""``@step``: a function whose result is recorded, and which never runs again once it is."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

import msgspec

from holdfast.authoring.python.capture import capturing
from holdfast.authoring.replay.async_program import AsyncProgram
from holdfast.authoring.replay.replay import ReplayProgram, current_program
from holdfast.authoring.replay.sync_program import SyncProgram
from holdfast.core import duration
from holdfast.core.codec import Codec, same
from holdfast.core.commands import RunStep
from holdfast.core.duration import Duration
from holdfast.core.events import Event, EventKind
from holdfast.core.retry import RetryPolicy, policy_from
from holdfast.core.runs import ErrorInfo
from holdfast.core.signature import Signature
from holdfast.core.step_info import StepInfo
from holdfast.core.validation import checked_flag, checked_text
from holdfast.errors import BadOption, NotInWorkflow, StepFailed

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

current_step: ContextVar[StepInfo | None] = ContextVar("holdfast_step", default=None)
current_reservation: ContextVar[str | None] = ContextVar("holdfast_reservation", default=None)
"""What the workflow has set aside for what is spent here."""
current_connection: ContextVar[Any] = ContextVar("holdfast_connection", default=None)


class Step(Generic[P, R]):
    """A function whose calls are recorded when a workflow makes them, and plain calls otherwise.

    In an ``async def`` workflow a call is awaited; in a ``def`` workflow it returns the value,
    whatever the step itself is. Where the colours differ, ``.aio(...)`` and ``.sync(...)`` say the
    same to a type checker.
    """

    def __init__(
        self,
        fn: Callable[P, R],
        name: str,
        policy: RetryPolicy,
        timeout: int | None,
        transactional: bool,
        capture: bool | None = None,
    ) -> None:
        self.fn, self.name, self.policy, self.timeout, self.transactional = (
            fn,
            name,
            policy,
            timeout,
            transactional,
        )
        self.capture = capture
        self.is_async = inspect.iscoroutinefunction(fn)
        self.signature = Signature(fn)
        self.identity: str | None = None
        if transactional and self.is_async:
            raise BadOption(
                option="transactional", step=name, why="a transactional step must be a plain def"
            )
        if transactional and timeout is not None:
            raise BadOption(
                option="timeout",
                step=name,
                why="a transactional step cannot be interrupted: limit its statements",
            )
        functools.update_wrapper(self, fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        program = current_program.get()
        running = current_step.get()
        if program is None or running is not None:
            if program is not None and running is not None and running.run_id != program.run.id:
                why = (
                    "its call would not be recorded: this is the context of a step of run"
                    f" {running.run_id}"
                )
                raise NotInWorkflow(step=self.name, run=program.run.id, why=why)
            return self.fn(*args, **kwargs)
        identity = program.identify(self.identity or self.name)
        if isinstance(program, AsyncProgram):
            return cast(R, self._recorded(program, identity, args, kwargs))
        assert isinstance(program, SyncProgram)
        return cast(
            R,
            self._value(program, program.ask(self.command(program.codec, identity, args, kwargs))),
        )

    async def _recorded(self, program: AsyncProgram, identity: str, args: Any, kwargs: Any) -> Any:
        return self._value(
            program, await program.ask(self.command(program.codec, identity, args, kwargs))
        )

    def _value(self, program: ReplayProgram, event: Event) -> Any:
        if event.kind == EventKind.STEP_FAILED:
            raise failed(event)
        return program.read(event, lambda data: self.signature.decode_result(program.codec, data))

    def command(
        self, codec: Codec, identity: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> RunStep:
        """Return the command that makes this call."""
        command = run_step(self.fn, identity, self.name, args, kwargs, self)
        command.fits = functools.partial(self._fits, codec)
        return command

    def _fits(self, codec: Codec, value: Any, data: bytes) -> None:
        if not same(value, self.signature.return_type):
            self.signature.decode_result(codec, data)

    @overload
    def aio(
        self: Step[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> Awaitable[T]: ...
    @overload
    def aio(self: Step[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...
    def aio(self, *args: Any, **kwargs: Any) -> Any:
        """Call this step from ``async def`` code, whatever its colour."""
        program = current_program.get()
        if isinstance(program, AsyncProgram) or self.is_async:
            return self(*args, **kwargs)
        return asyncio.to_thread(self.fn, *args, **kwargs)

    @overload
    def sync(self: Step[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def sync(self: Step[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...
    def sync(self, *args: Any, **kwargs: Any) -> Any:
        """Call this step from ``def`` code, whatever its colour."""
        program = current_program.get()
        if isinstance(program, AsyncProgram):
            raise NotInWorkflow(step=self.name, why="an async workflow awaits its steps: use .aio")
        result: Any = self(*args, **kwargs)
        return asyncio.run(result) if inspect.iscoroutine(result) else result

    def options(
        self,
        *,
        id: str | None = None,
        retries: int | RetryPolicy | None = None,
        timeout: Duration | None = None,
        **more: Any,
    ) -> Step[P, R]:
        """Return the same step with other settings; ``id`` names its calls in place of the
        function's name."""
        policy = self.policy if retries is None and not more else policy_from(retries, **more)
        limit = self.timeout if timeout is None else duration.parse(timeout)
        other: Step[P, R] = Step(
            self.fn, self.name, policy, limit, self.transactional, self.capture
        )
        other.identity = checked_text("id", id)
        return other

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<step {self.name}>"


@functools.lru_cache(maxsize=1024)
def _is_async(fn: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(fn)


def run_step(
    fn: Callable[..., Any], identity: str, name: str, args: Any, kwargs: Any, settings: Any
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
    )


def _inside(fn: Callable[..., Any], args: Any, kwargs: Any, info: StepInfo, connection: Any) -> Any:
    step, linked = current_step.set(info), current_connection.set(connection)
    try:
        return fn(*args, **kwargs)
    finally:
        current_step.reset(step)
        current_connection.reset(linked)


async def _inside_async(
    fn: Callable[..., Any], args: Any, kwargs: Any, info: StepInfo, connection: None
) -> Any:
    step = current_step.set(info)
    try:
        return await fn(*args, **kwargs)
    finally:
        current_step.reset(step)


def _captured(
    fn: Callable[..., Any], args: Any, kwargs: Any, info: StepInfo, connection: Any
) -> Any:
    with capturing(info):
        return _inside(fn, args, kwargs, info, connection)


async def _captured_async(
    fn: Callable[..., Any], args: Any, kwargs: Any, info: StepInfo, connection: Any
) -> Any:
    with capturing(info):
        return await _inside_async(fn, args, kwargs, info, connection)


def failed(event: Event) -> StepFailed:
    """Return the error that a workflow sees when a step has failed for good."""
    info = msgspec.json.decode(event.error or b"{}", type=ErrorInfo)
    details = {"details": info.facts} if info.facts else {}
    return StepFailed(
        step=event.step, type=info.type, message=info.message, attempts=event.attempt, **details
    )


def info() -> StepInfo:
    """Return what the running step may know about itself: run, step, attempt, generation,
    idempotency key."""
    found = current_step.get()
    if found is None:
        raise NotInWorkflow(call="info", why="it tells about a running step")
    return found


def connection() -> Any:
    """Return the database connection of the running transactional step."""
    found = current_connection.get()
    if found is None:
        raise NotInWorkflow(call="connection", why="only a step with transactional=True has one")
    return found


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
    **policy: Any,
) -> Any:
    """Make a function a step: its result is recorded and it never runs again once it is."""

    def decorate(fn: Callable[..., Any]) -> Step[..., Any]:
        if not callable(fn):
            raise BadOption(option="step", value=fn, why="it decorates a function")
        limit = None if timeout is None else duration.parse(timeout)
        called: str = checked_text("name", name) or getattr(fn, "__name__", "") or type(fn).__name__
        checked_flag("transactional", transactional)
        if capture is not None:
            checked_flag("capture", capture)
        return Step(fn, called, policy_from(retries, **policy), limit, transactional, capture)

    return decorate if fn is None else decorate(fn)


__all__ = ["ReplayProgram", "Step", "connection", "info", "step"]
