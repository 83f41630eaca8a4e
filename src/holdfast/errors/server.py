"""Errors of the HTTP server and of the client that calls it."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError


class BadRequest(UsageError):
    """This request cannot be read, and nothing was written: correct it as the facts say."""


class RequestTooLarge(UsageError):
    """The body of this request is too large, and was not read: send less at once."""


class TooManyRequests(UsageError):
    """This API key sends too many requests: wait, then try again."""


class NotAuthenticated(UsageError):
    """This request has no valid API key or login session: send `Authorization: Bearer hf_...`, or
    log in."""


class RightMissing(UsageError):
    """This API key lacks the right for this request: use a key with a role that has it."""


class HostRefused(UsageError):
    """The server does not answer for this host name: name it with `holdfast serve --host-name`."""


class OriginRefused(UsageError):
    """A request of a login session that changes something must come from a page of this server, as
    JSON: use an API key instead."""


class RequestKeyReused(UsageError):
    """This idempotency key belongs to another request, and nothing was written: use another key, or
    repeat the request as it was."""


class RouteNotFound(UsageError):
    """The server has no such address: `/api/v1/openapi.json` lists all addresses."""


class MethodRefused(UsageError):
    """This address does not accept this method: use one that the header `Allow` names."""


class RemoteWorkerNotFound(UsageError):
    """There is no such remote worker, or its time is over: open a new one with `POST
    /remote-workers`."""


class NotRemote(UsageError):
    """This call is not available over HTTP: use an engine that opens the database itself."""


class PortInUse(UsageError):
    """Another program listens on this port: stop it, or choose another port with `--port`."""


class ServerNeedsKey(UsageError):
    """Without an API key, the server listens on loopback addresses only: add one with `holdfast
    api-keys add NAME --role admin` first."""


class ServerUnreachable(HoldfastError):
    """The server cannot be reached, or does not answer as a Holdfast server: check the URL, and
    that `holdfast serve` is running."""
