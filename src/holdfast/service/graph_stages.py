"""Write very many graph members: in invisible parts, which one small transaction makes visible.

While a transaction writes, all other writers wait, heartbeats and steps among them. Therefore no
transaction writes more than one part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from holdfast.engine.runtime.graph_stages import Owned, next_part, prepared_stage, stage_parts
from holdfast.errors import GraphBusy, GraphChanged, HoldfastError, UsageError
from holdfast.service.requests import Request, identity
from holdfast.store.graphs.operations import PreparedMember, SweepStages

TRIES = 5
"""How often a stage is written again after another process has deleted it."""

T = TypeVar("T")
Do = Callable[[Request[Any]], Any]
"""Applies the operation of a request and returns the decoded answer."""


def write_stage(
    do: Do, stage_id: str, members: Sequence[Owned], *, namespace: str, extends: str | None = None
) -> PreparedMember:
    """Write members that are not visible yet. Raises GraphBusy if another process is writing the
    same stage."""
    parts = stage_parts(stage_id, members, namespace=namespace, extends=extends)
    part = next(parts, None)
    while part is not None:
        part = next_part(parts, do(Request(part, identity)))
    return prepared_stage(stage_id, members)


def sweep(do: Do, stage_id: str, *, give_up: bool = False) -> bool:
    """Delete the rows of an abandoned stage or a pruned graph, or, with *give_up*, of this stage in
    any case. Return whether there were any."""
    swept = False
    while do(Request(SweepStages(stage_id, give_up), identity)):
        swept = True
    return swept


def sweep_all(do: Do) -> None:
    """Delete the rows of all abandoned stages and pruned graphs."""
    while do(Request(SweepStages(), identity)):
        pass


def commit_stage(do: Do, stage_id: str, write: Callable[[], T]) -> T:
    """Call *write*, which writes a stage and makes it visible; call it again if the graph was
    changed meanwhile. If it is refused with a UsageError, delete the stage."""
    try:
        for _ in range(TRIES):
            with suppress(GraphChanged):
                return after_sweeping(do, write)
        return after_sweeping(do, write)
    except UsageError:
        with suppress(HoldfastError):  # the leader deletes abandoned stages anyway
            sweep(do, stage_id, give_up=True)
        raise


def after_sweeping(do: Do, write: Callable[[], T]) -> T:
    """Call *write*; if it is refused because of an abandoned stage, delete that stage and try
    again. Raises GraphBusy if another process is writing the stage."""
    for _ in range(TRIES):
        try:
            return write()
        except GraphBusy as busy:
            if not sweep(do, str(busy.facts["stage"])):
                raise
    return write()
