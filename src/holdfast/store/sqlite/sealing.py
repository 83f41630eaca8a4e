"""The triggers that seal a SQLite file against writes."""

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
    """Refuse each INSERT, UPDATE and DELETE with *text* from the end of the open transaction on."""
    quoted = text.replace("'", "''")
    writable = {_PREFIX + name for name in WRITABLE}
    for row in db.rows(_TABLES):
        table = row["name"]
        if table in writable:
            continue
        for event in ("INSERT", "UPDATE", "DELETE"):
            name = f"holdfast_sealed_{event.lower()}_{table.removeprefix(_PREFIX)}"
            db.change(
                f"CREATE TRIGGER {name} BEFORE {event} ON {table} BEGIN SELECT RAISE(ABORT,"
                f" '{quoted}'); END"
            )


def unseal(db: Connection) -> None:
    """Remove the triggers of the seal."""
    for row in db.rows(_TRIGGERS):
        db.change(f"DROP TRIGGER {row['name']}")
