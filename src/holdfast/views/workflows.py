"""Views of workflows: their versions, live runs and last outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import msgspec

from holdfast.core.dry_replay import Judgement
from holdfast.core.runs import Route, RunRecord
from holdfast.views.dry_replay import detail_of
from holdfast.views.workers import WorkerView


class WorkflowVersionView(msgspec.Struct, kw_only=True):
    """One version of a workflow: its live runs, and whether a live worker serves it."""

    version: str
    live: int
    served: bool


class LiveVersionView(msgspec.Struct, kw_only=True):
    """A version of a workflow that has live runs."""

    workflow: str
    version: str
    live: int
    served: bool


class VersionVerdictView(msgspec.Struct, kw_only=True):
    """Whether the code of this process can continue the live runs of a version. ``verdict`` is
    "fits", "objections" or "unknown" (the process does not have the workflow); ``judged`` is the
    number of runs that were replayed, the newest ones; ``objections`` are the reasons by run."""

    workflow: str
    version: str
    verdict: str
    judged: int
    objections: dict[str, str]


class WorkflowView(msgspec.Struct, kw_only=True):
    """A workflow that runs or that a worker offers. ``input`` is the JSON Schema of its arguments,
    if this process knows the workflow. ``outcomes`` and ``median_seconds`` are those of its last
    finished runs."""

    name: str
    kind: str | None
    live: int
    versions: list[WorkflowVersionView]
    outcomes: dict[str, int]
    median_seconds: float | None
    input: dict[str, Any] | None


def of(
    name: str,
    *,
    kind: str | None,
    live: Mapping[str, int],
    workers: Sequence[WorkerView],
    finished: Sequence[RunRecord],
    input: dict[str, Any] | None,
) -> WorkflowView:
    """Return the view of a workflow. *live* are its live runs by version, *finished* its last
    finished runs."""
    versions = [
        WorkflowVersionView(
            version=version, live=number, served=any(serves(w, name, version) for w in workers)
        )
        for version, number in live.items()
    ]
    seconds = [
        (run.finished_at - run.started_at) / 1_000_000
        for run in finished
        if run.finished_at is not None and run.started_at is not None
    ]
    return WorkflowView(
        name=name,
        kind=kind,
        live=sum(live.values()),
        versions=versions,
        outcomes=dict(Counter(run.status.value for run in finished)),
        median_seconds=median(seconds) if seconds else None,
        input=input,
    )


def verdict_of(name: str, version: str, judgements: Sequence[Judgement]) -> VersionVerdictView:
    """Return the verdict on a version by the judgements of some of its runs; without any, it is
    unknown."""
    objections = {
        judgement.run_id: f"{judgement.verdict.value}: {detail_of(judgement)}".rstrip(": ")
        for judgement in judgements
        if not judgement.fits
    }
    verdict = "unknown"
    if judgements:
        verdict = "objections" if objections else "fits"
    return VersionVerdictView(
        workflow=name,
        version=version,
        verdict=verdict,
        judged=len(judgements),
        objections=objections,
    )


def serves(worker: WorkerView, workflow: str, version: str) -> bool:
    """Return whether a live worker claims runs of a version of a workflow."""
    if not worker.claims or worker.state.value != "alive":
        return False
    if worker.workflows is None:
        return True
    if workflow not in worker.workflows:
        return False
    versions = worker.workflows[workflow]
    return versions is None or version in versions


def names_of(
    routes: Sequence[Route], workers: Sequence[WorkerView], namespace: str | None
) -> dict[str, list[str]]:
    """Return the workflows of all routes and of live workers, in order, with their versions.
    Without *namespace*, the workflows of all namespaces."""
    versions: dict[str, set[str]] = {}
    for route in routes:
        if namespace is None or route.namespace == namespace:
            versions.setdefault(route.workflow, set()).add(route.version)
    for worker in workers:
        if worker.claims and worker.state.value == "alive" and worker.workflows is not None:
            for workflow, served in worker.workflows.items():
                versions.setdefault(workflow, set()).update(served or ())
    return {name: sorted(versions[name]) for name in sorted(versions)}
