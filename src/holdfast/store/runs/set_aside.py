"""Set damaged rows aside so that they block nothing else: stuck runs, paused schedules, idle flows.

The damaged values stay in place for their repair. Only the fields are cleared through which others
would find the row again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from holdfast.core import duration
from holdfast.core.events import Event, EventKind
from holdfast.errors import RowDamaged
from holdfast.store.database import Transaction
from holdfast.store.history import append_from_outside, last_seq
from holdfast.store.runs.operations import SetAside

log = logging.getLogger("holdfast")


def set_aside(tx: Transaction, op: SetAside) -> int:
    """Set damaged rows aside. Return how many were not aside before."""
    return sum(_set_aside(tx, damage) for damage in op.damages)


def _set_aside(tx: Transaction, damage: RowDamaged) -> bool:
    table = str(damage.facts.get("table"))
    how = _HOW.get(table)
    if how is not None:
        done = how(tx, damage)
    else:
        run_id = damage.place.get("run_id")
        done = run_id is not None and _mark_stuck(tx, run_id, damage)
    if done:
        log.warning("a damaged row is set aside: %s", damage)
    return done


def _run(tx: Transaction, damage: RowDamaged) -> bool:
    return "id" in damage.place and _mark_stuck(tx, damage.place["id"], damage)


def _mark_stuck(tx: Transaction, run_id: object, damage: RowDamaged) -> bool:
    """Mark a run as stuck, unless it has ended or is stuck already. Return whether it changed."""
    error = msgspec.json.encode(
        {"type": "RowDamaged", "message": str(damage), "facts": _facts(damage)}
    )
    if not tx.change("set_run_aside", run_id=run_id, error=error):
        return False
    try:
        seq = last_seq(tx, run_id) + 1  # type: ignore[arg-type]
        append_from_outside(tx, [(run_id, Event(kind=EventKind.RUN_STUCK, seq=seq, error=error))])  # type: ignore[list-item]
    except RowDamaged:
        # The run is set aside all the same: the damage may be in its history.
        log.warning("the history of run %s is damaged and was not added to", run_id)
    return True


def _facts(damage: RowDamaged) -> dict[str, str]:
    return {name: str(value) for name, value in damage.facts.items()}


def _schedule(tx: Transaction, damage: RowDamaged) -> bool:
    return bool(
        tx.change(
            "set_schedule_aside",
            reason=f"its row is damaged: {damage.facts.get('why')}",
            **damage.place,
        )
    )


def _flow(tx: Transaction, damage: RowDamaged) -> bool:
    """Remove the wake-up time of a flow.

    The damage may be in one of its audit entries, after which the next entry would be numbered.
    """
    return bool(tx.change("set_flow_aside", id=damage.place.get("id", damage.place.get("flow_id"))))


def _stage(tx: Transaction, damage: RowDamaged) -> bool:
    """Postpone a stage for ever, because the sweep would find it first every time.

    Its time is one that no valid row has, so that `db check` names the stage until it is repaired.
    """
    return bool(tx.change("set_stage_aside", never=duration.LAST_INSTANT + 1, **damage.place))


def _operation(tx: Transaction, damage: RowDamaged) -> bool:
    """Let no worker continue a bulk operation whose row or part is damaged: every worker would find
    it again."""
    operation_id = damage.place.get("id", damage.place.get("operation_id"))
    return bool(tx.change("set_operation_aside", operation_id=operation_id))


def _task(tx: Transaction, damage: RowDamaged) -> bool:
    run_id = damage.place.get("run_id")
    # Not `or`: both are written in any case.
    return bool(tx.change("set_task_aside", run_id=run_id)) | _mark_stuck(tx, run_id, damage)


_COUNTERS = {
    "share": "forget_damaged_share",
    "rate_admission": "forget_damaged_admission",
    "gathering": "forget_damaged_gathering",
    "maintenance_lock": "forget_damaged_maintenance_lock",
    "run_notification": "forget_damaged_notification",
}
"""Rows that only count or notify are deleted; counting then starts from zero."""


def _forget(tx: Transaction, damage: RowDamaged) -> bool:
    return bool(tx.change(_COUNTERS[str(damage.facts["table"])], **damage.place))


_HOW: dict[str, Callable[[Transaction, RowDamaged], bool]] = {
    "run": _run,
    "schedule": _schedule,
    **dict.fromkeys(("flow", "flow_step", "flow_event"), _flow),
    **dict.fromkeys(("operation", "operation_part"), _operation),
    "task": _task,
    "graph_stage": _stage,
    **dict.fromkeys(_COUNTERS, _forget),
    # A damaged session counts as expired and a damaged lane as paused: both stay as they are.
    "session": lambda tx, damage: False,
    "lane": lambda tx, damage: False,
}
