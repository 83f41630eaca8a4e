"""Lists for people: the one place where SQL is put together from parts."""

from __future__ import annotations

from holdfast.store.contract import RunFilter
from holdfast.store.sql_files import common

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
"""What a field of the filter asks for, if it is given."""


def list_runs(which: RunFilter) -> tuple[str, dict[str, object]]:
    """Return the query, with its values, that lists the runs of *which* from new to old."""
    given = {name: getattr(which, name) for name in _WHERE if getattr(which, name) is not None}
    clauses = [_WHERE[name] for name in given]
    values: dict[str, object] = {"limit": which.limit, **given}
    if which.roots:
        clauses.append("parent_id IS NULL")
    if which.statuses:
        names = {f"status{place}": str(status) for place, status in enumerate(which.statuses)}
        clauses.append(f"status IN ({', '.join(':' + name for name in names)})")
        values |= names
    for place, (name, value) in enumerate(which.tags.items()):
        tagged = (
            f"SELECT run_id FROM holdfast.tag WHERE name = :tag{place} AND value = :value{place}"
        )
        clauses.append(f"run.id IN ({tagged})")
        values |= {f"tag{place}": name, f"value{place}": value}
    where = f" WHERE {' AND '.join(clauses)}" if clauses else ""
    return f"{_COLUMNS}{where} ORDER BY run.id DESC LIMIT :limit", values
