"""Answer the requests of the API: find the operation, admit the caller, decode, call, encode."""

from __future__ import annotations

import logging
import time
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from holdfast.core import trace_context
from holdfast.errors import HoldfastError, MethodRefused, RightMissing, RouteNotFound
from holdfast.server import problems
from holdfast.server.answers import body_of, page_of
from holdfast.server.auth import Gatekeeper, Identity
from holdfast.server.bodies import decode_body, decode_query, read_body
from holdfast.server.calls import HttpCall, SharedState
from holdfast.server.masking import masked
from holdfast.server.metrics import observe_request
from holdfast.server.operation import HttpOperation
from holdfast.server.request_keys import made_once
from holdfast.server.router import Router
from holdfast.server.sse import EventStream
from holdfast.views.values import as_json

log = logging.getLogger("holdfast.server")

ROUTE = "holdfast.route"
"""Where the scope of a request has the method and the pattern of its path."""

UNKNOWN_ROUTE = "unknown"
NO_STORE = {"Cache-Control": "no-store"}


class Dispatcher:
    """Answers the requests of one app."""

    def __init__(
        self, router: Router, gatekeeper: Gatekeeper, shared: SharedState, *, most_bytes: int
    ) -> None:
        self._router: Router = router
        self._gatekeeper: Gatekeeper = gatekeeper
        self._shared: SharedState = shared
        self._most_bytes: int = most_bytes

    async def answer(self, request: Request, segments: list[str]) -> Response:
        """Return the answer to a request of the API, and count it. Errors become problems."""
        began = time.perf_counter()
        with _trace_of(request):
            response = await self._answer_or_problem(request, segments)
        route = request.scope.get(ROUTE, UNKNOWN_ROUTE)
        observe_request(route, response.status_code, time.perf_counter() - began)
        return response

    async def _answer_or_problem(self, request: Request, segments: list[str]) -> Response:
        try:
            return await self._answer(request, segments)
        except MethodRefused as error:
            allow = str(error.facts["allow"])
            if request.method == "OPTIONS":
                return Response(status_code=204, headers={"Allow": allow, **NO_STORE})
            return problems.response(error, headers={"Allow": allow, **NO_STORE})
        except HoldfastError as error:
            return problems.response(error, headers=NO_STORE)

    async def _answer(self, request: Request, segments: list[str]) -> Response:
        try:
            operation, path = self._router.find(request.method, segments)
        except RouteNotFound:
            await self._gatekeeper.identify(request)  # strangers do not learn which addresses exist
            raise
        request.scope[ROUTE] = f"{operation.method} {operation.path}"
        identity = await self._admit(operation, request)
        if operation.needs_values and not identity.grant.sees_values:
            raise RightMissing(right="values", why="this API key does not see values")
        call = await self._call(operation, request, identity)
        if operation.method in ("GET", "DELETE"):
            call.take(path, decode_query(operation, request))
            answer = await call.make()
            if isinstance(answer, EventStream):
                answer.is_admitted = partial(self._gatekeeper.still_admits, request, identity)
            return self.encoded(call, answer)
        body = await read_body(request, self._most_bytes)
        call.take(path, decode_body(operation, body))
        return self.encoded(call, await made_once(call, body))

    async def _admit(self, operation: HttpOperation, request: Request) -> Identity:
        """Return the caller of a request, who may call the operation."""
        keeper = self._gatekeeper
        if operation.public:
            return keeper.stranger(request)
        if operation.confirms and operation.right is not None:
            seen = keeper.seen(request, operation.right)
            if seen is not None:
                return seen
        return await keeper.admit(request, operation.right, operation.other_right)

    async def _call(
        self, operation: HttpOperation, request: Request, identity: Identity
    ) -> HttpCall:
        shared = self._shared
        engine = await shared.faces.of(identity.grant.namespace)
        if not shared.installation:
            shared.installation = await shared.faces.call(
                lambda parts: parts.subscriptions.installation
            )
        return HttpCall(operation, request, identity, engine, shared)

    def encoded(self, call: HttpCall, answer: Any) -> Response:
        """Return the answer of a method as a response."""
        operation = call.operation
        if isinstance(answer, Response):
            return answer
        if answer is None and operation.returns in (type(None), None):
            return Response(status_code=204, headers=NO_STORE)
        if operation.is_list:
            body = page_of(operation, answer, call.arguments.get("limit"), call.cursors)
        else:
            body = body_of(operation, answer)
        if not call.identity.grant.sees_values:
            body = masked(body)
        return Response(as_json(body), operation.status, NO_STORE, media_type="application/json")


def _trace_of(request: Request) -> AbstractContextManager[None]:
    """Return the context of the trace that a request belongs to."""
    incoming = trace_context.hooks.incoming
    if incoming is None:
        return nullcontext()
    parent = request.headers.get(trace_context.TAG)
    return nullcontext() if parent is None else incoming(parent)
