"""Adding to a graph from inside a member. Very many members are written in parts before the commit
that records them.

The holder of the run writes the parts, and its generation does not guard them: they are invisible
until the commit, which it guards. After a crash the next holder goes on with the same stage, or
gives it up when the code wants to add something else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from holdfast.core.commands import Command, ExtendGraph
from holdfast.core.graphs.model import GraphPatch
from holdfast.engine.execution.commit_buffer import CommitBuffer
from holdfast.engine.execution.pending.base import Execution
from holdfast.engine.runtime import graph_stages
from holdfast.engine.runtime.graph_stages import (
    Owned,
    checked_revision,
    is_large,
    is_own_stage,
    next_part,
    own_stage_id,
    prepared_stage,
)
from holdfast.errors import GraphBusy, GraphChanged, GraphRefused, LaneDraining, LeaseLost
from holdfast.store.database import Operation
from holdfast.store.graphs.operations import AddMembers, SweepStages
from holdfast.store.runs.operations import Advance
from holdfast.store.streams.operations import AppendOutput

Persist = Callable[[Operation], Awaitable[Any]]


def with_stage(op: AddMembers, run_id: str, fingerprint: str) -> AddMembers:
    """Name the stage of new members that are too many for one transaction; they are still to be
    written."""
    members = _owned(op)
    if is_large(members):
        op.prepared = prepared_stage(own_stage_id(op.graph_id, run_id, fingerprint), members)
    return op


def is_large_growth(command: Command) -> bool:
    """Return whether a command adds more members than one transaction writes."""
    return type(command) is ExtendGraph and is_large(
        [(command.graph_id, member) for member in command.patch.members]
    )


def fills_a_commit(batch: CommitBuffer) -> bool:
    """Return whether the new members so far are enough for one commit."""
    weight = sum(
        graph_stages.weight(member) for op in batch.of(AddMembers) for member in op.patch.members
    )
    return weight > graph_stages.PART


def _owned(op: AddMembers) -> list[Owned]:
    return [(op.graph_id, member) for member in op.patch.members]


async def write_growth(run: Execution, op: Advance, persist: Persist) -> Any:
    """Write a commit that adds to the graph of its run, after the members that are too many for it.
    If others have changed the graph meanwhile, the members are checked once more. Raises what
    ExtendGraph raises, but GraphChanged."""
    wanted = op.of(AddMembers)
    while True:
        try:
            await _write_stages(run, op, wanted, persist)
            return await persist(op)
        except GraphChanged:
            continue  # each time another change was committed, so that this comes to an end
        except GraphBusy as busy:
            if not await _swept(run, str(busy.facts["stage"]), persist):
                await _give_up(run, wanted, persist)
                raise
        except (GraphRefused, LaneDraining):
            await _give_up(run, wanted, persist)
            raise


async def _write_stages(
    run: Execution, op: Advance, wanted: Sequence[AddMembers], persist: Persist
) -> None:
    """Write all stages that a commit makes visible. Later output of the run must not overtake the
    output that the commit has."""
    has_output = bool(op.of(AppendOutput))
    if has_output:
        run.output.hold()
    others = [effect for effect in op.effects if type(effect) is not AddMembers]
    try:
        op.effects = [
            *others,
            *[await _write_stage_first(run, growth, persist) for growth in wanted],
        ]
    except BaseException:
        if has_output:
            run.output.resume()
        raise


async def _write_stage_first(run: Execution, op: AddMembers, persist: Persist) -> AddMembers:
    """Write the members that are too many for one transaction, and return what makes them
    visible."""
    if op.prepared is None:
        return op
    revision = await run.context.threads.run(partial(checked_revision, run.context.store, op))
    parts = graph_stages.stage_parts(
        op.prepared.id, _owned(op), namespace=op.namespace, extends=op.graph_id
    )
    part = next(parts, None)
    while part is not None:
        part = next_part(parts, await persist(part))
    patch = GraphPatch((), op.patch.groups, op.patch.joins)
    return msgspec.structs.replace(op, patch=patch, revision=revision)


async def _swept(run: Execution, stage_id: str, persist: Persist) -> bool:
    """Delete a stage that is in the way: one that was given up, or that an earlier holder of this
    run has left behind. Return whether anything was deleted."""
    _check_lease(
        run
    )  # a holder that has lost the run must not give up the stage of the next holder
    return await _sweep(
        stage_id, persist, give_up=is_own_stage(stage_id, run.state.run.graph_id, run.state.run.id)
    )


async def _give_up(run: Execution, grows: Sequence[AddMembers], persist: Persist) -> None:
    """Delete the stages of members that were refused."""
    _check_lease(run)
    for op in grows:
        if op.prepared is not None:
            await _sweep(op.prepared.id, persist, give_up=True)


async def _sweep(stage_id: str, persist: Persist, *, give_up: bool) -> bool:
    swept = False
    while await persist(SweepStages(stage_id, give_up)):
        swept = True
    return swept


def _check_lease(run: Execution) -> None:
    """Raise LeaseLost if this worker no longer holds the run."""
    stored = run.context.store.runs.get(run.state.run.id)
    if stored is None or stored.generation != run.state.run.generation:
        raise LeaseLost(run=run.state.run.id, generation=run.state.run.generation)
