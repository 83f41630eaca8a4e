"""Answers to operations, kept until the caller of the batch has fetched them.

A batch may be written in several transactions, and may be tried again after the connection was
lost. Its operations that already have an answer are not written again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdfast.errors import BadOption
from holdfast.store.database import Operation

REMEMBERED = 10_000
"""How many answers are kept for callers that got a StoreError and may ask again."""

LOSSES = 5
"""How many lost connections in a row show that the user code of an operation ends them itself."""

_LOSES = (
    f"the connection was lost {LOSSES} times in a row while the step ran: a step must not end its"
    " connection or transaction"
)


class RecordedAnswers:
    """The answers to operations, by the identity of the operation."""

    __slots__ = ("_by_id",)

    def __init__(self) -> None:
        # The operation is kept with its answer, so that no other object gets its id().
        self._by_id: dict[int, tuple[Operation, Any]] = {}

    def missing(self, ops: Sequence[Operation]) -> list[Operation]:
        """Return the operations that have no answer yet."""
        return [op for op in ops if id(op) not in self._by_id]

    def record(self, answers: Sequence[tuple[Operation, Any]]) -> None:
        """Keep answers, and drop the oldest ones beyond the limit."""
        self._by_id.update((id(op), (op, answer)) for op, answer in answers)
        # Answers of batches that failed as a whole are never fetched.
        while len(self._by_id) > REMEMBERED + len(answers):
            del self._by_id[next(iter(self._by_id))]

    def pop(self, op: Operation) -> Any:
        """Remove and return the answer to an operation."""
        return self._by_id.pop(id(op))[1]


class SuspectOperations:
    """The operations whose user code was called before the connection was lost.

    Each is then written in a transaction of its own. An operation that loses the connection LOSSES
    times in a row ends it itself, and is refused.
    """

    __slots__ = ("_losses",)

    def __init__(self) -> None:
        self._losses: Counter[int] = Counter()

    def among(self, ops: Sequence[Operation]) -> list[Operation]:
        """Return the suspects among these operations."""
        return [op for op in ops if id(op) in self._losses] if self._losses else []

    def count_loss(self, ops: Sequence[Operation]) -> list[tuple[Operation, BadOption]]:
        """Count a lost connection against these operations; return the refusals of those at the
        limit."""
        # By identity: the batch keeps its operations alive until `clear`, so no id is used again.
        self._losses.update(id(op) for op in ops)
        return [
            (op, BadOption(option="transactional step", why=_LOSES))
            for op in ops
            if self._losses[id(op)] >= LOSSES
        ]

    def clear(self) -> None:
        """Forget all losses, because the batch has been answered."""
        self._losses.clear()
