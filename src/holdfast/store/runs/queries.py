"""Queries about runs, sessions and lanes, and the snapshots that copy runs to another store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.events import Event, EventKind
from holdfast.core.payload import Seal
from holdfast.core.runs import Cell, ChildRecord, Fanout, Route, RunRecord, RunSnapshot
from holdfast.core.sessions import Lane, Session
from holdfast.core.status import Status
from holdfast.core.waits import Signal
from holdfast.errors import BadData, RowDamaged
from holdfast.store import sql_files
from holdfast.store.damage import DamageQueries
from holdfast.store.database import CheckProgress
from holdfast.store.payloads.operations import HALF_COPIED, SEALED
from holdfast.store.payloads.queries import REFERENCES_RECORDED
from holdfast.store.runs import list_query
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.soundness import described, sifted, whole, without_route
from holdfast.store.tables import BELOW_RUNS, STANDING, StoredTable
from holdfast.store.transitions import run_from
from holdfast.store.transitions.transaction import (
    damaged_session,
    lane_from,
    lanes_from,
    session_from,
)

ALL = 2**62
"""The limit of a query that has none."""
_BELOW = {
    "whole_tags": "tag",
    "whole_events": "event",
    "whole_signals": "signal",
    "whole_fanouts": "fanout",
}


class RunUpdate(msgspec.Struct):
    """The state of a run that its holder must know, at one instant."""

    status: Status
    generation: int
    revision: int
    cancel_reason: str | None
    cancelled_at: int | None
    """When the run was asked to stop; the instant of its deadline, if that was the reason."""
    signals: list[Signal]
    """The signals that no wait has consumed, oldest first."""


class NextDue(msgspec.Struct):
    """When to poll next: for parked runs and used-up rates, deadlines, schedules, managed flows,
    attempts of tasks, member outcomes of graphs, and stages of graphs that were given up."""

    work: int | None = None
    deadline: int | None = None
    schedule: int | None = None
    flow: int | None = None
    attempt: int | None = None
    graph: int | None = None
    stage: int | None = None

    @property
    def at(self) -> int | None:
        """The earliest instant. Member outcomes do not count: they are due as soon as
        they exist."""
        times = (self.work, self.deadline, self.schedule, self.flow, self.attempt, self.stage)
        return min((time for time in times if time is not None), default=None)


class RunQueries(DamageQueries):
    """Queries about runs, sessions and lanes."""

    def run(self, run_id: str) -> RunRecord | None:
        run = self._one(run_from, "run", run_id=run_id)
        if run is None and (unrouted := self._rows("run_identity", id=run_id)):
            raise without_route(run_id, unrouted[0]["route_id"])
        return run

    def runs(self, which: RunFilter) -> list[RunRecord]:
        sql, values = list_query.list_runs(which)
        return self._list(run_from, self._spelled(sql), values)

    def history(self, run_id: str, after: int = 0) -> list[Event]:
        return self._all(_event, "history", run_id=run_id, after=after)

    def last_checkpoint(self, run_id: str) -> int:
        rows = self._rows("last_checkpoint", run_id=run_id)
        is_current = bool(rows) and rows[0]["kind"] == EventKind.CHECKPOINT_WRITTEN
        return int(rows[0]["seq"]) if is_current else 0

    def runs_by_id(self, run_ids: Sequence[str]) -> list[RunRecord]:
        return self._listed(run_from, "runs_by_id", ids=self._as_list(run_ids))

    def histories(self, run_ids: Sequence[str]) -> dict[str, list[Event]]:
        histories: dict[str, list[Event]] = {run_id: [] for run_id in run_ids}
        for row in self._rows("histories", ids=self._as_list(run_ids)) if run_ids else []:
            histories[row["run_id"]].append(_event(row))
        return histories

    def glance(self, run_id: str) -> RunUpdate | None:
        rows = self._rows("glance", run_id=run_id)
        if not rows:
            return None
        return _update(rows)

    def glances(self, run_ids: Sequence[str]) -> dict[str, RunUpdate]:
        rows_by_run: dict[str, list[Any]] = {}
        for row in self._rows("glances", ids=self._as_list(run_ids)):
            rows_by_run.setdefault(row["run_id"], []).append(row)
        return {run_id: _update(rows) for run_id, rows in rows_by_run.items()}

    def signals(self, run_id: str) -> list[Signal]:
        return self._all(_signal, "signals", run_id=run_id)

    def signals_of(self, run_ids: Sequence[str]) -> dict[str, list[Signal]]:
        signals: dict[str, list[Signal]] = {run_id: [] for run_id in run_ids}
        for row in self._rows("signals_of", ids=self._as_list(run_ids)) if run_ids else []:
            signals[row["run_id"]].append(_signal(row))
        return signals

    def children(self, run_id: str, steps: Sequence[str] | None = None) -> list[ChildRecord]:
        if steps is None:
            return self._all(_child, "children", run_id=run_id)
        return [
            child
            for step in steps
            for child in self._all(_child, "children_of_step", run_id=run_id, step=step)
        ]

    def ended_children(self, run_id: str, steps: Sequence[str]) -> list[ChildRecord]:
        if not steps:
            return []
        return self._all(_child, "ended_children", run_id=run_id, steps=self._as_list(steps))

    def open_children(self, run_id: str, limit: int) -> list[str]:
        return [row["id"] for row in self._rows("open_children", run_id=run_id, limit=limit)]

    def is_touched(self, run_id: str) -> bool:
        return bool(self._rows("touched", run_id=run_id))

    def tags(self, run_id: str) -> dict[str, str]:
        return {row["name"]: row["value"] for row in self._rows("tags", run_id=run_id)}

    def routes(self) -> dict[int, Route]:
        return dict(self._listed(lambda row: (row["id"], _route(row)), "routes"))

    def sessions(self, limit: int = -1) -> list[Session]:
        sql = self._query("sessions")
        rows, damaged = sifted(sql, self._fetch(sql, {"limit": ALL if limit < 0 else limit}))
        for damage in damaged:
            self._report(damage)
        # A session whose id is not text is left out: no run can name it, no statement can end it.
        ids = [damage.place["id"] for damage in damaged]
        return [
            *map(session_from, rows),
            *(damaged_session(session_id) for session_id in ids if isinstance(session_id, str)),
        ]

    def lanes(self) -> list[Lane]:
        sql = self._query("lanes")
        rows, damaged = sifted(sql, self._fetch(sql))
        for damage in damaged:
            self._report(damage)
        return lanes_from(rows, damaged)

    def share_free_at(self, lane: str, share: str) -> int:
        return next((row["free_at"] for row in self._rows("free_at", lane=lane, share=share)), 0)

    def held(self, session_id: str) -> list[tuple[str, int, int]]:
        return [
            (row["id"], row["generation"], row["revision"])
            for row in self._rows("held", session_id=session_id)
        ]

    def notifications(self, session_id: str, after: int) -> list[tuple[int, str]]:
        return [
            (row["id"], row["run_id"])
            for row in self._rows("notifications", session_id=session_id, after=after)
        ]

    def next_wake(self) -> int | None:
        return self.next_look().at

    def next_look(self) -> NextDue:
        admission = self._next_admission()
        work = [time for time in (self._earliest("next_wake"), admission) if time is not None]
        others = (
            "next_deadline",
            "next_schedule",
            "next_flow",
            "next_attempt_end",
            "next_news",
            "next_stage",
        )
        return NextDue(min(work, default=None), *map(self._earliest, others))

    def _earliest(self, query: str) -> int | None:
        """Return the earliest of some instants, unchecked. A damaged instant is either earlier than
        all others, so that the worker which processes it sets its row aside, or it is not a number.
        """
        instant = values_of(self._fetch(self._query(query))[0])[0]
        return instant if isinstance(instant, int) else None

    def _next_admission(self) -> int | None:
        """Return when a used-up rate, of a lane or of one of its shares, allows the next run; None
        if none is used up."""
        now = self.now()
        lanes = self._listed(lane_from, "lanes_with_work")
        times = [lane.free_at for lane in lanes if lane.rate_limit is not None]
        for lane in lanes:
            if lane.share_rate_limit is not None:
                times += [
                    row["free_at"] for row in self._rows("spent_shares", lane=lane.name, now=now)
                ]
        return min((time for time in times if time > now), default=None)

    def counts(self) -> dict[str, int]:
        return {row["status"]: row["runs"] for row in self._rows("counts")}

    def dossiers(self, after: str, limit: int, size: int) -> list[RunSnapshot]:
        last = _last_within(whole("run", self._rows("weights", after=after, limit=limit)), size)
        if last is None:
            return []
        span = {"after": after, "last": last}
        snapshots = {
            row["id"]: _snapshot(row) for row in whole("run", self._rows("whole_runs", **span))
        }
        below = {
            query: whole(table, self._below(query, snapshots, **span))
            for query, table in _BELOW.items()
        }
        for row in below["whole_tags"]:
            snapshots[row["run_id"]].tags[row["name"]] = row["value"]
        for row in below["whole_events"]:
            event = _event(row)
            event.id = row["id"]
            snapshots[row["run_id"]].events.append(event)
        for row in below["whole_signals"]:
            signal = msgspec.structs.replace(
                _signal(row), key=row["key"], taken=bool(row["taken"]), effect=row["effect"]
            )
            snapshots[row["run_id"]].signals.append(signal)
        for row in below["whole_fanouts"]:
            snapshots[row["run_id"]].fanouts.append(
                Fanout(row["step"], row["remaining"], bool(row["eager"]))
            )
        for table in BELOW_RUNS:
            for row in whole(table.name, self._below(f"whole_{table.name}", snapshots, **span)):
                cells = _cells(table, row)
                snapshots[row["run_id"]].below.setdefault(table.name, []).append(cells)
        return list(snapshots.values())

    def _below(self, query: str, run_ids: Collection[str], **values: object) -> list[Any]:
        """Return the rows that belong to these runs: rows of a run that was started meanwhile are
        left out."""
        return [row for row in self._rows(query, **values) if row["run_id"] in run_ids]

    def belongings(self, run_id: str) -> dict[str, list[list[Cell]]]:
        rows_by_table = {
            table: whole(table.name, self._rows(f"of_run_{table.name}", run_id=run_id))
            for table in BELOW_RUNS
        }
        return _cells_by_table(rows_by_table)

    def standing(self) -> dict[str, list[list[Cell]]]:
        rows_by_table = {
            table: whole(table.table, self._rows(f"all_{table.name}")) for table in STANDING
        }
        return _cells_by_table(rows_by_table)

    def is_half_copied(self) -> bool:
        return bool(self._rows("setting", name=HALF_COPIED))

    def seal(self) -> Seal | None:
        rows = self._rows("setting", name=SEALED)
        return msgspec.json.decode(rows[0]["value"], type=Seal) if rows else None

    def _broken_laws(self, progress: CheckProgress | None = None) -> list[str]:
        """Describe each law that does not hold, with the first rows that break it."""
        broken: list[str] = []
        laws = sql_files.laws()
        for number, (law, sql) in enumerate(laws.items()):
            if progress is not None:
                progress(number, len(laws))
            try:
                rows = self._fetch(
                    self._spelled(sql), {"now": self.now()} if sql_files.parameters(sql) else ()
                )
            except self._garbled as error:
                broken.append(f"{law.replace('_', ' ')}: the check failed, because {error}")
                continue
            shown = ", ".join(str(values_of(row)[0]) for row in rows[:5])
            if rows:
                broken.append(f"{law.replace('_', ' ')}: {len(rows)} broken, such as {shown}")
        if progress is not None:
            progress(len(laws), len(laws))
        try:
            return broken + self._lost_references()
        except (RowDamaged, BadData) as error:
            return [*broken, f"{REFERENCES_RECORDED}: the check failed, because {error}"]

    def _damage_found(self, progress: CheckProgress | None = None) -> list[str]:
        """Describe each damaged row: its place and its fault."""
        return [described(damage) for damage in self.damaged_rows(progress)]

    def _lost_references(self) -> list[str]:
        raise NotImplementedError


def values_of(row: Any) -> list[Any]:
    """Return the values of a row of either driver."""
    return list(row.values()) if isinstance(row, dict) else list(row)


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


def _cells_by_table(rows: Mapping[StoredTable, Sequence[Any]]) -> dict[str, list[list[Cell]]]:
    """Return the values of the rows by the name of their table; empty tables are left out."""
    return {
        table.name: [_cells(table, row) for row in table_rows]
        for table, table_rows in rows.items()
        if table_rows
    }


def _cells(table: StoredTable, row: Any) -> list[Cell]:
    """Return the values of a row; memoryviews of the driver become bytes."""
    return [
        bytes(row[name]) if isinstance(row[name], memoryview) else row[name]
        for name in table.columns
    ]


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _event(row: Any) -> Event:
    return Event(
        kind=row["kind"],
        step=row["step"],
        data=_bytes(row["data"]),
        error=_bytes(row["error"]),
        attempt=row["attempt"],
        started_at=row["started_at"],
        at=row["at"],
        seq=row["seq"],
    )


def _update(rows: Sequence[Any]) -> RunUpdate:
    """Return the state of a run from its join with the signals; without any, ``id`` is NULL."""
    first = rows[0]
    signals = [_signal(row) for row in rows if row["id"] is not None]
    return RunUpdate(
        Status(first["status"]),
        first["generation"],
        first["revision"],
        first["cancel_reason"],
        first["cancelled_at"],
        signals,
    )


def _signal(row: Any) -> Signal:
    return Signal(
        id=row["id"],
        name=row["name"],
        payload=bytes(row["payload"]),
        at=row["at"],
        number=row["number"],
        wait_id=row["wait_id"],
        source=row["source"],
        step=row["step"],
    )


def _child(row: Any) -> ChildRecord:
    return ChildRecord(
        id=row["id"],
        parent_step=row["parent_step"],
        parent_index=row["parent_index"],
        status=Status(row["status"]),
        result=_bytes(row["result"]),
        error=_bytes(row["error"]),
        finished_at=row["finished_at"],
        on_parent_end=row["on_parent_end"],
        cancel_reason=row["cancel_reason"],
        cancelled_at=row["cancelled_at"],
    )


def _route(row: Any) -> Route:
    capabilities = tuple(row["capabilities"].split(",")) if row["capabilities"] else ()
    return Route(row["namespace"], row["workflow"], row["version"], row["lane"], capabilities)


def route_values(route: Route) -> dict[str, object]:
    """Return the columns of a route; its capabilities are sorted, because they have no order."""
    return {**msgspec.structs.asdict(route), "capabilities": ",".join(sorted(route.capabilities))}
