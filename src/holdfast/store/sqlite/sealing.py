"""The triggers of a sealed SQLite file."""

from __future__ import annotations

from holdfast.store.sealing import WRITABLE
from holdfast.store.sqlite.connection import Connection

_PREFIX = "holdfast_"
_TABLES = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB 'holdfast_*' ORDER BY name"
)
_TRIGGERS = (
    "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name GLOB 'holdfast_sealed_*'"
)


def seal(db: Connection, text: str) -> None:
    """Refuse each INSERT, UPDATE and DELETE with *text*, in the transaction that is open."""
    words = text.replace("'", "''")
    writable = {_PREFIX + name for name in WRITABLE}
    for row in db.rows(_TABLES):
        table = row["name"]
        if table in writable:
            continue
        for event in ("INSERT", "UPDATE", "DELETE"):
            name = f"holdfast_sealed_{event.lower()}_{table.removeprefix(_PREFIX)}"
            db.change(
                f"CREATE TRIGGER {name} BEFORE {event} ON {table} BEGIN SELECT RAISE(ABORT,"
                f" '{words}'); END"
            )


def unseal(db: Connection) -> None:
    """Remove the triggers."""
    for row in db.rows(_TRIGGERS):
        db.change(f"DROP TRIGGER {row['name']}")
