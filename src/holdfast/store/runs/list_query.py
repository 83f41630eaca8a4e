"""Build the query that lists runs: one of the few places where SQL is composed from parts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.store.sql_files import common


class RunFilter(msgspec.Struct, kw_only=True):
    """Which runs to list, from new to old. ``before`` is the id of the last run of the previous
    page."""

    namespace: str | None = None
    statuses: Sequence[str] = ()
    workflow: str | None = None
    tags: dict[str, str] = {}
    since: int | None = None
    until: int | None = None
    worker: str | None = None
    parent_id: str | None = None
    roots: bool = False
    before: str | None = None
    limit: int = 50


_COLUMNS = common()["run"].split(" WHERE ")[0]
_WHERE = {
    "namespace": "namespace = :namespace",
    "workflow": "workflow = :workflow",
    "since": "created_at >= :since",
    "until": "created_at < :until",
    "worker": (
        "session_id IN (SELECT id FROM holdfast.session WHERE worker = :worker OR id = :worker)"
    ),
    "parent_id": "parent_id = :parent_id",
    "before": "run.id < :before",
}
"""The condition for each field of the filter that is given."""


def list_runs(which: RunFilter) -> tuple[str, dict[str, object]]:
    """Return the query, with its values, that lists the runs of *which* from new to old."""
    fields = {name: getattr(which, name) for name in _WHERE if getattr(which, name) is not None}
    clauses = [_WHERE[name] for name in fields]
    values: dict[str, object] = {"limit": which.limit, **fields}
    if which.roots:
        clauses.append("parent_id IS NULL")
    if which.statuses:
        names = {f"status{index}": str(status) for index, status in enumerate(which.statuses)}
        clauses.append(f"status IN ({', '.join(':' + name for name in names)})")
        values |= names
    for index, (name, value) in enumerate(which.tags.items()):
        tagged = (
            f"SELECT run_id FROM holdfast.tag WHERE name = :tag{index} AND value = :value{index}"
        )
        clauses.append(f"run.id IN ({tagged})")
        values |= {f"tag{index}": name, f"value{index}": value}
    where = f" WHERE {' AND '.join(clauses)}" if clauses else ""
    return f"{_COLUMNS}{where} ORDER BY run.id DESC LIMIT :limit", values
