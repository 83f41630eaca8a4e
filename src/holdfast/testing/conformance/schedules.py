"""Conformance of schedules: each tick has one run, written in one commit with the next tick."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.schedules.model import GONE, Overlap, Schedule, Tick, key_of
from holdfast.core.sessions import Lane
from holdfast.core.status import Status
from holdfast.errors import BadSchedule, LaneDraining, RunExists, ScheduleBusy, ScheduleNotFound
from holdfast.store.database import Operation
from holdfast.store.lanes.operations import SetLane
from holdfast.store.runs.copy_operations import BeginCopy, CopyRuns, EndCopy
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import Prune, RequestCancel
from holdfast.store.runs.queries import NextDue
from holdfast.store.schedules.operations import (
    BackfillSchedule,
    FireSchedules,
    PauseSchedule,
    RemoveSchedule,
    ResumeSchedule,
    SetSchedule,
    TriggerSchedule,
)
from holdfast.store.store import Store
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
    "a_schedule_with_a_next_tick_is_paused_or_has_a_wake_time": (
        "UPDATE holdfast.schedule SET wake_at = NULL"
    ),
    "a_paused_schedule_has_no_wake_time": "UPDATE holdfast.schedule SET paused = 'holidays'",
    "only_a_schedule_with_overlap_queue_or_cancel_has_queued_ticks": (
        "UPDATE holdfast.schedule SET queued = '[1]'"
    ),
    "the_last_tick_of_a_schedule_is_before_its_next_tick": (
        "UPDATE holdfast.schedule SET last_at = next_at"
    ),
}
"""One statement per law about schedules that breaks it."""


def hourly(name: str = "hourly", **options: Any) -> Schedule:
    """Return a schedule that ticks once an hour from its creation on."""
    rule = options.pop("every", HOUR)
    fields = {
        "namespace": "default",
        "workflow": "greet",
        "version": "1",
        "lane": "default",
        "input": b"[1]",
        "rule": f'{{"interval":{rule}}}',
        **options,
    }
    return Schedule(name=name, **fields)


class ScheduleConformance(StoreFixture):
    """A tick starts one run, subject to the overlap and misfire policies of its schedule."""

    def tick_ids(self) -> Callable[[], str]:
        """Return a function that returns the ids t1, t2, ... in turn."""
        count = iter(range(1, 10_000))
        return lambda: f"t{next(count)}"

    def set_schedule(self, store: Store, **options: Any) -> Schedule:
        self.do(store, SetSchedule(hourly(**options)))
        return self.schedule(store, options.get("name", "hourly"))

    def schedule(self, store: Store, name: str = "hourly") -> Schedule:
        schedule = store.schedules.get("default", name)
        assert schedule is not None
        return schedule

    def fire(self, store: Store, new_id: Callable[[], str], limit: int = 50) -> list[str]:
        started: list[str] = self.do(store, FireSchedules(new_id, limit))
        return started

    def tick_keys(self, store: Store) -> list[str]:
        return sorted(run.key or "" for run in store.runs.find(RunFilter(limit=1000)))

    @pytest.mark.parametrize("overlap", list(Overlap))
    def test_a_tick_in_a_draining_lane_is_skipped(
        self, store: Store, clock: HandClock, overlap: Overlap
    ) -> None:
        self.set_schedule(store, name="a", lane="drained", overlap=overlap)
        self.set_schedule(store, name="b")
        self.do(store, SetLane(Lane(name="drained", draining=True)))
        clock.move(HOUR)

        assert len(self.fire(store, self.tick_ids())) == 1
        idle = self.schedule(store, "a")
        assert (idle.started, idle.skipped, idle.queued) == (0, 1, [])
        assert "lane drained" in str(idle.note) and self.schedule(store, "b").started == 1
        with pytest.raises(LaneDraining):
            self.do(store, TriggerSchedule("default", "a", "run"))

    def end_run(self, store: Store, run_id: str) -> None:
        """Claim a run if it is ready, and finish it as its holder."""
        claimed = {run.id: run for run in self.claim(store)}
        self.finish(store, claimed.get(run_id) or self.get(store, run_id))

    def test_a_tick_starts_a_run_and_sets_the_next(self, store: Store, clock: HandClock) -> None:
        made = self.set_schedule(store, tags={"team": "7"}, priority=5, deadline=MINUTE)
        assert (made.next_at, store.runs.next_wake(), store.runs.next_due()) == (
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
        assert store.runs.tags("t1") == {"team": "7"}
        after = self.schedule(store)
        assert (after.next_at, after.last_at, after.started) == (
            MORNING + 2 * HOUR,
            MORNING + HOUR,
            1,
        )
        assert self.fire(store, self.tick_ids()) == []
        assert self.claimed(store) == ["t1"]

    def test_two_processes_that_fire_one_tick_start_one_run(
        self, store: Store, clock: HandClock, reopen: OpenStore
    ) -> None:
        self.set_schedule(store)
        other = reopen(clock)
        clock.move(HOUR)

        assert [*self.fire(store, lambda: "a"), *self.fire(other, lambda: "b")] == ["a"]

    def test_several_schedules_are_fired_in_portions(self, store: Store, clock: HandClock) -> None:
        for number in range(5):
            self.set_schedule(store, name=f"s{number}")
        clock.move(HOUR)
        new_id = self.tick_ids()

        assert [len(self.fire(store, new_id, 2)) for _ in range(4)] == [2, 2, 1, 0]

    @pytest.mark.parametrize(
        ("misfire", "ticks"),
        [("once", [10]), ("all", [8, 9, 10]), ("none", [])],
        ids=["once", "all", "none"],
    )
    def test_missed_ticks_follow_the_misfire_policy(
        self, store: Store, clock: HandClock, misfire: str, ticks: list[int]
    ) -> None:
        self.set_schedule(store, misfire=misfire, catch_up=3, overlap="allow")
        clock.move(10 * HOUR + HOUR // 2)

        self.fire(store, self.tick_ids())

        assert self.tick_keys(store) == [key_of("hourly", MORNING + tick * HOUR) for tick in ticks]
        after = self.schedule(store)
        assert after.next_at == MORNING + 11 * HOUR
        assert after.note is not None and after.note.startswith("missed ")

    def test_a_tick_is_skipped_while_the_last_run_is_at_work(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_schedule(store, overlap="skip")
        new_id = self.tick_ids()
        clock.move(HOUR)
        self.fire(store, new_id)
        clock.move(HOUR)

        assert self.fire(store, new_id) == []
        assert (self.schedule(store).skipped, self.schedule(store).next_at) == (
            1,
            MORNING + 3 * HOUR,
        )
        assert store.schedules.live_runs(self.schedule(store)) == ["t1"]

        self.end_run(store, "t1")
        clock.move(HOUR)
        assert len(self.fire(store, new_id)) == 1

    def test_ticks_are_queued_in_order_up_to_the_limit(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_schedule(store, overlap="queue", queue_limit=2)
        new_id = self.tick_ids()
        for _ in range(4):
            clock.move(HOUR)
            self.fire(store, new_id)
        waiting = self.schedule(store)
        assert (waiting.queued, waiting.skipped) == ([MORNING + 2 * HOUR, MORNING + 3 * HOUR], 1)
        assert [run.id for run in store.runs.find(RunFilter())] == ["t1"]

        self.end_run(store, "t1")

        assert store.runs.next_due().schedule == clock.now()
        (second,) = self.fire(store, new_id)
        assert self.get(store, second).key == key_of("hourly", MORNING + 2 * HOUR)
        assert (self.fire(store, new_id), self.schedule(store).queued) == ([], [MORNING + 3 * HOUR])
        self.end_run(store, second)
        (third,) = self.fire(store, new_id)
        assert (self.get(store, third).key, self.schedule(store).queued) == (
            key_of("hourly", MORNING + 3 * HOUR),
            [],
        )

    def test_a_queued_tick_fires_when_the_run_before_it_is_cancelled(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_schedule(store, overlap="queue")
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
        self.set_schedule(store, overlap="cancel")
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

    def test_a_tick_cancels_at_once_a_run_that_never_began(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_schedule(store, overlap="cancel")
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
        self.set_schedule(store, overlap="allow")
        new_id = self.tick_ids()
        for _ in range(3):
            clock.move(HOUR)
            self.fire(store, new_id)

        assert [run.status for run in store.runs.find(RunFilter())] == [Status.PENDING] * 3

    def test_a_paused_schedule_starts_nothing_and_goes_on_from_then(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_schedule(store)
        self.do(store, PauseSchedule("default", "hourly", "holidays"))
        assert store.runs.next_wake() is None
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
        self.set_schedule(store)
        clock.move(HOUR + MINUTE)

        assert self.do(store, SetSchedule(hourly())) == "unchanged"
        assert self.do(store, SetSchedule(hourly(input=b"[2]"))) == "changed"

        assert self.schedule(store).next_at == MORNING + HOUR
        assert self.fire(store, self.tick_ids()) == ["t1"]
        assert self.get(store, "t1").input == b"[2]"

    def test_another_rule_counts_from_now_on(self, store: Store, clock: HandClock) -> None:
        self.set_schedule(store)
        clock.move(HOUR + MINUTE)

        self.set_schedule(store, every=2 * HOUR)

        assert self.schedule(store).next_at == MORNING + 3 * HOUR + MINUTE
        assert self.fire(store, self.tick_ids()) == []

    def test_a_call_does_not_change_a_schedule_that_code_declares(self, store: Store) -> None:
        self.set_schedule(store, origin="code")

        with pytest.raises(BadSchedule):
            self.do(store, SetSchedule(hourly(origin="call")))
        with pytest.raises(BadSchedule):
            self.do(store, RemoveSchedule("default", "hourly"))

        self.do(store, PauseSchedule("default", "hourly", GONE))
        assert self.do(store, SetSchedule(hourly(origin="code"))) == "changed"
        assert self.schedule(store).paused is None
        self.do(store, PauseSchedule("default", "hourly", GONE))
        self.do(store, RemoveSchedule("default", "hourly"))
        assert store.schedules.all() == []

    def test_a_schedule_that_a_person_paused_stays_paused(self, store: Store) -> None:
        self.set_schedule(store, origin="code")
        self.do(store, PauseSchedule("default", "hourly", "holidays"))

        self.set_schedule(store, origin="code")

        assert self.schedule(store).paused == "holidays"

    def test_a_rule_that_has_ended_is_refused_and_one_that_ends_stays(
        self, store: Store, clock: HandClock
    ) -> None:
        with pytest.raises(BadSchedule):
            self.do(store, SetSchedule(hourly(rule='{"dates":[1]}')))
        assert store.schedules.all() == []
        self.set_schedule(store, rule=f'{{"dates":[{MORNING + HOUR}]}}')
        clock.move(2 * HOUR)

        assert self.fire(store, self.tick_ids()) == ["t1"]
        assert (self.schedule(store).next_at, store.runs.next_due().schedule) == (None, None)
        assert (
            self.do(store, SetSchedule(hourly(rule=f'{{"dates":[{MORNING + HOUR}]}}')))
            == "unchanged"
        )

    def test_an_unknown_schedule_is_not_found(self, store: Store) -> None:
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
        assert (store.schedules.get("default", "none"), store.runs.counts()) == (None, {})

    def test_a_trigger_starts_a_run_now_even_when_paused(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_schedule(store, paused="holidays")

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

    def test_a_trigger_with_a_chosen_id_starts_one_run(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_schedule(store, overlap="queue")
        self.set_schedule(store, name="other", overlap="queue")
        self.start(store, "taken")
        chosen = TriggerSchedule("default", "hourly", "t1", True)
        first = self.do(store, chosen)
        clock.move(SECOND)

        again = self.do(store, chosen)

        assert (first.at, first.run, first.created) == (MORNING, "t1", True)
        assert again == Tick(MORNING, "t1", created=False)
        with pytest.raises(ScheduleBusy):
            self.do(store, TriggerSchedule("default", "hourly", "t2", True))
        for name, run_id in (("other", "t1"), ("other", "taken")):
            with pytest.raises(RunExists):
                self.do(store, TriggerSchedule("default", name, run_id, True))
        assert self.schedule(store).queued == []

    def test_a_trigger_waits_where_a_tick_would(self, store: Store, clock: HandClock) -> None:
        self.set_schedule(store, overlap="queue", queue_limit=1)
        self.do(store, TriggerSchedule("default", "hourly", "t1"))
        clock.move(SECOND)

        assert self.do(store, TriggerSchedule("default", "hourly", "t2")) == Tick(clock.now())
        with pytest.raises(ScheduleBusy):
            self.do(store, TriggerSchedule("default", "hourly", "t3"))
        self.end_run(store, "t1")

        assert self.fire(store, lambda: "t4") == ["t4"]
        assert self.schedule(store).next_at == MORNING + HOUR

    def test_a_backfill_starts_ticks_that_were_never_started(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_schedule(store)
        clock.move(HOUR)
        self.fire(store, lambda: "t1")
        clock.move(2 * HOUR)
        ticks = [MORNING + HOUR, MORNING + 2 * HOUR]
        assert store.schedules.runs_of_ticks(self.schedule(store), ticks) == [
            Tick(ticks[0], "t1"),
            Tick(ticks[1]),
        ]
        op = BackfillSchedule("default", "hourly", ticks, ["b1", "b2"])

        assert self.do(store, op) == [Tick(ticks[0]), Tick(ticks[1], "b2", created=True)]
        assert self.do(store, op) == [Tick(ticks[0]), Tick(ticks[1])]

        self.end_run(store, "t1")
        assert self.fire(store, lambda: "t2") == ["t2"], (
            "a backfill does not keep a queued tick from its run"
        )

    def test_a_tick_that_was_backfilled_before_it_fired_is_not_started_again(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_schedule(store)
        clock.move(HOUR)
        self.do(store, BackfillSchedule("default", "hourly", [MORNING + HOUR], ["b1"]))

        assert self.fire(store, self.tick_ids()) == []
        assert self.schedule(store).next_at == MORNING + 2 * HOUR

    def test_schedules_of_two_namespaces_may_share_a_name(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_schedule(store)
        self.set_schedule(store, namespace="other", every=2 * HOUR)
        clock.move(2 * HOUR)

        assert len(self.fire(store, self.tick_ids())) == 2
        assert {run.namespace for run in store.runs.find(RunFilter())} == {"default", "other"}

    def test_a_copy_keeps_schedules(
        self, store: Store, clock: HandClock, open_store: OpenStore
    ) -> None:
        self.set_schedule(store, overlap="queue")
        new_id = self.tick_ids()
        for _ in range(2):
            clock.move(HOUR)
            self.fire(store, new_id)
        standing = store.installation.rows()
        runs = store.run_snapshots.page("", 100, 10**6)
        assert [row[1] for row in standing["schedule"]] == ["hourly"]
        assert [snapshot.below["tick"][0][1] for snapshot in runs] == ["hourly"]
        before = self.schedule(store)
        self.do(store, Prune(clock.now() + 1, ["cancelled"]))
        self.do(store, RequestCancel("t1", "it moves", force=True))
        self.do(store, Prune(clock.now() + 1, ["cancelled"]))
        self.end_sessions(store)
        self.do(store, BeginCopy([], standing))
        self.do(store, CopyRuns(runs))
        self.do(store, EndCopy())

        assert (self.schedule(store), store.run_snapshots.page("", 100, 10**6)) == (before, runs)
        assert store.schedules.live_runs(before) == ["t1"]
