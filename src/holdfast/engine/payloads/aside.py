"""Sealing and opening beside the loop: what takes long is done in a thread, what does not is done at once."""

from __future__ import annotations

from functools import partial

from holdfast.core.records import Event, Run
from holdfast.core.sealed import digest_of, is_sealed
from holdfast.engine.payloads.vault import Vault
from holdfast.engine.threads import Threads
from holdfast.store.contract import Advance


async def sealed(op: Advance, vault: Vault, threads: Threads) -> Advance:
    """Return a transition with its values sealed."""
    found: Advance = await threads.run(partial(vault.seal, op)) if vault.is_heavy(op) else vault.seal(op)
    return found


async def opened(run: Run, history: list[Event], vault: Vault, threads: Threads) -> tuple[Run, list[Event]]:
    """Return a run and its history with their values opened; what is kept apart is fetched without holding others up. Raises
    BadData, KeyMissing."""
    heads = [run.input, *(value for event in history for value in (event.data, event.error))]
    if not any(map(is_sealed, heads)):
        return run, history

    def open_all() -> tuple[Run, list[Event]]:
        return vault.run(run), vault.events(run.id, history)

    apart = any(digest_of(value) is not None for value in heads)
    return await threads.run(open_all) if apart else open_all()
