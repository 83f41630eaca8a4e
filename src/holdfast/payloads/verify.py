"""Looking through all payloads: is each what its digest says, and can it be read?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from holdfast.errors import BadData, KeyMissing
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.contract import RunReads

PAGE = 100


class PayloadReport(msgspec.Struct):
    """What was found: how many payloads there are, which are damaged, in words, and how many could
    not be looked into because their key is not known here, by its id."""

    payloads: int = 0
    damaged: list[str] = []
    unreadable: dict[str, int] = {}


def digests(store: RunReads) -> Iterator[tuple[bytes, int]]:
    """Yield the digests of all payloads, in order, and how many bytes each takes."""
    after = b""
    while page := store.next_payloads(after, PAGE):
        yield from page
        after = page[-1][0]


def check_payloads(
    store: RunReads, sealer: PayloadSealer, progress: Callable[[int], None] | None = None
) -> PayloadReport:
    """Open every payload, one after another."""
    found = PayloadReport()
    for digest, _ in digests(store):
        payload = store.payload(digest)
        if payload is None:
            continue  # it went with its run meanwhile
        found.payloads += 1
        try:
            sealer.values.content(payload, f"payload {digest.hex()}")
        except KeyMissing:
            found.unreadable[payload.key] = found.unreadable.get(payload.key, 0) + 1
        except BadData as error:
            found.damaged.append(str(error))
        if progress is not None:
            progress(1)
    return found
