"""Queries about the installation: its id, its settings, and the rows that belong to no run."""

from __future__ import annotations

import msgspec

from holdfast.core.payload import Seal
from holdfast.core.runs import Cell
from holdfast.errors import RowDamaged
from holdfast.store.reader import Reader
from holdfast.store.rows import cells_by_table
from holdfast.store.soundness import whole
from holdfast.store.tables import STANDING

ENCRYPTION = "encryption"
"""The setting of a database that is encrypted."""


HALF_COPIED = "half_copied"
"""The setting of a database into which a copy has begun and not ended."""


SEALED = "sealed"
"""The setting of a database that refuses all writes."""


class InstallationQueries:
    """Queries about the installation."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader
        self._id: str = ""

    def rows(self) -> dict[str, list[list[Cell]]]:
        """Return the rows of all tables that belong to the installation, by table; empty tables are
        left out."""
        rows_by_table = {
            table: whole(table.table, self._reader.rows(f"all_{table.name}")) for table in STANDING
        }
        return cells_by_table(rows_by_table)

    def is_half_copied(self) -> bool:
        """Return whether a copy into this store has begun and not ended."""
        return bool(self._reader.rows("setting", name=HALF_COPIED))

    def seal(self) -> Seal | None:
        """Return the seal because of which the store refuses writes; None if it is not sealed."""
        rows = self._reader.rows("setting", name=SEALED)
        return msgspec.json.decode(rows[0]["value"], type=Seal) if rows else None

    def setting(self, name: str) -> str | None:
        """Return a setting of the installation, or None."""
        rows = self._reader.rows("setting", name=name)
        return rows[0]["value"] if rows else None

    def id(self) -> str:
        """Return the id of this installation, which its cursors contain."""
        # Cached: it does not change while the database is open.
        if not self._id:
            rows = self._reader.rows("setting", name="installation")
            if not rows:
                raise RowDamaged(
                    table="setting", key="installation", column="name", why="the row is missing"
                )
            self._id = str(rows[0]["value"])
        return self._id
