"""Find the operation of an address. Segments are decoded one by one, so that an id may contain any
character, also a slash."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from holdfast.errors import MethodRefused, RouteNotFound
from holdfast.server.operation import HttpOperation

_ABSOLUTE = re.compile(rb"https?://[^/]*", re.IGNORECASE)


class _Node:
    """A segment of addresses: the segments below it, and the operations that end here."""

    def __init__(self) -> None:
        self.fixed: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.operations: dict[str, tuple[HttpOperation, tuple[str, ...]]] = {}


class Router:
    """All addresses of the API."""

    def __init__(self, operations: Iterable[HttpOperation]) -> None:
        self._root = _Node()
        for operation in operations:
            self._add(operation)

    def _add(self, operation: HttpOperation) -> None:
        node = self._root
        for segment in operation.path.strip("/").split("/"):
            if segment.startswith("{"):
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.fixed.setdefault(segment, _Node())
        if operation.method in node.operations:
            raise ValueError(f"two operations at {operation.method} {operation.path}")
        node.operations[operation.method] = (operation, operation.in_path)

    def find(self, method: str, segments: list[str]) -> tuple[HttpOperation, dict[str, str]]:
        """Return the operation of an address and the parameters in it. Raises RouteNotFound,
        MethodRefused."""
        match = self._walk(self._root, segments, [])
        if match is None:
            raise RouteNotFound(path="/" + "/".join(segments))
        node, values = match
        chosen = node.operations.get("GET" if method == "HEAD" else method)
        if chosen is None:
            raise MethodRefused(method=method, allow=", ".join(allowed(node.operations)))
        operation, names = chosen
        return operation, dict(zip(names, values, strict=True))

    def _walk(
        self, node: _Node, segments: list[str], values: list[str]
    ) -> tuple[_Node, list[str]] | None:
        if not segments:
            return (node, values) if node.operations else None
        first, rest = segments[0], segments[1:]
        fixed = node.fixed.get(first)
        if fixed is not None:
            answer = self._walk(fixed, rest, values)
            if answer is not None:
                return answer
        if node.parameter is not None and first:
            return self._walk(node.parameter, rest, [*values, first])
        return None


def allowed(methods: Iterable[str]) -> list[str]:
    """Return the methods of an address for the header ``Allow``."""
    names = {*methods, "OPTIONS"}
    if "GET" in names:
        names.add("HEAD")
    return sorted(names)


def segments_of(scope: Scope) -> list[str]:
    """Return the decoded segments of the path of a request, below the prefix under which the app is
    mounted."""
    raw: Any = scope.get("raw_path") or scope["path"].encode()
    path: bytes = raw.split(b"?", 1)[0]
    if not path.startswith(b"/"):  # a proxy may name the whole address
        path = _ABSOLUTE.sub(b"", path)
    segments = path.decode("utf-8", "replace").split("/")
    if b"%" in path:
        segments = [unquote_to_bytes(part).decode("utf-8", "replace") for part in path.split(b"/")]
    prefix = [part for part in scope.get("root_path", "").split("/") if part]
    segments = segments[1:]
    if segments[: len(prefix)] == prefix:
        segments = segments[len(prefix) :]
    return segments
