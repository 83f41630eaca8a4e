"""Import single runs, and copy all data of another store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.core import claiming, typed_json
from holdfast.core.envelope import digests_of
from holdfast.core.payload import Seal
from holdfast.core.runs import Cell, Route, RunRecord, RunSnapshot
from holdfast.core.status import CLAIMABLE, Move, Status, after
from holdfast.errors import RunExists, RunNotFound, StageGone, StoreInUse, StoreNotEmpty
from holdfast.store.database import BatchTransaction, Row, Transaction
from holdfast.store.definitions.apply import import_definitions
from holdfast.store.history import append_each, last_seq
from holdfast.store.installation import HALF_COPIED, SEALED
from holdfast.store.lanes.apply import set_lane
from holdfast.store.lanes.operations import SetLane
from holdfast.store.payloads.apply import insert_payload, refer
from holdfast.store.payloads.encrypt import clear_values_accepted
from holdfast.store.runs.copy_operations import (
    STAGE_TTL,
    BeginCopy,
    BeginImport,
    CopyRuns,
    EndCopy,
    ImportRun,
    SealStore,
    StagedEvents,
    StageEvents,
    UnsealStore,
)
from holdfast.store.runs.start import stored_key
from holdfast.store.tables import BELOW_RUNS, STANDING, StoredTable

_EMPTY = (
    "empty_events",
    "empty_numbers",
    "empty_signals",
    "empty_tags",
    "empty_fanouts",
    "empty_runs",
    "empty_lanes",
    "empty_payloads",
    "empty_payload_parts",
    *(f"empty_{table.name}" for table in (*BELOW_RUNS, *STANDING)),
)
_EVENT = ("seq", "kind", "step", "attempt", "data", "error", "started_at", "at", "role")
_SIGNAL = ("name", "payload", "key", "at", "number", "wait_id", "source", "step", "effect")


def import_run(tx: Transaction, op: ImportRun) -> None:
    """Write a run and its history as they were elsewhere. A run that was running becomes claimable.

    Raises RunExists, and RunNotFound if a payload that it refers to was deleted meanwhile.
    """
    run = _woken(op.run) if op.touched else op.run
    below = {table: rows for table, rows in op.below.items() if table != "payload_use"}
    events = [msgspec.structs.replace(event, id=0) for event in op.events]
    snapshot = RunSnapshot(run, op.tags, events, list(op.signals), below=below)
    staged = op.staged
    with clear_values_accepted(tx):
        if staged is not None:
            # Before the other events: subscribers read events in the order of their writing.
            _take_staged(tx, run.id, staged)
        _write(tx, [snapshot])
    for payload in op.payloads:
        insert_payload(tx, payload)
    import_definitions(tx, op.definitions)
    # After the run is written: it must exist when its references are recorded.
    if not refer(
        tx, op.run.id, _referred(snapshot).union(staged.digests if staged is not None else ())
    ):
        raise RunNotFound(run=op.run.forked_from or op.run.id, why="it was deleted meanwhile")


def stage_events(tx: Transaction, op: StageEvents) -> None:
    """Write events that belong to no run yet. Raises StageGone."""
    tx.change("insert_stage", id=op.stage_id, due_at=tx.now + STAGE_TTL)
    stage = tx.rows("stage_to_change", stage_id=op.stage_id)[0]
    if stage["discarded"]:
        raise StageGone(stage=op.stage_id)
    # Events up to here were written by an earlier attempt, whose answer was lost.
    last = last_seq(tx, op.stage_id)
    with clear_values_accepted(tx):
        append_each(tx, [(op.stage_id, event) for event in op.events if event.seq > last])
    tx.change("move_stage", id=op.stage_id, written=0, due_at=tx.now + STAGE_TTL)


def _take_staged(tx: Transaction, run_id: str, staged: StagedEvents) -> None:
    """Copy the events of a stage to a run, and discard the stage. Raises StageGone."""
    stages = tx.rows("stage_to_change", stage_id=staged.stage_id)
    if (
        not stages
        or stages[0]["discarded"]
        or tx.change("take_events", run_id=run_id, stage_id=staged.stage_id) != staged.count
    ):
        raise StageGone(stage=staged.stage_id)
    tx.change("discard_stage", id=staged.stage_id)


def _woken(run: RunRecord) -> RunRecord:
    """Return a parked run as it is after a wake-up."""
    if not claiming.is_parked({"status": run.status, "waits": run.waits}):
        return run
    return msgspec.structs.replace(
        run, status=after(run.status, Move.WAKE), waits=None, wake_at=None
    )


def _referred(snapshot: RunSnapshot) -> set[bytes]:
    """Return the digests of all offloaded values of a run."""
    run = snapshot.run
    events = [value for event in snapshot.events for value in (event.data, event.error)]
    return digests_of(
        run.input, run.result, run.error, *events, *(signal.payload for signal in snapshot.signals)
    )


def copy_runs(tx: Transaction, op: CopyRuns) -> None:
    """Write runs as they are elsewhere."""
    with clear_values_accepted(tx):
        _write(tx, op.runs)


def begin_copy(tx: BatchTransaction, op: BeginCopy) -> None:
    """Empty the store of the rest of an interrupted copy, and mark it until this copy has ended.

    Raises StoreNotEmpty, StoreInUse.
    """
    _refuse_workers(tx)
    if not tx.rows("setting", name=HALF_COPIED) and tx.rows("any_run"):
        raise StoreNotEmpty()
    for query in _EMPTY:
        tx.change(query)
    tx.change("delete_setting", name=HALF_COPIED)
    # The insert leaves an existing mark as it is, so that of the interrupted copy is deleted above.
    tx.change("save_setting", name=HALF_COPIED, value=op.copy_id or str(tx.now))
    for lane in op.lanes:
        set_lane(tx, SetLane(lane))
        tx.change("save_rate_time", name=lane.name, free_at=lane.free_at)
    for table in STANDING:
        tx.many(
            f"copy_{table.name}", [_row(table, cells) for cells in op.standing.get(table.name, ())]
        )


def begin_import(tx: BatchTransaction, op: BeginImport) -> None:
    """Mark the store until all runs are imported. Raises StoreNotEmpty, StoreInUse."""
    _refuse_workers(tx)
    if tx.rows("any_run"):
        raise StoreNotEmpty()
    tx.change("save_setting", name=HALF_COPIED, value=str(tx.now))


def _refuse_workers(tx: BatchTransaction) -> None:
    """Raise StoreInUse if a session is open, because it could claim the runs.

    The tables are locked first: no session can be opened before the copy ends.
    """
    tx.lock_tables()
    if tx.rows("any_session"):
        raise StoreInUse()


def end_copy(tx: BatchTransaction, op: EndCopy) -> None:
    """Remove the mark of an unfinished copy."""
    tx.change("delete_setting", name=HALF_COPIED)
    # New events must not get the numbers of copied ones.
    tx.rows("continue_numbers")
    tx.hints.ready = True
    if op.seal is not None:
        _seal(tx, op.seal)


def seal_store(tx: BatchTransaction, op: SealStore) -> bool:
    """Refuse all writes from now on, if *op.check* agrees while no other transaction can write."""
    tx.lock_tables()
    if not op.check():
        return False
    _seal(tx, op.seal)
    return True


def _seal(tx: BatchTransaction, seal: Seal) -> None:
    tx.change("save_setting", name=SEALED, value=msgspec.json.encode(seal).decode())
    tx.seal(seal)


def unseal_store(tx: BatchTransaction, op: UnsealStore) -> Seal | None:
    """Accept writes again. Return the seal that was removed, or None."""
    rows = tx.rows("setting", name=SEALED)
    if not rows:
        return None
    tx.unseal()
    tx.change("delete_setting", name=SEALED)
    tx.hints.ready = True
    return typed_json.decode(rows[0]["value"], Seal)


def _write(tx: Transaction, runs: Sequence[RunSnapshot]) -> None:
    if tx.many("import_run", [_columns(tx, snapshot) for snapshot in runs]) < len(runs):
        raise RunExists(
            run=runs[0].run.id
            if len(runs) == 1
            else f"one of {runs[0].run.id} to {runs[-1].run.id}"
        )
    below: dict[str, list[Row]] = {
        "insert_tag": [],
        "append": [],
        "copy_event": [],
        "import_signal": [],
        "insert_fanout": [],
    }
    for snapshot in runs:
        for query, row in _belongings(snapshot):
            below[query].append({"run_id": snapshot.run.id, **row})
    for query, rows in below.items():
        tx.many(query, rows)
    for table in BELOW_RUNS:
        rows = [
            {"run_id": snapshot.run.id, **_row(table, cells)}
            for snapshot in runs
            for cells in snapshot.below.get(table.name, ())
        ]
        tx.many(f"copy_{table.name}", rows)
    tx.hints.ready = True


def _row(table: StoredTable, cells: list[Cell]) -> dict[str, object]:
    return dict(zip(table.columns, cells, strict=True))


def _belongings(snapshot: RunSnapshot) -> Iterator[tuple[str, Row]]:
    """Yield the query and the values that write each row that belongs to a run."""
    for name, value in snapshot.tags.items():
        created_at = snapshot.run.created_at
        yield "insert_tag", {"name": name, "value": value, "created_at": created_at}
    for event in snapshot.events:
        row = {name: getattr(event, name) for name in _EVENT}
        yield ("copy_event", {**row, "id": event.id}) if event.id else ("append", row)
    for signal in snapshot.signals:
        yield (
            "import_signal",
            {**{name: getattr(signal, name) for name in _SIGNAL}, "taken": int(signal.taken)},
        )
    for fanout in snapshot.fanouts:
        yield (
            "insert_fanout",
            {"step": fanout.step, "remaining": fanout.remaining, "eager": int(fanout.eager)},
        )


def _columns(tx: Transaction, snapshot: RunSnapshot) -> dict[str, object]:
    run = snapshot.run
    route = Route(run.namespace, run.workflow, run.version, run.lane, run.capabilities)
    values = msgspec.structs.asdict(run)
    for name in ("namespace", "workflow", "version", "lane", "capabilities", "session_id"):
        del values[name]
    # The lease stays behind: no session of the other store exists here.
    if run.status is Status.RUNNING:
        values |= {"status": after(run.status, Move.RELEASE), "wake_at": None}
    if values["status"] is Status.PENDING:
        values["waits"] = None
    sleeps = values["waits"] is not None or values["wake_at"] is not None
    ready = claiming.rank(tx.now, run.priority) if snapshot.rank is None else snapshot.rank
    values["rank"] = ready if values["status"] in CLAIMABLE and not sleeps else None
    values["budgets"] = "\n".join(run.budgets) or None
    values["on_parent_end"] = run.on_parent_end if run.parent_id else None
    return values | {
        "route_id": tx.route_id(route),
        "key": stored_key(route, run.key),
        "crash_seq": snapshot.crash_seq,
    }
