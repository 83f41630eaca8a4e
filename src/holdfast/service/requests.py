"""A request: an operation together with the decoder of its answer.

It does no I/O, so the blocking and the asynchronous engine share it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from holdfast.store.database import Operation

Answer_co = TypeVar("Answer_co", covariant=True)


class Request(NamedTuple, Generic[Answer_co]):
    """An operation, and the decoder of its answer."""

    op: Operation
    decode: Callable[[Any], Answer_co]


def identity(answer: Any) -> Any:
    """Return an answer that needs no decoding."""
    return answer
