"""The connection that user code gets: a real one of psycopg, which does everything but end the transaction it is in."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import psycopg
from psycopg import pq
from psycopg.rows import tuple_row

from holdfast.errors import BadOption

T = TypeVar("T")

_WORDS = re.compile(
    r"""[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "[^"]*" | --[^\n]* | /\*.*?\*/ | \$(\w*)\$.*?\$\1\$
        | (?P<word>\w+) | (?P<end>;)""",
    re.VERBOSE | re.DOTALL,
)
_ENDING = frozenset({"abort", "begin", "commit", "end", "rollback", "start"})


class GuardedCursor(psycopg.Cursor[Any]):
    """A cursor that refuses, while user code is called, to begin or to end a transaction."""

    def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        _check(self.connection, query)
        return super().execute(query, *arguments, **options)

    def executemany(self, query: Any, *arguments: Any, **options: Any) -> None:
        _check(self.connection, query)
        super().executemany(query, *arguments, **options)

    def stream(self, query: Any, *arguments: Any, **options: Any) -> Any:
        _check(self.connection, query)
        return super().stream(query, *arguments, **options)


class GuardedConnection(psycopg.Connection[Any]):
    """A connection that refuses, while user code is called, to end the transaction or itself."""

    guarded = False
    cursor_factory = GuardedCursor

    def commit(self) -> None:
        self._unless_guarded(super().commit)

    def rollback(self) -> None:
        self._unless_guarded(super().rollback)

    def close(self) -> None:
        self._unless_guarded(super().close)

    def _unless_guarded(self, do: Callable[[], None]) -> None:
        if self.guarded:
            refuse()
        do()

    def call(self, body: Callable[[Any], T]) -> T:
        """Call *body* with this connection as it would be if it were new; whatever is set on it meanwhile is set back."""
        rows, cursors = self.row_factory, self.cursor_factory
        self.row_factory, self.cursor_factory, self.guarded = tuple_row, GuardedCursor, True
        try:
            result = body(self)
        finally:
            self.row_factory, self.cursor_factory, self.guarded = rows, cursors, False
        if self.info.transaction_status != pq.TransactionStatus.INTRANS and not self.closed:
            why = "an error of the database was passed over in it, and after that its transaction cannot go on"
            raise BadOption(option="transactional step", why=why)
        return result


def _check(connection: Any, query: Any) -> None:
    if getattr(connection, "guarded", False) and ends_transaction(_text(query, connection)):
        refuse()


def _text(query: Any, connection: Any) -> str:
    if isinstance(query, bytes):
        return query.decode(errors="replace")
    return query if isinstance(query, str) else str(query.as_string(connection))


def ends_transaction(sql: str) -> bool:
    """Say whether any of the statements in *sql* would begin or end a transaction. Savepoints are all right."""
    words: list[str] = []
    for found in _WORDS.finditer(sql + ";"):
        if found["word"]:
            words.append(found["word"].lower())
        elif found["end"]:
            if _is_ending(words):
                return True
            words = []
    return False


def _is_ending(words: list[str]) -> bool:
    if not words or words[0] not in _ENDING:
        return words[:2] == ["prepare", "transaction"]
    return not (words[0] == "rollback" and "to" in words[1:3])


def refuse() -> NoReturn:
    """Raise what user code gets that wants to end the transaction."""
    why = "it must not begin, commit or roll back: that is done for it, together with its record"
    raise BadOption(option="transactional step", why=why)
