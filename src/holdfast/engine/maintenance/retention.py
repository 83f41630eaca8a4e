"""What a worker does for payloads besides its runs: it deletes what rules say, and lets go on what
waited for a key."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import Protocol

from holdfast.core.retention import RetentionRule
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.core.why.waits import error_of
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.errors import HoldfastError
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store import retention as retention_plan
from holdfast.store.contract import (
    EndMaintenance,
    Pruned,
    ResumeRun,
    RunFilter,
    Store,
    TakeMaintenanceLock,
)

log = logging.getLogger("holdfast")

DUTY = "retention"
LEASE = 60_000_000
"""Microseconds for which the duty is one worker's; while it is at it, it takes it again and
again."""

BATCH = 50
"""How many trees go in one transaction: few, so that others hardly wait."""

REST = 4.0
"""How much longer than a batch took the worker rests after it."""

SHORTEST, LONGEST = 0.02, 2.0
UNLOCK = 500
"""How many stuck runs are read at once."""


class RetentionContext(Protocol):
    """The worker, as its duties see it."""

    store: Store
    writer: GroupCommit
    sealer: PayloadSealer
    session_id: str
    stopping: bool

    @property
    def pause(self) -> int:
        """Microseconds between two looks at the rules."""


async def run_forever(worker: RetentionContext) -> None:
    """Delete what the rules say, from time to time, if no other worker does."""
    while True:
        await asyncio.sleep(worker.pause / 1_000_000)
        await unlock(worker)
        await run_once(worker)


async def run_once(worker: RetentionContext) -> int:
    """Delete what the rules say now, if it is this worker's turn; return how many runs were
    touched."""
    rules = worker.store.retentions()
    if not rules or worker.stopping or not await _take(worker):
        return 0
    gone = 0
    for rule in rules:
        for portion in retention_plan.portions(worker.store, rule):
            gone += await _delete(worker, rule, portion)
    await worker.writer.submit(EndMaintenance(DUTY, worker.session_id, worker.pause))
    return gone


async def _delete(
    worker: RetentionContext, rule: RetentionRule, portion: retention_plan.RetentionPortion
) -> int:
    after: str | None = ""
    gone, taken = 0, time.monotonic()
    done: Pruned
    while after is not None and not worker.stopping:
        began = time.monotonic()
        done = await worker.writer.submit(retention_plan.batch_of(rule, portion, after, BATCH))
        gone, after = gone + done.runs, done.last
        if done.runs:
            await asyncio.sleep(min(max((time.monotonic() - began) * REST, SHORTEST), LONGEST))
        if time.monotonic() - taken > LEASE / 4_000_000:
            taken = time.monotonic()
            if not await _take(worker):
                return gone  # somebody else took this worker for dead, and goes on
    if gone:
        log.info(
            "retention rule %s: %d runs %s",
            rule.name,
            gone,
            "deleted" if rule.what == retention_plan.RUNS else "trimmed",
        )
    return gone


async def _take(worker: RetentionContext) -> bool:
    taken: bool = await worker.writer.submit(TakeMaintenanceLock(DUTY, worker.session_id, LEASE))
    return taken


async def unlock(worker: RetentionContext) -> None:
    """Resume the runs that are stuck because a key was missing, when it is known here."""
    cipher = worker.sealer.cipher
    if cipher is None:
        return
    for run in _stuck(worker.store):
        key = missing_key(run)
        if key is not None and cipher.knows(key):
            try:
                await worker.writer.submit(ResumeRun(run.id))
                log.info("run %s goes on: key %s is known now", run.id, key)
            except HoldfastError as error:
                log.debug("run %s was not resumed: %s", run.id, error)


def _stuck(store: Store) -> Iterator[RunRecord]:
    """Yield all stuck runs, page by page: the runs that wait for a known key may stand behind many
    that do not."""
    before: str | None = None
    while page := store.runs(RunFilter(statuses=[Status.STUCK.value], before=before, limit=UNLOCK)):
        yield from page
        before = page[-1].id


def missing_key(run: RunRecord) -> str | None:
    """Return the id of the key that a stuck run waits for, if that is what it waits for."""
    if run.error is None or not run.error.startswith(b'{"type":"KeyMissing"'):
        return None
    found = error_of(run.error)["facts"].get("key")
    return found if isinstance(found, str) else None
