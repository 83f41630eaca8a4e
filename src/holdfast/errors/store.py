"""What a database says no with."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError


class StoreError(HoldfastError):
    """The database refused."""


class StoreBusy(StoreError):
    """Another process kept the write lock of the database for too long: nothing was written, try again."""


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


class StoreInUse(StoreError):
    """Somebody works on this database: stop that worker, then try again."""


class StoreNotEmpty(StoreError):
    """There are runs in this database already: copy into a new one."""


class StoreHalfCopied(StoreError):
    """A copy into this database did not come to its end: repeat `holdfast db copy SOURCE TARGET`, which begins by emptying it."""


class BadUrl(StoreError):
    """This is no database that Holdfast knows: use a path, sqlite:///path or postgresql://host/name."""


class CodecMismatch(StoreError):
    """The data in this database was written with another codec: open it with that one."""


class BadData(StoreError):
    """Stored data cannot be read."""
