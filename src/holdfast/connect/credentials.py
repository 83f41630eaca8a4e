"""Check the credentials that a request to the server carries: API keys, cookies, one-time links.

Every function blocks; the server calls them in a thread.
"""

from __future__ import annotations

from holdfast.connect.components import Components
from holdfast.core.api_keys import (
    NOTE_USE_EVERY,
    ApiKey,
    Credential,
    Grant,
    Login,
    is_secret_of,
    split_api_key,
    split_login,
)
from holdfast.service import api_keys
from holdfast.service.requests import Request, identity
from holdfast.store.api_keys.operations import NoteApiKeyUse
from holdfast.store.logins.operations import EndLogin


def api_key(parts: Components, text: str) -> ApiKey | None:
    """Return the API key of a text; None if it is unknown, wrong, expired or revoked. Its use is
    recorded at most once a minute."""
    pair = split_api_key(text)
    if pair is None:
        return None
    key_id, secret = pair
    stored = parts.store.api_keys.get(key_id)
    now = parts.store.now()
    if not is_secret_of(stored, secret) or stored is None or not stored.is_good(now):
        return None
    if stored.used_at is None or now - stored.used_at > NOTE_USE_EVERY:
        parts.commit(Request(NoteApiKeyUse(stored.id), identity))
    return stored


def login(parts: Components, text: str) -> Login | None:
    """Return the login session of a cookie; None if there is none. It ends with its API key."""
    stored = _login(parts, text)
    if stored is None or stored.is_link:
        return None
    if stored.api_key_id is not None:
        key = parts.store.api_keys.get(stored.api_key_id)
        if key is None or not key.is_good(parts.store.now()):
            return None
    return stored


def take_link(parts: Components, text: str) -> tuple[Login, Credential] | None:
    """Replace a one-time link by a login session; None if it was used before or has expired."""
    link = _login(parts, text)
    if link is None or not link.is_link:
        return None
    return parts.commit(api_keys.take_link(link))


def open_login(
    parts: Components, grant: Grant, api_key_id: str | None = None
) -> tuple[Login, Credential] | None:
    """Open a login session, and return it with the text of its cookie; None if its API key was
    revoked meanwhile."""
    return parts.commit(api_keys.open_login(grant, api_key_id))


def open_link(parts: Components, grant: Grant) -> Credential:
    """Return the text of a new one-time link."""
    return parts.commit(api_keys.open_link(grant))


def end_login(parts: Components, login_id: str, by: str | None = None) -> bool:
    """End a login session. Return whether there was one. *by* is the person that ends the session
    of another."""
    request = Request(EndLogin(login_id), bool)
    return parts.commit(parts.audit.record(request, by, "logins.end", login_id))


def _login(parts: Components, text: str) -> Login | None:
    pair = split_login(text)
    if pair is None:
        return None
    login_id, secret = pair
    stored = parts.store.logins.get(login_id)
    if not is_secret_of(stored, secret):
        return None
    return stored
