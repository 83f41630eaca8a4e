"""Queries about login sessions."""

from __future__ import annotations

from holdfast.core.api_keys import Login
from holdfast.store.logins.apply import login_from
from holdfast.store.reader import Reader


class LoginQueries:
    """Queries about login sessions and one-time links."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def get(self, login_id: str) -> Login | None:
        """Return a login session or a one-time link that has not expired; None if there is none."""
        return self._reader.first(login_from, "login", id=login_id, now=self._reader.now())

    def sessions(self) -> list[Login]:
        """Return all login sessions that have not expired, newest first."""
        return self._reader.listed(login_from, "logins", now=self._reader.now())
