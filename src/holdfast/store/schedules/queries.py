"""Queries about schedules and their ticks."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.schedules.model import Schedule, Tick, key_of
from holdfast.store.reader import Reader
from holdfast.store.runs.start import stored_key
from holdfast.store.schedules.apply import schedule_from


class ScheduleQueries:
    """Queries about schedules and their ticks."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def get(self, namespace: str, name: str) -> Schedule | None:
        """Return the schedule, or None."""
        return self._reader.first(schedule_from, "schedule", namespace=namespace, name=name)

    def all(self) -> list[Schedule]:
        """Return all schedules, by name."""
        return self._reader.listed(schedule_from, "schedules")

    def page(self, namespace: str, after: str, limit: int) -> list[Schedule]:
        """Return the first schedules of a namespace, by name, after the name *after*. Damaged rows
        are left out; the page has later rows in their place, because a short page is the last."""
        sql = self._reader.query("schedules_after")
        page: list[Schedule] = []
        while len(page) < limit:
            missing = limit - len(page)
            values = {"namespace": namespace, "after": after, "limit": missing}
            rows = self._reader.fetch(sql, values)
            page += self._reader.records(schedule_from, sql, rows, values)
            if len(rows) < missing:
                break
            after = rows[-1]["name"]
        return page

    def live_runs(self, schedule: Schedule) -> list[str]:
        """Return the runs of a schedule for whose end other ticks of it may have to wait."""
        rows = self._reader.rows("live_runs", namespace=schedule.namespace, schedule=schedule.name)
        return [row["run_id"] for row in rows]

    def runs_of_ticks(self, schedule: Schedule, ticks: Sequence[int]) -> list[Tick]:
        """Return the ticks, each with its run or None."""
        return [Tick(at, self._run_of(schedule, at)) for at in ticks]

    def _run_of(self, schedule: Schedule, at: int) -> str | None:
        rows = self._reader.rows(
            "run_by_key", key=stored_key(schedule.route, key_of(schedule.name, at))
        )
        return rows[0]["id"] if rows else None
