"""Requests that a trusted proxy passes on: the address of the client, the prefix under which the
proxy serves the app, and the person that the proxy has authenticated.

The headers count only if the proxy itself is the peer: any other client could send them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.core.api_keys import checked_roles
from holdfast.errors import BadOption
from holdfast.server.auth import Caller, Who

TRUSTED = "holdfast.trusted_proxy"
"""Where the scope of a request says that a trusted proxy has sent it."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class TrustedProxies:
    """An ASGI app behind proxies. It takes over what their ``X-Forwarded`` headers say."""

    def __init__(self, app: ASGIApp, proxies: str) -> None:
        """Parse *proxies*, addresses and networks separated by commas. Raises BadOption."""
        self._app: ASGIApp = app
        self._networks: list[Network] = [_network(text) for text in proxies.split(",")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with the facts that a trusted proxy tells."""
        if scope["type"] == "http" and self._trusts(scope.get("client")):
            scope = {**scope, **_forwarded(scope), TRUSTED: True}
        await self._app(scope, receive, send)

    def _trusts(self, client: Any) -> bool:
        try:
            address = ipaddress.ip_address(client[0])
        except (TypeError, ValueError):
            return False
        return any(address in network for network in self._networks)


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError as error:
        why = f"give addresses or networks, such as 10.0.0.0/8: {error}"
        raise BadOption(option="trusted_proxy", value=text, why=why) from None


def _forwarded(scope: Scope) -> dict[str, Any]:
    """Return the parts of a scope that the headers of a proxy replace."""
    headers = Headers(scope=scope)
    forwarded: dict[str, Any] = {}
    scheme = headers.get("x-forwarded-proto", "").strip().lower()
    if scheme in ("http", "https"):
        forwarded["scheme"] = scheme
    client = headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    if client:
        forwarded["client"] = (client, 0)
    prefix = headers.get("x-forwarded-prefix", "").strip().rstrip("/")
    if prefix.startswith("/") and "//" not in prefix and prefix.isprintable():
        forwarded["root_path"] = prefix + scope.get("root_path", "")
    return forwarded


def user_of_header(name: str, roles: Collection[str]) -> Who:
    """Return the function that takes the person from a header of a trusted proxy. Raises
    BadOption."""
    checked_roles(list(roles))

    def who(request: Request) -> Caller | None:
        person = request.headers.get(name, "").strip()
        if not request.scope.get(TRUSTED) or not person or not person.isprintable():
            return None
        return Caller(name=person, roles=roles)

    return who
