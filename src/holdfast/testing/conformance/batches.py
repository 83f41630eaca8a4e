"""Conformance of batches: many operations in one transaction."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.events import Event, EventKind
from holdfast.core.runs import Route, RunRecord
from holdfast.core.status import Status
from holdfast.errors import LeaseLost, RunExists, RunNotFound, WriteConflict
from holdfast.store.database import Hints
from holdfast.store.runs.operations import (
    Advance,
    Advanced,
    Heartbeat,
    StartChildren,
    StartRuns,
)
from holdfast.store.signals.operations import SignalRun
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import (
    MINUTE,
    HandClock,
    StoreFixture,
)


class BatchConformance(StoreFixture):
    """Many operations are applied in one transaction, and each gets its own answer."""

    def test_each_operation_of_a_batch_gets_its_own_answer(self, store: Store) -> None:
        self.open(store)
        self.start(store, "r1")

        answers = store.apply(
            [
                StartRuns([self.new("r2", session_id="s1")]),
                StartRuns([self.new("r1", input=b"[2]")]),
                SignalRun("none", "paid", b"1"),
                Advance(run_id="r2", generation=1, events=[Event(EventKind.MARKED, seq=1)]),
                Advance(run_id="r2", generation=7, events=[Event(EventKind.MARKED, seq=2)]),
                Heartbeat("s1", MINUTE),
            ]
        )

        kinds = [type(answer) for answer in answers]
        assert kinds == [list, RunExists, RunNotFound, Advanced, LeaseLost, bool]
        assert self.kinds(store, "r2") == [EventKind.MARKED]

    def test_a_refused_end_does_not_affect_the_other_ends_of_a_batch(self, store: Store) -> None:
        runs = [self.hold(store, f"r{number}") for number in range(12)]
        store.hints()

        def end(run: RunRecord, seq: int, generation: int) -> Advance:
            events = [
                Event(EventKind.STEP_COMPLETED, "a", b"1", seq=seq),
                Event(EventKind.RUN_COMPLETED, seq=seq + 1),
            ]
            return Advance(
                run_id=run.id,
                generation=generation,
                events=events,
                status=Status.COMPLETED,
                result=b"1",
            )

        answers = store.apply(
            [
                *(end(run, 1, run.generation + (run.id == "r5")) for run in runs),
                end(runs[3], 3, runs[3].generation),
            ]
        )

        assert [place for place, answer in enumerate(answers) if isinstance(answer, LeaseLost)] == [
            5,
            12,
        ]
        assert [self.status(store, run.id) for run in runs].count(Status.COMPLETED) == 11
        assert (self.kinds(store, "r3"), self.kinds(store, "r5")) == (
            [EventKind.STEP_COMPLETED, EventKind.RUN_COMPLETED],
            [],
        )
        assert store.hints().finished == {run.id for run in runs} - {"r5"}
        assert isinstance(store.apply([end(runs[5], 1, runs[5].generation)])[0], Advanced)

    def test_many_runs_end_in_one_batch(self, store: Store, clock: HandClock) -> None:
        runs = [self.hold(store, f"r{number}") for number in range(12)]
        clock.move(7)

        answers = store.apply(
            [
                Advance(
                    run_id=run.id,
                    generation=run.generation,
                    events=[Event(EventKind.RUN_FAILED, error=b"{}", seq=1)],
                    status=Status.FAILED,
                    error=b"{}",
                )
                for run in runs
            ]
        )

        assert answers == [Advanced(now=clock.now())] * 12
        for run in runs:
            ended = self.get(store, run.id)
            assert (ended.status, ended.error, ended.finished_at, ended.session_id) == (
                "failed",
                b"{}",
                clock.now(),
                None,
            )
            assert store.runs.history(run.id) == [
                Event(EventKind.RUN_FAILED, error=b"{}", at=clock.now(), seq=1)
            ]

    def test_an_empty_batch_is_accepted(self, store: Store) -> None:
        assert store.apply([]) == []

    def test_an_operation_that_raises_does_not_affect_the_others(self, store: Store) -> None:
        run = self.hold(store)
        self.advance(store, run)

        answers = store.apply(
            [
                StartRuns([self.new("r2", route=Route("default", "new", "1", "default"))]),
                Advance(run_id="r1", generation=1, events=[Event(EventKind.MARKED, seq=1)]),
                StartRuns([self.new("r3", route=Route("default", "new", "1", "default"))]),
                Advance(run_id="r1", generation=1, events=[]),
            ]
        )

        assert [isinstance(answer, Exception) for answer in answers] == [False, True, False, True]
        assert (self.status(store, "r2"), self.status(store, "r3")) == (
            Status.PENDING,
            Status.PENDING,
        )
        assert self.kinds(store) == [EventKind.MARKED]

    def test_the_error_of_a_single_operation_is_raised_and_nothing_is_written(
        self, store: Store
    ) -> None:
        run = self.hold(store)
        twice = [Event(EventKind.MARKED, seq=1), Event(EventKind.MARKED, seq=1)]

        with pytest.raises(Exception):  # noqa: B017 - whatever the database says
            self.advance(store, run, events=twice)

        assert store.runs.history("r1") == []
        self.advance(store, run)

    def test_an_event_whose_number_is_taken_is_a_write_conflict_and_changes_nothing(
        self, store: Store
    ) -> None:
        runs = [self.hold(store, run_id) for run_id in ("r1", "r2", "r3")]
        self.advance(store, runs[1])
        taken = Event(EventKind.MARKED, "again", seq=1)
        end = Event(EventKind.RUN_COMPLETED, seq=1)
        cases: list[tuple[list[Event], dict[str, Any]]] = [
            ([taken], {}),
            ([end], {"status": Status.COMPLETED, "result": b"1"}),
        ]

        for events, options in cases:
            with pytest.raises(WriteConflict):
                self.advance(store, runs[1], events=events, **options)
            batch = [
                Advance(
                    run_id=run.id,
                    generation=1,
                    events=[Event(EventKind.MARKED, "next", seq=self.seq(store, run.id))],
                )
                for run in runs
            ]
            batch[1] = Advance(run_id="r2", generation=1, events=events, **options)
            answers = store.apply(batch)
            assert [type(answer) for answer in answers] == [Advanced, WriteConflict, Advanced]

        assert [len(store.runs.history(run.id)) for run in runs] == [2, 1, 2]
        assert self.status(store, "r2") == Status.RUNNING

    def test_hints_of_earlier_operations_survive_an_operation_that_raises(
        self, store: Store
    ) -> None:
        run = self.hold(store)
        self.start(store, "r2")
        self.do(store, SignalRun("r1", "paid", b"1"))

        with pytest.raises(ValueError):
            self.advance(store, run, events=[])

        assert store.hints() == Hints(ready=True, runs={"r1"}, routes=True)

    def test_a_refused_operation_leaves_no_hints(self, store: Store) -> None:
        run = self.hold(store)
        self.start(store, "r2")
        store.hints()

        store.apply(
            [
                StartRuns([self.new("r3"), self.new("r2", input=b"[2]")]),
                Advance(
                    run_id="r1",
                    generation=9,
                    status=Status.COMPLETED,
                    events=[Event(EventKind.RUN_COMPLETED, seq=1)],
                ),
                Advance(run_id="r1", generation=9, status=Status.PENDING, release=True),
                Advance(
                    run_id="r1",
                    generation=run.generation,
                    events=[Event(EventKind.MARKED, seq=1)],
                    effects=[
                        StartChildren(
                            [self.child_of(run, "c1"), self.child_of(run, "r2", input=b"[2]")]
                        )
                    ],
                ),
            ]
        )

        assert store.hints() == Hints()

    def test_hints_are_returned_once(self, store: Store) -> None:
        self.start(store)

        assert (store.hints().ready, store.hints().ready) == (True, False)
