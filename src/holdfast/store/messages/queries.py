"""Queries about messages."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.messages import MessageSubscription, StartSubscription
from holdfast.store.reader import Reader


class ExternalTask(msgspec.Struct, kw_only=True):
    """An open task below a run, which workers lease by its topic."""

    id: str
    run_id: str
    """The run of the model."""
    step: str
    topic: str
    process: str
    created_at: int


class KeptMessage(msgspec.Struct, kw_only=True):
    """A message that is kept, with its payload as stored."""

    namespace: str
    id: str
    name: str
    key: str | None
    payload: bytes


class MessageQueries:
    """Queries about messages."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def of_run(self, run_id: str) -> list[MessageSubscription]:
        """Return what a run waits for, oldest first."""
        return self._reader.all(_subscription, "message_subscriptions", run_id=run_id)

    def starts(self, namespace: str, kind: str, name: str) -> list[StartSubscription]:
        """Return the start events that a message or broadcast of that name starts."""
        return self._reader.listed(
            _start, "starts_of_name", namespace=namespace, kind=kind, name=name
        )

    def external_tasks(
        self, namespace: str | None, run_id: str | None, after: str, limit: int
    ) -> list[ExternalTask]:
        """Return the open tasks below runs whose ids follow *after*, oldest first."""
        return self._reader.listed(
            _external_task,
            "external_tasks",
            namespace=namespace,
            run_id=run_id,
            after=after,
            limit=limit,
        )

    def startable(self, now: int, limit: int, lane: str) -> list[KeptMessage]:
        """Return the kept messages that a start event can receive now, oldest first. *lane* is the
        lane of the runs that they start."""
        kept = self._reader.listed(_kept, "startable_messages", now=now, limit=limit, lane=lane)
        unique = {(each.namespace, each.name, each.id): each for each in kept}
        return list(unique.values())

    def to_seal(self, after: tuple[str, str, str], limit: int) -> list[KeptMessage]:
        """Return the next messages after a namespace, name and id, payloads as stored."""
        namespace, name, id = after
        return self._reader.all(
            _kept,
            "messages_to_seal",
            after_namespace=namespace,
            after_name=name,
            after_id=id,
            limit=limit,
        )

    def answer(self, run_id: str, number: int) -> tuple[bool, str | None]:
        """Return whether an instruction was applied or refused, and the answer."""
        rows = self._reader.rows("signal_answer", run_id=run_id, number=number)
        if not rows:
            return False, None
        return bool(rows[0]["taken"]), rows[0]["effect"]


def _kept(row: Any) -> KeptMessage:
    return KeptMessage(**{**dict(row), "payload": bytes(row["payload"])})


def _external_task(row: Any) -> ExternalTask:
    return ExternalTask(**dict(row))


def _subscription(row: Any) -> MessageSubscription:
    return MessageSubscription(**dict(row))


def _start(row: Any) -> StartSubscription:
    return StartSubscription(**dict(row))
