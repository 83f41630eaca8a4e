"""Verify that every stored payload can be read and matches its digest."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from holdfast.errors import BadData, KeyMissing
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.store import View

PAGE = 100
"""Digests that one query returns."""


class PayloadReport(msgspec.Struct):
    """The result of a check: the number of payloads, a message for each damaged one, and the number
    of payloads that could not be opened, by the id of the key that is not known here."""

    payloads: int = 0
    damaged: list[str] = []
    unreadable: dict[str, int] = {}


def digests(store: View) -> Iterator[tuple[bytes, int]]:
    """Yield the digest of every payload, in order, with the bytes that the payload occupies."""
    after = b""
    while page := store.payloads.page(after, PAGE):
        yield from page
        after = page[-1][0]


def check_payloads(
    store: View, sealer: PayloadSealer, progress: Callable[[int], None] | None = None
) -> PayloadReport:
    """Open every payload in turn and report the damaged and the unreadable ones.

    *progress* is called with 1 after each payload."""
    report = PayloadReport()
    for digest, _ in digests(store):
        payload = store.payloads.get(digest)
        if payload is None:
            continue  # deleted with its run since the digests were read
        report.payloads += 1
        try:
            sealer.values.content(payload, f"payload {digest.hex()}")
        except KeyMissing:
            report.unreadable[payload.key] = report.unreadable.get(payload.key, 0) + 1
        except BadData as error:
            report.damaged.append(str(error))
        if progress is not None:
            progress(1)
    return report
