"""The store on a SQLite file."""

from holdfast.store.sqlite.adapter import SqliteStore

__all__ = ["SqliteStore"]
