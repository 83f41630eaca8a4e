"""Refuse unencrypted values in an encrypted database.

An engine without keys that was opened before the database was encrypted does not know that it is.
Triggers of the database refuse its values, so it cannot continue, and neither can an older version
of Holdfast. Each trigger checks the first bytes of the row that is written: an unencrypted database
pays nothing for it.

Invariants:
- The triggers exist if the setting ``encryption`` is ``GUARDED``: one transaction writes both. A
  copy is only marked as encrypted; the first engine with keys that opens it adds the triggers.
  Without the setting they refuse nothing.
- Legitimate unencrypted values are written while the setting ``CLEAR_VALUES`` exists, which no
  other transaction ever sees: inputs of scheduled runs, whose arguments are not encrypted, and runs
  of another store that were never encrypted.
- Errors are checked only where an engine writes them. Errors that the store itself writes, such as
  a missed deadline, contain no user values.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.event_table import SEALED
from holdfast.core.events import EventKind
from holdfast.errors import CodecMismatch

GUARDED = "guarded"
"""The value of the setting ``encryption`` in a database that refuses unencrypted values."""

CLEAR_VALUES = "clear_values"
"""The setting that lets the transaction that writes it store unencrypted values."""
REFUSAL = "this holdfast database is encrypted and refuses a value in clear"
TRACEBACK = '"traceback":"'
"""A part of each error that an engine made from an exception."""


class Guard(NamedTuple):
    """A column whose new values must be encrypted. ``kinds`` restricts it to events of these kinds,
    ``traced`` to errors with a traceback; ``updates`` checks updates instead of inserts."""

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
    Guard("operation", "payload"),
    Guard("message", "payload"),
)


def refused(text: str, database: str) -> CodecMismatch | None:
    """Return CodecMismatch if *text*, the message of a driver's error, comes from a guard; else
    None."""
    if REFUSAL not in text:
        return None
    why = (
        "the database was encrypted while it was open here: close this engine and open it again"
        " with the keys"
    )
    return CodecMismatch(
        database=database, stored="encrypted values", given="values in clear", why=why
    )
