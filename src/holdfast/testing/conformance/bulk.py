"""Conformance of bulk operations: each portion is one transaction that changes each of its runs
once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.core.messages import INSTRUCTION
from holdfast.core.operations import (
    TAKEOVER,
    BulkArguments,
    BulkVerb,
    OperationPart,
    OperationRecord,
    OperationStatus,
)
from holdfast.core.status import Status
from holdfast.errors import OperationNotFound, RowDamaged, RunNotFinished
from holdfast.store.database import Operation
from holdfast.store.messages.operations import InstructRun
from holdfast.store.operations.apply import KEPT
from holdfast.store.operations.operations import (
    BulkAction,
    CarriedOut,
    CarryOut,
    DeleteRun,
    ResealOperation,
    StartOperation,
    StopOperation,
)
from holdfast.store.runs import cancel, trees
from holdfast.store.runs.operations import ReplayRun, RequestCancel, ResumeRun, StartChildren
from holdfast.store.signals.operations import SignalRun
from holdfast.store.store import Store
from holdfast.store.tasks.operations import SetPriority
from holdfast.testing.conformance.fixture import HandClock, OpenStore, StoreFixture

BROKEN = {
    "a_bulk_operation_that_has_ended_has_an_end_and_nothing_left_to_do": (
        "INSERT INTO holdfast.operation (id, verb, status, arguments, filters, total, done,"
        " refused, part, revision, created_at, updated_at)"
        " VALUES ('o1', 'cancel', 'completed', '{}', '{}', 2, 1, 0, 0, 0, 1, 1)"
    ),
    "a_part_of_a_bulk_operation_belongs_to_one": (
        "INSERT INTO holdfast.operation_part (operation_id, number, chosen, done, begun, refused)"
        " VALUES ('none', 0, '[]', '[]', '[]', '{}')"
    ),
}
"""One statement per law that breaks it."""


class BulkConformance(StoreFixture):
    """A bulk operation changes each of its runs once, whichever process carries it out."""

    def begin(
        self,
        store: Store,
        *parts: Sequence[str],
        verb: BulkVerb = BulkVerb.CANCEL,
        operation_id: str = "o1",
        **options: Any,
    ) -> OperationRecord:
        """Store a bulk operation whose parts have these runs."""
        fields: dict[str, Any] = {
            "id": operation_id,
            "namespace": None,
            "verb": verb,
            "status": OperationStatus.RUNNING,
            "arguments": BulkArguments(),
            "filters": {"status": "pending"},
            "payload": None,
            "asked_by": "ann",
            "total": sum(map(len, parts)),
            **dict.fromkeys(("done", "refused", "part", "revision"), 0),
            **dict.fromkeys(("created_at", "updated_at", "due_at"), 0),
            "finished_at": None,
            **options,
        }
        stored = [
            OperationPart(operation_id=operation_id, number=number, chosen=list(ids))
            for number, ids in enumerate(parts)
        ]
        record: OperationRecord = self.do(
            store, StartOperation(OperationRecord(**fields), stored, TAKEOVER)
        )
        return record

    def carry_out(
        self, store: Store, *ops: Any, revision: int | None = None, operation_id: str = "o1"
    ) -> CarriedOut:
        """Carry out a portion with these operations; by default after the last portion."""
        if revision is None:
            record = store.operations.get(operation_id)
            assert record is not None
            revision = record.revision
        actions = [BulkAction(op.run_id, op) for op in ops]
        answer: CarriedOut = self.do(
            store, CarryOut(operation_id=operation_id, revision=revision, actions=actions)
        )
        return answer

    def outcome(self, store: Store, number: int = 0) -> tuple[list[str], list[str]]:
        """Return the ids of the changed and of the refused runs of a part."""
        part = store.operations.part("o1", number)
        assert part is not None
        return part.done, sorted(part.refused)

    def cancels(self, *run_ids: str) -> list[Operation]:
        return [RequestCancel(run_id, "no longer needed") for run_id in run_ids]

    def fail(self, store: Store, *run_ids: str) -> None:
        for run_id in run_ids:
            self.finish(store, self.hold(store, run_id), Status.FAILED)

    def tree(self, store: Store, *children: str, root: str = "r1") -> None:
        """Start a run with children that have not ended."""
        parent = self.hold(store, root)
        runs = [self.child_of(parent, run_id) for run_id in children]
        self.advance(store, parent, effects=[StartChildren(runs, [])])

    # Portions

    def test_an_operation_is_stored_and_due_if_no_portion_follows(
        self, store: Store, clock: HandClock
    ) -> None:
        self.start(store)
        begun = self.begin(store, ["r1"])

        assert store.operations.get("o1") == begun
        assert (begun.created_at, begun.due_at) == (clock.now(), clock.now() + TAKEOVER)
        assert store.runs.next_due().operation == begun.due_at
        assert store.runs.next_due().at is None
        assert store.operations.due(clock.now()) == []
        assert store.operations.due(clock.now() + TAKEOVER) == ["o1"]

    def test_a_portion_changes_its_runs_and_moves_the_operation_on(
        self, store: Store, clock: HandClock
    ) -> None:
        for run_id in ("r1", "r2", "r3"):
            self.start(store, run_id)
        self.begin(store, ["r3", "r2"], ["r1"])
        clock.move(5)

        answer = self.carry_out(store, *self.cancels("r3", "r2"))

        assert (answer.written, answer.open) == (True, {})
        assert (answer.record.done, answer.record.part, answer.record.revision) == (2, 1, 1)
        assert answer.record.due_at == clock.now() + TAKEOVER
        assert store.operations.get("o1") == answer.record
        assert self.outcome(store) == (["r3", "r2"], [])
        assert [self.status(store, run_id) for run_id in ("r3", "r2", "r1")] == [
            Status.CANCELLED,
            Status.CANCELLED,
            Status.PENDING,
        ]

    def test_the_last_portion_completes_the_operation(self, store: Store, clock: HandClock) -> None:
        self.start(store)
        self.begin(store, ["r1"], payload=b'"x"')

        record = self.carry_out(store, *self.cancels("r1")).record

        assert (record.status, record.finished_at) == (OperationStatus.COMPLETED, clock.now())
        assert (record.due_at, record.payload) == (None, None)
        assert store.runs.next_due().operation is None

    def test_an_operation_without_runs_is_completed_at_once(self, store: Store) -> None:
        assert self.begin(store).status is OperationStatus.COMPLETED

    def test_a_portion_that_another_process_has_written_changes_nothing(
        self, store: Store, reopen: OpenStore, clock: HandClock
    ) -> None:
        self.start(store, "r1")
        self.start(store, "r2")
        self.begin(store, ["r1", "r2"], verb=BulkVerb.SIGNAL)
        signal = SignalRun("r1", "paid", b"1")
        assert self.carry_out(reopen(clock), signal, revision=0).written

        answer = self.carry_out(store, signal, revision=0)

        assert not answer.written
        assert answer.record.revision == 1
        assert len(store.signals.of_run("r1")) == 1

    def test_a_portion_in_a_batch_with_other_operations_on_its_runs(self, store: Store) -> None:
        self.parked(store, "r1")
        self.parked(store, "r2")
        self.begin(store, ["r1", "r2"], verb=BulkVerb.SIGNAL)
        ops = [SignalRun(run_id, "paid", b"1") for run_id in ("r2", "r1")]
        actions = [BulkAction(op.run_id, op) for op in ops]

        answers = store.apply(
            [
                SignalRun("r2", "other", b"2"),
                CarryOut(operation_id="o1", revision=0, actions=actions),
                CarryOut(operation_id="o1", revision=0, actions=actions),
            ]
        )

        assert [answer.written for answer in answers[1:]] == [True, False]
        assert len(store.signals.of_run("r1")) == 1
        assert len(store.signals.of_run("r2")) == 2

    def test_a_refused_run_does_not_stop_the_others(self, store: Store) -> None:
        self.fail(store, "r1")
        self.start(store, "r2")
        self.begin(store, ["r1", "gone", "r2"])

        record = self.carry_out(store, *self.cancels("r1", "gone", "r2")).record

        assert self.outcome(store) == (["r2"], ["gone", "r1"])
        assert (record.done, record.refused) == (1, 2)
        assert record.status is OperationStatus.COMPLETED

    def test_a_damaged_run_is_refused_and_does_not_stop_the_others(self, bare_store: Store) -> None:
        self.start(bare_store, "r1")
        self.start(bare_store, "r2")
        self.execute(bare_store, "UPDATE holdfast.run SET wake_at = -1 WHERE id = 'r1'")
        self.begin(bare_store, ["r1", "r2"])

        self.carry_out(bare_store, *self.cancels("r1", "r2"))

        assert self.outcome(bare_store) == (["r2"], ["r1"])
        assert self.status(bare_store, "r2") is Status.CANCELLED

    def test_a_portion_records_refusals_of_its_preparation(self, store: Store) -> None:
        self.begin(store, ["r1", "r2"])
        actions = [BulkAction("r1", refusal="it has no wait"), BulkAction("r2")]

        self.do(store, CarryOut(operation_id="o1", revision=0, actions=actions))

        assert self.outcome(store) == (["r2"], ["r1"])

    def test_a_stopped_operation_changes_nothing_more(self, store: Store, clock: HandClock) -> None:
        self.start(store, "r1")
        self.start(store, "r2")
        self.begin(store, ["r1", "r2"])
        self.carry_out(store, *self.cancels("r1"))

        stopped = self.do(store, StopOperation("o1"))

        assert (stopped.status, stopped.finished_at) == (OperationStatus.STOPPED, clock.now())
        assert not self.carry_out(store, *self.cancels("r2"), revision=1).written
        assert not self.carry_out(store, *self.cancels("r2")).written
        assert self.status(store, "r2") is Status.PENDING
        assert self.do(store, StopOperation("o1")) == stopped

    def test_an_operation_of_another_namespace_cannot_be_stopped(self, store: Store) -> None:
        self.begin(store, ["r1"], namespace="acme")

        with pytest.raises(OperationNotFound):
            self.do(store, StopOperation("o1", "other"))
        with pytest.raises(OperationNotFound):
            self.do(store, StopOperation("o2"))

        assert self.do(store, StopOperation("o1", "acme")).status is OperationStatus.STOPPED

    # Verbs

    def test_runs_are_cancelled_with_their_children(self, store: Store) -> None:
        self.tree(store, "c1", "c2")
        self.parked(store, "r2")
        self.begin(store, ["c1", "r2", "r1"])

        self.carry_out(store, *self.cancels("c1", "r2", "r1"))

        assert self.outcome(store) == (["c1", "r2", "r1"], [])
        assert {run_id: self.status(store, run_id) for run_id in ("r1", "c1", "c2", "r2")} == {
            "r1": Status.CANCELLING,
            "c1": Status.CANCELLED,
            "c2": Status.CANCELLED,
            "r2": Status.CANCELLING,
        }

    def test_a_large_tree_is_cancelled_in_several_portions(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.tree(store, *(f"c{number}" for number in range(5)))
        monkeypatch.setattr(cancel, "PORTION", 2)
        self.begin(store, ["r1"])

        portions = 0
        while not (answer := self.carry_out(store, *self.cancels("r1"))).record.done:
            assert list(answer.open) == ["r1"]
            portions += 1

        assert portions >= 1
        assert {self.status(store, f"c{number}") for number in range(5)} == {Status.CANCELLED}

    def test_a_run_that_ends_after_its_cancellation_has_begun_counts_as_changed(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.tree(store, *(f"c{number}" for number in range(5)))
        monkeypatch.setattr(cancel, "PORTION", 2)
        self.begin(store, ["r1"])
        self.carry_out(store, *self.cancels("r1"))
        monkeypatch.undo()
        self.do(store, RequestCancel("r1", "now", force=True))

        self.carry_out(store, *self.cancels("r1"))

        assert self.outcome(store) == (["r1"], [])

    def test_failed_runs_are_replayed_together(self, store: Store) -> None:
        self.fail(store, "r1", "r2", "r3")
        self.start(store, "r4")
        self.begin(store, ["r1", "r2", "r3", "r4"], verb=BulkVerb.REPLAY)
        ops = [
            ReplayRun("r1", [1], seen=1),
            ReplayRun("r2", [1], seen=7),
            ReplayRun("r3", [1], seen=1),
            ReplayRun("r4", []),
        ]

        answer = self.carry_out(store, *ops)

        assert self.outcome(store) == (["r1", "r3"], ["r4"])
        assert list(answer.open) == ["r2"]
        assert self.status(store, "r1") is Status.PENDING
        assert self.status(store, "r2") is Status.FAILED

    def test_a_replay_that_is_refused_late_leaves_nothing_behind(self, store: Store) -> None:
        self.tree(store, "c1")
        parent = self.get(store, "r1")
        (child,) = self.claim(store)
        self.finish(store, parent, Status.FAILED, had_children=True)
        assert self.status(store, "c1") is Status.CANCELLING
        self.begin(store, ["r1"], verb=BulkVerb.REPLAY)

        with pytest.raises(RunNotFinished):
            self.carry_out(store, ReplayRun("r1", [], children=[ReplayRun(child.id, [])]))

        assert self.outcome(store) == ([], [])
        assert self.status(store, "r1") is Status.FAILED

    def test_stuck_runs_are_resumed_and_others_refused(self, store: Store) -> None:
        self.stuck(store, "r1")
        self.start(store, "r2")
        self.begin(store, ["r1", "r2"], verb=BulkVerb.RESUME)

        self.carry_out(store, ResumeRun("r1"), ResumeRun("r2"))

        assert self.outcome(store) == (["r1"], ["r2"])
        assert self.status(store, "r1") is Status.PENDING

    def test_priorities_are_changed(self, store: Store) -> None:
        self.start(store, "r1")
        self.fail(store, "r2")
        self.begin(store, ["r1", "r2"], verb=BulkVerb.PRIORITISE)

        self.carry_out(
            store,
            *(
                SetPriority(run_id=run_id, namespace="default", priority=7)
                for run_id in ("r1", "r2")
            ),
        )

        assert self.outcome(store) == (["r1"], ["r2"])
        assert self.get(store, "r1").priority == 7

    def test_instructions_reach_live_runs(self, store: Store) -> None:
        self.start(store, "r1")
        self.fail(store, "r2")
        self.begin(store, ["r1", "r2"], verb=BulkVerb.MIGRATE)

        self.carry_out(
            store, *(InstructRun(run_id=run_id, payload=b"{}") for run_id in ("r1", "r2"))
        )

        assert self.outcome(store) == (["r1"], ["r2"])
        assert [signal.step for signal in store.signals.of_run("r1")] == [INSTRUCTION]

    def test_finished_trees_are_deleted_with_all_of_their_rows(self, store: Store) -> None:
        self.tree(store, "c1")
        (child,) = self.claim(store)
        self.finish(store, child)
        self.do(store, SignalRun("r1", "paid", b"1"))
        self.finish(store, self.get(store, "r1"), had_children=True)
        self.fail(store, "r2")
        self.begin(store, ["r1", "r2"], verb=BulkVerb.DELETE)

        self.carry_out(store, DeleteRun("r1"), DeleteRun("r2"))

        assert self.outcome(store) == (["r1", "r2"], [])
        assert [store.runs.get(run_id) for run_id in ("r1", "r2", "c1")] == [None, None, None]
        assert store.runs.history("r1") == []

    def test_live_runs_children_and_their_parents_are_not_deleted(self, store: Store) -> None:
        self.tree(store, "c1", "c2")
        child = next(run for run in self.claim(store) if run.id == "c1")
        self.finish(store, child)
        self.begin(store, ["r1", "c1"], verb=BulkVerb.DELETE)

        self.carry_out(store, DeleteRun("r1"), DeleteRun("c1"))

        assert self.outcome(store) == ([], ["c1", "r1"])
        assert self.status(store, "c1") is Status.COMPLETED

    def test_a_large_tree_is_deleted_in_several_portions(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.tree(store, *(f"c{number}" for number in range(5)))
        for child in self.claim(store):
            self.finish(store, child)
        self.finish(store, self.get(store, "r1"), had_children=True)
        self.fail(store, "r2")
        monkeypatch.setattr(trees, "RUNS", 2)
        self.begin(store, ["r1", "r2"], verb=BulkVerb.DELETE)

        portions = 0
        while self.carry_out(store, DeleteRun("r1")).open:
            portions += 1
        self.carry_out(store, DeleteRun("r2"))

        assert portions == 2
        assert self.outcome(store) == (["r1", "r2"], [])
        assert store.runs.get("r1") is None

    # Lists and rows

    def test_operations_are_listed_from_new_to_old(self, store: Store, clock: HandClock) -> None:
        for number in range(3):
            self.begin(store, ["r1"], operation_id=f"o{number}", namespace=f"n{number % 2}")
            clock.move(1)
        self.do(store, StopOperation("o2"))

        listed = [record.id for record in store.operations.find(None)]
        assert listed == ["o2", "o1", "o0"]
        assert [record.id for record in store.operations.find("n0")] == ["o2", "o0"]
        assert [record.id for record in store.operations.find(None, before="o2", limit=1)] == ["o1"]
        assert [record.id for record in store.operations.find(None, status="running")] == [
            "o1",
            "o0",
        ]

    def test_operations_that_ended_long_ago_are_deleted_by_later_ones(
        self, store: Store, clock: HandClock
    ) -> None:
        self.begin(store, ["r1"])
        self.do(store, StopOperation("o1"))
        self.begin(store, ["r1"], operation_id="o2")
        clock.move(KEPT + 1)

        self.begin(store, ["r1"], operation_id="o3")

        assert [record.id for record in store.operations.find(None)] == ["o3", "o2"]
        assert store.operations.part("o1", 0) is None

    def test_a_payload_is_resealed_unless_it_has_changed(self, store: Store) -> None:
        self.begin(store, ["r1"], payload=b"1")
        assert store.operations.to_seal("", 10) == [("o1", b"1")]

        assert self.do(store, ResealOperation("o1", b"1", b"2")) is True
        assert self.do(store, ResealOperation("o1", b"1", b"3")) is False

        assert store.operations.to_seal("", 10) == [("o1", b"2")]

    def test_no_worker_continues_an_operation_with_a_damaged_part(
        self, bare_store: Store, clock: HandClock
    ) -> None:
        self.start(bare_store)
        self.begin(bare_store, ["r1"])
        self.execute(bare_store, "UPDATE holdfast.operation_part SET chosen = 'x'")

        with pytest.raises(RowDamaged):
            self.carry_out(bare_store, *self.cancels("r1"))

        assert bare_store.operations.due(clock.now() + TAKEOVER) == []
        assert self.status(bare_store) is Status.PENDING
        assert any("operation_part" in line for line in bare_store.check())
