"""From a URL to a store: the only place that names a concrete store."""

from __future__ import annotations

import os
from typing import Any

from holdfast.errors import BadOption, BadUrl, StoreHalfCopied
from holdfast.store.clock import Clock
from holdfast.store.contract import Store

POSTGRES = ("postgresql", "postgres", "postgresql+psycopg")


def open_store(url: str | os.PathLike[str], *, half_copied: bool = False, **options: Any) -> Store:
    """Open the store that *url* names: a path, sqlite:///path, or postgresql://... One that was only half copied is refused,
    unless it is to be copied into again."""
    store = _open(url, **options)
    try:
        if not half_copied and store.is_half_copied():
            raise StoreHalfCopied(database=store.url)
    except BaseException:
        store.close()
        raise
    return store


def _open(url: str | os.PathLike[str], *, clock: Clock | None = None, codec: str = "json", **options: Any) -> Store:
    text = os.fspath(url)
    if not isinstance(text, str) or not text:
        raise BadUrl(url=text)
    path = file_of(text)
    if path is not None:
        from holdfast.store.sqlite import SqliteStore

        return SqliteStore(path, clock=clock, codec=codec, **options)
    if _scheme(text) not in POSTGRES:
        raise BadUrl(url=_harmless(text))
    try:
        from holdfast.store.postgres import PostgresStore
    except ImportError as error:
        why = f"its driver is not installed: pip install 'holdfast[postgres]' ({error})"
        raise BadUrl(url=_harmless(text), why=why) from error
    if "driver" in options:
        raise BadOption(option="driver", why="it is for files: PostgreSQL is reached through psycopg")
    return PostgresStore(text, clock=clock, codec=codec, **options)


def missing_rights(url: str | os.PathLike[str]) -> list[str]:
    """Return the SQL statements that an administrator must execute before this role can work with that database."""
    text = os.fspath(url)
    if file_of(text) is not None or _scheme(text) not in POSTGRES:
        return []
    try:
        from holdfast.store.postgres import rights
    except ImportError:
        return []  # whoever opens it is told
    return rights.missing(text)


def _harmless(url: str) -> str:
    """Return what of a URL that we do not understand can hold no password."""
    return url.split("@")[-1].split("?")[0]


def file_of(url: str | os.PathLike[str]) -> str | None:
    """Return the path of the file that *url* names; None when it names no file."""
    text = os.fspath(url)
    return _sqlite_path(text) if _scheme(text) in ("", "sqlite") else None


def _scheme(text: str) -> str:
    return text.split("://", 1)[0].lower() if "://" in text else ""


def _sqlite_path(text: str) -> str:
    path = text
    if "://" in text:
        from urllib.parse import unquote

        rest = text.split("://", 1)[1]
        path = unquote(rest[1:] if rest.startswith("/") else rest)
    if not path or path == ":memory:":
        raise BadUrl(url=text, why="a durable engine needs a file")
    return os.path.expanduser(path)
