"""Operations on bulk operations, and the answers to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from holdfast.core.operations import OperationPart, OperationRecord
from holdfast.store.database import Operation


class StartOperation(Operation):
    """Store a bulk operation with the runs that it applies to. One without runs is completed.
    Operations that ended long ago are deleted. If an operation of this id is stored, nothing is
    written.

    Answers:
        OperationRecord  the operation as stored
    """

    record: OperationRecord
    parts: Sequence[OperationPart]
    take_over: int
    """Microseconds after which any worker may carry it out; 0 for at once."""


class DeleteRun(Operation):
    """Delete a finished run with its descendants and everything that belongs to them. Only a
    portion of a bulk operation contains it.

    Raises:
        RunNotFound     there is no run of this id
        RunNotFinished  the run, one of its descendants or its graph has not ended
        RunHasParent    the run is a child
    """

    run_id: str


class BulkAction(msgspec.Struct):
    """What a portion does with a run: it applies an operation, or it records that the run is
    refused; with neither, the run counts as changed."""

    run_id: str
    op: Operation | None = None
    refusal: str | None = None


class CarryOut(Operation, kw_only=True):
    """Carry out a portion of a bulk operation: apply the verb to some runs of its current part, and
    record their outcomes. Nothing is written if the operation has moved on since *revision*, or has
    ended.

    Answers:
        CarriedOut
    Raises:
        OperationNotFound  there is no such bulk operation
        RowDamaged         a row of a run is damaged
        any refusal of a single action, if that can be refused after its first write: then the
        portion must contain only this action
    """

    may_refuse_late: ClassVar[bool] = True

    operation_id: str
    revision: int
    actions: Sequence[BulkAction]


class CarriedOut(msgspec.Struct):
    """The operation after a portion; whether the portion was written, and why some of its runs have
    no outcome yet: they changed meanwhile, or need more transactions."""

    record: OperationRecord
    written: bool
    open: dict[str, str] = {}


class StopOperation(Operation):
    """Stop a bulk operation between two portions. One that has ended stays as it is.

    Answers:
        OperationRecord    the operation afterwards
    Raises:
        OperationNotFound  there is no such bulk operation in the namespace
    """

    operation_id: str
    namespace: str | None = None


class ResealOperation(Operation):
    """Replace the stored payload of a bulk operation, unless it has changed since it was read.

    Answers:
        bool  whether it was replaced
    """

    operation_id: str
    old: bytes
    new: bytes
