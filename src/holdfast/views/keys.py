"""Views of signing keys. Secrets are never part of them."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.core.tokens import SigningKey
from holdfast.store.keys.operations import RotatedKey
from holdfast.views.values import instant, optional_instant


class KeyView(msgspec.Struct, kw_only=True):
    """A key that signs tokens, or has signed tokens that are still valid."""

    kid: str
    current: bool
    created_at: datetime
    expires_at: datetime | None


class KeyRotationView(msgspec.Struct, kw_only=True):
    """The key that signs now, whether this rotation made it the current one, the previous key and
    until when it is valid, and the ids of the deleted keys."""

    kid: str
    changed: bool
    previous: str | None
    good_until: datetime | None
    dropped: list[str]


def of(key: SigningKey) -> KeyView:
    """Return the view of a signing key."""
    return KeyView(
        kid=key.kid,
        current=key.current,
        created_at=instant(key.created_at),
        expires_at=optional_instant(key.expires_at),
    )


def rotation_of(rotation: RotatedKey) -> KeyRotationView:
    """Return the view of a rotation."""
    return KeyRotationView(
        kid=rotation.kid,
        changed=rotation.changed,
        previous=rotation.previous,
        good_until=optional_instant(rotation.good_until),
        dropped=rotation.dropped,
    )
