"""Views of API keys and login sessions. Digests are never part of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.core.api_keys import ApiKey, Credential, Grant, Login
from holdfast.views.values import instant, optional_instant


class ApiKeyView(msgspec.Struct, kw_only=True):
    """An API key without its secret. ``namespace`` is None if it is good for all; ``state`` is
    "active", "expired" or "revoked"."""

    id: str
    name: str
    roles: list[str]
    gate_roles: list[str]
    namespace: str | None
    values: bool
    state: str
    created_at: datetime
    created_by: str | None
    expires_at: datetime | None
    used_at: datetime | None
    revoked_at: datetime | None


class NewApiKeyView(ApiKeyView, kw_only=True):
    """A new API key with its text, which is shown this once and not stored."""

    api_key: str

    def __repr__(self) -> str:
        return f"<new API key {self.id}>"


class LoginView(msgspec.Struct, kw_only=True):
    """A login session of a browser."""

    id: str
    name: str
    roles: list[str]
    namespace: str | None
    created_at: datetime
    expires_at: datetime


class CallerView(msgspec.Struct, kw_only=True):
    """The caller of the server: the name under which its actions are recorded, and its rights."""

    name: str
    roles: list[str]
    rights: list[str]
    namespace: str | None
    gate_roles: list[str]
    values: bool


def of(key: ApiKey, now: int) -> ApiKeyView:
    """Return the view of an API key as of *now*."""
    return ApiKeyView(**_fields(key, now))


def new_of(key: ApiKey, text: Credential, now: int) -> NewApiKeyView:
    """Return the view of a new API key with its text."""
    return NewApiKeyView(**_fields(key, now), api_key=str(text))


def _fields(key: ApiKey, now: int) -> dict[str, Any]:
    state = "active" if key.is_good(now) else "expired"
    return {
        "id": key.id,
        "name": key.grant.name,
        "roles": [role.value for role in key.grant.roles],
        "gate_roles": list(key.grant.gate_roles),
        "namespace": key.grant.namespace,
        "values": key.grant.sees_values,
        "state": "revoked" if key.revoked_at is not None else state,
        "created_at": instant(key.created_at),
        "created_by": key.created_by,
        "expires_at": optional_instant(key.expires_at),
        "used_at": optional_instant(key.used_at),
        "revoked_at": optional_instant(key.revoked_at),
    }


def login_of(login: Login) -> LoginView:
    """Return the view of a login session."""
    return LoginView(
        id=login.id,
        name=login.grant.name,
        roles=[role.value for role in login.grant.roles],
        namespace=login.grant.namespace,
        created_at=instant(login.created_at),
        expires_at=instant(login.expires_at),
    )


def caller_of(grant: Grant) -> CallerView:
    """Return the view of a caller."""
    return CallerView(
        name=grant.name,
        roles=[role.value for role in grant.roles],
        rights=sorted(right.value for right in grant.rights),
        namespace=grant.namespace,
        gate_roles=list(grant.gate_roles),
        values=grant.sees_values,
    )
