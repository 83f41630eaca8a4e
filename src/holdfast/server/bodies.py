"""Read the body and the query of a request, within limits."""

from __future__ import annotations

import asyncio
import re
from typing import Any, get_args

import msgspec
from starlette.requests import ClientDisconnect, Request

from holdfast.core import typed_json
from holdfast.errors import BadRequest, RequestTooLarge
from holdfast.server.operation import HttpOperation, HttpParameter

MOST_BYTES = 4 * 1024 * 1024
"""The maximum size of a body, unless configured otherwise."""
MOST_DEPTH = 100
"""The maximum depth of nested lists and objects in a body."""
BODY_TIMEOUT = 30.0
"""Seconds within which a body must arrive."""

_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


async def read_body(request: Request, most: int = MOST_BYTES) -> bytes:
    """Return the body of a request. Raises RequestTooLarge before it reads a body that declares too
    much, and BadRequest if the body does not arrive."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most:
        raise RequestTooLarge(bytes=int(declared), most=most)
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            return await _collect(request, most)
    except TimeoutError:
        raise BadRequest(why=f"the body did not arrive within {BODY_TIMEOUT:.0f} s") from None
    except ClientDisconnect:
        raise BadRequest(why="the client went away") from None


async def _collect(request: Request, most: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    is_complete = False
    while not is_complete:
        # Not ``request.stream()``, whose generator costs more than all chunks of a small body.
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect()
        chunk = message.get("body", b"")
        is_complete = not message.get("more_body", False)
        size += len(chunk)
        if size > most:
            raise RequestTooLarge(most=most)
        chunks.append(chunk)
    return b"".join(chunks)


def decode_body(operation: HttpOperation, body: bytes) -> msgspec.Struct:
    """Return the decoded body of a request. Raises BadRequest, which names the field."""
    check_depth(body)
    try:
        return typed_json.decode(body or b"{}", operation.request_type)
    except msgspec.ValidationError as error:
        raise BadRequest(why=str(error), body="it does not fit the operation") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(why=str(error), body="it is not JSON") from None
    except RecursionError:
        raise BadRequest(why=f"the body is nested deeper than {MOST_DEPTH}") from None


def check_depth(body: bytes) -> None:
    """Refuse JSON that is nested too deep: code that walks it would run out of stack. Raises
    BadRequest."""
    if body.count(b"[") + body.count(b"{") <= MOST_DEPTH:
        return
    depth = 0
    for match in _TOKENS.finditer(body):
        token = match[0]
        if token in (b"[", b"{"):
            depth += 1
            if depth > MOST_DEPTH:
                raise BadRequest(why=f"the body is nested deeper than {MOST_DEPTH}")
        elif token in (b"]", b"}"):
            depth -= 1


def decode_query(operation: HttpOperation, request: Request) -> msgspec.Struct:
    """Return the decoded query of a request. A list is repeated, or separated by commas. Raises
    BadRequest."""
    values: dict[str, Any] = {}
    known = {parameter.name: parameter for parameter in operation.parameters}
    for name in dict.fromkeys(request.query_params.keys()):
        if name not in known:
            raise BadRequest(why=f"there is no parameter {name}", known=", ".join(sorted(known)))
        values[name] = _query_value(known[name], request.query_params.getlist(name))
    try:
        return typed_json.convert(values, operation.request_type, strict=False)
    except msgspec.ValidationError as error:
        raise BadRequest(why=str(error), query="it does not fit the operation") from None


def _query_value(parameter: HttpParameter, texts: list[str]) -> Any:
    members = get_args(parameter.type) or (parameter.type,)
    kinds = {getattr(member, "__origin__", member) for member in (*members, parameter.type)}
    if dict in kinds:
        return dict(text.partition("=")[::2] for text in texts)
    if list in kinds:
        return [word for text in texts for word in text.split(",") if word]
    if len(texts) > 1:
        raise BadRequest(why=f"the parameter {parameter.name} is given {len(texts)} times")
    if float in kinds and _NUMBER.fullmatch(texts[0]):
        return float(texts[0])  # seconds
    return texts[0]
