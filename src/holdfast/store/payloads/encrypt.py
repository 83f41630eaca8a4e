"""Encrypt a database, and admit single values in clear where the caller allows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import LaneDraining, RunExists
from holdfast.store.clear_values import CLEAR_VALUES, GUARDED
from holdfast.store.database import BatchTransaction, Transaction
from holdfast.store.installation import ENCRYPTION
from holdfast.store.payloads.operations import EncryptStore


def encrypt_store(tx: BatchTransaction, op: EncryptStore) -> bool:
    """Mark the database as encrypted, and make it refuse values in clear.

    Return whether it refuses them: that needs the privilege to create triggers.
    """
    guarded = tx.refuse_clear_values()
    tx.change("save_setting", name=ENCRYPTION, value=GUARDED if guarded else "on")
    return guarded


@contextmanager
def clear_values_accepted(tx: Transaction) -> Iterator[None]:
    """Accept values in clear within this transaction; other transactions do not see the setting."""
    settings = tx.rows("setting", name=ENCRYPTION)
    if not settings or settings[0]["value"] != GUARDED:
        yield
        return
    # A row, because the triggers that refuse values in clear can only read tables.
    tx.change("save_setting", name=CLEAR_VALUES, value="on")
    try:
        yield
    except (LaneDraining, RunExists):  # the caller continues; after other errors it rolls back
        tx.change("delete_setting", name=CLEAR_VALUES)
        raise
    tx.change("delete_setting", name=CLEAR_VALUES)
