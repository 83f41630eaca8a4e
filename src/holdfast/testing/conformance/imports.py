"""Conformance of imports: a run of another store, with a history that was staged before."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.events import Event, EventKind, EventRole
from holdfast.core.runs import CancelCause, RunRecord, StuckCause
from holdfast.core.status import Status
from holdfast.core.subscriptions import BEGINNING, EventFilter
from holdfast.core.waits import Signal
from holdfast.errors import (
    RunExists,
    StageGone,
)
from holdfast.store.graphs import sweep
from holdfast.store.graphs.operations import SweepStages
from holdfast.store.runs.copy_operations import ImportRun, StagedEvents, StageEvents
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.signals.operations import SignalRun
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import (
    MINUTE,
    ROUTE,
    STUCK,
    WAITS,
    HandClock,
    StoreFixture,
)


class ImportConformance(StoreFixture):
    """A run is imported as it was exported, with its staged history, and continues."""

    def run_with_all_fields(self) -> RunRecord:
        """Return a run that has a value in every field that an import keeps."""
        return RunRecord(
            id="r1",
            namespace="n",
            workflow="w",
            version="2",
            lane="l",
            capabilities=("gpu",),
            status=Status.FAILED,
            priority=4,
            input=b"[7]",
            generation=9,
            revision=3,
            crashes=1,
            created_at=5,
            key="k",
            error=b"{}",
            root_id="r0",
            parent_id="r0",
            parent_step="x",
            parent_index=2,
            on_parent_end="leave",
            forked_from="f",
            cancel_reason="c",
            cancelled_by="ann",
            cancel_cause=CancelCause.BUDGET,
            cancelled_at=7,
            graph_id="g",
            schedule="nightly",
            tick_at=4,
            started_at=6,
            finished_at=8,
            deadline=9,
        )

    def test_an_imported_run_is_as_it_was_exported(self, store: Store, clock: HandClock) -> None:
        run = self.run_with_all_fields()
        events = [
            Event(
                EventKind.STEP_COMPLETED,
                "a",
                b"1",
                attempt=2,
                started_at=6,
                at=7,
                seq=1,
                role=EventRole.COMPENSATION,
            ),
            Event(EventKind.RUN_FAILED, at=8, seq=2),
        ]
        parent = msgspec.structs.replace(
            run,
            id="r0",
            parent_id=None,
            root_id=None,
            key=None,
            parent_step=None,
            parent_index=None,
        )

        self.do(store, ImportRun(parent, {}, []))
        self.do(store, ImportRun(run, {"a": "b"}, events, [Signal(1, "paid", b"5", at=7)]))

        assert self.get(store) == run
        assert (store.runs.history("r1"), store.runs.tags("r1")) == (events, {"a": "b"})
        assert [
            (signal.name, signal.payload, signal.at) for signal in store.signals.of_run("r1")
        ] == [("paid", b"5", 7)]

    def test_an_imported_run_that_was_stuck_keeps_the_cause(self, store: Store) -> None:
        run = msgspec.structs.replace(
            self.foreign_run(Status.STUCK), error=STUCK, stuck_cause=StuckCause.KEY_MISSING
        )

        self.do(store, ImportRun(run, {}, []))

        assert self.get(store).stuck_cause == StuckCause.KEY_MISSING

    @pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING, Status.CANCELLING])
    def test_an_imported_run_that_was_running_can_be_claimed(
        self, store: Store, status: Status
    ) -> None:
        run = msgspec.structs.replace(self.foreign_run(status), session_id="there", generation=4)

        self.do(store, ImportRun(run, {}, []))

        (claimed,) = self.claim(store)
        assert (claimed.status is Status.CANCELLING, claimed.generation) == (
            status is Status.CANCELLING,
            5,
        )

    @pytest.mark.parametrize("status", [Status.PENDING, Status.WAITING, Status.CANCELLING])
    def test_an_imported_run_that_was_waiting_waits(
        self, store: Store, clock: HandClock, status: Status
    ) -> None:
        waits = None if status is Status.PENDING else WAITS
        run = msgspec.structs.replace(
            self.foreign_run(status), waits=waits, wake_at=clock.now() + MINUTE
        )

        self.do(store, ImportRun(run, {}, []))

        assert (self.get(store).status, self.claimed(store)) == (status, [])
        clock.move(MINUTE)
        assert self.claimed(store) == ["r1"]

    def test_an_imported_run_with_an_unprocessed_notification_is_woken(self, store: Store) -> None:
        self.park(store, self.hold(store), keep=True)
        untouched = store.runs.is_touched("r1")
        self.do(store, SignalRun("r1", "paid", b"1"))
        there = self.get(store)
        assert (untouched, store.runs.is_touched("r1"), there.status) == (
            False,
            True,
            Status.WAITING,
        )

        copies = [
            msgspec.structs.replace(there, id=run_id, session_id="there")
            for run_id in ("left", "touched")
        ]
        self.do(store, ImportRun(copies[0], {}, []))
        self.do(store, ImportRun(copies[1], {}, [], touched=True))

        assert (self.status(store, "left"), self.status(store, "touched")) == (
            Status.WAITING,
            Status.PENDING,
        )
        assert self.claimed(store, "s2") == ["touched"]

    def test_staged_events_are_invisible_before_their_run_is_imported(self, store: Store) -> None:
        events = [
            Event(EventKind.MARKED, "a", b"1", started_at=6, at=7, seq=seq) for seq in (1, 2, 3)
        ]
        for part in (
            events[:2],
            events[:2],
            events[2:],
        ):  # a repeated part is not written twice
            self.do(store, StageEvents("r1::(stage)", part))
        assert store.check() == []
        seen, edge = store.subscriptions.events(store.subscriptions.place(BEGINNING), EventFilter())
        assert (seen, store.runs.get("r1::(stage)"), store.runs.counts()) == ([], None, {})

        forked = Event(EventKind.RUN_FORKED, at=8, seq=4)
        op = ImportRun(
            self.foreign_run(Status.PENDING), {}, [forked], staged=StagedEvents("r1::(stage)", 3)
        )
        self.do(store, op)

        assert store.runs.history("r1") == [*events, forked]
        assert [event.seq for event in store.subscriptions.events(edge, EventFilter())[0]] == [
            1,
            2,
            3,
            4,
        ]
        assert store.check() == []
        self.sweep(store)

    def sweep(self, store: Store) -> None:
        """Delete the stage of ``r1`` in portions; the laws hold after each of them."""
        while self.do(store, SweepStages("r1::(stage)")):
            assert store.check() == []
        assert store.runs.history("r1::(stage)") == []
        assert "graph_stage" not in store.installation.rows()

    def test_incomplete_staged_events_are_not_accepted_as_a_history(self, store: Store) -> None:
        self.do(store, StageEvents("r1::(stage)", [Event(EventKind.MARKED, at=7, seq=1)]))

        for stage, count in (("r1::(stage)", 2), ("r1::(other)", 1)):
            with pytest.raises(StageGone):
                self.do(
                    store,
                    ImportRun(
                        self.foreign_run(Status.PENDING), {}, [], staged=StagedEvents(stage, count)
                    ),
                )
            assert (store.runs.get("r1"), store.runs.history("r1")) == (None, [])

    def test_a_stage_of_events_that_was_given_up_is_deleted_and_takes_no_more(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sweep, "PORTION", 1)
        self.do(
            store,
            StageEvents(
                "r1::(stage)", [Event(EventKind.MARKED, at=7, seq=seq) for seq in (1, 2, 3)]
            ),
        )

        self.do(store, SweepStages("r1::(stage)", give_up=True))
        with pytest.raises(StageGone):
            self.do(store, StageEvents("r1::(stage)", [Event(EventKind.MARKED, at=7, seq=4)]))
        op = ImportRun(
            self.foreign_run(Status.PENDING), {}, [], staged=StagedEvents("r1::(stage)", 2)
        )
        with pytest.raises(StageGone):
            self.do(store, op)

        self.sweep(store)

    def test_a_snapshot_shows_one_instant(self, store: Store) -> None:
        self.start(store)
        with store.snapshot() as view:
            self.do(store, SignalRun("r1", "paid", b"1"))
            self.start(store, "r2")

            seen = (
                view.runs.get("r1"),
                view.runs.get("r2"),
                view.signals.of_run("r1"),
                [run.id for run in view.runs.find(RunFilter())],
            )
        assert seen == (msgspec.structs.replace(self.get(store), revision=0), None, [], ["r1"])
        assert (
            [signal.name for signal in store.signals.of_run("r1")],
            self.get(store, "r2").id,
        ) == (
            ["paid"],
            "r2",
        )

    def foreign_run(self, status: Status) -> RunRecord:
        return RunRecord(
            id="r1",
            namespace="n",
            workflow="w",
            version="2",
            lane="l",
            capabilities=(),
            status=status,
            priority=0,
            input=b"[]",
            generation=0,
            revision=0,
            crashes=0,
            created_at=5,
            started_at=6,
        )

    def test_a_run_that_is_here_already_is_not_imported(self, store: Store) -> None:
        self.start(store)
        before = self.get(store)

        with pytest.raises(RunExists):
            self.do(
                store,
                ImportRun(
                    self.foreign_run(Status.FAILED), {"a": "b"}, [Event(EventKind.MARKED, seq=1)]
                ),
            )

        assert (self.get(store), store.runs.tags("r1"), store.runs.history("r1")) == (
            before,
            {},
            [],
        )
        assert list(store.runs.routes().values()) == [ROUTE]
