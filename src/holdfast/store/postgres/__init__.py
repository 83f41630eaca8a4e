"""The store on a PostgreSQL database."""

from holdfast.store.postgres.adapter import PostgresDatabase

__all__ = ["PostgresDatabase"]
