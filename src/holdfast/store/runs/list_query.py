"""Build the query that lists runs: one of the few places where SQL is composed from parts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.runs import RunRecord
from holdfast.store.sql_files import common


class RunCursor(msgspec.Struct, frozen=True):
    """The place of a run in a list: its time of creation and, among runs of the same instant, its
    id."""

    created_at: int
    id: str

    def text(self) -> str:
        """Return the cursor as callers pass it on."""
        return f"{self.created_at}:{self.id}"


class RunFilter(msgspec.Struct, kw_only=True):
    """Which runs to list, from new to old by their time of creation. ``after`` is the place of the
    last run of the previous page. All values are plain, so that a filter can be stored as JSON."""

    namespace: str | None = None
    statuses: Sequence[str] = ()
    workflow: str | None = None
    version: str | None = None
    lane: str | None = None
    share: str | None = None
    tags: dict[str, str] = {}
    key: str | None = None
    id_prefix: str | None = None
    since: int | None = None
    until: int | None = None
    worker: str | None = None
    parent_id: str | None = None
    roots: bool = False
    after: RunCursor | None = None
    limit: int = 50


class RunPage(msgspec.Struct):
    """Some runs of a list, and the place after which the next page begins; None at the end."""

    runs: list[RunRecord]
    next: RunCursor | None


_COLUMNS = common()["run"].split(" WHERE ")[0]
_PLACES = f"SELECT run.id, run.created_at{_COLUMNS[_COLUMNS.index(' FROM ') :]}"
_WHERE = {
    "namespace": "namespace = :namespace",
    "workflow": "workflow = :workflow",
    "version": "version = :version",
    "lane": "lane = :lane",
    "share": "share = :share",
    "since": "created_at >= :since",
    "until": "created_at < :until",
    "worker": (
        "session_id IN (SELECT id FROM holdfast.session WHERE worker = :worker OR id = :worker)"
    ),
    "parent_id": "parent_id = :parent_id",
}
"""The condition for each field of the filter that is given."""

_STORED_KEYS = (
    "SELECT named.namespace || CAST(:separator AS TEXT) || named.workflow"
    " || CAST(:separator AS TEXT) || :key FROM holdfast.route AS named"
)
"""A key as it is stored in each namespace and workflow."""

_LAST_CHARACTER = "\U0010ffff"


def list_runs(which: RunFilter) -> tuple[str, dict[str, object]]:
    """Return the query, with its values, that lists the runs of *which* from new to old."""
    where, values = _conditions(which)
    values["limit"] = which.limit
    return f"{_COLUMNS}{where} ORDER BY run.created_at DESC, run.id DESC LIMIT :limit", values


def count_runs(which: RunFilter) -> tuple[str, dict[str, object]]:
    """Return the query, with its values, that counts the runs of *which*."""
    where, values = _conditions(which)
    source = _COLUMNS[_COLUMNS.index(" FROM ") :]
    return f"SELECT COUNT(*) AS runs{source}{where}", values


def _conditions(which: RunFilter) -> tuple[str, dict[str, object]]:
    values = {name: getattr(which, name) for name in _WHERE if getattr(which, name) is not None}
    clauses = [_WHERE[name] for name in values]
    if which.roots:
        clauses.append("parent_id IS NULL")
    if which.id_prefix is not None:
        clauses.append("run.id >= :first_id AND run.id < :last_id")
        values |= {"first_id": which.id_prefix, "last_id": which.id_prefix + _LAST_CHARACTER}
    if which.key is not None:
        clauses.append(f"run.key IN ({_STORED_KEYS})")
        values |= {"key": which.key, "separator": "\n"}
    if which.after is not None:
        clauses.append("(run.created_at, run.id) < (:after_at, :after_id)")
        values |= {"after_at": which.after.created_at, "after_id": which.after.id}
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
    return f" WHERE {' AND '.join(clauses)}" if clauses else "", values


def list_places(which: RunFilter) -> tuple[str, dict[str, object]]:
    """Return the query, with its values, for the places of the same runs, in the same order."""
    sql, values = list_runs(which)
    return sql.replace(_COLUMNS, _PLACES, 1), values
