"""API keys and login sessions: the credentials with which programs and people use the server.

An API key is ``hf_<id>_<secret>``; a cookie and a one-time link are ``<id>_<secret>``. Only the
SHA-256 of a secret is stored: it is random, so it needs no slow hash.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from enum import StrEnum
from functools import cache

import msgspec

from holdfast.core.text import nearest
from holdfast.errors import BadOption

PREFIX = "hf"

_ID = r"[0-9a-z]{8,40}"
_SECRET = r"[A-Za-z0-9-]{20,100}"
_API_KEY = re.compile(rf"{PREFIX}_({_ID})_({_SECRET})")
_LOGIN = re.compile(rf"({_ID})_({_SECRET})")
_UNKNOWN = hashlib.sha256(b"a digest for credentials that name an unknown id").digest()

LOGIN_LASTS = 12 * 3600 * 1_000_000
"""Microseconds for which a login session is valid."""
LINK_LASTS = 300 * 1_000_000
"""Microseconds for which a one-time link is valid."""
NOTE_USE_EVERY = 60 * 1_000_000
"""Microseconds after which the use of an API key is written again."""


class Right(StrEnum):
    """The rights that operations require."""

    VIEW = "view"
    START = "start"
    DECIDE = "decide"
    WORK = "work"
    OPERATE = "operate"
    ADMIN = "admin"


class Role(StrEnum):
    """The roles of an API key: sets of rights."""

    VIEWER = "viewer"
    STARTER = "starter"
    APPROVER = "approver"
    WORKER = "worker"
    OPERATOR = "operator"
    ADMIN = "admin"


RIGHTS: dict[Role, frozenset[Right]] = {
    Role.VIEWER: frozenset({Right.VIEW}),
    Role.STARTER: frozenset({Right.START}),
    Role.APPROVER: frozenset({Right.DECIDE}),
    Role.WORKER: frozenset({Right.WORK}),
    Role.OPERATOR: frozenset({Right.VIEW, Right.START, Right.DECIDE, Right.OPERATE}),
    Role.ADMIN: frozenset(Right),
}
"""The rights of each role. A caller with several roles has the rights of all of them."""


class Grant(msgspec.Struct, frozen=True):
    """What a credential allows: the name under which its actions are recorded, its roles, its
    namespace (None for all), and whether it sees values of users. ``gate_roles`` are the roles of
    the person among the deciders of gates."""

    name: str
    roles: tuple[Role, ...]
    namespace: str | None = None
    gate_roles: tuple[str, ...] = ()
    sees_values: bool = True

    @property
    def rights(self) -> frozenset[Right]:
        """The rights of all roles together."""
        return _rights_of(self.roles)


@cache
def _rights_of(roles: tuple[Role, ...]) -> frozenset[Right]:
    return frozenset[Right]().union(*(RIGHTS[role] for role in roles))


class ApiKey(msgspec.Struct, frozen=True):
    """A stored API key, without its secret."""

    id: str
    digest: bytes
    grant: Grant
    created_at: int
    created_by: str | None = None
    expires_at: int | None = None
    used_at: int | None = None
    revoked_at: int | None = None

    def is_good(self, now: int) -> bool:
        """Return whether the key may be used at *now*."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def __repr__(self) -> str:
        return f"<API key {self.id}>"


class Login(msgspec.Struct, frozen=True):
    """A stored login session, or a one-time link that opens one. It ends with the API key that it
    was opened with, if there is one."""

    id: str
    digest: bytes
    grant: Grant
    is_link: bool
    created_at: int
    expires_at: int
    api_key_id: str | None = None

    def __repr__(self) -> str:
        return f"<login {self.id}>"


class Credential(str):
    """The text of a credential. Its repr hides the secret, so that it does not leak into a log."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<credential {self.rpartition('_')[0]}_***>"


def api_key_text(key_id: str, secret: str) -> Credential:
    """Return the text of an API key."""
    return Credential(f"{PREFIX}_{key_id}_{secret}")


def login_text(login_id: str, secret: str) -> Credential:
    """Return the text of a cookie or a one-time link."""
    return Credential(f"{login_id}_{secret}")


def split_api_key(text: object) -> tuple[str, str] | None:
    """Return the id and the secret of an API key; None if *text* is none."""
    return _split(_API_KEY, text)


def split_login(text: object) -> tuple[str, str] | None:
    """Return the id and the secret of a cookie or a one-time link; None if *text* is none."""
    return _split(_LOGIN, text)


def _split(pattern: re.Pattern[str], text: object) -> tuple[str, str] | None:
    if not isinstance(text, str) or len(text) > 200:
        return None
    match = pattern.fullmatch(text)
    if match is None:
        return None
    return match[1], match[2]


def digest_of(secret: str) -> bytes:
    """Return the digest of a secret, which is what the database keeps."""
    return hashlib.sha256(secret.encode()).digest()


def is_secret_of(stored: ApiKey | Login | None, secret: str) -> bool:
    """Return whether *secret* belongs to a stored credential. None takes as long, so that the time
    does not tell whether an id exists."""
    expected = _UNKNOWN if stored is None else stored.digest
    return hmac.compare_digest(expected, digest_of(secret)) and stored is not None


def checked_roles(roles: str | Iterable[str]) -> tuple[Role, ...]:
    """Return roles in their order of declaration, each once. Raises BadOption."""
    known = [role.value for role in Role]
    names = roles.replace(",", " ").split() if isinstance(roles, str) else roles
    if not isinstance(names, Iterable):
        raise BadOption(option="roles", value=names, known=", ".join(known))
    chosen = list(names)
    for name in chosen:
        if not isinstance(name, str) or name not in known:
            raise BadOption(option="roles", value=name, known=", ".join(known), **_similar(name))
    if not chosen:
        raise BadOption(option="roles", value=chosen, known=", ".join(known))
    return tuple(role for role in Role if role in chosen)


def _similar(name: object) -> dict[str, str]:
    similar = nearest(name, [role.value for role in Role]) if isinstance(name, str) else None
    return {} if similar is None else {"why": f"did you mean {similar}?"}
