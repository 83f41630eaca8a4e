"""Call operations of the HTTP API, and turn answers into views and problems into errors."""

from __future__ import annotations

import base64
import http.client
import importlib
import json
import os
import ssl
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from holdfast import errors
from holdfast.core import typed_json
from holdfast.core.unset import UNSET
from holdfast.errors import BadOption, BadUrl, HoldfastError, NotRemote, ServerUnreachable
from holdfast.views.pages import Page

TIMEOUT = 60.0
"""Seconds after which a call without an answer fails."""
API_KEY = "HOLDFAST_API_KEY"
"""The environment variable with the default API key."""


class RemoteOperation(NamedTuple):
    """An operation: its address, the names of its parameters, and how its answer is read."""

    method: str
    path: str
    parameters: tuple[str, ...]
    kind: str
    answer: str
    rest: str


def _operations() -> dict[str, RemoteOperation]:
    """Read the operations, which ``tools/generate_remote.py`` writes from the operation table."""
    rows = json.loads(Path(__file__).with_name("operations.json").read_text("utf-8"))
    return {
        name: RemoteOperation(method, path, tuple(parameters), kind, answer, rest)
        for name, (method, path, parameters, kind, answer, rest) in rows.items()
    }


OPERATIONS: dict[str, RemoteOperation] = _operations()
"""The operations of the HTTP API, by the names of the methods that they stand for."""


class HttpCalls:
    """Sends requests to one server, over one connection per call."""

    def __init__(self, url: str, api_key: str | None) -> None:
        """Check the URL. Raises BadUrl, BadOption."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadUrl(url=url, why="the URL of a server is like https://flows.example.org")
        key = api_key or os.environ.get(API_KEY)
        if not key:
            raise BadOption(option="api_key", why=f"pass an API key, or set {API_KEY}")
        self.url: str = url
        self._secure: bool = parts.scheme == "https"
        self._host: str = parts.hostname
        self._port: int | None = parts.port
        self._prefix: str = parts.path.rstrip("/") + "/api/v1"
        self._headers: dict[str, str] = {"Authorization": f"Bearer {key}"}

    def __repr__(self) -> str:
        return f"<calls of {self.url}>"

    def request(
        self, method: str, path: str, query: Mapping[str, Any], body: Any, timeout: float
    ) -> bytes:
        """Send a request and return the body of the answer. Raises ServerUnreachable, and the error
        that the server answers with."""
        address = self._prefix + path
        if query:
            address += "?" + urlencode(query, doseq=True)
        data = None
        headers = dict(self._headers)
        if body is not None:
            data = _encoded(body)
            headers["Content-Type"] = "application/json"
        connection = self._connection(timeout)
        try:
            connection.request(method, address, data, headers)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            why = str(error) or type(error).__name__
            raise ServerUnreachable(url=self.url, why=why) from None
        finally:
            connection.close()
        if response.status >= 400:
            raise _error(self.url, response.status, answer)
        return answer

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self._secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout, context=context
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout)

    def call(
        self, operation: RemoteOperation, arguments: Mapping[str, Any], timeout: float = TIMEOUT
    ) -> Any:
        """Call an operation and return its answer as a view, a page or plain data."""
        sent = {name: wire(value) for name, value in arguments.items() if value is not UNSET}
        path = operation.path
        for name in list(sent):
            if "{" + name + "}" in path:
                path = path.replace("{" + name + "}", quote(str(sent.pop(name)), safe=""))
        if operation.method in ("GET", "DELETE"):
            query = {name: _query(value) for name, value in sent.items() if value is not None}
            answer = self.request(operation.method, path, query, None, timeout)
        else:
            answer = self.request(operation.method, path, {}, sent, timeout)
        return read_answer(operation, answer)


def _encoded(body: Any) -> bytes:
    """Return a body as JSON. Raises NotRemote if a program would have to be sent."""
    try:
        return json.dumps(body).encode()
    except (TypeError, ValueError) as error:
        raise NotRemote(why=f"an argument cannot be sent: {error}") from None


def read_answer(operation: RemoteOperation, answer: bytes) -> Any:
    """Return the answer of an operation."""
    view = _view(operation.answer)
    if operation.kind == "none" or not answer:
        return None
    if operation.kind == "page":
        data = msgspec.json.decode(answer)
        return Page(typed_json.convert(data["items"], list[view]), data["next"])  # type: ignore[valid-type]
    if operation.kind.startswith("field "):
        value = msgspec.json.decode(answer)[operation.kind.removeprefix("field ")]
        if value is None:
            return None
        return typed_json.convert(value, view)
    return typed_json.decode(answer, view)


def _view(path: str) -> Any:
    """Return the class of a view; Any for plain data."""
    if not path:
        return Any
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def wire(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, msgspec.Struct) and hasattr(value, "id"):
        return value.id
    if isinstance(value, Mapping):
        return {str(name): wire(item) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [wire(item) for item in value]
    if callable(value):
        return getattr(value, "name", value)
    return value


def _query(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return [f"{name}={item}" for name, item in value.items()]
    return value


def _error(url: str, status: int, answer: bytes) -> HoldfastError:
    """Return the error of an answer; of an answer that is no problem, ServerUnreachable."""
    try:
        problem = json.loads(answer)
        kind = getattr(errors, problem["type"].rpartition("/")[2])
        error: HoldfastError = kind(**problem.get("facts", {}))
    except (ValueError, KeyError, TypeError, AttributeError):
        return ServerUnreachable(url=url, status=status, why="the answer is not one of Holdfast")
    return error
