"""Create and drop the triggers of a sealed PostgreSQL database."""

from __future__ import annotations

from psycopg import sql

from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.errors import SEALED
from holdfast.store.sealing import WRITABLE

_TABLES = (
    "SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = 'holdfast' ORDER BY tablename"
)


def _tables(db: Connection) -> list[str]:
    return [row["tablename"] for row in db.rows(_TABLES) if row["tablename"] not in WRITABLE]


def lock(db: Connection) -> None:
    """Block all other writers until the open transaction ends."""
    names = ", ".join(f"holdfast.{table}" for table in _tables(db))
    # The mode that CREATE TRIGGER takes, so that no lock is upgraded later, which could deadlock.
    db.script(f"LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE")


def seal(db: Connection, text: str) -> None:
    """Refuse each INSERT, UPDATE, DELETE and TRUNCATE with *text*, in the open transaction."""
    # A literal, because a function body takes no parameters.
    words = sql.Literal(text).as_string(db.raw)
    function = (
        "CREATE OR REPLACE FUNCTION holdfast.refuse_write() RETURNS trigger LANGUAGE plpgsql AS"
        f" $refuse$ BEGIN RAISE EXCEPTION USING ERRCODE = '{SEALED}', MESSAGE = {words}; END"
        " $refuse$"
    )
    triggers = [
        f"CREATE TRIGGER sealed BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON holdfast.{table} "
        "FOR EACH STATEMENT EXECUTE FUNCTION holdfast.refuse_write()"
        for table in _tables(db)
    ]
    db.script("; ".join([function, *triggers]))


def unseal(db: Connection) -> None:
    """Remove the function, and with it the triggers that call it."""
    db.script("DROP FUNCTION IF EXISTS holdfast.refuse_write() CASCADE")
