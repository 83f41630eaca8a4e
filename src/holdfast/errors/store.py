"""Errors of the database: it refuses a request, cannot be reached, or cannot be used."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError


class StoreError(HoldfastError):
    """The database refused the request."""


class StoreBusy(StoreError):
    """Another process kept the write lock of the database for too long, and nothing was written:
    try again."""


class StoreFull(StoreError):
    """The disk or the database is full, and nothing was written: make room, then try again."""


class StoreReadOnly(StoreError):
    """The database cannot be written: check the permissions of the file and its folder."""


class StoreCorrupt(StoreError):
    """This file is not a sound database: restore it from a backup."""


class StoreTooNew(StoreError):
    """The database was written by a newer Holdfast: upgrade this one."""


class MigrationDue(StoreError):
    """The tables of this database are older than this Holdfast, which migrates a database when it
    opens it: restart this process."""


class StoreForeign(StoreError):
    """Another program has changed the tables of Holdfast in this database: restore them, or use
    another database."""


class StoreUnavailable(StoreError):
    """The database cannot be opened: check that it exists and can be read."""


class StoreGone(StoreError):
    """The files of this database were deleted, moved or replaced while it was open, so that further
    writes would be lost: stop every process that has it open, put the files back or restore a
    backup, and open it again."""


class StoreInUse(StoreError):
    """A worker is using this database: stop that worker, then try again."""


class StoreNotEmpty(StoreError):
    """This database has runs already: copy into a new one."""


class StoreHalfCopied(StoreError):
    """A copy into this database was not finished: repeat `holdfast db copy SOURCE TARGET`, which
    first deletes the incomplete copy."""


class StoreSealed(StoreError):
    """This database accepts no writes, because its runs continue in another one: work there. To
    continue them here instead, make sure that they do not continue there, then use `holdfast db
    unseal`."""


class BadUrl(StoreError):
    """Holdfast does not understand this database URL: use a path, sqlite:///path or
    postgresql://host/name."""


class CodecMismatch(StoreError):
    """The data in this database was written with another codec: open it with that codec."""


class BadData(StoreError):
    """Stored data cannot be decoded: check whether the code or the codec has changed."""


class RowDamaged(HoldfastError):
    """A row of the database cannot be decoded; other rows are not affected. Repair it, or restore
    it from a backup: `holdfast db check` lists all such rows."""

    place: dict[str, object]
    """The columns that identify the row, with their values."""

    def __init__(self, *, place: dict[str, object] | None = None, **facts: object) -> None:
        super().__init__(**facts)
        self.place = place or {}
