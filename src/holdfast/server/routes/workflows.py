"""Workflows: what runs here, in which versions, and how it ended lately."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.connect.components import Components
from holdfast.connect.dry_replay import DryReplay
from holdfast.core.api_keys import Right
from holdfast.core.dry_replay import Judgement
from holdfast.core.json_schemas import input_schema
from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL, LIVE
from holdfast.errors import RowDamaged, RunNotFound, UnknownWorkflow
from holdfast.server.calls import ITEMS, HttpCall
from holdfast.server.operation import operation
from holdfast.store.runs.list_query import RunFilter
from holdfast.views import workflows as views
from holdfast.views.storage import WorkflowSizeView, workflow_of
from holdfast.views.workers import WorkerView
from holdfast.views.workflows import LiveVersionView, VersionVerdictView, WorkflowView

LAST = 20
"""The number of finished runs whose outcomes are shown."""
JUDGED = 20
"""The number of live runs of each version that a check replays."""
DAY = 86_400_000_000
"""In microseconds."""


async def list_workflows(call: HttpCall) -> list[WorkflowView]:
    """Return a page of the workflows that have runs or that a worker offers, by name. Raises
    BadCursor."""
    workers = await call.engine.workers.list()
    after = call.arguments.get("after") or ""
    limit = call.arguments.get("limit", ITEMS)

    def read(parts: Components) -> list[WorkflowView]:
        names = _names(parts, workers)
        page = [name for name in names if name > after][:limit]
        return [_view(parts, name, names[name], workers) for name in page]

    return await call.engine._calls.call(read)


async def get_workflow(call: HttpCall) -> WorkflowView:
    """Return a workflow. Raises UnknownWorkflow."""
    workers = await call.engine.workers.list()
    name = call.path["name"]

    def read(parts: Components) -> WorkflowView:
        names = _names(parts, workers)
        if name not in names:
            raise UnknownWorkflow(workflow=name)
        return _view(parts, name, names[name], workers)

    return await call.engine._calls.call(read)


async def list_versions(call: HttpCall) -> list[LiveVersionView]:
    """Return the versions of all workflows that have live runs, and whether a live worker serves
    them."""
    workers = await call.engine.workers.list()

    def read(parts: Components) -> list[LiveVersionView]:
        versions = [
            LiveVersionView(workflow=name, version=version, live=live, served=served)
            for name, known in _names(parts, workers).items()
            for version, live in _live(parts, name, known).items()
            for served in (any(views.serves(worker, name, version) for worker in workers),)
        ]
        return [each for each in versions if each.live]

    return await call.engine._calls.call(read)


async def check_versions(call: HttpCall) -> list[VersionVerdictView]:
    """Replay the newest live runs of each version with the code of this server, without changing
    anything, and return whether it can continue them."""
    workers = await call.engine.workers.list()

    def check(parts: Components) -> list[VersionVerdictView]:
        replay = DryReplay(parts, parts.definitions(), namespace=parts.client.only)
        return [
            _verdict(parts, replay, name, version)
            for name, known in _names(parts, workers).items()
            for version, live in _live(parts, name, known).items()
            if live
        ]

    return await call.engine._calls.call(check)


def _verdict(parts: Components, replay: DryReplay, name: str, version: str) -> VersionVerdictView:
    runs: list[RunRecord] = []
    if name in parts.definitions():
        which = RunFilter(
            namespace=parts.client.only,
            workflows=[name],
            versions=[version],
            statuses=[status.value for status in LIVE],
            limit=JUDGED,
        )
        runs = parts.store.runs.find(which)
    judgements = [judgement for run in runs for judgement in _judged(replay, run.id)]
    return views.verdict_of(name, version, judgements)


def _judged(replay: DryReplay, run_id: str) -> list[Judgement]:
    try:
        return [replay.one(run_id)]
    except (RunNotFound, RowDamaged):
        return []  # deleted meanwhile; `holdfast db check` reports damage


async def workflow_sizes(call: HttpCall) -> list[WorkflowSizeView]:
    """Return how many bytes the runs of each workflow take, the largest first, and how many were
    written in the last day. Every run and event is read."""

    def read(parts: Components) -> list[WorkflowSizeView]:
        sizes = parts.store.retention.by_workflow(parts.store.now() - DAY)
        only = parts.client.only
        return [workflow_of(size) for size in sizes if only in (None, size.namespace)]

    return await call.engine._calls.call(read)


def _live(parts: Components, name: str, versions: Sequence[str]) -> dict[str, int]:
    """Return the number of live runs of each version of a workflow."""
    statuses = [status.value for status in LIVE]
    return {
        version: parts.store.runs.count(
            RunFilter(
                namespace=parts.client.only,
                workflows=[name],
                versions=[version],
                statuses=statuses,
            )
        )
        for version in versions
    }


def _names(parts: Components, workers: Sequence[WorkerView]) -> dict[str, list[str]]:
    routes = list(parts.store.runs.routes().values())
    return views.names_of(routes, workers, parts.client.only)


def _kind(parts: Components, name: str) -> str | None:
    """Return the kind of a workflow that is deployed; None if its definition is elsewhere."""
    stored = parts.store.definitions.current(parts.client.namespace, name)
    return stored[0].kind if stored else None


def _view(
    parts: Components, name: str, versions: Sequence[str], workers: Sequence[WorkerView]
) -> WorkflowView:
    runs = parts.store.runs
    namespace = parts.client.only
    live = _live(parts, name, versions)
    ended = [status.value for status in FINAL]
    finished = runs.find(
        RunFilter(namespace=namespace, workflows=[name], statuses=ended, limit=LAST)
    )
    definition = parts.definitions().get(name)
    return views.of(
        name,
        kind=_kind(parts, name) if definition is None else definition.kind,
        live=live,
        workers=workers,
        finished=finished,
        input=None if definition is None else input_schema(definition.signature),
    )


OPERATIONS = (
    operation(
        "server.versions",
        "GET /versions",
        Right.VIEW,
        handler=list_versions,
        answer=list[LiveVersionView],
    ),
    operation(
        "server.check_versions",
        "POST /versions/check",
        Right.OPERATE,
        handler=check_versions,
        answer=list[VersionVerdictView],
    ),
    operation(
        "server.workflow_sizes",
        "GET /storage/workflows",
        Right.VIEW,
        handler=workflow_sizes,
        answer=list[WorkflowSizeView],
    ),
    operation(
        "server.workflows",
        "GET /workflows",
        Right.VIEW,
        handler=list_workflows,
        pages_by="after",
        cursor="name",
        answer=list[WorkflowView],
    ),
    operation(
        "server.workflow",
        "GET /workflows/{name}",
        Right.VIEW,
        handler=get_workflow,
        answer=WorkflowView,
    ),
)
