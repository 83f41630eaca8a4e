"""Build the queries that count the runs which pruning would delete, without reading all of them.

Most finished runs have no children. They are counted in the index ``run_finished`` alone, and only
trees and members of graphs are read.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.status import Status
from holdfast.store.retention.operations import PruneFilter

NEVER = (1 << 63) - 1
"""Stands for the end of a run that has not ended: later than all others."""

_ROUTES = "SELECT named.id FROM holdfast.route AS named WHERE {routed}"

_ROOT = (
    "root.parent_id IS NULL AND root.finished_at < :before AND root.status IN ({statuses})"
    " AND root.route_id IN (" + _ROUTES + ")"
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
    f"(SELECT root_id, COUNT(*) AS runs, MAX(COALESCE(finished_at, {NEVER})) AS ended_at"
    " FROM holdfast.run WHERE root_id IS NOT NULL GROUP BY root_id) AS tree"
)

ROOTS = (
    "SELECT COUNT(*) AS roots FROM holdfast.run AS run holdfast.using(run_finished)"
    " WHERE run.status IN ({statuses}) AND run.root_id IS NULL"
    " AND run.finished_at IS NOT NULL AND run.finished_at < :before{in_route}"
)
"""The finished roots, including the roots of trees that are kept."""

TREES = (
    "SELECT COUNT(CASE WHEN tree.ended_at >= :before THEN 1 END) AS kept,"
    " CAST(COALESCE(SUM(CASE WHEN tree.ended_at < :before AND NOT " + _IN_LIVE_GRAPH + " THEN"
    " tree.runs END), 0) AS BIGINT) AS runs FROM " + _TREES + " JOIN holdfast.run AS root"
    " ON root.id = tree.root_id WHERE " + _ROOT
)
"""The roots with a descendant that keeps them, and the runs below the roots that are deleted."""

MEMBERS = (
    "SELECT COUNT(DISTINCT root.id) AS kept"
    # CROSS JOIN: SQLite must begin with the graphs, which are few.
    " FROM holdfast.graph AS open CROSS JOIN holdfast.graph_member AS part"
    " CROSS JOIN holdfast.run AS root WHERE open.finished_at IS NULL AND part.graph_id = open.id"
    " AND root.id = part.run_id AND " + _ROOT + " AND NOT " + _LATE
)
"""The other roots that are kept: members of a graph that has not ended."""


def composed(query: str, which: PruneFilter) -> tuple[str, dict[str, object]]:
    """Return one of the queries, with its values."""
    names = [name for name in ("namespace", "workflow") if getattr(which, name) is not None]
    values: dict[str, object] = {name: getattr(which, name) for name in names}
    values["before"] = which.before
    routed = " AND ".join(f"named.{name} = :{name}" for name in names) or "1 = 1"
    # Without a condition on routes, PostgreSQL reads the index with several processes.
    in_route = f" AND run.route_id + 0 IN ({_ROUTES.format(routed=routed)})" if names else ""
    statuses = _listed(which.statuses)
    return query.format(statuses=statuses, routed=routed, in_route=in_route), values


def _listed(statuses: Sequence[str]) -> str:
    return ", ".join(f"'{Status(status).value}'" for status in statuses)
