"""Requests about waits from outside a run: deliver a signal, release a wait, list waits, and return
a wait's token again."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from holdfast.core import duration, typed_json
from holdfast.core.codec import Codec
from holdfast.core.conditions.model import SignalEffect
from holdfast.core.duration import Duration
from holdfast.core.status import Status
from holdfast.core.stored_json import decode_stored
from holdfast.core.text import is_storable
from holdfast.core.tokens import Reveal, SigningKey, Token, current, sign_wait_token, wait_token
from holdfast.core.validation import checked_count, checked_flag, checked_string, checked_text
from holdfast.core.waits import WaitCursor, WaitRecord
from holdfast.errors import BadCursor, BadOption, KeyMissing, TokenRefused, WaitNotFound
from holdfast.service.requests import Request
from holdfast.service.runs import RunService
from holdfast.store.store import Store
from holdfast.store.waits.operations import BEFORE, RELEASABLE, DeliverSignal, ReleaseWait
from holdfast.store.waits.queries import FIRST, cursor_of


class DeliveryReceipt(msgspec.Struct, frozen=True):
    """The receipt of a delivered signal: its number among the signals of the run, and its effect. A
    repeated delivery has the same receipt."""

    signal: int
    effect: SignalEffect


class WaitInfo(msgspec.Struct, kw_only=True):
    """A wait, without its token. A wait with an ``id`` was issued to the outside; a wait without
    one is a condition for which the run's code waits."""

    run_id: str
    step: str
    id: str | None
    name: str
    state: str
    opened_at: int
    until: int | None
    escalated_at: int | None
    closed_at: int | None
    closed_by: str | None
    reason: str | None
    asked_by: str | None
    kid: str | None
    fingerprint: str | None


def deliver(
    client: RunService,
    wait_id: str,
    token: str,
    name: str | None,
    payload: Any,
    *,
    source: str | None,
    key: str | None,
) -> Request[DeliveryReceipt]:
    """Deliver a signal to an issued wait. The answer is DeliveryReceipt. Raises BadOption,
    TokenRefused."""
    if not isinstance(wait_id, str) or not isinstance(token, str):
        raise BadOption(option="token", why="give the id of the wait and its token, both as texts")
    if client.only is not None and not _is_mine(client, wait_id):
        raise TokenRefused()
    op = DeliverSignal(
        wait_id=wait_id,
        token=token,
        name=checked_text("name", name),
        payload=client.codec.encode(payload, label="the payload"),
        key=checked_text("key", key),
        source=checked_text("source", source),
        limit=client.max_signals,
        reveal=client.sealer.secrets.reveal,
    )
    return Request(op, lambda answer: DeliveryReceipt(answer.number, SignalEffect(answer.effect)))


def release(
    store: Store,
    codec: Codec,
    run_id: str,
    step: str | None,
    payload: Any,
    by: str | None,
    delay: Duration | None = None,
) -> Request[str]:
    """Release a wait of a run, or start a delayed run now, or after *delay*. Without *step*, the
    run must have only one wait. The answer is the step, empty for a delayed run. Raises
    WaitNotFound, BadOption, BadDuration."""
    checked_string("step", step)
    released = releasable_step(store, run_id) if step is None else step
    data = codec.encode(payload, label="the payload")
    return Request(
        ReleaseWait(
            run_id=run_id,
            step=released,
            payload=data,
            by=checked_text("by", by),
            delay=0 if delay is None else duration.parse(delay),
        ),
        lambda answer: released,
    )


def releasable_step(store: Store, run_id: str) -> str:
    """Return the step of the only wait of a run that an operator can release; BEFORE for a delayed
    run. Raises WaitNotFound, and BadOption if there are several."""
    steps = [
        wait.step
        for wait in store.waits.find(run_id, limit=10_000)
        if wait.id is None and wait.closed_at is None
    ]
    run = store.runs.get(run_id)
    if run is not None and run.waits is not None:
        waits = decode_stored(run.waits, f"what run {run_id} waits for", list[dict[str, Any]])
        steps += [wait["step"] for wait in waits if wait.get("kind") in RELEASABLE]
    if (
        not steps
        and run is not None
        and run.status is Status.PENDING
        and run.wake_at is not None
        and run.wake_at > store.now()
    ):
        return BEFORE
    if not steps:
        why = (
            "the run has no wait that an operator can release; send the signal to end a plain wait"
            " for a signal"
        )
        raise WaitNotFound(run=run_id, why=why)
    if len(steps) > 1:
        raise BadOption(
            option="step",
            why=f"the run waits for several things; choose one of {', '.join(map(repr, steps))}",
        )
    return steps[0]


def _is_mine(client: RunService, wait_id: str) -> bool:
    wait = client.store.waits.get(wait_id) if is_storable(wait_id) else None
    return wait is not None and client.may_access(wait.run_id)


class WaitPage(NamedTuple):
    """Some waits of a list, and the cursor of the next page; None if there are no more."""

    waits: list[WaitInfo]
    next: str | None


def _cursor(after: object) -> WaitCursor:
    """Return the cursor that a page has returned as text. Raises BadCursor."""
    try:
        if not isinstance(after, str) or not is_storable(after):
            raise ValueError
        data = base64.urlsafe_b64decode(after.encode() + b"=" * (-len(after) % 4))
        cursor = typed_json.decode(data, WaitCursor)
        if not is_storable(cursor.run_id + cursor.step):
            raise ValueError
    except (ValueError, msgspec.MsgspecError):
        raise BadCursor(
            cursor=str(after), why="this text is not the cursor of a list of waits"
        ) from None
    return cursor


def _cursor_text(cursor: WaitCursor) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(cursor)).decode().rstrip("=")


def listed(
    client: RunService, run_id: str | None, *, escalated: bool, after: str | None, limit: int
) -> WaitPage:
    """Return waits, with the id of the key and a fingerprint of the token, never the token. Raises
    BadOption, BadCursor."""
    store = client.store
    escalated = checked_flag("escalated", escalated)
    limit = checked_count("limit", limit)
    place = FIRST if after is None else _cursor(after)
    waits = store.waits.find(
        run_id, escalated=escalated, after=place, limit=limit + 1, namespace=client.only
    )
    following = None
    if len(waits) > limit:
        waits = waits[:limit]
        following = place if not waits else cursor_of(waits[-1], escalated=escalated)
    keys = store.keys.all() if any(wait.id is not None for wait in waits) else []
    now = store.now()
    ended = (
        run_id is not None
        and (run := store.runs.get(run_id)) is not None
        and run.finished_at is not None
    )
    good = {key.kid: key for key in keys if key.is_good(now)}
    reveal = client.sealer.secrets.reveal
    infos = [
        _info(wait, _fingerprint(good.get(wait.kid or ""), wait, reveal), now, ended=ended)
        for wait in waits
    ]
    return WaitPage(infos, None if following is None else _cursor_text(following))


def get(client: RunService, wait_id: str) -> WaitInfo:
    """Return an issued wait by its id, without its token. Raises WaitNotFound."""
    store = client.store
    wait = store.waits.get(wait_id) if isinstance(wait_id, str) and is_storable(wait_id) else None
    if wait is None or not client.may_access(wait.run_id):
        raise WaitNotFound(wait=wait_id)
    now = store.now()
    run = store.runs.get(wait.run_id)
    ended = run is not None and run.finished_at is not None
    good = {key.kid: key for key in store.keys.all() if key.is_good(now)}
    reveal = client.sealer.secrets.reveal
    fingerprint = _fingerprint(good.get(wait.kid or ""), wait, reveal)
    return _info(wait, fingerprint, now, ended=ended)


def _info(wait: WaitRecord, fingerprint: str | None, now: int, *, ended: bool) -> WaitInfo:
    if wait.closed_at is not None or ended:
        state = "closed"
    elif wait.id is not None and wait.until is not None and wait.until <= now:
        state = "expired"
    else:
        state = "open" if wait.escalated_at is None else "escalated"
    return WaitInfo(**msgspec.structs.asdict(wait), state=state, fingerprint=fingerprint)


def _fingerprint(key: SigningKey | None, wait: WaitRecord, reveal: Reveal) -> str | None:
    """Return the fingerprint of the token with which the wait was created; None if its signing key
    is gone, or is encrypted with a key that is not known here."""
    if wait.id is None or key is None:
        return None
    try:
        token = sign_wait_token(key, wait.id, reveal)
    except KeyMissing:
        return None
    return hashlib.sha256(token.encode()).hexdigest()[:16]


def token(client: RunService, wait_id: str, create_key: Callable[[], object]) -> Token:
    """Return the token of a wait again. *create_key* is called if there is no signing key yet, such
    as in a copied database. Raises WaitNotFound."""
    store = client.store
    wait = store.waits.get(wait_id) if isinstance(wait_id, str) and is_storable(wait_id) else None
    if wait is None or wait.id is None or not client.may_access(wait.run_id):
        raise WaitNotFound(wait=wait_id)
    if current(store.keys.all()) is None:
        create_key()
    return wait_token(store.keys.all(), wait.id, client.sealer.secrets.reveal)
