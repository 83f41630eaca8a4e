"""Cancelling graphs: in one transaction when few are to be asked to stop, else portion by portion,
whoever dies meanwhile."""

from __future__ import annotations

from holdfast.core.graphs.model import OPEN_GRAPHS, CancelPolicy, GraphRecord, GraphStatus
from holdfast.errors import GraphFinished
from holdfast.store.contract.graphs import CancelGraph
from holdfast.store.transitions.graphs.rows import load_graph
from holdfast.store.transitions.graphs.settling import go_on_cancelling
from holdfast.store.transitions.graphs.work import GraphResolution
from holdfast.store.transitions.transaction import Transaction

_REACH = list(CancelPolicy)


def cancel_graph(tx: Transaction, op: CancelGraph) -> GraphRecord:
    """Start nothing more, and ask those to stop whom the policy reaches."""
    graph = load_graph(tx, op.graph_id, op.namespace)
    if graph.policy is not None and _REACH.index(op.policy) <= _REACH.index(
        CancelPolicy(graph.policy)
    ):
        return graph  # it was asked before, and that reaches as far
    if graph.status not in OPEN_GRAPHS:
        raise GraphFinished(graph=op.graph_id, status=graph.status.value)
    work = GraphResolution(tx, [graph], _no_input, None)
    work.touch(graph)
    graph.status, graph.policy, graph.reason = GraphStatus.CANCELLING, op.policy.value, op.reason
    waiting = tx.rows("count_waiting", graph_id=graph.id)[0]["members"]
    work.trail.add(
        graph,
        "cancel_requested",
        data={"policy": op.policy.value, "reason": op.reason, "waiting": waiting},
    )
    if op.policy is CancelPolicy.GRAPH and graph.live > waiting:
        _close(tx, graph, work, graph.live - waiting)
    go_on_cancelling(work, graph)
    work.finish()
    return graph


def _close(tx: Transaction, graph: GraphRecord, work: GraphResolution, started: int) -> None:
    """The graph ends here; what was started goes on by itself."""
    graph.status, graph.finished_at = GraphStatus.CANCELLED, tx.now
    work.trail.add(graph, "graph_cancelled", data={"left to run": started})
    tx.hints.finished.add(graph.id)


def _no_input(*_: object) -> tuple[bytes, tuple[()]]:
    raise AssertionError("a cancelled graph starts nothing")
