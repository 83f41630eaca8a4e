"""What can be wrong with graphs."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError


class GraphNotFound(UsageError):
    """There is no such graph: `holdfast graphs` lists what there is."""


class GraphExists(UsageError):
    """There is another graph with this id: choose another one, or start the very same graph."""


class GraphChanged(UsageError):
    """The graph was changed by somebody else meanwhile: look at it again, then decide."""


class GraphFinished(UsageError):
    """This graph has ended, or was cancelled: it takes nothing new. Start another graph."""


class GraphCycle(UsageError):
    """These members would wait for each other for ever: take one of the dependencies away."""


class SelfEdge(UsageError):
    """A member cannot wait for itself."""


class EdgeExists(UsageError):
    """This member waits for that one already: name it once."""


class EdgeAcrossNamespaces(UsageError):
    """A graph and all its members live in one namespace."""


class MemberNotFound(UsageError):
    """The graph has no such member: `holdfast graphs show` lists them."""


class MemberExists(UsageError):
    """The graph has a member of this name already: give another name."""


class MemberElsewhere(UsageError):
    """This run is no member of this graph: a run belongs to one graph for good."""


class MemberStarted(UsageError):
    """This member has been started, or has ended: it cannot be made to wait for more."""


class BadGraph(UsageError):
    """This graph makes no sense."""


class GraphFailed(HoldfastError):
    """The graph did not complete: `holdfast graphs show` tells which members failed or were skipped."""


class GraphCancelled(GraphFailed):
    """The graph was cancelled."""
