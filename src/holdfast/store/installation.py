"""Queries about the installation: its id, its settings, and the rows that belong to no run."""

from __future__ import annotations

from holdfast.core import typed_json
from holdfast.core.payload import Seal
from holdfast.core.runs import Cell
from holdfast.errors import MigrationDue, RowDamaged, StoreTooNew
from holdfast.store import sql_files
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

    def table_sizes(self) -> dict[str, int]:
        """Return how many bytes each table takes, with its indexes."""
        # Unchecked: the rows are of the database, not of a table of the schema.
        rows = self._reader.fetch(self._reader.query("table_sizes"), {})
        return {str(row["name"]): int(row["bytes"]) for row in rows}

    def is_half_copied(self) -> bool:
        """Return whether a copy into this store has begun and not ended."""
        return bool(self._reader.rows("setting", name=HALF_COPIED))

    def seal(self) -> Seal | None:
        """Return the seal because of which the store refuses writes; None if it is not sealed."""
        rows = self._reader.rows("setting", name=SEALED)
        return typed_json.decode(rows[0]["value"], Seal) if rows else None

    def setting(self, name: str) -> str | None:
        """Return a setting of the installation, or None."""
        rows = self._reader.rows("setting", name=name)
        return rows[0]["value"] if rows else None

    def check_schema(self) -> None:
        """Raise StoreTooNew or MigrationDue if the tables are no longer the ones of this version:
        another process may have migrated or restored the database since it was opened."""
        known = {
            number: name for number, name, _ in sql_files.migrations(self._reader.dialect.name)
        }
        applied = {row["number"] for row in self._reader.rows("applied_migrations")}
        newest = max(known)
        if applied - set(known):
            raise StoreTooNew(schema=max(applied), known=newest)
        missing = sorted(set(known) - applied)
        if missing:
            raise MigrationDue(migration=known[missing[0]])

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
