"""Queries about gates."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.gates.model import (
    ANYONE,
    EXCLUDED,
    PERSON,
    ROLE,
    Gate,
    GateEntry,
    GateStatus,
    entry_of,
)
from holdfast.store.database import Row
from holdfast.store.gates.apply import gate_from
from holdfast.store.gates.operations import GateFilter
from holdfast.store.reader import Reader
from holdfast.store.sql_files import common

_COLUMNS = common()["gate"].split(" WHERE ")[0]
_WHERE = {
    "run_id": "run_id = :run_id",
    "after": "gate.id > :after",
    "workflow": (
        "run_id IN (SELECT run.id FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id"
        " = run.route_id WHERE run.id = gate.run_id AND workflow = :workflow)"
    ),
    "namespace": (
        "run_id IN (SELECT run.id FROM holdfast.run AS run JOIN holdfast.route AS route ON route.id"
        " = run.route_id WHERE run.id = gate.run_id AND namespace = :namespace)"
    ),
    "late": "closed_at IS NULL AND (deadline <= :late OR reminded > 0 OR escalated > 0)",
}
"""The condition for each field of the filter that is given."""


class GateQueries:
    """Queries about gates."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def get(self, gate_id: str) -> Gate | None:
        """Return the gate, or None."""
        return self._reader.first(gate_from, "gate", gate_id=gate_id)

    def of_ids(self, gate_ids: Iterable[str]) -> dict[str, Gate]:
        """Return gates by id. Ids without a gate are left out."""
        ids = self._reader.as_list(list(gate_ids))
        return {gate.id: gate for gate in self._reader.all(gate_from, "gates_of_ids", ids=ids)}

    def closed_since(self, run_id: str, revision: int) -> list[Gate]:
        """Return the gates of a run that closed after it had that revision, in any order."""
        return self._reader.all(gate_from, "closed_gates", run_id=run_id, revision=revision)

    def of_kind(self, kind: str) -> list[str]:
        """Return the ids of the open gates of a type, oldest first."""
        return self._reader.all(lambda row: str(row["gate_id"]), "open_gates_of_kind", name=kind)

    def entries(self, gate_id: str) -> list[GateEntry]:
        """Return the log of a gate, in order."""
        return self._reader.all(entry_of, "gate_entries", gate_id=gate_id)

    def entries_of(self, gate_ids: Iterable[str]) -> dict[str, list[GateEntry]]:
        """Return the logs of several gates, each in order, by the id of the gate. A damaged entry
        is left out and logged, because it must not hide the other gates."""
        wanted = list(gate_ids)
        logs: dict[str, list[GateEntry]] = {}
        if not wanted:
            return logs
        ids = self._reader.as_list(wanted)
        for gate_id, entry in self._reader.listed(_entry_and_gate, "entries_of_gates", ids=ids):
            logs.setdefault(gate_id, []).append(entry)
        return logs

    def count_open(self) -> dict[str, int]:
        """Return the number of open gates, by namespace."""
        rows, _ = self._reader.sound_rows("count_open_gates")
        return {row["namespace"]: row["gates"] for row in rows}

    def find(self, which: GateFilter) -> list[Gate]:
        """Return the gates that a filter selects, from old to new."""
        sql, values = list_gates(which)
        return self._reader.list_sql(gate_from, self._reader.spelled(sql), values)


def _entry_and_gate(row: Row) -> tuple[str, GateEntry]:
    return row["gate_id"], entry_of(row)


def list_gates(which: GateFilter) -> tuple[str, dict[str, object]]:
    """Return the query, with its values, that lists the gates of *which* from old to new."""
    values: dict[str, object] = {
        name: getattr(which, name) for name in _WHERE if getattr(which, name) is not None
    }
    clauses = [_WHERE[name] for name in values]
    if tuple(which.statuses) == (GateStatus.OPEN,):
        clauses.append("closed_at IS NULL")
    elif which.statuses:
        names = {f"status{index}": status for index, status in enumerate(which.statuses)}
        clauses.append(f"status IN ({', '.join(':' + name for name in names)})")
        values |= names
    if which.person is not None or which.roles:
        clauses += _may_decide(which, values)
    where = f" WHERE {' AND '.join(clauses)}" if clauses else ""
    return f"{_COLUMNS}{where} ORDER BY gate.id LIMIT :limit", {**values, "limit": which.limit}


def _may_decide(which: GateFilter, values: dict[str, object]) -> list[str]:
    """Return the conditions for the gates that a person may decide and has not decided yet; for a
    role alone, that its holders may decide. Adds their parameters to *values*."""
    assignments = []
    clauses = []
    if which.person is not None:
        values["person"] = which.person
        assignments.append(
            f"(kind = '{PERSON}' AND name = :person) OR (kind = '{ANYONE}' AND name = '')"
        )
        clauses.append(
            "gate.id NOT IN (SELECT gate_id FROM holdfast.gate_assignment WHERE"
            f" kind = '{EXCLUDED}' AND name = :person) AND NOT EXISTS (SELECT 1 FROM"
            " holdfast.gate_entry AS entry WHERE entry.gate_id = gate.id AND"
            " entry.kind = 'decided' AND entry.lapsed = 0 AND entry.person = :person)"
        )
    for index, role in enumerate(which.roles):
        values[f"role{index}"] = role
        assignments.append(f"(kind = '{ROLE}' AND name = :role{index})")
    assigned = " OR ".join(assignments)
    return [
        f"gate.id IN (SELECT gate_id FROM holdfast.gate_assignment WHERE {assigned})",
        *clauses,
    ]
