"""What can be asked about leases."""

from __future__ import annotations

from holdfast.store.reading.asking import Queries


class LeaseQueries(Queries):
    """What can be asked about leases."""

    def next_attempt_end(self) -> int | None:
        found: int | None = self._rows("next_attempt_end")[0]["attempt_until"]
        return found
