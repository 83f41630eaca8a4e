"""A database that is not that of the engine, in a file or in PostgreSQL."""

from __future__ import annotations

from contextlib import closing

import pytest

from holdfast import fencing
from tests.engine.databases import connect


@pytest.fixture(params=["sqlite", "postgres"])
def outside(request, tmp_path):
    """The URL of a database of the user's own, with the tables of fencing and a table of bills."""
    if request.param == "sqlite":
        url = str(tmp_path / "outside.db")
        prepare(url)
        yield url
        return
    with request.getfixturevalue("postgres_server").lend() as url:
        prepare(url)
        yield url


def prepare(url):
    columns = fencing.COLUMNS.format(table="bill")
    with closing(connect(url)) as db:
        tables = f"{fencing.TABLES} CREATE TABLE bill (id TEXT PRIMARY KEY, amount INTEGER);"
        for statement in f"{tables} {columns}".split(";"):
            if statement.strip():
                db.execute(statement)
        db.commit()
