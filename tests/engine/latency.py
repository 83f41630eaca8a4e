"""A distant PostgreSQL server: a proxy that forwards every message after a delay."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from urllib.parse import parse_qs, urlsplit

LATENCY = 0.050
"""Seconds from a message to its answer: far more than a busy machine takes for a callback."""


@contextlib.contextmanager
def far_away(url: str) -> Iterator[str]:
    """Return the URL of the database behind a proxy on loopback."""
    parts = urlsplit(url)
    options = parse_qs(parts.query)
    socket = f"{options['host'][0]}/.s.PGSQL.5432"
    loop, ready, port = asyncio.new_event_loop(), threading.Event(), []

    async def serve() -> asyncio.Server:
        server = await asyncio.start_server(
            lambda reader, writer: _relay(reader, writer, socket), "127.0.0.1", 0
        )
        port.append(server.sockets[0].getsockname()[1])
        ready.set()
        return server

    thread = threading.Thread(target=_run, args=(loop, serve), name="proxy", daemon=True)
    thread.start()
    ready.wait()
    try:
        yield f"postgresql://postgres@127.0.0.1:{port[0]}{parts.path}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _run(
    loop: asyncio.AbstractEventLoop, serve: Callable[[], Coroutine[None, None, asyncio.Server]]
) -> None:
    server = loop.run_until_complete(serve())
    loop.run_forever()
    server.close()
    loop.run_until_complete(_end_all())
    loop.call_soon(loop.stop)  # after one more turn, in which the connections are closed
    loop.run_forever()
    loop.close()


async def _end_all() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, socket: str) -> None:
    writers = [writer]
    with contextlib.suppress(OSError, asyncio.CancelledError):
        try:
            behind, before = await asyncio.open_unix_connection(socket)
            writers.append(before)
            await asyncio.gather(_hand_on(reader, before), _hand_on(behind, writer))
        finally:
            for one in writers:
                one.transport.abort()


async def _hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    loop = asyncio.get_running_loop()
    while data := await reader.read(65536):
        loop.call_later(LATENCY / 2, writer.write, data)
    loop.call_later(LATENCY, writer.close)
