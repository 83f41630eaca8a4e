"""Queries about leases."""

from __future__ import annotations

from holdfast.store.reader import Queries


class LeaseQueries(Queries):
    """Queries about leases."""

    def next_attempt_end(self) -> int | None:
        ends_at: int | None = self._rows("next_attempt_end")[0]["attempt_until"]
        return ends_at
