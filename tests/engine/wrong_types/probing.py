"""Make a call again and again with sound arguments, of which one is replaced by something odd.

A Python error may only say that a call does not fit its signature, and none of these is of that
kind.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from holdfast import AsyncEngine, Engine
from holdfast.errors import HoldfastError
from holdfast.errors.base import safe_repr
from tests.engine.wrong_types.values import ODD, plain


class Call(NamedTuple):
    """Something that can be called, and the arguments with which it makes sense, one of which is
    replaced."""

    name: str
    function: Callable[..., Any]
    sound: dict[str, Any]
    also: tuple[str, ...] = ()
    """Options that are replaced, too, and have no place among the sound ones."""

    def tries(self) -> Iterator[tuple[str, Any]]:
        for option in (*self.sound, *self.also):
            for value in ODD:
                says_that_it_waits = value is None or isinstance(value, bool | float)
                if option not in ("timeout", "wait") or not says_that_it_waits:
                    yield option, value


def raw(call: Callable[..., Any], **given: Any) -> str | None:
    """Return what a call raises that has no name of ours."""
    try:
        call(**given)
    except HoldfastError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:120]}"
    return None


def faults(calls: list[Call]) -> list[str]:
    found = []
    for call in calls:
        accepted = inspect.signature(call.function).parameters
        takes_all = any(
            parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in accepted.values()
        )
        for option, value in call.tries():
            assert takes_all or option in accepted, f"{call.name} has no {option}"
            error = raw(call.function, **{**call.sound, option: value})
            if error is not None:
                found.append(f"{call.name}({option}={safe_repr(value)[:20]}): {error}")
    return found


class Awaited:
    """Something asynchronous whose calls are awaited on a loop, so that any thread can make
    them."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._target, self._loop = target, loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return self._told(value)

        @functools.wraps(value)
        def call(*args: Any, **given: Any) -> Any:
            return self._wait(self._made(value, args, given))

        return call

    def __enter__(self) -> Any:
        return self._wait(self._target.__aenter__())

    def __exit__(self, *error: object) -> None:
        self._wait(self._target.__aexit__(*error))

    def _wait(self, made: Any) -> Any:
        return self._told(asyncio.run_coroutine_threadsafe(made, self._loop).result())

    async def _made(self, call: Callable[..., Any], args: Any, given: Any) -> Any:
        made = call(*_bare(args), **_bare(given))
        if hasattr(made, "__aiter__") and not hasattr(made, "page"):
            return [item async for item in made]
        return await made if inspect.isawaitable(made) else made

    def _told(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._told(item) for item in value]
        return Awaited(value, self._loop) if type(value).__name__.startswith("Async") else value


def _bare(value: Any) -> Any:
    """Return a value without what awaits its calls."""
    if isinstance(value, Awaited):
        return value._target
    if type(value) in (list, tuple):
        return type(value)(map(_bare, value))
    return {name: _bare(one) for name, one in value.items()} if type(value) is dict else value


@contextmanager
def blocking_engine(database: str) -> Iterator[Any]:
    with closing(Engine(database, workflows=[plain])) as engine:
        yield engine


@contextmanager
def async_engine(database: str) -> Iterator[Any]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        with closing(Awaited(AsyncEngine(database, workflows=[plain]), loop)) as engine:
            yield engine
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
