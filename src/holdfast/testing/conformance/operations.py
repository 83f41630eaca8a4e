"""Conformance of operations of operators: resume, replay, import, copy, prune."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.events import Event, EventKind, EventRole
from holdfast.core.runs import CancelCause, Fanout, Route, RunRecord, RunSnapshot, StuckCause
from holdfast.core.sessions import Lane
from holdfast.core.status import Status
from holdfast.core.subscriptions import BEGINNING, EventFilter
from holdfast.core.waits import Signal
from holdfast.errors import (
    IllegalMove,
    RunExists,
    RunFinished,
    RunNotFinished,
    RunNotFound,
    StageGone,
    StoreHalfCopied,
    StoreInUse,
    StoreNotEmpty,
)
from holdfast.store.database import Operation
from holdfast.store.graphs.operations import SweepStages
from holdfast.store.lanes.operations import SetLane
from holdfast.store.retention.operations import Forget
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import (
    BeginCopy,
    BeginImport,
    CopyRuns,
    EndCopy,
    EndSession,
    ImportRun,
    Prune,
    Pruned,
    ReplayRun,
    RequestCancel,
    ResumeRun,
    StagedEvents,
    StageEvents,
    StartChildren,
)
from holdfast.store.signals.operations import SignalRun, TakeSignals
from holdfast.store.store import Store
from holdfast.store.tasks.operations import OverrideRun
from holdfast.store.transitions import trees
from holdfast.store.transitions.graphs import sweeping
from holdfast.testing.conformance.fixture import (
    MINUTE,
    ROUTE,
    STUCK,
    WAITS,
    HandClock,
    OpenStore,
    StoreFixture,
)


class OperatorConformance(StoreFixture):
    """Runs are resumed, replayed, and imported with staged histories."""

    def test_a_stuck_run_is_resumed(self, store: Store) -> None:
        self.stuck(store)
        store.hints()

        assert self.do(store, ResumeRun("r1")) is Status.PENDING

        assert (self.get(store).error, self.get(store).crashes) == (None, 0)
        assert self.kinds(store) == [EventKind.RUN_STUCK, EventKind.RUN_RESUMED]
        assert store.hints().ready
        assert self.claimed(store) == ["r1"]

    def test_a_run_that_got_stuck_in_compensation_resumes_compensation(self, store: Store) -> None:
        run = self.hold(store)
        self.do(store, RequestCancel("r1", "enough"))
        self.advance(store, run, status=Status.STUCK, error=STUCK, release=True)

        assert self.do(store, ResumeRun("r1")) is Status.CANCELLING
        assert self.claimed(store) == ["r1"]

    @pytest.mark.parametrize(
        "op",
        [
            RequestCancel("r1", "enough"),
            RequestCancel("r1", "enough", force=True),
            OverrideRun(
                run_id="r1",
                namespace=ROUTE.namespace,
                status=Status.FAILED,
                reason="by hand",
                error=b"{}",
            ),
            ResumeRun("r1"),
        ],
    )
    def test_a_run_that_leaves_stuck_loses_the_cause(self, store: Store, op: Operation) -> None:
        """The later error of the run has another cause: rekeying must not take it for the clear
        error of a missing key."""
        run = self.hold(store)
        event = self.event(store, "r1", EventKind.RUN_STUCK, role=EventRole.KEY_MISSING)
        self.advance(store, run, status=Status.STUCK, error=STUCK, events=[event], release=True)
        assert self.get(store).stuck_cause == StuckCause.KEY_MISSING

        self.do(store, op)

        assert self.status(store) is not Status.STUCK
        assert self.get(store).stuck_cause is None

    def test_children_that_are_stopped_while_stuck_lose_the_cause(self, store: Store) -> None:
        """Stopping many runs at once has statements of its own."""
        parent = self.hold(store)
        children = [self.child_of(parent, name, session_id="s1") for name in ("c1", "c2")]
        self.advance(store, parent, effects=[StartChildren(children)])
        for name in ("c1", "c2"):
            event = self.event(store, name, EventKind.RUN_STUCK, role=EventRole.KEY_MISSING)
            stuck = {"status": Status.STUCK, "error": STUCK, "events": [event]}
            self.advance(store, self.get(store, name), release=True, **stuck)

        self.do(store, RequestCancel("r1", "enough"))

        causes = {self.get(store, name).stuck_cause for name in ("c1", "c2")}
        assert causes == {None}

    def test_only_a_stuck_run_is_resumed(self, store: Store) -> None:
        self.start(store, "pending")
        self.parked(store, "waiting")
        self.finish(store, self.hold(store, "completed"))

        for run_id in ("pending", "waiting"):
            with pytest.raises(IllegalMove):
                self.do(store, ResumeRun(run_id))
        with pytest.raises(RunFinished):
            self.do(store, ResumeRun("completed"))
        with pytest.raises(RunNotFound):
            self.do(store, ResumeRun("none"))

    def test_a_finished_run_is_replayed(self, store: Store) -> None:
        run = self.hold(store)
        self.advance(store, run)
        self.finish(store, run, Status.FAILED)

        assert self.do(store, ReplayRun("r1", [2])) is Status.PENDING

        again = self.get(store)
        assert (again.error, again.finished_at, again.cancel_reason, again.deadline) == (
            None,
            None,
            None,
            None,
        )
        assert again.generation > run.generation
        assert self.kinds(store) == [EventKind.MARKED, EventKind.RUN_FAILED, EventKind.RUN_REPLAYED]
        assert msgspec.json.decode(store.runs.history("r1")[-1].data or b"") == {"void": [2]}
        assert self.claimed(store) == ["r1"]

    def test_only_a_finished_run_is_replayed(self, store: Store) -> None:
        self.start(store)

        with pytest.raises(RunNotFinished):
            self.do(store, ReplayRun("r1", []))
        with pytest.raises(RunNotFound):
            self.do(store, ReplayRun("none", []))

    def test_an_imported_run_is_as_it_was_exported(self, store: Store, clock: HandClock) -> None:
        run = RunRecord(
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
            cancel_cause=CancelCause.BUDGET,
            cancelled_at=7,
            graph_id="g",
            schedule="nightly",
            tick_at=4,
            started_at=6,
            finished_at=8,
            deadline=9,
        )
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
        monkeypatch.setattr(sweeping, "PORTION", 1)
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


class CopyConformance(StoreFixture):
    """The data of one store can be copied into another, where its runs continue."""

    def create_family(self, store: Store) -> RunRecord:
        """Start a parent that waits for a map with one open child; return the parent.

        The parent has tags, one taken signal and one signal that is not taken.
        """
        parent = self.hold(store, "r1", key="k", tags={"b": "2", "a": "1"})
        self.do(store, SignalRun("r1", "paid", b"1", key="taken"))
        self.do(store, SignalRun("r1", "paid", b"2", key="left"))
        first, _ = store.signals.of_run("r1")
        children = [self.child_of(parent, f"r1-{place}", parent_index=place) for place in range(2)]
        fanouts = [Fanout("call", 2, eager=False)]
        self.park(
            store,
            parent,
            revision=None,
            effects=[StartChildren(children, fanouts), TakeSignals([first.id])],
        )
        (child, _) = self.claim(store)
        self.finish(store, child)
        self.do(store, EndSession("s1", crashed=True))
        return self.get(store)

    def snapshots(self, store: Store) -> list[RunSnapshot]:
        return store.runs.snapshots("", 100, 1 << 20)

    def test_a_snapshot_of_a_run_has_all_of_its_data(self, store: Store) -> None:
        parent = self.create_family(store)

        snapshots = {snapshot.run.id: snapshot for snapshot in self.snapshots(store)}

        parent_snapshot = snapshots["r1"]
        assert list(snapshots) == ["r1", "r1-0", "r1-1"]
        events = [msgspec.structs.replace(event, id=0) for event in parent_snapshot.events]
        assert (parent_snapshot.run, events, parent_snapshot.fanouts) == (
            parent,
            store.runs.history("r1"),
            [Fanout("call", 1, eager=False)],
        )
        assert list(parent_snapshot.tags.items()) == [("a", "1"), ("b", "2")]
        assert [
            (signal.payload, signal.key, signal.taken) for signal in parent_snapshot.signals
        ] == [
            (b"1", "taken", True),
            (b"2", "left", False),
        ]
        assert (
            snapshots["r1-1"].crash_seq,
            snapshots["r1-1"].run.crashes,
            snapshots["r1-1"].rank,
        ) == (
            1,
            1,
            store.now(),
        )

    def test_snapshots_are_read_in_portions_limited_by_count_and_size(self, store: Store) -> None:
        for place in range(5):
            self.start(store, f"r{place}", input=b"x" * 1000)

        def portion(after: str, limit: int, size: int) -> list[str]:
            return [snapshot.run.id for snapshot in store.runs.snapshots(after, limit, size)]

        assert portion("", 2, 1 << 20) == ["r0", "r1"]
        assert portion("r1", 9, 2500) == ["r2", "r3"]
        assert portion("r3", 9, 10) == ["r4"]
        assert portion("r4", 9, 1 << 20) == []

    def test_runs_copied_from_snapshots_are_equal_and_continue(
        self, store: Store, clock: HandClock
    ) -> None:
        self.create_family(store)
        self.do(store, SetLane(Lane(name="l", concurrency=3, rate_limit=1, rate_per=MINUTE)))
        there = self.snapshots(store)
        lanes = store.lanes.all()
        self.execute(store, "DELETE FROM holdfast.run")

        self.do(store, BeginCopy(lanes))
        self.do(store, CopyRuns(there))
        self.do(store, EndCopy())

        here = self.snapshots(store)
        for snapshot in (*there, *here):
            snapshot.signals = [
                msgspec.structs.replace(signal, id=0) for signal in snapshot.signals
            ]
        assert (here, store.lanes.all()) == (there, lanes)
        assert self.do(store, SignalRun("r1", "paid", b"1", key="taken")).new is False
        assert self.start(store, "other", key="k").id == "r1"
        (child,) = self.claim(store)
        self.finish(store, child)
        assert (self.status(store), store.runs.snapshots("", 1, 1)[0].fanouts) == (
            Status.PENDING,
            [Fanout("call", 0, eager=False)],
        )

    def test_a_store_with_runs_takes_in_no_others(self, store: Store) -> None:
        self.start(store)
        self.do(store, SetLane(Lane(name="l", concurrency=3)))

        with pytest.raises(StoreNotEmpty):
            self.do(store, BeginCopy([]))

        assert (
            self.status(store),
            len(store.lanes.all()),
            store.installation.is_half_copied(),
        ) == (
            Status.PENDING,
            1,
            False,
        )

    def test_an_unfinished_copy_is_detected_and_the_next_copy_starts_over(
        self, store: Store, reopen: OpenStore
    ) -> None:
        self.do(store, BeginCopy([Lane(name="old", concurrency=1)]))
        self.do(store, CopyRuns([self.new_snapshot("r1"), self.new_snapshot("r2")]))
        assert store.installation.is_half_copied() and reopen().installation.is_half_copied()

        self.do(store, BeginCopy([]))
        assert (self.snapshots(store), store.lanes.all(), store.installation.is_half_copied()) == (
            [],
            [],
            True,
        )
        self.do(store, CopyRuns([self.new_snapshot("r1")]))
        self.do(store, EndCopy())

        assert (store.installation.is_half_copied(), store.runs.counts()) == (False, {"pending": 1})

    @pytest.mark.parametrize("begin", [BeginCopy([]), BeginImport()])
    def test_a_store_refuses_work_until_a_copy_has_ended(
        self, store: Store, begin: Operation
    ) -> None:
        self.open(store, "early")
        with pytest.raises(StoreInUse):
            self.do(store, begin)
        assert not store.installation.is_half_copied()
        self.do(store, EndSession("early", crashed=False))

        self.do(store, begin)

        with pytest.raises(StoreHalfCopied):
            self.open(store, "late")
        assert (store.installation.is_half_copied(), store.runs.sessions()) == (True, [])
        self.do(store, EndCopy())
        self.open(store, "late")

    def test_a_store_with_runs_refuses_to_begin_an_import(self, store: Store) -> None:
        self.start(store)

        with pytest.raises(StoreNotEmpty):
            self.do(store, BeginImport())

        assert not store.installation.is_half_copied()

    def test_a_copy_with_an_existing_run_writes_nothing(self, store: Store) -> None:
        self.start(store)

        with pytest.raises(RunExists):
            self.do(store, CopyRuns([self.new_snapshot("r0"), self.new_snapshot("r1")]))

        assert [snapshot.run.id for snapshot in self.snapshots(store)] == ["r1"]

    def new_snapshot(self, run_id: str) -> RunSnapshot:
        run = RunRecord(
            id=run_id,
            namespace="n",
            workflow="w",
            version="2",
            lane="l",
            capabilities=(),
            status=Status.PENDING,
            priority=0,
            input=b"[]",
            generation=0,
            revision=0,
            crashes=0,
            created_at=5,
        )
        return RunSnapshot(
            run,
            {"a": "b"},
            [Event(EventKind.MARKED, at=7, seq=1)],
            [Signal(1, "paid", b"5", at=7)],
            rank=5,
        )


class PruneConformance(StoreFixture):
    """Runs that ended before an instant are deleted, in whole trees."""

    def prune(self, store: Store, clock: HandClock, **options: Any) -> Pruned:
        which = {
            "before": clock.now(),
            "statuses": ["completed", "failed", "cancelled", "expired", "skipped"],
            **options,
        }
        pruned: Pruned = self.do(store, Prune(**which))
        return pruned

    def run_to_end(
        self,
        store: Store,
        clock: HandClock,
        run_id: str,
        status: Status = Status.COMPLETED,
        **options: Any,
    ) -> None:
        self.finish(store, self.hold(store, run_id, **options), status)
        clock.move(1)

    def test_runs_that_ended_before_the_cutoff_are_pruned_with_all_of_their_rows(
        self, store: Store, clock: HandClock
    ) -> None:
        run = self.hold(store, tags={"a": "b"}, key="k")
        self.do(store, SignalRun("r1", "paid", b"1"))
        self.finish(store, run)
        clock.move(1)
        self.start(store, "r2")

        assert self.prune(store, clock) == Pruned(runs=1, last=None)

        assert (
            store.runs.get("r1"),
            store.runs.history("r1"),
            store.signals.of_run("r1"),
            store.runs.tags("r1"),
        ) == (
            None,
            [],
            [],
            {},
        )
        assert self.start(store, "r3", key="k", input=b"[3]").created

    def test_runs_that_do_not_match_the_prune_are_kept(
        self, store: Store, clock: HandClock
    ) -> None:
        self.run_to_end(store, clock, "old", route=Route("mine", "greet", "1", "default"))
        self.run_to_end(store, clock, "elsewhere")
        self.run_to_end(
            store, clock, "failed", Status.FAILED, route=Route("mine", "greet", "1", "default")
        )
        before = clock.now()
        self.run_to_end(store, clock, "late", route=Route("mine", "greet", "1", "default"))

        self.prune(store, clock, before=before, statuses=["completed"], namespace="mine")

        assert [run.id for run in store.runs.find(RunFilter())] == ["late", "failed", "elsewhere"]

    def test_a_tree_is_pruned_when_all_of_its_runs_have_ended(
        self, store: Store, clock: HandClock
    ) -> None:
        parent = self.hold(store)
        self.advance(
            store,
            parent,
            effects=[
                StartChildren([self.child_of(parent, "c1", session_id="s1", on_parent_end="leave")])
            ],
        )
        child = self.get(store, "c1")
        self.advance(
            store,
            child,
            effects=[
                StartChildren([self.child_of(child, "d1", session_id="s1", on_parent_end="leave")])
            ],
        )
        self.finish(store, parent)
        self.finish(store, child)
        clock.move(1)

        assert self.prune(store, clock).runs == 0
        assert sum(store.runs.counts().values()) == 3

        self.finish(store, self.get(store, "d1"))
        clock.move(1)
        assert self.prune(store, clock).runs == 3
        assert store.runs.counts() == {}

    def test_a_tree_ends_when_its_last_run_ends(self, store: Store, clock: HandClock) -> None:
        parent = self.hold(store)
        self.advance(
            store,
            parent,
            effects=[
                StartChildren([self.child_of(parent, "c1", session_id="s1", on_parent_end="leave")])
            ],
        )
        self.finish(store, parent)
        clock.move(1)
        between = clock.now()
        self.finish(store, self.get(store, "c1"))
        clock.move(1)

        assert self.prune(store, clock, before=between).runs == 0
        assert self.prune(store, clock).runs == 2

    def test_pruning_goes_in_portions(self, store: Store, clock: HandClock) -> None:
        for number in range(5):
            self.run_to_end(store, clock, f"r{number}")

        first = self.prune(store, clock, limit=2)
        second = self.prune(store, clock, limit=2, after=first.last)
        third = self.prune(store, clock, limit=2, after=second.last)

        assert [first, second, third] == [Pruned(2, "r1"), Pruned(2, "r3"), Pruned(1, None)]

    def test_a_tree_that_is_kept_does_not_keep_others_from_being_pruned(
        self, store: Store, clock: HandClock
    ) -> None:
        parent = self.hold(store, "r0")
        self.advance(
            store,
            parent,
            effects=[StartChildren([self.child_of(parent, "c1", on_parent_end="leave")])],
        )
        self.finish(store, parent)
        clock.move(1)
        self.run_to_end(store, clock, "r1")

        first = self.prune(store, clock, limit=1)
        second = self.prune(store, clock, limit=1, after=first.last)

        assert [first, second] == [Pruned(0, "r0"), Pruned(1, "r1")]

    def large_tree(self, store: Store, clock: HandClock, run_id: str = "r1") -> None:
        """Create a tree of eight finished runs: a root, three children, and four children of one of
        them."""
        parent = self.hold(store, run_id)
        for number in range(3):
            self.advance(
                store,
                parent,
                effects=[
                    StartChildren([self.child_of(parent, f"{run_id}c{number}", session_id="s1")])
                ],
            )
            clock.move(1)
        child = self.get(store, f"{run_id}c0")
        for number in range(4):
            self.advance(
                store,
                child,
                effects=[
                    StartChildren([self.child_of(child, f"{run_id}a{number}", session_id="s1")])
                ],
            )
            clock.move(1)
        for name in ("a0", "a1", "a2", "a3", "c0", "c1", "c2", ""):
            self.finish(store, self.get(store, run_id + name))
        clock.move(1)

    def test_a_large_tree_is_pruned_in_parts_and_its_root_last(
        self, store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trees, "RUNS", 3)
        self.run_to_end(store, clock, "r0")
        self.large_tree(store, clock)
        self.run_to_end(store, clock, "r2")
        gone: list[int] = []
        after: str | None = ""
        while after is not None:
            pruned = self.prune(store, clock, after=after)
            gone.append(pruned.runs)
            after = pruned.last
            assert store.check() == []

        assert gone == [1, 3, 3, 3]
        assert store.runs.counts() == {}

    def test_a_partly_pruned_tree_has_no_history_to_replay(
        self, store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trees, "RUNS", 3)
        self.large_tree(store, clock)

        assert self.prune(store, clock) == Pruned(runs=3, last="")
        assert self.kinds(store) == [EventKind.HISTORY_DELETED]
        assert {run.id for run in store.runs.find(RunFilter())} == {
            "r1",
            "r1c0",
            "r1c1",
            "r1c2",
            "r1a0",
        }

    def test_trees_that_are_large_together_are_pruned_one_after_another(
        self, store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trees, "RUNS", 10)
        self.large_tree(store, clock, "r1")
        self.large_tree(store, clock, "r2")

        assert self.prune(store, clock) == Pruned(runs=8, last="r1")
        assert self.prune(store, clock, after="r1") == Pruned(runs=8, last=None)

    def test_the_histories_of_a_large_tree_are_trimmed_in_parts(
        self, store: Store, clock: HandClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trees, "RUNS", 3)
        self.large_tree(store, clock)
        runs: list[int] = []
        after: str | None = ""
        while after is not None:
            trimmed = self.do(store, Forget("events", clock.now(), ["completed"], after=after))
            runs.append(trimmed.runs)
            after = trimmed.last

        assert runs == [3, 3, 2]
        assert {tuple(self.kinds(store, run.id)) for run in store.runs.find(RunFilter())} == {
            (EventKind.HISTORY_DELETED,)
        }
