"""Apply the verb of a bulk operation to the runs of one portion.

Where a feature can change many runs with few statements, the portion uses that; the other verbs are
applied run by run. Each of these operations is refused before its first write, so that a refusal
leaves nothing behind. Operations that can be refused later are alone in their portion, and their
refusal rolls the portion back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.core.runs import Cancellation
from holdfast.errors import (
    GraphChanged,
    HoldfastError,
    RowDamaged,
    RunChanged,
    RunFinished,
    RunHasParent,
    RunNotFinished,
    RunNotFound,
    StoreError,
    WriteConflict,
)
from holdfast.store.database import Row, Transaction
from holdfast.store.graphs.operations import ReplayMember
from holdfast.store.graphs.replay import replay_member
from holdfast.store.messages.apply import instruct_run
from holdfast.store.messages.operations import InstructRun
from holdfast.store.operations.operations import BulkAction, DeleteRun
from holdfast.store.payloads.apply import collect, digests_used, forget_history
from holdfast.store.runs import cancel, operate, trees
from holdfast.store.runs.operations import PartlyCancelled, ReplayRun, RequestCancel, ResumeRun
from holdfast.store.runs.prune import delete_runs
from holdfast.store.signals.apply import signal_run
from holdfast.store.signals.operations import SignalRun
from holdfast.store.tasks.operate import set_priority
from holdfast.store.tasks.operations import SetPriority
from holdfast.store.waits.apply import release_wait
from holdfast.store.waits.operations import ReleaseWait

AGAIN = "its change takes several transactions"
"""Why a run has no outcome yet although its change has begun."""


class Portion:
    """The runs of a portion, locked, and their outcomes so far."""

    def __init__(
        self, states: Mapping[str, Row], damages: Sequence[RowDamaged], begun: set[str]
    ) -> None:
        self.states: Mapping[str, Row] = states
        self._damages = {damage.place.get("id"): damage for damage in damages}
        self._begun_before = begun
        self.done: list[str] = []
        self.refused: dict[str, str] = {}
        self.begun: list[str] = []
        self.open: dict[str, str] = {}
        """The runs without an outcome, each with the reason."""

    def error_of(self, run_id: str) -> HoldfastError | None:
        """Return why a run cannot be changed at all: it is damaged or does not exist."""
        if run_id in self.states:
            return None
        return self._damages.get(run_id) or RunNotFound(run=run_id)

    def refuse(self, run_id: str, error: HoldfastError) -> None:
        """Record that a run was refused; a run that ended after its change had begun was not, and a
        run that changed since the portion was prepared is left open."""
        if isinstance(error, RunFinished) and run_id in self._begun_before:
            self.done.append(run_id)
        elif isinstance(error, RunChanged | GraphChanged):
            self.open[run_id] = str(error)
        else:
            self.refused[run_id] = str(error)

    def begin(self, run_id: str) -> None:
        """Record that the change of a run has begun; another portion continues it."""
        self.begun.append(run_id)
        self.open[run_id] = AGAIN


def apply_verb(tx: Transaction, actions: Sequence[BulkAction], portion: Portion) -> None:
    """Apply the operations of a portion, all of one kind, and add the outcomes to it. Raises
    RowDamaged, and any refusal of an operation that is alone because it may be refused late."""
    ops: list[Any] = []
    for action in actions:
        error = None if action.op is None else portion.error_of(action.run_id)
        if action.refusal is not None:
            portion.refused[action.run_id] = action.refusal
        elif error is not None:
            portion.refuse(action.run_id, error)
        elif action.op is None:
            portion.done.append(action.run_id)
        else:
            ops.append(action.op)
    if not ops:
        return
    together = _TOGETHER.get(type(ops[0]), _one_by_one)
    together(tx, ops, portion)


def _one_by_one(tx: Transaction, ops: Sequence[Any], portion: Portion) -> None:
    for op in ops:
        try:
            _SINGLE[type(op)](tx, op)
        except (StoreError, RowDamaged, WriteConflict):
            raise
        except HoldfastError as error:
            portion.refuse(op.run_id, error)
        else:
            portion.done.append(op.run_id)


def _cancel(tx: Transaction, ops: Sequence[RequestCancel], portion: Portion) -> None:
    """Cancel runs: those without live children together, then the others, each with its own."""
    parents = {
        row["parent_id"]
        for row in tx.rows("parents_of_live", ids=tx.as_list([op.run_id for op in ops]))
    }
    childless = [
        op
        for op in ops
        if op.run_id not in parents
        and not op.force
        and portion.states[op.run_id]["finished_at"] is None
    ]
    if childless:
        # First: the states of the portion were read before any of its runs was changed.
        states = [portion.states[op.run_id] for op in childless]
        first = childless[0]  # all operations of a portion have the same arguments
        cancel.stop_all(tx, states, Cancellation(first.reason, first.cause, first.by))
        portion.done += [op.run_id for op in childless]
    stopped = {op.run_id for op in childless}
    for op in ops:
        if op.run_id not in stopped:
            _cancel_tree(tx, op, portion)


def _cancel_tree(tx: Transaction, op: RequestCancel, portion: Portion) -> None:
    try:
        answer = cancel.request_cancel(tx, op)
    except RunFinished as error:
        portion.refuse(op.run_id, error)
        return
    if isinstance(answer, PartlyCancelled):
        portion.begin(op.run_id)
    else:
        portion.done.append(op.run_id)


def _replay(tx: Transaction, ops: Sequence[ReplayRun], portion: Portion) -> None:
    """Replay runs together; one with children is alone in its portion."""
    if len(ops) == 1 and (ops[0].children or ops[0].detach):
        operate.replay_run(tx, ops[0])
        portion.done.append(ops[0].run_id)
        return
    refused = operate.replay_possible(tx, ops, portion.states)
    for op in ops:
        error = refused.get(op.run_id)
        if error is None:
            portion.done.append(op.run_id)
        else:
            portion.refuse(op.run_id, error)


def _replay_member(tx: Transaction, ops: Sequence[ReplayMember], portion: Portion) -> None:
    """Replay the member of a graph that is alone in its portion."""
    # The id of the run may differ from that of the member: the run may have joined the graph.
    (run_id,) = portion.states
    replay_member(tx, ops[0])
    portion.done.append(run_id)


def _delete(tx: Transaction, ops: Sequence[DeleteRun], portion: Portion) -> None:
    """Delete finished trees until as many runs are deleted as a transaction may delete."""
    room = trees.RUNS
    for op in ops:
        if room <= 0:
            portion.open[op.run_id] = AGAIN
            continue
        try:
            below = _deletable(tx, op.run_id, portion.states[op.run_id])
        except HoldfastError as error:
            if isinstance(error, RowDamaged):
                raise
            portion.refuse(op.run_id, error)
            continue
        if len(below) < room:
            room -= len(below) + 1
            _delete_all(tx, [*below, op.run_id])
            portion.done.append(op.run_id)
            continue
        # Of a tree that is deleted in parts the rest must not be replayed.
        forget_history(tx, op.run_id)
        newest = [row["id"] for row in tx.rows("last_descendants", run_id=op.run_id, limit=room)]
        _delete_all(tx, newest)
        portion.begin(op.run_id)
        room = 0


def _deletable(tx: Transaction, run_id: str, state: Row) -> list[str]:
    """Return the descendants of a run, locked, if the whole tree can be deleted. Raises
    RunNotFinished, RunHasParent."""
    if state["parent_id"] is not None:
        raise RunHasParent(run=run_id, parent=state["parent_id"])
    if state["finished_at"] is None:
        raise RunNotFinished(run=run_id, status=state["status"])
    for graph in tx.rows("open_graphs_of", run_id=run_id) if state["graph_id"] else ():
        raise RunNotFinished(run=run_id, graph=graph["id"], why="its graph has not ended")
    below = sorted(row["id"] for row in tx.rows("descendants", run_id=run_id))
    for child in tx.rows("states_by_id", ids=tx.as_list(below)) if below else ():
        if child["finished_at"] is None:
            why = f"its descendant {child['id']} is {child['status']}"
            raise RunNotFinished(run=run_id, why=why)
    return below


def _delete_all(tx: Transaction, run_ids: Sequence[str]) -> None:
    # Read before the runs are deleted, and with them their references.
    payloads = [digest for run_id in run_ids for digest in digests_used(tx, run_id)]
    delete_runs(tx, run_ids)
    collect(tx, payloads)


def runs_of(action: BulkAction) -> list[str]:
    """Return the runs that an action is known to write."""
    op = action.op
    if isinstance(op, ReplayRun):
        return list(op.runs())
    if isinstance(op, ReplayMember):
        return [run_id for replay in op.replays.values() for run_id in replay.runs()]
    return [] if op is None else [action.run_id]


_SINGLE: dict[type, Callable[[Transaction, Any], object]] = {
    ResumeRun: operate.resume_run,
    SignalRun: signal_run,
    ReleaseWait: release_wait,
    SetPriority: set_priority,
    InstructRun: instruct_run,
}
_TOGETHER: dict[type, Callable[[Transaction, Sequence[Any], Portion], None]] = {
    RequestCancel: _cancel,
    ReplayRun: _replay,
    ReplayMember: _replay_member,
    DeleteRun: _delete,
}
"""The functions that apply many operations of one kind together."""
