"""Starts that are gathered: until a run begins, further starts of its key go into it instead of
beside it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from holdfast.core import claiming
from holdfast.core.payload import Payload
from holdfast.store.contract.runs import DebounceStart, Started, StartRuns
from holdfast.store.transitions.payloads import fetch, keep
from holdfast.store.transitions.starting import start_runs, stored_key
from holdfast.store.transitions.transaction import Transaction


def debounce_start(tx: Transaction, op: DebounceStart) -> list[Started]:
    """Put a start into the run that gathers those of its key, or start one that does."""
    key, latest = stored_key(op.run.route, op.key), tx.now + op.longest
    first = tx.change(
        "open_gathering", run_id=op.run.id, key=key, latest=latest
    )  # of several at once, one
    if not first:
        found = tx.rows("gathering", key=key)
        if found and _join(tx, op, found[0]):
            return [Started(id=found[0]["run_id"], created=False, leased=False, now=tx.now)]
    begins = tx.now if op.size == 1 else min(tx.now + op.quiet, latest)
    run = msgspec.structs.replace(op.run, available_at=begins, session_id=None, key=None)
    if not first:
        tx.change("save_gathering", run_id=run.id, key=key, count=1, latest=latest)
    return start_runs(tx, StartRuns([run]))


def _join(tx: Transaction, op: DebounceStart, found: dict[str, int]) -> bool:
    """Put it into a run that has not begun; say whether there was one."""
    old = tx.rows("gathered_input", run_id=found["run_id"])
    if not old:
        return False
    count = found["count"] + 1
    full = op.size is not None and count >= op.size
    data, payloads = _merged(tx, op, str(found["run_id"]), bytes(old[0]["input"]))
    wake_at = (
        None
        if full
        else min(tx.now + op.quiet, found["latest"])
        if op.size is None
        else found["latest"]
    )
    rank = claiming.rank(tx.now, old[0]["priority"]) if full else None
    tx.change("gather_into", run_id=found["run_id"], input=data, wake_at=wake_at, rank=rank)
    if payloads:
        keep(tx, str(found["run_id"]), payloads)
    tx.change(
        "save_gathering",
        run_id=found["run_id"],
        key=stored_key(op.run.route, op.key),
        count=count,
        latest=found["latest"],
    )
    tx.hints.ready = True
    return True


def _merged(
    tx: Transaction, op: DebounceStart, run_id: str, old: bytes
) -> tuple[bytes, Sequence[Payload]]:
    """Return the input that stands now, and what is kept apart of it."""
    return (
        (op.run.input, op.run.payloads)
        if op.merge is None
        else op.merge(run_id, old, partial(fetch, tx.rows))
    )
