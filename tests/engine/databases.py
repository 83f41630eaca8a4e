"""Connections of tests to the database of an engine, SQLite or PostgreSQL."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing


def connect(database):
    """Return a connection whose transaction begins with its first statement."""
    if not database.startswith("postgresql:"):
        return sqlite3.connect(database)
    import psycopg

    return psycopg.connect(database)


def execute(database, sql, **values):
    """Execute a statement, commit, and return its rows. Tables are written ``holdfast.run``, values
    ``:name``."""
    of_a_file = not database.startswith("postgresql:")
    sql = sql.replace("holdfast.", "holdfast_") if of_a_file else re.sub(r":(\w+)", r"%(\1)s", sql)
    with closing(connect(database)) as db:
        cursor = db.execute(sql, values)
        rows = cursor.fetchall() if cursor.description else []
        db.commit()
        return rows
