"""Operations on the idempotency keys of requests."""

from __future__ import annotations

import msgspec

from holdfast.store.database import Operation


class ClaimRequestKey(Operation):
    """Remember which request an idempotency key belongs to, and forget keys that are old.

    Answers:
        ClaimedRequestKey
    Raises:
        RequestKeyReused  the key belongs to another request: nothing was written
    """

    id: str
    """The key, together with its caller and its operation."""
    digest: bytes
    """The digest of the request."""


class ClaimedRequestKey(msgspec.Struct):
    """The time of the first request of a key, and whether it is this one."""

    at: int
    is_new: bool


class ReleaseRequestKey(Operation):
    """Forget the key of a request that was refused, so that the corrected request may use it.

    Answers:
        bool  whether the key belonged to that request
    """

    id: str
    digest: bytes
