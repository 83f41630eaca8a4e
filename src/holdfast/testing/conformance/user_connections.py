"""Conformance of user connections: if user code misuses the connection of its transactional step,
only that step fails, and the store continues to work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import pytest

from holdfast.core.events import Event, EventKind
from holdfast.errors import BadOption
from holdfast.store.runs.operations import Advance, Advanced, Body, StartRuns
from holdfast.store.store import Store
from holdfast.testing.conformance.transactional_steps import TransactionalStepFixture

Misuse = Callable[[Any], object]


def close_for_certain(connection: Any) -> None:
    """Close the connection by the method of the driver class: the class of the lent connection
    overrides it with a refusal."""
    driver: Any = type(connection).__mro__[1]
    driver.close(connection)


MISUSES: dict[str, Misuse] = {
    "close": lambda connection: connection.close(),
    "begin": lambda connection: connection.execute("BEGIN"),
    "commit": lambda connection: connection.execute("/* now */ COMMIT"),
    "release": lambda connection: connection.execute("RELEASE SAVEPOINT holdfast_op"),
    "roll back": lambda connection: connection.execute("ROLLBACK TO SAVEPOINT holdfast_op"),
    "close for certain": close_for_certain,
}
OF_ONE_DATABASE = (
    "set",
    "set quietly",
    "attach",
    "hook",
    "roll back all",
    "forget statements",
    "close cursors",
    "commit below the driver",
    "roll back below the driver",
    "begin again below the driver",
    "close cursors below the driver",
)
"""Names of misuses that not every database has: a store supplies its own in ``misuses``, and the
test of a missing name is skipped."""


class UserConnectionConformance(TransactionalStepFixture):
    """A misused connection fails its own step and affects no other operation."""

    misuses: ClassVar[dict[str, Misuse]] = {}
    """Further misuses that user code can try in the database of this store, by name. Each must be
    refused with ``BadOption``."""

    def step(self, run_id: str, body: Callable[[Any], bytes]) -> Advance:
        return Advance(
            run_id=run_id,
            generation=1,
            events=[Event(EventKind.STEP_COMPLETED, "s", seq=1)],
            body=Body(body),
        )

    def apply_in_batch(self, store: Store, body: Callable[[Any], bytes]) -> Any:
        """Apply a step with *body* in the middle of a batch, and return its answer.

        The other operations of the batch and later writes must succeed.
        """
        for run_id in ("r1", "r2", "r5"):
            self.hold(store, run_id)

        answers = store.apply(
            [
                StartRuns([self.new("r3")]),
                self.step("r2", self.write_note),
                self.step("r1", body),
                self.step("r5", self.write_note),
                StartRuns([self.new("r4")]),
            ]
        )

        assert answers[0][0].created
        assert answers[4][0].created
        assert [answers[1].data, answers[3].data] == [b"7", b"7"]
        assert self.count_notes(store) == 2
        assert self.start(store, "after").created
        assert isinstance(store.apply([self.step("r1", self.write_note)])[0], Advanced)
        assert self.count_notes(store) == 3
        assert store.check() == []
        return answers[2]

    def misuse_named(self, name: str) -> Misuse:
        misuse = self.misuses.get(name) or MISUSES.get(name)
        if misuse is None:
            pytest.skip("not in this database")
        return misuse

    @pytest.mark.parametrize("name", [*MISUSES, *OF_ONE_DATABASE])
    def test_a_step_that_misuses_its_connection_is_refused_and_affects_nothing_else(
        self, store: Store, name: str
    ) -> None:
        misuse = self.misuse_named(name)

        def body(connection: Any) -> bytes:
            self.write_note(connection)
            misuse(connection)
            return b""

        answer = self.apply_in_batch(store, body)

        assert isinstance(answer, BadOption)
        assert "transactional step" in str(answer)

    @pytest.mark.parametrize(
        "name",
        [
            "close for certain",
            "roll back all",
            "commit below the driver",
            "roll back below the driver",
        ],
    )
    def test_a_step_that_hides_the_error_is_refused_all_the_same(
        self, store: Store, name: str
    ) -> None:
        misuse = self.misuse_named(name)

        def body(connection: Any) -> bytes:
            with suppress(Exception):
                misuse(connection)
            with suppress(Exception):
                self.write_note(connection)
            return b""

        assert isinstance(self.apply_in_batch(store, body), BadOption)

    def test_a_lent_connection_is_unusable_after_its_step(self, store: Store) -> None:
        self.hold(store)
        kept: list[Any] = []

        def body(connection: Any) -> bytes:
            kept.extend([connection, connection.cursor()])
            return self.write_note(connection)

        store.apply([self.step("r1", body)])

        for use in (kept[0].execute, kept[1].execute):
            with pytest.raises(Exception, match=r"has ended|closed"):
                use("INSERT INTO note (text) VALUES ('late')")
        with pytest.raises(BadOption, match="belongs to the engine"):
            kept[0].close()
        assert self.count_notes(store) == 1
        assert self.start(store, "r2").created
