"""Queries about schedules and their ticks."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.schedules.model import Schedule, Tick, key_of
from holdfast.store.reader import Queries
from holdfast.store.transitions.schedules import schedule_from
from holdfast.store.transitions.starting import stored_key


class ScheduleQueries(Queries):
    """Queries about schedules and their ticks."""

    def schedule(self, namespace: str, name: str) -> Schedule | None:
        return self._one(schedule_from, "schedule", namespace=namespace, name=name)

    def schedules(self) -> list[Schedule]:
        return self._listed(schedule_from, "schedules")

    def live_runs(self, schedule: Schedule) -> list[str]:
        rows = self._rows("live_runs", namespace=schedule.namespace, schedule=schedule.name)
        return [row["run_id"] for row in rows]

    def runs_of_ticks(self, schedule: Schedule, ticks: Sequence[int]) -> list[Tick]:
        return [Tick(at, self._run_of(schedule, at)) for at in ticks]

    def _run_of(self, schedule: Schedule, at: int) -> str | None:
        rows = self._rows("run_by_key", key=stored_key(schedule.route, key_of(schedule.name, at)))
        return rows[0]["id"] if rows else None
