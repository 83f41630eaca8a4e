"""Read the name of a SQLite database: a path, ``sqlite:///path``, ``:memory:``, or a ``file:`` URI
as SQLite reads it.

A database in memory is a file in a private folder that is removed when the database is closed (see
`memory_databases`). SQLite's own databases in memory lock whole tables between connections and have
no WAL, so that an engine on one of them would behave otherwise than on a file.
"""

from __future__ import annotations

import os
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from holdfast.core.redaction import redacted
from holdfast.errors import BadUrl

MEMORY = ":memory:"

_UNSAFE = ("immutable", "nolock", "vfs")
"""Parameters of a URI that take away the locks or the durability of the file."""


class SqliteName(NamedTuple):
    """A SQLite database: a file, or a database in memory."""

    path: str
    """The path of the file; for a database in memory the name under which the engines of this
    process share it, empty if it is not shared."""
    in_memory: bool = False
    create: bool | None = None
    """Whether the URI allows to create the file; None if it does not say."""


def read_sqlite_name(text: str) -> SqliteName:
    """Return the database that *text* names. Raises BadUrl."""
    if text.startswith("file:"):
        return _of_uri(text)
    path = text
    if "://" in text:
        rest = text.split("://", 1)[1]
        path = unquote(rest[1:] if rest.startswith("/") else rest)
    if path == MEMORY:
        return SqliteName("", in_memory=True)
    if not path:
        raise BadUrl(url=redacted(text), why="it names no file; :memory: is a database for tests")
    return SqliteName(os.path.expanduser(path))


def _of_uri(text: str) -> SqliteName:
    address, _, query = text.removeprefix("file:").partition("#")[0].partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in _UNSAFE:
        if options.get(name, "0") not in ("0", "no", "off", "false"):
            raise BadUrl(url=text, why=f"{name} would let several writers damage the file")
    path = unquote(_without_authority(text, address))
    mode = options.get("mode")
    if mode == "memory" or path == MEMORY:
        shared = options.get("cache") == "shared"
        return SqliteName(path if shared else "", in_memory=True)
    if not path:
        raise BadUrl(url=text, why="it names no file; file::memory: is a database for tests")
    if mode == "ro":
        why = "an engine writes to its database: leave mode=ro out; work=False never claims a run"
        raise BadUrl(url=text, why=why)
    if mode not in (None, "rw", "rwc"):
        raise BadUrl(url=text, why=f"there is no mode {mode}: use rw, rwc or memory")
    return SqliteName(path, create={"rw": False, "rwc": True}.get(mode or ""))


def _without_authority(text: str, address: str) -> str:
    """Return the path of a URI; as in SQLite, the only host is this one."""
    if not address.startswith("//"):
        return address
    host, slash, path = address[2:].partition("/")
    if host not in ("", "localhost"):
        raise BadUrl(url=text, why=f"a file: URI names a file of this host, not of {host}")
    return slash + path
