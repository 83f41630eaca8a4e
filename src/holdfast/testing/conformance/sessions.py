"""Conformance of sessions: leases of ended sessions, and crashes."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.events import EventKind
from holdfast.core.status import Status
from holdfast.errors import LeaseLost
from holdfast.store.runs.operations import (
    EndSession,
    Heartbeat,
    OpenSession,
    RequestCancel,
    StartRuns,
)
from holdfast.store.signals.operations import SignalRun
from holdfast.store.store import Store
from holdfast.store.tasks.operations import RevokeLease, SetPriority
from holdfast.testing.conformance.fixture import MINUTE, SECOND, WAITS, HandClock, StoreFixture


class SessionConformance(StoreFixture):
    """A session holds its leases until it ends; then its runs have no holder."""

    def end_session(
        self, store: Store, session_id: str = "s1", *, crashed: bool = False, limit: int = 5
    ) -> list[str]:
        freed: list[str] = self.do(store, EndSession(session_id, crashed, limit))
        return freed

    def test_the_crash_limit_is_the_one_that_the_session_was_opened_with(
        self, store: Store
    ) -> None:
        self.do(
            store,
            OpenSession(msgspec.structs.replace(self.open(store), serves=b'{"crash_limit":1}')),
        )
        self.hold(store)

        self.do(store, EndSession("s1", crashed=True))

        assert self.status(store) is Status.STUCK

    def test_a_session_is_listed_until_it_ends(self, store: Store) -> None:
        session = self.open(store)
        assert store.sessions.all() == [session]

        assert self.end_session(store) == []

        assert store.sessions.all() == []

    def test_sessions_are_listed_from_the_oldest_on(self, store: Store) -> None:
        for session_id in ("s2", "s1", "s3"):
            self.open(store, session_id)

        assert [session.id for session in store.sessions.all()] == ["s1", "s2", "s3"]
        assert [session.id for session in store.sessions.all(limit=2)] == ["s1", "s2"]

    def test_a_session_that_opens_again_says_what_it_serves_by_now(
        self, store: Store, clock: HandClock
    ) -> None:
        session = self.open(store)
        clock.move(SECOND)

        changed = {"serves": b'{"a":1}', "beat_at": clock.now(), "expires_at": clock.now() + 1}
        self.do(store, OpenSession(msgspec.structs.replace(session, **changed)))

        assert store.sessions.all() == [msgspec.structs.replace(session, **changed)]

    def test_a_beat_prolongs_a_session(self, store: Store, clock: HandClock) -> None:
        self.open(store)
        clock.move(SECOND)

        assert self.do(store, Heartbeat("s1", lifetime=MINUTE)) is True

        (session,) = store.sessions.all()
        assert (session.beat_at, session.expires_at) == (clock.now(), clock.now() + MINUTE)

    def test_a_beat_of_a_session_that_was_taken_over_is_false(self, store: Store) -> None:
        self.open(store)
        self.end_session(store, crashed=True)

        assert self.do(store, Heartbeat("s1", lifetime=MINUTE)) is False
        assert store.sessions.all() == []

    def test_a_heartbeat_deletes_the_notifications_that_were_seen(self, store: Store) -> None:
        self.hold(store)
        for _ in range(3):
            self.do(store, SignalRun("r1", "paid", b"1"))
        notifications = store.sessions.notifications("s1", 0)

        self.do(store, Heartbeat("s1", MINUTE, seen_notification=notifications[1][0]))

        assert notifications[0] not in store.sessions.notifications("s1", 0)
        assert store.sessions.notifications("s1", notifications[1][0]) == notifications[2:]

    def test_a_notification_after_a_heartbeat_is_newer_than_those_that_were_seen(
        self, store: Store
    ) -> None:
        self.hold(store)
        self.do(store, SignalRun("r1", "paid", b"1"))
        self.do(store, SignalRun("r1", "paid", b"2"))
        seen = store.sessions.notifications("s1", 0)[-1][0]
        self.do(store, Heartbeat("s1", MINUTE, seen_notification=seen))

        self.do(store, SignalRun("r1", "paid", b"3"))

        assert [run_id for _, run_id in store.sessions.notifications("s1", seen)] == ["r1"]

    @pytest.mark.parametrize("crashed", [False, True])
    def test_a_running_run_of_an_ended_session_is_pending_without_a_holder(
        self, store: Store, crashed: bool
    ) -> None:
        run = self.hold(store)
        store.hints()

        assert self.end_session(store, crashed=crashed) == ["r1"]

        freed = self.get(store)
        assert (freed.status, freed.session_id, freed.generation) == (
            Status.PENDING,
            None,
            run.generation + 1,
        )
        assert freed.crashes == (1 if crashed else 0)
        assert store.hints().ready
        with pytest.raises(LeaseLost):
            self.advance(store, run)
        assert self.claimed(store, "s2") == ["r1"]

    @pytest.mark.parametrize("crashed", [False, True])
    def test_a_waiting_run_of_an_ended_session_keeps_waiting(
        self, store: Store, clock: HandClock, crashed: bool
    ) -> None:
        self.park(store, self.hold(store), keep=True, wake_at=clock.now() + MINUTE)

        assert self.end_session(store, crashed=crashed) == ["r1"]

        run = self.get(store)
        assert (run.status, run.session_id, run.waits, run.crashes) == (
            Status.WAITING,
            None,
            WAITS,
            0,
        )
        assert self.claimed(store, "s2") == []
        clock.move(MINUTE)
        assert self.claimed(store, "s2") == ["r1"]

    @pytest.mark.parametrize("crashed", [False, True])
    @pytest.mark.parametrize("seen", [False, True])
    def test_a_run_notified_while_waiting_wakes_when_its_session_ends(
        self, store: Store, crashed: bool, seen: bool
    ) -> None:
        self.park(store, self.hold(store), keep=True)
        self.do(store, SignalRun("r1", "paid", b"1"))
        if seen:  # the holder has read the notification and died before it could act
            self.do(
                store,
                Heartbeat(
                    "s1", MINUTE, seen_notification=store.sessions.notifications("s1", 0)[-1][0]
                ),
            )

        self.end_session(store, crashed=crashed)

        assert (self.status(store), self.get(store).crashes, self.get(store).waits) == (
            Status.PENDING,
            0,
            None,
        )

    def test_a_run_notified_before_it_was_parked_keeps_waiting(self, store: Store) -> None:
        run = self.hold(store)
        self.do(store, SignalRun("r1", "other", b"1"))
        self.park(store, run, keep=True)

        self.end_session(store)

        assert self.status(store) is Status.WAITING

    def test_a_run_that_waits_during_compensation_keeps_waiting(self, store: Store) -> None:
        self.hold(store)
        self.do(store, RequestCancel("r1", "enough"))
        self.park(store, self.get(store), keep=True, status=Status.CANCELLING)

        self.end_session(store, crashed=True)

        assert (self.status(store), self.get(store).crashes, self.claimed(store, "s2")) == (
            Status.CANCELLING,
            0,
            [],
        )

    def test_a_run_cancelled_while_waiting_is_compensated_by_another_worker(
        self, store: Store
    ) -> None:
        self.park(store, self.hold(store), keep=True)
        self.do(store, RequestCancel("r1", "enough"))

        self.end_session(store, crashed=True)

        assert self.claimed(store, "s2") == ["r1"]
        assert self.status(store) is Status.CANCELLING

    def test_a_run_that_crashes_its_worker_again_and_again_is_stuck(self, store: Store) -> None:
        self.start(store)
        for crash in range(3):
            assert self.claimed(store, f"s{crash}") == ["r1"]
            self.end_session(store, f"s{crash}", crashed=True, limit=3)

        run = self.get(store)
        assert (run.status, run.crashes, self.kinds(store)) == (
            Status.STUCK,
            3,
            [EventKind.LEASE_LOST, EventKind.LEASE_LOST, EventKind.RUN_STUCK],
        )
        assert run.error is not None
        assert msgspec.json.decode(run.error)["type"] == "TooManyCrashes"
        assert self.claimed(store) == []

    def test_progress_makes_crashes_count_from_the_start(self, store: Store) -> None:
        self.start(store)
        for crash in range(6):
            (run,) = self.claim(store, f"s{crash}")
            if crash % 2:
                self.advance(store, run)
            self.end_session(store, f"s{crash}", crashed=True, limit=3)

        assert (self.status(store), self.get(store).crashes) == (Status.PENDING, 1)

    def test_a_note_that_a_step_still_runs_is_no_progress(self, store: Store) -> None:
        self.start(store)
        for crash in range(3):
            (run,) = self.claim(store, f"s{crash}")
            self.advance(store, run, events=[self.event(store, run.id, EventKind.STEP_STARTED)])
            self.end_session(store, f"s{crash}", crashed=True, limit=3)

        assert (self.status(store), self.get(store).crashes) == (Status.STUCK, 3)

    def test_events_of_operators_are_not_progress(self, store: Store) -> None:
        self.start(store)
        for crash in range(3):
            self.do(store, SetPriority(run_id="r1", namespace="default", priority=crash + 1))
            self.claim(store, f"s{crash}")
            self.do(store, RevokeLease(run_id="r1", namespace="default", reason="look"))
            self.claim(store, f"s{crash}")
            self.end_session(store, f"s{crash}", crashed=True, limit=3)

        assert (self.status(store), self.get(store).crashes) == (Status.STUCK, 3)

    def test_no_other_suspect_is_claimed_while_a_step_of_one_still_runs(self, store: Store) -> None:
        self.do(store, StartRuns([self.new("r0"), self.new("r1")]))
        for crash in range(2):
            self.claim(store, f"s{crash}")
            self.end_session(store, f"s{crash}", crashed=True)
        (run,) = self.claim(store, "s2")
        self.advance(store, run, events=[self.event(store, run.id, EventKind.STEP_STARTED)])

        assert self.claimed(store, "s2") == []

    def test_progress_counts_even_if_the_run_was_handed_over_without_a_crash_afterwards(
        self, store: Store
    ) -> None:
        self.start(store)
        self.claim(store, "s0")
        self.end_session(store, "s0", crashed=True)
        self.advance(store, self.claim(store, "s1")[0])
        self.end_session(store, "s1")
        self.claim(store, "s2")
        self.end_session(store, "s2", crashed=True)

        assert self.get(store).crashes == 1

    def test_a_run_that_may_have_killed_its_worker_is_claimed_alone(self, store: Store) -> None:
        self.do(store, StartRuns([self.new(f"r{number}") for number in range(3)]))
        for crash in range(2):
            assert len(self.claim(store, f"s{crash}")) == 3
            self.end_session(store, f"s{crash}", crashed=True)
        self.start(store, "z")

        first = self.claim(store, "s2")
        assert [run.id for run in first] == ["r0", "z"]
        assert self.claimed(store, "s2") == []
        assert self.claimed(store, "s3") == ["r1"]

        self.advance(store, first[0])
        assert self.claimed(store, "s2") == ["r2"]

    def test_neighbours_of_a_run_that_kills_its_worker_are_not_stuck_with_it(
        self, store: Store
    ) -> None:
        self.do(
            store, StartRuns([self.new("poison"), *(self.new(f"r{number}") for number in range(5))])
        )
        for number in range(20):
            claimed = self.claim(store, f"s{number}")
            if any(run.id == "poison" for run in claimed):
                self.end_session(store, f"s{number}", crashed=True)
                continue
            for run in claimed:
                self.finish(store, run)

        assert store.runs.counts() == {"completed": 5, "stuck": 1}
        assert self.status(store, "poison") is Status.STUCK

    def test_only_the_runs_of_the_ended_session_are_released(self, store: Store) -> None:
        self.hold(store, "r1", "s1")
        self.hold(store, "r2", "s2")

        assert self.end_session(store) == ["r1"]

        assert store.sessions.held_by("s2") == [("r2", 1, 0)]

    def test_ending_a_session_twice_releases_nothing_the_second_time(self, store: Store) -> None:
        self.hold(store)
        self.end_session(store, crashed=True)

        assert self.end_session(store, crashed=True) == []
        assert self.get(store).crashes == 1

    def test_a_process_is_alive_as_long_as_it_has_its_place(self, store: Store) -> None:
        slot = store.liveness.acquire()
        session = self.open(store, slot=slot)

        assert store.liveness.is_alive(session) in (True, None)
        store.liveness.release(slot)
        assert store.liveness.is_alive(session) in (False, None)
