"""Find out whether a write was committed that was in progress when the connection was lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from holdfast.store.database import Hints, Operation
from holdfast.store.postgres.commit_markers import CommitMarkers
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.one_statement_signal import OutgoingSignal, find_signal
from holdfast.store.postgres.planned_writes import PlannedWrite, find_committed


class CommittedWrite(NamedTuple):
    """The answers to operations that were committed, and their hints."""

    answers: Sequence[tuple[Operation, Any]]
    hints: Hints


class UncertainWrite(NamedTuple):
    """A write in progress when the connection was lost.

    Either an autocommitted statement, which its own rows show, or the commit of a transaction,
    which its marker shows.
    """

    writes: list[PlannedWrite]
    marker: int | None = None
    answers: Sequence[tuple[Operation, Any]] = ()
    hints: Hints | None = None
    signal: OutgoingSignal | None = None

    def committed(
        self, db: Connection, markers: CommitMarkers, now: int
    ) -> Iterator[CommittedWrite]:
        """Yield the parts of the write that are committed, as a new connection sees them."""
        if self.marker is not None:
            if markers.has_committed(db, self.marker, now):
                yield CommittedWrite(self.answers, self.hints or Hints())
        elif self.signal is not None:
            delivered = find_signal(db, self.signal)
            if delivered is not None:
                yield CommittedWrite([(self.signal.op, delivered[0])], delivered[1])
        else:
            for written in find_committed(db, self.writes):
                yield CommittedWrite([(written.op, written.answer)], written.hints)
