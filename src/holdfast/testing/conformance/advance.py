"""Conformance of ``Advance``: single writes of a holder."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.events import Event, EventKind
from holdfast.core.runs import NewRun
from holdfast.core.status import Status
from holdfast.errors import LeaseLost
from holdfast.store.database import Hints
from holdfast.store.effects import RevisionChanged
from holdfast.store.runs.operations import (
    Advance,
    Advanced,
    Body,
    CancelOtherRun,
    EndSession,
    RequestCancel,
    StartChildren,
)
from holdfast.store.signals.operations import SignalOtherRun, SignalRun
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import (
    MINUTE,
    ROUTE,
    STUCK,
    WAITS,
    HandClock,
    StoreFixture,
)


class AdvanceConformance(StoreFixture):
    """A run is written by its holder only; a write of any other worker is refused."""

    def test_events_are_kept_in_order_and_dated(self, store: Store, clock: HandClock) -> None:
        run = self.hold(store)
        events = [
            Event(EventKind.STEP_STARTED, "a", started_at=1, seq=1),
            Event(EventKind.STEP_COMPLETED, "a", b"5", attempt=2, seq=2),
        ]
        clock.move(7)

        answer = self.advance(store, run, events=events)
        self.advance(store, run, events=[Event(EventKind.STEP_FAILED, "b", error=b"{}", seq=3)])

        assert answer.now == clock.now()
        assert store.runs.history("r1") == [
            Event(EventKind.STEP_STARTED, "a", started_at=1, at=clock.now(), seq=1),
            Event(EventKind.STEP_COMPLETED, "a", b"5", attempt=2, at=clock.now(), seq=2),
            Event(EventKind.STEP_FAILED, "b", error=b"{}", at=clock.now(), seq=3),
        ]

    def test_runs_can_be_read_together(self, store: Store) -> None:
        for run_id in ("r1", "r2", "r3"):
            self.advance(store, self.hold(store, run_id), status=Status.COMPLETED, result=b"1")

        runs = {run.id: run for run in store.runs.by_id(["r3", "none", "r1", "r1"])}

        assert runs == {run_id: store.runs.get(run_id) for run_id in ("r1", "r3")}
        assert store.runs.by_id([]) == []

    def test_updates_of_several_runs_can_be_read_together(self, store: Store) -> None:
        for run_id in ("r1", "r2", "r3"):
            self.hold(store, run_id)
        for name in ("go", "on"):
            self.do(store, SignalRun("r2", name, b"1"))

        updates = store.runs.updates(["r3", "none", "r2"])

        assert updates == {run_id: store.runs.update(run_id) for run_id in ("r2", "r3")}
        assert [signal.name for signal in updates["r2"].signals] == ["go", "on"]

    def test_the_last_checkpoint_of_a_run_counts_unless_the_run_was_replayed_since(
        self, store: Store
    ) -> None:
        run = self.hold(store, "r1")
        written = [Event(EventKind.CHECKPOINT_WRITTEN, data=b"{}", seq=seq) for seq in (2, 3)]
        assert store.runs.last_checkpoint("r1") == 0

        self.advance(store, run, events=[Event(EventKind.MARKED, "a", seq=1), *written])
        assert (store.runs.last_checkpoint("r1"), store.runs.last_checkpoint("none")) == (3, 0)

        self.advance(store, run, events=[Event(EventKind.RUN_REPLAYED, data=b"{}", seq=4)])
        assert store.runs.last_checkpoint("r1") == 0

    def test_a_history_can_be_read_from_the_middle_and_with_others(self, store: Store) -> None:
        for run_id in ("r1", "r2", "r3"):
            run = self.hold(store, run_id)
            for _ in range(2):
                self.advance(store, run)

        assert [event.seq for event in store.runs.history("r1", after=1)] == [2]
        histories = store.runs.histories(["r2", "r1", "none"])
        assert {
            run_id: [event.seq for event in events] for run_id, events in histories.items()
        } == {
            "r1": [1, 2],
            "r2": [1, 2],
            "none": [],
        }

    def test_a_history_can_be_read_without_its_values(self, store: Store) -> None:
        run = self.hold(store, "r1")
        started = Event(EventKind.CHILD_STARTED, "child", b'{"run":"c"}', seq=1)
        failed = Event(EventKind.STEP_FAILED, "charge", error=b'{"type":"E"}', attempt=3, seq=2)
        done = Event(EventKind.STEP_COMPLETED, "pack", b'"large"', role="compensation", seq=3)
        self.advance(store, run, events=[started, failed, done])

        outline = store.runs.outline("r1")

        assert [(event.seq, event.data, event.error) for event in outline] == [
            (1, b'{"run":"c"}', None),
            (2, None, b""),
            (3, None, None),
        ]
        assert [(event.attempt, event.role) for event in outline] == [
            (1, None),
            (3, None),
            (1, "compensation"),
        ]
        assert [event.seq for event in store.runs.outline("r1", 3)] == [3]
        assert [event.data for event in store.runs.events("r1", [3, 1, 9])] == [
            b'{"run":"c"}',
            b'"large"',
        ]
        assert store.runs.events("r1", []) == []

    def test_the_signals_of_several_runs_can_be_read_together(self, store: Store) -> None:
        for run_id in ("r1", "r2", "r3"):
            self.hold(store, run_id)
        for run_id, name in (("r2", "a"), ("r1", "b"), ("r2", "c"), ("r3", "d")):
            store.apply([SignalRun(run_id, name, b"1")])

        signals = store.signals.of_runs(["r2", "r1", "none"])
        assert signals == {run_id: store.signals.of_run(run_id) for run_id in ("r1", "r2", "none")}
        assert [signal.name for signal in signals["r2"]] == ["a", "c"]
        assert store.signals.of_runs([]) == {}

    @pytest.mark.parametrize(
        "write",
        [
            {},
            {"status": Status.COMPLETED, "result": b"1"},
            {"status": Status.WAITING, "waits": WAITS},
            {"status": Status.WAITING, "waits": WAITS, "revision": 0},
            {"status": Status.WAITING, "waits": WAITS, "release": True},
            {
                "effects": [
                    StartChildren(
                        [NewRun(id="c1", route=ROUTE, input=b"[]", parent_id="r1", parent_step="x")]
                    )
                ]
            },
            {"effects": [SignalOtherRun("r2", "paid", b"1", "k"), CancelOtherRun("r2", "no")]},
            {"body": Body(lambda connection: b"1")},
        ],
    )
    def test_a_stale_holder_is_refused_and_changes_nothing(
        self, store: Store, write: dict[str, Any]
    ) -> None:
        stale = self.hold(store)
        self.start(store, "r2")
        self.do(store, EndSession("s1", crashed=False))
        (run,) = [run for run in self.claim(store, "s2") if run.id == "r1"]
        store.hints()

        with pytest.raises(LeaseLost):
            self.advance(store, stale, **write)

        assert self.get(store) == run
        assert (store.runs.history("r1"), store.signals.of_run("r2"), store.runs.get("c1")) == (
            [],
            [],
            None,
        )
        assert store.hints() == Hints()

    def test_a_worker_that_released_a_run_no_longer_holds_it(self, store: Store) -> None:
        run = self.hold(store)
        self.park(store, run)
        before = self.get(store)

        for write in (
            {},
            {"status": Status.COMPLETED},
            {"status": Status.RUNNING},
            {"body": Body(lambda connection: b"1")},
        ):
            with pytest.raises(LeaseLost):
                self.advance(store, run, **write)

        assert self.get(store) == before

    def test_a_worker_that_finished_a_run_no_longer_holds_it(self, store: Store) -> None:
        run = self.hold(store)
        self.finish(store, run)

        for write in ({}, {"status": Status.FAILED}, {"status": Status.RUNNING}):
            with pytest.raises(LeaseLost):
                self.advance(store, run, **write)

        assert self.status(store) is Status.COMPLETED

    def test_a_write_to_an_unknown_run_is_refused(self, store: Store) -> None:
        with pytest.raises(LeaseLost):
            self.do(
                store, Advance(run_id="none", generation=1, events=[Event(EventKind.MARKED, seq=1)])
            )

    @pytest.mark.parametrize(
        "status", [Status.COMPLETED, Status.FAILED, Status.CANCELLED, Status.EXPIRED]
    )
    def test_a_finished_run_has_its_end_and_holds_nothing(
        self, store: Store, clock: HandClock, status: Status
    ) -> None:
        run = self.hold(store)
        store.hints()
        clock.move(5)

        self.finish(store, run, status)

        run = self.get(store)
        assert (run.status, run.finished_at, run.session_id, run.waits) == (
            status,
            clock.now(),
            None,
            None,
        )
        assert (run.result is not None) is (status is Status.COMPLETED) is (run.error is None)
        assert store.hints().finished == {"r1"}
        assert self.claimed(store) == []

    def test_a_run_parked_in_memory_stays_with_its_holder(self, store: Store) -> None:
        run = self.hold(store)

        self.park(store, run, keep=True)
        assert (self.status(store), self.get(store).session_id, self.get(store).waits) == (
            Status.WAITING,
            "s1",
            WAITS,
        )

        self.advance(store, run, status=Status.RUNNING)
        assert (self.status(store), self.get(store).session_id, self.get(store).waits) == (
            Status.RUNNING,
            "s1",
            None,
        )

    def test_parking_with_an_old_revision_answers_changed_and_writes_nothing(
        self, store: Store
    ) -> None:
        run = self.hold(store)
        self.do(store, SignalRun("r1", "paid", b"1"))
        before = self.get(store)
        called: list[object] = []

        def body(connection: object) -> bytes:
            called.append(connection)
            return b"1"

        for keep, more in (
            (True, {}),
            (False, {}),
            (True, {"body": Body(body)}),
            (False, {"effects": [StartChildren([self.child_of(run, "c1")])]}),
        ):
            assert self.park(store, run, keep=keep, revision=0, **more) == RevisionChanged(
                revision=1
            )

        assert self.get(store) == before
        assert (store.runs.history("r1"), store.runs.get("c1"), called) == ([], None, [])

    def test_parking_with_the_revision_that_was_seen_parks(self, store: Store) -> None:
        run = self.hold(store)
        self.do(store, SignalRun("r1", "paid", b"1"))

        assert isinstance(self.park(store, run, revision=1), Advanced)
        assert self.status(store) is Status.WAITING

    def test_a_run_that_is_handed_back_keeps_its_priority(
        self, store: Store, clock: HandClock
    ) -> None:
        run = self.hold(store, "r2", priority=5)
        self.start(store, "r1")
        clock.move(1)
        store.hints()

        self.advance(store, run, status=Status.PENDING, release=True)

        assert store.hints().ready
        assert self.claimed(store) == ["r2", "r1"]

    def test_a_run_that_is_handed_back_at_work_is_pending(self, store: Store) -> None:
        self.advance(store, self.hold(store), status=Status.RUNNING, release=True)

        assert self.status(store) is Status.PENDING

    def test_a_run_that_is_handed_back_until_later_is_pending_until_then(
        self, store: Store, clock: HandClock
    ) -> None:
        self.advance(
            store,
            self.hold(store),
            status=Status.PENDING,
            wake_at=clock.now() + MINUTE,
            release=True,
        )

        assert self.claimed(store) == []
        clock.move(MINUTE)
        assert self.claimed(store) == ["r1"]

    def test_a_stuck_run_says_why_and_cannot_be_claimed(self, store: Store) -> None:
        run = self.stuck(store)

        assert (run.status, run.error, run.session_id) == (Status.STUCK, STUCK, None)
        assert self.claimed(store) == []

    @pytest.mark.parametrize("status", [Status.RUNNING, Status.WAITING])
    def test_a_holder_that_has_not_seen_a_cancel_does_not_revert_it(
        self, store: Store, status: Status
    ) -> None:
        run = self.hold(store)
        self.do(store, RequestCancel("r1", "enough"))

        self.advance(store, run, status=status, waits=WAITS if status is Status.WAITING else None)

        assert (self.status(store), self.kinds(store)) == (Status.CANCELLING, [EventKind.MARKED])

    @pytest.mark.parametrize("status", [Status.PENDING, Status.WAITING])
    def test_a_cancelled_run_can_be_claimed_when_its_holder_releases_it(
        self, store: Store, status: Status
    ) -> None:
        run = self.hold(store)
        self.do(store, RequestCancel("r1", "enough"))

        self.advance(
            store,
            run,
            status=status,
            waits=WAITS if status is Status.WAITING else None,
            release=True,
        )

        assert self.status(store) is Status.CANCELLING
        assert self.claimed(store, "s2") == ["r1"]

    def test_signals_and_cancels_go_out_with_the_write(self, store: Store) -> None:
        run = self.hold(store)
        self.parked(store, "r2")
        self.start(store, "r3")

        self.advance(
            store,
            run,
            effects=[SignalOtherRun("r2", "paid", b"5", "k"), CancelOtherRun("r3", "enough")],
        )

        assert (self.status(store, "r2"), self.status(store, "r3")) == (
            Status.PENDING,
            Status.CANCELLED,
        )
        assert [signal.payload for signal in store.signals.of_run("r2")] == [b"5"]

    def test_sending_to_a_finished_or_unknown_run_does_not_refuse_the_write(
        self, store: Store
    ) -> None:
        run = self.hold(store)
        self.finish(store, self.hold(store, "r2"))

        gone = ("r2", "none")
        self.advance(
            store,
            run,
            effects=[
                *(SignalOtherRun(run_id, "paid", b"5", run_id) for run_id in gone),
                *(CancelOtherRun(run_id, "enough") for run_id in gone),
            ],
        )

        assert self.kinds(store) == [EventKind.MARKED]

    def test_a_signal_sent_twice_under_one_key_arrives_once(self, store: Store) -> None:
        run = self.hold(store)
        self.start(store, "r2")

        for _ in range(2):
            self.advance(store, run, effects=[SignalOtherRun("r2", "paid", b"5", "k")])

        assert len(store.signals.of_run("r2")) == 1
