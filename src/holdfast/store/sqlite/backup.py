"""Copy a SQLite file page by page while other connections write to it."""

from __future__ import annotations

import os
from collections.abc import Callable

from holdfast.store.sqlite.connection import ApswConnection, Connection, StandardConnection
from holdfast.store.sqlite.migrate import MODE

PAGES = 1000
"""Pages that one step copies: about 4 MB."""

AHEAD = 1_000_000
"""By how much the generation of an unfinished run grows: more than the original can hand out."""

_RAISE = f"UPDATE holdfast_run SET generation = generation + {AHEAD} WHERE finished_at IS NULL"

Progress = Callable[[int, int], None]


def copy_pages(
    source: Connection,
    path: str,
    connect: type[StandardConnection] | type[ApswConnection],
    progress: Progress,
) -> None:
    """Copy the database of *source*, as its open transaction sees it, to the new file *path*, which
    only its owner may read, and raise the generations of the copy.

    SQLite begins a copy again if another connection commits meanwhile, unless the source reads in
    an open transaction: then all pages belong to one instant."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, MODE))
    target = connect(path)
    try:
        source.copy_to(target, PAGES, progress)
        sealed = target.rows("SELECT 1 FROM holdfast_setting WHERE name = 'sealed'")
        if not sealed:
            target.change(_RAISE)
    finally:
        target.close()
