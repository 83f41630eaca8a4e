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
        return await self._faces.call(lambda parts: commit_all(parts, starts))


def commit_all(
    parts: Components, starts: Sequence[RequestedStart]
) -> list[Started | BaseException]:
    """Check the starts, commit the ones without an error, and return one answer each."""
    if parts.closed:
        raise EngineClosed(database=parts.store.url)
    callers = {start.caller for start in starts if start.caller is not None}
    refused = {caller for caller in callers if not caller.is_good(parts)}
    names = _ResolvedNames()
    prepared: list[_PreparedStart | HoldfastError] = [
        NotAuthenticated() if start.caller in refused else _prepared(start, names)
        for start in starts
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


class _ResolvedNames:
    """Names of workflows, each of which is looked up once in a batch: a definition that the process
    does not know may be a deployed one."""

    def __init__(self) -> None:
        self._workflows: dict[Any, Any] = {}

    def workflow(self, start: RequestedStart) -> Any:
        """Return the workflow of a start. Raises BadOption, NamespaceBound, ModelNotFound."""
        options = start.options
        key = (id(start.parts), start.workflow, options.get("namespace"), options.get("version"))
        if key not in self._workflows:
            self._workflows[key] = start.parts.starts.resolved(start.workflow, options)
        return self._workflows[key]


def _prepared(start: RequestedStart, names: _ResolvedNames) -> _PreparedStart | HoldfastError:
    parts = start.parts
    try:
        runs, request = parts.starts.start(
            names.workflow(start), start.args, start.kwargs, start.options, parts.lease
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
