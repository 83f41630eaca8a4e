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

    def _flush(self) -> None:
        if not self._waiting:
            return
        data = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        if not self._transport.is_closing():
            self._transport.write(data)


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

    return JoinedProtocol
