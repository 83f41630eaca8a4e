"""Plan frequent operations (record a step, start, park or finish a run) and write many in one
statement.

The code that is shared with SQLite runs against a `PlannedWrite`, which records the writes as if
every guard had passed. Planned writes of one kind are then sent as arrays, in one statement that
checks all guards and returns the runs that passed. An operation that did not pass is applied the
general way, which finds out why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import msgspec

from holdfast.core.budgets.model import SpendEntry
from holdfast.core.runs import Route
from holdfast.core.status import Status
from holdfast.errors import RowDamaged
from holdfast.store.batch import APPLY
from holdfast.store.budgets.operations import ChargeBudget, RecordSpending
from holdfast.store.database import Hints, MemberOutcome, Operation
from holdfast.store.deferred import DeferredChanges
from holdfast.store.effects import Effect
from holdfast.store.postgres.arrays import Blobs, Numbers, Texts
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.dialect import SQL
from holdfast.store.postgres.transaction import (
    RUN_COLUMNS,
    Kinds,
    PostgresTransaction,
    columns,
)
from holdfast.store.resting_tokens.operations import ClearTokens, SaveTokens
from holdfast.store.runs.advance import (
    end_row,
    event_row,
    guarded_row,
    is_end,
    is_one_event,
    plain_end,
)
from holdfast.store.runs.ending import end_runs
from holdfast.store.runs.operations import Advance, Advanced, EndRun, StartRuns
from holdfast.store.signals.operations import TakeSignals
from holdfast.store.streams.operations import CloseStreams
from holdfast.store.tasks.operations import SetAttemptDeadline
from holdfast.store.waits.operations import CloseWait, EscalateWait, OpenWait, ReopenWait
from holdfast.store.wakeup import notify_or_wake

_PLACE: Kinds = {
    "run_id": Texts,
    "generation": Numbers,
    "revision": Numbers,
    "status": Texts,
    "unless": Texts,
    "waits": Blobs,
    "wake_at": Numbers,
}
_END: Kinds = {
    "run_id": Texts,
    "generation": Numbers,
    "status": Texts,
    "result": Blobs,
    "error": Blobs,
    "now": Numbers,
    "graph_id": Texts,
}
_CLOSE: Kinds = {"reason": Texts, "closed_at": Numbers}
_CLOSING = {"release_run": "release_lease", "finish_run": "finish_lease"}
"""The heads that also close the streams of the attempt."""

_REPEATABLE = frozenset({"insert_run", "move_run"})
"""Heads that can be repeated although no event shows them. A head that gives up the lease
cannot: its repetition is refused."""

_RELEASE: Kinds = {
    "ready_at": Numbers,
    "step": Numbers,
    "error": Blobs,
    "stuck_cause": Texts,
}
SPENDING = "spend_guarded"
"""The head in place of `append_guarded` if the recorded step spends from budgets."""

HEADS: dict[str, tuple[str, Kinds]] = {
    "insert_run": ("insert_runs", RUN_COLUMNS),
    SPENDING: ("spend_guarded_many", {"run_id": Texts, "generation": Numbers}),
    "append_guarded": ("append_guarded_many", {"run_id": Texts, "generation": Numbers}),
    "move_run": ("move_runs", {**_PLACE, "seen": Numbers}),
    "release_run": (
        "release_runs",
        {**_PLACE, **_RELEASE},
    ),
    "finish_run": ("finish_runs", _END),
    "release_lease": (
        "release_leases",
        {**_PLACE, **_RELEASE, **_CLOSE},
    ),
    "finish_lease": ("finish_leases", {**_END, **_CLOSE}),
}
"""The first write of an operation, which is guarded: the query for many of them, and its
columns."""

HEARING = ("append_guarded", "move_run", "finish_run")
"""Heads whose queries also mark signals as taken."""

LINES: Kinds = {
    "run_id": Texts,
    "seq": Numbers,
    "kind": Texts,
    "step": Texts,
    "attempt": Numbers,
    "data": Blobs,
    "error": Blobs,
    "started_at": Numbers,
    "at": Numbers,
    "role": Texts,
}


_WRITES_ONLY = frozenset(
    {
        TakeSignals,
        OpenWait,
        ReopenWait,
        EscalateWait,
        CloseWait,
        CloseStreams,
        SetAttemptDeadline,
        SaveTokens,
        ClearTokens,
    }
)
"""Effects that write without reading, so that they can be planned."""

_SPENDING_EFFECTS = (ChargeBudget, RecordSpending)

_PAID: Kinds = {"run_id": Texts, "dimension": Texts, "amount": Numbers}
_SOURCE: Kinds = {"run_id": Texts, "budget": Texts}
_BORN: Kinds = {"id": Texts, "created_at": Numbers, "input": Blobs}
_WRITTEN: Kinds = {"run_id": Texts, "seq": Numbers, "kind": Texts, "at": Numbers}
_ENDED: Kinds = {"run_id": Texts, "step": Texts, "children": Numbers}


class NotBatchable(Exception):
    """This operation must read before it writes."""


class PlannedWrite:
    """The writes of one operation: a guarded head, events, and what follows from them.

    It stands in for the transaction: methods that would read raise NotBatchable.
    """

    __slots__ = (
        "_routes",
        "answer",
        "extras",
        "head",
        "hints",
        "lines",
        "member_outcomes",
        "now",
        "op",
        "parent",
        "row",
        "sources",
        "spending",
        "taken",
    )

    def __init__(self, op: Operation, now: int, routes: dict[Route, int]) -> None:
        self.op = op
        self.now = now
        self._routes = routes
        self.hints = Hints()
        self.member_outcomes: list[MemberOutcome] = []
        self.answer: Any = None
        self.head = ""
        self.row: dict[str, Any] = {}
        self.lines: list[dict[str, Any]] = []
        self.taken: list[object] = []
        """The signals that its events consume."""
        self.extras: list[tuple[str, Sequence[dict[str, object]]]] = []
        self.spending: SpendEntry | None = None
        self.sources: Sequence[str] = ()
        """The budgets that it spends from."""
        self.parent: tuple[str, str, int | None] | None = None
        """The parent to be notified of the end of the run."""

    @property
    def run_id(self) -> str:
        """Return the run that the operation writes."""
        run_id: str = self.row["id"] if self.head == "insert_run" else self.row["run_id"]
        return run_id

    @property
    def simple(self) -> bool:
        """Return whether it can be written by one autocommitted statement.

        If the answer is lost, its rows must tell whether it was written; a write without rows of
        its own must do no harm when it is repeated.
        """
        if self.extras or self.member_outcomes or self.parent is not None:
            return False
        return bool(self.lines) or self.head in _REPEATABLE

    def rows(self, query: str, **values: object) -> list[Any]:
        if query == "may_lease_at_start":  # the guarded insert checks it
            return [{"limited": False}]
        raise NotBatchable(query)

    def sound_rows(self, query: str, **values: object) -> tuple[list[Any], list[RowDamaged]]:
        return self.rows(query, **values), []

    def change(self, query: str, **values: object) -> int:
        if not self.head and query in HEADS:
            self.head = query
            self.row = values
            if query == "append_guarded":
                self.lines.append(values)
        elif self.head and query == "append":
            self.lines.append(values)
        elif query == "close_streams" and self.head in _CLOSING and not self.taken:
            self.head = _CLOSING[self.head]
            self.row |= {"reason": values["reason"], "closed_at": values["now"]}
        else:
            raise NotBatchable(query)
        return 1

    def many(self, query: str, values: Sequence[dict[str, object]]) -> int:
        # The statements for these heads also mark signals as taken, which saves a statement.
        if query == "take_signal" and self.head in HEARING:
            self.taken += [value["id"] for value in values]
        else:
            self.extras.append((query, values))
        return len(values)

    def together(self, changes: dict[str, list[dict[str, object]]]) -> None:
        raise NotBatchable

    def insert_runs(self, rows: Sequence[dict[str, object]]) -> set[str]:
        (row,) = rows
        self.change("insert_run", **row)
        return {self.run_id}

    def route_id(self, route: Route) -> int:
        if route not in self._routes:
            raise NotBatchable(route)
        return self._routes[route]

    def as_list(self, items: Iterable[object]) -> object:
        raise NotBatchable

    def call(self, body: Callable[[Any], bytes]) -> bytes:
        raise NotBatchable


def plan_write(
    op: Operation,
    now: int,
    routes: dict[Route, int],
    taken: Container[str],
    limited: Container[str] = (),
) -> PlannedWrite | None:
    """Plan an operation. Return None if it must be applied the general way.

    That is: it is not simple, another operation of the batch writes its run, or it would lease a
    new run in a lane that is known to have limits.
    """
    if type(op) is Advance:
        if is_end(op) or is_one_event(op):
            return None if op.run_id in taken else _plan_plain(op, now, routes)
        if op.run_id in taken or op.body is not None or op.payloads:
            return None
        return _plan_effects(op, now, routes)
    if type(op) is StartRuns and len(op.runs) == 1 and op.runs[0].id not in taken:
        if op.runs[0].session_id is not None and op.runs[0].route.lane in limited:
            return None
        return _plan(PlannedWrite(op, now, routes), op)
    return None


def _plan(planned: PlannedWrite, op: Operation) -> PlannedWrite | None:
    """Apply an operation to its plan. Return None if it must read."""
    try:
        planned.answer = APPLY[type(op)](planned, op)
    except Exception:  # it must read first, or it is faulty: the general way tells which
        return None
    return planned


def _plan_effects(op: Advance, now: int, routes: dict[Route, int]) -> PlannedWrite | None:
    """Plan an `Advance` with effects, if all of them can be planned. The statements for many
    writes also spend and notify parents, so these effects are left out of the plan itself."""
    planned = PlannedWrite(op, now, routes)
    rest: list[Effect] = []
    for effect in op.effects:
        if type(effect) in _WRITES_ONLY:
            rest.append(effect)
        elif isinstance(effect, EndRun) and effect.notifies_only_parent:
            planned.parent = effect.parent
        elif isinstance(effect, _SPENDING_EFFECTS) and _spends_simply(op, effect):
            if effect.entries:
                planned.spending = effect.entries[0]
                planned.sources = effect.budgets
        else:
            return None
    # Mostly so. A copy of the operation is made only if its statement covers some of the effects.
    if len(rest) == len(op.effects):
        return _plan(planned, op)
    if _plan(planned, msgspec.structs.replace(op, effects=rest)) is None:
        return None
    if planned.spending is not None:
        # Only this head has a variant that spends, and that variant takes no signals.
        if planned.head != "append_guarded" or planned.taken:
            return None
        planned.head = SPENDING
    return planned


def _plan_plain(op: Advance, now: int, routes: dict[Route, int]) -> PlannedWrite:
    """Plan one event, or the end of a run. Its writes are known, which saves the run against the
    plan."""
    planned = PlannedWrite(op, now, routes)
    planned.answer = Advanced(now=now)
    if op.status is None:
        planned.head = "append_guarded"
        planned.row = guarded_row(op, op.events[0], now)
        planned.lines = [planned.row]
        return planned
    planned.head = "finish_run"
    planned.row = end_row(op, now)
    planned.lines = [event_row(op, event, now) for event in op.events]
    plan: Any = planned  # it stands in for the transaction
    end_runs(plan, [plain_end(op)])
    return planned


def lanes_refused(writes: Iterable[PlannedWrite]) -> set[str]:
    """Return the lanes of refused writes that would have leased new runs.

    These lanes may have limits, which a plan does not check.
    """
    starts = (write.op.runs[0] for write in writes if type(write.op) is StartRuns)
    return {run.route.lane for run in starts if run.session_id is not None}


def _spends_simply(op: Advance, effect: ChargeBudget | RecordSpending) -> bool:
    """Return whether all spending of *op* is one entry, without key and reservation.

    A fact may exceed a limit, so it is simple only if the run has no budgets.
    """
    entries = [entry for charge in op.of(ChargeBudget) for entry in charge.entries]
    entries += [entry for record in op.of(RecordSpending) for entry in record.entries]
    if len(entries) != 1:
        return not entries
    (entry,) = entries
    return (
        op.status is None
        and entry.key is None
        and entry.under is None
        and entry.fact is not bool(effect.budgets)
    )


def write_autocommit(db: Connection, writes: Sequence[PlannedWrite]) -> set[int]:
    """Write like ``write``, outside a transaction."""
    if (
        len(writes) == 1
        and writes[0].head == "append_guarded"
        and len(writes[0].lines) == 1
        and not writes[0].taken
    ):
        return {0} if db.append(writes[0].row) else set()
    return write(db, writes, db.rows_autocommit)


def write(
    db: Connection,
    writes: Sequence[PlannedWrite],
    ask: Callable[[str, dict[str, Any]], list[Any]] | None = None,
) -> set[int]:
    """Write plans with the same head in one statement. Return the indexes that passed the guard."""
    head = writes[0].head
    is_bare = (
        len(writes) == 1
        and len(writes[0].lines) == (head == "append_guarded")
        and not writes[0].taken
    )
    # Fast path: one row needs no arrays.
    if is_bare and head in SQL:
        return {0} if db.change(SQL[head], writes[0].row) else set()
    query, kinds = HEADS[head]
    values = columns(kinds, [planned.row for planned in writes])
    if head == "insert_run":
        values["asked"] = 0
    else:
        values |= columns(LINES, [line for planned in writes for line in planned.lines], "line_")
    if head in HEARING:
        values["taken"] = Numbers(signal for planned in writes for signal in planned.taken)
    if head == SPENDING:
        values |= _payments(writes)
    passed = {row["id"] for row in (ask or db.rows_within)(query, values)}
    return {place for place, planned in enumerate(writes) if planned.run_id in passed}


def _payments(writes: Sequence[PlannedWrite]) -> dict[str, object]:
    """Return what each run spends, and from which budgets, as columns."""
    paid = []
    sources = []
    for write in writes:
        assert write.spending is not None
        amounts = write.spending.amounts
        run_id = write.run_id
        paid += [
            {"run_id": run_id, "dimension": name, "amount": amount}
            for name, amount in amounts.items()
        ]
        sources += [{"run_id": run_id, "budget": name} for name in write.sources]
    return {
        "now": max((write.now for write in writes), default=0),
        **columns(_PAID, paid, "paid_"),
        **columns(_SOURCE, sources, "source_"),
    }


def find_committed(db: Connection, writes: Sequence[PlannedWrite]) -> list[PlannedWrite]:
    """Return the writes that were committed by a statement that got no answer."""
    born = [write.row for write in writes if write.head == "insert_run"]
    # A new run is recognised by its id, its time and its input.
    holders = (
        {row["id"]: row["session_id"] for row in db.rows(SQL["written_runs"], columns(_BORN, born))}
        if born
        else {}
    )
    # Other writes are recognised by their events: run, number, kind and time.
    lines = [line for write in writes if write.head != "insert_run" for line in write.lines]
    written = (
        {row["id"] for row in db.rows(SQL["written_lines"], columns(_WRITTEN, lines))}
        if lines
        else set()
    )
    for write in writes:
        if (
            write.head == "insert_run"
            and write.run_id in holders
            and holders[write.run_id] != write.row["session_id"]
        ):
            write.answer[0].leased = False  # the session was ended meanwhile
    return [
        write
        for write in writes
        if write.run_id in (holders if write.head == "insert_run" else written)
    ]


def notify_parents(tx: PostgresTransaction, writes: Iterable[PlannedWrite]) -> None:
    """Notify or wake the parents of ended children, or only count down if a parent awaits more.

    Does for many children what `notify_parent` does for one, with one statement per kind.
    """
    ends = [
        (write.run_id, write.parent, write.op.status == Status.COMPLETED)
        for write in writes
        if write.parent and type(write.op) is Advance
    ]
    ended = [(parent, completed) for _, parent, completed in ends]
    if not ended:
        return
    counts = Counter((parent[0], parent[1]) for parent, _ in ended if parent[2] is not None)
    rows = [
        {"run_id": run_id, "step": step, "children": count}
        for (run_id, step), count in counts.items()
    ]
    counters = tx.rows("count_down_many", **columns(_ENDED, rows)) if rows else []
    waiting = {
        (row["run_id"], row["step"])
        for row in counters
        if row["remaining"] > 0 and not row["eager"]
    }
    to_notify = {
        parent[0]
        for parent, completed in ended
        if not completed or parent[2] is None or parent[:2] not in waiting
    }
    # Collected: many children end together, and each parent would cost statements of its own.
    deferred: Any = DeferredChanges(tx)
    for state in tx.rows("load_states", ids=Texts(to_notify)) if to_notify else []:
        if state["finished_at"] is None:
            notify_or_wake(deferred, state)
    deferred.make()
    numbered = [run_id for run_id, parent, _ in ends if parent[2] is None]
    if numbered:
        tx.change("number_ended_children", ids=Texts(numbered))
