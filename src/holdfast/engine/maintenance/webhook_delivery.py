"""Deliver one event to a webhook over HTTP: resolve, check the addresses, connect, TLS, send, read
the status.

Invariants:
- One deadline bounds the whole delivery. A receiver that sends a little again and again cannot
  extend it.
- The name is resolved once, every address is checked, and the connection goes to a checked address:
  a name server that answers differently the second time changes nothing. Host header, SNI and
  certificate check still use the name.
- A redirection is not followed: its target would be an unchecked URL.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import socket
import ssl
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from holdfast.core.addresses import normal_host, not_public
from holdfast.engine.runtime.thread_pool import ThreadPool

TIMEOUT = 10.0
"""Seconds that the whole delivery may take."""

MOST_INTERIM = 10
"""How many interim responses (1xx) a receiver may send before the final one."""

LONGEST_HEAD = 64 * 1024
"""Bytes of a response that are read at most: interim responses with their headers, and the
status line of the final one."""

CHUNK = 64 * 1024
SAFE = "!$%&'()*+,/:;=?@[]~"
"""Characters of a path and a query that are sent as they are."""

STANDARD_PREFIX = "whsec_"
"""The beginning of a secret in the form of Standard Webhooks."""

SWITCHING = 101
Address = tuple[Any, ...]
Left = Callable[[], float]
"""Returns the seconds until the deadline. Raises TimeoutError after it."""


class DeliveryRefused(Exception):
    """The delivery is forbidden, or the response is not valid HTTP."""


class Delivery(msgspec.Struct, frozen=True):
    """One attempt to deliver an event."""

    url: str
    secret: str
    webhook: str
    id: str
    attempt: int
    body: bytes
    at: int
    """When the attempt is made, in seconds since 1970."""
    traceparent: str | None = None
    """The span of the run, if runs are traced."""

    def __repr__(self) -> str:
        return f"<delivery {self.id} to webhook {self.webhook}>"


def signature(secret: str, body: bytes, at: int) -> str:
    """Return the proof that a delivery is ours: the time in seconds, and the HMAC-SHA256 of
    time, dot and body."""
    signed = hmac.new(secret.encode(), f"{at}.".encode() + body, "sha256").hexdigest()
    return f"t={at},v1={signed}"


def standard_signature(secret: str, delivery_id: str, body: bytes, at: int) -> str:
    """Return the signature of Standard Webhooks: the HMAC-SHA256 of id, time and body, in base64.

    Libraries of receivers take the secret as ``whsec_`` and the base64 of the key. The key is the
    secret of the webhook as it stands, unless that has this form already."""
    key = secret.encode()
    if secret.startswith(STANDARD_PREFIX):
        with suppress(ValueError):
            key = base64.b64decode(secret.removeprefix(STANDARD_PREFIX), validate=True)
    signed = hmac.new(key, f"{delivery_id}.{at}.".encode() + body, "sha256").digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def until(instant: float) -> Left:
    """Return a function that returns the seconds until an instant of the monotonic clock."""

    def left() -> float:
        seconds = instant - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds

    return left


async def deliver(delivery: Delivery, allowed: Collection[str], threads: ThreadPool) -> str | None:
    """Deliver. Return None on success, else the reason of the failure.

    A thread that hangs in a name lookup is not awaited.
    """
    left = until(time.monotonic() + TIMEOUT)
    try:
        async with asyncio.timeout(left()):
            addresses: list[Address] = await threads.run(partial(resolve, delivery.url, allowed))
    except TimeoutError:
        return late()
    except DeliveryRefused as refused:
        return str(refused)
    except (OSError, ValueError) as error:  # ValueError: a damaged URL in the database
        return f"{type(error).__name__}: {error}"[:300]
    failed: str | None = await threads.run(partial(exchange, delivery, addresses, left))
    return failed


def resolve(url: str, allowed: Collection[str]) -> list[Address]:
    """Return the addresses of the host of a URL, each with its family.

    Raises DeliveryRefused unless all are public or the host is *allowed*, OSError if there is none.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise DeliveryRefused(f"host {host} is not a host name") from None
    if normal_host(host) not in allowed:
        for answer in answers:
            _check_public(host, str(answer[4][0]))
    return [(answer[0], answer[4]) for answer in answers]


def _check_public(host: str, address: str) -> None:
    kind = not_public(address)
    if kind is None:
        return
    subject = host if host == address else f"host {host} has the address {address}, which"
    name = normal_host(host)
    raise DeliveryRefused(
        f"{subject} is {kind} and not public: to deliver there, allow the host by name on the"
        " workers, with "
        f'Engine(..., webhook_hosts=["{name}"]), `holdfast worker --webhook-host {name}` or'
        f" HOLDFAST_WEBHOOK_HOSTS={name}"
    )


def exchange(delivery: Delivery, addresses: list[Address], left: Left) -> str | None:
    """Send a delivery to the first address that answers. Return None on success, else the
    reason."""
    try:
        with _connect(delivery.url, addresses, left) as connection:
            _send(connection, _request(delivery), left)
            status = _read_status(connection, left)
    except TimeoutError:
        return late()
    except DeliveryRefused as refused:
        return str(refused)
    except (OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"[:300]
    if 200 <= status < 300:
        return None
    return f"the receiver answered {status}"


def late() -> str:
    """Return the reason of a missed deadline."""
    return f"the receiver took longer than {TIMEOUT:g} s"


def _connect(url: str, addresses: list[Address], left: Left) -> socket.socket:
    """Connect to one of the addresses, with TLS if the URL says so. Raises the last failure."""
    failure: OSError = OSError("the host has no address")
    for family, address in addresses:
        try:
            connection = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # this machine lacks the address family, for example IPv6
            failure = error
            continue
        try:
            connection.settimeout(left())
            connection.connect(address)
            return _secured(connection, url, left)
        except TimeoutError:
            connection.close()
            raise
        except OSError as error:
            connection.close()
            failure = error
        except BaseException:
            connection.close()
            raise
    raise failure


def _secured(connection: socket.socket, url: str, left: Left) -> socket.socket:
    parts = urlsplit(url)
    if parts.scheme != "https":
        return connection
    context = ssl.create_default_context()
    connection.settimeout(left())  # bounds the whole handshake
    return context.wrap_socket(connection, server_hostname=parts.hostname)


def _request(delivery: Delivery) -> bytes:
    """Return the HTTP request."""
    parts = urlsplit(delivery.url)
    delivery_id = _one_line(delivery.id)  # signed as it is sent
    target = quote(parts.path or "/", safe=SAFE) + (
        f"?{quote(parts.query, safe=SAFE)}" if parts.query else ""
    )
    headers = {
        "Host": _host_header(parts.hostname or "", parts.port),
        "Connection": "close",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "Content-Length": str(len(delivery.body)),
        "User-Agent": "holdfast",
        "Holdfast-Subscription": delivery.webhook,
        "Holdfast-Delivery": delivery.id,
        "Holdfast-Attempt": str(delivery.attempt),
        "Holdfast-Signature": signature(delivery.secret, delivery.body, delivery.at),
        "Webhook-Id": delivery_id,
        "Webhook-Timestamp": str(delivery.at),
        "Webhook-Signature": standard_signature(
            delivery.secret, delivery_id, delivery.body, delivery.at
        ),
    }
    if delivery.traceparent is not None:
        headers["Traceparent"] = delivery.traceparent
    lines = [
        f"POST {target} HTTP/1.1",
        *(f"{name}: {_one_line(value)}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii", "backslashreplace") + delivery.body


def _host_header(host: str, port: int | None) -> str:
    if ":" in host:
        name = f"[{host}]"
    elif host.isascii():
        name = host
    else:
        name = host.encode("idna").decode()
    if port is None:
        return name
    return f"{name}:{port}"


def _one_line(value: str) -> str:
    """Return a value that cannot start another header."""
    return value.replace("\r", "\\r").replace("\n", "\\n")


def _send(connection: socket.socket, data: bytes, left: Left) -> None:
    rest = memoryview(data)
    while rest:
        connection.settimeout(left())
        rest = rest[connection.send(rest[:CHUNK]) :]


def _read_status(connection: socket.socket, left: Left) -> int:
    """Return the status of the final response. Raises DeliveryRefused."""
    lines = _Lines(connection, left)
    for _ in range(MOST_INTERIM + 1):
        status = _status(lines.next())
        if status == SWITCHING or not 100 <= status < 200:
            return status
        while lines.next():  # the headers of an interim answer
            pass
    raise DeliveryRefused(f"the receiver sent more than {MOST_INTERIM} interim answers (1xx)")


def _status(line: bytes) -> int:
    words = line.split(None, 2)
    if (
        len(words) < 2
        or not words[0].startswith(b"HTTP/")
        or not words[1].isdigit()
        or len(words[1]) != 3
    ):
        raise DeliveryRefused("the receiver did not answer as HTTP/1.1 requires")
    return int(words[1])


class _Lines:
    """Reads a response line by line, up to a limit of bytes."""

    def __init__(self, connection: socket.socket, left: Left) -> None:
        self._connection = connection
        self._left = left
        self._buffer = b""
        self._received = 0

    def next(self) -> bytes:
        """Return the next line without its end. Raises DeliveryRefused."""
        while b"\n" not in self._buffer:
            self._connection.settimeout(self._left())
            data = self._connection.recv(4096)
            self._received += len(data)
            if not data:
                raise DeliveryRefused("the receiver closed the connection without an answer")
            if self._received > LONGEST_HEAD:
                raise DeliveryRefused(
                    f"the receiver sent more than {LONGEST_HEAD} bytes before its answer"
                )
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.rstrip(b"\r")
