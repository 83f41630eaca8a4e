"""Sign and verify tokens (HMAC-SHA256), and rotate their signing keys.

A token is ``kid.body.mac``: the name of its key, its claims as base64url of JSON, and the MAC of
both. The body names the purpose, so that a token for one purpose is not accepted for another. Pure:
the caller supplies the secret of a new key.
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
SHORTEST_SECRET = 16
"""The minimum length of a secret, in bytes."""
LONGEST_SECRET = 256
"""The maximum length of a secret, in bytes."""

LONGEST_GRACE = duration.parse("3650d")
LONGEST_TOKEN = 16_384
"""The maximum length of a token, in characters; longer texts are refused unread."""

_UNKNOWN_KEY_SECRET = b"a secret for tokens that name an unknown key"


class SigningKey(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A stored key that signs tokens. An engine that encrypts seals its ``secret``, and a
    ``Reveal`` opens it.

    The current key has no ``expires_at``; a replaced key stays valid until then."""

    kid: str
    secret: bytes
    created_at: int
    expires_at: int | None = None

    @property
    def current(self) -> bool:
        """Whether new tokens are signed with this key."""
        return self.expires_at is None

    def is_good(self, now: int) -> bool:
        """Return whether tokens that this key signed are accepted at *now*."""
        return self.expires_at is None or self.expires_at >= now

    def __repr__(self) -> str:
        return f"<key {self.kid}>"


Reveal = Callable[[SigningKey], bytes]
"""Return the secret of a stored key in clear. Raises KeyMissing if it is encrypted with an unknown
key."""


def in_clear(key: SigningKey) -> bytes:
    """Return the secret of a key that is stored without encryption."""
    return key.secret


class Token(str):
    """A signed text that authorizes its bearer. Its repr hides it, so that it does not leak into a
    log."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<token {self.split('.', 1)[0]}.***>"


class Rotation(msgspec.Struct):
    """The result of a rotation: the key to add, if it is new, and the names of the expired keys."""

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
    """Return a token with *claims* for one purpose, valid until the instant *until* if that is
    given. Raises KeyMissing."""
    body = _text(msgspec.json.encode({"for": purpose, "until": until, **claims}))
    return Token(f"{key.kid}.{body}.{_text(_mac(reveal(key), key.kid, body))}")


def check(
    token: str, purpose: str, keys: Iterable[SigningKey], *, now: int, reveal: Reveal = in_clear
) -> dict[str, Any]:
    """Return the claims of a token.

    Raises:
        TokenRefused  the token was not signed for this purpose with a valid key; the error does not
                      tell the reason
        TokenExpired  the token is authentic, but it has expired
        KeyMissing    the signing key is encrypted with an unknown key
    """
    kid, body, mac = _parts(token)
    key = next((key for key in keys if key.kid == kid and key.is_good(now)), None)
    # also for an unknown key: the check must take as long as for a wrong signature
    expected_mac = _mac(_UNKNOWN_KEY_SECRET if key is None else reveal(key), kid, body)
    if not hmac.compare_digest(expected_mac, mac) or key is None:
        raise TokenRefused()
    claims: dict[str, Any] = msgspec.json.decode(_bytes(body))
    if claims.pop("for", None) != purpose:
        raise TokenRefused()
    until = claims.pop("until", None)
    if until is not None and until < now:
        raise TokenExpired(purpose=purpose)
    return claims


def current(keys: Iterable[SigningKey]) -> SigningKey | None:
    """Return the key that signs new tokens; None if there is none yet."""
    return next((key for key in keys if key.current), None)


def rotate(
    keys: Iterable[SigningKey], kid: str, secret: bytes, *, now: int, reveal: Reveal = in_clear
) -> Rotation:
    """Decide how the keys change when *kid* becomes the current key. Repeating a rotation changes
    nothing.

    Raises KeyExists if a key of that name has another secret, KeyMissing if that secret cannot be
    decrypted."""
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
    """Return the name of a key. Raises BadOption."""
    if not isinstance(kid, str) or not re.fullmatch(KID, kid):
        raise BadOption(
            option="kid", value=kid, why="it must consist of 1 to 64 letters, digits, - and _"
        )
    return kid


def checked_secret(secret: object) -> bytes:
    """Return a secret. Raises BadOption, without the secret, if its length is not allowed."""
    if not isinstance(secret, bytes) or not SHORTEST_SECRET <= len(secret) <= LONGEST_SECRET:
        raise BadOption(
            option="secret", why=f"it must have {SHORTEST_SECRET} to {LONGEST_SECRET} bytes"
        )
    return secret


def checked_grace(grace: Duration) -> int:
    """Return the microseconds for which a replaced key stays valid. Raises BadOption."""
    micros = duration.parse(grace)
    if not 0 <= micros <= LONGEST_GRACE:
        raise BadOption(
            option="grace", value=grace, why=f"it must be at most {duration.show(LONGEST_GRACE)}"
        )
    return micros


def _mac(secret: bytes, kid: str, body: str) -> bytes:
    return hmac.new(secret, f"holdfast\0{kid}\0{body}".encode(), hashlib.sha256).digest()


def _parts(token: object) -> tuple[str, str, bytes]:
    """Return the three parts of a token. Raises TokenRefused, as for a wrong signature."""
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
    """Return a token of a wait, signed with the current key: a replaced key expires with its grace
    period, and its tokens with it.

    Raises KeyMissing, and RowDamaged if there is no current key: the wait was issued, so there must
    have been one."""
    key = tokens.current(keys)
    if key is None:
        raise RowDamaged(
            table="key", key="current", column="expires_at", why="there is no current key"
        )
    return sign_wait_token(key, wait_id, reveal)


def sign_wait_token(key: tokens.SigningKey, wait_id: str, reveal: tokens.Reveal) -> tokens.Token:
    """Return the token of a wait, signed with this key. Raises KeyMissing."""
    return tokens.sign(key, WAIT_TOKEN, {"wait": wait_id}, reveal=reveal)


WAIT_TOKEN = "wait"
"""The purpose of the tokens of issued waits."""
