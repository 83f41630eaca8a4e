"""Detect damaged rows: the values that each column may hold, and the error for a row with others.

A file can be damaged by a failing disk, a bad restore or a careless `UPDATE`; SQLite accepts text
in a column of numbers. Every row that a store reads is checked here before any other code sees it.
A row that cannot be right becomes `RowDamaged`, which names the table, the row and the column.
Lists leave such rows out, single reads raise the error, operations set the row aside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from holdfast.core import duration
from holdfast.core.budgets.rules import CALENDAR, ON_BREACH, UNIT
from holdfast.core.envelope import is_sealed, split
from holdfast.core.events import EventRole
from holdfast.core.flows.model import FlowStatus, FlowStepStatus, FlowWait
from holdfast.core.gates.model import GATE_ACTIONS, EntryDetail, GateTerms
from holdfast.core.gates.model import STATUSES as GATE_STATUSES
from holdfast.core.graphs.model import (
    GraphStatus,
    GroupState,
    MemberSpec,
    MemberState,
    RemainderPolicy,
)
from holdfast.core.runs import CancelCause, StuckCause
from holdfast.core.schedules import rules, time_zones
from holdfast.core.schedules.model import MISFIRES, OVERLAPS
from holdfast.core.status import Status
from holdfast.core.streams.model import FrameKind, StreamMode
from holdfast.core.subscriptions import CURSOR, KINDS, WEBHOOK, EventFilter, checked_url
from holdfast.core.tasks.policy import TaskPolicy
from holdfast.core.tokens import SHORTEST_SECRET
from holdfast.errors import BadData, BadOption, BadSchedule, RowDamaged
from holdfast.store import sql_files
from holdfast.store.tables import FORGETTABLE

LARGEST = 2**62
"""The largest number that a column may hold: arithmetic in the database must not overflow."""

MISSING = "the value is missing"

LONGEST_KEY = 300
"""How many characters of a key an error shows."""

_TYPES: Mapping[str, tuple[type, ...]] = {
    "INTEGER": (int,),
    "BIGINT": (int,),
    "SMALLINT": (int,),
    "TEXT": (str,),
    "BLOB": (bytes, memoryview),
    "BYTEA": (bytes, memoryview),
    "REAL": (float, int),
    "DOUBLE PRECISION": (float, int),
}
_NAMES = {
    int: "a whole number",
    str: "text",
    bytes: "bytes",
    memoryview: "bytes",
    float: "a number with a fraction",
}
_TIMES = frozenset({"at", "until", "deadline", "anchor", "latest", "attempt_until"})
_COUNTS = frozenset(
    {
        "amount",
        "attempt",
        "attempts",
        "catch_up",
        "crashes",
        "events",
        "frames",
        "generation",
        "grace",
        "jitter",
        "last_seq",
        "live",
        "members",
        "missing",
        "parts",
        "queue_limit",
        "revision",
        "seen_revision",
        "size",
        "stored",
        "streams",
        "written",
    }
)
"""The columns that count or measure something: they hold no number below 0."""

_RULES = frozenset({"older_than", "keep_last", "max_bytes"})
"""The columns of a retention rule that determine the rows to delete."""

_GROWING = frozenset({"generation", "revision"})
"""The columns that grow with every write. A number without room to grow would fail the transaction,
and with it the other operations of the batch."""

_SECRET = frozenset({"secret"})

WORDS: Mapping[tuple[str, str], frozenset[str]] = {
    ("run", "status"): frozenset(Status),
    ("run", "cancel_cause"): frozenset(CancelCause),
    ("run", "stuck_cause"): frozenset(StuckCause),
    ("graph", "status"): frozenset(GraphStatus),
    ("graph_member", "state"): frozenset(MemberState),
    ("graph_group", "state"): frozenset(GroupState),
    ("graph_group", "rest"): frozenset(RemainderPolicy),
    ("flow", "status"): frozenset(FlowStatus),
    ("flow_step", "status"): frozenset(FlowStepStatus),
    ("gate", "status"): frozenset(GATE_STATUSES),
    ("schedule", "overlap"): frozenset(OVERLAPS),
    ("schedule", "misfire"): frozenset(MISFIRES),
    ("event", "kind"): KINDS | {"numbered"},  # a trigger keeps the last number with it
    ("event", "role"): frozenset(EventRole),
    ("budget", "on_breach"): frozenset(ON_BREACH),
    ("subscription", "kind"): frozenset({CURSOR, WEBHOOK}),
    ("gate_entry", "kind"): GATE_ACTIONS,
    ("tick", "kind"): frozenset({"tick", "trigger", "backfill"}),
    ("retention", "what"): frozenset({"runs", *FORGETTABLE}),
    ("frame", "kind"): frozenset(FrameKind),
    ("frame", "mode"): frozenset(StreamMode),
}
"""The columns that hold one of a few words."""


class Parked(msgspec.Struct):
    """The fields that every kind of wait of a parked run has; other code reads the rest."""

    kind: str
    step: str | None = None
    until: int | None = None
    gives_up: int | None = None


JSON: Mapping[str, Mapping[str, Any]] = {
    "run": {"waits": list[Parked]},
    "session": {"serves": dict[str, Any]},
    "lane": {"weights": dict[str, float]},
    "gate": {
        "terms": GateTerms,
        "assignees": tuple[str, ...],
        "roles": tuple[str, ...],
        "data": Any,
    },
    "gate_entry": {"detail": EntryDetail},
    "schedule": {"tags": dict[str, str], "queued": list[int], "rule": dict[str, Any]},
    "task": {"policy": TaskPolicy},
    "flow": {"wait": FlowWait, "state": Any},
    "flow_step": {"result": Any},
    "flow_event": {"payload": Any},
    "graph": {"summary": dict[str, int]},
    "graph_event": {"data": Any},
    "graph_member": {"spec": MemberSpec},
    "subscription": {"which": EventFilter},
}
"""The columns that hold JSON of the engine itself, with their types. Values of users may be sealed,
and are checked where they are opened."""


VALUES: Mapping[str, tuple[str, ...]] = {
    "run": ("input", "result", "error"),
    "large_input": ("input",),
    "event": ("data", "error"),
    "signal": ("payload",),
    "schedule": ("input",),
    "graph_member": ("input",),
}
"""The columns that hold values of users: JSON or sealed, unless a codec of the user writes another
format."""


class ColumnShape(msgspec.Struct, frozen=True):
    """A column: its declared types, whether it holds instants, and the words that it may hold, if
    they are few."""

    name: str
    types: frozenset[type]
    is_time: bool
    words: frozenset[str] | None = None
    required: bool = False
    """Whether the column is declared NOT NULL or is the key. The answer of a query, such as of a
    join, may hold NULL all the same; a row of the table may not."""

    def wrong(self, value: object) -> str | None:
        """Return why the column must not hold *value*; None if it may."""
        if value is None:
            return None
        if type(value) not in self.types:
            return (
                f"{_shown(self.name, value)} is {_NAMES.get(type(value), 'no value')}, not"
                f" {_NAMES[min(self.types, key=str)]}"
            )
        if self.words is not None and value not in self.words:
            return f"{_shown(self.name, value)} is none of {', '.join(sorted(self.words))}"
        least, most = self.span
        if isinstance(value, int) and not least <= value <= most:
            return f"{value} is out of range"
        return None

    @property
    def is_judged_each_time(self) -> bool:
        """Whether every number is checked, not only its type: no row may be deleted because of a
        damaged retention rule, and a number that cannot grow fails the transaction that increases
        it."""
        return self.is_time or self.name in _RULES or self.name in _GROWING

    @property
    def span(self) -> tuple[int, int]:
        """The least and the largest number that the column may hold."""
        if self.is_judged_each_time:
            return 0, duration.LAST_INSTANT
        if self.name in _COUNTS:
            return 0, LARGEST
        return (-1000, 1000) if self.name == "priority" else (-LARGEST, LARGEST)


class TableShape(msgspec.Struct, frozen=True):
    """A table of the schema: its columns by name, and the columns of its key."""

    name: str
    columns: dict[str, ColumnShape]
    key: tuple[str, ...]


_TABLE = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?holdfast[._](\w+) \((.*?)\n\)", re.DOTALL)
_COLUMN = re.compile(rf"^\s*(\w+) ({'|'.join(_TYPES)})\b(.*)$", re.MULTILINE)
_ADDED = re.compile(rf"ALTER TABLE holdfast\.(\w+) ADD COLUMN (\w+) ({'|'.join(_TYPES)})\b([^;]*)")
_KEY = re.compile(r"^\s*PRIMARY KEY \(([\w, ]+)\)", re.MULTILINE)
_NAMED = re.compile(r"\bholdfast[._](\w+)")


@cache
def schema(dialect: str = "sqlite") -> dict[str, TableShape]:
    """Return every table of the schema by name, as the migrations declare it."""
    tables: dict[str, dict[str, ColumnShape]] = {}
    keys: dict[str, tuple[str, ...]] = {}
    for _, _, text in sql_files.migrations(dialect):
        bare = re.sub(r"--[^\n]*", "", text)
        for name, body in _TABLE.findall(bare):
            declared = _COLUMN.findall(body)
            tables[name] = {
                column: _column(name, column, kind, rest) for column, kind, rest in declared
            }
            keys[name] = _key_of(body, declared)
        for name, column, kind, rest in _ADDED.findall(bare):
            tables[name][column] = _column(name, column, kind, rest)
    return {name: TableShape(name, columns, keys[name]) for name, columns in tables.items()}


def _key_of(body: str, declared: list[tuple[str, str, str]]) -> tuple[str, ...]:
    """Return the primary key of a table, without the transaction number (``xid8``) of PostgreSQL's
    events: queries do not read it as a column, and the id of an event is unique without it."""
    composite = _KEY.search(body)
    if composite is None:
        return tuple(column for column, _, rest in declared if "PRIMARY KEY" in rest)
    names = {column for column, _, _ in declared}
    return tuple(column for column in composite[1].split(", ") if column in names)


def _column(table: str, name: str, kind: str, rest: str) -> ColumnShape:
    is_time = _TYPES[kind] == (int,) and (name in _TIMES or name.endswith("_at"))
    required = "NOT NULL" in rest or "PRIMARY KEY" in rest
    return ColumnShape(name, frozenset(_TYPES[kind]), is_time, WORDS.get((table, name)), required)


class QueryShape:
    """The columns of one query's rows, and the check of a row.

    A row is checked by the types of its values and by its words. The combinations that passed
    before are cached, so that the check costs about a microsecond.
    """

    __slots__ = ("_columns", "_known", "_times", "_words", "json", "names", "table")

    def __init__(self, sql: str, names: Sequence[str]) -> None:
        tables = [schema()[name] for name in dict.fromkeys(_NAMED.findall(sql)) if name in schema()]
        self.table = _main_table(sql, tables)
        self.names = tuple(names)
        kinds = JSON.get(self.table.name, {}) if self.table is not None else {}
        self.json = tuple((name, kind) for name, kind in kinds.items() if name in self.names)
        """The columns of the main table that hold JSON of the engine, each with its type."""
        self._columns = [
            _merged(name, [table.columns[name] for table in tables if name in table.columns])
            for name in names
        ]
        self._words = tuple(
            index
            for index, column in enumerate(self._columns)
            if column is not None and column.words is not None
        )
        self._times = tuple(
            index
            for index, column in enumerate(self._columns)
            if column is not None and column.is_judged_each_time
        )
        self._known: set[tuple[object, ...]] = set()

    def is_sound(self, cells: Sequence[Any]) -> bool:
        """Return whether the columns may hold these values."""
        signature = (*map(type, cells), *[cells[index] for index in self._words])
        if signature in self._known:
            for index in self._times:
                value = cells[index]
                if value is not None and not 0 <= value <= duration.LAST_INSTANT:
                    return False
            return True
        if self.wrong(cells) is not None:
            return False
        self._known.add(signature)
        return True

    def wrong(self, cells: Sequence[Any]) -> tuple[str, str] | None:
        """Return the first column whose value cannot be right, and the reason; None if
        all may be."""
        for name, column, value in zip(self.names, self._columns, cells, strict=True):
            why = None if column is None else column.wrong(value)
            if why is not None:
                return name, why
        return None

    def damage(self, cells: Sequence[Any], values: Mapping[str, object]) -> RowDamaged:
        """Return the error for a damaged row that a query with these values has returned."""
        column, why = self.wrong(cells) or ("?", "the row cannot be read")
        place = place_of(self.table, {**values, **dict(zip(self.names, cells, strict=True))})
        return damaged(self.table.name if self.table else "?", place, column, why)


def _main_table(sql: str, tables: list[TableShape]) -> TableShape | None:
    """Return the table after the outermost FROM of a query, or the first one that it names."""
    # Two levels of parentheses are removed: subqueries, and calls within them.
    outer = re.sub(r"\([^()]*\)", "", re.sub(r"\([^()]*\)", "", sql))
    match = re.search(r"\bFROM holdfast[._](\w+)", outer)
    named = schema().get(match[1]) if match else None
    return named or (tables[0] if tables else None)


def _merged(name: str, columns: Sequence[ColumnShape]) -> ColumnShape | None:
    """Return the shape of a result column that several tables of the query have."""
    if len(columns) < 2:
        return columns[0] if columns else None
    words = (
        None
        if any(column.words is None for column in columns)
        else frozenset().union(*(column.words or () for column in columns))
    )
    return ColumnShape(
        name,
        frozenset().union(*(column.types for column in columns)),
        all(column.is_time for column in columns),
        words,
    )


_ALIASES = {
    "id": ("run_id", "gate_id", "flow_id", "graph_id", "session_id"),
    "run_id": ("id",),
    "budget": ("name",),
}


def place_of(table: TableShape | None, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of the key of a row, as far as the query has returned them."""
    if table is None:
        return {}
    place: dict[str, Any] = {}
    for name in table.key:
        column = next((alias for alias in (name, *_ALIASES.get(name, ())) if alias in row), None)
        if column is not None:
            place[name] = row[column]
    if "run_id" in table.columns and "run_id" in row:
        place.setdefault("run_id", row["run_id"])
    return place


def damaged(table: str, place: dict[str, Any], column: str, why: str) -> RowDamaged:
    """Return the error for a row with a column that cannot be right."""
    return RowDamaged(
        table=table, key=" ".join(map(_plain, place.values())), column=column, why=why, place=place
    )


def without_route(run_id: str, route_id: int) -> RowDamaged:
    """Return the error for a run whose route was deleted, so that its workflow is unknown."""
    return damaged("run", {"id": run_id}, "route_id", f"the route {route_id} does not exist")


def _plain(value: object) -> str:
    """Return a part of a key in full, so that it can be searched for; a very long text is cut."""
    if not isinstance(value, str):
        return _shown("", value)
    return value if len(value) <= LONGEST_KEY else f"{value[:LONGEST_KEY]}..."


def _shown(name: str, value: object) -> str:
    """Return a value for an error: shortened, and never a secret or bytes that may be a user's."""
    if isinstance(value, bytes | memoryview):
        return f"{len(value)} bytes"
    text = "..." if name in _SECRET else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_shapes: dict[str, QueryShape] = {}


def cells_of(row: Any) -> tuple[Any, ...]:
    """Return the values of a row of either driver."""
    return tuple(row.values()) if type(row) is dict else tuple(row)


def shape_of(sql: str, row: Any) -> QueryShape:
    """Return the cached shape of the rows of *sql*; *row* is one of them."""
    shape = _shapes.get(sql)
    if shape is None:
        shape = _shapes[sql] = QueryShape(sql, list(row.keys()))
    return shape


def checked(sql: str, rows: list[Any], values: Any = ()) -> list[Any]:
    """Return the rows of *sql*. Raises RowDamaged if one of them is damaged."""
    if not rows:
        return rows
    shape = shape_of(sql, rows[0])
    for row in rows:
        cells = cells_of(row)
        if not shape.is_sound(cells):
            raise shape.damage(cells, _parameters(values))
    return rows


def sifted(sql: str, rows: list[Any], values: Any = ()) -> tuple[list[Any], list[RowDamaged]]:
    """Return the sound rows of *sql*, and the errors for the damaged ones."""
    if not rows:
        return rows, []
    shape = shape_of(sql, rows[0])
    damaged_cells = [cells for row in rows if not shape.is_sound(cells := cells_of(row))]
    if not damaged_cells:
        return rows, []
    sound = [row for row in rows if shape.is_sound(cells_of(row))]
    return sound, [shape.damage(cells, _parameters(values)) for cells in damaged_cells]


def _parameters(values: Any) -> Mapping[str, object]:
    """Return the named parameters of a query; none if they were given by position."""
    return values if isinstance(values, dict) else {}


def as_dict(row: Any) -> dict[str, Any]:
    """Return a row by the names of its columns."""
    return row if type(row) is dict else dict(zip(row.keys(), row, strict=True))


def described(damage: RowDamaged) -> str:
    """Return a line with the place of a damaged row and the reason."""
    facts = damage.facts
    return (
        f"damaged row in {facts['table']}: {facts['key']}, column {facts['column']}: {facts['why']}"
    )


def wrongs(table: TableShape, row: dict[str, Any]) -> Iterator[RowDamaged]:
    """Yield an error for each column of a table's row that cannot be right, except values
    of users."""
    reasons = {
        name: why
        for name, value in row.items()
        if (why := table.columns[name].wrong(value)) is not None
    }
    reasons |= dict.fromkeys(_missing(table, row), MISSING)
    for name, why in wrong_json(table.name, row):
        reasons.setdefault(name, why)
    if "zone" in row or table.name in _MEANT:
        for name, why in (
            *_unknown_zones(row),
            *_bad_addresses(table, row),
            *_bad_numbers(table, row),
        ):
            reasons.setdefault(name, why)
    for column, why in reasons.items():
        yield damaged(table.name, place_of(table, row), column, why)


def _missing(table: TableShape, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the columns of a row that hold NULL although they must not."""
    return (
        name
        for name, value in row.items()
        if value is None and name in table.columns and table.columns[name].required
    )


def whole(table_name: str, rows: list[Any]) -> list[Any]:
    """Return rows of a table. Raises RowDamaged if a required value is missing: a damaged file can
    hold NULL where its own schema forbids it."""
    table = schema()[table_name]
    for row in rows:
        cells = as_dict(row)
        for name in _missing(table, cells):
            raise damaged(table.name, place_of(table, cells), name, MISSING)
    return rows


def _unknown_zones(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the column of a row that names a time zone which this machine does not know."""
    try:
        time_zones.zone_of(row.get("zone", "UTC"))
    except BadSchedule as error:
        yield "zone", str(error.facts["why"])


_MEANT = frozenset({"budget", "key", "subscription"})
"""The tables with columns whose values must also have a meaning, such as a URL."""


def _bad_numbers(table: TableShape, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the reset interval of a budget if it is not usable, and a secret that is too short."""
    resets = row.get("resets") if table.name == "budget" else None
    if (
        isinstance(resets, str)
        and resets not in CALENDAR
        and not (resets.isascii() and resets.isdigit() and int(resets) >= UNIT)
    ):
        yield "resets", f"the value is neither {', '.join(CALENDAR)} nor a number of microseconds"
    secret = row.get("secret") if table.name == "key" else None
    if isinstance(secret, bytes | memoryview) and len(secret) < SHORTEST_SECRET:
        yield "secret", "the secret is too short"


def _bad_addresses(table: TableShape, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the column of a webhook whose URL is not usable for a delivery."""
    if table.name != "subscription" or not isinstance(row.get("url"), str):
        return
    try:
        checked_url(row["url"])
    except BadOption as error:
        yield "url", str(error.facts["why"])


_KEPT_ELSEWHERE = frozenset({("run", "input"), ("graph_member", "input")})
"""The columns in which an empty value means that it is stored in another table."""


def wrong_values(table: TableShape, row: Mapping[str, Any]) -> Iterator[RowDamaged]:
    """Yield an error for each user value of a row that is neither JSON nor sealed."""
    for name in VALUES.get(table.name, ()):
        value = row[name]
        if not isinstance(value, bytes) or (value == b"" and (table.name, name) in _KEPT_ELSEWHERE):
            continue
        try:
            if is_sealed(value):
                split(value)
            else:
                msgspec.json.decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, BadData) as error:
            yield damaged(
                table.name,
                place_of(table, row),
                name,
                f"the value can be neither opened nor read: {error}",
            )


def unsound_json(sql: str, row: Any, values: Any) -> RowDamaged | None:
    """Return the error for a row whose JSON cannot be read; None if it can."""
    shape = shape_of(sql, row)
    table = shape.table
    if table is None:
        return None
    for name, kind in shape.json:
        value = row[name]
        if value is None:
            continue
        why = unreadable_json(table.name, name, value, kind)
        if why is not None:
            place = place_of(table, {**_parameters(values), **as_dict(row)})
            return damaged(table.name, place, name, why)
    return None


def unreadable(sql: str, row: Any, values: Any, error: Exception) -> RowDamaged:
    """Return the error for a row whose values cannot be turned into a record."""
    shape = shape_of(sql, row)
    cells = dict(zip(shape.names, cells_of(row), strict=True))
    table = shape.table
    place = place_of(table, {**_parameters(values), **cells})
    column, why = next(
        iter(wrong_json(table.name if table else "", cells)),
        ("?", f"{type(error).__name__}: {error}"),
    )
    return damaged(table.name if table else "?", place, column, why)


UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    OverflowError,
    msgspec.MsgspecError,
    RecursionError,
)
"""The exceptions of code that receives impossible values."""


def wrong_json(table: str, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the columns of a row whose JSON cannot be read or used, each with the reason."""
    for name, kind in JSON.get(table, {}).items():
        why = unreadable_json(table, name, row.get(name), kind)
        if why is not None:
            yield name, why


def unreadable_json(table: str, name: str, value: object, kind: Any) -> str | None:
    """Return why a JSON value of a column cannot be read or used; None if it can, or if it is
    sealed."""
    if not isinstance(value, str | bytes) or (isinstance(value, bytes) and is_sealed(value)):
        return None
    try:
        msgspec.json.decode(value, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return f"it cannot be read: {error}"
    if (table, name) == ("schedule", "rule") and isinstance(value, str):
        return rules.fault(value)
    return None
