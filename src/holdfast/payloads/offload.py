"""Seal and open the values of an execution without blocking the event loop.

Large values are sealed, and values that are kept apart are fetched and opened, in a thread. Other
values are handled inline, which saves the switch of threads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

from holdfast.core.envelope import digest_of, is_sealed
from holdfast.core.events import Event
from holdfast.core.runs import RunRecord
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.runs.operations import Advance


class Threads(Protocol):
    """A pool of threads for calls that would block the event loop."""

    def run(self, call: Callable[[], Any]) -> Awaitable[Any]:
        """Return the result of *call*, which runs in a thread of the pool."""


async def seal_off_loop(op: Advance, sealer: PayloadSealer, threads: Threads) -> Advance:
    """Return an operation with its values sealed; large values are sealed in a thread.

    Raises KeyMissing."""
    if not sealer.is_heavy(op):
        return sealer.seal(op)
    sealed_op: Advance = await threads.run(partial(sealer.seal, op))
    return sealed_op


async def open_off_loop(
    run: RunRecord, history: list[Event], sealer: PayloadSealer, threads: Threads
) -> tuple[RunRecord, list[Event]]:
    """Return a run and its history with their values opened.

    If a value is kept apart, all values are fetched and opened in a thread, so that other runs of
    the loop continue meanwhile. Raises BadData, KeyMissing."""
    heads = [run.input, *(value for event in history for value in (event.data, event.error))]
    if not any(map(is_sealed, heads)):
        return run, history

    def open_all() -> tuple[RunRecord, list[Event]]:
        return sealer.opener.run(run), sealer.opener.events(run.id, history)

    apart = any(digest_of(value) is not None for value in heads)
    if not apart:
        return open_all()
    plain: tuple[RunRecord, list[Event]] = await threads.run(open_all)
    return plain
