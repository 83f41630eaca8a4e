"""Apply the operations of operators on runs and lanes: resume, replay, prune, set limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core import claiming, typed_json
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import Route
from holdfast.core.status import Move, Status, after
from holdfast.core.tasks import policy as task_policy
from holdfast.errors import (
    HoldfastError,
    IllegalMove,
    NotReclaimable,
    RunChanged,
    RunFinished,
    RunNotFinished,
    RunNotFound,
)
from holdfast.store.database import Row, Transaction
from holdfast.store.history import append_each, append_from_outside, last_seq, last_seqs
from holdfast.store.rows import load
from holdfast.store.runs.operations import ReplayRun, ReplayRuns, ResumeRun, SetTags


def resume_run(tx: Transaction, op: ResumeRun) -> Status:
    """Make a stuck run claimable; a run that was being cancelled continues to cancel. Raises
    IllegalMove."""
    state = load(tx, op.run_id)
    if state["finished_at"] is not None:
        raise RunFinished(run=op.run_id, status=state["status"])
    try:
        status = after(Status(state["status"]), Move.RESUME)
    except IllegalMove:
        raise IllegalMove(run=op.run_id, status=state["status"], move="resume") from None
    # The status `stuck` hides that the run was asked to stop; its reason shows it.
    if state["cancel_reason"] is not None:
        status = after(status, Move.CANCEL)
    _note(tx, op.run_id, EventKind.RUN_RESUMED, None if op.by is None else {"by": op.by})
    tx.change(
        "resume_run", run_id=op.run_id, status=status, rank=claiming.rank(tx.now, state["priority"])
    )
    tx.hints.ready = True
    return status


def change_version(tx: Transaction, run_id: str, version: str) -> None:
    """Give a run the route of another version."""
    row = tx.rows("route_of_run", run_id=run_id)[0]
    route = Route(
        row["namespace"],
        row["workflow"],
        version,
        row["lane"],
        tuple(row["capabilities"].split(",")) if row["capabilities"] else (),
    )
    tx.change("change_route", run_id=run_id, route_id=tx.route_id(route))


def set_tags(tx: Transaction, op: SetTags) -> dict[str, str]:
    """Change the tags of a run, whatever its status, and return all of them. Raises
    RunNotFound."""
    created_at = load(tx, op.run_id)["created_at"]
    for name, value in op.tags.items():
        # Deleted first: the insert leaves a tag that exists as it is.
        tx.change("delete_tag", run_id=op.run_id, name=name)
        if value is not None:
            tx.change("insert_tag", name=name, value=value, run_id=op.run_id, created_at=created_at)
    return {row["name"]: row["value"] for row in tx.rows("tags", run_id=op.run_id)}


def replay_run(tx: Transaction, op: ReplayRun) -> Status:
    """Make a finished run claimable again, without its void events; replay its failed children,
    too."""
    state = load(tx, op.run_id)
    if state["finished_at"] is None:
        raise RunNotFinished(run=op.run_id, status=state["status"])
    _put_back(tx, [op], {op.run_id: state})
    return after(Status(state["status"]), Move.REPLAY)


def replay_each(tx: Transaction, ops: Sequence[ReplayRun]) -> None:
    """Replay finished runs, each with its failed children. Raises as `replay_run` does."""
    states = _states(tx, ops)
    for op in ops:
        if states[op.run_id]["finished_at"] is None:
            raise RunNotFinished(run=op.run_id, status=states[op.run_id]["status"])
    _put_back(tx, ops, states)


def replay_possible(
    tx: Transaction, ops: Sequence[ReplayRun], states: Mapping[str, Row]
) -> dict[str, HoldfastError]:
    """Replay the ones of these locked runs that can be, and return the refusals of the others by
    id. None of them has children or steps to detach."""
    refused: dict[str, HoldfastError] = {}
    lasts = last_seqs(tx, [op.run_id for op in ops])
    for op in ops:
        state = states[op.run_id]
        if state["finished_at"] is None:
            refused[op.run_id] = RunNotFinished(run=op.run_id, status=state["status"])
        elif op.seen is not None and lasts[op.run_id] != op.seen:
            refused[op.run_id] = RunChanged(run=op.run_id, events=lasts[op.run_id], seen=op.seen)
    refused |= _used_up_replays(tx, [op.run_id for op in ops if op.run_id not in refused])
    _put_back(tx, [op for op in ops if op.run_id not in refused], states)
    return refused


def replay_runs(tx: Transaction, op: ReplayRuns) -> None:
    """Replay finished runs before the run that they are descendants of."""
    _replay_children(tx, op.replays)


def _replay_children(tx: Transaction, ops: Sequence[ReplayRun]) -> list[str]:
    """Replay the finished ones of these children with their parent, and return their ids.

    Raises RunNotFinished for a cancelling child, because it would fail its parent once more.
    """
    states = _states(tx, ops)
    ended: list[ReplayRun] = []
    for op in ops:
        state = states[op.run_id]
        if state["finished_at"] is not None:
            ended.append(op)
        elif state["status"] == Status.CANCELLING:
            raise RunNotFinished(run=op.run_id, status=state["status"])
    _put_back(tx, ended, states)
    return [op.run_id for op in ended]


def _states(tx: Transaction, ops: Sequence[ReplayRun]) -> dict[str, Row]:
    """Lock runs in the order of their ids, and return their states. Raises RunNotFound."""
    rows = tx.rows("states_by_id", ids=tx.as_list(sorted(op.run_id for op in ops))) if ops else []
    states = {state["id"]: state for state in rows}
    for op in ops:
        if op.run_id not in states:
            raise RunNotFound(run=op.run_id)
    return states


def _put_back(tx: Transaction, ops: Sequence[ReplayRun], states: Mapping[str, Row]) -> None:
    """Make finished, locked runs claimable again, with few statements however many they are."""
    if not ops:
        return
    lasts = last_seqs(tx, [op.run_id for op in ops])
    for op in ops:
        if op.seen is not None and lasts[op.run_id] != op.seen:
            raise RunChanged(run=op.run_id, events=lasts[op.run_id], seen=op.seen)
    # Before the first write: a refusal must leave nothing behind.
    _check_replays(tx, [op.run_id for op in ops])
    lines: list[tuple[str, Event]] = []
    rows: list[dict[str, object]] = []
    for op in ops:
        state = states[op.run_id]
        seq = lasts[op.run_id] + 1
        for step in op.detach:
            _detach(tx, op.run_id, step, seq)
        data: dict[str, object] = {"void": list(op.void)}
        again = [*op.replayed, *_replay_children(tx, op.children)]
        if again:
            data["children"] = again
        if op.by is not None:
            data["by"] = op.by
        if op.version is not None:
            data["version"] = op.version
            change_version(tx, op.run_id, op.version)
        lines.append(
            (op.run_id, Event(kind=EventKind.RUN_REPLAYED, seq=seq, data=msgspec.json.encode(data)))
        )
        status = after(Status(state["status"]), Move.REPLAY)
        rows.append(
            {
                "run_id": op.run_id,
                "status": status,
                "rank": claiming.rank(tx.now, state["priority"]),
            }
        )
    append_each(tx, lines)
    tx.many("replay_run", rows)
    tx.many("reopen_waits", [{"run_id": op.run_id} for op in ops])
    _count_up(tx, [states[op.run_id] for op in ops])
    tx.hints.ready = True


def _count_up(tx: Transaction, states: Sequence[Row]) -> None:
    """Count up the fan-outs of parents whose children run again."""
    maps = Counter(
        (state["parent_id"], state["parent_step"])
        for state in states
        if state["parent_index"] is not None
    )
    # Sorted: parents are locked in the order of their ids.
    for (parent_id, step), more in sorted(maps.items()):
        tx.change("count_up", run_id=parent_id, step=step, more=more)


def _detach(tx: Transaction, run_id: str, step: str, seq: int) -> None:
    """Separate the children of a void start from the children that the same step starts next.

    Running children keep their parent's step in the memory of their worker. This matters where
    children are counted, so a map is not started again before all of its children have ended.
    """
    for child in tx.rows("live_child_of_map", run_id=run_id, step=step):
        raise RunNotFinished(run=child["id"], status=child["status"])
    tx.change("detach_children", run_id=run_id, step=step, name=f"{step} before replay {seq}")
    tx.change("delete_fanout", run_id=run_id, step=step)


def _check_replays(tx: Transaction, run_ids: Sequence[str]) -> None:
    """Check the limit on replays in the policy of a task. Raises NotReclaimable."""
    for error in _used_up_replays(tx, run_ids).values():
        raise error


def _used_up_replays(tx: Transaction, run_ids: Sequence[str]) -> dict[str, NotReclaimable]:
    """Return an error for each run that was replayed as often as the policy of its task allows."""
    used_up: dict[str, NotReclaimable] = {}
    for facts in tx.rows("lease_facts", ids=tx.as_list(run_ids)):
        if facts["policy"] is None:
            continue
        limit = typed_json.decode(bytes(facts["policy"]), task_policy.TaskPolicy).replays
        history = [
            Event(kind=row["kind"]) for row in tx.rows("history", run_id=facts["run_id"], after=0)
        ]
        if task_policy.replays_in(history) >= limit:
            why = f"it was replayed {limit} times, the limit of its policy: start a new run"
            used_up[facts["run_id"]] = NotReclaimable(run=facts["run_id"], why=why)
    return used_up


def _note(tx: Transaction, run_id: str, kind: str, data: object = None) -> None:
    encoded = None if data is None else msgspec.json.encode(data)
    append_from_outside(
        tx, [(run_id, Event(kind=kind, seq=last_seq(tx, run_id) + 1, data=encoded))]
    )
