"""User code inside a transaction, and the errors that it raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.errors import (
    CodecMismatch,
    EngineClosed,
    HoldfastError,
    LeaseLost,
    RowDamaged,
    StoreError,
    StoreGone,
    WriteConflict,
)

T = TypeVar("T")

MISTAKABLE = (
    CodecMismatch,
    EngineClosed,
    LeaseLost,
    RowDamaged,
    StoreError,
    StoreGone,
    WriteConflict,
)
"""Errors that mean, outside user code, that the transaction or its holder has failed."""


class CodeRaised(Exception):
    """User code has raised an error such as StoreBusy of another database. Inside this exception it
    does not look like an error of this store, which would repeat the transaction, nor of the
    lease."""

    def __init__(self, error: HoldfastError) -> None:
        super().__init__(str(error))
        self.error: HoldfastError = error


def shielded(code: Callable[[Any], T]) -> Callable[[Any], T]:
    """Return *code*, with the errors that could be mistaken raised as CodeRaised."""

    def call(connection: Any) -> T:
        try:
            return code(connection)
        except MISTAKABLE as error:
            raise CodeRaised(error) from error

    return call
