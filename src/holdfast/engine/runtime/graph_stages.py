"""Divide very many new members of a graph into parts, each written by a transaction of its own.

Heartbeats, steps and all other writes wait while a transaction writes. A part is invisible until
one small transaction makes all parts of its stage visible.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator, Sequence

from holdfast.core.graphs.model import (
    MARK,
    EdgeRecord,
    GraphStatus,
    NewMember,
    RemainderPolicy,
    name_of,
)
from holdfast.core.graphs.validation import check_patch
from holdfast.errors import GraphChanged, GraphFinished, GraphNotFound
from holdfast.store.graphs.operations import AddMembers, PreparedMember, WriteStagePart
from holdfast.store.store import Store

PART = 2000
"""How many rows of members, groups and edges one transaction writes at most; a member is not
divided."""


Owned = tuple[str, NewMember]
"""A new member with the id of its graph."""


def weight(member: NewMember) -> int:
    """Return how many rows a member has."""
    return 1 + sum(1 + len(group.upstreams) for group in member.groups)


def is_large(members: Sequence[Owned]) -> bool:
    """Return whether these members are too many for one transaction."""
    return len(members) > PART or sum(weight(member) for _, member in members) > PART


def stage_id_of(owner: str, marks: Sequence[str]) -> str:
    """Return the id of a stage: the same for the same members, so that a retry continues the
    stage."""
    digest = hashlib.sha256("\n".join(marks).encode()).hexdigest()[:32]
    return f"{owner}{MARK}{digest}"


def own_stage_id(graph_id: str, run_id: str, fingerprint: str) -> str:
    """Return the id of the stage in which a member extends its own graph.

    All stages of one member have a common prefix, so that its next holder recognises the stages of
    an earlier one.
    """
    return f"{graph_id}{MARK}{_own(run_id)}{fingerprint[:16]}"


def is_own_stage(stage_id: str, graph_id: str | None, run_id: str) -> bool:
    """Return whether a member of a graph has written this stage."""
    return stage_id.startswith(f"{graph_id}{MARK}{_own(run_id)}")


def _own(run_id: str) -> str:
    return hashlib.sha256(run_id.encode()).hexdigest()[:16]


def checked_revision(store: Store, op: AddMembers) -> int:
    """Return the revision of a graph that the new members fit.

    Raises GraphNotFound, GraphFinished, GraphChanged, and the errors of check_patch.
    """
    whole = store.graphs.snapshot(op.graph_id)
    if whole is None or whole.graph.namespace != op.namespace:
        raise GraphNotFound(graph=op.graph_id)
    graph = whole.graph
    if graph.status is not GraphStatus.RUNNING:
        raise GraphFinished(graph=op.graph_id, status=graph.status.value)
    if op.revision is not None and op.revision != graph.revision:
        raise GraphChanged(graph=op.graph_id, expected=op.revision, actual=graph.revision)
    existing = dict.fromkeys((member.name for member in whole.members.values()), graph.namespace)
    edges = [
        EdgeRecord(name_of(edge.upstream), name_of(edge.dependent), edge.number)
        for edge in whole.edges
    ]
    check_patch(op.graph_id, op.namespace, op.patch, existing, edges if op.patch.groups else ())
    return graph.revision


def next_part(parts: Generator[WriteStagePart, int, None], written: int) -> WriteStagePart | None:
    """Return the part of a stage after *written* members, or None."""
    try:
        return parts.send(written)
    except StopIteration:
        return None


def stage_parts(
    stage_id: str, members: Sequence[Owned], *, namespace: str, extends: str | None = None
) -> Generator[WriteStagePart, int, None]:
    """Yield the parts of a stage. Send the number of written members after each."""
    inside = {member.name for _, member in members} if extends is not None else set()
    written = 0
    while written < len(members):
        part = members[written : written + _fitting(members, written)]
        outside = (
            {name for name in _upstreams(part) if name not in inside}
            if extends is not None
            else set()
        )
        op = WriteStagePart(
            stage_id=stage_id,
            namespace=namespace,
            members=part,
            written=written,
            extends=extends,
            outside=sorted(outside),
        )
        written = yield op


def _fitting(members: Sequence[Owned], first: int) -> int:
    """Return how many members from the first on fit into one part: at least one."""
    room = PART
    count = 0
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


def prepared_stage(stage_id: str, members: Sequence[Owned]) -> PreparedMember:
    """Return the description by which the members of a stage become visible once they are
    written."""
    sizes: dict[str, int] = {}
    lanes: set[str] = set()
    budgets: set[str] = set()
    stops = False
    for graph_id, member in members:
        sizes[graph_id] = sizes.get(graph_id, 0) + 1
        lanes.add(member.spec.route.lane)
        budgets.update(member.spec.budgets)
        stops = stops or any(group.rest is RemainderPolicy.CANCEL for group in member.groups)
    return PreparedMember(stage_id, sizes, sorted(lanes), sorted(budgets), stops)
