"""``engine.webhooks``: the subscriptions that deliver events over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.connect.async_calls import AsyncCalls
from holdfast.connect.components import Components
from holdfast.connect.subscription_reads import subscriptions_of
from holdfast.core.subscriptions import WEBHOOK
from holdfast.core.unset import UNSET, without_unset
from holdfast.errors import SubscriptionNotFound
from holdfast.service.requests import Request
from holdfast.service.subscriptions import checked_name
from holdfast.views import subscriptions as views
from holdfast.views.subscriptions import DeadLetterView, SubscriptionView


class AsyncWebhooks:
    """The webhooks of an ``AsyncEngine``."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls: AsyncCalls = calls

    async def set(
        self,
        name: str,
        url: str | None = None,
        *,
        secret: str | None = None,
        after: str | None = None,
        attempts: int | None = None,
        workflow: str | None = UNSET,
        namespace: str | None = UNSET,
        run: str | None = UNSET,
        kind: str | Sequence[str] | None = UNSET,
        tags: Mapping[str, str] | None = UNSET,
        with_result: bool = UNSET,
        source: str = UNSET,
        by: str | None = None,
    ) -> str:
        """Create a webhook, which delivers events to *url*, or change the webhook of that name, and
        return the secret that signs the deliveries. Settings of an existing webhook that are not
        passed stay as they are.

        Workers deliver the events one after another, each at least once. An event becomes a dead
        letter after *attempts* failed attempts. A new webhook starts now or at the cursor *after*;
        an existing one keeps its position. The filters are those of ``engine.events.read``; with
        *with_result*, the event ``run_completed`` is delivered with the result of its run. With
        *by*, the person or program that asks, the change is recorded in ``engine.audit``. Raises
        SubscriptionExists, also for another *source*, and SubscriptionNotFound if a new webhook has
        no URL.
        """
        filters = without_unset(
            {
                "workflow": workflow,
                "namespace": namespace,
                "run": run,
                "kind": kind,
                "tags": tags,
                "with_result": with_result,
                "source": source,
            }
        )

        def make_request(parts: Components) -> Request[str]:
            service = parts.subscriptions
            request = service.set_webhook(name, url, secret, after, attempts, filters)
            return parts.audit.record(request, by, "webhooks.set", name, url=url)

        return await self._calls.commit(make_request)

    async def get(self, name: str) -> SubscriptionView:
        """Return a webhook, without its secret. Raises SubscriptionNotFound."""
        checked = checked_name(name)
        for webhook in await self.list():
            if webhook.name == checked:
                return webhook
        raise SubscriptionNotFound(subscription=name)

    async def list(self) -> list[SubscriptionView]:
        """Return all webhooks, with their positions and without their secrets."""
        subscriptions = await self._calls.call(subscriptions_of)
        return [stored for stored in subscriptions if stored.kind == WEBHOOK]

    async def remove(self, name: str, *, by: str | None = None) -> None:
        """Delete a webhook, with its dead letters. Raises SubscriptionNotFound."""
        await self._calls.commit(
            lambda parts: parts.audit.record(
                parts.subscriptions.remove(name), by, "webhooks.remove", name
            )
        )

    async def dead_letters(self, name: str) -> Sequence[DeadLetterView]:
        """Return the dead letters of a webhook, the events that it could not deliver, oldest first.
        Raises SubscriptionNotFound."""
        letters = await self._calls.call(lambda parts: parts.subscriptions.letters(name))
        return [views.letter_of(letter) for letter in letters]

    async def redeliver(self, name: str, *, by: str | None = None) -> int:
        """Deliver the dead letters of a webhook again, and return their number. Raises
        SubscriptionNotFound."""
        return await self._calls.commit(
            lambda parts: parts.audit.record(
                parts.subscriptions.replay(name), by, "webhooks.redeliver", name
            )
        )
