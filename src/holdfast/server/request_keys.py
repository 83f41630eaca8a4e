"""The header ``Idempotency-Key``: a repeated request is recognised, and another request under the
same key is refused.

Before a request with a key is carried out, the digest of the request is stored under the key. The
operation itself recognises a repetition, by an id or a key that is derived from the header, so it
does not matter when a process dies: the key belongs to the request, and the request takes effect
once. Operations that only set a state, or that the store refuses the second time, need no more.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import msgspec

from holdfast.core.api_keys import split_login
from holdfast.errors import HoldfastError
from holdfast.server.calls import HttpCall
from holdfast.server.problems import status_of
from holdfast.service.requests import Request, identity
from holdfast.store.request_keys.operations import (
    ClaimedRequestKey,
    ClaimRequestKey,
    ReleaseRequestKey,
)


async def made_once(call: HttpCall, body: bytes) -> Any:
    """Make a call and return its answer. Raises RequestKeyReused if the key of the call belongs to
    another request; a request that is refused gives its key back."""
    if call.key is None or not call.operation.claims_key or call.arguments.get("dry_run"):
        return await call.make()
    claim = ClaimRequestKey(call.key_digest().hex(), _digest_of(call, body))
    calls = call.engine._calls
    claimed: ClaimedRequestKey = await calls.call(
        lambda parts: parts.commit(Request(claim, identity))
    )
    call.first_at = claimed.at
    try:
        return await call.make()
    except HoldfastError as error:
        if claimed.is_new and status_of(type(error)) < 500:
            release = ReleaseRequestKey(claim.id, claim.digest)
            await calls.call(lambda parts: parts.commit(Request(release, identity)))
        raise


def _digest_of(call: HttpCall, body: bytes) -> bytes:
    """Return the digest of the body of a request. The secret of the caller is part of it: the
    database must not reveal what an encrypted value may be."""
    content = b""
    if body:
        content = msgspec.json.encode(msgspec.json.decode(body), order="sorted")
    return hmac.new(_secret_of(call).encode(), content, hashlib.sha256).digest()


def _secret_of(call: HttpCall) -> str:
    """Return the secret with which the caller has identified itself; empty if another program
    vouches for it."""
    header = call.request.headers.get("authorization")
    if header is not None:
        return header.partition(" ")[2].strip()
    for text in call.request.cookies.values():
        login = split_login(text)
        if login is not None and login[0] == call.identity.login_id:
            return login[1]
    return ""
