"""Decide which runs a retention rule deletes now, and in which batches.

``older_than`` and ``max_bytes`` each select runs by themselves; ``keep_last`` protects the newest
runs of each workflow and, alone, selects all others. Only whole trees of finished runs are deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.core.retention import RUNS as RUNS
from holdfast.core.retention import RetentionRule
from holdfast.core.status import FINAL
from holdfast.store.retention.operations import Forget, PrunableRun, PruneFilter
from holdfast.store.retention.queries import RetentionQueries
from holdfast.store.runs.operations import Prune

PAGE = 1000
"""How many trees one query reads."""


SAMPLE = 200
"""From so many trees, a preview estimates the bytes of all."""


EVER = 1 << 62
"""An instant after all others."""


class RetentionPortion(NamedTuple):
    """The part of the store that a rule selects: trees of one workflow, or of all, whose roots
    ended before an instant."""

    workflow: str | None
    before: int


class RetentionPreview(msgspec.Struct):
    """What a rule would delete now."""

    name: str
    target: str
    trees: int
    runs: int
    bytes: int


def statuses_of(rule: RetentionRule) -> list[str]:
    """Return the statuses that a rule selects; all final ones if it names none."""
    return list(rule.statuses) or sorted(status.value for status in FINAL)


def portions(queries: RetentionQueries, rule: RetentionRule) -> list[RetentionPortion]:
    """Return the parts of the store that a rule selects now."""
    now = queries.now()
    bounds = []
    if rule.older_than is not None:
        bounds.append(now - rule.older_than)
    if rule.max_bytes is not None and (cut := _size_cut(queries, rule, now)) is not None:
        bounds.append(cut)
    if rule.keep_last is None:
        return [RetentionPortion(rule.workflow, max(bounds))] if bounds else []
    alone = rule.older_than is None and rule.max_bytes is None
    if not bounds and not alone:
        return []
    selected = []
    for workflow in _workflows(queries, rule):
        newest = queries.nth_newest(workflow, statuses_of(rule), rule.keep_last)
        if newest is not None:
            # The newest runs are kept, however old or large they are.
            selected.append(RetentionPortion(workflow, min(max(bounds, default=EVER), newest)))
    return selected


def _workflows(queries: RetentionQueries, rule: RetentionRule) -> list[str]:
    if rule.workflow is not None:
        return [rule.workflow]
    return queries.workflows()


def _size_cut(queries: RetentionQueries, rule: RetentionRule, now: int) -> int | None:
    """Return the instant before which all finished trees must be deleted for the data to fit into
    ``max_bytes``; None if the data fit."""
    excess = queries.used_bytes() - (rule.max_bytes or 0)
    if excess <= 0:
        return None
    cut = None
    for tree in _trees(queries, RetentionPortion(rule.workflow, now + 1), statuses_of(rule)):
        if tree.runs:
            excess -= tree.bytes
            cut = tree.finished_at + 1
        if excess <= 0:
            break
    return cut


def _trees(
    queries: RetentionQueries, portion: RetentionPortion, statuses: Sequence[str]
) -> Iterator[PrunableRun]:
    """Yield the finished trees of a portion, oldest first. A tree that cannot be deleted, because a
    part of it has not ended, has 0 runs."""
    since = 0
    seen: set[str] = set()  # the trees of the last page that ended at *since*
    while page := queries.oldest_finished(portion.workflow, statuses, since, portion.before, PAGE):
        fresh = [tree for tree in page if tree.id not in seen]
        yield from fresh
        last = page[-1].finished_at
        seen = {tree.id for tree in page if tree.finished_at == last}
        # A full page of trees that were seen before: all ended at one instant, go on after it.
        since = last if fresh else last + 1
        if len(page) < PAGE:
            return


def preview(queries: RetentionQueries, rule: RetentionRule) -> RetentionPreview:
    """Return how much a rule would delete now. Trees and runs are counted by indexes; the bytes of
    more than a sample of trees are estimated from it."""
    totals = RetentionPreview(rule.name, rule.target, 0, 0, 0)
    for portion in portions(queries, rule):
        which = PruneFilter(
            before=portion.before,
            statuses=statuses_of(rule),
            namespace=None,
            workflow=portion.workflow,
        )
        prunable = queries.count_prunable(which)
        totals.trees += prunable.trees
        totals.runs += prunable.runs
        totals.bytes += _bytes_of(queries.sample(which, SAMPLE), prunable.runs)
    return totals


def _bytes_of(sample: Sequence[PrunableRun], runs: int) -> int:
    """Return about how many bytes so many runs take; exactly, if the sample has all of them."""
    sampled = sum(tree.runs for tree in sample)
    if not sampled:
        return 0
    return sum(tree.bytes for tree in sample) * runs // sampled


def batch_of(
    rule: RetentionRule, portion: RetentionPortion, after: str, limit: int
) -> Prune | Forget:
    """Return the operation that deletes the next batch."""
    which: dict[str, Any] = {
        "before": portion.before,
        "statuses": statuses_of(rule),
        "limit": limit,
        "after": after,
        "workflow": portion.workflow,
    }
    return Prune(**which) if rule.target == RUNS else Forget(target=rule.target, **which)
