"""Sealing and opening beside the loop: what takes long is done in a thread, what does not is done at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from holdfast.core.records import Event, Run
from holdfast.core.sealed import digest_of, is_sealed
from holdfast.engine.payloads.vault import Vault
from holdfast.engine.threads import Threads
from holdfast.errors import BadData
from holdfast.store.contract import Advance


async def sealed(op: Advance, vault: Vault, threads: Threads) -> Advance:
    """Return a transition with its values sealed."""
    found: Advance = await threads.run(partial(vault.seal, op)) if vault.is_heavy(op) else vault.seal(op)
    return found


Stored = tuple[Run, list[Event]]
"""A run and its history."""


async def opened(run: Run, history: list[Event], vault: Vault, threads: Threads, read: Callable[[], Stored]) -> Stored:
    """Return a run and its history with their values opened; what is kept apart is fetched without holding others up. If a
    payload is gone, *read* reads both again: ``rekey`` may have replaced it since. Raises BadData, KeyMissing."""
    values = _values(run, history)
    while any(map(is_sealed, values)):
        try:
            return await _open(run, history, values, vault, threads)
        except BadData as error:
            if "payload" not in error.facts:
                raise
            run, history = read()
            before, values = values, _values(run, history)
            if values == before:
                raise
    return run, history


def _values(run: Run, history: list[Event]) -> list[bytes | None]:
    return [run.input, *(value for event in history for value in (event.data, event.error))]


async def _open(run: Run, history: list[Event], values: list[bytes | None], vault: Vault, threads: Threads) -> Stored:
    def open_all() -> Stored:
        return vault.run(run), vault.events(run.id, history)

    apart = any(digest_of(value) is not None for value in values)
    return await threads.run(open_all) if apart else open_all()
