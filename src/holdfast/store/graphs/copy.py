"""Import a graph from another store."""

from __future__ import annotations

import msgspec

from holdfast.core.graphs.model import MemberState
from holdfast.errors import GraphExists
from holdfast.store.database import MemberOutcome, Transaction
from holdfast.store.graphs.operations import ImportGraph
from holdfast.store.graphs.outbox import START
from holdfast.store.graphs.rows import group_row
from holdfast.store.payloads.encrypt import clear_values_accepted
from holdfast.store.wakeup import write_outbox


def import_graph(tx: Transaction, op: ImportGraph) -> None:
    """Write a graph as it was elsewhere. Members whose runs have ended since are resolved here.

    Raises GraphExists.
    """
    whole = op.whole
    if tx.rows("graph", graph_id=whole.graph.id):
        raise GraphExists(graph=whole.graph.id)
    tx.change(
        "copy_graph", **{**msgspec.structs.asdict(whole.graph), "status": whole.graph.status.value}
    )
    members = [
        {**msgspec.structs.asdict(member), "state": member.state.value}
        for member in whole.members.values()
    ]
    with clear_values_accepted(tx):
        tx.many("copy_graph_member", members)
    tx.many("copy_graph_group", [group_row(group) for group in whole.groups.values()])
    tx.many("copy_graph_edge", [msgspec.structs.asdict(edge) for edge in whole.edges])
    tx.many("copy_graph_event", [msgspec.structs.asdict(event) for event in op.trail])
    started = [
        member.actual_run_id
        for member in whole.members.values()
        if member.state is MemberState.STARTED
    ]
    ended = tx.rows("ended_runs", ids=tx.as_list(started)) if started else []
    tx.member_outcomes += [MemberOutcome(whole.graph.id, row["id"], row["status"]) for row in ended]
    if any(
        member.state is MemberState.WAITING and member.missing == 0
        for member in whole.members.values()
    ):
        row: dict[str, object] = {
            "graph_id": whole.graph.id,
            "run_id": None,
            "status": START,
            "at": tx.now,
            "place": None,
        }
        # In the other store the next transaction would have started these members.
        tx.many("insert_outbox", [row])
        tx.hints.graphs = True
    if tx.member_outcomes:
        write_outbox(tx)
