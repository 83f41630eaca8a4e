"""Queries about bulk operations."""

from __future__ import annotations

import msgspec

from holdfast.core import typed_json
from holdfast.core.operations import (
    BulkArguments,
    BulkVerb,
    OperationPart,
    OperationRecord,
    OperationStatus,
)
from holdfast.store.database import Row
from holdfast.store.reader import Reader
from holdfast.store.rows import as_dict


class OperationQueries:
    """Queries about bulk operations."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def get(self, operation_id: str) -> OperationRecord | None:
        """Return the operation, or None."""
        return self._reader.first(operation_from, "operation", operation_id=operation_id)

    def find(
        self,
        namespace: str | None,
        *,
        status: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[OperationRecord]:
        """Return operations from new to old. The page begins after ``before``, the id of the last
        operation of the previous page."""
        return self._reader.listed(
            operation_from,
            "operations",
            namespace=namespace,
            status=status,
            before=before,
            limit=max(limit, 0),
        )

    def due(self, now: int, limit: int = 10) -> list[str]:
        """Return the ids of operations that any worker may continue, the longest due ones first."""
        return self._reader.listed(
            lambda row: str(row["id"]), "due_operations", now=now, limit=limit
        )

    def part(self, operation_id: str, number: int) -> OperationPart | None:
        """Return a part of an operation, or None."""
        return self._reader.first(
            part_from, "operation_part", operation_id=operation_id, number=number
        )

    def parts(self, operation_id: str, after: int, limit: int) -> list[OperationPart]:
        """Return the next parts of an operation above the number *after*."""
        return self._reader.all(
            part_from, "operation_parts", operation_id=operation_id, after=after, limit=limit
        )

    def to_seal(self, after: str, limit: int) -> list[tuple[str, bytes]]:
        """Return the next unfinished operations above the id *after* that have a payload, with the
        payload as stored."""
        return [
            (row["id"], bytes(row["payload"]))
            for row in self._reader.rows("operations_to_seal", after=after, limit=limit)
        ]


def operation_from(row: Row) -> OperationRecord:
    """Return the operation of a row."""
    values = as_dict(row)
    values["verb"] = BulkVerb(values["verb"])
    values["status"] = OperationStatus(values["status"])
    values["arguments"] = typed_json.decode(bytes(values["arguments"]), BulkArguments)
    values["filters"] = msgspec.json.decode(bytes(values["filters"]))
    if values["payload"] is not None:
        values["payload"] = bytes(values["payload"])
    return OperationRecord(**values)


def part_from(row: Row) -> OperationPart:
    """Return the part of a row."""
    return OperationPart(
        operation_id=row["operation_id"],
        number=row["number"],
        chosen=typed_json.decode(bytes(row["chosen"]), list[str]),
        done=typed_json.decode(bytes(row["done"]), list[str]),
        begun=typed_json.decode(bytes(row["begun"]), list[str]),
        refused=typed_json.decode(bytes(row["refused"]), dict[str, str]),
    )
