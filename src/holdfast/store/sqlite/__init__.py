"""The SQLite adapter of the store contract."""

from holdfast.store.sqlite.adapter import SqliteStore

__all__ = ["SqliteStore"]
