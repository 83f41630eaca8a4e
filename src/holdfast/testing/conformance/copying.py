"""Conformance of copies: all data of one store, as snapshots of its runs."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.events import Event, EventKind
from holdfast.core.runs import Fanout, RunRecord, RunSnapshot
from holdfast.core.sessions import Lane
from holdfast.core.status import Status
from holdfast.core.waits import Signal
from holdfast.errors import (
    RunExists,
    StoreHalfCopied,
    StoreInUse,
    StoreNotEmpty,
)
from holdfast.store.database import Operation
from holdfast.store.lanes.operations import SetLane
from holdfast.store.runs.copy_operations import BeginCopy, BeginImport, CopyRuns, EndCopy
from holdfast.store.runs.operations import EndSession, StartChildren
from holdfast.store.signals.operations import SignalRun, TakeSignals
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import (
    MINUTE,
    HandClock,
    OpenStore,
    StoreFixture,
)


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
        return store.run_snapshots.page("", 100, 1 << 20)

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
            return [snapshot.run.id for snapshot in store.run_snapshots.page(after, limit, size)]

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
        assert (self.status(store), store.run_snapshots.page("", 1, 1)[0].fanouts) == (
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
        assert (store.installation.is_half_copied(), store.sessions.all()) == (True, [])
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
