"""Driving the runs that a worker has claimed, each from what the store holds of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.core.records import Event, Run, Signal
from holdfast.engine.writer import Writer
from holdfast.errors import RowDamaged
from holdfast.store.contract import SetAside, Store

Hold = Callable[[Run, list[Event], list[Signal]], None]
"""Drives one run, from its history and its signals."""


async def hold_claimed(store: Store, writer: Writer, runs: Sequence[Run], hold: Hold) -> None:
    """Drive runs. One whose history or signals cannot be read is set aside; the others go on."""
    try:
        _hold_all(store, runs, hold)
    except RowDamaged:
        for run in runs:
            await _hold_one(store, writer, run, hold)


def _hold_all(store: Store, runs: Sequence[Run], hold: Hold) -> None:
    """Read what there is of all runs together, then drive them. Raises RowDamaged before any is driven."""
    told = [run.id for run in runs if run.generation > 1 or run.forked_from or run.revision]  # or an operator came first
    histories = store.histories(told)
    signals = store.signals_of([run.id for run in runs if run.revision])  # else nothing has ever reached it
    for run in runs:
        hold(run, histories.get(run.id, []), signals.get(run.id, []))


async def _hold_one(store: Store, writer: Writer, run: Run, hold: Hold) -> None:
    try:
        _hold_all(store, [run], hold)
    except RowDamaged as damage:
        damage.place["run_id"] = run.id
        await writer.submit(SetAside([damage]))
