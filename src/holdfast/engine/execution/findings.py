"""Findings: outcomes that wait to be fed to the program of a run, ordered by the instant at which
they happened.

A worker may look at a run long after things happened to it: while no worker was up, or while its
process was stopped. By then a timer may be due *and* a signal may have come. Feeding them in the
order in which the worker finds them would let the timer win although the signal came first.

Invariants:
- Findings are taken one by one. What the program drops because of one finding is not found any
  more, so a signal that lost a race stays in the store for the next wait.
- At the same instant a committed fact (a signal, a decision, the end of a child) precedes what the
  clock alone brings about.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

from holdfast.core.events import Event

FACT = 0
"""The rank of a committed fact."""

TIME = 1
"""The rank of something that is due by the clock."""

_numbers = itertools.count()


class Finding(NamedTuple):
    """Something that happened at an instant. Compared by instant, then rank, then the order in
    which it was found."""

    instant: int
    rank: int
    number: int
    take: Callable[[list[Event]], None]
    """Appends the events that it leads to; none, if the program no longer waits for it."""


def finding(instant: int, take: Callable[[list[Event]], None], rank: int = FACT) -> Finding:
    """Return a finding that comes after all earlier ones of the same instant and rank."""
    return Finding(instant, rank, next(_numbers), take)
