"""Queries about runs: their records, histories, tags and routes, and the next due times."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import msgspec

from holdfast.core.events import Event, EventKind
from holdfast.core.runs import Route, RunRecord
from holdfast.core.status import Status
from holdfast.core.waits import Signal
from holdfast.store.lanes.queries import LaneQueries
from holdfast.store.reader import Reader
from holdfast.store.rows import bytes_or_none, event_from, run_from
from holdfast.store.runs import list_query
from holdfast.store.runs.list_query import RunCursor, RunFilter, RunPage
from holdfast.store.signals.queries import signal_from
from holdfast.store.soundness import cells_of, without_route

_DUE = (
    "wake_at",
    "deadline",
    "schedule",
    "flow_at",
    "attempt_until",
    "outbox_at",
    "stage_at",
    "operation_at",
)
"""The columns of ``next_due``, in the order of the fields of NextDue."""


class RunUpdate(msgspec.Struct):
    """The state of a run that its holder must know, at one instant."""

    status: Status
    generation: int
    revision: int
    cancel_reason: str | None
    cancel_cause: str | None
    cancelled_at: int | None
    """When the run was asked to stop; the instant of its deadline, if that was the reason."""
    signals: list[Signal]
    """The signals that no wait has consumed, oldest first."""
    graph_id: str | None = None
    """The graph that the run is a member of, and may have joined meanwhile."""


class NextDue(msgspec.Struct):
    """When to poll next: for parked runs and used-up rates, deadlines, schedules, managed flows,
    attempts of tasks, member outcomes of graphs, stages of graphs that were given up, and bulk
    operations that no process carries out."""

    work: int | None = None
    deadline: int | None = None
    schedule: int | None = None
    flow: int | None = None
    attempt: int | None = None
    graph: int | None = None
    stage: int | None = None
    operation: int | None = None

    @property
    def at(self) -> int | None:
        """The earliest instant. Member outcomes do not count: they are due as soon as
        they exist. Neither do bulk operations: the leader looks for them often enough."""
        times = (self.work, self.deadline, self.schedule, self.flow, self.attempt, self.stage)
        return min((time for time in times if time is not None), default=None)


class RunQueries:
    """Queries about runs and their histories."""

    def __init__(
        self, reader: Reader, keep_routes: Callable[[Collection[int]], None] = lambda routes: None
    ) -> None:
        self._reader: Reader = reader
        self._keep_routes: Callable[[Collection[int]], None] = keep_routes
        self._lanes: LaneQueries = LaneQueries(reader)

    def get(self, run_id: str) -> RunRecord | None:
        """Return the run, or None."""
        run = self._reader.first(run_from, "run", run_id=run_id)
        if run is None and (unrouted := self._reader.rows("run_identity", id=run_id)):
            # The run may have been started between the two reads.
            run = self._reader.first(run_from, "run", run_id=run_id)
            if run is None:
                raise without_route(run_id, unrouted[0]["route_id"])
        return run

    def find(self, which: RunFilter) -> list[RunRecord]:
        """Return the runs that a filter selects, from new to old."""
        return self.page(which).runs

    def page(self, which: RunFilter) -> RunPage:
        """Return the runs that a filter selects, from new to old, and the place where the next page
        begins. A damaged run is left out."""
        # One more than is returned, to know whether there is a next page.
        wider = msgspec.structs.replace(which, limit=which.limit + 1)
        rows = self._fetch(*list_query.list_runs(wider, self._count))
        # A run whose route is gone has no workflow. It counts as a part of the page, so that the
        # next page is found, but cannot be shown.
        routed = [row for row in rows[: which.limit] if row["workflow"] is not None]
        runs = self._reader.records(run_from, self._reader.spelled(list_query.RECORD), routed, {})
        if len(rows) <= which.limit or not which.limit:
            return RunPage(runs, None)
        last = rows[which.limit - 1]
        return RunPage(runs, RunCursor(last["created_at"], last["id"]))

    def count(self, which: RunFilter) -> int:
        """Return the number of runs that a filter selects, whatever its limit."""
        return self._count(*list_query.count_runs(which, self._count))

    def _count(self, sql: str, values: dict[str, object]) -> int:
        return int(self._fetch(sql, values)[0]["runs"])

    def _fetch(self, sql: str, values: dict[str, object]) -> list[Any]:
        return self._reader.fetch(self._reader.spelled(sql), values)

    def places(self, which: RunFilter) -> list[RunCursor]:
        """Return the places of the runs that a filter selects, from new to old."""
        rows = self._fetch(*list_query.list_places(which, self._count))
        return [
            RunCursor(row["created_at"], row["id"])
            for row in rows
            if isinstance(row["created_at"], int) and isinstance(row["id"], str)
        ]

    def history(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Event]:
        """Return the events of a run in order whose ``seq`` is above *after*, at most *limit*."""
        if limit is None:
            return self._reader.all(event_from, "history", run_id=run_id, after=after)
        return self._reader.all(event_from, "history_page", run_id=run_id, after=after, limit=limit)

    def outline(self, run_id: str, first: int = 0) -> list[Event]:
        """Return the events of a run in order, from the number *first* on, without their values: an
        error is empty, and only replays and the starts of children and gates keep their data."""
        return self._reader.all(_outlined, "history_outline", run_id=run_id, first=first)

    def events(self, run_id: str, seqs: Sequence[int]) -> list[Event]:
        """Return the events of a run with these numbers, in order."""
        if not seqs:
            return []
        numbers = self._reader.as_list(seqs)
        return self._reader.all(event_from, "events_by_seq", run_id=run_id, seqs=numbers)

    def replays(self, run_id: str, after: int) -> list[Event]:
        """Return the events of replays of a run whose ``seq`` is above *after*."""
        return self._reader.all(event_from, "replays", run_id=run_id, after=after)

    def events_of_kind(self, run_id: str, kind: str) -> list[Event]:
        """Return the events of one kind of a run, in order."""
        return self._reader.all(event_from, "events_of_kind", run_id=run_id, kind=kind)

    def last_checkpoint(self, run_id: str) -> int:
        """Return the ``seq`` of the last checkpoint of a run; 0 if it has none, or was replayed
        after it."""
        rows = self._reader.rows("last_checkpoint", run_id=run_id)
        is_current = bool(rows) and rows[0]["kind"] == EventKind.CHECKPOINT_WRITTEN
        return int(rows[0]["seq"]) if is_current else 0

    def by_id(self, run_ids: Sequence[str]) -> list[RunRecord]:
        """Return those of these runs that exist, in any order."""
        return self._reader.listed(run_from, "runs_by_id", ids=self._reader.as_list(run_ids))

    def histories(self, run_ids: Sequence[str]) -> dict[str, list[Event]]:
        """Return the events of several runs, each history in order."""
        histories: dict[str, list[Event]] = {run_id: [] for run_id in run_ids}
        for row in (
            self._reader.rows("histories", ids=self._reader.as_list(run_ids)) if run_ids else []
        ):
            histories[row["run_id"]].append(event_from(row))
        return histories

    def update(self, run_id: str) -> RunUpdate | None:
        """Return what the holder of a run must read after a notification, or None."""
        rows = self._reader.rows("run_update", run_id=run_id)
        if not rows:
            return None
        return _update(rows)

    def updates(self, run_ids: Sequence[str]) -> dict[str, RunUpdate]:
        """Return the same for several runs, by id."""
        rows_by_run: dict[str, list[Any]] = {}
        for row in self._reader.rows("run_updates", ids=self._reader.as_list(run_ids)):
            rows_by_run.setdefault(row["run_id"], []).append(row)
        return {run_id: _update(rows) for run_id, rows in rows_by_run.items()}

    def is_touched(self, run_id: str) -> bool:
        """Return whether something reached a run that its holder had not seen when it parked the
        run."""
        return bool(self._reader.rows("changed_since_parked", run_id=run_id))

    def tags(self, run_id: str) -> dict[str, str]:
        """Return the tags of a run."""
        return {row["name"]: row["value"] for row in self._reader.rows("tags", run_id=run_id)}

    def tags_of_runs(self, run_ids: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the tags of several runs, by the id of the run; runs without tags are left out."""
        tags: dict[str, dict[str, str]] = {}
        for row in (
            self._reader.rows("tags_of_runs", ids=self._reader.as_list(run_ids)) if run_ids else []
        ):
            tags.setdefault(row["run_id"], {})[row["name"]] = row["value"]
        return tags

    def routes(self) -> dict[int, Route]:
        """Return all routes on which runs were ever started, by id."""
        routes = dict(self._reader.listed(lambda row: (row["id"], _route(row)), "routes"))
        self._keep_routes(routes)
        return routes

    def next_wake(self) -> int | None:
        """Return when to poll next: when the next timer, deadline or schedule is due, or a used-up
        rate allows the next run. None if nothing is due."""
        return self.next_due().at

    def next_due(self) -> NextDue:
        """Return the same, by kind."""
        (row,) = self._reader.fetch(self._reader.query("next_due"))
        # Unchecked. A damaged instant is either earlier than all others, so that the worker which
        # processes it sets its row aside, or it is not a number.
        instants = [row[name] if isinstance(row[name], int) else None for name in _DUE]
        admission = self._lanes.next_admission() if row["rated"] else None
        work = [time for time in (instants[0], admission) if time is not None]
        return NextDue(min(work, default=None), *instants[1:])

    def counts(self) -> dict[str, int]:
        """Return the number of runs by status. Runs with an unknown status are left out."""
        rows, _ = self._reader.sound_rows("counts")
        return {row["status"]: row["runs"] for row in rows}


def _outlined(row: Any) -> Event:
    # By position: an outline has thousands of rows, and a lookup by name for each cell takes as
    # long as the query.
    seq, kind, step, attempt, started_at, at, role, has_error, data = cells_of(row)
    error = b"" if has_error else None
    return Event(kind, step, bytes_or_none(data), error, attempt, started_at, at, seq, 0, role)


def _update(rows: Sequence[Any]) -> RunUpdate:
    """Return the state of a run from its join with the signals; without any, ``id`` is NULL."""
    first = rows[0]
    signals = [signal_from(row) for row in rows if row["id"] is not None]
    return RunUpdate(
        Status(first["status"]),
        first["generation"],
        first["revision"],
        first["cancel_reason"],
        first["cancel_cause"],
        first["cancelled_at"],
        signals,
        first["graph_id"],
    )


def _route(row: Any) -> Route:
    capabilities = tuple(row["capabilities"].split(",")) if row["capabilities"] else ()
    return Route(row["namespace"], row["workflow"], row["version"], row["lane"], capabilities)


def route_values(route: Route) -> dict[str, object]:
    """Return the columns of a route; its capabilities are sorted, because they have no order."""
    return {**msgspec.structs.asdict(route), "capabilities": ",".join(sorted(route.capabilities))}
