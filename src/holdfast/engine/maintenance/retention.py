"""Apply retention rules, and resume runs that were stuck because a key was missing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import Protocol

from holdfast.core.retention import RetentionRule
from holdfast.core.runs import RunRecord, StuckCause
from holdfast.core.status import Status
from holdfast.core.why.stored_errors import error_of
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.errors import HoldfastError
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.retention import batches as retention_plan
from holdfast.store.retention.operations import EndMaintenance, TakeMaintenanceLock
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import Pruned, ResumeRun
from holdfast.store.store import Store

log = logging.getLogger("holdfast")

DUTY = "retention"
LEASE = 60_000_000
"""Microseconds for which one worker has the maintenance lock; it renews it while it is deleting."""

BATCH = 50
"""How many trees one transaction deletes: few, so that other writers hardly wait."""

REST = 4.0
"""The worker pauses after a batch for so many times as long as the batch took."""

SHORTEST = 0.02
LONGEST = 2.0
UNLOCK = 500
"""How many stuck runs are read at once."""


class RetentionContext(Protocol):
    """The worker, as retention sees it."""

    store: Store
    writer: GroupCommit
    sealer: PayloadSealer
    session_id: str
    stopping: bool

    @property
    def pause(self) -> int:
        """Return the microseconds between two applications of the rules."""


async def run_forever(worker: RetentionContext) -> None:
    """Apply the rules periodically, unless another worker does."""
    while True:
        await asyncio.sleep(worker.pause / 1_000_000)
        await unlock(worker)
        await run_once(worker)


async def run_once(worker: RetentionContext) -> int:
    """Apply the rules now, if this worker gets the lock. Return how many runs were deleted or
    trimmed."""
    rules = worker.store.retention.rules()
    if not rules or worker.stopping or not await _take_lock(worker):
        return 0
    deleted = 0
    for rule in rules:
        for portion in retention_plan.portions(worker.store.retention, rule):
            deleted += await _delete(worker, rule, portion)
    await worker.writer.submit(EndMaintenance(DUTY, worker.session_id, worker.pause))
    return deleted


async def _delete(
    worker: RetentionContext, rule: RetentionRule, portion: retention_plan.RetentionPortion
) -> int:
    after: str | None = ""
    deleted = 0
    renewed_at = time.monotonic()
    done: Pruned
    while after is not None and not worker.stopping:
        began = time.monotonic()
        done = await worker.writer.submit(retention_plan.batch_of(rule, portion, after, BATCH))
        deleted = deleted + done.runs
        after = done.last
        if done.runs:
            await asyncio.sleep(min(max((time.monotonic() - began) * REST, SHORTEST), LONGEST))
        if time.monotonic() - renewed_at > LEASE / 4_000_000:
            renewed_at = time.monotonic()
            if not await _take_lock(worker):
                return deleted  # another worker took this one for dead, and continues
    if deleted:
        verb = "deleted" if rule.target == retention_plan.RUNS else "trimmed"
        log.info("retention rule %s: %d runs %s", rule.name, deleted, verb)
    return deleted


async def _take_lock(worker: RetentionContext) -> bool:
    taken: bool = await worker.writer.submit(TakeMaintenanceLock(DUTY, worker.session_id, LEASE))
    return taken


async def unlock(worker: RetentionContext) -> None:
    """Resume the runs that are stuck because a key was missing that this worker has now."""
    cipher = worker.sealer.cipher
    if cipher is None:
        return
    for run in _stuck(worker.store):
        key = missing_key(run)
        if key is not None and cipher.knows(key):
            try:
                await worker.writer.submit(ResumeRun(run.id))
                log.info("run %s was resumed: key %s is available now", run.id, key)
            except HoldfastError as error:
                log.debug("run %s was not resumed: %s", run.id, error)


def _stuck(store: Store) -> Iterator[RunRecord]:
    """Yield all stuck runs, page by page: runs with a known key may be behind many others."""
    which = RunFilter(statuses=[Status.STUCK.value], limit=UNLOCK)
    while True:
        page = store.runs.page(which)
        yield from page.runs
        if page.next is None:
            return
        which.after = page.next


def missing_key(run: RunRecord) -> str | None:
    """Return the id of the key that a stuck run waits for, or None."""
    if run.stuck_cause != StuckCause.KEY_MISSING:
        return None
    key = error_of(run.error)["facts"].get("key")
    if isinstance(key, str):
        return key
    return None
