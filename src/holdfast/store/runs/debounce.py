"""Debounce starts: until a run begins, further starts with its key are merged into it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from holdfast.core import claiming
from holdfast.core.payload import Payload
from holdfast.store.database import Started, Transaction
from holdfast.store.payloads.apply import fetch, keep
from holdfast.store.runs.operations import DebounceStart, StartRuns
from holdfast.store.runs.start import start_runs, stored_key


def debounce_start(tx: Transaction, op: DebounceStart) -> list[Started]:
    """Merge a start into the pending run of its key, or start such a run."""
    key = stored_key(op.run.route, op.key)
    latest = tx.now + op.longest
    # An insert decides: of several concurrent first starts exactly one succeeds.
    first = tx.change("open_gathering", run_id=op.run.id, key=key, latest=latest)
    if not first:
        gatherings = tx.rows("gathering", key=key)
        if gatherings and _join(tx, op, gatherings[0]):
            return [Started(id=gatherings[0]["run_id"], created=False, leased=False, now=tx.now)]
    begins = tx.now if op.size == 1 else min(tx.now + op.quiet, latest)
    # Not leased at its start: further starts change its input until it begins. And without the
    # key, which belongs to the gathering.
    run = msgspec.structs.replace(op.run, available_at=begins, session_id=None, key=None)
    if not first:
        # The run of this key has begun: the new one takes its place.
        tx.change("save_gathering", run_id=run.id, key=key, count=1, latest=latest)
    return start_runs(tx, StartRuns([run]))


def _join(tx: Transaction, op: DebounceStart, gathering: dict[str, int]) -> bool:
    """Merge a start into a run that has not begun. Return False if the run has begun."""
    old = tx.rows("gathered_input", run_id=gathering["run_id"])
    if not old:
        return False
    count = gathering["count"] + 1
    full = op.size is not None and count >= op.size
    data, payloads = _merged(tx, op, str(gathering["run_id"]), bytes(old[0]["input"]))
    wake_at: int | None = gathering["latest"]
    if full:
        wake_at = None
    elif op.size is None:
        wake_at = min(tx.now + op.quiet, gathering["latest"])
    rank = claiming.rank(tx.now, old[0]["priority"]) if full else None
    tx.change("gather_into", run_id=gathering["run_id"], input=data, wake_at=wake_at, rank=rank)
    if payloads:
        keep(tx, str(gathering["run_id"]), payloads)
    tx.change(
        "save_gathering",
        run_id=gathering["run_id"],
        key=stored_key(op.run.route, op.key),
        count=count,
        latest=gathering["latest"],
    )
    # The wake-up time has changed: workers must compute again how long they may sleep.
    tx.hints.ready = True
    return True


def _merged(
    tx: Transaction, op: DebounceStart, run_id: str, old: bytes
) -> tuple[bytes, Sequence[Payload]]:
    """Return the merged input, and its offloaded payloads."""
    return (
        (op.run.input, op.run.payloads)
        if op.merge is None
        else op.merge(run_id, old, partial(fetch, tx.rows))
    )
