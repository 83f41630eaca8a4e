"""What can be wrong with graphs."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError


class GraphRefused(UsageError):
    """What was asked of a graph cannot be."""


class GraphNotFound(GraphRefused):
    """There is no such graph: `holdfast graphs` lists what there is."""


class GraphExists(GraphRefused):
    """There is another graph with this id: choose another one, or start the very same graph."""


class GraphBusy(GraphRefused):
    """Another process is adding these members, or deleting what is left of them: try again when it
    is done. What a process that has died was adding is deleted after ten minutes."""


class GraphChanged(GraphRefused):
    """The graph was changed by somebody else meanwhile: look at it again, then decide."""


class GraphFinished(GraphRefused):
    """This graph has ended, or was cancelled: it takes nothing new. Start another graph."""


class GraphCycle(GraphRefused):
    """These members would wait for each other for ever: take one of the dependencies away."""


class SelfEdge(GraphRefused):
    """A member cannot wait for itself."""


class EdgeExists(GraphRefused):
    """This member waits for that one already: name it once."""


class EdgeAcrossNamespaces(GraphRefused):
    """A graph and all its members live in one namespace."""


class MemberNotFound(GraphRefused):
    """The graph has no such member: `holdfast graphs show` lists them."""


class MemberExists(GraphRefused):
    """The graph has a member of this name already: give another name."""


class MemberElsewhere(GraphRefused):
    """This run is no member of this graph: a run belongs to one graph for good."""


class MemberStarted(GraphRefused):
    """This member has been started, or has ended: it cannot be made to wait for more."""


class BadGraph(GraphRefused):
    """This graph makes no sense."""


class StageGone(UsageError):
    """What was written for a new run was deleted before all of it was there, because nothing was
    added for long: try again."""


class GraphFailed(HoldfastError):
    """The graph did not complete: `holdfast graphs show` tells which members failed or were
    skipped."""


class GraphCancelled(GraphFailed):
    """The graph was cancelled."""
