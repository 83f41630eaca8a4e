"""Read the state of an installation in numbers. No read counts finished runs."""

from __future__ import annotations

from collections import Counter

from holdfast.connect.components import Components
from holdfast.core.runs import DEFAULT_NAMESPACE
from holdfast.core.status import FINAL, Status
from holdfast.core.subscriptions import WEBHOOK, Subscription
from holdfast.views.gauges import GaugesView

MOST_BUDGETS = 200
"""The number of budgets that are read."""


def gauges(parts: Components) -> GaugesView:
    """Return the numbers of the database of an engine; of an engine that is bound to a namespace,
    only the numbers of that namespace. Lanes, budgets and the size of the database belong to the
    whole installation."""
    store = parts.store
    only = parts.client.only
    now = store.now()
    is_whole = only is None
    return GaugesView(
        runs=_live(parts),
        ready_oldest={
            (run.namespace, run.lane): _seconds(now - run.since)
            for run in store.gauges.oldest_ready()
            if only in (None, run.namespace)
        },
        workers=dict(Counter(worker.state.value for worker in parts.workers())),
        open_gates={
            namespace: gates
            for namespace, gates in store.gates.count_open().items()
            if only in (None, namespace)
        },
        lanes=_lanes(parts) if is_whole else {},
        budgets=_budgets(parts) if is_whole else {},
        schedules_late={
            (schedule.namespace, schedule.name): _seconds(now - schedule.next_at)
            for schedule in store.schedules.all()
            if schedule.next_at is not None
            and schedule.paused is None
            and only in (None, schedule.namespace)
        },
        webhooks_lag={
            webhook.name: _lag(parts, webhook, now)
            for webhook in store.subscriptions.all()
            if webhook.kind == WEBHOOK and only in (None, webhook.which.namespace)
        },
        dead_letters=store.subscriptions.count_dead_letters() if is_whole else {},
        database_size=_size(parts) if is_whole else None,
    )


def _live(parts: Components) -> dict[tuple[str, str], int]:
    """Return the live runs of each namespace that has some, by status; a status without runs is
    zero, so that a monitoring system can tell it from a missing number."""
    counted = parts.store.gauges.live()
    own = parts.client.only
    namespaces = {own or DEFAULT_NAMESPACE, *(namespace for namespace, _ in counted)}
    return {
        (namespace, status.value): counted.get((namespace, status.value), 0)
        for namespace in sorted(namespaces)
        if own in (None, namespace)
        for status in Status
        if status not in FINAL
    }


def _lanes(parts: Components) -> dict[str, tuple[int, int | None]]:
    running = parts.store.lanes.running()
    limits = {lane.name: lane.concurrency for lane in parts.store.lanes.all()}
    return {lane: (running.get(lane, 0), limits.get(lane)) for lane in sorted({*running, *limits})}


def _size(parts: Components) -> int | None:
    size = parts.store.info().get("bytes")
    return size if isinstance(size, int) else None


def _seconds(microseconds: int) -> float:
    return max(microseconds, 0) / 1_000_000


def _lag(parts: Components, webhook: Subscription, now: int) -> float:
    """Return the age of the first event that a webhook has not delivered; 0 without one."""
    events, _ = parts.store.subscriptions.events(webhook.place, webhook.which, window=100)
    return _seconds(now - events[0].at) if events else 0.0


def _budgets(parts: Components) -> dict[str, dict[str, float]]:
    shares: dict[str, dict[str, float]] = {}
    for budget in parts.store.budgets.page("", MOST_BUDGETS):
        used = {line.dimension: line.used / line.hard for line in budget.lines if line.hard}
        if used and budget.run_id is None:
            shares[budget.name] = used
    return shares
