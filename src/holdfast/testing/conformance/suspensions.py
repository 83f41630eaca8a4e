"""Conformance of suspended tasks: runs that wait without a holder, woken by signals and ended by
timeouts; and leases of one named run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from holdfast.core.conditions.model import AllOf, Condition, SignalNamed, SignalToWait
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.core.streams.model import NewFrame, Output, StreamPart
from holdfast.core.tasks.suspension import ENDS, Suspension
from holdfast.core.waits import WaitRecord
from holdfast.errors import BadData, BadOption, LeaseLost
from holdfast.store.database import Operation
from holdfast.store.effects import Effect
from holdfast.store.keys.operations import NeedKey, OfferedKey
from holdfast.store.runs.operations import Advance, Advanced, EndSession, ReplayRun, StartChildren
from holdfast.store.signals.operations import SignalRun, TakeSignals
from holdfast.store.store import Store
from holdfast.store.streams.operations import Appended, AppendFrames, CloseStreams
from holdfast.store.tasks.operations import (
    ClaimFacts,
    ClaimLeases,
    ExpireAttempts,
    Judge,
    LeasedTask,
    SetAttemptDeadline,
    SetPriority,
)
from holdfast.store.waits.operations import CloseWait, OpenWait, ReleaseWait
from holdfast.testing.conformance.fixture import MINUTE, HandClock, StoreFixture
from holdfast.testing.conformance.reading import BROKEN

BROKEN |= {
    "a_task_belongs_to_a_run": "INSERT INTO holdfast.task (run_id, policy) VALUES ('none', '{}')",
    "a_task_with_an_attempt_deadline_has_a_generation": (
        "INSERT INTO holdfast.task (run_id, policy, attempt_until) VALUES ('held', '{}', 1)"
    ),
}


class SuspensionConformance(StoreFixture):
    """A suspended run is woken by its condition, and woken or ended by its timeout."""

    def suspend(
        self,
        store: Store,
        run: RunRecord,
        condition: Condition,
        *,
        until: int | None = None,
        on_timeout: str = "continue",
    ) -> Any:
        suspension = Suspension(
            step="wait 1", condition=condition, until=until, on_timeout=on_timeout
        )
        now = store.now()
        event = Event(
            EventKind.WAIT_OPENED,
            suspension.step,
            suspension.as_data(),
            seq=self.seq(store, run.id),
        )
        row = WaitRecord(
            run_id=run.id, step=suspension.step, id=None, name="x", opened_at=now, until=until
        )
        effects: list[Effect] = [OpenWait(row)]
        due = suspension.due(now)
        if due is not None:
            effects.append(SetAttemptDeadline(due))
        return self.do(
            store,
            Advance(
                run_id=run.id,
                generation=run.generation,
                events=[event],
                status=Status.WAITING,
                waits=suspension.waits(now, sealed=False),
                release=True,
                effects=effects,
            ),
        )

    def lease_tasks(
        self, store: Store, judge: Judge | None = None, **options: Any
    ) -> list[LeasedTask]:
        if "s9" not in {session.id for session in store.sessions.all()}:
            self.open(store, "s9")
        routes = [(number, route.lane) for number, route in store.runs.routes().items()]
        leased: list[LeasedTask] = self.do(
            store, ClaimLeases("s9", routes, 10, judge=judge, **options)
        )
        return leased

    def append_output(self, store: Store, run: RunRecord, *data: bytes, **part: Any) -> Appended:
        frames = [
            NewFrame(0, "event", "summary" if "patches" in part else "durable", payload, 7)
            for payload in data
        ]
        output = Output([StreamPart("", 1, run.generation, **part)], frames)
        answer: Appended = self.do(store, AppendFrames(run.id, run.generation, output))
        return answer

    def test_a_condition_wakes_a_suspended_run_when_it_is_met(
        self, store: Store, clock: HandClock
    ) -> None:
        self.suspend(
            store,
            self.hold(store),
            AllOf((SignalNamed("a"), SignalNamed("b"))),
            until=clock.now() + MINUTE,
        )

        assert store.tasks.next_attempt_end() == store.runs.next_wake() == clock.now() + MINUTE
        assert self.do(store, SignalRun("r1", "a", b"1")).effect == "kept"
        assert self.status(store) is Status.WAITING
        assert self.do(store, SignalRun("r1", "b", b"2")).effect == "satisfied"
        assert self.status(store) is Status.PENDING
        clock.move(MINUTE)
        assert self.do(store, ExpireAttempts(0.5)) == 0  # the run no longer waits
        assert self.status(store) is Status.PENDING

    @pytest.mark.parametrize("action", ["continue", "fail", "cancel", "expire", "escalate"])
    def test_a_timeout_of_a_suspended_run_takes_its_action(
        self, store: Store, clock: HandClock, action: str
    ) -> None:
        parent = self.hold(store, "p", "s0")
        self.advance(store, parent, effects=[StartChildren([self.child_of(parent, "kid")])])
        (kid,) = (task.run for task in self.lease_tasks(store) if task.run.id == "kid")
        self.suspend(store, kid, SignalNamed("a"), until=clock.now() + MINUTE, on_timeout=action)
        assert self.do(store, ExpireAttempts(0.5)) == 0
        clock.move(MINUTE)

        assert self.do(store, ExpireAttempts(0.5)) == 1
        (wait,) = store.waits.find("kid")
        if action in ENDS:
            assert (self.status(store, "kid"), self.kinds(store, "kid")[-1]) == ENDS[action]
            assert wait.closed_by == "timeout"
            assert [run_id for _, run_id in store.sessions.notifications("s0", 0)] == ["p"]
        else:
            assert self.status(store, "kid") is (
                Status.PENDING if action == "continue" else Status.WAITING
            )
            assert (wait.escalated_at is None, wait.closed_at) == (action == "continue", None)
        clock.move(MINUTE)
        assert self.do(store, ExpireAttempts(0.5)) == 0

    def test_a_condition_that_can_no_longer_be_met_ends_early_and_others_keep_waiting(
        self, store: Store, clock: HandClock
    ) -> None:
        self.do(store, NeedKey(OfferedKey("k1", b"x" * 32)))
        soon = clock.now() + MINUTE
        late = clock.now() + 9 * MINUTE
        for name, members in (("gone", (SignalNamed("a"),)), ("open", ())):
            run = self.hold(store, name, f"s {name}")
            handed = WaitRecord(
                run_id=name,
                step="h",
                id=f"w {name}",
                name="h",
                kid="k1",
                opened_at=clock.now(),
                until=soon,
            )
            self.advance(store, run, effects=[OpenWait(handed)])
            leaf = SignalToWait(f"w {name}", "h", "h", soon)
            condition: Condition = AllOf((leaf, *members)) if members else SignalNamed("a")
            self.suspend(store, run, condition, until=late, on_timeout="fail")
        clock.move(MINUTE)

        assert self.do(store, ExpireAttempts(0.5)) == 1
        assert (self.status(store, "gone"), self.status(store, "open")) == (
            Status.FAILED,
            Status.WAITING,
        )
        assert store.tasks.next_attempt_end() == late

    def test_a_person_releases_a_suspended_run(self, store: Store) -> None:
        self.suspend(store, self.hold(store), SignalNamed("a"))
        self.do(store, ReleaseWait(run_id="r1", step="wait 1", payload=b"1", by="ann"))

        assert self.status(store) is Status.PENDING

    def test_the_outcome_of_a_wait_is_written_with_the_claim(self, store: Store) -> None:
        self.suspend(store, self.hold(store), SignalNamed("a"))
        self.do(store, SignalRun("r1", "a", b"7"))
        self.start(store, "new")
        asked: list[tuple[str, list[str], list[bytes]]] = []

        def judge(leased: LeasedTask, facts: ClaimFacts) -> Advance:
            pending = facts.signals()
            asked.append(
                (
                    leased.run.id,
                    [event.kind for event in facts.history],
                    [signal.payload for signal in pending],
                )
            )
            event = Event(EventKind.WAIT_SATISFIED, "wait 1", b"{}", seq=leased.seq + 1)
            return Advance(
                run_id=leased.run.id,
                generation=leased.run.generation,
                events=[event],
                status=Status.RUNNING,
                effects=[
                    TakeSignals([signal.id for signal in pending]),
                    CloseWait("wait 1", "its signals"),
                ],
            )

        assert {task.run.id for task in self.lease_tasks(store, judge)} == {"r1", "new"}
        assert asked == [("r1", [EventKind.WAIT_OPENED], [b"7"])]
        assert self.kinds(store) == [EventKind.WAIT_OPENED, EventKind.WAIT_SATISFIED]
        assert (self.status(store), store.signals.of_run("r1")) == (Status.RUNNING, [])

    def test_the_judge_receives_the_last_wait_and_the_failures_before_it(
        self, store: Store
    ) -> None:
        run = self.hold(store)
        self.advance(
            store,
            run,
            events=[
                Event(EventKind.ATTEMPT_FAILED, data=b"{}", seq=1),
                Event(EventKind.MARKED, "m", seq=2),
            ],
        )
        for number in range(2):
            self.suspend(store, run, SignalNamed("a"))
            self.do(store, SignalRun("r1", "a", b"7"))
            histories: list[list[str]] = []

            def judge(
                leased: LeasedTask,
                facts: ClaimFacts,
                histories: list[list[str]] = histories,
            ) -> None:
                histories.append([f"{event.kind} {event.seq}" for event in facts.history])

            (run,) = (task.run for task in self.lease_tasks(store, judge))
            assert histories == [["attempt_failed 1", f"wait_opened {number + 3}"]]
        self.finish(store, run)
        self.do(store, ReplayRun("r1", [4, 5]))
        self.lease_tasks(store, judge)
        assert histories[-1] == [f"{event.kind} {event.seq}" for event in store.runs.history("r1")]

    def test_a_lease_can_name_one_run(self, store: Store) -> None:
        for name in ("a", "b", "held"):
            self.start(store, name)
        self.do(store, SetPriority(run_id="held", namespace="default", priority=9))
        self.claimed(store, "s1", limit=1)

        assert [task.run.id for task in self.lease_tasks(store, run_id="b")] == ["b"]
        for name in ("b", "held", "nobody"):
            assert self.lease_tasks(store, run_id=name) == []
        self.do(store, EndSession("s9", crashed=False))
        self.do(store, EndSession("s1", crashed=False))
        assert self.claimed(store, "s2") == ["held", "a", "b"]

    def test_ending_a_lease_closes_the_streams_of_its_attempt(
        self, store: Store, clock: HandClock
    ) -> None:
        runs = [self.hold(store, f"r{number}", "s1") for number in range(4)]
        for run in runs:
            self.append_output(store, run, b"1")
        done = Event(EventKind.RUN_COMPLETED, seq=1)
        put = Event(EventKind.RUN_DELAYED, data=msgspec.json.encode({"until": 1}), seq=1)
        ops: list[Operation] = [
            Advance(
                run_id=run.id,
                generation=run.generation,
                events=[msgspec.structs.replace(event)],
                **place,
            )
            for run, event, place in (
                (
                    runs[0],
                    done,
                    {
                        "status": Status.COMPLETED,
                        "result": b"1",
                        "effects": [CloseStreams("completed")],
                    },
                ),
                (
                    runs[1],
                    done,
                    {
                        "status": Status.COMPLETED,
                        "result": b"1",
                        "effects": [CloseStreams("completed")],
                    },
                ),
                (
                    runs[2],
                    put,
                    {
                        "status": Status.PENDING,
                        "release": True,
                        "wake_at": clock.now() + 1,
                        "effects": [CloseStreams("released")],
                    },
                ),
            )
        ]
        answers = store.apply(ops)

        assert [type(answer) for answer in answers] == [Advanced] * 3
        reasons = [store.streams.of_run(run.id)[0].reason for run in runs]
        assert reasons == ["completed", "completed", "released", None]
        with pytest.raises(LeaseLost):
            self.append_output(store, runs[2], b"2")
        with pytest.raises(LeaseLost):
            self.do(store, ops[0])

    def test_frames_are_appended_where_their_writer_believes_them_to_be_or_not_at_all(
        self, store: Store
    ) -> None:
        run = self.hold(store)

        first = Appended(2, 2)
        assert self.append_output(store, run, b"1", b"2", place=0) == first
        assert self.append_output(store, run, b"3", place=2) == Appended(3, 3)
        assert self.append_output(store, run, b"1", b"2", place=0) == first
        with pytest.raises(BadOption):
            self.append_output(store, run, b"5", place=4)
        assert [frame.data for frame in store.streams.frames("r1")] == [b"1", b"2", b"3"]

    def test_patches_are_applied_to_the_stored_summary_within_the_transaction(
        self, store: Store
    ) -> None:
        run = self.hold(store)

        def add(text: bytes) -> Callable[[bytes | None], bytes]:
            return lambda stored: (stored or b"") + text

        ops = [
            AppendFrames(
                "r1",
                run.generation,
                Output(
                    [StreamPart("", 1, run.generation, patches=add(text))],
                    [NewFrame(0, "event", "summary", text, 7)],
                ),
            )
            for text in (b"a", b"b", b"c")
        ]
        answers = store.apply(ops)

        assert answers == [Appended(number, number, number) for number in (1, 2, 3)]
        (stream,) = store.streams.of_run("r1")
        assert (stream.summary, stream.version) == (b"abc", 3)
        assert [frame.version for frame in store.streams.frames("r1")] == [1, 2, 3]
        again = self.append_output(store, run, b"b", patches=add(b"b"), place=1)
        assert again == Appended(2, 2, 2)

    def test_a_summary_that_cannot_be_read_refuses_the_patch_and_nothing_is_written(
        self, store: Store
    ) -> None:
        run = self.hold(store)
        self.append_output(store, run, b"1", patches=lambda stored: b"x")

        def refuse(stored: bytes | None) -> bytes:
            raise BadData(why=repr(stored))

        with pytest.raises(BadData, match="b'x'"):
            self.append_output(store, run, b"2", patches=refuse)
        assert [frame.data for frame in store.streams.frames("r1")] == [b"1"]
        assert store.check() == []

    def test_the_stream_of_a_lease_stays_open_over_a_suspension_and_its_holder_continues_it(
        self, store: Store
    ) -> None:
        first = self.hold(store)
        self.append_output(store, first, b"1")
        self.suspend(store, first, SignalNamed("a"))

        assert store.check() == []
        self.do(store, SignalRun("r1", "a", b"1"))
        (leased,) = self.lease_tasks(store)
        part = StreamPart("", 1, first.generation)
        output = Output([part], [NewFrame(0, "event", "durable", b"2", 7)])
        append = AppendFrames("r1", leased.run.generation, output)
        assert self.do(store, append) == Appended(2, 2)
        assert [stream.closed_at for stream in store.streams.of_run("r1")] == [None]
        assert store.check() == []
        self.do(store, EndSession("s9", crashed=True))
        assert [stream.reason for stream in store.streams.of_run("r1")] == ["taken over"]
        assert store.check() == []
