"""Convert graphs to rows, and rows to graphs."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.graphs.model import (
    GraphRecord,
    GraphStatus,
    GroupRecord,
    GroupState,
    MemberRecord,
    MemberSpec,
    MemberState,
    RemainderPolicy,
    graph_of,
    run_of,
)
from holdfast.errors import GraphNotFound
from holdfast.store.database import Row, Transaction
from holdfast.store.soundness import damaged

_STATUSES = {status.value: status for status in GraphStatus}
_RESTS = {rest.value: rest for rest in RemainderPolicy}
_GROUPS = {state.value: state for state in GroupState}
STATES = {state.value: state for state in MemberState}

_spec = lru_cache(1000)(typed_json.decoder(MemberSpec).decode)
"""Cached: similar members of graphs have equal specifications."""


def graph_from(row: Row) -> GraphRecord:
    """Return the graph of a row."""
    values = dict(row)
    values["status"] = _STATUSES[values["status"]]
    values["summary"] = None if values["summary"] is None else bytes(values["summary"])
    return GraphRecord(**values)


def member_from(row: Row) -> MemberRecord:
    """Return the member of a row."""
    values = dict(row)
    values["state"] = MemberState(values["state"])
    values["spec"] = bytes(values["spec"])
    values["input"] = bytes(values["input"])
    return MemberRecord(**values)


def group_from(row: Row) -> GroupRecord:
    """Return the group of a row."""
    return GroupRecord(
        run_id=row["run_id"],
        number=row["number"],
        need=row["need"],
        total=row["total"],
        done=row["done"],
        lost=row["lost"],
        rest=_RESTS[row["rest"]],
        state=_GROUPS[row["state"]],
    )


def group_row(group: GroupRecord) -> dict[str, Any]:
    """Return a group as a row."""
    return {**msgspec.structs.asdict(group), "rest": group.rest.value, "state": group.state.value}


def group_changes(group: GroupRecord) -> dict[str, object]:
    """Return the changeable columns of a group."""
    return {
        "run_id": group.run_id,
        "number": group.number,
        "done": group.done,
        "lost": group.lost,
        "state": group.state.value,
    }


def load_graph(tx: Transaction, graph_id: str, namespace: str) -> GraphRecord:
    """Return a graph, locked. Raises GraphNotFound."""
    rows = tx.rows("graph_to_change", graph_id=graph_id)
    if not rows or rows[0]["namespace"] != namespace:
        raise GraphNotFound(graph=graph_id)
    return graph_from(rows[0])


def counted(graph: GraphRecord) -> dict[str, object]:
    """Return the counts of a graph, for a write that changes nothing else."""
    return {"id": graph.id, "live": graph.live, "events": graph.events}


def saved(graph: GraphRecord) -> dict[str, object]:
    """Return the changeable columns of a graph."""
    return {
        "id": graph.id,
        "status": graph.status.value,
        "revision": graph.revision,
        "members": graph.members,
        "live": graph.live,
        "events": graph.events,
        "policy": graph.policy,
        "reason": graph.reason,
        "summary": graph.summary,
        "finished_at": graph.finished_at,
    }


class GraphAudit:
    """Entries for the audit trails of graphs, numbered as they are added and written together."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._rows: list[dict[str, object]] = []

    def add(
        self, graph: GraphRecord, kind: str, member: str | None = None, data: object = None
    ) -> None:
        """Add an entry."""
        graph.events += 1
        encoded = None if data is None else msgspec.json.encode(data)
        self._rows.append(
            {
                "graph_id": graph.id,
                "seq": graph.events,
                "kind": kind,
                "member": member,
                "data": encoded,
                "at": self._tx.now,
            }
        )

    def take(self) -> list[dict[str, object]]:
        """Return the entries that are not written yet, and forget them."""
        rows = self._rows
        self._rows = []
        return rows


def state_of(state: str, run_id: str) -> MemberState:
    """Return the state of a member. Raises RowDamaged."""
    if state not in STATES:
        raise damaged(
            "graph_member", {"run_id": run_id}, "state", f"{state!r} is not a state of a member"
        )
    return STATES[state]


def spec_of(run_id: str, spec: bytes) -> MemberSpec:
    """Return the specification that a member is started with. Raises RowDamaged."""
    try:
        return _spec(spec)
    except msgspec.MsgspecError as unreadable:
        raise damaged("graph_member", {"run_id": run_id}, "spec", str(unreadable)) from unreadable


def sources_of(run_id: str, spec: MemberSpec) -> dict[str, str]:
    """Return the members whose results the input of a member needs: their names, by run id."""
    graph_id = graph_of(run_id) or ""
    return {run_of(graph_id, name): name for name in spec.takes}
