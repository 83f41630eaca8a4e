"""Delivering events to webhooks: one worker at a time for each, one event after another, again and
again until it arrives, or is a dead letter. How it goes is written down before the next one is
tried, so whoever takes over goes on from there."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import msgspec

from holdfast.core.envelope import is_sealed
from holdfast.core.events import Event
from holdfast.core.subscriptions import (
    WEBHOOK,
    DeadLetter,
    RunEvent,
    Subscription,
    pause_after,
    place_of,
)
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.runtime.news import News
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
from holdfast.store.contract import ClaimWebhooks, RecordDelivery, Store

log = logging.getLogger("holdfast")

PAGE = 100
"""How many events are read at once."""

LEFT_OUT = "values_left_out"
"""Said of a dead letter: its values are kept where they were, sealed, and are sent along when it is
replayed."""


class WebhookContext(Protocol):
    """The worker, as its couriers see it."""

    store: Store
    writer: GroupCommit
    alarms: TimerQueue
    threads: ThreadPool
    news: News
    sealer: PayloadSealer
    loop: asyncio.AbstractEventLoop
    settings: WorkerSettings
    session_id: str
    stopping: bool


def body_of(event: RunEvent) -> bytes:
    """Return an event as it is delivered."""
    told: dict[str, Any] = {name: getattr(event, name) for name in event.__struct_fields__}
    return msgspec.json.encode(told | _values(event))


def bare_body_of(event: RunEvent) -> bytes:
    """Return an event as it is kept when its values are kept apart or encrypted: without them."""
    told: dict[str, Any] = {name: getattr(event, name) for name in event.__struct_fields__}
    return msgspec.json.encode(told | {"data": None, "error": None, LEFT_OUT: True})


def _values(event: RunEvent | Event) -> dict[str, Any]:
    return {"data": _json(event.data), "error": _json(event.error)}


def _json(data: bytes | None) -> Any:
    """Return stored data as JSON; what another codec has written is told as text."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data.decode("latin-1")


class WebhookDispatcher:
    """All webhooks that one worker delivers."""

    def __init__(self, office: WebhookContext, poll: float) -> None:
        self._office, self._poll = office, poll
        self._look = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def look(self) -> None:
        """There may be another webhook, or one of which the last courier is gone."""
        self._look.set()

    async def forever(self) -> None:
        """Deliver what nobody else delivers. Trouble here calls no courier back: what it has just
        delivered, and not yet written down, would be delivered again."""
        while not self._office.stopping:
            self._look.clear()
            await self._claim()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll):
                    await self._look.wait()

    def close(self) -> None:
        """Call all couriers back."""
        for task in list(self._tasks.values()):
            task.cancel()

    async def _claim(self) -> None:
        office = self._office
        found = self._found()
        if any(one.session_id != office.session_id for one in found):
            await office.writer.submit(
                ClaimWebhooks(office.session_id, tuple(one.name for one in found))
            )
            found = self._found()
        for one in found:
            if one.session_id == office.session_id and one.name not in self._tasks:
                task = self._tasks[one.name] = office.loop.create_task(
                    self._courier(one.name, office.session_id)
                )
                task.add_done_callback(partial(self._done, one.name))

    def _found(self) -> list[Subscription]:
        """Return the webhooks that this worker may deliver. One that is bound to a namespace reads
        no events of others, and the hosts that it allows are not allowed to others."""
        only = self._office.settings.namespace
        found = [one for one in self._office.store.subscriptions() if one.kind == WEBHOOK]
        return found if only is None else [one for one in found if one.which.namespace == only]

    def _done(self, name: str, task: asyncio.Task[None]) -> None:
        del self._tasks[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error(
                "the courier of webhook %s failed and is taken up again", name, exc_info=error
            )

    async def _courier(self, name: str, session_id: str) -> None:
        """Deliver the events of one webhook, as long as it is ours."""
        listener = self._office.news.listen_async()
        try:
            while not self._office.stopping:
                try:
                    if not await self._deliver(name, session_id):
                        await listener.wait()
                except StoreError as error:
                    log.warning("the store is in trouble, webhook %s waits: %s", name, error)
                    await asyncio.sleep(0.5)
        except (LeaseLost, SubscriptionNotFound, EngineClosed):
            log.debug("webhook %s is no longer ours", name)
        finally:
            listener.close()

    async def _deliver(self, name: str, session_id: str) -> bool:
        """Deliver what can be delivered now; False when there is nothing to do."""
        store = self._office.store
        found = store.subscription(name)
        if found is None or found.session_id != session_id:
            raise LeaseLost(subscription=name, session=session_id)
        if found.next_at is not None and found.next_at > store.now():
            await self._until(found.next_at)
            return True
        letters = store.letters(name, again=True, limit=1)
        if letters:
            await self._again(found, letters[0])
            return True
        events, edge = store.events(found.place, found.which, PAGE)
        for event in events:
            if not await self._one(found, event, session_id):
                return True
        if found.place < edge:
            await self._settle(found, place=edge)
        return edge != found.place or bool(events)

    async def _one(self, found: Subscription, event: RunEvent, session_id: str) -> bool:
        """Deliver one event; say whether to go on with the next."""
        failed, kept = await self._tell(found, event)
        place = place_of(event.cursor, event.cursor.split(".")[0])
        if failed is None:
            await self._settle(found, place=place)
            return True
        attempts = found.attempts + 1
        if attempts >= found.attempt_limit:
            log.warning(
                "webhook %s: an event of run %s is a dead letter: %s",
                found.name,
                event.run_id,
                failed,
            )
            letter = DeadLetter(found.name, event.run_id, event.seq, kept, attempts, failed, 0)
            await self._settle(found, place=place, error=failed, letter=letter)
            return True
        next_at = self._office.store.now() + pause_after(attempts, random.random())
        await self._settle(
            found, place=found.place, attempts=attempts, next_at=next_at, error=failed
        )
        return False

    async def _tell(self, found: Subscription, event: RunEvent) -> tuple[str | None, bytes]:
        """Deliver an event with its values opened; return what went wrong, if anything, and what
        may be kept of it."""
        opened = event
        try:
            if is_sealed(event.data) or is_sealed(event.error):
                opened = await self._office.threads.run(
                    partial(self._office.sealer.subscriber_event, event)
                )
        except (KeyMissing, BadData) as error:
            return str(error), bare_body_of(event)
        body = body_of(opened)
        failed = await self._post(found, event.run_id, event.seq, body, found.attempts + 1)
        return failed, body if opened is event else bare_body_of(event)

    def _whole(self, letter: DeadLetter) -> bytes:
        """Return a letter with its values, if they were left out and are still there. Raises
        KeyMissing, BadData."""
        told = msgspec.json.decode(letter.body)
        if LEFT_OUT not in told:
            return letter.body
        events = [
            event for event in self._office.store.history(letter.run_id) if event.seq == letter.seq
        ]
        if not events:
            return letter.body
        del told[LEFT_OUT]
        (event,) = self._office.sealer.events(letter.run_id, events)
        return msgspec.json.encode(told | _values(event))

    async def _again(self, found: Subscription, letter: DeadLetter) -> None:
        """Deliver a dead letter once more: it arrives, or is dead again."""
        try:
            body = await self._office.threads.run(partial(self._whole, letter))
            failed = await self._post(found, letter.run_id, letter.seq, body, letter.attempts + 1)
        except (KeyMissing, BadData) as error:
            failed = str(error)
        if failed is None:
            await self._settle(found, place=found.place, delivered=letter)
        else:
            dead = msgspec.structs.replace(letter, attempts=1, error=failed)
            await self._settle(found, place=found.place, error=failed, letter=dead)

    async def _post(
        self, found: Subscription, run_id: str, seq: int, body: bytes, attempt: int
    ) -> str | None:
        from holdfast.engine.maintenance.webhook_delivery import (
            Delivery,
            deliver,  # only who delivers pays for it
        )

        office = self._office
        at = office.store.now() // 1_000_000
        try:
            secret = office.sealer.secrets.reveal_webhook(found)
        except (KeyMissing, BadData) as error:
            return str(error)
        attempted = Delivery(
            found.url or "", secret, found.name, f"{run_id}:{seq}", attempt, body, at
        )
        return await deliver(attempted, office.settings.webhook_hosts, office.threads)

    async def _settle(self, found: Subscription, **how: Any) -> None:
        op = RecordDelivery(found.name, self._office.session_id, **how)
        await self._office.writer.submit(op)
        found.place, found.attempts, found.next_at = op.place, op.attempts, op.next_at

    async def _until(self, instant: int) -> None:
        """Wait for an instant, or for the webhook to be removed, which is found out then."""
        due = asyncio.Event()
        alarm = self._office.alarms.at(instant, due.set)
        try:
            await due.wait()
        finally:
            alarm.cancel()
