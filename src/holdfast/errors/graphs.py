"""Errors about graphs."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError, cause_first, places_of, raised_of


class GraphRefused(UsageError):
    """The request is not possible for this graph."""


class GraphNotFound(GraphRefused):
    """There is no such graph: `holdfast graphs` lists the graphs."""


class GraphExists(GraphRefused):
    """This id belongs to another graph: choose another id, or start exactly the same graph."""


class GraphBusy(GraphRefused):
    """Another process is adding these members, or deleting them: try again when it is done. The
    unfinished members of a process that died are deleted after ten minutes."""


class GraphChanged(GraphRefused):
    """Another caller has changed the graph since it was read: read it again, then decide."""


class GraphFinished(GraphRefused):
    """This graph has ended or was cancelled and accepts no new members: start another graph."""


class GraphCycle(GraphRefused):
    """These members depend on each other in a cycle: remove one of the dependencies."""


class SelfEdge(GraphRefused):
    """A member cannot depend on itself: remove the dependency."""


class EdgeExists(GraphRefused):
    """This member depends on that one already: name each dependency once."""


class EdgeAcrossNamespaces(GraphRefused):
    """A graph and all its members must be in one namespace: start a graph of its own in the other
    namespace."""


class MemberNotFound(GraphRefused):
    """The graph has no such member: `holdfast graphs show` lists its members."""


class MemberExists(GraphRefused):
    """The graph has a member with this name already: choose another name."""


class MemberElsewhere(GraphRefused):
    """This run is not a member of this graph: a run cannot move to another graph."""


class MemberStarted(GraphRefused):
    """This member has started or ended already, so it can get no further dependency: let a new
    member wait instead."""


class BadGraph(GraphRefused):
    """This graph is not valid: correct it as the facts say."""


class StageGone(UsageError):
    """The unfinished copy of a history for a new run was deleted, because nothing was added to it
    for too long: try again."""


class GraphFailed(HoldfastError):
    """The graph did not complete: `holdfast graphs show` lists the members that failed or were
    skipped."""

    def _text(self) -> str:
        """Return the exception of the first failed member, and its place: ``ValueError: card
        expired (in step charge, member a, graph g1); skipped: b``."""
        facts = self.facts
        if not raised_of(facts):
            return super()._text()
        places = [*places_of(facts), f"member {facts.get('member')}", f"graph {facts.get('graph')}"]
        counts = [f"{name}: {facts[name]}" for name in ("failed", "skipped") if facts.get(name)]
        return "; ".join([cause_first(facts, places), *counts])


class GraphCancelled(GraphFailed):
    """The graph was cancelled."""
