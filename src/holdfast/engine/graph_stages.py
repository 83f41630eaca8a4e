"""Writing very many members of graphs: in parts that nobody sees, before one small transaction makes all of them visible.

While a transaction writes, nobody else can: heartbeats and steps wait for it. So no transaction writes more than a part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from holdfast.core.graphs import records as r
from holdfast.core.graphs.structure import check_patch
from holdfast.engine.client import Request
from holdfast.errors import GraphBusy, GraphChanged, GraphFinished, GraphNotFound, HoldfastError, UsageError
from holdfast.store import contract as c

PART = 2000
"""How many rows of members, groups and edges one transaction writes at most; a member is not divided."""

TRIES = 5
"""How often a stage is written again that somebody has deleted meanwhile."""

T = TypeVar("T")
Do = Callable[[Request], Any]
Owned = tuple[str, r.NewMember]
"""A new member with the id of its graph."""


def weight(member: r.NewMember) -> int:
    """Return how many rows a member has."""
    return 1 + sum(1 + len(group.upstreams) for group in member.groups)


def is_large(members: Sequence[Owned]) -> bool:
    """Return whether these members are too many for one transaction."""
    return len(members) > PART or sum(weight(member) for _, member in members) > PART


def stage_id_of(owner: str, marks: Sequence[str]) -> str:
    """Return the id of a stage: the same for the same members, so that whoever tries again goes on where the last one ended."""
    digest = hashlib.sha256("\n".join(marks).encode()).hexdigest()[:32]
    return f"{owner}{r.MARK}{digest}"


def own_stage_id(graph_id: str, run_id: str, fingerprint: str) -> str:
    """Return the id of the stage in which a member adds to its own graph: all stages of one member begin alike, so that its next
    holder recognises what an earlier one has left behind."""
    return f"{graph_id}{r.MARK}{_own(run_id)}{fingerprint[:16]}"


def is_own_stage(stage_id: str, run_id: str) -> bool:
    """Return whether a member has written this stage."""
    return stage_id.startswith(f"{r.graph_of(run_id)}{r.MARK}{_own(run_id)}")


def _own(run_id: str) -> str:
    return hashlib.sha256(run_id.encode()).hexdigest()[:16]


def checked_revision(store: c.Store, op: c.ExtendGraph) -> int:
    """Return the revision of a graph that the new members fit. Raises GraphNotFound, GraphFinished, GraphChanged, and what
    check_patch raises."""
    whole = store.whole_graph(op.graph_id)
    if whole is None or whole.graph.namespace != op.namespace:
        raise GraphNotFound(graph=op.graph_id)
    graph = whole.graph
    if graph.status is not r.GraphStatus.RUNNING:
        raise GraphFinished(graph=op.graph_id, status=graph.status.value)
    if op.revision is not None and op.revision != graph.revision:
        raise GraphChanged(graph=op.graph_id, expected=op.revision, actual=graph.revision)
    there = dict.fromkeys((member.name for member in whole.members.values()), graph.namespace)
    edges = [r.Edge(r.name_of(edge.upstream), r.name_of(edge.dependent), edge.number) for edge in whole.edges]
    check_patch(op.graph_id, op.namespace, op.patch, there, edges if op.patch.groups else ())
    return graph.revision


def write_stage(
    do: Do, stage_id: str, members: Sequence[Owned], *, namespace: str, extends: str | None = None
) -> c.Prepared:  # fmt: skip
    """Write members that nobody sees yet. Raises GraphBusy when another process is writing the same ones."""
    parts = stage_parts(stage_id, members, namespace=namespace, extends=extends)
    part = next(parts, None)
    while part is not None:
        part = next_part(parts, do(Request(part, as_answered)))
    return prepared_stage(stage_id, members)


def next_part(parts: Generator[c.StagePart, int, None], written: int) -> c.StagePart | None:
    """Return the part of a stage that follows so many members, None when there is none."""
    try:
        return parts.send(written)
    except StopIteration:
        return None


def stage_parts(
    stage_id: str, members: Sequence[Owned], *, namespace: str, extends: str | None = None
) -> Generator[c.StagePart, int, None]:  # fmt: skip
    """Yield the parts of a stage; the answer to each says how many members are written."""
    inside = {member.name for _, member in members} if extends is not None else set()
    written = 0
    while written < len(members):
        part = members[written : written + _fitting(members, written)]
        outside = {name for name in _upstreams(part) if name not in inside} if extends is not None else set()
        op = c.StagePart(
            stage_id=stage_id, namespace=namespace, members=part, written=written, extends=extends, outside=sorted(outside)
        )
        written = yield op


def _fitting(members: Sequence[Owned], first: int) -> int:
    """Return how many members from the first on fit into one part: at least one."""
    room, count = PART, 0
    for _, member in members[first : first + PART]:
        room -= weight(member)
        if room < 0 and count:
            break
        count += 1
    return count


def _upstreams(part: Sequence[Owned]) -> Iterator[str]:
    for _, member in part:
        for group in member.groups:
            yield from group.upstreams


def prepared_stage(stage_id: str, members: Sequence[Owned]) -> c.Prepared:
    """Return what makes the members of a stage visible once they are written."""
    sizes: dict[str, int] = {}
    lanes: set[str] = set()
    budgets: set[str] = set()
    stops = False
    for graph_id, member in members:
        sizes[graph_id] = sizes.get(graph_id, 0) + 1
        lanes.add(member.spec.route.lane)
        budgets.update(member.spec.budgets)
        stops = stops or any(group.rest is r.Rest.CANCEL for group in member.groups)
    return c.Prepared(stage_id, sizes, sorted(lanes), sorted(budgets), stops)


def as_answered(answer: Any) -> Any:
    """Return the answer of a transition as it is."""
    return answer


def sweep(do: Do, stage_id: str, *, give_up: bool = False) -> bool:
    """Delete what is left of a stage or a pruned graph, or a stage that is given up; return whether anything was."""
    swept = False
    while do(Request(c.SweepStages(stage_id, give_up), as_answered)):
        swept = True
    return swept


def sweep_all(do: Do) -> None:
    """Delete what is left of graphs that were pruned."""
    while do(Request(c.SweepStages(), as_answered)):
        pass


def staged(do: Do, stage_id: str, write: Callable[[], T]) -> T:
    """Write a stage and make it visible, again if the graph was changed meanwhile; if that is refused, delete the stage."""
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
    """Write something, after deleting what earlier attempts have left in its way. Raises GraphBusy when somebody is at it."""
    for _ in range(TRIES):
        try:
            return write()
        except GraphBusy as busy:
            if not sweep(do, str(busy.facts["stage"])):
                raise
    return write()
