"""The store on a PostgreSQL database."""

from holdfast.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
