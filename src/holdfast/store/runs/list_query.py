"""Build the query that lists runs: one of the few places where SQL is composed from parts.

A query reads one source of runs in the order of their creation, and checks the rest of the filter
for each of them. So its cost depends on the source, not on the number of finished runs. A source is
an index: of a key, a worker, a parent, a tag, a share, or of routes and statuses, each of which has
its newest runs at its end. A source of several indexes reads each of them: finished runs are found
by route and status, live runs too unless a session holds them, and held runs by their session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL, Status
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
    workflows: Sequence[str] = ()
    versions: Sequence[str] = ()
    lanes: Sequence[str] = ()
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

    def is_unrestricted(self) -> bool:
        """Return whether the filter selects all runs."""
        return msgspec.structs.replace(self, limit=RunFilter().limit) == RunFilter()


class RunPage(msgspec.Struct):
    """Some runs of a list, and the place after which the next page begins; None at the end."""

    runs: list[RunRecord]
    next: RunCursor | None


Values = dict[str, object]
Probe = Callable[[str, Values], int]
"""Return how many rows a query counts."""

RECORD = common()["run"].split(" WHERE ")[0]
"""The columns of a listed run, and the tables that they are from."""

FEW = 1000
"""So many children of a run are sorted; of more, the newest are read in order."""

FEW_IDS = 10_000
"""So many runs are sorted that are found by the beginning of their ids."""

PROBED = 1000
"""So many runs of a source are counted, at most, to find the source with the fewest."""

_LAST_CHARACTER = "\U0010ffff"
_COMMON = (Status.COMPLETED, Status.RUNNING, Status.PENDING, Status.WAITING)
"""The statuses that the index ``run_notable`` leaves out, in its order: SQLite compares the
conditions."""
_NOTABLE = frozenset(Status) - frozenset(_COMMON)

_OF_ROUTE = ("namespace", "workflows", "versions", "lanes")
"""The fields of a filter that select routes."""
_LISTED = {"workflows": "workflow", "versions": "version", "lanes": "lane"}
"""The fields that name several values of a route, any of which will do, with their columns."""
_ORDER = "ORDER BY {0}.created_at DESC, {0}.{1} DESC LIMIT :limit"

_STORED_KEYS = (
    "SELECT named.namespace || CAST(:separator AS TEXT) || named.workflow"
    " || CAST(:separator AS TEXT) || CAST(:key AS TEXT) FROM holdfast.route AS named"
)
"""A key as it is stored in each namespace and workflow."""

_SESSIONS = "SELECT id FROM holdfast.session WHERE worker = :worker OR id = :worker"
_TREE = "SELECT COALESCE(top.root_id, top.id) FROM holdfast.run AS top WHERE top.id = :parent_id"
_TAG = "holdfast.tag AS tag"
_TAGGED = f"{_TAG} CROSS JOIN holdfast.run AS run"
_OF_TAG = " AND run.id = tag.run_id"
_ROUTES = "SELECT named.id FROM holdfast.route AS named WHERE {}"


class Source(msgspec.Struct, frozen=True):
    """Where to read runs: the tables and condition of an index, the fields of the filter that it
    already answers, and whether it returns the runs from new to old."""

    tables: str
    condition: str
    answers: tuple[str, ...]
    is_ordered: bool = True


_KEY = Source("holdfast.run AS run", f"run.key IN ({_STORED_KEYS})", ("key",), is_ordered=False)
_WORKER = Source(
    "holdfast.run AS run", f"run.session_id IN ({_SESSIONS})", ("worker",), is_ordered=False
)
_ID = Source(
    "holdfast.run AS run", "run.id >= :first_id AND run.id < :last_id", ("id_prefix",), False
)
_PARENT = Source(
    "holdfast.run AS run holdfast.using(run_child)",
    "run.parent_id = :parent_id",
    ("parent_id",),
    is_ordered=False,
)
_DESCENDANTS = Source(
    "holdfast.run AS run holdfast.using(run_root)", f"run.root_id = ({_TREE})", ()
)
_SHARE = Source(
    "holdfast.run AS run holdfast.using(run_of_share)", "run.share = :share", ("share",)
)
_ROOTS = Source(
    "holdfast.run AS run holdfast.using(run_newest_root)", "run.parent_id IS NULL", ("roots",)
)
_CHILDREN = Source(
    "holdfast.run AS run holdfast.using(run_newest_child)", "run.parent_id IS NOT NULL", ()
)
_BY_STATUS = Source(
    "holdfast.run AS run holdfast.using(run_notable)",
    "run.status = word.status AND {notable}",
    ("statuses",),
)
# `route_id + 0` as the index has it: SQLite uses an index of an expression only for the same one.
_FINISHED = Source(
    "holdfast.run AS run holdfast.using(run_finished)",
    "run.route_id + 0 = +route.id AND run.status = word.status AND run.finished_at IS NOT NULL",
    ("statuses", *_OF_ROUTE),
)
_IDLE = Source(
    "holdfast.run AS run holdfast.using(run_idle)",
    "run.route_id + 0 = +route.id AND run.status = word.status AND run.finished_at IS NULL"
    " AND run.session_id IS NULL",
    ("statuses", *_OF_ROUTE),
)
_HELD = Source("holdfast.run AS run holdfast.using(run_held)", "run.session_id = holder.id", ())
_BY_ROUTE = Source("", "", ())
"""Finished, idle and held runs, as far as the statuses of the filter ask for them."""


def list_runs(which: RunFilter, probe: Probe) -> tuple[str, Values]:
    """Return the query, with its values, that lists the runs of *which* from new to old."""
    page, values = list_places(which, probe)
    # The outer join keeps a run without a route in the page, so that the page is not cut short.
    columns = RECORD.replace(
        " FROM holdfast.run AS run JOIN ",
        f" FROM ({page}) AS page JOIN holdfast.run AS run ON run.id = page.id LEFT JOIN ",
    )
    return f"{columns} ORDER BY page.created_at DESC, page.id DESC", values


def list_places(which: RunFilter, probe: Probe) -> tuple[str, Values]:
    """Return the query, with its values, for the places of the same runs, in the same order."""
    source = choose(which, probe)
    sql = (
        f"SELECT listed.created_at, listed.id FROM ({_candidates(which, source)}) AS listed"
        f" {_ORDER.format('listed', 'id')}"
    )
    return sql, values_of(which)


def count_runs(which: RunFilter, probe: Probe) -> tuple[str, Values]:
    """Return the query, with its values, that counts the runs of *which*."""
    values = values_of(which)
    if which.is_unrestricted():
        return "SELECT COUNT(*) AS runs FROM holdfast.run", values
    parts = _parts(which, choose(which, probe))
    return f"SELECT {' + '.join(_counted(which, part) for part in parts)} AS runs", values


def _counted(which: RunFilter, part: Source) -> str:
    counted = f"(SELECT COUNT(*) FROM {part.tables} WHERE {_where(which, part)})"
    outer = _branches(which, part)
    if outer is None:
        return counted
    return f"(SELECT CAST(COALESCE(SUM({counted}), 0) AS BIGINT) FROM {outer})"


def choose(which: RunFilter, probe: Probe) -> Source:
    """Return the source from which the fewest runs are read."""
    if which.key is not None:
        return _KEY
    if which.worker is not None:
        return _WORKER
    values = values_of(which)
    if which.id_prefix is not None and _size(_ID, values, probe, FEW_IDS) < FEW_IDS:
        return _ID
    if which.parent_id is not None and _size(_PARENT, values, probe, FEW) < FEW:
        return _PARENT
    sources = _ordered_sources(which)
    if len(sources) == 1:
        return sources[0]
    sizes = [
        sum(
            _size(part, values, probe, PROBED, _branches(which, part))
            for part in _parts(which, source)
        )
        for source in sources
    ]
    return sources[sizes.index(min(sizes))]


def _ordered_sources(which: RunFilter) -> list[Source]:
    """Return the indexes that hold the wanted runs in the order of their creation."""
    sources = []
    is_routed = bool(_routed(which))
    if which.statuses and not is_routed and _NOTABLE.issuperset(which.statuses):
        sources.append(_BY_STATUS)
    elif which.statuses:
        sources.append(_BY_ROUTE)
    if which.parent_id is not None:
        sources.append(_DESCENDANTS)
    if which.share is not None:
        sources.append(_SHARE)
    sources += [_tag_source(index) for index in range(len(which.tags))]
    # Last: without a status, routes have the most runs.
    if is_routed and not which.statuses:
        sources.append(_BY_ROUTE)
    return sources or [_ROOTS]


def _tag_source(index: int) -> Source:
    return Source(
        _TAGGED, f"tag.name = :tag{index} AND tag.value = :value{index}{_OF_TAG}", (f"tag{index}",)
    )


def _size(source: Source, values: Values, probe: Probe, most: int, outer: str | None = None) -> int:
    """Return how many runs a source has, at most *most*."""
    tables = source.tables if outer is None else f"{outer} CROSS JOIN {source.tables}"
    condition = source.condition.format(notable=_IS_NOTABLE)
    # The tag alone is counted: the join with its runs would cost a lookup each.
    if tables.startswith(_TAGGED):
        tables = _TAG
        condition = condition.removesuffix(_OF_TAG)
    return probe(
        f"SELECT COUNT(*) AS runs FROM (SELECT 1 AS one FROM {tables} WHERE {condition}"
        f" LIMIT {most}) AS counted",
        values,
    )


_IS_NOTABLE = " AND ".join(f"run.status <> '{status.value}'" for status in _COMMON)


def _candidates(which: RunFilter, source: Source) -> str:
    """Return the query for the runs of a source that match, at least as many of the newest as a
    page holds."""
    if not source.is_ordered:
        return f"SELECT run.created_at, run.id FROM {source.tables} WHERE {_where(which, source)}"
    return " UNION ALL ".join(_newest_of_each(which, part) for part in _parts(which, source))


def _newest_of_each(which: RunFilter, part: Source) -> str:
    outer = _branches(which, part)
    if outer is None:
        return f"SELECT part.created_at, part.id FROM ({_newest(which, part)}) AS part"
    each = f"holdfast.each({_newest(which, part)}holdfast.end_of_each()"
    return f"SELECT holdfast.found() FROM {outer} CROSS JOIN {each}"


def _parts(which: RunFilter, source: Source) -> list[Source]:
    """Return the indexes of a source: roots and children have one each, and so have finished, idle
    and held runs."""
    if source is _ROOTS and not which.roots:
        return [_ROOTS, _CHILDREN]
    if source is not _BY_ROUTE:
        return [source]
    parts = [_FINISHED] if _statuses(which, _FINISHED) else []
    return [*parts, _IDLE, _HELD] if _statuses(which, _IDLE) else parts


def _statuses(which: RunFilter, part: Source) -> list[str]:
    """Return the wanted statuses of finished runs, or of live ones."""
    wanted = [Status(status) for status in which.statuses or Status]
    return [status.value for status in wanted if (status in FINAL) == (part is _FINISHED)]


def _newest(which: RunFilter, source: Source) -> str:
    """Return the query for the newest runs of a source."""
    order = _ORDER.format("run", "id")
    columns = "run.created_at, run.id"
    if source.tables.startswith(_TAG):
        order = _ORDER.format("tag", "run_id")
    return f"SELECT {columns} FROM {source.tables} WHERE {_where(which, source)} {order}"


def _branches(which: RunFilter, source: Source) -> str | None:
    """Return the tables with a row for each part of a source that has an order of its own: each
    status, in each route, or each session; None if the source has one order."""
    if source is _BY_STATUS:
        return f"({_words(which.statuses)}) AS word"
    if source is _HELD:
        return "holdfast.session AS holder"
    if source not in (_FINISHED, _IDLE):
        return None
    words = f"({_words(_statuses(which, source))}) AS word"
    routed = _routed(which)
    routes = _ROUTES.format(routed) if routed else "SELECT id FROM holdfast.route"
    return f"({routes}) AS route CROSS JOIN {words}"


def _words(statuses: Sequence[str]) -> str:
    return " UNION ALL ".join(
        f"SELECT CAST('{Status(status).value}' AS TEXT) AS status" for status in statuses
    )


def _where(which: RunFilter, source: Source) -> str:
    """Return the condition of a source, and what it leaves to check of the filter."""
    is_tag = source.tables.startswith(_TAG)
    times = ("tag.created_at", "tag.run_id") if is_tag else ("run.created_at", "run.id")
    clauses = {
        **_conditions(which),
        **_tag_conditions(which, *times),
        **_time_conditions(which, *times),
    }
    left = [clause for name, clause in clauses.items() if name not in source.answers]
    return " AND ".join([source.condition.format(notable=_IS_NOTABLE), *left])


def _conditions(which: RunFilter) -> dict[str, str]:
    """Return the conditions of a filter on a run, by what they check."""
    clauses: dict[str, str] = {}
    routed = _routed(which)
    if routed:
        clauses["namespace"] = f"run.route_id IN ({_ROUTES.format(routed)})"
    if which.statuses:
        words = ", ".join(f"'{Status(status).value}'" for status in which.statuses)
        clauses["statuses"] = f"run.status IN ({words})"
    if which.roots:
        clauses["roots"] = "run.parent_id IS NULL"
    if which.share is not None:
        clauses["share"] = "run.share = :share"
    if which.parent_id is not None:
        clauses["parent_id"] = "run.parent_id = :parent_id"
    if which.worker is not None:
        clauses["worker"] = _WORKER.condition
    if which.id_prefix is not None:
        clauses["id_prefix"] = _ID.condition
    return clauses


def _routed(which: RunFilter) -> str:
    """Return the condition of a filter on a route; an empty text if all routes match."""
    clauses = [] if which.namespace is None else ["named.namespace = :namespace"]
    for field, column in _LISTED.items():
        names = [f":{column}{index}" for index in range(len(getattr(which, field)))]
        if names:
            clauses.append(f"named.{column} IN ({', '.join(names)})")
    return " AND ".join(clauses)


def _tag_conditions(which: RunFilter, created_at: str, run_id: str) -> dict[str, str]:
    # OFFSET: PostgreSQL would otherwise join all runs of both tags to show the newest of them.
    return {
        f"tag{index}": f"EXISTS (SELECT 1 FROM holdfast.tag AS other WHERE other.name = :tag{index}"
        f" AND other.value = :value{index} AND other.created_at = {created_at}"
        f" AND other.run_id = {run_id} LIMIT 1 OFFSET 0)"
        for index in range(len(which.tags))
    }


def _time_conditions(which: RunFilter, created_at: str, run_id: str) -> dict[str, str]:
    clauses: dict[str, str] = {}
    if which.since is not None:
        clauses["since"] = f"{created_at} >= :since"
    if which.until is not None:
        clauses["until"] = f"{created_at} < :until"
    if which.after is not None:
        clauses["after"] = f"({created_at}, {run_id}) < (:after_at, :after_id)"
    return clauses


def values_of(which: RunFilter) -> Values:
    """Return the values of the parameters."""
    names = ("namespace", "share", "since", "until", "worker", "parent_id")
    values: Values = {"limit": which.limit}
    values |= {name: value for name in names if (value := getattr(which, name)) is not None}
    for field, column in _LISTED.items():
        values |= {f"{column}{index}": text for index, text in enumerate(getattr(which, field))}
    if which.key is not None:
        values |= {"key": which.key, "separator": "\n"}
    if which.id_prefix is not None:
        values |= {"first_id": which.id_prefix, "last_id": which.id_prefix + _LAST_CHARACTER}
    if which.after is not None:
        values |= {"after_at": which.after.created_at, "after_id": which.after.id}
    for index, (name, value) in enumerate(which.tags.items()):
        values |= {f"tag{index}": name, f"value{index}": value}
    return values
