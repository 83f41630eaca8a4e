"""Queries about tasks and their leases."""

from __future__ import annotations

from typing import Any

from holdfast.core import typed_json
from holdfast.store.reader import Reader


class TaskQueries:
    """Queries about tasks and their leases."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def next_attempt_end(self) -> int | None:
        """Return when the next attempt exceeds its timeout; None if none can."""
        ends_at: int | None = self._reader.rows("next_attempt_end")[0]["attempt_until"]
        return ends_at

    def claimed(self, session_id: str, key: str) -> list[tuple[str, int]]:
        """Return the leases that a named claim of a remote worker has got: run and generation."""
        claims = self._reader.all(leases_from, "claim_request", session_id=session_id, key=key)
        return [lease for leases in claims for lease in leases]


def leases_from(row: Any) -> list[tuple[str, int]]:
    """Return the leases of a named claim: run and generation."""
    return typed_json.decode(bytes(row["leases"]), list[tuple[str, int]])
