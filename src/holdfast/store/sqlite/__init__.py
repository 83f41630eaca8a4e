"""The SQLite adapter of the store contract."""

from holdfast.store.sqlite.adapter import SqliteDatabase

__all__ = ["SqliteDatabase"]
