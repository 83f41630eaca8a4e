"""SQLAlchemy in a transactional step: its own connection and sessions over the connection that the
step was lent.

Nothing here is imported by those who do not use it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from holdfast.authoring.python.step import connection
from holdfast.errors import BadOption

if TYPE_CHECKING:
    import sqlalchemy

_URLS = {"psycopg": "postgresql+psycopg://", "sqlite3": "sqlite://"}
_engines: dict[type, tuple[Any, Any]] = {}
"""For each kind of connection the last one that was lent, and SQLAlchemy over it."""


@contextmanager
def sqlalchemy_connection() -> Iterator[sqlalchemy.Connection]:
    """Lend the running transactional step a connection of SQLAlchemy, which a
    ``Session(connection)`` can be made from.

    What is written on it commits with the record of the step. It cannot be committed nor rolled
    back; a session that is, ends a savepoint."""
    engine = _engine(connection())
    lent = engine.connect()
    lent.begin()
    engine.dialect.do_commit = engine.dialect.do_rollback = _refuse
    try:
        yield lent
    finally:
        engine.dialect.do_commit = engine.dialect.do_rollback = _nothing
        lent.close()


def _engine(raw: Any) -> Any:
    """Return an engine of SQLAlchemy that has this one connection; the next step that is lent it
    finds the engine ready."""
    known, engine = _engines.get(type(raw), (None, None))
    if known is not raw:
        engine = _new_engine(raw)
        _engines[type(raw)] = (raw, engine)
    return engine


def _new_engine(raw: Any) -> Any:
    import sqlalchemy
    from sqlalchemy.pool import StaticPool

    url = next(
        (
            _URLS[name]
            for kind in type(raw).__mro__
            if (name := kind.__module__.partition(".")[0]) in _URLS
        ),
        None,
    )
    if url is None:
        why = (
            f"there is no SQLAlchemy over {type(raw).__module__}: open the engine with"
            " driver='sqlite3'"
        )
        raise BadOption(option="sqlalchemy_connection", why=why)
    engine = sqlalchemy.create_engine(url, poolclass=StaticPool, creator=lambda: raw)
    dialect: Any = engine.dialect
    dialect.do_close = dialect.do_terminate = dialect.do_commit = dialect.do_rollback = _nothing
    return engine


def _nothing(_: object) -> None:
    """The connection was there before, and stays."""


def _refuse(_: object) -> NoReturn:
    why = "it must not begin, commit or roll back: that is done for it, together with its record"
    raise BadOption(option="transactional step", why=why)
