"""Driving the runs that a worker has claimed, each from what the store holds of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Sequence

from holdfast.core.events import Event
from holdfast.core.runs import RunRecord
from holdfast.core.waits import Signal
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.errors import RowDamaged
from holdfast.store.contract import SetAside, Store

log = logging.getLogger("holdfast")

Hold = Callable[[RunRecord, list[Event], list[Signal]], None]
"""Drives one run, from its history and its signals."""


async def hold_claimed(
    store: Store, writer: GroupCommit, runs: Sequence[RunRecord], hold: Hold
) -> None:
    """Drive runs. One whose history or signals cannot be read is set aside; the others go on."""
    try:
        _hold_all(store, runs, hold)
    except RowDamaged:
        for run in runs:
            await _hold_one(store, writer, run, hold)


def _hold_all(store: Store, runs: Sequence[RunRecord], hold: Hold) -> None:
    """Read what there is of all runs together, then drive them. Raises RowDamaged before any is
    driven."""
    told = [
        run.id for run in runs if run.generation > 1 or run.forked_from or run.revision
    ]  # or an operator came first
    histories = store.histories(told)
    signals = store.signals_of(
        [run.id for run in runs if run.revision]
    )  # else nothing has ever reached it
    for run in runs:
        hold(run, histories.get(run.id, []), signals.get(run.id, []))


async def _hold_one(store: Store, writer: GroupCommit, run: RunRecord, hold: Hold) -> None:
    try:
        _hold_all(store, [run], hold)
    except RowDamaged as damage:
        damage.place["run_id"] = run.id
        await writer.submit(SetAside([damage]))


class Unheld:
    """Runs that are leased to the session of this worker although no driver was told so: the store
    was in trouble when it had leased them."""

    def __init__(self, store: Store, writer: GroupCommit, drivers: Container[str]) -> None:
        self._store: Store = store
        self._writer: GroupCommit = writer
        self._drivers: Container[str] = drivers
        self._seen: set[tuple[str, int]] = set()
        """The runs that the last look found, and their generations."""
        self.found: set[str] = set()
        """The runs that were taken up here."""

    def find(self, session_id: str, definitions: Container[str], hold: Hold) -> None:
        """Look for such runs and drive those that the last look has found as well: a run that is
        found for the first time may be on its way to its driver."""
        self._writer.troubled = False  # before the look: trouble during the look must set it again
        held = self._store.held(session_id)
        leased = {
            (run_id, generation) for run_id, generation, _ in held if run_id not in self._drivers
        }
        for run_id, generation in leased & self._seen:
            self._take_up(run_id, generation, definitions, hold)
        self._seen = leased
        if leased:
            self._writer.troubled = True

    def _take_up(
        self, run_id: str, generation: int, definitions: Container[str], hold: Hold
    ) -> None:
        run = self._store.run(run_id)
        if run is None or run.generation != generation or run.workflow not in definitions:
            return
        log.warning(
            "run %s was leased to this worker in the middle of some trouble, and goes on", run_id
        )
        self.found.add(run_id)
        signals = self._store.signals(run_id) if run.revision else []
        hold(run, self._store.history(run_id), signals)
