"""Conformance of ``SetAside``: a damaged row is set aside and says why."""

from __future__ import annotations

import msgspec

from holdfast.core.events import EventKind
from holdfast.core.status import Status
from holdfast.errors import RowDamaged
from holdfast.store.runs.operations import (
    Advance,
    ResumeRun,
    SetAside,
)
from holdfast.store.schedules.operations import SetSchedule
from holdfast.store.store import Store
from holdfast.testing.conformance.damage import hourly_schedule
from holdfast.testing.conformance.fixture import (
    ROUTE,
    StoreFixture,
)


def damage(table: str, **place: object) -> RowDamaged:
    """Return the error that a store raises for a damaged row of *table*."""
    return RowDamaged(
        table=table,
        key=" ".join(map(str, place.values())),
        column="priority",
        why="it is text",
        place=place,
    )


class SetAsideConformance(StoreFixture):
    """``SetAside`` makes a damaged run stuck and pauses a damaged schedule; other rows stay."""

    def test_a_damaged_run_is_stuck_and_says_why(self, store: Store) -> None:
        self.start(store)

        assert self.do(store, SetAside([damage("run", id="r1")])) == 1

        run = self.get(store)
        assert run.status is Status.STUCK
        assert msgspec.json.decode(run.error or b"")["type"] == "RowDamaged"
        assert self.kinds(store) == [EventKind.RUN_STUCK]

    def test_other_runs_are_claimed_when_one_is_set_aside(self, store: Store) -> None:
        self.start(store, "r1")
        self.start(store, "r2")
        self.do(store, SetAside([damage("run", id="r1")]))

        assert self.claimed(store) == ["r2"]

    def test_a_run_is_set_aside_once(self, store: Store) -> None:
        self.start(store)
        self.do(store, SetAside([damage("run", id="r1")]))

        assert self.do(store, SetAside([damage("run", id="r1")])) == 0

    def test_a_damaged_line_of_a_history_makes_its_run_stuck(self, store: Store) -> None:
        self.hold(store)

        assert self.do(store, SetAside([damage("event", run_id="r1", seq=1)])) == 1

        assert self.status(store) is Status.STUCK

    def test_the_holder_of_a_run_that_is_set_aside_can_no_longer_write(self, store: Store) -> None:
        run = self.hold(store)
        event = self.event(store)
        self.do(store, SetAside([damage("run", id="r1")]))

        (answer,) = store.apply([Advance(run_id=run.id, generation=run.generation, events=[event])])

        assert isinstance(answer, Exception)

    def test_a_finished_run_is_not_set_aside(self, store: Store) -> None:
        run = self.hold(store)
        self.finish(store, run)

        assert self.do(store, SetAside([damage("run", id="r1")])) == 0

        assert self.status(store) is Status.COMPLETED

    def test_a_repaired_run_is_resumed(self, store: Store) -> None:
        self.start(store)
        self.do(store, SetAside([damage("run", id="r1")]))

        self.do(store, ResumeRun("r1"))

        assert self.claimed(store) == ["r1"]

    def test_a_damaged_schedule_is_paused_and_says_why(self, store: Store) -> None:
        self.do(store, SetSchedule(hourly_schedule("nightly")))

        assert (
            self.do(
                store, SetAside([damage("schedule", namespace=ROUTE.namespace, name="nightly")])
            )
            == 1
        )

        schedule = store.schedules.get(ROUTE.namespace, "nightly")
        assert schedule is not None
        assert (schedule.paused, schedule.wake_at) == ("its row is damaged: it is text", None)
