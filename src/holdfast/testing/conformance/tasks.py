"""Conformance of tasks: explicit leases, and operations of operators on leased runs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core import typed_json
from holdfast.core.events import Event, EventKind
from holdfast.core.status import Status
from holdfast.core.streams.model import NewFrame, Output, StreamPart
from holdfast.core.tasks.policy import TaskPolicy
from holdfast.errors import LeaseLost, RunFinished, RunNotFound
from holdfast.store.runs.cancel import PORTION
from holdfast.store.runs.operations import (
    Advance,
    EndSession,
    OpenSession,
    StartChildren,
    StartRuns,
)
from holdfast.store.signals.operations import SignalRun
from holdfast.store.store import Store
from holdfast.store.streams.operations import AppendOutput
from holdfast.store.tasks.operations import (
    ClaimLeases,
    CompleteLeases,
    ExpireAttempts,
    LeasedTask,
    OverrideRun,
    RenewLeases,
    RevokeLease,
    SetPriority,
    TaskCompletion,
)
from holdfast.testing.conformance.fixture import MINUTE, HandClock, StoreFixture


class TaskConformance(StoreFixture):
    """A lease is held until it ends, expires or is revoked; then its holder can no longer write."""

    def start_with_policy(self, store: Store, run_id: str = "r1", **policy: Any) -> None:
        self.start(store, run_id, policy=msgspec.json.encode(TaskPolicy(**policy)))

    def lease(self, store: Store, session_id: str = "s1", limit: int = 10) -> list[LeasedTask]:
        if session_id not in {session.id for session in store.sessions.all()}:
            self.open(store, session_id)
        routes = [(number, route.lane) for number, route in store.runs.routes().items()]
        leased: list[LeasedTask] = self.do(store, ClaimLeases(session_id, routes, limit))
        return leased

    def revoke(self, store: Store, run_id: str = "r1", **options: Any) -> Any:
        return self.do(
            store,
            RevokeLease(**{"run_id": run_id, "namespace": "default", "reason": "x", **options}),
        )

    def test_a_leased_task_has_its_last_event_number_and_its_policy(self, store: Store) -> None:
        self.start_with_policy(store, "a", retries=2)
        self.start(store, "b")
        self.do(store, SetPriority(run_id="b", namespace="default", priority=-1))

        a, b = self.lease(store)

        assert (a.run.id, a.seq, a.run.session_id, a.run.generation) == ("a", 0, "s1", 1)
        assert typed_json.decode(a.policy or b"", TaskPolicy) == TaskPolicy(retries=2)
        assert (b.run.id, b.seq, b.policy) == ("b", 1, None)
        assert self.lease(store) == []

    def test_a_session_that_was_ended_leases_nothing(self, store: Store) -> None:
        self.start_with_policy(store)
        self.open(store, "s1")
        routes = [(number, route.lane) for number, route in store.runs.routes().items()]
        self.do(store, EndSession("s1", crashed=False))

        assert self.do(store, ClaimLeases("s1", routes, 10)) == []

    def test_lease_only_sessions_are_listed_after_workers(self, store: Store) -> None:
        self.do(store, OpenSession(msgspec.structs.replace(self.open(store, "s1"), id="s0", pid=0)))

        assert [session.id for session in store.sessions.all()] == ["s1", "s0"]

    def renew(self, store: Store, session_id: str = "s1", **held: Any) -> Any:
        return self.do(store, RenewLeases(session_id=session_id, lifetime=MINUTE, **held))

    def test_leases_can_be_renewed_until_their_session_has_expired(
        self, store: Store, clock: HandClock
    ) -> None:
        self.start_with_policy(store)
        opened = msgspec.structs.replace(
            self.open(store, "worker"), id="s1", pid=0, expires_at=clock.now() + MINUTE
        )
        self.do(store, OpenSession(opened))
        (held,) = self.lease(store)
        self.do(store, SignalRun("r1", "go", b"1"))
        assert store.sessions.notifications("s1", 0) != []

        clock.move(MINUTE)
        assert self.renew(store) == clock.now() + MINUTE
        assert store.sessions.notifications("s1", 0) == []
        assert (
            self.renew(store, run_id="r1", generation=held.run.generation) == clock.now() + MINUTE
        )
        clock.move(1)
        assert self.renew(store, run_id="r1", generation=9) is None
        assert self.renew(store, run_id="no", generation=1) is None
        assert self.renew(store, "worker", run_id="r1", generation=held.run.generation) is None
        assert self.renew(store, "worker") is None
        assert self.renew(store, "nobody") is None
        clock.move(MINUTE)
        assert self.renew(store) is None
        assert self.renew(store, run_id="r1", generation=held.run.generation) is None
        assert {session.id: session.expires_at for session in store.sessions.all()}[
            "s1"
        ] == clock.now() - 1

    def test_an_attempt_that_takes_too_long_is_taken_back(
        self, store: Store, clock: HandClock
    ) -> None:
        self.start_with_policy(
            store, timeout=MINUTE, retries=1, delay=2 * MINUTE, cap=2 * MINUTE, jitter=0.0
        )
        (held,) = self.lease(store)

        assert store.tasks.next_attempt_end() == clock.now() + MINUTE
        assert store.runs.next_wake() == clock.now() + MINUTE
        assert self.do(store, ExpireAttempts(0.5)) == 0
        clock.move(MINUTE)
        assert self.do(store, ExpireAttempts(0.5)) == 1
        run = self.get(store)
        assert (run.status, run.wake_at, run.session_id) == (
            Status.PENDING,
            clock.now() + 2 * MINUTE,
            None,
        )
        assert store.tasks.next_attempt_end() is None
        with pytest.raises(LeaseLost):
            self.finish(store, held.run)
        clock.move(2 * MINUTE)
        assert [task.run.generation for task in self.lease(store)] == [3]
        clock.move(MINUTE)
        assert self.do(store, ExpireAttempts(0.5)) == 1
        assert self.status(store) is Status.FAILED
        assert self.kinds(store) == ["attempt_failed", "attempt_failed", "run_failed"]

    def test_an_attempt_that_ended_in_time_is_left_alone(
        self, store: Store, clock: HandClock
    ) -> None:
        self.start_with_policy(store, timeout=MINUTE)
        (held,) = self.lease(store)
        self.finish(store, held.run)
        clock.move(MINUTE)

        assert self.do(store, ExpireAttempts(0.5)) == 0
        assert self.status(store) is Status.COMPLETED
        assert store.tasks.next_attempt_end() is None

    def test_leases_completed_together_end_unless_they_are_lost(self, store: Store) -> None:
        for name in ("a", "b", "c"):
            self.start(store, name)
        runs = {task.run.id: task.run for task in self.lease(store)}
        self.advance(
            store,
            runs["c"],
            effects=[
                AppendOutput(
                    Output([StreamPart("r", 1, 1)], [NewFrame(0, "event", "durable", b"1", 7)])
                )
            ],
        )
        self.revoke(store, "b")
        store.hints()

        done = [
            TaskCompletion(name, 1, len(store.runs.history(name)), name.encode())
            for name in ("c", "b", "a", "nobody")
        ]
        assert self.do(store, CompleteLeases(done)) == [True, False, True, False]
        assert [
            (run.status, run.result, run.session_id)
            for name in "abc"
            if (run := self.get(store, name))
        ] == [
            (Status.COMPLETED, b"a", None),
            (Status.PENDING, None, None),
            (Status.COMPLETED, b"c", None),
        ]
        assert self.kinds(store, "a") == [EventKind.RUN_COMPLETED]
        assert self.kinds(store, "b") == [EventKind.LEASE_REVOKED]
        assert self.kinds(store, "c") == [EventKind.MARKED, EventKind.RUN_COMPLETED]
        assert [stream.reason for stream in store.streams.of_run("c")] == ["completed"]
        assert store.hints().finished == {"a", "c"}
        assert self.do(store, CompleteLeases(done)) == [False] * 4

    def test_completions_in_one_commit_are_each_answered(self, store: Store) -> None:
        for number in range(8):
            self.start(store, f"r{number}")
        self.lease(store)
        new = self.new("new")

        def done(*numbers: int) -> CompleteLeases:
            return CompleteLeases([TaskCompletion(f"r{number}", 1, 0, b"1") for number in numbers])

        marked = Advance(run_id="r4", generation=1, events=[Event(EventKind.MARKED, "m", seq=1)])
        late = CompleteLeases([TaskCompletion("r4", 1, 1, b"1")])
        answers = store.apply(
            [done(0, 1), StartRuns([new]), done(2), marked, done(3, 2), late, done(7, 6)]
        )

        assert [answers[place] for place in (0, 2, 4, 5, 6)] == [
            [True] * 2,
            [True],
            [True, False],
            [True],
            [True] * 2,
        ]
        assert [
            number
            for number in range(8)
            if self.status(store, f"r{number}") is not Status.COMPLETED
        ] == [5]
        assert self.kinds(store, "r2") == [EventKind.RUN_COMPLETED]
        assert self.kinds(store, "r4") == [EventKind.MARKED, EventKind.RUN_COMPLETED]

    def test_a_late_child_fails_and_its_parent_is_notified(
        self, store: Store, clock: HandClock
    ) -> None:
        parent = self.hold(store, "p", "s0")
        child = self.child_of(parent, "kid", policy=msgspec.json.encode(TaskPolicy(timeout=MINUTE)))
        self.advance(store, parent, effects=[StartChildren([child])])
        self.lease(store)
        clock.move(MINUTE)
        self.do(store, ExpireAttempts(0.5))

        assert self.status(store, "kid") is Status.FAILED
        assert [run_id for _, run_id in store.sessions.notifications("s0", 0)] == ["p"]

    def test_a_lease_is_revoked_and_its_holder_can_no_longer_write(self, store: Store) -> None:
        held = self.hold(store)

        assert self.revoke(store, session_id="another") is False
        assert self.revoke(store, session_id="s1") is True
        assert self.revoke(store) is False
        assert self.status(store) is Status.PENDING
        with pytest.raises(LeaseLost):
            self.advance(store, held)
        assert self.kinds(store) == [EventKind.LEASE_REVOKED]
        assert self.claimed(store, "s2") == ["r1"]

    def test_a_parked_run_whose_lease_is_revoked_can_be_claimed(self, store: Store) -> None:
        held = self.hold(store)
        self.park(store, held, keep=True)

        assert self.revoke(store)
        assert self.claimed(store, "s2") == ["r1"]

    @pytest.mark.parametrize("op", [RevokeLease, SetPriority, OverrideRun])
    def test_operations_on_runs_of_another_namespace_or_finished_runs_are_refused(
        self, store: Store, op: Any
    ) -> None:
        more: dict[Any, dict[str, Any]] = {
            RevokeLease: {"reason": "x"},
            SetPriority: {"priority": 1},
            OverrideRun: {"status": Status.COMPLETED, "reason": "x", "result": b"1"},
        }
        self.finish(store, self.hold(store, "over"))
        self.hold(store, "live")

        wrong = (
            ("no", "default", RunNotFound),
            ("live", "other", RunNotFound),
            ("over", "default", RunFinished),
        )
        for run_id, namespace, refusal in wrong:
            with pytest.raises(refusal):
                self.do(store, op(run_id=run_id, namespace=namespace, **more[op]))
        assert self.kinds(store, "live") == []

    def test_a_priority_that_was_raised_goes_first(self, store: Store) -> None:
        for name in ("a", "b", "c"):
            self.start(store, name)

        assert self.do(store, SetPriority(run_id="c", namespace="default", priority=7)) == 0
        assert self.do(store, SetPriority(run_id="c", namespace="default", priority=7)) == 7
        assert self.get(store, "c").priority == 7
        assert self.kinds(store, "c") == [EventKind.PRIORITY_CHANGED]
        assert self.claimed(store) == ["c", "a", "b"]

    def test_operators_write_no_event_into_the_history_of_a_held_run(self, store: Store) -> None:
        held = self.hold(store)
        self.do(store, SetPriority(run_id="r1", namespace="default", priority=3))

        self.advance(store, held, events=[Event(EventKind.MARKED, "m", seq=1)])
        assert (self.get(store).priority, self.kinds(store)) == (3, [EventKind.MARKED])

    def test_the_priority_of_a_run_that_is_not_ready_counts_once_it_is(
        self, store: Store, clock: HandClock
    ) -> None:
        self.start(store, "late", available_at=clock.now() + MINUTE)
        self.do(store, SetPriority(run_id="late", namespace="default", priority=9))
        clock.move(MINUTE)
        self.start(store, "new")

        assert self.claimed(store) == ["late", "new"]

    @pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED])
    def test_an_operator_ends_a_run_even_if_a_worker_holds_it(
        self, store: Store, status: Status
    ) -> None:
        parent = self.hold(store, "p", "s0")
        self.advance(store, parent, effects=[StartChildren([self.child_of(parent, "kid")])])
        (kid,) = self.claim(store)
        outcome: dict[str, Any] = (
            {"result": b"7"}
            if status is Status.COMPLETED
            else {"error": b'{"type":"X","message":"no"}'}
        )

        assert (
            self.do(
                store,
                OverrideRun(
                    run_id="kid", namespace="default", status=status, reason="x", **outcome
                ),
            )
            is status
        )
        run = self.get(store, "kid")
        assert (run.status, run.result, run.error) == (
            status,
            outcome.get("result"),
            outcome.get("error"),
        )
        assert self.kinds(store, "kid")[0] == EventKind.RUN_OVERRIDDEN
        assert [run_id for _, run_id in store.sessions.notifications("s0", 0)] == ["p"]
        with pytest.raises(LeaseLost):
            self.advance(store, kid, events=[Event(EventKind.MARKED, "m", seq=9)])

    def test_an_operator_who_ends_a_run_stops_all_of_its_children(self, store: Store) -> None:
        """Also the children beyond the portion of one request: an ended run stops nothing later."""
        parent = self.hold(store)
        children = [self.child_of(parent, f"c{number:04}") for number in range(PORTION + 2)]
        self.advance(store, parent, effects=[StartChildren(children)])
        override = OverrideRun(
            run_id="r1", namespace="default", status=Status.COMPLETED, reason="x", result=b"1"
        )

        self.do(store, override)

        statuses = {self.status(store, child.id) for child in children}
        assert statuses == {Status.CANCELLED}

    def test_a_policy_is_copied_and_goes_with_its_run(self, store: Store) -> None:
        self.start_with_policy(store, retries=2)

        assert store.run_snapshots.belongings("r1") == {
            "task": [[msgspec.json.encode(TaskPolicy(retries=2)), None, None]]
        }
