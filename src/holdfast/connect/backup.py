"""Back up a SQLite database while it is in use.

The copy shows one instant: it is read in one transaction, while other processes go on writing. It
gets its final name only when it is complete, checked and on disk, so that a backup that is
interrupted leaves no file of that name.

Invariant: no run continues in both databases. The copy is sealed until an operator unseals it. Its
sessions are ended, and the generation of its unfinished runs is raised: a lease, and a fence of
another system, that belongs to the original is worth nothing in the copy.
"""

from __future__ import annotations

import errno
import glob
import os
from contextlib import closing, suppress
from typing import Any

import msgspec

from holdfast.connect.open_store import file_of, open_store
from holdfast.core.payload import Seal
from holdfast.core.redaction import redacted
from holdfast.core.validation import checked_call, checked_flag
from holdfast.errors import BadOption, StoreFull, StoreReadOnly, StoreUnavailable
from holdfast.errors.base import safe_repr
from holdfast.store.database import CheckProgress, Operation
from holdfast.store.runs.copy_operations import SealStore
from holdfast.store.runs.operations import EndSession
from holdfast.store.sqlite import SqliteDatabase
from holdfast.store.sqlite.liveness import is_gone
from holdfast.store.store import Store

POSTGRES_ADVICE = (
    "a PostgreSQL database is backed up by its own tools: pg_dump --schema=holdfast; the guide"
    " 'Operating' tells how to restore it"
)


class BackupReport(msgspec.Struct):
    """A finished backup: its file, its size, the number of its runs, and a message for each damaged
    row and each violated invariant, which the original has too."""

    path: str
    bytes: int
    runs: int
    broken: list[str]


def back_up(
    store: Store,
    path: str | os.PathLike[str],
    *,
    codec: str,
    overwrite: bool = False,
    progress: CheckProgress | None = None,
) -> BackupReport:
    """Copy the database of *store* to the file *path*. *progress* is called with the number of
    pages copied, and of all pages. Raises BadOption, StoreUnavailable,
    StoreReadOnly, StoreFull."""
    checked_flag("overwrite", overwrite)
    checked_call("progress", progress)
    database = store.database
    if not isinstance(database, SqliteDatabase):
        raise BadOption(option="backup", why=POSTGRES_ADVICE)
    target = _checked_target(path, database.path, overwrite=overwrite)
    _remove_leftovers(target)
    part = f"{target}.{os.getpid()}.part"
    try:
        database.back_up(part, progress or (lambda done, total: None))
        report = _prepare(part, store, codec)
        _publish(part, target, overwrite=overwrite)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise StoreFull(path=target) from error
        raise StoreReadOnly(path=target, reason=error.strerror or str(error)) from error
    finally:
        _remove(part)
    report.path = target
    report.bytes = os.path.getsize(target)
    return report


def _checked_target(path: str | os.PathLike[str], source: str, *, overwrite: bool) -> str:
    if not isinstance(path, str | os.PathLike):
        raise BadOption(option="path", value=safe_repr(path), why="name a file")
    name = file_of(path)
    if name is None:
        raise BadOption(option="path", value=redacted(os.fspath(path)), why="name a file")
    target = os.path.abspath(name)
    if os.path.realpath(target) == os.path.realpath(source):
        raise BadOption(option="path", value=target, why="this is the database itself")
    if os.path.isdir(target):
        raise BadOption(option="path", value=target, why="it is a folder: name a file in it")
    if os.path.exists(target) and not overwrite:
        raise BadOption(option="path", value=target, why="the file exists: name another one")
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise StoreUnavailable(path=target, why=f"there is no folder {folder}")
    return target


def _prepare(part: str, store: Store, codec: str) -> BackupReport:
    """End the sessions of the copy, seal it and check it."""
    driver = str(store.info()["driver"])
    with closing(open_store(part, create=False, sealed=True, codec=codec, driver=driver)) as copy:
        if copy.installation.seal() is None:
            for session in copy.sessions.all():
                session_id: str | None = session.id
                while session_id is not None:  # many runs are freed in several transactions
                    session_id = _do(copy, EndSession(session_id, crashed=False)).rest
            seal = Seal(at=copy.now(), copied_from=redacted(store.url))
            _do(copy, SealStore(seal, lambda: True))
        return BackupReport(part, 0, sum(copy.runs.counts().values()), copy.check())


def _do(store: Store, op: Operation) -> Any:
    answer = store.apply([op])[0]
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _publish(part: str, target: str, *, overwrite: bool) -> None:
    """Give the copy its name once it is on disk."""
    _sync(part)
    if overwrite:
        os.replace(part, target)
    else:
        try:
            _rename_to_new(part, target)
        except FileExistsError as error:
            raise BadOption(option="path", value=target, why="the file exists now") from error
    _sync(os.path.dirname(target))


def _rename_to_new(part: str, target: str) -> None:
    """Rename a file. Raises FileExistsError if another process has created the target meanwhile."""
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: the new name is reserved first
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        os.replace(part, target)
    else:
        os.unlink(part)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_leftovers(target: str) -> None:
    """Delete what backups that were killed have left."""
    for path in glob.glob(f"{glob.escape(target)}.*.part"):
        process = path.removesuffix(".part").rpartition(".")[2]
        if process.isdigit() and is_gone(int(process)):
            _remove(path)


def _remove(part: str) -> None:
    for suffix in ("", "-journal", "-wal", "-shm", "-sessions"):
        with suppress(OSError):  # what stays is deleted by the next backup
            os.unlink(part + suffix)
