"""Diagrams: the one format in which workflows of every kind are drawn. Pure.

A front end that knows the shape of its workflows before they run implements ``DrawnDefinition``.
Without it, the diagram of a run is made from its history.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol, runtime_checkable

import msgspec

from holdfast.core.codec import Codec
from holdfast.core.events import Event
from holdfast.core.runs import RunRecord


class NodeShape(StrEnum):
    """The shape of a node."""

    EVENT = "event"
    GATEWAY = "gateway"
    TASK = "task"
    WAIT = "wait"
    GATE = "gate"
    RUN = "run"
    BOX = "box"
    LANE = "lane"


class NodeState(StrEnum):
    """The state of a node in a run. A definition that does not run has only nodes that are not
    reached."""

    NOT_REACHED = "not reached"
    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    RETRIED = "retried"
    """Completed, after failed attempts."""
    SKIPPED = "skipped"
    COMPENSATED = "compensated"


class NodeBounds(msgspec.Struct, frozen=True):
    """The place of a node in a diagram that has coordinates of its own."""

    x: float
    y: float
    width: float
    height: float


class DiagramNode(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A node. ``count`` is the number of calls or children that it stands for; ``inside`` is the id
    of the box or lane that contains it; ``attached`` is the id of the node on whose border it is,
    as a boundary event is; ``icon`` refines the shape: start, end, timer, message, signal, error,
    compensation, parallel, exclusive, inclusive, map. ``steps`` are the identities of the steps
    that it shows, as a timeline names them; folded calls are one identity. ``run`` is the id of the
    child that it stands for; ``folded`` is the number of nodes in a folded box. ``tokens`` is the
    number of tokens of all runs that rest at an element of a model, ``incidents`` how many of them
    need an operator; in the diagram of a run both are 0."""

    id: str
    label: str
    shape: NodeShape
    icon: str = ""
    state: NodeState = NodeState.NOT_REACHED
    count: int = 1
    at: NodeBounds | None = None
    inside: str | None = None
    attached: str | None = None
    steps: list[str] = []
    run: str | None = None
    folded: int = 0
    tokens: int = 0
    incidents: int = 0


class DiagramEdge(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An edge. ``kind`` is flow, message, compensation or dependency; ``taken`` says that a run
    went along it. ``points`` are its corners in a diagram that has coordinates of its own."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    label: str = ""
    kind: str = "flow"
    taken: bool = False
    points: list[tuple[float, float]] = []


class Diagram(msgspec.Struct, kw_only=True):
    """Nodes and edges of a workflow, with the states of one run if there is one. ``kind`` is the
    front end of the workflow, or "graph"."""

    kind: str
    nodes: list[DiagramNode]
    edges: list[DiagramEdge]


@runtime_checkable
class DrawnDefinition(Protocol):
    """A definition that knows its shape before it runs, such as a text or a model."""

    def diagram(self, run: RunRecord | None, history: Sequence[Event], codec: Codec) -> Diagram:
        """Return the diagram of the definition; with *run*, with the states of that run. The values
        of the run and of its events are opened, and none of the events is void."""


_HEAVIEST = (
    NodeState.FAILED,
    NodeState.RUNNING,
    NodeState.WAITING,
    NodeState.RETRIED,
    NodeState.COMPENSATED,
    NodeState.COMPLETED,
    NodeState.SKIPPED,
    NodeState.NOT_REACHED,
)


def combined(states: Sequence[NodeState]) -> NodeState:
    """Return the state of a node that stands for several calls: the state that a person has to see
    first."""
    present = set(states)
    return next((state for state in _HEAVIEST if state in present), NodeState.NOT_REACHED)
