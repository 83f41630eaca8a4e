"""Views of leases: what a holder of a task needs to work on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast.authoring.python.waits import Received
from holdfast.core.runs import ChildRecord, ErrorInfo
from holdfast.core.signature import GivenArguments
from holdfast.core.status import Status
from holdfast.views.runs import RunView
from holdfast.views.values import error


class LeaseSignalView(msgspec.Struct, kw_only=True):
    """A signal that ended the last wait of a run."""

    name: str
    payload: Any
    source: str | None
    wait: str | None


class TaskChildView(msgspec.Struct, kw_only=True):
    """A child of a leased run. ``result`` and ``error`` are None until it has ended."""

    id: str
    status: Status
    result: Any
    error: ErrorInfo | None


def signal_of(signal: Received) -> LeaseSignalView:
    """Return the view of a signal that ended a wait."""
    return LeaseSignalView(
        name=signal.name, payload=signal.payload, source=signal.source, wait=signal.wait
    )


def child_of(child: ChildRecord, decode: Callable[[bytes], Any]) -> TaskChildView:
    """Return the view of a child, whose values are open."""
    return TaskChildView(
        id=child.id,
        status=child.status,
        result=None if child.result is None else decode(child.result),
        error=error(child.error),
    )


class LeaseView(msgspec.Struct, kw_only=True):
    """A leased run. ``lease`` is the proof that a holder gives with every call. ``args`` and
    ``kwargs`` are the arguments of its start, and ``input`` is all of them as one value.
    ``signals``, ``timed_out`` and ``released_by`` say how the last wait of the run ended."""

    lease: str
    run: str
    workflow: str
    lane: str
    args: list[Any]
    kwargs: dict[str, Any]
    input: Any
    attempt: int
    generation: int
    signals: list[LeaseSignalView]
    timed_out: bool
    released_by: str | None
    cancel_reason: str | None
    children: list[TaskChildView]


def of(
    run: RunView,
    *,
    proof: str,
    arguments: GivenArguments,
    attempt: int,
    signals: Sequence[Received],
    timed_out: bool,
    released_by: str | None,
    children: Sequence[TaskChildView],
) -> LeaseView:
    """Return the view of a lease; *arguments* are those of the run's start."""
    return LeaseView(
        lease=proof,
        run=run.id,
        workflow=run.workflow,
        lane=run.lane,
        args=arguments.args,
        kwargs=arguments.kwargs,
        input=arguments.value,
        attempt=attempt,
        generation=run.generation,
        signals=[signal_of(signal) for signal in signals],
        timed_out=timed_out,
        released_by=released_by,
        cancel_reason=run.cancel_reason,
        children=list(children),
    )
