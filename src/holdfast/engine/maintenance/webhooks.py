"""Deliver events to webhooks, one worker per webhook, one event after another.

An event is delivered again until it arrives or becomes a dead letter. The outcome is recorded
before the next event is tried, so that another worker can take over at that point.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import msgspec

from holdfast.core.envelope import is_sealed
from holdfast.core.events import Event, EventKind
from holdfast.core.status import Status
from holdfast.core.subscriptions import (
    WEBHOOK,
    DeadLetter,
    RunEvent,
    Subscription,
    pause_after,
    place_of,
)
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.runtime.notifier import CommitNotifier, Committed
from holdfast.engine.runtime.settings import WorkerSettings
from holdfast.engine.runtime.thread_pool import ThreadPool
from holdfast.engine.runtime.timer_queue import TimerQueue
from holdfast.errors import (
    BadData,
    EngineClosed,
    KeyMissing,
    LeaseLost,
    StoreError,
    SubscriptionNotFound,
)
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.store import Store
from holdfast.store.subscriptions.operations import ClaimWebhooks, RecordDelivery

log = logging.getLogger("holdfast")

PAGE = 100
"""How many events are read at once."""

LEFT_OUT = "values_left_out"
"""Marks a dead letter without its values: these stay sealed in the history, and are added when
the letter is delivered again."""


class WebhookContext(Protocol):
    """The worker, as the delivery of webhooks sees it."""

    store: Store
    writer: GroupCommit
    timers: TimerQueue
    threads: ThreadPool
    notifier: CommitNotifier
    sealer: PayloadSealer
    loop: asyncio.AbstractEventLoop
    settings: WorkerSettings
    session_id: str
    stopping: bool


def body_of(event: RunEvent) -> bytes:
    """Return the body in which an event is delivered."""
    fields: dict[str, Any] = {name: getattr(event, name) for name in event.__struct_fields__}
    return msgspec.json.encode(fields | _values(event) | {"result": _json(event.result)})


def bare_body_of(event: RunEvent) -> bytes:
    """Return the body of a dead letter whose values are offloaded or encrypted: without them."""
    fields: dict[str, Any] = {name: getattr(event, name) for name in event.__struct_fields__}
    left_out = {"data": None, "error": None, "result": None, LEFT_OUT: True}
    return msgspec.json.encode(fields | left_out)


def _values(event: RunEvent | Event) -> dict[str, Any]:
    return {"data": _json(event.data), "error": _json(event.error)}


def _json(data: bytes | None) -> Any:
    """Return stored data as JSON; data of another codec becomes text."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data.decode("latin-1")


def settings_of(webhook: Subscription) -> tuple[object, ...]:
    """Return the settings of a webhook: its filter, URL, secret and number of attempts."""
    return webhook.which, webhook.url, webhook.secret, webhook.attempt_limit


class WebhookDispatcher:
    """All webhooks that one worker delivers."""

    def __init__(self, context: WebhookContext, poll: float) -> None:
        self._context = context
        self._poll = poll
        self._wakeup = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._pauses: dict[str, asyncio.Event] = {}
        """The webhooks that wait for their next attempt, each with the event that ends the wait."""

    def wake(self) -> None:
        """Claim webhooks soon: there may be a new one, or one whose worker is gone."""
        self._wakeup.set()

    async def forever(self) -> None:
        """Claim and deliver webhooks that no other worker delivers.

        An error here does not cancel the deliveries: an event that has arrived but is not recorded
        yet would be delivered again.
        """
        while not self._context.stopping:
            self._wakeup.clear()  # before the claim: a webhook that comes then must set it again
            await self._claim()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll):
                    await self._wakeup.wait()

    def close(self) -> None:
        """Cancel all deliveries."""
        for task in list(self._tasks.values()):
            task.cancel()

    async def _claim(self) -> None:
        context = self._context
        webhooks = self._deliverable()
        # Asked first: a worker that delivers all webhooks itself commits nothing.
        if any(webhook.session_id != context.session_id for webhook in webhooks):
            await context.writer.submit(
                ClaimWebhooks(context.session_id, tuple(webhook.name for webhook in webhooks))
            )
            webhooks = self._deliverable()
        for webhook in webhooks:
            # Its settings were changed: they may have mended what the pause waits for.
            if webhook.next_at is None and webhook.name in self._pauses:
                self._pauses[webhook.name].set()
            if webhook.session_id == context.session_id and webhook.name not in self._tasks:
                task = self._tasks[webhook.name] = context.loop.create_task(
                    self._deliver_forever(webhook.name, context.session_id)
                )
                task.add_done_callback(partial(self._done, webhook.name))

    def _deliverable(self) -> list[Subscription]:
        """Return the webhooks that this worker may deliver.

        A worker that is bound to a namespace delivers only webhooks of that namespace: it must not
        read events of others, and its allowed hosts are not theirs.
        """
        namespace = self._context.settings.namespace
        webhooks = [
            webhook
            for webhook in self._context.store.subscriptions.all()
            if webhook.kind == WEBHOOK
        ]
        if namespace is None:
            return webhooks
        return [webhook for webhook in webhooks if webhook.which.namespace == namespace]

    def _done(self, name: str, task: asyncio.Task[None]) -> None:
        del self._tasks[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(
                "the delivery of webhook %s failed and is started again", name, exc_info=error
            )

    async def _deliver_forever(self, name: str, session_id: str) -> None:
        """Deliver the events of one webhook, as long as this session has it."""
        listener = self._context.notifier.subscribe_async(Committed)
        try:
            while not self._context.stopping:
                try:
                    if not await self._deliver(name, session_id):
                        await listener.wait()
                except StoreError as error:
                    log.warning("the store failed, webhook %s waits: %s", name, error)
                    await asyncio.sleep(0.5)
        except (LeaseLost, SubscriptionNotFound, EngineClosed):
            log.debug("webhook %s was removed or taken over", name)
        finally:
            listener.close()

    async def _deliver(self, name: str, session_id: str) -> bool:
        """Deliver what can be delivered now. Return False if there is nothing to do."""
        store = self._context.store
        webhook = store.subscriptions.get(name)
        if webhook is None or webhook.session_id != session_id:
            raise LeaseLost(subscription=name, session=session_id)
        if webhook.next_at is not None and webhook.next_at > store.now():
            await self._sleep_until(name, webhook.next_at)
            return True
        # Before new events: an operator has asked for these.
        letters = store.subscriptions.dead_letters(name, again=True, limit=1)
        if letters:
            await self._redeliver(webhook, letters[0])
            return True
        events, edge = store.subscriptions.events(webhook.place, webhook.which, PAGE)
        for event in events:
            if not await self._deliver_or_postpone(webhook, event, session_id):
                return True
            # The rest of the page was selected, and would be sent, by the settings that were read
            # before.
            current = store.subscriptions.get(name)
            if current is None or settings_of(current) != settings_of(webhook):
                return True
        if webhook.place < edge:
            await self._record(webhook, place=edge)
        return edge != webhook.place or bool(events)

    async def _deliver_or_postpone(
        self, webhook: Subscription, event: RunEvent, session_id: str
    ) -> bool:
        """Deliver one event. Return whether to continue with the next one."""
        failed, kept = await self._deliver_event(webhook, event)
        place = place_of(event.cursor, event.cursor.split(".")[0])
        if failed is None:
            await self._record(webhook, place=place)
            return True
        attempts = webhook.attempts + 1
        if attempts >= webhook.attempt_limit:
            log.warning(
                "webhook %s: an event of run %s is a dead letter: %s",
                webhook.name,
                event.run_id,
                failed,
            )
            letter = DeadLetter(webhook.name, event.run_id, event.seq, kept, attempts, failed, 0)
            await self._record(webhook, place=place, error=failed, letter=letter)
            return True
        next_at = self._context.store.now() + pause_after(attempts, random.random())
        await self._record(
            webhook, place=webhook.place, attempts=attempts, next_at=next_at, error=failed
        )
        return False

    async def _deliver_event(
        self, webhook: Subscription, event: RunEvent
    ) -> tuple[str | None, bytes]:
        """Deliver an event with its values opened. Return the failure, if any, and the body to
        keep."""
        opened = event
        try:
            has_result = webhook.which.with_result and event.kind == EventKind.RUN_COMPLETED
            if has_result or is_sealed(event.data) or is_sealed(event.error):
                opened = await self._context.threads.run(partial(self._opened, webhook, event))
        except (KeyMissing, BadData) as error:
            return str(error), bare_body_of(event)
        body = body_of(opened)
        failed = await self._post(webhook, event.run_id, event.seq, body, webhook.attempts + 1)
        if opened is not event:
            # Opened values stay out of a dead letter: its row is not encrypted.
            body = bare_body_of(event)
        return failed, body

    def _opened(self, webhook: Subscription, event: RunEvent) -> RunEvent:
        """Return an event with its values opened, and the result of its run if the webhook asks
        for it. Raises KeyMissing, BadData."""
        opened = self._context.sealer.opener.subscriber_event(event)
        result = self._result(webhook, event.kind, event.run_id)
        return msgspec.structs.replace(opened, result=result)

    def _result(self, webhook: Subscription, kind: str, run_id: str) -> bytes | None:
        """Return the result of the run whose completion is delivered, as it is now."""
        if not webhook.which.with_result or kind != EventKind.RUN_COMPLETED:
            return None
        run = self._context.store.runs.get(run_id)
        if run is None or run.status is not Status.COMPLETED:
            return None
        return self._context.sealer.opener.run(run).result

    def _body_of_letter(self, webhook: Subscription, letter: DeadLetter) -> bytes:
        """Return the body of a dead letter with its values, if they were left out and still exist.

        Raises KeyMissing, BadData.
        """
        fields = msgspec.json.decode(letter.body)
        if LEFT_OUT not in fields:
            return letter.body
        events = [
            event
            for event in self._context.store.runs.history(letter.run_id)
            if event.seq == letter.seq
        ]
        if not events:
            return letter.body
        del fields[LEFT_OUT]
        (event,) = self._context.sealer.opener.events(letter.run_id, events)
        result = self._result(webhook, event.kind, letter.run_id)
        return msgspec.json.encode(fields | _values(event) | {"result": _json(result)})

    async def _redeliver(self, webhook: Subscription, letter: DeadLetter) -> None:
        """Deliver a dead letter once more: it arrives, or is dead again."""
        try:
            body = await self._context.threads.run(partial(self._body_of_letter, webhook, letter))
            failed = await self._post(webhook, letter.run_id, letter.seq, body, letter.attempts + 1)
        except (KeyMissing, BadData) as error:
            failed = str(error)
        if failed is None:
            await self._record(webhook, place=webhook.place, delivered=letter)
        else:
            dead = msgspec.structs.replace(letter, attempts=1, error=failed)
            await self._record(webhook, place=webhook.place, error=failed, letter=dead)

    async def _post(
        self, webhook: Subscription, run_id: str, seq: int, body: bytes, attempt: int
    ) -> str | None:
        # Imported here: only workers that deliver webhooks pay for ssl and its dependencies.
        from holdfast.engine.maintenance.webhook_delivery import Delivery, deliver

        context = self._context
        at = context.store.now() // 1_000_000
        try:
            secret = context.sealer.secrets.reveal_webhook(webhook)
        except (KeyMissing, BadData) as error:
            return str(error)
        attempted = Delivery(
            webhook.url or "",
            secret,
            webhook.name,
            f"{run_id}:{seq}",
            attempt,
            body,
            at,
            traceparent=self._traceparent(run_id),
        )
        return await deliver(attempted, context.settings.webhook_hosts, context.threads)

    def _traceparent(self, run_id: str) -> str | None:
        """Return the span of a run, if runs are traced."""
        tracing = self._context.writer.metrics.tracing
        if tracing is None:
            return None
        return tracing.traceparent(run_id)

    async def _record(self, webhook: Subscription, **outcome: Any) -> None:
        op = RecordDelivery(webhook.name, self._context.session_id, **outcome)
        await self._context.writer.submit(op)
        webhook.place = op.place
        webhook.attempts = op.attempts
        webhook.next_at = op.next_at

    async def _sleep_until(self, name: str, instant: int) -> None:
        """Wait for the next attempt of a webhook, or until its settings were changed; whether the
        webhook was removed meanwhile is checked after it."""
        due = asyncio.Event()
        timer = self._context.timers.at(instant, due.set)
        self._pauses[name] = due
        try:
            await due.wait()
        finally:
            del self._pauses[name]
            timer.cancel()
