"""Run the app with uvicorn, and stop it in time: uvicorn alone waits for open streams."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import sys

import uvicorn

from holdfast.connect import credentials
from holdfast.core.addresses import is_loopback
from holdfast.core.api_keys import Credential, Grant, Role
from holdfast.errors import BadOption, PortInUse, ServerNeedsKey
from holdfast.server.app import ServerApp
from holdfast.server.connections import protocol_class
from holdfast.server.proxies import TrustedProxies

PORT = 4653
SWITCH_INTERVAL = 0.001
"""Seconds after which a thread gives the interpreter to another one, in the process of a server."""
STOP_WITHIN = 1.0
"""Seconds that answers in progress have to end after a stop."""


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 is a free one. Raises PortInUse,
    BadOption."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio turns off the delay of small packets, 40 ms per answer, only if TCP is named here.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(2048)
    except OSError as error:
        bound.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise PortInUse(host=host, port=port, why=error.strerror) from None
        raise BadOption(option="host", value=host, why=str(error)) from None
    bound.setblocking(False)
    return bound


class HttpServer:
    """A server at a bound socket. ``stop`` ends all streams at once."""

    def __init__(self, app: ServerApp, bound: socket.socket, *, proxies: str | None = None) -> None:
        self._app: ServerApp = app
        self._socket: socket.socket = bound
        self._serving: asyncio.Task[None] | None = None
        config = uvicorn.Config(
            app if proxies is None else TrustedProxies(app, proxies),
            http=protocol_class(),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        # It reports streams that the server ends as errors.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    @property
    def address(self) -> str:
        """The address at which browsers of this machine reach the server."""
        host, port = self._socket.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{port}/"

    def start(self) -> None:
        """Answer requests, in a task of the running loop."""
        # After each write to a socket, the loop waits for the thread that commits to give the
        # interpreter back, 5 ms by default: that halves the rate of starts.
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL))
        # Not ``serve``: it would take over the signals of the process.
        self._serving = asyncio.create_task(self._server._serve([self._socket]))

    async def stop(self) -> None:
        """End all streams, let other answers end for a moment, and close the port."""
        self._app.stop_streams()
        self._server.should_exit = True
        if self._serving is None:
            return
        await asyncio.wait({self._serving}, timeout=STOP_WITHIN / 2)
        for connection in list(self._server.server_state.connections):
            if connection.transport.get_write_buffer_size():  # its client does not read
                connection.transport.abort()
        _, late = await asyncio.wait({self._serving}, timeout=STOP_WITHIN)
        if late:
            self._server.force_exit = True
            await asyncio.wait(late, timeout=0.5)


async def check_exposure(app: ServerApp, host: str) -> bool:
    """Return whether there is an API key. Raises ServerNeedsKey if there is none and the address is
    not a loopback address."""
    has_key = await app.faces.call(lambda parts: parts.store.api_keys.has_any())
    if not has_key and not is_loopback(host):
        raise ServerNeedsKey(host=host)
    return has_key


async def one_time_link(app: ServerApp, name: str) -> Credential:
    """Return the token of a link that opens one login session of an admin."""
    grant = Grant(name=name, roles=(Role.ADMIN,))
    return await app.faces.call(lambda parts: credentials.open_link(parts, grant))
