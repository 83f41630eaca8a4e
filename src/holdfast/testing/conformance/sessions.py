"""Conformance of sessions and children: leases of ended sessions, crashes, and parent runs."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.events import EventKind
from holdfast.core.runs import CancelCause, Cancellation, Fanout, RunRecord
from holdfast.core.status import Status
from holdfast.errors import LeaseLost, RunExists
from holdfast.store.runs.operations import (
    CancelChildren,
    EndSession,
    Heartbeat,
    OpenSession,
    ReplayRun,
    RequestCancel,
    StartChildren,
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
        assert store.runs.sessions() == [session]

        assert self.end_session(store) == []

        assert store.runs.sessions() == []

    def test_sessions_are_listed_from_the_oldest_on(self, store: Store) -> None:
        for session_id in ("s2", "s1", "s3"):
            self.open(store, session_id)

        assert [session.id for session in store.runs.sessions()] == ["s1", "s2", "s3"]
        assert [session.id for session in store.runs.sessions(limit=2)] == ["s1", "s2"]

    def test_a_session_that_opens_again_says_what_it_serves_by_now(
        self, store: Store, clock: HandClock
    ) -> None:
        session = self.open(store)
        clock.move(SECOND)

        changed = {"serves": b'{"a":1}', "beat_at": clock.now(), "expires_at": clock.now() + 1}
        self.do(store, OpenSession(msgspec.structs.replace(session, **changed)))

        assert store.runs.sessions() == [msgspec.structs.replace(session, **changed)]

    def test_a_beat_prolongs_a_session(self, store: Store, clock: HandClock) -> None:
        self.open(store)
        clock.move(SECOND)

        assert self.do(store, Heartbeat("s1", lifetime=MINUTE)) is True

        (session,) = store.runs.sessions()
        assert (session.beat_at, session.expires_at) == (clock.now(), clock.now() + MINUTE)

    def test_a_beat_of_a_session_that_was_taken_over_is_false(self, store: Store) -> None:
        self.open(store)
        self.end_session(store, crashed=True)

        assert self.do(store, Heartbeat("s1", lifetime=MINUTE)) is False
        assert store.runs.sessions() == []

    def test_a_heartbeat_deletes_the_notifications_that_were_seen(self, store: Store) -> None:
        self.hold(store)
        for _ in range(3):
            self.do(store, SignalRun("r1", "paid", b"1"))
        notifications = store.runs.notifications("s1", 0)

        self.do(store, Heartbeat("s1", MINUTE, seen_notification=notifications[1][0]))

        assert notifications[0] not in store.runs.notifications("s1", 0)
        assert store.runs.notifications("s1", notifications[1][0]) == notifications[2:]

    def test_a_notification_after_a_heartbeat_is_newer_than_those_that_were_seen(
        self, store: Store
    ) -> None:
        self.hold(store)
        self.do(store, SignalRun("r1", "paid", b"1"))
        self.do(store, SignalRun("r1", "paid", b"2"))
        seen = store.runs.notifications("s1", 0)[-1][0]
        self.do(store, Heartbeat("s1", MINUTE, seen_notification=seen))

        self.do(store, SignalRun("r1", "paid", b"3"))

        assert [run_id for _, run_id in store.runs.notifications("s1", seen)] == ["r1"]

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
                Heartbeat("s1", MINUTE, seen_notification=store.runs.notifications("s1", 0)[-1][0]),
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

        assert store.runs.held_by("s2") == [("r2", 1, 0)]

    def test_ending_a_session_twice_releases_nothing_the_second_time(self, store: Store) -> None:
        self.hold(store)
        self.end_session(store, crashed=True)

        assert self.end_session(store, crashed=True) == []
        assert self.get(store).crashes == 1

    def test_a_process_is_alive_as_long_as_it_has_its_place(self, store: Store) -> None:
        slot = store.acquire_liveness()
        session = self.open(store, slot=slot)

        assert store.is_alive(session) in (True, None)
        store.release_liveness(slot)
        assert store.is_alive(session) in (False, None)


class ChildConformance(StoreFixture):
    """A parent is woken or notified by the ends of its children, and cancels them when it ends."""

    def with_children(
        self, store: Store, count: int, *, eager: bool = False, keep: bool = False
    ) -> list[RunRecord]:
        """Start a parent that is parked on a map; return its children, held by session ``s2``."""
        parent = self.hold(store)
        self.open(store, "s2")
        children = [
            self.child_of(parent, f"c{i}", parent_index=i, session_id="s2") for i in range(count)
        ]
        self.advance(
            store, parent, effects=[StartChildren(children, [Fanout("call", count, eager)])]
        )
        self.park(store, parent, keep=keep, waits=b'[{"kind":"map"}]')
        store.hints()
        return [self.get(store, f"c{i}") for i in range(count)]

    def test_children_start_with_the_write_and_know_their_parent(self, store: Store) -> None:
        parent = self.hold(store)

        leased = self.child_of(parent, "c2", session_id="s1", on_parent_end="leave")
        answer = self.advance(
            store, parent, effects=[StartChildren([self.child_of(parent, "c1"), leased])]
        )

        assert [(started.id, started.created, started.leased) for started in answer.started] == [
            ("c1", True, False),
            ("c2", True, True),
        ]
        child = self.get(store, "c2")
        assert (child.parent_id, child.parent_step, child.parent_index, child.root_id) == (
            "r1",
            "call",
            None,
            "r1",
        )
        assert (child.on_parent_end, self.get(store, "c1").on_parent_end) == ("leave", "cancel")

    def test_a_refused_child_refuses_the_whole_write(self, store: Store) -> None:
        parent = self.hold(store)
        self.start(store, "c2")

        with pytest.raises(RunExists):
            self.advance(
                store,
                parent,
                effects=[
                    StartChildren(
                        [self.child_of(parent, "c1"), self.child_of(parent, "c2", input=b"[9]")]
                    )
                ],
            )

        assert (store.runs.history("r1"), store.runs.get("c1")) == ([], None)

    def test_children_are_listed_in_order(self, store: Store) -> None:
        parent = self.hold(store)
        many = [
            self.child_of(parent, f"m{9 - i}", parent_step="b", parent_index=i) for i in range(3)
        ]
        self.advance(
            store,
            parent,
            effects=[
                StartChildren([*reversed(many), self.child_of(parent, "one", parent_step="a")])
            ],
        )

        assert [child.id for child in store.runs.children("r1")] == ["one", "m9", "m8", "m7"]
        assert [child.id for child in store.runs.children("r1", ["b"])] == ["m9", "m8", "m7"]
        assert store.runs.children("r1", []) == []

    def test_the_end_of_a_child_wakes_its_parent(self, store: Store) -> None:
        parent = self.hold(store)
        self.advance(
            store, parent, effects=[StartChildren([self.child_of(parent, "c1", session_id="s1")])]
        )
        self.park(store, parent)

        self.finish(store, self.get(store, "c1"), Status.FAILED)

        assert self.status(store) is Status.PENDING
        (child,) = store.runs.children("r1", ["call"])
        assert (child.status, child.result, child.error) == (
            Status.FAILED,
            None,
            b'{"type":"ValueError","message":"no"}',
        )

    def test_the_end_of_a_child_notifies_the_holder_of_its_parent(self, store: Store) -> None:
        parent = self.hold(store)
        self.advance(
            store, parent, effects=[StartChildren([self.child_of(parent, "c1", session_id="s1")])]
        )
        self.park(store, parent, keep=True)

        self.finish(store, self.get(store, "c1"))

        assert (self.status(store), self.get(store).revision) == (Status.WAITING, 1)
        assert [run_id for _, run_id in store.runs.notifications("s1", 0)] == ["r1"]

    def test_a_cancelled_child_wakes_its_parent_too(self, store: Store) -> None:
        parent = self.hold(store)
        self.advance(store, parent, effects=[StartChildren([self.child_of(parent, "c1")])])
        self.park(store, parent)

        self.do(store, RequestCancel("c1", "enough"))

        assert self.status(store) is Status.PENDING

    def test_the_last_of_many_children_to_complete_wakes_the_parent(self, store: Store) -> None:
        children = self.with_children(store, 3)

        seen = []
        for child in children:
            self.finish(store, child)
            seen.append(self.status(store))

        assert seen == [Status.WAITING, Status.WAITING, Status.PENDING]

    def test_the_first_of_many_children_to_fail_wakes_the_parent(self, store: Store) -> None:
        children = self.with_children(store, 3)

        self.finish(store, children[1], Status.FAILED)

        assert self.status(store) is Status.PENDING

    def test_an_eager_parent_is_notified_of_each_child(self, store: Store) -> None:
        children = self.with_children(store, 3, eager=True, keep=True)

        for child in children:
            self.finish(store, child)

        assert [run_id for _, run_id in store.runs.notifications("s1", 0)] == ["r1"] * 3

    def test_a_parent_that_is_not_eager_is_notified_only_once(self, store: Store) -> None:
        children = self.with_children(store, 3, keep=True)

        for child in children:
            self.finish(store, child)

        assert [run_id for _, run_id in store.runs.notifications("s1", 0)] == ["r1"]

    def test_more_children_of_the_same_map_are_counted_with_the_others(self, store: Store) -> None:
        parent = self.hold(store)
        for number in range(2):
            child = self.child_of(parent, f"c{number}", parent_index=number, session_id="s1")
            self.advance(
                store, parent, effects=[StartChildren([child], [Fanout("call", 1, False)])]
            )
        self.park(store, parent)

        self.finish(store, self.get(store, "c0"))
        assert self.status(store) is Status.WAITING
        self.finish(store, self.get(store, "c1"))
        assert self.status(store) is Status.PENDING

    def test_existing_children_are_not_counted_again(self, store: Store) -> None:
        parent = self.hold(store)
        first = [self.child_of(parent, "c0", parent_index=0, session_id="s1")]
        self.advance(store, parent, effects=[StartChildren(first, [Fanout("call", 1, False)])])
        self.finish(store, self.get(store, "c0"))

        both = [*first, self.child_of(parent, "c1", parent_index=1)]
        answer = self.advance(
            store, parent, effects=[StartChildren(both, [Fanout("call", 2, False)])]
        )

        assert [started.created for started in answer.started] == [False, True]
        assert store.check() == []

    def test_a_parent_that_ends_takes_its_children_with_it(self, store: Store) -> None:
        parent = self.hold(store)
        young = self.child_of(parent, "young")
        old = self.child_of(parent, "old", session_id="s1")
        self.advance(
            store,
            parent,
            effects=[
                StartChildren([young, old, self.child_of(parent, "kept", on_parent_end="leave")])
            ],
        )

        self.finish(store, parent, Status.FAILED, had_children=True)

        statuses = [self.status(store, run_id) for run_id in ("young", "old", "kept")]
        assert statuses == [Status.CANCELLED, Status.CANCELLING, Status.PENDING]
        assert self.status(store) is Status.FAILED

    def test_a_run_cancels_its_children_and_goes_on(self, store: Store) -> None:
        parent = self.hold(store)
        young = self.child_of(parent, "young")
        old = self.child_of(parent, "old", session_id="s1")
        self.advance(
            store,
            parent,
            effects=[StartChildren([old, self.child_of(parent, "kept", on_parent_end="leave")])],
        )
        assert store.runs.open_children(parent.id, limit=10) == ["old"]

        stop = Cancellation("its parent failed", CancelCause.PARENT)
        self.advance(store, parent, effects=[StartChildren([young]), CancelChildren(stop)])

        statuses = [self.status(store, run_id) for run_id in ("young", "old", "kept")]
        assert statuses == [Status.CANCELLED, Status.CANCELLING, Status.PENDING]
        assert self.status(store) is Status.RUNNING
        assert self.get(store, "old").cancel_reason == "its parent failed"
        assert store.runs.open_children(parent.id, limit=10) == ["old"]

    def test_the_end_of_the_last_cancelled_child_wakes_its_parent(self, store: Store) -> None:
        children = self.with_children(store, 2)
        parent = self.get(store)
        for child in children:
            self.do(store, RequestCancel(child.id, "its parent failed"))
        assert store.runs.open_children(parent.id, limit=1) == [children[0].id]

        self.finish(store, children[0], Status.CANCELLED)
        assert store.runs.open_children(parent.id, limit=1) == [children[1].id]
        self.finish(store, children[1])

        assert store.runs.open_children(parent.id, limit=1) == []
        assert self.status(store) is Status.PENDING

    def test_a_child_may_end_after_its_parent(self, store: Store) -> None:
        children = self.with_children(store, 2, keep=True)
        self.finish(store, self.get(store), had_children=False)

        for child in children:
            self.finish(store, child)

        assert (self.status(store), self.get(store).revision) == (Status.COMPLETED, 0)

    def test_a_replayed_child_is_counted_as_open_again(self, store: Store) -> None:
        children = self.with_children(store, 2)
        self.finish(store, children[0])

        self.do(store, ReplayRun("c0", []))

        assert store.check() == []
        self.finish(store, children[1])
        assert self.status(store) is Status.WAITING
