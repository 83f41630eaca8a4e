"""Queries about payloads."""

from __future__ import annotations

from holdfast.core.payload import Payload
from holdfast.store.payloads.apply import fetch
from holdfast.store.reader import Reader


class PayloadQueries:
    """Queries about payloads."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def get(self, digest: bytes) -> Payload | None:
        """Return a payload with all its parts, or None."""
        return fetch(self._reader.rows, digest)

    def of_run(self, run_id: str) -> list[bytes]:
        """Return the digests of the payloads to which a run refers."""
        return [bytes(row["digest"]) for row in self._reader.rows("payloads_of_run", run_id=run_id)]

    def page(self, after: bytes, limit: int) -> list[tuple[bytes, int]]:
        """Return the digests of the next payloads above *after*, in order, and the stored bytes of
        each. Empty at the end."""
        return [
            (bytes(row["digest"]), row["stored"])
            for row in self._reader.rows("next_payloads", after=after, limit=limit)
        ]

    def totals(self) -> dict[str, int]:
        """Return how many payloads there are, how many bytes their values have, and how many they
        take."""
        return dict(self._reader.rows("payload_totals")[0])

    def keys_in_use(self) -> dict[str, int]:
        """Return the ids of all keys with which values are encrypted, and the number of values of
        each."""
        return {row["key"]: row["found"] for row in self._reader.rows("keys_in_use")}
