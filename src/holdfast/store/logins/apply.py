"""Add and end login sessions. Expired rows are deleted with every new one, so that the table does
not grow."""

from __future__ import annotations

import msgspec

from holdfast.core.api_keys import Login
from holdfast.store.api_keys.apply import grant_cells, grant_from
from holdfast.store.database import Row, Transaction
from holdfast.store.logins.operations import AddLogin, EndLogin, TakeLink


def add_login(tx: Transaction, op: AddLogin) -> Login | None:
    """Store a login session or a one-time link, unless its API key was revoked."""
    api_key_id = op.login.api_key_id
    # Again: the key was checked in an earlier transaction, and may be revoked since.
    if api_key_id is not None and not tx.rows("usable_api_key", id=api_key_id):
        return None
    login = msgspec.structs.replace(op.login, created_at=tx.now, expires_at=tx.now + op.lasts)
    tx.change("delete_expired_logins", now=tx.now)
    _insert(tx, login)
    return login


def take_link(tx: Transaction, op: TakeLink) -> Login | None:
    """Replace a one-time link by a login session."""
    rows = tx.rows("login", id=op.link_id, now=tx.now)
    if not rows or not login_from(rows[0]).is_link:
        return None
    # The delete decides: of two browsers with the same link, one gets a session.
    link = login_from(rows[0])
    if not tx.change("delete_login", id=link.id):
        return None  # another process has taken it meanwhile
    session = msgspec.structs.replace(
        op.session,
        grant=link.grant,
        api_key_id=link.api_key_id,
        created_at=tx.now,
        expires_at=tx.now + op.lasts,
    )
    tx.change("delete_expired_logins", now=tx.now)
    _insert(tx, session)
    return session


def end_login(tx: Transaction, op: EndLogin) -> bool:
    """Delete a login session or a one-time link."""
    return bool(tx.change("delete_login", id=op.id))


def login_from(row: Row) -> Login:
    """Return the login session of a row."""
    return Login(
        id=row["id"],
        digest=bytes(row["digest"]),
        grant=grant_from(row),
        is_link=bool(row["is_link"]),
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        api_key_id=row["api_key_id"],
    )


def _insert(tx: Transaction, login: Login) -> None:
    tx.change(
        "insert_login",
        id=login.id,
        digest=login.digest,
        is_link=int(login.is_link),
        api_key_id=login.api_key_id,
        created_at=login.created_at,
        expires_at=login.expires_at,
        **grant_cells(login.grant),
    )
