"""The store on a SQLite file."""

from holdfast.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
