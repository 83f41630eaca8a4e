"""Writing very many members of graphs: in parts that nobody sees, before one small transaction
makes all of them visible.

While a transaction writes, nobody else can: heartbeats and steps wait for it. So no transaction
writes more than a part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from holdfast.engine.runtime.graph_stages import Owned, next_part, prepared_stage, stage_parts
from holdfast.errors import GraphBusy, GraphChanged, HoldfastError, UsageError
from holdfast.service.runs import Request
from holdfast.store.contract.graphs import SweepStages
from holdfast.store.contract.growing import PreparedMember

TRIES = 5
"""How often a stage is written again that somebody has deleted meanwhile."""

T = TypeVar("T")
Do = Callable[[Request], Any]


def write_stage(
    do: Do, stage_id: str, members: Sequence[Owned], *, namespace: str, extends: str | None = None
) -> PreparedMember:
    """Write members that nobody sees yet. Raises GraphBusy when another process is writing the same
    ones."""
    parts = stage_parts(stage_id, members, namespace=namespace, extends=extends)
    part = next(parts, None)
    while part is not None:
        part = next_part(parts, do(Request(part, as_answered)))
    return prepared_stage(stage_id, members)


def as_answered(answer: Any) -> Any:
    """Return the answer of a transition as it is."""
    return answer


def sweep(do: Do, stage_id: str, *, give_up: bool = False) -> bool:
    """Delete what is left of a stage or a pruned graph, or a stage that is given up; return whether
    anything was."""
    swept = False
    while do(Request(SweepStages(stage_id, give_up), as_answered)):
        swept = True
    return swept


def sweep_all(do: Do) -> None:
    """Delete what is left of graphs that were pruned."""
    while do(Request(SweepStages(), as_answered)):
        pass


def staged(do: Do, stage_id: str, write: Callable[[], T]) -> T:
    """Write a stage and make it visible, again if the graph was changed meanwhile; if that is
    refused, delete the stage."""
    try:
        for _ in range(TRIES):
            with suppress(GraphChanged):
                return unhindered(do, write)
        return unhindered(do, write)
    except UsageError:
        with suppress(HoldfastError):  # else whoever leads will do so
            sweep(do, stage_id, give_up=True)
        raise


def unhindered(do: Do, write: Callable[[], T]) -> T:
    """Write something, after deleting what earlier attempts have left in its way. Raises GraphBusy
    when somebody is at it."""
    for _ in range(TRIES):
        try:
            return write()
        except GraphBusy as busy:
            if not sweep(do, str(busy.facts["stage"])):
                raise
    return write()
