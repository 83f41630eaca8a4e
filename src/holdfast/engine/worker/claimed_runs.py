"""Start the executions of claimed runs from their stored histories and signals, and recover
orphans."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Sequence
from contextlib import suppress

from holdfast.core.events import Event
from holdfast.core.program import Definition
from holdfast.core.runs import RunRecord
from holdfast.core.waits import Signal
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.runtime.log_records import of_run
from holdfast.errors import RowDamaged
from holdfast.store.runs.operations import SetAside
from holdfast.store.store import Store, View

log = logging.getLogger("holdfast")

FindDefinition = Callable[[str, str, str], Definition | None]
"""Returns the definition of a namespace, a workflow and a version, or None."""
Start = Callable[[RunRecord, list[Event], list[Signal]], None]
"""Starts the execution of a run from its history and its signals."""


async def start_claimed(
    store: Store,
    writer: GroupCommit,
    runs: Sequence[RunRecord],
    find: FindDefinition,
    start: Start,
) -> None:
    """Start executions. A run whose history or signals are damaged is set aside; the others
    start."""
    try:
        _start_all(store, runs, find, start)
    except RowDamaged:
        for run in runs:
            await _start_one(store, writer, run, find, start)


def _start_all(store: Store, runs: Sequence[RunRecord], find: FindDefinition, start: Start) -> None:
    """Read the histories and signals of all runs together, then start their executions.

    Raises RowDamaged before any is started.
    """
    # Other runs have no history yet. A revision means that a signal or an operator came first.
    with_history = [run for run in runs if run.generation > 1 or run.forked_from or run.revision]
    checkpointed = {run.id for run in with_history if _writes_checkpoints(run, find)}
    histories = store.runs.histories([run.id for run in with_history if run.id not in checkpointed])
    for run_id in checkpointed:
        histories[run_id] = history_to_load(store, run_id)
    # Without a revision nothing has ever reached the run: saves the read.
    signals = store.signals.of_runs([run.id for run in runs if run.revision])
    for run in runs:
        start(run, histories.get(run.id, []), signals.get(run.id, []))


def history_to_load(view: View, run_id: str) -> list[Event]:
    """Return the events that a program needs to continue: from its last checkpoint on."""
    checkpoint = view.runs.last_checkpoint(run_id)
    return view.runs.history(run_id, after=max(checkpoint - 1, 0))


def _writes_checkpoints(run: RunRecord, find: FindDefinition) -> bool:
    definition = find(run.namespace, run.workflow, run.version)
    return definition is not None and definition.writes_checkpoints


async def _start_one(
    store: Store, writer: GroupCommit, run: RunRecord, find: FindDefinition, start: Start
) -> None:
    try:
        _start_all(store, [run], find, start)
    except RowDamaged as damage:
        damage.place["run_id"] = run.id
        await writer.submit(SetAside([damage]))


class Orphans:
    """Runs that are leased to the session of this worker but have no execution.

    A claim or start that failed with a StoreError may have committed all the same.
    """

    def __init__(self, store: Store, writer: GroupCommit, executions: Container[str]) -> None:
        self._store: Store = store
        self._writer: GroupCommit = writer
        self._executions: Container[str] = executions
        self._last_check: set[tuple[str, int]] = set()
        """The orphans of the last check, with their generations."""
        self.started: set[str] = set()
        """The orphans that were started here."""

    def recover(self, session_id: str, find: FindDefinition, start: Start) -> None:
        """Start runs that two consecutive checks find orphaned.

        The first check may race with an ordinary start that is still in progress.
        """
        # Before the read, not after: an error during the read must set it again.
        self._writer.had_errors = False
        held = self._store.sessions.held_by(session_id)
        leased = {
            (run_id, generation) for run_id, generation, _ in held if run_id not in self._executions
        }
        for run_id, generation in leased & self._last_check:
            # A run whose rows are damaged stays an orphan until they are repaired.
            with suppress(RowDamaged):
                self._start_orphan(run_id, generation, find, start)
        self._last_check = leased
        if leased:
            self._writer.had_errors = True

    def _start_orphan(
        self, run_id: str, generation: int, find: FindDefinition, start: Start
    ) -> None:
        run = self._store.runs.get(run_id)
        if run is None or run.generation != generation:
            return
        if find(run.namespace, run.workflow, run.version) is None:
            return
        log.warning(
            "run %s was leased to this worker by a commit that reported an error; it was started",
            run_id,
            extra=of_run(run),
        )
        self.started.add(run_id)
        # Read in any case: the execution that is gone may have written events and taken signals.
        if _writes_checkpoints(run, find):
            history = history_to_load(self._store, run_id)
        else:
            history = self._store.runs.history(run_id)
        start(run, history, self._store.signals.of_run(run_id))
