"""Copy, seal and unseal whole databases, whatever codec and keys they were written with."""

from __future__ import annotations

from contextlib import closing

from holdfast.connect.open_store import open_store
from holdfast.core.codec import JsonCodec
from holdfast.errors import CodecMismatch
from holdfast.service.copy import CopyReport, Progress, copy_store
from holdfast.store.runs.copy_operations import UnsealStore
from holdfast.store.store import Store


def copy_database(source: str, target: str, progress: Progress) -> CopyReport:
    """Copy all data of the database *source* to the new or empty database *target*, compare both,
    and seal *source* if they are the same."""
    store, codec = _open_as_it_is(source)
    with closing(store):
        return copy_store(
            store, lambda: open_store(target, half_copied=True, codec=codec), progress
        )


def count_runs(url: str) -> int:
    """Return the number of runs in a database."""
    store, _ = _open_as_it_is(url)
    with closing(store):
        return sum(store.runs.counts().values())


def is_sealed(url: str) -> bool:
    """Return whether a database accepts no writes because its runs continue elsewhere."""
    store, _ = _open_as_it_is(url)
    with closing(store):
        return store.installation.seal() is not None


def unseal_database(url: str) -> str | None:
    """Let a sealed database accept writes again, and return the URL of the database in which its
    runs continue; None if it was not sealed."""
    store, _ = _open_as_it_is(url)
    with closing(store):
        (seal,) = store.apply([UnsealStore()])
    if isinstance(seal, BaseException):
        raise seal
    return None if seal is None else seal.moved_to or seal.copied_from


def _open_as_it_is(url: str) -> tuple[Store, str]:
    """Open a database with the codec that it was written with; return the store and the codec's
    name.

    Stored values are copied without decoding them. The database may be sealed."""
    try:
        return open_store(url, create=False, sealed=True), JsonCodec.name
    except CodecMismatch as error:
        codec = str(error.facts["stored"])
        return open_store(url, create=False, sealed=True, codec=codec), codec
