"""Conformance of operations of operators: resume and replay."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.events import EventKind, EventRole
from holdfast.core.runs import StuckCause
from holdfast.core.status import Status
from holdfast.errors import (
    IllegalMove,
    RunFinished,
    RunNotFinished,
    RunNotFound,
)
from holdfast.store.database import Operation
from holdfast.store.runs.operations import (
    ReplayRun,
    RequestCancel,
    ResumeRun,
    StartChildren,
)
from holdfast.store.store import Store
from holdfast.store.tasks.operations import OverrideRun
from holdfast.testing.conformance.fixture import (
    ROUTE,
    STUCK,
    StoreFixture,
)


class OperatorConformance(StoreFixture):
    """Stuck runs are resumed, and finished runs are replayed."""

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
