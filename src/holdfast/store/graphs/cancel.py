"""Cancel graphs: in one transaction if few members must stop, else portion by portion.

The next portion is recorded in the outbox, so that any process can continue after a crash.
"""

from __future__ import annotations

from holdfast.core.graphs.model import OPEN_GRAPHS, CancelPolicy, GraphRecord, GraphStatus
from holdfast.errors import GraphFinished
from holdfast.store.database import Transaction
from holdfast.store.graphs.operations import CancelGraph
from holdfast.store.graphs.resolution import GraphResolution
from holdfast.store.graphs.resolve import go_on_cancelling
from holdfast.store.graphs.rows import load_graph

_REACH = list(CancelPolicy)


def cancel_graph(tx: Transaction, op: CancelGraph) -> GraphRecord:
    """Start no more members, and stop the members that the policy reaches. Raises GraphFinished."""
    graph = load_graph(tx, op.graph_id, op.namespace)
    if graph.policy is not None and _REACH.index(op.policy) <= _REACH.index(
        CancelPolicy(graph.policy)
    ):
        return graph  # cancelled before, with a policy that reaches as far
    if graph.status not in OPEN_GRAPHS:
        raise GraphFinished(graph=op.graph_id, status=graph.status.value)
    resolution = GraphResolution(tx, [graph], _no_input, None)
    resolution.touch(graph)
    graph.status = GraphStatus.CANCELLING
    graph.policy = op.policy.value
    graph.reason = op.reason
    waiting = tx.rows("count_waiting", graph_id=graph.id)[0]["members"]
    resolution.audit.add(
        graph,
        "cancel_requested",
        data={"policy": op.policy.value, "reason": op.reason, "waiting": waiting},
    )
    if op.policy is CancelPolicy.GRAPH and graph.live > waiting:
        _close(tx, graph, resolution, graph.live - waiting)
    go_on_cancelling(resolution, graph)
    resolution.finish()
    return graph


def _close(tx: Transaction, graph: GraphRecord, resolution: GraphResolution, started: int) -> None:
    """End the graph now; its started members continue by themselves."""
    graph.status = GraphStatus.CANCELLED
    graph.finished_at = tx.now
    resolution.audit.add(graph, "graph_cancelled", data={"left to run": started})
    tx.hints.finished.add(graph.id)


def _no_input(*_: object) -> tuple[bytes, tuple[()]]:
    raise AssertionError("a cancelled graph starts nothing")
