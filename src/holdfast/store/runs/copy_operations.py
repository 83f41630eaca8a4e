"""Operations that write runs of another store: import, copy, and sealing a store against writes.

An import adds single runs to a store in use; a copy fills an empty store with the whole content of
another one, which is sealed at the end so that no process goes on writing to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

import msgspec

from holdfast.core.definitions import StoredDefinition
from holdfast.core.events import Event
from holdfast.core.payload import Payload, Seal
from holdfast.core.runs import Cell, RunRecord, RunSnapshot
from holdfast.core.sessions import Lane
from holdfast.core.waits import Signal
from holdfast.store.database import Operation

STAGE_TTL = 600_000_000
"""Microseconds after the last write until a stage is discarded: its writer has died."""


class StageEvents(Operation):
    """Write the next events of a stage: a history that no reader sees until ImportRun copies it to
    a run. Events that the stage already has are not written again.

    Answers:
        None
    Raises:
        StageGone  the stage was discarded
    """

    may_refuse_late: ClassVar[bool] = True

    stage_id: str
    events: Sequence[Event]


class StagedEvents(msgspec.Struct):
    """The first events of a history, which earlier transactions have staged: their number, and the
    digests of their payloads."""

    stage_id: str
    count: int
    digests: Collection[bytes] = ()


class ImportRun(Operation):
    """Write a run and its history as they were in another store. A run that had a holder there is
    claimable here.

    Answers:
        None
    Raises:
        RunExists    the id or key is in use
        RunNotFound  a payload does not exist any more
        StageGone    the staged events are not complete
    """

    may_refuse_late: ClassVar[bool] = True

    run: RunRecord
    tags: dict[str, str]
    events: Sequence[Event]
    signals: Sequence[Signal] = ()
    below: dict[str, list[list[Cell]]] = msgspec.field(default_factory=dict)
    payloads: Sequence[Payload] = ()
    touched: bool = False
    """Whether something reached the run in the other store that its holder had not seen when it
    parked the run: then the run is woken here."""
    staged: StagedEvents | None = None
    """The events before ``events``, if all of them are too many for one transaction."""
    definitions: Sequence[StoredDefinition] = ()
    """The definitions that the run keeps."""


class BeginCopy(Operation):
    """Prepare the store for the whole content of another store.

    Delete the rows of an unfinished copy, replace the lanes and the rows that belong to the
    installation, and mark the store as half-copied until EndCopy.

    Answers:
        None
    Raises:
        StoreNotEmpty  the store has runs and is not half-copied
        StoreInUse     a session is open
    """

    lanes: Sequence[Lane]
    standing: dict[str, list[list[Cell]]] = msgspec.field(default_factory=dict)
    copy_id: str = ""
    """The id of this copy in the seal of the source."""


class BeginImport(Operation):
    """Prepare an empty store for some runs of another store: mark it as half-copied until EndCopy.

    Answers:
        None
    Raises:
        StoreNotEmpty  the store has runs
        StoreInUse     a session is open
    """


class CopyRuns(Operation):
    """Write runs as they are in another store, with all rows that belong to them.

    Answers:
        None
    Raises:
        RunExists  one of the runs exists
    """

    may_refuse_late: ClassVar[bool] = True

    runs: Sequence[RunSnapshot]


class EndCopy(Operation):
    """Remove the mark of a half-copied store; with a ``seal``, refuse all further writes.

    Answers:
        None
    """

    seal: Seal | None = None


class SealStore(Operation):
    """Refuse all further writes, of every process, if ``check`` returns true. While ``check`` runs,
    no other transaction can write, and all can read.

    Answers:
        bool  what ``check`` returned
    """

    may_refuse_late: ClassVar[bool] = True

    seal: Seal
    check: Callable[[], bool]


class UnsealStore(Operation):
    """Accept writes again.

    Answers:
        Seal  the seal that was removed
        None  the store was not sealed
    """

    may_refuse_late: ClassVar[bool] = True
