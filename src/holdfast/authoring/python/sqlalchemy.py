"""``sqlalchemy_connection``: SQLAlchemy over the database connection of a transactional step.

``holdfast`` loads this module, and with it SQLAlchemy, only when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from holdfast.authoring.python.step import connection
from holdfast.errors import BadOption

if TYPE_CHECKING:
    import sqlalchemy

_URLS = {"psycopg": "postgresql+psycopg://", "sqlite3": "sqlite://"}
_engines: dict[type, tuple[Any, Any]] = {}
"""By type of connection: the last connection that a step used, and its SQLAlchemy engine."""


@contextmanager
def sqlalchemy_connection() -> Iterator[sqlalchemy.Connection]:
    """Yield a SQLAlchemy connection to the running transactional step.

    A ``Session(connection)`` can be made from it. Its writes are committed together with the record
    of the step. The step can neither commit nor roll back the connection; commit and rollback of a
    session end a savepoint."""
    engine = _cached_engine(connection())
    step_connection = engine.connect()
    step_connection.begin()
    _set_transaction_end(engine.dialect, _refuse)
    try:
        yield step_connection
    finally:
        # Before the close, not after: it rolls back the transaction of SQLAlchemy.
        _set_transaction_end(engine.dialect, _do_nothing)
        step_connection.close()


def _cached_engine(raw: Any) -> Any:
    """Return a SQLAlchemy engine whose only connection is *raw*.

    It is kept for the next step on the same connection, which saves creating an engine per step.
    """
    cached_raw, engine = _engines.get(type(raw), (None, None))
    if cached_raw is not raw:
        engine = _new_engine(raw)
        _engines[type(raw)] = (raw, engine)
    return engine


def _new_engine(raw: Any) -> Any:
    import sqlalchemy
    from sqlalchemy.pool import StaticPool

    url = next(
        (
            _URLS[driver]
            for kind in type(raw).__mro__
            if (driver := kind.__module__.partition(".")[0]) in _URLS
        ),
        None,
    )
    if url is None:
        why = (
            f"SQLAlchemy cannot use a connection of {type(raw).__module__}: open the engine with"
            " driver='sqlite3'"
        )
        raise BadOption(option="sqlalchemy_connection", why=why)
    engine = sqlalchemy.create_engine(url, poolclass=StaticPool, creator=lambda: raw)
    dialect: Any = engine.dialect
    # The connection belongs to the store: SQLAlchemy must not close it.
    dialect.do_close = _do_nothing
    dialect.do_terminate = _do_nothing
    _set_transaction_end(dialect, _do_nothing)
    return engine


def _set_transaction_end(dialect: Any, action: Callable[[object], None]) -> None:
    """Make *action* the way in which the dialect commits and rolls back."""
    dialect.do_commit = action
    dialect.do_rollback = action


def _do_nothing(_: object) -> None:
    """Leave the connection as it is: the store opened it, and ends its transaction."""


def _refuse(_: object) -> NoReturn:
    why = (
        "the step must not begin, commit or roll back: its transaction is committed together with"
        " its record"
    )
    raise BadOption(option="transactional step", why=why)
