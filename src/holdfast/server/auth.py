"""Who calls: API keys, login sessions, and callers that another program vouches for.

Every request passes ``Gatekeeper.admit`` once, before anything is read for it. Rights are checked
here and nowhere else.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request

from holdfast.connect import credentials
from holdfast.connect.components import Components
from holdfast.connect.faces import AsyncFaces
from holdfast.core.addresses import is_loopback
from holdfast.core.api_keys import RIGHTS, ApiKey, Grant, Right, Role, checked_roles
from holdfast.errors import (
    BadOption,
    HostRefused,
    NotAuthenticated,
    OriginRefused,
    RightMissing,
    StoreError,
    TooManyRequests,
)
from holdfast.server.coalescing import Coalescer
from holdfast.server.rates import RequestRate

COOKIE = "holdfast_login"
MOST_HOSTS = 100
MOST_SEEN = 1000
"""API keys that are remembered as seen."""
READ_ONLY = frozenset({Right.VIEW})
SAFE = ("GET", "HEAD", "OPTIONS")


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """The user of a program that mounts the server, as ``who`` returns it: the name under which
    actions are recorded, roles, a namespace (None for all)."""

    name: str
    roles: Collection[str] = ("viewer",)
    namespace: str | None = None
    gate_roles: Collection[str] = ()
    values: bool = True

    def grant(self) -> Grant:
        """Return what the caller may do. Raises BadOption."""
        if not isinstance(self.name, str) or not self.name:
            raise BadOption(option="who", value=self.name, why="a caller has a name")
        return Grant(
            name=self.name,
            roles=checked_roles(list(self.roles)),
            namespace=self.namespace,
            gate_roles=tuple(self.gate_roles),
            sees_values=self.values,
        )


Who = Callable[[Request], Caller | Awaitable[Caller | None] | None]
"""Returns the caller of a request; None if there is none."""


class SeenKey:
    """An API key that the server has read before, and that is to be confirmed."""

    __slots__ = ("_text", "key")

    def __init__(self, text: str, key: ApiKey) -> None:
        self._text: str = text
        self.key: ApiKey = key

    def is_good(self, parts: Components) -> bool:
        """Read the API key again, and return whether it grants the same as before."""
        key = credentials.api_key(parts, self._text)
        return key is not None and key.grant == self.key.grant


class Identity(msgspec.Struct, frozen=True):
    """An authenticated caller. ``id`` is the API key or login session that idempotency keys and
    limits belong to. ``unconfirmed`` is the API key that a handler confirms in the thread in which
    it writes, which saves a call of a thread for each request."""

    grant: Grant
    id: str
    by_cookie: bool = False
    login_id: str | None = None
    api_key_id: str | None = None
    unconfirmed: SeenKey | None = None


class Gatekeeper:
    """Authenticates requests and checks rights."""

    def __init__(
        self,
        faces: AsyncFaces,
        who: Who | None,
        *,
        hosts: Collection[str] | None,
        read_only: bool,
        rate: RequestRate,
        cookie: str = COOKIE,
    ) -> None:
        self._faces: AsyncFaces = faces
        self._who: Who | None = who
        self._hosts: frozenset[str] | None = (
            None if hosts is None else frozenset(host.lower() for host in hosts)
        )
        self._known_hosts: set[str] = set()
        """Headers that named one of our hosts: saves reading them again."""
        self._read_only: bool = read_only
        self._rate: RequestRate = rate
        self.cookie: str = cookie
        self._api_keys: Coalescer[str, ApiKey | None] = Coalescer(self._read_api_keys)
        self._seen: dict[str, SeenKey] = {}

    async def _read_api_keys(self, texts: list[str]) -> list[ApiKey | None]:
        """Return the API keys of texts, each of which is read once."""

        def read(parts: Components) -> dict[str, ApiKey | None]:
            return {text: credentials.api_key(parts, text) for text in set(texts)}

        keys = await self._faces.call(read)
        return [keys[text] for text in texts]

    def check_host(self, request: Request) -> None:
        """Refuse a request for a host name that is not ours: a page of another site may have made
        its own name point here. Raises HostRefused."""
        if self._hosts is None:
            return
        header = request.headers.get("host", "")
        if header in self._known_hosts:
            return
        host = _host_of(header)
        if host not in self._hosts and not is_loopback(host):
            raise HostRefused(host=host)
        if len(self._known_hosts) < MOST_HOSTS:
            self._known_hosts.add(header)

    async def identify(self, request: Request) -> Identity:
        """Return the caller of a request. Raises NotAuthenticated."""
        header = request.headers.get("authorization", "")
        if header:
            return await self._by_api_key(header)
        if self._who is not None:
            answer = self._who(request)
            caller = await answer if inspect.isawaitable(answer) else answer
            if caller is None:
                raise NotAuthenticated()
            grant = caller.grant()
            has_cookie = "cookie" in request.headers  # which a browser also sends for other sites
            return Identity(grant, f"user:{grant.name}", by_cookie=has_cookie)
        return await self._by_cookie(request)

    async def _by_api_key(self, header: str) -> Identity:
        scheme, _, text = header.partition(" ")
        key = None
        if scheme.lower() == "bearer":
            key = await self._api_keys.answer(text.strip())
        if key is None:
            raise NotAuthenticated()
        if text not in self._seen:
            if len(self._seen) >= MOST_SEEN:
                self._seen.clear()
            self._seen[text] = SeenKey(text.strip(), key)
        return Identity(key.grant, key.id, api_key_id=key.id)

    def seen(self, request: Request, right: Right) -> Identity | None:
        """Return the caller of a request with an API key that was read before and has a right; its
        handler confirms it. Raises TooManyRequests."""
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        seen = self._seen.get(text)
        if seen is None or scheme.lower() != "bearer" or right not in self.rights(seen.key.grant):
            return None
        self._count(seen.key.id)
        return Identity(seen.key.grant, seen.key.id, api_key_id=seen.key.id, unconfirmed=seen)

    async def _by_cookie(self, request: Request) -> Identity:
        text = request.cookies.get(self.cookie)
        login = None
        if text is not None:
            login = await self._faces.call(lambda parts: credentials.login(parts, text))
        if login is None:
            raise NotAuthenticated()
        return Identity(login.grant, login.id, True, login.id, login.api_key_id)

    async def admit(
        self, request: Request, right: Right | None, other: Right | None = None
    ) -> Identity:
        """Return the caller of a request that requires a right, if one is named; *other* is a right
        that suffices as well. Raises NotAuthenticated, OriginRefused, RightMissing,
        TooManyRequests."""
        identity = await self.identify(request)
        if identity.by_cookie and request.method not in SAFE:
            check_origin(request)
        rights = self.rights(identity.grant)
        if right is not None and right not in rights and other not in rights:
            raise RightMissing(right=right.value, roles=", ".join(_roles_with(right)))
        self._count(identity.id)
        return identity

    async def still_admits(self, request: Request, identity: Identity) -> bool:
        """Return whether the caller of an open stream may do what it could when it was admitted."""
        try:
            current = await self.identify(request)
        except NotAuthenticated:
            return False
        except StoreError:
            return True  # a database that is away decides nothing: the next check asks again
        return current.grant == identity.grant

    def _count(self, caller: str) -> None:
        if not self._rate.admits(caller):
            raise TooManyRequests(limit=self._rate.text)

    def stranger(self, request: Request) -> Identity:
        """Return the caller of a public operation, whose token is checked by the operation. Raises
        TooManyRequests, RightMissing."""
        address = "" if request.client is None else request.client.host
        self._count(f"address:{address}")
        if self._read_only:
            raise RightMissing(why="this server is read-only")
        return Identity(Grant(name="a link", roles=()), f"address:{address}")

    def rights(self, grant: Grant) -> frozenset[Right]:
        """Return the rights of a caller at this server, which may be read-only."""
        return grant.rights & READ_ONLY if self._read_only else grant.rights


def check_origin(request: Request) -> None:
    """Refuse a request that a browser sends for a page of another site. Raises OriginRefused."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise OriginRefused(content_type=kind or None)
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        if site != "same-origin":
            raise OriginRefused(sec_fetch_site=site)
        return
    if "origin" not in request.headers:
        raise OriginRefused(origin=None)
    check_own_origin(request)


def check_own_origin(request: Request) -> None:
    """Refuse a request whose header ``Origin``, if it has one, names another site. Raises
    OriginRefused."""
    origin = request.headers.get("origin")
    if origin is not None and _netloc_of(origin) != request.headers.get("host", "").lower():
        raise OriginRefused(origin=origin)


def _netloc_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _host_of(header: str) -> str:
    """Return the host name of a ``Host`` header, without its port."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""


def _roles_with(right: Right) -> list[str]:
    return [role.value for role in Role if right in RIGHTS[role]]


def cookie_header(name: str, value: str, *, path: str, secure: bool, lasts: int) -> str:
    """Return the header that sets the cookie of a login session; an empty value deletes it."""
    parts = [f"{name}={value}", "HttpOnly", "SameSite=Strict", f"Path={path}", f"Max-Age={lasts}"]
    if secure:
        parts.append("Secure")
    return "; ".join(parts)
