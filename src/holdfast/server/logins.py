"""Log browsers in and out: with a one-time link, or with an API key."""

from __future__ import annotations

from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.connect import credentials
from holdfast.connect.faces import AsyncFaces
from holdfast.core import typed_json
from holdfast.core.addresses import is_loopback
from holdfast.core.api_keys import LOGIN_LASTS, Credential, Login
from holdfast.errors import BadRequest, NotAuthenticated
from holdfast.server.auth import Gatekeeper, check_origin, cookie_header
from holdfast.server.bodies import check_depth, read_body
from holdfast.views.api_keys import caller_of
from holdfast.views.values import as_json

_SECONDS = LOGIN_LASTS // 1_000_000


class LoginRequest(msgspec.Struct, forbid_unknown_fields=True):
    """An API key, or the token of a one-time link."""

    api_key: str | None = None
    link: str | None = None


class LoginPages:
    """Answers the requests that open and end login sessions."""

    def __init__(self, faces: AsyncFaces, gatekeeper: Gatekeeper) -> None:
        self._faces: AsyncFaces = faces
        self._gatekeeper: Gatekeeper = gatekeeper

    async def log_in(self, request: Request) -> Response:
        """Open a login session for an API key or the token of a one-time link. A page of another
        site cannot log a browser in. Raises NotAuthenticated, OriginRefused."""
        check_origin(request)
        body = await read_body(request, 10_000)
        check_depth(body)
        try:
            wanted = typed_json.decode(body or b"{}", LoginRequest)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadRequest(why=str(error)) from None
        opened = await self._open(wanted)
        if opened is None:
            raise NotAuthenticated()
        login, text = opened
        response = Response(as_json(caller_of(login.grant)), media_type="application/json")
        response.headers["Set-Cookie"] = self._cookie(request, str(text), _SECONDS)
        return response

    async def _open(self, wanted: LoginRequest) -> tuple[Login, Credential] | None:
        if wanted.link is not None:
            link = wanted.link
            return await self._faces.call(lambda parts: credentials.take_link(parts, link))
        text = wanted.api_key or ""
        key = await self._faces.call(lambda parts: credentials.api_key(parts, text))
        if key is None:
            return None
        return await self._faces.call(
            lambda parts: credentials.open_login(parts, key.grant, key.id)
        )

    async def log_out(self, request: Request) -> Response:
        """End the login session of the browser. Raises OriginRefused, NotAuthenticated."""
        identity = await self._gatekeeper.identify(request)
        check_origin(request)
        login_id = identity.login_id
        if login_id is not None:
            await self._faces.call(lambda parts: credentials.end_login(parts, login_id))
        response = Response(status_code=204)
        response.headers["Set-Cookie"] = self._cookie(request, "", 0)
        return response

    def _cookie(self, request: Request, value: str, lasts: int) -> str:
        path = quote(request.scope.get("root_path", "") or "/", safe="/~!$&'()*+,=:@")
        return cookie_header(
            self._gatekeeper.cookie,
            value,
            path=path,
            secure=not is_local(request),
            lasts=lasts,
        )


def is_local(request: Request) -> bool:
    """Return whether a browser reaches the server at a loopback address without TLS."""
    return request.url.scheme == "http" and is_loopback(request.url.hostname or "")
