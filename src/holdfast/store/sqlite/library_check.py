"""Ensure that one process opens a file with one SQLite library only.

Python contains a copy of SQLite, and apsw contains another. Each copy knows only the locks that it
took itself, but the system keeps the locks of a process together and drops all of them when either
copy closes the file. Two copies that have the same file open in one process therefore damage it.
This module refuses to open a file that the other copy has open, and makes ``sqlite3.connect``
refuse files that Holdfast has open with apsw.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from typing import Any

from holdfast.core.text import is_one_of
from holdfast.errors import BadOption
from holdfast.store.sqlite.connection import (
    ApswConnection,
    StandardConnection,
    connection_type,
    safest,
)

WHY = (
    "two SQLite libraries in one process, Python's sqlite3 and apsw, would damage the file: "
    "use the same one for it everywhere, or set HOLDFAST_SQLITE=sqlite3"
)

SAFEST = "safest"
"""Asks for apsw if it is installed and Python's own SQLite is flawed, unless Python's own has the
file open."""

_guard = threading.Lock()
_ours: Counter[tuple[str, str]] = Counter()
_watching = False


def enter(path: str, wanted: str | None) -> type[StandardConnection] | type[ApswConnection]:
    """Return the driver for a file that is about to be opened: the wanted one, or the one with
    which this process has the file open. Raises BadOption."""
    global _watching
    path = os.path.realpath(path)
    with _guard:
        if is_one_of(wanted, (SAFEST,)):
            wanted = None if _is_open_with_another(path, "apsw") else safest()
        if wanted is None and _ours[path, "apsw"]:
            wanted = "apsw"
        chosen = connection_type(wanted)
        if _is_open_with_another(path, chosen.kind):
            raise BadOption(
                option="driver",
                value=chosen.kind,
                why=f"this process has the file open already, and {WHY}",
            )
        _ours[path, chosen.kind] += 1
        # Once, and only with apsw: an audit hook cannot be removed, and is called for every event.
        if chosen is ApswConnection and not _watching:
            _watching = True
            sys.addaudithook(_watch)
    return chosen


def leave(path: str, kind: str) -> None:
    """Record that a file was closed."""
    with _guard:
        _ours[os.path.realpath(path), kind] -= 1


def _is_open_with_another(path: str, kind: str) -> bool:
    if kind == "sqlite3":
        return _ours[path, "apsw"] > 0
    return _ours[path, "sqlite3"] > 0 or (not _ours[path, "apsw"] and _is_open_here(path))


def _is_open_here(path: str) -> bool:
    """Return whether this process has the file open, as far as /proc tells."""
    try:
        wanted = os.stat(path)
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return False
    for number in numbers:
        try:
            present = os.stat(f"/proc/self/fd/{number}")
        except OSError:
            continue
        # Compared by `stat`: opening the file to look, and closing it, would drop its locks.
        if (present.st_dev, present.st_ino) == (wanted.st_dev, wanted.st_ino):
            return True
    return False


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse to open with Python's sqlite3 a file that is open with apsw. Python calls this for
    every audited event, so it must be fast."""
    if event != "sqlite3.connect":
        return
    path = _path_of(arguments[0])
    if path is not None and _ours[os.path.realpath(path), "apsw"] > 0:
        raise BadOption(
            option="sqlite3.connect",
            value=path,
            why=f"Holdfast has this file open with apsw, and {WHY}",
        )


def _path_of(database: Any) -> str | None:
    try:
        text = os.fsdecode(database)
    except TypeError:
        return None
    if not text.startswith("file:"):
        return text
    from urllib.parse import unquote

    return unquote(text[len("file:") :].split("?", 1)[0])
