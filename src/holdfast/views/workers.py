"""Views of workers, and of runs that no worker serves."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.core.why.workers import Liveness, UnservedRoute, WorkerFacts
from holdfast.views.text import short
from holdfast.views.values import instant


class WorkerView(msgspec.Struct, kw_only=True):
    """A worker. ``workflows``, ``lanes`` and ``namespace`` say what it serves; None means all.
    ``workflows`` maps names to versions. ``at_work`` is the number of its runs that do not wait;
    ``claims`` is False for a holder of leases that claims no more runs."""

    worker: str
    session: str
    state: Liveness
    host: str
    pid: int
    started_at: datetime
    beat_at: datetime
    expires_at: datetime
    at_work: int
    workflows: dict[str, list[str] | None] | None
    lanes: list[str] | None
    capabilities: list[str]
    namespace: str | None
    concurrency: int
    claims: bool

    @property
    def place(self) -> str:
        """The name of the worker with its process and host, for people."""
        process = f"pid {self.pid}" if self.pid else "a holder of leases"
        return f"worker {self.worker} ({process} on {self.host})"


class RemovedWorkerView(msgspec.Struct, kw_only=True):
    """A worker that an operator declared dead, and the ids of the runs that it has lost."""

    worker: str
    session: str
    runs: list[str]


class UnservedView(msgspec.Struct, kw_only=True):
    """Claimable runs that no live worker serves: their number, one of them, the part of their route
    that no worker offers, and the command that helps."""

    workflow: str
    version: str
    lane: str
    namespace: str
    capabilities: list[str]
    runs: int
    example: str
    missing: str
    remedy: str
    text: str


def of(worker: WorkerFacts) -> WorkerView:
    """Return the view of a worker."""
    session = worker.session
    offer = worker.offer
    return WorkerView(
        worker=session.worker,
        session=session.id,
        state=worker.life,
        host=session.host,
        pid=session.pid,
        started_at=instant(session.started_at),
        beat_at=instant(session.beat_at),
        expires_at=instant(session.expires_at),
        at_work=worker.at_work,
        workflows=offer.workflows,
        lanes=offer.lanes,
        capabilities=offer.capabilities,
        namespace=offer.namespace,
        concurrency=offer.concurrency,
        claims=offer.claims,
    )


def unserved_of(route: UnservedRoute) -> UnservedView:
    """Return the view of runs that no worker serves."""
    return UnservedView(
        workflow=route.route.workflow,
        version=route.route.version,
        lane=route.route.lane,
        namespace=route.route.namespace,
        capabilities=list(route.route.capabilities),
        runs=route.runs,
        example=route.example,
        missing=route.missing,
        remedy=route.remedy,
        text=route.text,
    )


def serves(worker: WorkerView) -> str:
    """Return in one line what a worker serves."""
    if not worker.claims:
        return "only the runs that it has leased"
    parts = ["any workflow"]
    if worker.workflows is not None:
        parts = [short(", ".join(sorted(worker.workflows)), 60) or "nothing"]
    if worker.lanes is not None:
        parts.append(f"in {', '.join(worker.lanes)}")
    if worker.capabilities:
        parts.append(f"with {', '.join(worker.capabilities)}")
    if worker.namespace:
        parts.append(f"of namespace {worker.namespace}")
    return " ".join(parts)
