"""Refusing values in clear in a database that is encrypted.

An engine without keys that was open before the database became encrypted does not know that it is.
Triggers of the database refuse its values, so it cannot go on, and neither can an older Holdfast.
Each trigger judges the first bytes of the row that is written: a database that is not encrypted
pays nothing for it.

Invariants:
- The triggers exist if the setting ``encryption`` is ``GUARDED``: one transaction writes both. A
  copy is only marked as encrypted; the first engine with keys that opens it adds the triggers.
  Without the setting they refuse nothing.
- Values in clear that are legitimate are written while the setting ``CLEAR_VALUES`` exists, which
  no other transaction ever sees: inputs of runs of schedules, whose arguments are not encrypted,
  and runs from elsewhere that were never encrypted.
- Errors are judged where only an engine writes them. What the store itself says of a run, such as a
  deadline, holds no values.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.event_table import SEALED
from holdfast.core.events import EventKind
from holdfast.errors import CodecMismatch

GUARDED = "guarded"
"""The value of the setting ``encryption`` in a database that refuses values in clear."""

CLEAR_VALUES = "clear_values"
REFUSAL = "this holdfast database is encrypted and refuses a value in clear"
TRACEBACK = '"traceback":"'
"""Part of each error that an engine made of an exception."""


class Guard(NamedTuple):
    """A column whose new values must be encrypted; of events, those of some kinds; of errors, those
    with a traceback."""

    table: str
    column: str
    kinds: tuple[str, ...] = ()
    updates: bool = False
    traced: bool = False


GUARDS = (
    Guard("run", "input"),
    Guard("run", "result", updates=True),
    Guard("event", "data", tuple(sorted(SEALED - {EventKind.WAIT_TIMED_OUT}))),
    Guard(
        "event",
        "error",
        (EventKind.RUN_FAILED, EventKind.STEP_FAILED, EventKind.STEP_RETRIED),
        traced=True,
    ),
    Guard("signal", "payload"),
    Guard("frame", "data"),
    Guard("graph_member", "input"),
)


def refused(text: str, database: str) -> CodecMismatch | None:
    """Return our error for what a database said, if a value in clear is the reason."""
    if REFUSAL not in text:
        return None
    why = (
        "the database was encrypted while it was open here: close this engine, and open it again"
        " with the keys"
    )
    return CodecMismatch(
        database=database, stored="encrypted values", given="values in clear", why=why
    )
