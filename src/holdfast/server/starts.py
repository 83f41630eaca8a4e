"""Start the runs of concurrent requests in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from holdfast.connect.components import Components
from holdfast.connect.faces import AsyncFaces
from holdfast.core.runs import NewRun
from holdfast.errors import EngineClosed, HoldfastError, NotAuthenticated
from holdfast.server.auth import SeenKey
from holdfast.server.coalescing import Coalescer
from holdfast.service.requests import Request
from holdfast.store.database import Started


class RequestedStart(NamedTuple):
    """A run to start, and the components of the namespace of its caller."""

    parts: Components
    workflow: str
    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]
    caller: SeenKey | None = None
    """The API key that is confirmed in the thread that commits, if it was not read before."""


class _PreparedStart(NamedTuple):
    runs: list[NewRun]
    request: Request[list[Started]]


class StartQueue:
    """Commits starts. Those of different namespaces share a transaction as well."""

    def __init__(self, faces: AsyncFaces) -> None:
        self._faces: AsyncFaces = faces
        self._starts: Coalescer[RequestedStart, Started] = Coalescer(self._commit)

    async def start(self, requested: RequestedStart) -> Started:
        """Return the started run once it is durable. Raises what ``engine.start`` raises."""
        return await self._starts.answer(requested)

    async def _commit(self, starts: list[RequestedStart]) -> Sequence[Started | BaseException]:
        return await self._faces.call(lambda parts: _commit_all(parts, starts))


def _commit_all(
    parts: Components, starts: Sequence[RequestedStart]
) -> list[Started | BaseException]:
    """Check the starts, commit the ones without an error, and return one answer each."""
    if parts.closed:
        raise EngineClosed(database=parts.store.url)
    callers = {start.caller for start in starts if start.caller is not None}
    refused = {caller for caller in callers if not caller.is_good(parts)}
    prepared: list[_PreparedStart | HoldfastError] = [
        NotAuthenticated() if start.caller in refused else _prepared(start) for start in starts
    ]
    ops = [
        start.parts.sealer.seal(each.request.op)
        for start, each in zip(starts, prepared, strict=True)
        if isinstance(each, _PreparedStart)
    ]
    committed = iter(parts.writer.call_all(ops) if ops else ())
    return [
        _adopted(start, each, next(committed)) if isinstance(each, _PreparedStart) else each
        for start, each in zip(starts, prepared, strict=True)
    ]


def _prepared(start: RequestedStart) -> _PreparedStart | HoldfastError:
    parts = start.parts
    try:
        # A definition that the process does not know may be a deployed one, which is read here.
        runs, request = parts.starts.start(
            start.workflow, start.args, start.kwargs, start.options, parts.lease
        )
    except HoldfastError as error:
        return error
    return _PreparedStart(runs, request)


def _adopted(
    start: RequestedStart, prepared: _PreparedStart, answer: object
) -> Started | BaseException:
    """Return the started run of an answer, and let the worker execute it if it was leased."""
    if isinstance(answer, BaseException):
        return answer
    try:
        started = prepared.request.decode(answer)
    except HoldfastError as error:
        return error
    start.parts.adopt(prepared.runs, started)
    return started[0]
