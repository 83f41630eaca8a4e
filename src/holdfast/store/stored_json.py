"""The columns that hold JSON, and the check that it can be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.conditions.model import Condition
from holdfast.core.envelope import is_sealed
from holdfast.core.flows.model import FlowWait
from holdfast.core.gates.model import EntryDetail, GateTerms
from holdfast.core.graphs.model import MemberSpec
from holdfast.core.operations import BulkArguments
from holdfast.core.schedules import rules
from holdfast.core.subscriptions import EventFilter
from holdfast.core.tasks.policy import TaskPolicy
from holdfast.core.waits import WaitKind


class Parked(msgspec.Struct):
    """A wait of a parked run: the fields that every kind has, and the condition of a wait for one,
    which operations from outside evaluate."""

    kind: str
    step: str | None = None
    until: int | None = None
    gives_up: int | None = None
    condition: Condition | None = None

    def __post_init__(self) -> None:
        if self.kind == WaitKind.CONDITION and (self.step is None or self.condition is None):
            raise ValueError("a wait for a condition lacks its step or its condition")


JSON: Mapping[str, Mapping[str, Any]] = {
    "run": {"waits": list[Parked]},
    "session": {"serves": dict[str, Any]},
    "lane": {"weights": dict[str, float]},
    "gate": {
        "terms": GateTerms,
        "assignees": tuple[str, ...],
        "roles": tuple[str, ...],
        "data": Any,
    },
    "gate_entry": {"detail": EntryDetail},
    "schedule": {"tags": dict[str, str], "queued": list[int], "rule": dict[str, Any]},
    "task": {"policy": TaskPolicy},
    "claim_request": {"leases": list[tuple[str, int]]},
    "flow": {"wait": FlowWait, "state": Any},
    "flow_step": {"result": Any},
    "flow_event": {"payload": Any},
    "graph": {"summary": dict[str, int]},
    "graph_event": {"data": Any},
    "graph_member": {"spec": MemberSpec},
    "subscription": {"which": EventFilter},
    "audit_entry": {"details": dict[str, Any]},
    "operation": {"arguments": BulkArguments, "filters": dict[str, Any]},
    "operation_part": {
        "chosen": list[str],
        "done": list[str],
        "begun": list[str],
        "refused": dict[str, str],
    },
}
"""The columns that hold JSON of the engine itself, with their types. Values of users may be sealed,
and are checked where they are opened."""


VALUES: Mapping[str, tuple[str, ...]] = {
    "run": ("input", "result", "error"),
    "large_input": ("input",),
    "event": ("data", "error"),
    "signal": ("payload",),
    "schedule": ("input",),
    "graph_member": ("input",),
    "operation": ("payload",),
    "message": ("payload",),
}
"""The columns that hold values of users: JSON or sealed, unless a codec of the user writes another
format."""


def wrong_json(table: str, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the columns of a row whose JSON cannot be read or used, each with the reason."""
    for name, kind in JSON.get(table, {}).items():
        why = unreadable_json(table, name, row.get(name), kind)
        if why is not None:
            yield name, why


def unreadable_json(table: str, name: str, value: object, kind: Any) -> str | None:
    """Return why a JSON value of a column cannot be read or used; None if it can, or if it is
    sealed."""
    if not isinstance(value, str | bytes) or (isinstance(value, bytes) and is_sealed(value)):
        return None
    try:
        typed_json.decode(value, kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return f"it cannot be read: {error}"
    # A rule may be valid JSON and still never tick.
    if (table, name) == ("schedule", "rule") and isinstance(value, str):
        return rules.fault(value)
    return None
