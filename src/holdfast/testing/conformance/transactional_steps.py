"""Conformance of transactional steps: user code that writes in the transaction of its event."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.events import Event, EventKind
from holdfast.core.runs import RunRecord
from holdfast.errors import HoldfastError, LeaseLost
from holdfast.store.database import Operation
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import (
    Advance,
    Advanced,
    Body,
    EndSession,
    StartRuns,
)
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import (
    StoreFixture,
)


class TransactionalStepFixture(StoreFixture):
    """The writes of a transactional step are committed once, with the event of the step."""

    @pytest.fixture(autouse=True)
    def note_tables(self, bare_store: Store) -> None:
        self.execute(bare_store, "CREATE TABLE note (text TEXT)")
        self.execute(bare_store, "CREATE TABLE noted (count INTEGER)")

    def write_note(self, connection: Any) -> bytes:
        connection.execute("INSERT INTO note (text) VALUES ('paid')")
        return b"7"

    def count_notes(self, store: Store) -> int:
        """Return the number of committed notes, read through a user's connection."""
        with self.transaction(store) as connection:
            return int(next(iter(connection.execute("SELECT COUNT(*) FROM note").fetchall()))[0])

    def test_the_effect_and_the_record_of_a_body_are_committed_together(self, store: Store) -> None:
        run = self.hold(store)

        answer = self.advance(store, run, body=Body(self.write_note))

        assert (answer.data, self.count_notes(store)) == (b"7", 1)
        assert store.runs.history("r1")[0].data == b"7"

    def test_an_error_in_a_body_leaves_no_trace(self, store: Store) -> None:
        run = self.hold(store)

        def write_and_fail(connection: Any) -> bytes:
            self.write_note(connection)
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            self.advance(store, run, body=Body(write_and_fail))

        assert (self.count_notes(store), store.runs.history("r1")) == (0, [])

    def test_an_error_in_a_body_does_not_affect_other_operations(self, store: Store) -> None:
        run = self.hold(store)
        other = self.hold(store, "r2")

        def write_and_fail(connection: Any) -> bytes:
            self.write_note(connection)
            connection.execute("INSERT INTO there_is_no_such_table (x) VALUES (1)")
            return b""

        def step(run: RunRecord, body: Any) -> Advance:
            return Advance(
                run_id=run.id,
                generation=1,
                events=[Event(EventKind.STEP_COMPLETED, "s", seq=1)],
                body=Body(body),
            )

        answers = store.apply(
            [step(other, self.write_note), step(run, write_and_fail), StartRuns([self.new("r3")])]
        )

        assert isinstance(answers[0], Advanced)
        assert isinstance(answers[1], Exception)
        assert answers[2][0].created
        assert (self.count_notes(store), store.runs.history("r1"), self.kinds(store, "r2")) == (
            1,
            [],
            [EventKind.STEP_COMPLETED],
        )

    def test_a_body_is_not_called_without_a_lease(self, store: Store) -> None:
        run = self.hold(store)
        self.do(store, EndSession("s1", crashed=True))
        called: list[object] = []

        def body(connection: object) -> bytes:
            called.append(connection)
            return b""

        with pytest.raises(LeaseLost):
            self.advance(store, run, body=Body(body))

        assert called == []

    @pytest.mark.parametrize("ending", ["COMMIT", "ROLLBACK"])
    def test_a_body_cannot_end_the_transaction_that_it_is_called_in(
        self, store: Store, ending: str
    ) -> None:
        run = self.hold(store)
        before = store.apply([StartRuns([self.new("r2")])])
        assert before[0][0].created

        def body(connection: Any) -> bytes:
            self.write_note(connection)
            connection.execute(ending)
            return b""

        ops: list[Operation] = [
            StartRuns([self.new("r3")]),
            Advance(
                run_id="r1",
                generation=run.generation,
                events=[Event(EventKind.STEP_COMPLETED, "s", seq=1)],
                body=Body(body),
            ),
            StartRuns([self.new("r4")]),
        ]
        answers = store.apply(ops)

        assert [isinstance(answer, HoldfastError) for answer in answers] == [False, True, False]
        assert (self.count_notes(store), store.runs.history("r1")) == (0, [])
        assert {"r3", "r4"} <= {run.id for run in store.runs.find(RunFilter())}
