"""Values of odd types: each call must refuse them by name, or work with them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from holdfast import workflow


class Odd:
    """Nothing that could be stored."""

    def __repr__(self) -> str:
        return "Odd()"


class Vague:
    """Answers neither what it is, nor whether it is true or the same as something else: as arrays
    of numpy do."""

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise ValueError("no repr")

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")


class Word(str):
    """A text of a class of its own, as that of numpy."""


EAST, WEST = timezone(timedelta(hours=23)), timezone(timedelta(hours=-23))

ODD: tuple[Any, ...] = (
    None,
    b"bytes",
    float("nan"),
    float("inf"),
    1.5,
    2**70,
    -(2**70),
    -1,
    0,
    True,
    [1],
    {"a": 1},
    {1: 2},
    (),
    {7},
    Odd(),
    "\ud800",
    "a\0b",
    "",
    "x" * 100_000,
    datetime(2030, 1, 1),
    len,
    [None],
    ["\ud800"],
    {"a": Odd()},
    Vague(),
    [Vague()],
    Word("word"),
    [[]],
    10**5000,
    {"a": 10**5000},
    datetime.max.replace(tzinfo=WEST),
    datetime.min.replace(tzinfo=EAST),
    datetime.max,
    datetime.min,
    [datetime.max.replace(tzinfo=WEST)],
    Decimal("sNaN"),
    timedelta.max,
)


@workflow(name="odd_plain")
async def plain(n: Any = 1) -> Any:
    return n
