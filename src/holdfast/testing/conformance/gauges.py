"""Conformance of the queries for monitoring: live runs, ready runs, outcomes, migrations."""

from __future__ import annotations

import pytest

from holdfast.core.runs import Route
from holdfast.core.status import Status
from holdfast.errors import StoreTooNew
from holdfast.store.runs.gauges import ReadyRun
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import MINUTE, MORNING, ROUTE, HandClock, StoreFixture

ACME = Route("acme", ROUTE.workflow, ROUTE.version, "slow", ())


class GaugeConformance(StoreFixture):
    """Monitoring reads live rows and the newest events, and never all finished runs."""

    def test_live_runs_are_counted_by_namespace_and_status(self, store: Store) -> None:
        self.finish(store, self.hold(store, "ended"))
        self.hold(store, "held")
        self.parked(store, "parked")
        self.stuck(store, "stuck")
        self.start(store, "here")
        self.start(store, "there", route=ACME)

        assert store.gauges.live() == {
            (ROUTE.namespace, "running"): 1,
            (ROUTE.namespace, "waiting"): 1,
            (ROUTE.namespace, "stuck"): 1,
            (ROUTE.namespace, "pending"): 1,
            ("acme", "pending"): 1,
        }

    def test_the_run_that_is_claimed_next_is_named_with_its_lane(
        self, store: Store, clock: HandClock
    ) -> None:
        assert store.gauges.oldest_ready() == []
        self.start(store, "there", route=ACME)
        clock.move(MINUTE)
        self.start(store, "first")
        clock.move(MINUTE)
        self.start(store, "second")
        self.parked(store, "parked")

        assert store.gauges.oldest_ready() == [
            ReadyRun("acme", "slow", "there", MORNING),
            ReadyRun(ROUTE.namespace, ROUTE.lane, "first", MORNING + MINUTE),
        ]

    def test_outcomes_are_counted_by_minute_in_the_newest_events(
        self, store: Store, clock: HandClock
    ) -> None:
        self.finish(store, self.hold(store, "old"))
        clock.move(MINUTE)
        self.finish(store, self.hold(store, "a"))
        self.finish(store, self.hold(store, "b", route=ACME), Status.FAILED)
        clock.move(MINUTE)
        self.finish(store, self.hold(store, "c"))
        first = MORNING // MINUTE + 1

        outcomes = store.gauges.outcomes(MORNING + MINUTE)
        acme = store.gauges.outcomes(MORNING, "acme")
        newest = store.gauges.outcomes(MORNING, newest=1)

        assert outcomes.since == MORNING + MINUTE
        assert outcomes.runs == {
            first: {"completed": 1, "failed": 1},
            first + 1: {"completed": 1},
        }
        assert acme.runs == {first: {"failed": 1}}
        assert (newest.since, newest.runs) == (
            MORNING + MINUTE,
            {first + 1: {"completed": 1}},
        )

    def test_tables_of_another_version_are_noticed(self, store: Store) -> None:
        store.installation.check_schema()

        self.execute(store, "UPDATE holdfast.migration SET number = 9000 WHERE number = 1")
        with pytest.raises(StoreTooNew):
            store.installation.check_schema()
        self.execute(store, "UPDATE holdfast.migration SET number = 1 WHERE number = 9000")
        store.installation.check_schema()
