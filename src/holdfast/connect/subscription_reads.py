"""Read subscriptions as views, for ``engine.events`` and ``engine.webhooks``."""

from __future__ import annotations

from holdfast.connect.components import Components
from holdfast.views import subscriptions as views
from holdfast.views.subscriptions import SubscriptionView


def subscriptions_of(parts: Components) -> list[SubscriptionView]:
    """Return the subscriptions that an engine may see, each with the worker that delivers it."""
    stored = parts.subscriptions.all()
    workers: dict[str, str] = {}
    if any(subscription.session_id is not None for subscription in stored):
        workers = {session.id: session.worker for session in parts.store.sessions.all()}
    installation = parts.subscriptions.installation
    return [
        views.of(
            subscription,
            installation=installation,
            worker=workers.get(subscription.session_id or ""),
        )
        for subscription in stored
    ]
