"""Encrypting a database, and what may be written to it in clear all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.errors import RunExists
from holdfast.store.clear_values import CLEAR_VALUES, GUARDED
from holdfast.store.contract.payloads import ENCRYPTION, EncryptStore
from holdfast.store.transitions.transaction import Transaction


def encrypt_store(tx: Transaction, op: EncryptStore) -> bool:
    """Note that the database is encrypted, and let it refuse values in clear, if this role may
    create triggers."""
    guarded = tx.refuse_clear_values()
    tx.change("save_setting", name=ENCRYPTION, value=GUARDED if guarded else "on")
    return guarded


@contextmanager
def clear_values_accepted(tx: Transaction) -> Iterator[None]:
    """Accept values in clear in this transaction. No other one sees the setting that says so."""
    found = tx.rows("setting", name=ENCRYPTION)
    if not found or found[0]["value"] != GUARDED:
        yield
        return
    tx.change("save_setting", name=CLEAR_VALUES, value="on")
    try:
        yield
    except RunExists:  # the transaction goes on; after all other errors it is rolled back
        tx.change("delete_setting", name=CLEAR_VALUES)
        raise
    tx.change("delete_setting", name=CLEAR_VALUES)
