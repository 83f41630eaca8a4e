"""Check retention rules, which delete finished runs or parts of them.

``older_than`` and ``max_bytes`` each select runs to delete. ``keep_last`` protects the newest runs
of each workflow; alone, it deletes all others. A tree of runs is deleted only as a whole, when all
its runs have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core import duration
from holdfast.core.duration import Duration
from holdfast.core.retention import RetentionRule
from holdfast.core.status import FINAL, LIVE, Status
from holdfast.core.text import is_storable
from holdfast.core.unset import UNSET
from holdfast.core.validation import checked_many, checked_string
from holdfast.errors import BadOption, UnknownWorkflow
from holdfast.store.retention.batches import EVER, RUNS
from holdfast.store.tables import FORGETTABLE


def _merged(new: Any, old: Any) -> Any:
    """Return a setting of a rule: the old one if no new one is given."""
    if new is UNSET:
        return old
    return new


def _listed(status: Any) -> Any:
    """Return one status, or several, or none, as a collection."""
    if isinstance(status, str):
        return [status]
    return status or ()


def checked_rule(
    name: Any,
    *,
    target: Any,
    workflow: Any,
    status: Any,
    older_than: Duration | None,
    keep_last: Any,
    max_bytes: Any,
    known: set[str],
    stored: RetentionRule | None,
) -> RetentionRule:
    """Return a retention rule; settings that are UNSET are those of the *stored* rule, if there is
    one. *known* are the workflows that exist. Raises BadOption, BadDuration, UnknownWorkflow."""
    old = stored or RetentionRule(name="")
    part = _merged(target, old.target)
    workflow = _merged(workflow, old.workflow)
    status = _merged(status, old.statuses)
    keep_last = _merged(keep_last, old.keep_last)
    max_bytes = _merged(max_bytes, old.max_bytes)
    _check_rule_name(name)
    if not isinstance(part, str) or (part != RUNS and part not in FORGETTABLE):
        raise BadOption(option="target", value=part, known=", ".join([RUNS, *FORGETTABLE]))
    if checked_string("workflow", workflow) is not None and workflow not in known:
        raise UnknownWorkflow(
            workflow=workflow,
            why="no run of it was ever started here, and this process does not define it",
        )
    statuses = checked_statuses(_listed(status))
    age = old.older_than
    if older_than is not UNSET:
        age = duration.parse_optional(older_than)
    if age is not None and age < 0:
        raise BadOption(
            option="older_than", value=older_than, why="give the time since the end of a run"
        )
    for option, value in (("keep_last", keep_last), ("max_bytes", max_bytes)):
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= EVER
        ):
            raise BadOption(option=option, value=value, why="give a whole number, 1 or more")
    if age is None and keep_last is None and max_bytes is None:
        raise BadOption(
            option="retention",
            why="the rule has no bound: give older_than, keep_last or max_bytes",
        )
    if max_bytes is not None and part != RUNS:
        raise BadOption(option="max_bytes", why="only rules that delete whole runs have max_bytes")
    return RetentionRule(
        name=name,
        target=part,
        workflow=workflow,
        statuses=tuple(statuses),
        older_than=age,
        keep_last=keep_last,
        max_bytes=max_bytes,
    )


def _check_rule_name(name: Any) -> None:
    if (
        not isinstance(name, str)
        or not name
        or len(name) > 200
        or "\n" in name
        or not is_storable(name)
    ):
        raise BadOption(
            option="name", value=name, why="the name is a single line of 1 to 200 characters"
        )


def checked_statuses(statuses: Sequence[str]) -> list[str]:
    """Return statuses, sorted, each once. Raises BadOption if one is not final."""
    items = checked_many("status", statuses)
    wrong = [
        item
        for item in items
        if not isinstance(item, str) or item in LIVE or item not in set(Status)
    ]
    if wrong:
        raise BadOption(
            option="status",
            value=wrong[0],
            why=f"only finished runs are deleted: {', '.join(sorted(FINAL))}",
        )
    return sorted({str(item) for item in items})
