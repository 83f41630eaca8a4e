"""Claim and release the idempotency keys of requests. Old rows are deleted with every new one, so
that the table does not grow."""

from __future__ import annotations

from holdfast.errors import RequestKeyReused
from holdfast.store.database import Row, Transaction
from holdfast.store.request_keys.operations import (
    ClaimedRequestKey,
    ClaimRequestKey,
    ReleaseRequestKey,
)

KEPT = 30 * 86_400_000_000
"""Microseconds for which a key is remembered."""


def claim_request_key(tx: Transaction, op: ClaimRequestKey) -> ClaimedRequestKey:
    """Remember the request of a key. Raises RequestKeyReused."""
    known: list[Row] = []
    # A loop: on PostgreSQL, the row that the insert has met may be released before it is read.
    while not known:
        if tx.change("insert_request_key", id=op.id, digest=op.digest, at=tx.now):
            # With a new key only, so that a repetition writes nothing.
            tx.change("forget_request_keys", before=tx.now - KEPT)
            return ClaimedRequestKey(tx.now, is_new=True)
        known = tx.rows("request_key", id=op.id)
    if bytes(known[0]["digest"]) != op.digest:
        raise RequestKeyReused()
    return ClaimedRequestKey(known[0]["at"], is_new=False)


def release_request_key(tx: Transaction, op: ReleaseRequestKey) -> bool:
    """Forget a key, if it belongs to that request."""
    return bool(tx.change("release_request_key", id=op.id, digest=op.digest))
