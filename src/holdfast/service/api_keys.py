"""Requests about API keys, login sessions and one-time links."""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from holdfast.core.api_keys import (
    LINK_LASTS,
    LOGIN_LASTS,
    ApiKey,
    Credential,
    Grant,
    Login,
    api_key_text,
    checked_roles,
    digest_of,
    login_text,
)
from holdfast.core.validation import checked_flag, checked_string, checked_text, checked_words
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import BadOption
from holdfast.service.instants import Moment, stored_instant
from holdfast.service.requests import Request, identity
from holdfast.service.runs import RunService
from holdfast.store.api_keys.operations import AddApiKey, RevokeApiKey
from holdfast.store.logins.operations import AddLogin, TakeLink


def add_api_key(
    client: RunService,
    name: str,
    *,
    roles: str | Iterable[str],
    namespace: str | None,
    gate_roles: str | Iterable[str],
    values: bool,
    expires: Moment | None,
    by: str | None,
) -> Request[tuple[ApiKey, Credential]]:
    """Add an API key. The answer is the key and its text, which is not stored. Raises BadOption,
    NamespaceBound, ApiKeyExists."""
    client.require_unbound("api_keys.add")
    now = client.store.now()
    expires_at = stored_instant(expires, now)
    if expires_at is not None and expires_at <= now:
        raise BadOption(option="expires", value=expires, why="the time must lie ahead")
    grant = Grant(
        name=_name(name),
        roles=checked_roles(roles),
        namespace=checked_text("namespace", namespace),
        gate_roles=tuple(checked_words("gate_roles", gate_roles) or ()),
        sees_values=checked_flag("values", values),
    )
    secret = _secret()
    key = ApiKey(
        id=new_id(),
        digest=digest_of(secret),
        grant=grant,
        created_at=now,
        created_by=checked_text("by", by),
        expires_at=expires_at,
    )
    text = api_key_text(key.id, secret)
    return Request(AddApiKey(key), lambda stored: (stored, text))


def revoke_api_key(client: RunService, name: str) -> Request[ApiKey]:
    """Revoke an API key by its name or id. Raises ApiKeyNotFound, NamespaceBound."""
    client.require_unbound("api_keys.revoke")
    return Request(RevokeApiKey(checked_string("name", name)), identity)


def open_login(grant: Grant, api_key_id: str | None) -> Request[tuple[Login, Credential] | None]:
    """Open a login session. The answer is the session and the text of its cookie; None if its API
    key was revoked meanwhile."""
    login, text = _login(grant, api_key_id, is_link=False)
    return Request(
        AddLogin(login, LOGIN_LASTS), lambda stored: None if stored is None else (stored, text)
    )


def open_link(grant: Grant) -> Request[Credential]:
    """Make a one-time link. The answer is its text."""
    login, text = _login(grant, None, is_link=True)
    return Request(AddLogin(login, LINK_LASTS), lambda stored: text)


def take_link(link: Login) -> Request[tuple[Login, Credential] | None]:
    """Replace a one-time link by a login session. The answer is the session and the text of its
    cookie; None if the link was used meanwhile."""
    session, text = _login(link.grant, link.api_key_id, is_link=False)
    return Request(
        TakeLink(link.id, session, LOGIN_LASTS),
        lambda stored: None if stored is None else (stored, text),
    )


def _login(grant: Grant, api_key_id: str | None, *, is_link: bool) -> tuple[Login, Credential]:
    secret = _secret()
    login = Login(
        id=new_id(),
        digest=digest_of(secret),
        grant=grant,
        is_link=is_link,
        created_at=0,
        expires_at=0,
        api_key_id=api_key_id,
    )
    return login, login_text(login.id, secret)


def _secret() -> str:
    """Return 32 random bytes as text without the separator of credentials."""
    return secrets.token_urlsafe(32).replace("_", "-")


def _name(name: object) -> str:
    if not isinstance(name, str) or not 1 <= len(name) <= 100 or not name.isprintable():
        raise BadOption(
            option="name", value=name, why="the name must be a single line of 1 to 100 characters"
        )
    return name
