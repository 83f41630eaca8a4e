"""Views of subscriptions and of the dead letters of webhooks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.core.subscriptions import (
    RUNS,
    DeadLetter,
    EventFilter,
    Subscription,
    cursor_of,
    order_of,
)
from holdfast.views.text import short
from holdfast.views.values import instant, optional_instant, value


class SubscriptionView(msgspec.Struct, kw_only=True):
    """A named reader of events and its position: a cursor that its reader moves, or a webhook.

    ``which`` are the conditions on its events. For a webhook, ``attempts`` counts the failed
    deliveries of the current event, and ``worker`` is the worker that delivers."""

    name: str
    kind: str
    which: dict[str, Any]
    cursor: str
    url: str | None
    worker: str | None
    attempts: int
    attempt_limit: int | None
    next_at: datetime | None
    error: str | None
    created_at: datetime
    moved_at: datetime | None


class DeadLetterView(msgspec.Struct, kw_only=True):
    """An event whose delivery to a webhook has failed too often; ``again`` says that it is queued
    for another delivery."""

    run: str
    seq: int
    attempts: int
    error: str
    at: datetime
    again: bool
    body: Any


def of(
    subscription: Subscription, *, installation: str, worker: str | None = None
) -> SubscriptionView:
    """Return the view of a subscription, without its secret."""
    return SubscriptionView(
        name=subscription.name,
        kind=subscription.kind,
        which=_conditions(subscription.which),
        cursor=cursor_of(subscription.place, order_of(installation, subscription.which.source)),
        url=subscription.url,
        worker=worker,
        attempts=subscription.attempts,
        attempt_limit=subscription.attempt_limit or None,
        next_at=optional_instant(subscription.next_at),
        error=subscription.error,
        created_at=instant(subscription.created_at),
        moved_at=optional_instant(subscription.moved_at),
    )


def _conditions(which: EventFilter) -> dict[str, Any]:
    """Return the conditions that a filter sets, by the names of the options that set them."""
    names = {"workflow": which.workflow, "namespace": which.namespace, "run": which.run_id}
    conditions: dict[str, Any] = {name: text for name, text in names.items() if text is not None}
    if which.kinds is not None:
        conditions["kind"] = list(which.kinds)
    if which.tags:
        conditions["tags"] = which.tags
    if which.with_result:
        conditions["with_result"] = True
    if which.source != RUNS:
        conditions["source"] = which.source
    return conditions


def letter_of(letter: DeadLetter) -> DeadLetterView:
    """Return the view of a dead letter."""
    return DeadLetterView(
        run=letter.run_id,
        seq=letter.seq,
        attempts=letter.attempts,
        error=letter.error,
        at=instant(letter.at),
        again=letter.again,
        body=value(letter.body),
    )


def conditions_line(which: dict[str, Any]) -> str:
    """Return the conditions of a subscription as one line."""
    parts = [
        f"{name}={','.join(text) if isinstance(text, list) else text}"
        for name, text in which.items()
        if name != "tags"
    ]
    parts += [f"{name}={text}" for name, text in which.get("tags", {}).items()]
    return short(" ".join(parts), 60) or "all"
