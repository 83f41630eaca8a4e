"""Turn rows of either driver into values and records; shared by the features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.core.runs import Cell
from holdfast.store.tables import StoredTable


def values_of(row: Any) -> list[Any]:
    """Return the values of a row of either driver."""
    return list(row.values()) if isinstance(row, dict) else list(row)


def cells_by_table(rows: Mapping[StoredTable, Sequence[Any]]) -> dict[str, list[list[Cell]]]:
    """Return the values of the rows by the name of their table; empty tables are left out."""
    return {
        table.name: [cells(table, row) for row in table_rows]
        for table, table_rows in rows.items()
        if table_rows
    }


def cells(table: StoredTable, row: Any) -> list[Cell]:
    """Return the values of a row; memoryviews of the driver become bytes."""
    return [
        bytes(row[name]) if isinstance(row[name], memoryview) else row[name]
        for name in table.columns
    ]
