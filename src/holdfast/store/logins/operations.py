"""Operations on login sessions and one-time links."""

from __future__ import annotations

from typing import ClassVar

from holdfast.core.api_keys import Login
from holdfast.store.database import Operation


class AddLogin(Operation):
    """Store a login session or a one-time link, and delete expired ones.

    Answers:
        Login  with its times
        None   the API key of the session was revoked: nothing was written
    """

    login: Login
    lasts: int
    """Microseconds for which it is valid."""


class TakeLink(Operation):
    """Replace a one-time link by a login session with the same grant.

    Answers:
        Login  the session
        None   there is no such link, or it has expired: nothing was written
    """

    may_refuse_late: ClassVar[bool] = False

    link_id: str
    session: Login
    """The new session; its grant is taken from the link."""
    lasts: int


class EndLogin(Operation):
    """Delete a login session or a one-time link.

    Answers:
        bool  whether there was one
    """

    id: str
