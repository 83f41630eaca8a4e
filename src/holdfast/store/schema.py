"""The tables of the schema, and the values that each column may hold.

The shapes are read from the migrations, so that a new column needs no second declaration. Columns
that hold one of a few words are listed here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import msgspec

from holdfast.core import duration
from holdfast.core.budgets.rules import ON_BREACH
from holdfast.core.definitions import DefinitionState
from holdfast.core.flows.model import FlowStatus, FlowStepStatus
from holdfast.core.gates.model import GATE_ACTIONS
from holdfast.core.gates.model import STATUSES as GATE_STATUSES
from holdfast.core.graphs.model import GraphStatus, GroupState, MemberState, RemainderPolicy
from holdfast.core.messages import MessageEffect, MessageKind
from holdfast.core.operations import BulkVerb, OperationStatus
from holdfast.core.resting_tokens import TokenMode, TokenStatus
from holdfast.core.runs import CancelCause, StuckCause
from holdfast.core.schedules.model import MISFIRES, OVERLAPS
from holdfast.core.status import FINAL, Status
from holdfast.core.streams.model import FrameKind, StreamMode
from holdfast.core.subscriptions import CURSOR, KINDS, SOURCES, WEBHOOK
from holdfast.store import sql_files
from holdfast.store.tables import FORGETTABLE

LARGEST = 2**62
"""The largest number that a column may hold: arithmetic in the database must not overflow."""

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
        "part",
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
    ("graph_outbox", "status"): frozenset(FINAL)
    | {"start", "skip", "cancel", "rest", "replay"},  # an end, or work to continue
    ("flow", "status"): frozenset(FlowStatus),
    ("flow_step", "status"): frozenset(FlowStepStatus),
    ("gate", "status"): frozenset(GATE_STATUSES),
    ("schedule", "overlap"): frozenset(OVERLAPS),
    ("schedule", "misfire"): frozenset(MISFIRES),
    ("event", "kind"): KINDS | {"numbered"},  # a trigger keeps the last number with it
    ("budget", "on_breach"): frozenset(ON_BREACH),
    ("subscription", "kind"): frozenset({CURSOR, WEBHOOK}),
    ("subscription", "source"): frozenset(SOURCES),
    ("gate_entry", "kind"): GATE_ACTIONS,
    ("tick", "kind"): frozenset({"tick", "trigger", "backfill"}),
    ("message_subscription", "kind"): frozenset(MessageKind),
    ("start_subscription", "kind"): frozenset(MessageKind),
    ("message", "effect"): frozenset(MessageEffect),
    ("resting_token", "status"): frozenset(TokenStatus),
    ("resting_token", "mode"): frozenset(TokenMode),
    ("definition", "state"): frozenset(DefinitionState),
    ("retention", "target"): frozenset({"runs", *FORGETTABLE}),
    ("operation", "verb"): frozenset(BulkVerb),
    ("operation", "status"): frozenset(OperationStatus),
    ("frame", "kind"): frozenset(FrameKind),
    ("frame", "mode"): frozenset(StreamMode),
}
"""The columns that hold one of a few words."""


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
                f"{shown(self.name, value)} is {_NAMES.get(type(value), 'no value')}, not"
                f" {_NAMES[min(self.types, key=str)]}"
            )
        if self.words is not None and value not in self.words:
            return f"{shown(self.name, value)} is none of {', '.join(sorted(self.words))}"
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


_KEY_OF_NUMBERED = re.compile(r"AUTOINCREMENT.*^\s*UNIQUE \(([\w, ]+)\)", re.MULTILINE | re.DOTALL)
"""The key of rows that SQLite also numbers: by it, and not by their numbers, damage is named."""


@cache
def schema(dialect: str = "sqlite") -> dict[str, TableShape]:
    """Return every table of the schema by name, as the migrations declare it."""
    tables: dict[str, dict[str, ColumnShape]] = {}
    keys: dict[str, tuple[str, ...]] = {}
    for _, _, text in sql_files.migrations(dialect):
        # Without comments, in which a column or a table may be mentioned.
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
    composite = _KEY.search(body) or _KEY_OF_NUMBERED.search(body)
    if composite is None:
        return tuple(column for column, _, rest in declared if "PRIMARY KEY" in rest)
    names = {column for column, _, _ in declared}
    return tuple(column for column in composite[1].split(", ") if column in names)


def _column(table: str, name: str, kind: str, rest: str) -> ColumnShape:
    is_time = _TYPES[kind] == (int,) and (name in _TIMES or name.endswith("_at"))
    required = "NOT NULL" in rest or "PRIMARY KEY" in rest
    return ColumnShape(name, frozenset(_TYPES[kind]), is_time, WORDS.get((table, name)), required)


def shown(name: str, value: object) -> str:
    """Return a value for an error: shortened, and never a secret or bytes that may be a user's."""
    if isinstance(value, bytes | memoryview):
        return f"{len(value)} bytes"
    text = "..." if name in _SECRET else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
