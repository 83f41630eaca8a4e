"""The connections of the server: head and body of an answer leave in one packet.

uvicorn writes them one after the other, and each write is a system call, during which other threads
take the interpreter.
"""

from __future__ import annotations

import asyncio
from typing import Any

MOST_WAITING = 16 * 1024
"""Bytes that wait for the end of a turn of the loop at most: a larger answer is written at once, so
that the flow control of the connection sees it."""


LINGER = 10.0
"""Seconds that a client has to read the rest of an answer after its connection was closed."""
HEAD_WITHIN = 30.0
"""Seconds within which the head of a request must arrive."""


class JoinedWrites:
    """A transport that writes once per turn of the loop."""

    __slots__ = ("_loop", "_size", "_transport", "_waiting")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport: asyncio.Transport = transport
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self._waiting: list[bytes] = []
        self._size: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write data at the end of this turn, or now if there is much of it."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)
        self._size += len(data)
        if self._size > MOST_WAITING:
            self._flush()

    def close(self) -> None:
        """Write the waiting data, then close the connection."""
        self._flush()
        self._transport.close()
        # The system keeps what a client does not read, for as long as it stays connected.
        if self._transport.get_write_buffer_size():
            self._loop.call_later(LINGER, self._transport.abort)

    def _flush(self) -> None:
        if not self._waiting:
            return
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        if not self._transport.is_closing():
            self._transport.write(data)


class HeadDeadline:
    """Closes a connection whose next request does not arrive in time. uvicorn closes connections
    that are idle between requests; it limits neither the first request nor a slow head."""

    __slots__ = ("_protocol", "_timer")

    def __init__(self, protocol: Any) -> None:
        self._protocol: Any = protocol
        self._timer: asyncio.TimerHandle | None = None

    def update(self) -> None:
        """Begin the time of the next request, unless it has begun or a request is answered."""
        if self._is_answering():
            self.cancel()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HEAD_WITHIN, self._close)

    def cancel(self) -> None:
        """Forget the time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _is_answering(self) -> bool:
        cycle = self._protocol.cycle
        return cycle is not None and not cycle.response_complete

    def _close(self) -> None:
        self._timer = None
        if not self._is_answering():
            self._protocol.transport.close()


def protocol_class() -> type[asyncio.Protocol]:
    """Return the HTTP protocol of uvicorn, with joined writes; the fast one if it is installed."""
    base: Any
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as base
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as base

    class JoinedProtocol(base):  # type: ignore[misc]
        """The protocol of a connection whose writes are joined."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(JoinedWrites(transport))
            self.deadline = HeadDeadline(self)
            self.deadline.update()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.deadline.update()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self.deadline.cancel()

    return JoinedProtocol
