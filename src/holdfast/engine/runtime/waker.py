"""Wake an event loop from another thread, with or without releasing the GIL.

Two threads that take turns, as the worker and the program of an ``AsyncEngine`` do, should switch
once per turn. ``loop.call_soon_threadsafe`` writes to a socket, and releases the GIL for that: the
woken thread takes it, so a calling thread that has more to do must compete for it again. Writing
eight bytes to an ``eventfd`` takes less than a microsecond, so the GIL can as well be kept;
``ctypes.PyDLL`` calls a function without releasing it. But a thread that wakes up while the GIL is
kept may wait for it at once, which takes two more switches. So a thread that has nothing left to do
but to wait for the other one releases it (``release_gil``).

Without ``eventfd``, or if the loop cannot watch file descriptors, there is no waker: its users call
``call_soon_threadsafe`` instead.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import Any

_COUNT = ctypes.c_uint64(1)


def _function(name: str) -> Any:
    """Return a function of the C library whose result is not needed. Its arguments are objects of
    ctypes: to convert them at each call takes four times as long as the call."""
    function = ctypes.PyDLL(None)[name]
    function.restype = None
    return function


class Waker:
    """Calls a function on a loop soon after another thread has woken it."""

    __slots__ = (
        "_call",
        "_clear_arguments",
        "_descriptor",
        "_guard",
        "_loop",
        "_read",
        "_release_gil",
        "_wake_arguments",
        "_write",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, call: Callable[[], None], *, release_gil: bool
    ) -> None:
        self._loop = loop
        self._call = call
        self._release_gil = release_gil
        self._write = _function("eventfd_write")
        self._read = _function("eventfd_read")
        self._guard = threading.Lock()
        """Held while the descriptor is used or closed: once it is closed, its number may belong
        to another file."""
        descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._descriptor: int | None = descriptor
        self._wake_arguments = (ctypes.c_int(descriptor), _COUNT)
        self._clear_arguments = (ctypes.c_int(descriptor), ctypes.byref(ctypes.c_uint64()))
        try:
            # In an empty context: asyncio makes each call in a copy of the context that it finds
            # here, which may belong to a step.
            Context().run(loop.add_reader, self._descriptor, self._wake_up)
        except BaseException:
            self.close()
            raise

    @classmethod
    def of(
        cls,
        loop: asyncio.AbstractEventLoop,
        call: Callable[[], None],
        *,
        release_gil: bool = False,
    ) -> Waker | None:
        """Return a waker for *loop*, on whose thread this is called; None where that is
        impossible."""
        if not hasattr(os, "eventfd"):
            return None
        try:
            return cls(loop, call, release_gil=release_gil)
        except (NotImplementedError, OSError, AttributeError):
            # A loop without readers, no free descriptor, or another C library.
            return None

    def wake(self) -> bool:
        """Wake the loop, from any thread; return False if the waker is closed."""
        with self._guard:
            if self._descriptor is None:
                return False
            if self._release_gil:
                os.eventfd_write(self._descriptor, 1)
            else:
                self._write(*self._wake_arguments)
            return True

    def close(self) -> None:
        """Stop waking the loop. Call it on the loop's thread, or when the loop is closed."""
        with self._guard:
            descriptor = self._descriptor
            self._descriptor = None
        if descriptor is not None:
            # A closed loop watches nothing, nor does one without readers.
            with suppress(RuntimeError, NotImplementedError):
                self._loop.remove_reader(descriptor)
            os.close(descriptor)

    def __del__(self) -> None:
        # A program may close its loop before the loop has run the callback that closes the waker.
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            os.close(descriptor)

    def clear(self) -> None:
        """Take note of the wake-ups so far, on the loop's thread: no call follows for them."""
        if self._descriptor is not None:
            self._read(*self._clear_arguments)

    def _wake_up(self) -> None:
        if self._descriptor is not None:
            self._read(*self._clear_arguments)
        self._call()
