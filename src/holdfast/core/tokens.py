"""Tokens that prove who made them: what they say is signed with a key, and keys are replaced in
time.

A token is ``kid.body.mac``: the name of its key, what it says as JSON, and the HMAC-SHA256 of both.
The body names the purpose, so that a token made for one thing is worth nothing for another. Pure:
whoever makes a key brings its secret.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core import duration, tokens
from holdfast.core.duration import Duration
from holdfast.errors import BadOption, KeyExists, RowDamaged, TokenExpired, TokenRefused

KID = r"[A-Za-z0-9_-]{1,64}"
SHORTEST_SECRET, LONGEST_SECRET = 16, 256
"""Bytes of a secret."""

LONGEST_GRACE = duration.parse("3650d")
LONGEST_TOKEN = 16_384
"""Characters of what is looked at, at most: whoever sends more sends no token."""

_NOBODY = b"a secret for those who name a key that is not there"


class SigningKey(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A key that signs tokens, as it is stored: an engine that encrypts seals its ``secret``, and a
    ``Reveal`` opens it.

    The current key has no ``expires_at``; one that was replaced is good until then."""

    kid: str
    secret: bytes
    created_at: int
    expires_at: int | None = None

    @property
    def current(self) -> bool:
        """Whether new tokens are signed with it."""
        return self.expires_at is None

    def is_good(self, now: int) -> bool:
        """Say whether tokens that it signed are taken."""
        return self.expires_at is None or self.expires_at >= now

    def __repr__(self) -> str:
        return f"<key {self.kid}>"


Reveal = Callable[[SigningKey], bytes]
"""Returns the secret of a stored key in clear. Raises KeyMissing when it is encrypted with a key
that is not known."""


def in_clear(key: SigningKey) -> bytes:
    """Return the secret of a key that is stored as it is."""
    return key.secret


class Token(str):
    """A signed text, to be handed to whoever may use it. Its repr does not tell it, so that it does
    not end in a log."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<token {self.split('.', 1)[0]}.***>"


class Rotation(msgspec.Struct):
    """What a rotation comes to: the key to be added, if it is new, and the names of those whose
    time is over."""

    added: SigningKey | None
    dropped: list[str]


def sign(
    key: SigningKey,
    purpose: str,
    claims: Mapping[str, Any],
    *,
    until: int | None = None,
    reveal: Reveal = in_clear,
) -> Token:
    """Return a token that says *claims* for one purpose, good until an instant if one is given.
    Raises KeyMissing."""
    body = _text(msgspec.json.encode({"for": purpose, "until": until, **claims}))
    return Token(f"{key.kid}.{body}.{_text(_mac(reveal(key), key.kid, body))}")


def check(
    token: str, purpose: str, keys: Iterable[SigningKey], *, now: int, reveal: Reveal = in_clear
) -> dict[str, Any]:
    """Return what a token says.

    Raises TokenRefused for whatever was not signed for this purpose with a key that is good; it
    never says what was wrong, and takes as long for an unknown key as for a wrong signature. Raises
    TokenExpired for a true one that is too old, KeyMissing when the key that it names is encrypted
    with a key that is not known."""
    kid, body, mac = _parts(token)
    key = next((key for key in keys if key.kid == kid and key.is_good(now)), None)
    right = _mac(_NOBODY if key is None else reveal(key), kid, body)
    if not hmac.compare_digest(right, mac) or key is None:
        raise TokenRefused()
    claims: dict[str, Any] = msgspec.json.decode(_bytes(body))
    if claims.pop("for", None) != purpose:
        raise TokenRefused()
    until = claims.pop("until", None)
    if until is not None and until < now:
        raise TokenExpired(purpose=purpose)
    return claims


def current(keys: Iterable[SigningKey]) -> SigningKey | None:
    """Return the key that signs, if there is one yet."""
    return next((key for key in keys if key.current), None)


def rotate(
    keys: Iterable[SigningKey], kid: str, secret: bytes, *, now: int, reveal: Reveal = in_clear
) -> Rotation:
    """Decide what becomes of the keys when *kid* shall be the current one. The same again changes
    nothing.

    Raises KeyExists when a key of that name has another secret, KeyMissing when that secret cannot
    be read."""
    offered = SigningKey(kid, secret, now)
    known = {key.kid: key for key in keys}
    dropped = sorted(key.kid for key in known.values() if not key.is_good(now))
    same = known.get(kid)
    if same is not None and not hmac.compare_digest(reveal(same), reveal(offered)):
        raise KeyExists(kid=kid)
    if same is not None and kid not in dropped:
        return Rotation(None, dropped)
    return Rotation(offered, dropped)


def checked_kid(kid: object) -> str:
    """Return the name of a key; refuse what is none."""
    if not isinstance(kid, str) or not re.fullmatch(KID, kid):
        raise BadOption(option="kid", value=kid, why="it is 1 to 64 letters, digits, - and _")
    return kid


def checked_secret(secret: object) -> bytes:
    """Return a secret; refuse one that is too short to be one. The message does not tell it."""
    if not isinstance(secret, bytes) or not SHORTEST_SECRET <= len(secret) <= LONGEST_SECRET:
        raise BadOption(option="secret", why=f"it is {SHORTEST_SECRET} to {LONGEST_SECRET} bytes")
    return secret


def checked_grace(grace: Duration) -> int:
    """Return for how long a replaced key stays good; refuse what is too long to be meant."""
    found = duration.parse(grace)
    if not 0 <= found <= LONGEST_GRACE:
        raise BadOption(
            option="grace", value=grace, why=f"it is at most {duration.show(LONGEST_GRACE)}"
        )
    return found


def _mac(secret: bytes, kid: str, body: str) -> bytes:
    return hmac.new(secret, f"holdfast\0{kid}\0{body}".encode(), hashlib.sha256).digest()


def _parts(token: object) -> tuple[str, str, bytes]:
    """Return the three parts of a token; whatever has none is refused like any other."""
    if (
        not isinstance(token, str)
        or len(token) > LONGEST_TOKEN
        or not token.isascii()
        or token.count(".") != 2
    ):
        raise TokenRefused()
    kid, body, mac = token.split(".")
    try:
        return kid, body, _bytes(mac)
    except (NotBase64, ValueError):
        raise TokenRefused() from None


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def wait_token(
    keys: Sequence[tokens.SigningKey], wait_id: str, reveal: tokens.Reveal
) -> tokens.Token:
    """Return a token of a wait. It is signed with the current key: an older one ends with its
    grace, and the token with it. Raises KeyMissing, and RowDamaged when there is no current key: a
    wait was handed out, so there was one."""
    key = tokens.current(keys)
    if key is None:
        raise RowDamaged(
            table="key", key="current", column="expires_at", why="no key is the current one"
        )
    return sign_wait_token(key, wait_id, reveal)


def sign_wait_token(key: tokens.SigningKey, wait_id: str, reveal: tokens.Reveal) -> tokens.Token:
    """Return the token of a wait that is signed with this key. Raises KeyMissing."""
    return tokens.sign(key, WAIT_TOKEN, {"wait": wait_id}, reveal=reveal)


WAIT_TOKEN = "wait"
"""The purpose of the tokens that waits are handed out with."""
