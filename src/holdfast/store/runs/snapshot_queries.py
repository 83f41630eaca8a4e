"""Read runs whole, with every row that belongs to them: for a copy to another store, an export, a
change of keys."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from holdfast.core.runs import Cell, Fanout, RunSnapshot
from holdfast.store.reader import Reader
from holdfast.store.rows import cells, cells_by_table, event_from, run_from
from holdfast.store.signals.queries import signal_from
from holdfast.store.soundness import whole
from holdfast.store.tables import BELOW_RUNS

_BELOW = {
    "whole_tags": "tag",
    "whole_events": "event",
    "whole_signals": "signal",
    "whole_fanouts": "fanout",
}


class RunSnapshotQueries:
    """Reads whole runs. A damaged row raises RowDamaged: a copy must not lose it silently."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def page(self, after: str, limit: int, size: int) -> list[RunSnapshot]:
        """Return snapshots of the next runs above the id *after*, in the order of their ids: at
        most *limit* runs and *size* bytes, but at least one run. Empty at the end."""
        last = _last_within(
            whole("run", self._reader.rows("weights", after=after, limit=limit)), size
        )
        if last is None:
            return []
        span = {"after": after, "last": last}
        snapshots = {
            row["id"]: _snapshot(row)
            for row in whole("run", self._reader.rows("whole_runs", **span))
        }
        below = {
            query: whole(table, self._below(query, snapshots, **span))
            for query, table in _BELOW.items()
        }
        for row in below["whole_tags"]:
            snapshots[row["run_id"]].tags[row["name"]] = row["value"]
        for row in below["whole_events"]:
            event = event_from(row)
            event.id = row["id"]
            snapshots[row["run_id"]].events.append(event)
        for row in below["whole_signals"]:
            signal = msgspec.structs.replace(
                signal_from(row), key=row["key"], taken=bool(row["taken"]), effect=row["effect"]
            )
            snapshots[row["run_id"]].signals.append(signal)
        for row in below["whole_fanouts"]:
            snapshots[row["run_id"]].fanouts.append(
                Fanout(row["step"], row["remaining"], bool(row["eager"]))
            )
        for table in BELOW_RUNS:
            for row in whole(table.name, self._below(f"whole_{table.name}", snapshots, **span)):
                below_run = snapshots[row["run_id"]].below
                below_run.setdefault(table.name, []).append(cells(table, row))
        return list(snapshots.values())

    def _below(self, query: str, run_ids: Collection[str], **values: object) -> list[Any]:
        """Return the rows that belong to these runs: rows of a run that was started meanwhile are
        left out."""
        return [row for row in self._reader.rows(query, **values) if row["run_id"] in run_ids]

    def belongings(self, run_id: str) -> dict[str, list[list[Cell]]]:
        """Return the rows of other tables that belong to a run, by table; tables without such rows
        are left out."""
        rows_by_table = {
            table: whole(table.name, self._reader.rows(f"of_run_{table.name}", run_id=run_id))
            for table in BELOW_RUNS
        }
        return cells_by_table(rows_by_table)


def _last_within(weights: list[Any], size: int) -> str | None:
    """Return the id of the last run that fits into *size* bytes; the first run always fits."""
    last: str | None = None
    for row in weights:
        # NULL: a value of this run is missing; the read of the run raises RowDamaged for it.
        size -= row["bytes"] or 0
        if last is not None and size < 0:
            break
        last = row["id"]
    return last


def _snapshot(row: Any) -> RunSnapshot:
    values = dict(row)
    rank = values.pop("rank")
    crash_seq = values.pop("crash_seq")
    return RunSnapshot(run_from(values), {}, [], [], [], rank, crash_seq, {})
