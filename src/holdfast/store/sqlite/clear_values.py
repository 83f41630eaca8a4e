"""The triggers that make an encrypted SQLite file refuse unencrypted values."""

from __future__ import annotations

from holdfast.store.clear_values import CLEAR_VALUES, GUARDS, REFUSAL, TRACEBACK, Guard
from holdfast.store.sqlite.connection import Connection

_REFUSED = "EXISTS (SELECT 1 FROM holdfast_setting WHERE name = 'encryption')"
_ACCEPTED = f"EXISTS (SELECT 1 FROM holdfast_setting WHERE name = '{CLEAR_VALUES}')"
_ALL = (*GUARDS, Guard("large_input", "input"))
"""An input above ``dialect.LARGE`` bytes is in a table of its own; the row of its run has none."""


def refuse_clear_values(db: Connection) -> None:
    """Refuse unencrypted values from now on, in the open transaction."""
    for guard in _ALL:
        name = f"holdfast_clear_{guard.table}_{guard.column}"
        event = f"UPDATE OF {guard.column}" if guard.updates else "INSERT"
        db.change(
            f"CREATE TRIGGER IF NOT EXISTS {name} BEFORE {event} ON holdfast_{guard.table} WHEN"
            f" {_condition(guard)} BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END"
        )


def _condition(guard: Guard) -> str:
    """Return the condition under which a new value is not encrypted and must be."""
    value = f"NEW.{guard.column}"
    parts = [
        f"(substr({value}, 1, 1) <> x'00' OR substr({value}, 1, 2) = x'0000')",
        f"length({value}) > 0",
    ]
    if guard.kinds:
        names = ", ".join(f"'{kind}'" for kind in guard.kinds)
        parts.insert(0, f"NEW.kind IN ({names})")
    if guard.updates:
        parts.append(f"{value} IS NOT OLD.{guard.column}")
    if guard.traced:
        parts.append(f"instr({value}, CAST('{TRACEBACK}' AS BLOB)) > 0")
    return " AND ".join([*parts, _REFUSED, f"NOT {_ACCEPTED}"])
