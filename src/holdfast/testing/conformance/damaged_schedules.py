"""Conformance of damaged schedules: each is paused, and delays no other schedule."""

from __future__ import annotations

import pytest

from holdfast.store.runs.list_query import RunFilter
from holdfast.store.schedules.operations import FireSchedules, SetSchedule
from holdfast.store.store import Store
from holdfast.testing.conformance.damage import LARGEST, hourly_schedule
from holdfast.testing.conformance.fixture import (
    ROUTE,
    SECOND,
    HandClock,
    StoreFixture,
)


class DamagedScheduleConformance(StoreFixture):
    """A schedule that was damaged without the store is paused, and all others fire."""

    def test_a_damaged_schedule_is_paused_and_the_others_fire(
        self, bare_store: Store, clock: HandClock
    ) -> None:
        for name in ("bad", "good"):
            self.do(bare_store, SetSchedule(hourly_schedule(name)))
        self.execute(
            bare_store, "UPDATE holdfast.schedule SET misfire = 'perhaps' WHERE name = 'bad'"
        )
        clock.move(3601 * SECOND)

        self.do(bare_store, FireSchedules(lambda: "tick"))

        assert [run.id for run in bare_store.runs.find(RunFilter())] == ["tick"]
        assert [schedule.name for schedule in bare_store.schedules.all()] == ["good"]

    @pytest.mark.parametrize("column", ["started", "skipped"])
    def test_a_count_that_cannot_grow_pauses_its_own_schedule_alone(
        self, bare_store: Store, clock: HandClock, column: str
    ) -> None:
        ids = iter(["first", "second", "third", "fourth"])
        for name in ("bad", "good"):
            self.do(bare_store, SetSchedule(hourly_schedule(name)))
        clock.move(3601 * SECOND)
        self.do(bare_store, FireSchedules(lambda: next(ids)))
        if column == "started":
            self.finish(bare_store, self.claim(bare_store)[0])
        self.execute(
            bare_store, f"UPDATE holdfast.schedule SET {column} = {LARGEST} WHERE name = 'bad'"
        )
        clock.move(3600 * SECOND)

        for _ in range(2):
            self.do(bare_store, FireSchedules(lambda: next(ids)))

        good = bare_store.schedules.get(ROUTE.namespace, "good")
        assert good is not None
        assert good.started + good.skipped == 2
        assert any(
            f"in schedule: {ROUTE.namespace} bad, column {column}:" in line
            for line in bare_store.check()
        )

    @pytest.mark.parametrize(
        "rule",
        [
            '{"interval":0}',
            '{"interval":-5}',
            '{"interval":1}',
            '{"interval":true}',
            '{"cron":"99 99 * * *"}',
            '{"cron":7}',
            "{}",
            '{"dates":[]}',
            '{"dates":[2,1]}',
            '{"dates":["x"]}',
            '{"repeat":"R/P0D"}',
            '{"cron":"* * * * *","interval":9000000}',
        ],
    )
    def test_a_rule_that_no_schedule_can_follow_pauses_its_own_schedule_alone(
        self, bare_store: Store, clock: HandClock, rule: str
    ) -> None:
        for name in ("bad", "good"):
            self.do(bare_store, SetSchedule(hourly_schedule(name)))
        self.execute(bare_store, f"UPDATE holdfast.schedule SET rule = '{rule}' WHERE name = 'bad'")
        clock.move(3601 * SECOND)

        self.do(bare_store, FireSchedules(lambda: "tick"))

        assert [run.id for run in bare_store.runs.find(RunFilter())] == ["tick"]
        assert [schedule.name for schedule in bare_store.schedules.all()] == ["good"]
        assert any(
            f"in schedule: {ROUTE.namespace} bad, column rule:" in line
            for line in bare_store.check()
        )

    def test_a_page_of_schedules_is_full_although_a_damaged_one_is_left_out(
        self, bare_store: Store
    ) -> None:
        for name in ("a", "b", "c", "d"):
            self.do(bare_store, SetSchedule(hourly_schedule(name)))
        self.execute(
            bare_store, "UPDATE holdfast.schedule SET rule = '{}' WHERE name IN ('b', 'd')"
        )

        page = bare_store.schedules.page(ROUTE.namespace, "", 2)
        rest = bare_store.schedules.page(ROUTE.namespace, "c", 2)

        assert [schedule.name for schedule in page] == ["a", "c"]
        assert rest == []

    def test_a_schedule_in_a_zone_that_is_not_known_here_holds_no_other_up(
        self, bare_store: Store, clock: HandClock
    ) -> None:
        for name in ("bad", "good"):
            self.do(bare_store, SetSchedule(hourly_schedule(name)))
        self.execute(
            bare_store,
            """UPDATE holdfast.schedule SET zone = 'Mars/Base', rule = '{"cron":"0 * * * *"}' WHERE
            name = 'bad'""",
        )
        clock.move(3601 * SECOND)

        self.do(bare_store, FireSchedules(lambda: "tick"))

        assert [run.id for run in bare_store.runs.find(RunFilter())] == ["tick"]
        assert any(
            f"in schedule: {ROUTE.namespace} bad, column zone:" in line
            for line in bare_store.check()
        )

    def test_an_absurd_jitter_or_number_of_ticks_takes_no_time(
        self, bare_store: Store, clock: HandClock
    ) -> None:
        self.do(bare_store, SetSchedule(hourly_schedule("bad")))
        self.execute(
            bare_store,
            """UPDATE holdfast.schedule SET rule = '{"interval":1000000}', anchor = 0, next_at = 0,
            wake_at = 0, misfire = 'all',
                      jitter = 4000000000000000000, catch_up = 4000000000000000000, overlap =
                          'skip'""",
        )

        started = self.do(bare_store, FireSchedules(lambda: "tick"))

        assert len(started) <= 1

    def test_a_schedule_that_will_never_tick_again_is_named(self, bare_store: Store) -> None:
        self.do(bare_store, SetSchedule(hourly_schedule("hourly")))

        self.execute(bare_store, "UPDATE holdfast.schedule SET next_at = NULL, wake_at = NULL")

        assert any(
            "in schedule:" in line and "column next_at:" in line for line in bare_store.check()
        )
