"""``app``: Holdfast over HTTP, as an ASGI app that mounts anywhere.

Nothing is started when the app starts, because a mounted app is not told of it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from holdfast.connect.async_engine import AsyncEngine
from holdfast.connect.blocking.engine import Engine
from holdfast.connect.components import Components
from holdfast.connect.faces import AsyncFaces
from holdfast.core.api_keys import Right
from holdfast.errors import BadOption, HoldfastError, MethodRefused, NamespaceBound, RouteNotFound
from holdfast.server import metrics, openapi, problems
from holdfast.server.answer_pages import AnswerPages
from holdfast.server.auth import COOKIE, Gatekeeper, Who, check_own_origin
from holdfast.server.bodies import MOST_BYTES
from holdfast.server.calls import SharedState
from holdfast.server.dispatch import NO_STORE, Dispatcher
from holdfast.server.logins import LoginPages
from holdfast.server.operation import HttpOperation
from holdfast.server.operation_table import OPERATIONS
from holdfast.server.rates import DEFAULT_RATE, RequestRate
from holdfast.server.router import Router, allowed, segments_of
from holdfast.server.static import SECURITY_HEADERS, UiFiles
from holdfast.views.values import as_json

log = logging.getLogger("holdfast.server")

Page = Callable[[Request], Awaitable[Response]]
API = ["api", "v1"]


class ServerApp:
    """The ASGI app of an engine."""

    def __init__(
        self,
        engine: Engine | AsyncEngine,
        who: Who | None,
        *,
        hosts: Collection[str] | None,
        read_only: bool,
        max_body: int,
        rate: str | None,
        cookie: str,
        ui: bool,
        version: str,
        tools: Collection[str],
    ) -> None:
        self.faces: AsyncFaces = AsyncFaces(engine)
        self.gatekeeper: Gatekeeper = Gatekeeper(
            self.faces,
            who,
            hosts=hosts,
            read_only=read_only,
            rate=RequestRate(rate),
            cookie=cookie,
        )
        self._shared = SharedState(self.faces)
        self.operations: tuple[HttpOperation, ...] = OPERATIONS
        self._dispatcher = Dispatcher(
            Router(self.operations), self.gatekeeper, self._shared, most_bytes=max_body
        )
        self._version: str = version
        self._ui: UiFiles | None = UiFiles(version=version) if ui else None
        self._answers = AnswerPages(self.faces, self.gatekeeper)
        logins = LoginPages(self.faces, self.gatekeeper)
        self._pages: dict[str, dict[str, Page]] = {
            "healthz": {"GET": self._healthz},
            "readyz": {"GET": self._readyz},
            "metrics": {"GET": self._metrics},
            "mcp": {"POST": self._mcp, "GET": self._mcp, "DELETE": self._mcp},
            "api/v1/openapi.json": {"GET": self._openapi},
            "api/v1/login": {"POST": logins.log_in},
            "api/v1/logout": {"POST": logins.log_out},
        }
        self._answer_page: dict[str, Page] = {"GET": self._answer_link, "POST": self._answer_link}
        self._ui_page: dict[str, Page] = {"GET": self._ui_file}
        self._document: tuple[str, bytes] = ("", b"")
        """The OpenAPI document, and the prefix that it was made for."""
        self._tools: Collection[str] = tools
        self._max_body: int = max_body
        self._mcp_endpoint: Any = None

    def stop_streams(self) -> None:
        """End all open streams at once, before the server stops."""
        self._shared.streams.stop()
        if self._mcp_endpoint is not None:
            self._mcp_endpoint.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. A lifespan, if the app gets one, has nothing to do."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            request = Request(scope, receive)
            response = await self._answer(request)
            _add_security_headers(response)
            with suppress(ClientDisconnect):
                await response(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1003})

    async def _answer(self, request: Request) -> Response:
        try:
            self.gatekeeper.check_host(request)
            return await self._routed(request)
        except HoldfastError as error:
            return problems.response(error, headers=_headers_of(error))
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception:
            log.exception("%s %s failed", request.method, request.url.path)
            return problems.unexpected()

    async def _routed(self, request: Request) -> Response:
        segments = segments_of(request.scope)
        page = self._pages.get("/".join(segments))
        if page is not None:
            return await self._page(page, request)
        if segments[:2] == API:
            return await self._dispatcher.answer(request, segments[2:])
        if len(segments) == 2 and segments[0] == "answer":
            return await self._page(self._answer_page, request)
        # An address beside the API, such as one of another version, is not one of the web UI.
        if self._ui is None or next(filter(None, segments), None) == API[0]:
            raise RouteNotFound(path=request.url.path)
        return await self._page(self._ui_page, request)

    async def _answer_link(self, request: Request) -> Response:
        """Show or take the decision of a gate link."""
        return await self._answers.answer(request, segments_of(request.scope)[1])

    async def _ui_file(self, request: Request) -> Response:
        """Return a file of the web UI. Raises RouteNotFound."""
        assert self._ui is not None
        return self._ui.response([part for part in segments_of(request.scope) if part])

    async def _page(self, page: dict[str, Page], request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        if method == "OPTIONS":
            return Response(status_code=204, headers={"Allow": ", ".join(allowed(page))})
        if method not in page:
            raise MethodRefused(method=request.method, allow=", ".join(allowed(page)))
        return await page[method](request)

    # Pages without an API key

    async def _healthz(self, request: Request) -> Response:
        """Answer that the process is alive."""
        return Response(b"ok\n", headers=NO_STORE, media_type="text/plain")

    async def _readyz(self, request: Request) -> Response:
        """Tell whether the store answers, and whether its tables are the ones of this version."""
        try:
            await self.faces.call(_check_store)
        except HoldfastError as error:
            log.warning("not ready: %s", error)
            # Without the facts, which strangers would learn: the address of the database.
            return problems.response(type(error)(), status=503, headers=NO_STORE)
        return Response(b"ok\n", headers=NO_STORE, media_type="text/plain")

    async def _metrics(self, request: Request) -> Response:
        """Return the metrics for Prometheus, for callers that may read the whole installation, or
        all that a server of one namespace serves."""
        identity = await self.gatekeeper.admit(request, Right.VIEW)
        bound = identity.grant.namespace
        if bound is not None and (await self.faces.parts()).client.only != bound:
            why = "the metrics concern the whole installation"
            raise NamespaceBound(namespace=bound, call="metrics", why=why)
        text = await self.faces.call(metrics.page)
        return Response(text, headers={**NO_STORE, "Content-Type": metrics.CONTENT_TYPE})

    async def _mcp(self, request: Request) -> Response:
        """Answer a request of the Model Context Protocol, for every caller with an API key."""
        identity = await self.gatekeeper.admit(request, None)
        check_own_origin(request)
        if self._mcp_endpoint is None:
            # In a thread: the library takes more than half a second to load.
            endpoint_of = await asyncio.to_thread(_mcp_library)
            if endpoint_of is None:
                why = "pip install 'holdfast[mcp]'"
                raise RouteNotFound(path=request.url.path, why=why)
            # Another request may have made it meanwhile.
            self._mcp_endpoint = self._mcp_endpoint or endpoint_of(
                self.faces, version=self._version, tools=self._tools, max_body=self._max_body
            )
        rights = self.gatekeeper.rights(identity.grant)
        response: Response = self._mcp_endpoint.response(identity.grant, rights)
        return response

    async def _openapi(self, request: Request) -> Response:
        """Return the OpenAPI document, for every caller with an API key."""
        await self.gatekeeper.identify(request)
        prefix = request.scope.get("root_path", "").rstrip("/")
        if self._document[0] != prefix or not self._document[1]:
            document = openapi.document(self.operations, self._version, prefix)
            self._document = (prefix, as_json(document))
        return Response(self._document[1], headers=NO_STORE, media_type="application/json")


def _add_security_headers(response: Response) -> None:
    """Add the headers that every answer has, unless it has others of their names."""
    # Not by ``response.headers``, which searches all headers for each of them.
    own = {name for name, _ in response.raw_headers}
    response.raw_headers += [pair for pair in _SECURITY_HEADERS if pair[0] not in own]


_SECURITY_HEADERS = [
    (name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()
]


def _check_store(parts: Components) -> None:
    """Read the migrations of the database. Raises StoreError."""
    parts.store.installation.check_schema()


def _mcp_library() -> Callable[..., Any] | None:
    """Load the library of the Model Context Protocol and return the function that makes the
    endpoint; None if the library is not installed."""
    try:
        from holdfast.server.mcp.http import endpoint_of
    except ModuleNotFoundError:
        return None
    return endpoint_of


def _headers_of(error: HoldfastError) -> dict[str, str]:
    allow = error.facts.get("allow")
    if isinstance(error, MethodRefused):
        return {**NO_STORE, "Allow": str(allow)}
    return NO_STORE


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message: Message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


def app(
    engine: Engine | AsyncEngine,
    *,
    who: Who | None = None,
    hosts: Collection[str] | None = None,
    read_only: bool = False,
    max_body: int = MOST_BYTES,
    rate: str | None = DEFAULT_RATE,
    cookie: str = COOKIE,
    ui: bool = True,
    tools: Collection[str] = (),
) -> ServerApp:
    """Return an ASGI app that serves an engine over HTTP; it mounts anywhere, under any prefix.

    *who* is for programs with their own users: it is called with each request and returns a
    ``Caller``, or None to refuse it; requests with an API key of Holdfast are accepted as well.
    *hosts* are the names that the server answers for, besides loopback; None for all. With
    *read_only*, nothing can be changed. *max_body* is the size of a body in bytes, *rate* the
    requests of one caller, as in "100/s". *cookie* is the name of the cookie of login sessions.
    Without *ui*, there is no web UI. *tools* are workflows that agents may call over MCP, in
    addition to workflows with ``tool=True``. Raises BadOption.
    """
    if not isinstance(engine, Engine | AsyncEngine):
        raise BadOption(option="engine", value=engine, why="pass an Engine or an AsyncEngine")
    if who is not None and not callable(who):
        raise BadOption(option="who", value=who, why="pass a function that returns a Caller")
    return ServerApp(
        engine,
        who,
        hosts=hosts,
        read_only=read_only,
        max_body=max_body,
        rate=rate,
        cookie=cookie,
        ui=ui,
        version=_version(),
        tools=tools,
    )


def _version() -> str:
    return str(sys.modules["holdfast"].__version__)
