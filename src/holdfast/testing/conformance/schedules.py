"""What a store promises about schedules: each tick has one run, written together with the next
tick."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.schedules.model import GONE, Schedule, Tick, key_of
from holdfast.core.status import Status
from holdfast.errors import BadSchedule, ScheduleBusy, ScheduleNotFound
from holdfast.store.contract import Operation, Store
from holdfast.store.contract.reading import NextDue, RunFilter
from holdfast.store.contract.runs import BeginCopy, CopyRuns, EndCopy, Prune, RequestCancel
from holdfast.store.contract.schedules import (
    BackfillSchedule,
    FireSchedules,
    PauseSchedule,
    RemoveSchedule,
    ResumeSchedule,
    SetSchedule,
    TriggerSchedule,
)
from holdfast.testing.conformance.fixture import (
    MINUTE,
    MORNING,
    SECOND,
    HandClock,
    OpenStore,
    StoreFixture,
)

HOUR = 60 * MINUTE

BROKEN = {
    "a_tick_belongs_to_a_run": (
        "INSERT INTO holdfast.tick (run_id, namespace, schedule, at, kind, live, solo) VALUES"
        " ('none', 'a', 'b', 1, 'tick', 0, 0)"
    ),
    "a_tick_has_one_run": (
        "INSERT INTO holdfast.tick (run_id, namespace, schedule, at, kind, live, solo)"
        " VALUES ('held', 'a', 'b', 1, 'tick', 0, 0), ('pending', 'a', 'b', 1, 'tick', 0, 0)"
    ),
    "a_schedule_that_ticks_again_is_paused_or_will_be_seen_to": (
        "UPDATE holdfast.schedule SET wake_at = NULL"
    ),
    "a_paused_schedule_starts_nothing": "UPDATE holdfast.schedule SET paused = 'holidays'",
    "ticks_wait_only_where_they_may": "UPDATE holdfast.schedule SET queued = '[1]'",
    "a_schedule_has_not_started_a_tick_that_is_to_come": (
        "UPDATE holdfast.schedule SET last_at = next_at"
    ),
}
"""One way to break each law."""


def hourly(name: str = "hourly", **options: Any) -> Schedule:
    """A schedule that ticks once an hour from its making on."""
    rule = options.pop("every", HOUR)
    given = {
        "namespace": "default",
        "workflow": "greet",
        "version": "1",
        "lane": "default",
        "input": b"[1]",
        "rule": f'{{"interval":{rule}}}',
        **options,
    }
    return Schedule(name=name, **given)


class ScheduleConformance(StoreFixture):
    """Schedules."""

    def tick_ids(self) -> Callable[[], str]:
        """Return what gives out ids: t1, t2, ..."""
        count = iter(range(1, 10_000))
        return lambda: f"t{next(count)}"

    def make(self, store: Store, **options: Any) -> Schedule:
        self.do(store, SetSchedule(hourly(**options)))
        return self.schedule(store, options.get("name", "hourly"))

    def schedule(self, store: Store, name: str = "hourly") -> Schedule:
        found = store.schedule("default", name)
        assert found is not None
        return found

    def fire(self, store: Store, new_id: Callable[[], str], limit: int = 50) -> list[str]:
        started: list[str] = self.do(store, FireSchedules(new_id, limit))
        return started

    def tick_keys(self, store: Store) -> list[str]:
        return sorted(run.key or "" for run in store.runs(RunFilter(limit=1000)))

    def end_run(self, store: Store, run_id: str) -> None:
        """Work on a run and end it, as its holder would."""
        found = {run.id: run for run in self.claim(store)}
        self.finish(store, found.get(run_id) or self.get(store, run_id), scheduled=True)

    def test_a_tick_starts_a_run_and_sets_the_next(self, store: Store, clock: HandClock) -> None:
        made = self.make(store, tags={"team": "7"}, priority=5, deadline=MINUTE)
        assert (made.next_at, store.next_wake(), store.next_look()) == (
            MORNING + HOUR,
            MORNING + HOUR,
            NextDue(schedule=MORNING + HOUR),
        )
        assert self.fire(store, self.tick_ids()) == []

        clock.move(HOUR)

        assert self.fire(store, self.tick_ids()) == ["t1"]
        run = self.get(store, "t1")
        assert (run.key, run.priority, run.deadline) == (
            key_of("hourly", MORNING + HOUR),
            5,
            clock.now() + MINUTE,
        )
        assert store.tags("t1") == {"team": "7"}
        after = self.schedule(store)
        assert (after.next_at, after.last_at, after.started) == (
            MORNING + 2 * HOUR,
            MORNING + HOUR,
            1,
        )
        assert self.fire(store, self.tick_ids()) == []
        assert self.claimed(store) == ["t1"]

    def test_two_who_see_to_a_tick_start_one_run(
        self, store: Store, clock: HandClock, reopen: OpenStore
    ) -> None:
        self.make(store)
        other = reopen(clock)
        clock.move(HOUR)

        assert [*self.fire(store, lambda: "a"), *self.fire(other, lambda: "b")] == ["a"]

    def test_several_schedules_are_seen_to_in_portions(
        self, store: Store, clock: HandClock
    ) -> None:
        for number in range(5):
            self.make(store, name=f"s{number}")
        clock.move(HOUR)
        new_id = self.tick_ids()

        assert [len(self.fire(store, new_id, 2)) for _ in range(4)] == [2, 2, 1, 0]

    @pytest.mark.parametrize(
        ("misfire", "ticks"),
        [("once", [10]), ("all", [8, 9, 10]), ("none", [])],
        ids=["once", "all", "none"],
    )
    def test_ticks_that_nobody_saw_to(
        self, store: Store, clock: HandClock, misfire: str, ticks: list[int]
    ) -> None:
        self.make(store, misfire=misfire, catch_up=3, overlap="allow")
        clock.move(10 * HOUR + HOUR // 2)

        self.fire(store, self.tick_ids())

        assert self.tick_keys(store) == [key_of("hourly", MORNING + tick * HOUR) for tick in ticks]
        after = self.schedule(store)
        assert after.next_at == MORNING + 11 * HOUR
        assert after.note is not None and after.note.startswith("missed ")

    def test_a_tick_is_skipped_while_the_last_run_is_at_work(
        self, store: Store, clock: HandClock
    ) -> None:
        self.make(store, overlap="skip")
        new_id = self.tick_ids()
        clock.move(HOUR)
        self.fire(store, new_id)
        clock.move(HOUR)

        assert self.fire(store, new_id) == []
        assert (self.schedule(store).skipped, self.schedule(store).next_at) == (
            1,
            MORNING + 3 * HOUR,
        )
        assert store.live_runs(self.schedule(store)) == ["t1"]

        self.end_run(store, "t1")
        clock.move(HOUR)
        assert len(self.fire(store, new_id)) == 1

    def test_ticks_wait_in_order_and_no_more_than_may(self, store: Store, clock: HandClock) -> None:
        self.make(store, overlap="queue", queue_limit=2)
        new_id = self.tick_ids()
        for _ in range(4):
            clock.move(HOUR)
            self.fire(store, new_id)
        waiting = self.schedule(store)
        assert (waiting.queued, waiting.skipped) == ([MORNING + 2 * HOUR, MORNING + 3 * HOUR], 1)
        assert [run.id for run in store.runs(RunFilter())] == ["t1"]

        self.end_run(store, "t1")

        assert store.next_look().schedule == clock.now()
        (second,) = self.fire(store, new_id)
        assert self.get(store, second).key == key_of("hourly", MORNING + 2 * HOUR)
        assert (self.fire(store, new_id), self.schedule(store).queued) == ([], [MORNING + 3 * HOUR])
        self.end_run(store, second)
        (third,) = self.fire(store, new_id)
        assert (self.get(store, third).key, self.schedule(store).queued) == (
            key_of("hourly", MORNING + 3 * HOUR),
            [],
        )

    def test_a_tick_goes_on_when_the_run_before_it_is_cancelled_by_somebody(
        self, store: Store, clock: HandClock
    ) -> None:
        self.make(store, overlap="queue")
        new_id = self.tick_ids()
        for _ in range(2):
            clock.move(HOUR)
            self.fire(store, new_id)

        self.do(store, RequestCancel("t1", "no longer wanted"))

        assert [self.get(store, run).key for run in self.fire(store, new_id)] == [
            key_of("hourly", MORNING + 2 * HOUR)
        ]

    def test_a_tick_cancels_the_run_before_it_and_begins_when_that_has_ended(
        self, store: Store, clock: HandClock
    ) -> None:
        self.make(store, overlap="cancel")
        new_id = self.tick_ids()
        clock.move(HOUR)
        self.fire(store, new_id)
        assert self.claimed(store) == ["t1"]
        clock.move(HOUR)

        assert (self.fire(store, new_id), self.status(store, "t1")) == ([], Status.CANCELLING)
        assert self.schedule(store).queued == [MORNING + 2 * HOUR]

        clock.move(HOUR)
        assert (self.fire(store, new_id), self.schedule(store).queued) == ([], [MORNING + 3 * HOUR])
        assert self.schedule(store).skipped == 1
        self.end_run(store, "t1")
        assert [self.get(store, run).key for run in self.fire(store, new_id)] == [
            key_of("hourly", MORNING + 3 * HOUR)
        ]

    def test_a_tick_cancels_at_once_what_never_began(self, store: Store, clock: HandClock) -> None:
        self.make(store, overlap="cancel")
        new_id = self.tick_ids()
        clock.move(HOUR)
        self.fire(store, new_id)
        clock.move(HOUR)

        (second,) = self.fire(store, new_id)

        assert (self.status(store, "t1"), self.status(store, second)) == (
            Status.CANCELLED,
            Status.PENDING,
        )

    def test_many_runs_at_once_are_allowed(self, store: Store, clock: HandClock) -> None:
        self.make(store, overlap="allow")
        new_id = self.tick_ids()
        for _ in range(3):
            clock.move(HOUR)
            self.fire(store, new_id)

        assert [run.status for run in store.runs(RunFilter())] == [Status.PENDING] * 3

    def test_a_paused_schedule_starts_nothing_and_goes_on_from_then(
        self, store: Store, clock: HandClock
    ) -> None:
        self.make(store)
        self.do(store, PauseSchedule("default", "hourly", "holidays"))
        assert store.next_wake() is None
        clock.move(3 * HOUR)
        assert self.fire(store, self.tick_ids()) == []

        self.do(store, ResumeSchedule("default", "hourly"))

        assert (self.fire(store, self.tick_ids()), self.schedule(store).next_at) == (
            [],
            MORNING + 4 * HOUR,
        )
        self.do(store, ResumeSchedule("default", "hourly"))
        assert self.schedule(store).paused is None

    def test_the_same_schedule_again_keeps_its_next_tick(
        self, store: Store, clock: HandClock
    ) -> None:
        self.make(store)
        clock.move(HOUR + MINUTE)

        assert self.do(store, SetSchedule(hourly())) == "unchanged"
        assert self.do(store, SetSchedule(hourly(input=b"[2]"))) == "changed"

        assert self.schedule(store).next_at == MORNING + HOUR
        assert self.fire(store, self.tick_ids()) == ["t1"]
        assert self.get(store, "t1").input == b"[2]"

    def test_another_rule_counts_from_now_on(self, store: Store, clock: HandClock) -> None:
        self.make(store)
        clock.move(HOUR + MINUTE)

        self.make(store, every=2 * HOUR)

        assert self.schedule(store).next_at == MORNING + 3 * HOUR + MINUTE
        assert self.fire(store, self.tick_ids()) == []

    def test_a_call_does_not_change_what_the_code_declares(self, store: Store) -> None:
        self.make(store, origin="code")

        with pytest.raises(BadSchedule):
            self.do(store, SetSchedule(hourly(origin="call")))
        with pytest.raises(BadSchedule):
            self.do(store, RemoveSchedule("default", "hourly"))

        self.do(store, PauseSchedule("default", "hourly", GONE))
        assert self.do(store, SetSchedule(hourly(origin="code"))) == "changed"
        assert self.schedule(store).paused is None
        self.do(store, PauseSchedule("default", "hourly", GONE))
        self.do(store, RemoveSchedule("default", "hourly"))
        assert store.schedules() == []

    def test_what_a_person_paused_stays_paused(self, store: Store) -> None:
        self.make(store, origin="code")
        self.do(store, PauseSchedule("default", "hourly", "holidays"))

        self.make(store, origin="code")

        assert self.schedule(store).paused == "holidays"

    def test_a_rule_that_has_ended_is_refused_and_one_that_ends_stays(
        self, store: Store, clock: HandClock
    ) -> None:
        with pytest.raises(BadSchedule):
            self.do(store, SetSchedule(hourly(rule='{"dates":[1]}')))
        assert store.schedules() == []
        self.make(store, rule=f'{{"dates":[{MORNING + HOUR}]}}')
        clock.move(2 * HOUR)

        assert self.fire(store, self.tick_ids()) == ["t1"]
        assert (self.schedule(store).next_at, store.next_look().schedule) == (None, None)
        assert (
            self.do(store, SetSchedule(hourly(rule=f'{{"dates":[{MORNING + HOUR}]}}')))
            == "unchanged"
        )

    def test_what_is_not_there_is_not_found(self, store: Store) -> None:
        ops: list[Operation] = [
            PauseSchedule("default", "none", "x"),
            ResumeSchedule("default", "none"),
            RemoveSchedule("default", "none"),
            TriggerSchedule("default", "none", "t1"),
            BackfillSchedule("default", "none", [1], ["t1"]),
        ]
        for op in ops:
            with pytest.raises(ScheduleNotFound):
                self.do(store, op)
        assert (store.schedule("default", "none"), store.counts()) == (None, {})

    def test_a_trigger_starts_a_run_now_even_when_paused(
        self, store: Store, clock: HandClock
    ) -> None:
        self.make(store, paused="holidays")

        tick = self.do(store, TriggerSchedule("default", "hourly", "t1"))

        assert tick == Tick(clock.now(), "t1", created=True)
        with pytest.raises(ScheduleBusy):
            self.do(store, TriggerSchedule("default", "hourly", "t2"))
        self.end_run(store, "t1")
        assert self.do(store, TriggerSchedule("default", "hourly", "t3")).run == "t3"
        assert (self.schedule(store).last_at, self.schedule(store).next_at) == (
            None,
            MORNING + HOUR,
        )

    def test_a_trigger_waits_where_a_tick_would(self, store: Store, clock: HandClock) -> None:
        self.make(store, overlap="queue", queue_limit=1)
        self.do(store, TriggerSchedule("default", "hourly", "t1"))
        clock.move(SECOND)

        assert self.do(store, TriggerSchedule("default", "hourly", "t2")) == Tick(clock.now())
        with pytest.raises(ScheduleBusy):
            self.do(store, TriggerSchedule("default", "hourly", "t3"))
        self.end_run(store, "t1")

        assert self.fire(store, lambda: "t4") == ["t4"]
        assert self.schedule(store).next_at == MORNING + HOUR

    def test_a_backfill_starts_what_was_never_started(self, store: Store, clock: HandClock) -> None:
        self.make(store)
        clock.move(HOUR)
        self.fire(store, lambda: "t1")
        clock.move(2 * HOUR)
        ticks = [MORNING + HOUR, MORNING + 2 * HOUR]
        assert store.runs_of_ticks(self.schedule(store), ticks) == [
            Tick(ticks[0], "t1"),
            Tick(ticks[1]),
        ]
        op = BackfillSchedule("default", "hourly", ticks, ["b1", "b2"])

        assert self.do(store, op) == [Tick(ticks[0]), Tick(ticks[1], "b2", created=True)]
        assert self.do(store, op) == [Tick(ticks[0]), Tick(ticks[1])]

        self.end_run(store, "t1")
        assert self.fire(store, lambda: "t2") == ["t2"], (
            "what is made up for keeps no tick from its run"
        )

    def test_a_tick_that_was_made_up_for_before_it_was_seen_to_is_not_started_again(
        self, store: Store, clock: HandClock
    ) -> None:
        self.make(store)
        clock.move(HOUR)
        self.do(store, BackfillSchedule("default", "hourly", [MORNING + HOUR], ["b1"]))

        assert self.fire(store, self.tick_ids()) == []
        assert self.schedule(store).next_at == MORNING + 2 * HOUR

    def test_schedules_of_two_namespaces_may_share_a_name(
        self, store: Store, clock: HandClock
    ) -> None:
        self.make(store)
        self.make(store, namespace="other", every=2 * HOUR)
        clock.move(2 * HOUR)

        assert len(self.fire(store, self.tick_ids())) == 2
        assert {run.namespace for run in store.runs(RunFilter())} == {"default", "other"}

    def test_schedules_move_with_the_installation(
        self, store: Store, clock: HandClock, open_store: OpenStore
    ) -> None:
        self.make(store, overlap="queue")
        new_id = self.tick_ids()
        for _ in range(2):
            clock.move(HOUR)
            self.fire(store, new_id)
        standing, runs = store.standing(), store.dossiers("", 100, 10**6)
        assert [row[1] for row in standing["schedule"]] == ["hourly"]
        assert [one.below["tick"][0][1] for one in runs] == ["hourly"]
        before = self.schedule(store)
        self.do(store, Prune(clock.now() + 1, ["cancelled"]))
        self.do(store, RequestCancel("t1", "it moves", force=True))
        self.do(store, Prune(clock.now() + 1, ["cancelled"]))
        self.end_sessions(store)
        self.do(store, BeginCopy([], standing))
        self.do(store, CopyRuns(runs))
        self.do(store, EndCopy())

        assert (self.schedule(store), store.dossiers("", 100, 10**6)) == (before, runs)
        assert store.live_runs(before) == ["t1"]
