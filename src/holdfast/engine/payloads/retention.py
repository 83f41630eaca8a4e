"""Retention: what rules say goes, looked at first, then deleted batch by batch.

``older_than`` and ``max_bytes`` say what goes, each by itself; ``keep_last`` protects the newest of each workflow, and alone
says that all others go. Only trees of runs go that have ended as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.core import duration
from holdfast.core.duration import Duration
from holdfast.core.options import checked_many, checked_string
from holdfast.core.records import Retention
from holdfast.core.status import FINAL, LIVE, Status
from holdfast.core.texts import is_storable
from holdfast.errors import BadOption, UnknownWorkflow
from holdfast.store import contract as c
from holdfast.store.tables import FORGETTABLE

RUNS = "runs"
PAGE = 200
"""How many trees are looked at at once."""

EVER = 1 << 62


class Portion(NamedTuple):
    """What a rule says of one workflow, or of all: whatever ended before that goes."""

    workflow: str | None
    before: int


class Preview(msgspec.Struct):
    """What a rule would delete now."""

    name: str
    what: str
    trees: int
    runs: int
    bytes: int


def checked_rule(
    name: Any, *, what: Any, workflow: Any, status: Any, older_than: Duration | None, keep_last: Any, max_bytes: Any,
    known: set[str],
) -> Retention:  # fmt: skip
    """Return a rule; refuse one that makes no sense. Raises BadOption, BadDuration, UnknownWorkflow."""
    if not isinstance(name, str) or not name or len(name) > 200 or "\n" in name or not is_storable(name):
        raise BadOption(option="name", value=name, why="a rule has a name of one line")
    if not isinstance(what, str) or (what != RUNS and what not in FORGETTABLE):
        raise BadOption(option="what", value=what, known=", ".join([RUNS, *FORGETTABLE]))
    if checked_string("workflow", workflow) is not None and workflow not in known:
        raise UnknownWorkflow(workflow=workflow, why="no run of it was ever started here, and this process does not define it")
    statuses = checked_statuses([status] if isinstance(status, str) else status or ())
    age = None if older_than is None else duration.parse(older_than)
    if age is not None and age < 0:
        raise BadOption(option="older_than", value=older_than, why="it is how long ago a run has ended")
    for option, value in (("keep_last", keep_last), ("max_bytes", max_bytes)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= EVER):
            raise BadOption(option=option, value=value, why="it is a whole number, 1 or more")
    if age is None and keep_last is None and max_bytes is None:
        raise BadOption(option="retention", why="it has no bound: say older_than, keep_last or max_bytes")
    if max_bytes is not None and what != RUNS:
        raise BadOption(option="max_bytes", why="it is for rules that delete runs")
    return Retention(
        name=name, what=what, workflow=workflow, statuses=tuple(statuses), older_than=age, keep_last=keep_last,
        max_bytes=max_bytes,
    )  # fmt: skip


def checked_statuses(statuses: Sequence[str]) -> list[str]:
    """Return statuses, each once; refuse those that are not final."""
    given = checked_many("status", statuses)
    wrong = [one for one in given if not isinstance(one, str) or one in LIVE or one not in set(Status)]
    if wrong:
        raise BadOption(option="status", value=wrong[0], why=f"only finished runs are deleted: {', '.join(sorted(FINAL))}")
    return sorted({str(status) for status in given})


def statuses_of(rule: Retention) -> list[str]:
    """Return the statuses that a rule is about."""
    return list(rule.statuses) or sorted(status.value for status in FINAL)


def portions(store: c.Store, rule: Retention) -> list[Portion]:
    """Say what of the store goes by a rule now."""
    now, bounds = store.now(), []
    if rule.older_than is not None:
        bounds.append(now - rule.older_than)
    if rule.max_bytes is not None and (cut := _size_cut(store, rule, now)) is not None:
        bounds.append(cut)
    if rule.keep_last is None:
        return [Portion(rule.workflow, max(bounds))] if bounds else []
    alone = rule.older_than is None and rule.max_bytes is None
    if not bounds and not alone:
        return []
    found = []
    for workflow in _workflows(store, rule):
        newest = store.nth_newest(workflow, statuses_of(rule), rule.keep_last)
        if newest is not None:
            found.append(Portion(workflow, min(max(bounds, default=EVER), newest)))
    return found


def _workflows(store: c.Store, rule: Retention) -> list[str]:
    if rule.workflow is not None:
        return [rule.workflow]
    return sorted({route.workflow for route in store.routes().values()})


def _size_cut(store: c.Store, rule: Retention, now: int) -> int | None:
    """Return the instant before which all that is finished must go for the data to fit; None when it fits."""
    over = store.used_bytes() - (rule.max_bytes or 0)
    if over <= 0:
        return None
    cut = None
    for tree in _trees(store, Portion(rule.workflow, now + 1), statuses_of(rule)):
        if tree.runs:
            over, cut = over - tree.bytes, tree.finished_at + 1
        if over <= 0:
            break
    return cut


def _trees(store: c.Store, portion: Portion, statuses: Sequence[str]) -> Iterator[c.Doomed]:
    """Yield the finished trees of a portion, the oldest first; one that cannot go, because a part of it lives, has no runs."""
    since, seen = 0, set[str]()
    while page := store.oldest_finished(portion.workflow, statuses, since, portion.before, PAGE):
        fresh = [tree for tree in page if tree.id not in seen]
        yield from fresh
        last = page[-1].finished_at
        seen = {tree.id for tree in page if tree.finished_at == last}
        since = last if fresh else last + 1
        if len(page) < PAGE:
            return


def preview(store: c.Store, rule: Retention) -> Preview:
    """Say how much a rule would delete now."""
    found = Preview(rule.name, rule.what, 0, 0, 0)
    for portion in portions(store, rule):
        for tree in _trees(store, portion, statuses_of(rule)):
            if tree.runs:
                found.trees, found.runs, found.bytes = found.trees + 1, found.runs + tree.runs, found.bytes + tree.bytes
    return found


def batch_of(rule: Retention, portion: Portion, after: str, limit: int) -> c.Prune | c.Forget:
    """Return the transition that deletes the next batch."""
    which: dict[str, Any] = {
        "before": portion.before,
        "statuses": statuses_of(rule),
        "limit": limit,
        "after": after,
        "workflow": portion.workflow,
    }
    return c.Prune(**which) if rule.what == RUNS else c.Forget(what=rule.what, **which)
