"""Whatever user code does to the connection that is lent to it, only its own step fails, and the
store works on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import pytest

from holdfast.core.events import Event, EventKind
from holdfast.errors import BadOption
from holdfast.store.contract import Store
from holdfast.store.contract.runs import Advance, Advanced, StartRuns
from holdfast.testing.conformance.advance import TransactionalStepFixture

Misuse = Callable[[Any], object]


def close_for_certain(connection: Any) -> None:
    """Close the connection by the method of the driver, which the connection that is lent
    refuses."""
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
"""Misuses that not every database has: a store names its own in ``misuses``."""


class UserConnectionConformance(TransactionalStepFixture):
    """A connection that is lent to user code."""

    misuses: ClassVar[dict[str, Misuse]] = {}
    """What else user code can try in the database of this store. Each must be refused with
    BadOption."""

    def step(self, run_id: str, body: Callable[[Any], bytes]) -> Advance:
        return Advance(
            run_id=run_id,
            generation=1,
            events=[Event(EventKind.STEP_COMPLETED, "s", seq=1)],
            body=body,
        )

    def check_neighbours(self, store: Store, body: Callable[[Any], bytes]) -> Any:
        """Apply *body* in the middle of a batch, and return its answer; the others must not be
        harmed."""
        for run_id in ("r1", "r2", "r5"):
            self.hold(store, run_id)

        answers = store.apply(
            [
                StartRuns([self.new("r3")]),
                self.step("r2", self.write),
                self.step("r1", body),
                self.step("r5", self.write),
                StartRuns([self.new("r4")]),
            ]
        )

        assert answers[0][0].created
        assert answers[4][0].created
        assert [answers[1].data, answers[3].data] == [b"7", b"7"]
        assert self.written(store) == 2
        assert self.start(store, "after").created
        assert isinstance(store.apply([self.step("r1", self.write)])[0], Advanced)
        assert self.written(store) == 3
        assert store.check() == []
        return answers[2]

    def misuse_named(self, name: str) -> Misuse:
        misuse = self.misuses.get(name) or MISUSES.get(name)
        if misuse is None:
            pytest.skip("not in this database")
        return misuse

    @pytest.mark.parametrize("name", [*MISUSES, *OF_ONE_DATABASE])
    def test_a_step_that_misuses_it_is_refused_and_harms_nothing_else(
        self, store: Store, name: str
    ) -> None:
        misuse = self.misuse_named(name)

        def body(connection: Any) -> bytes:
            self.write(connection)
            misuse(connection)
            return b""

        answer = self.check_neighbours(store, body)

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
                self.write(connection)
            return b""

        assert isinstance(self.check_neighbours(store, body), BadOption)

    def test_it_is_of_no_use_after_the_step(self, store: Store) -> None:
        self.hold(store)
        kept: list[Any] = []

        def body(connection: Any) -> bytes:
            kept.extend([connection, connection.cursor()])
            return self.write(connection)

        store.apply([self.step("r1", body)])

        for use in (kept[0].execute, kept[1].execute):
            with pytest.raises(Exception, match=r"has ended|closed"):
                use("INSERT INTO note (text) VALUES ('late')")
        with pytest.raises(BadOption, match="belongs to the engine"):
            kept[0].close()
        assert self.written(store) == 1
        assert self.start(store, "r2").created
