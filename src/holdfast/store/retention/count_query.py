"""Build the queries that count the runs which pruning would delete, without reading all of them.

Most finished runs have no children. They are counted in the index ``run_list`` alone, and only
trees and members of graphs are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.status import Status
from holdfast.store.retention.operations import PruneFilter

_ROOT = (
    "root.parent_id IS NULL AND root.finished_at < :before AND root.status IN ({statuses})"
    " AND root.route_id IN (SELECT named.id FROM holdfast.route AS named WHERE {routed})"
)
_LATE = (
    "EXISTS (SELECT 1 FROM holdfast.run AS below WHERE below.root_id = root.id"
    " AND (below.finished_at IS NULL OR below.finished_at >= :before))"
)
_IN_LIVE_GRAPH = (
    "EXISTS (SELECT 1 FROM holdfast.graph_member AS member JOIN holdfast.graph AS graph"
    " ON graph.id = member.graph_id WHERE member.run_id = root.id AND graph.finished_at IS NULL)"
)
_TREES = (
    "(SELECT root_id, COUNT(*) AS runs FROM holdfast.run WHERE root_id IS NOT NULL"
    " GROUP BY root_id) AS tree"
)

ROOTS = (
    "SELECT CAST(COALESCE(SUM((SELECT COUNT(*) FROM holdfast.run AS run holdfast.using(run_list)"
    " WHERE run.route_id + 0 = +named.id AND run.status = word.status AND run.root_id IS NULL"
    " AND run.finished_at < :before)), 0) AS BIGINT) AS runs"
    " FROM holdfast.route AS named CROSS JOIN ({words}) AS word WHERE {routed}"
)
"""The finished roots, including the roots of trees that are kept."""

KEPT = (
    "SELECT COUNT(*) AS runs FROM (SELECT root.id FROM " + _TREES + " JOIN holdfast.run AS root"
    " ON root.id = tree.root_id WHERE " + _ROOT + " AND " + _LATE + " UNION"
    # CROSS JOIN: SQLite must begin with the graphs, which are few.
    " SELECT root.id FROM holdfast.graph AS open CROSS JOIN holdfast.graph_member AS part"
    " CROSS JOIN holdfast.run AS root WHERE open.finished_at IS NULL AND part.graph_id = open.id"
    " AND root.id = part.run_id AND " + _ROOT + ") AS kept"
)
"""The roots of these that are kept: a descendant has not ended, or their graph."""

BELOW = (
    "SELECT CAST(COALESCE(SUM(tree.runs), 0) AS BIGINT) AS runs FROM " + _TREES + " JOIN"
    " holdfast.run AS root ON root.id = tree.root_id WHERE "
    + _ROOT
    + " AND NOT "
    + _LATE
    + " AND NOT "
    + _IN_LIVE_GRAPH
)
"""The runs below the roots that are deleted."""


def composed(query: str, which: PruneFilter) -> tuple[str, dict[str, object]]:
    """Return one of the queries, with its values."""
    names = [name for name in ("namespace", "workflow") if getattr(which, name) is not None]
    values: dict[str, object] = {name: getattr(which, name) for name in names}
    values["before"] = which.before
    routed = " AND ".join(f"named.{name} = :{name}" for name in names) or "1 = 1"
    sql = query.format(
        statuses=_listed(which.statuses), words=_words(which.statuses), routed=routed
    )
    return sql, values


def _listed(statuses: Sequence[str]) -> str:
    return ", ".join(f"'{Status(status).value}'" for status in statuses)


def _words(statuses: Sequence[str]) -> str:
    return " UNION ALL ".join(
        f"SELECT CAST('{Status(status).value}' AS TEXT) AS status" for status in statuses
    )
