"""The store on a PostgreSQL database."""

from holdfast.store.postgres.adapter import PostgresStore

__all__ = ["PostgresStore"]
