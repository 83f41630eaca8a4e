"""What a database says no with."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError


class StoreError(HoldfastError):
    """The database refused."""


class StoreBusy(StoreError):
    """Another process kept the write lock of the database for too long: nothing was written, try
    again."""


class StoreFull(StoreError):
    """The disk or database is full: nothing was written; make room and try again."""


class StoreReadOnly(StoreError):
    """The database cannot be written: check the permissions of the file and its folder."""


class StoreCorrupt(StoreError):
    """This file is not a sound database: restore it from a backup."""


class StoreTooNew(StoreError):
    """The database was written by a newer Holdfast: upgrade this one."""


class StoreForeign(StoreError):
    """The tables in this database were changed by something else."""


class StoreUnavailable(StoreError):
    """The database cannot be opened: check that it is there and may be read."""


class StoreGone(StoreError):
    """The files of this database were deleted, moved or replaced while it was open, so nothing that
    is written now would be found later: stop every process that has it open, put the files back or
    restore a backup, and open it again."""


class StoreInUse(StoreError):
    """Somebody works on this database: stop that worker, then try again."""


class StoreNotEmpty(StoreError):
    """There are runs in this database already: copy into a new one."""


class StoreHalfCopied(StoreError):
    """A copy into this database did not come to its end: repeat `holdfast db copy SOURCE TARGET`,
    which begins by emptying it."""


class StoreSealed(StoreError):
    """This database takes no writes, because its runs continue in another one: work there. To
    continue them here instead, see to it that they do not continue there, and use `holdfast db
    unseal`."""


class BadUrl(StoreError):
    """This is no database that Holdfast knows: use a path, sqlite:///path or
    postgresql://host/name."""


class CodecMismatch(StoreError):
    """The data in this database was written with another codec: open it with that one."""


class BadData(StoreError):
    """Stored data cannot be read."""


class RowDamaged(HoldfastError):
    """A row of the database holds what Holdfast cannot read; other rows are not affected. Repair
    it, or restore it from a backup: `holdfast db check` lists all such rows."""

    place: dict[str, object]
    """The columns that the row is known by."""

    def __init__(self, *, place: dict[str, object] | None = None, **facts: object) -> None:
        super().__init__(**facts)
        self.place = place or {}
