"""Start runs with messages that were kept before a start event could receive them: it was deployed
later, or a run that a message of the same key has started was still live."""

from __future__ import annotations

from holdfast.core.messages import MessageKind
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.runtime.start_offers import LANE, start_offers
from holdfast.errors import BadData, KeyMissing
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.messages.operations import StartWithKept
from holdfast.store.messages.queries import KeptMessage
from holdfast.store.store import Store

PORTION = 100
"""Messages that one check looks at."""


class KeptMessages:
    """The kept messages that a start event waits for, as the leader sees them."""

    def __init__(self, store: Store, writer: GroupCommit, sealer: PayloadSealer) -> None:
        self._store: Store = store
        self._writer: GroupCommit = writer
        self._sealer: PayloadSealer = sealer

    async def start_runs(self) -> None:
        """Start a run with each kept message that a start event can receive now, the oldest
        first."""
        for message in self._store.messages.startable(self._store.now(), PORTION, LANE):
            op = self._operation(message)
            if op is not None:
                await self._writer.submit(op)

    def _operation(self, message: KeptMessage) -> StartWithKept | None:
        try:
            payload = self._sealer.opener.message_payload(message.id, message.payload)
        except (KeyMissing, BadData):
            return None  # another worker may have its key; it is kept until its time is over
        starts = start_offers(
            self._store, message.namespace, MessageKind.MESSAGE, message.name, payload
        )
        op: StartWithKept = self._sealer.seal(
            StartWithKept(
                namespace=message.namespace,
                id=message.id,
                name=message.name,
                key=message.key,
                starts=starts,
            )
        )
        return op
