"""Create and rotate the keys that sign tokens. A rotated key stays valid for a grace period."""

from __future__ import annotations

from holdfast.core import tokens
from holdfast.core.tokens import SigningKey
from holdfast.store.database import Row, Transaction
from holdfast.store.keys.operations import NeedKey, OfferedKey, ResealKey, RotatedKey, RotateKey


def need_key(tx: Transaction, op: NeedKey) -> SigningKey:
    """Return the signing key, creating it if there is none."""
    return current_key(tx, op.offered)


def current_key(tx: Transaction, offered: OfferedKey) -> SigningKey:
    """Return the signing key. If there is none, the offered key becomes it."""
    key = tokens.current(_keys(tx))
    if key is None:
        _insert(tx, SigningKey(offered.kid, offered.secret, tx.now))
        # Read again: another process may have inserted its key first.
        key = tokens.current(_keys(tx))
    assert key is not None
    return key


def rotate_key(tx: Transaction, op: RotateKey) -> RotatedKey:
    """Make a new key the signing key. Retry if another process inserted the first key meanwhile."""
    while True:
        # Before the read: of two rotations at once, the second one must see the key of the first.
        tx.rows("lock_keys")
        known = _keys(tx)
        plan = tokens.rotate(known, op.key.kid, op.key.secret, now=tx.now, reveal=op.reveal)
        previous = tokens.current(known)
        tx.many("delete_one_key", [{"kid": kid} for kid in plan.dropped])
        if plan.added is None:
            return RotatedKey(
                kid=previous.kid if previous else op.key.kid, changed=False, dropped=plan.dropped
            )
        tx.change("retire_key", expires_at=tx.now + op.grace)
        if _insert(tx, plan.added):
            until = None if previous is None else tx.now + op.grace
            return RotatedKey(
                plan.added.kid, True, previous.kid if previous else None, until, plan.dropped
            )


def reseal_key(tx: Transaction, op: ResealKey) -> bool:
    """Replace the sealed secret of a signing key by the same secret under another seal."""
    return bool(tx.change("reseal_key", kid=op.kid, old=op.old, new=op.new))


def key_from(row: Row) -> SigningKey:
    """Return the signing key of a row."""
    return SigningKey(row["kid"], bytes(row["secret"]), row["created_at"], row["expires_at"])


def _keys(tx: Transaction) -> list[SigningKey]:
    return [key_from(row) for row in tx.rows("keys")]


def _insert(tx: Transaction, key: SigningKey) -> int:
    return tx.change(
        "insert_key",
        kid=key.kid,
        secret=key.secret,
        created_at=key.created_at,
        expires_at=key.expires_at,
    )
