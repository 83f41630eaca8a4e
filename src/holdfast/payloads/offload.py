"""Sealing and opening beside the loop: what takes long is done in a thread, what does not is done
at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

from holdfast.core.envelope import digest_of, is_sealed
from holdfast.core.events import Event
from holdfast.core.runs import RunRecord
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.contract import Advance


class Threads(Protocol):
    """Where a call runs that would block the loop."""

    def run(self, call: Callable[[], Any]) -> Awaitable[Any]:
        """Return the result of *call*, made in a thread."""


async def sealed(op: Advance, sealer: PayloadSealer, threads: Threads) -> Advance:
    """Return a transition with its values sealed."""
    found: Advance = (
        await threads.run(partial(sealer.seal, op)) if sealer.is_heavy(op) else sealer.seal(op)
    )
    return found


async def opened(
    run: RunRecord, history: list[Event], sealer: PayloadSealer, threads: Threads
) -> tuple[RunRecord, list[Event]]:
    """Return a run and its history with their values opened; what is kept apart is fetched without
    holding others up. Raises BadData, KeyMissing."""
    heads = [run.input, *(value for event in history for value in (event.data, event.error))]
    if not any(map(is_sealed, heads)):
        return run, history

    def open_all() -> tuple[RunRecord, list[Event]]:
        return sealer.run(run), sealer.events(run.id, history)

    apart = any(digest_of(value) is not None for value in heads)
    return await threads.run(open_all) if apart else open_all()
