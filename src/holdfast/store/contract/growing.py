"""Add members to a graph: from outside, or by a member with its own Advance."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from holdfast.core.graphs.model import GraphPatch
from holdfast.core.payload import Fetch, Payload
from holdfast.core.runs import Route

Compose = Callable[
    [str, bytes, Mapping[str, tuple[str, bytes]], Fetch], tuple[bytes, Sequence[Payload]]
]
"""Return the input of a member's run, and its payloads, from the id of the run, its stored input,
the results that it takes by the names of their members, and a function that fetches payloads. All
of these may be sealed. Raises KeyMissing, BadData."""

Lease = Callable[[Route], str | None]
"""Return the session to which a run of that route can be leased at its start, or None."""


class PreparedMember(msgspec.Struct):
    """A stage: members that earlier transactions have written, and that the next operation makes
    visible.

    ``members`` is the number of members by graph. The members name these ``lanes`` and ``budgets``.
    ``stops`` tells whether a group cancels its remaining upstreams.
    """

    id: str
    members: Mapping[str, int]
    lanes: Collection[str] = ()
    budgets: Collection[str] = ()
    stops: bool = False


class AddMembers(msgspec.Struct, kw_only=True):
    """Add members and dependencies to a graph that has not ended.

    Answers:
        StagedGraph    the graph after the change
    Raises:
        GraphNotFound  there is no such graph in the namespace
        GraphFinished  the graph is not running
        GraphChanged   *revision* is given and is not the revision of the graph, or the stage of
                       *prepared* is not complete
        MemberStarted  a new dependency belongs to a member that has started
        what StageGraphs raises
    """

    graph_id: str
    namespace: str
    patch: GraphPatch
    compose: Compose
    revision: int | None = None
    lease: Lease | None = None
    prepared: PreparedMember | None = None
    """The new members, if they are too many for one transaction. The caller has checked them
    against ``revision``."""
