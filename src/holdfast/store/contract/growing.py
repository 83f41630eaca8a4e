"""Adding to a graph: from outside, or by one of its members with whatever else it has to say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from holdfast.core.graphs.model import GraphPatch
from holdfast.core.payload import Fetch, Payload
from holdfast.core.runs import Route

Compose = Callable[
    [str, bytes, Mapping[str, tuple[str, bytes]], Fetch], tuple[bytes, Sequence[Payload]]
]
"""Makes the input of a run of what is stored for it and the results that it takes, by the names
of their members. All of them may be sealed, and so may what comes of it. Raises KeyMissing,
BadData."""

Lease = Callable[[Route], str | None]
"""Names the session to which a run of that route can be born leased."""


class PreparedMember(msgspec.Struct):
    """A stage: members that earlier transactions have written, and that the next one makes visible.
    ``members`` says how many each graph has. ``lanes`` and ``budgets`` are those that they name;
    ``stops`` says whether a group stops its rest."""

    id: str
    members: Mapping[str, int]
    lanes: Collection[str] = ()
    budgets: Collection[str] = ()
    stops: bool = False


class AddMembers(msgspec.Struct, kw_only=True):
    """Add to a graph that has not ended. Answers Staged. Raises GraphNotFound, GraphFinished,
    GraphChanged when its revision is another one, MemberStarted, and what StageGraphs raises."""

    graph_id: str
    namespace: str
    patch: GraphPatch
    compose: Compose
    revision: int | None = None
    lease: Lease | None = None
    prepared: PreparedMember | None = None
    """The new members, where they are too many for one transaction: the caller has checked them
    against the ``revision``. Raises GraphChanged when the stage is not whole."""
