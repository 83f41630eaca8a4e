"""The transitions that happen all the time: a step recorded, a run started, parked or finished.

Each is drafted first: the very code that is shared with SQLite runs against a draft, which notes
what would be written as if every guard had let it pass. Drafts of one kind then travel together as
arrays, in one statement that checks all the guards and answers whom they let pass. Whoever they did
not is applied the long way, which finds out why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from holdfast.core.budgets.model import SpendEntry
from holdfast.core.runs import Route
from holdfast.core.status import FINAL, Status
from holdfast.errors import RowDamaged
from holdfast.store.contract import Operation
from holdfast.store.contract.reading import Hints, MemberOutcome
from holdfast.store.contract.runs import Advance, Advanced, StartRuns
from holdfast.store.postgres.arrays import Blobs, Numbers, Texts
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.dialect import SQL
from holdfast.store.postgres.transaction import (
    RUN_COLUMNS,
    Kinds,
    Later,
    PostgresTransaction,
    columns,
)
from holdfast.store.transitions import APPLY, ended, guarded, is_end, is_one_event, line, news_of
from holdfast.store.transitions.touching import notify_or_wake

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
}
_CLOSE: Kinds = {"reason": Texts, "closed_at": Numbers}
_CLOSING = {"release_run": "release_lease", "finish_run": "finish_lease"}
"""How a head is called that also closes the streams of the attempt."""

_REPEATABLE = frozenset({"insert_run", "move_run"})
"""Heads that can be repeated although no line tells of them. One that gives the run away cannot:
its repetition is refused."""

SPENDING = "spend_guarded"
"""How `append_guarded` is called where what is recorded spends something."""

HEADS: dict[str, tuple[str, Kinds]] = {
    "insert_run": ("insert_runs", RUN_COLUMNS),
    SPENDING: ("spend_guarded_many", {"run_id": Texts, "generation": Numbers}),
    "append_guarded": ("append_guarded_many", {"run_id": Texts, "generation": Numbers}),
    "move_run": ("move_runs", {**_PLACE, "seen": Numbers}),
    "release_run": (
        "release_runs",
        {**_PLACE, "ready_at": Numbers, "step": Numbers, "error": Blobs},
    ),
    "finish_run": ("finish_runs", _END),
    "release_lease": (
        "release_leases",
        {**_PLACE, "ready_at": Numbers, "step": Numbers, "error": Blobs, **_CLOSE},
    ),
    "finish_lease": ("finish_leases", {**_END, **_CLOSE}),
}
"""The first write of a draft, which is guarded; the query that makes many of them; what it is told
of each."""

HEARING = ("append_guarded", "move_run", "finish_run")
"""Whose queries take signals along."""

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
}


_RICH = attrgetter(
    "body",
    "children",
    "fanouts",
    "signals",
    "cancels",
    "child_cancels",
    "had_children",
    "gates",
    "scheduled",
    "payloads",
    "grows",
    "settles",
    "settles_all",
    "demands",
)
"""What makes an advance more than a few lines and a place."""

_PAID: Kinds = {"run_id": Texts, "dimension": Texts, "amount": Numbers}
_SOURCE: Kinds = {"run_id": Texts, "budget": Texts}
_BORN: Kinds = {"id": Texts, "created_at": Numbers, "input": Blobs}
_WRITTEN: Kinds = {"run_id": Texts, "seq": Numbers, "kind": Texts, "at": Numbers}
_ENDED: Kinds = {"run_id": Texts, "step": Texts, "children": Numbers}


class NotBatchable(Exception):
    """This transition must look before it writes."""


class PlannedWrite:
    """What one transition would write: a guarded head, events, and what follows from them."""

    __slots__ = (
        "_routes",
        "answer",
        "extras",
        "head",
        "hints",
        "lines",
        "news",
        "now",
        "op",
        "row",
        "spending",
        "taken",
    )

    def __init__(self, op: Operation, now: int, routes: dict[Route, int]) -> None:
        self.op, self.now, self._routes = op, now, routes
        self.hints = Hints()
        self.news: list[MemberOutcome] = []
        self.answer: Any = None
        self.head = ""
        self.row: dict[str, Any] = {}
        self.lines: list[dict[str, Any]] = []
        self.taken: list[object] = []
        """The signals that its events tell of."""
        self.extras: list[tuple[str, Sequence[dict[str, object]]]] = []
        self.spending: SpendEntry | None = None

    @property
    def run_id(self) -> str:
        """The run that it is about."""
        found: str = self.row["id"] if self.head == "insert_run" else self.row["run_id"]
        return found

    @property
    def parent(self) -> tuple[str, str, int | None] | None:
        """The parent that must hear of it."""
        return self.op.parent if type(self.op) is Advance and self.op.status in FINAL else None

    @property
    def simple(self) -> bool:
        """Whether it can be one statement, which commits itself. If its answer is lost, its rows
        must tell whether it was written; one without rows of its own must do no harm when it is
        repeated."""
        if self.extras or self.news or self.parent is not None:
            return False
        return bool(self.lines) or self.head in _REPEATABLE

    def rows(self, query: str, **values: object) -> list[Any]:
        if query == "may_lease_at_birth":  # the write itself asks
            return [{"limited": False}]
        raise NotBatchable(query)

    def sifted(self, query: str, **values: object) -> tuple[list[Any], list[RowDamaged]]:
        return self.rows(query, **values), []

    def change(self, query: str, **values: object) -> int:
        if not self.head and query in HEADS:
            self.head, self.row = query, values
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
    """Draft a transition; None when it is not simple, or about a run that another one of the batch
    is about already, or would be born leased in one of the lanes that are known to have limits."""
    if type(op) is Advance:
        if is_end(op) or is_one_event(op):
            return None if op.run_id in taken else _plain(op, now, routes)
        if (
            op.run_id in taken
            or op.output is not None
            or any(_RICH(op))
            or (op.spends and not _spends_simply(op))
        ):
            return None
        alone: Operation = op
        if op.parent is not None or op.spends:
            alone = msgspec.structs.replace(op, parent=None, spends=())
    elif type(op) is StartRuns and len(op.runs) == 1 and op.runs[0].id not in taken:
        if op.runs[0].session_id is not None and op.runs[0].route.lane in limited:
            return None
        alone = op
    else:
        return None
    found = PlannedWrite(op, now, routes)
    try:
        found.answer = APPLY[type(op)](found, alone)
    except Exception:  # it must look first, or it is faulty: either way it goes the long way
        return None
    if type(op) is Advance and op.spends:
        if found.head != "append_guarded" or found.taken:
            return None
        found.head, found.spending = SPENDING, op.spends[0]
    return found


def _plain(op: Advance, now: int, routes: dict[Route, int]) -> PlannedWrite:
    """Draft an event or the end of a run: what that writes is known without a try."""
    found = PlannedWrite(op, now, routes)
    found.answer = Advanced(now=now)
    if op.status is None:
        found.head, found.row = "append_guarded", guarded(op, op.events[0], now)
        found.lines = [found.row]
        return found
    found.head, found.row = "finish_run", ended(op, now)
    found.lines = [line(op, event, now) for event in op.events]
    found.hints.finished.add(op.run_id)
    if (news := news_of(op)) is not None:
        found.news.append(news)
    return found


def lanes_refused(drafts: Iterable[PlannedWrite]) -> set[str]:
    """Of drafts whose guard did not let them pass, return the lanes in which runs should have been
    born leased: they may have limits, which a draft does not look at."""
    starts = (one.op.runs[0] for one in drafts if type(one.op) is StartRuns)
    return {run.route.lane for run in starts if run.session_id is not None}


def _spends_simply(op: Advance) -> bool:
    """Say whether all it spends is one thing that is there or not, and nothing was noted or set
    aside for it before. What is a fact may pass a limit, so it is simple only where there is
    none."""
    (first, *more) = op.spends
    return (
        not more
        and op.status is None
        and first.key is None
        and first.under is None
        and first.fact is not bool(op.budgets)
    )


def write_autocommit(db: Connection, drafts: Sequence[PlannedWrite]) -> set[int]:
    """Write drafts like ``write``, in no transaction."""
    if (
        len(drafts) == 1
        and drafts[0].head == "append_guarded"
        and len(drafts[0].lines) == 1
        and not drafts[0].taken
    ):
        return {0} if db.append(drafts[0].row) else set()
    return write(db, drafts, db.alone)


def write(
    db: Connection,
    drafts: Sequence[PlannedWrite],
    ask: Callable[[str, dict[str, Any]], list[Any]] | None = None,
) -> set[int]:
    """Write drafts that have the same head, in one statement; return the places of those whose
    guard let them pass."""
    head = drafts[0].head
    is_bare = (
        len(drafts) == 1
        and len(drafts[0].lines) == (head == "append_guarded")
        and not drafts[0].taken
    )
    if is_bare and head in SQL:
        return {0} if db.change(SQL[head], drafts[0].row) else set()
    query, kinds = HEADS[head]
    values = columns(kinds, [draft.row for draft in drafts])
    if head == "insert_run":
        values["asked"] = 0
    else:
        values |= columns(LINES, [line for draft in drafts for line in draft.lines], "line_")
    if head in HEARING:
        values["taken"] = Numbers(signal for draft in drafts for signal in draft.taken)
    if head == SPENDING:
        values |= _payments(drafts)
    passed = {row["id"] for row in (ask or db.rows_within)(query, values)}
    return {place for place, draft in enumerate(drafts) if draft.run_id in passed}


def _payments(drafts: Sequence[PlannedWrite]) -> dict[str, object]:
    """Say what is paid by whom, and from which budgets."""
    paid, sources = [], []
    for one in drafts:
        assert one.spending is not None and type(one.op) is Advance
        amounts, run_id = one.spending.amounts, one.run_id
        paid += [
            {"run_id": run_id, "dimension": name, "amount": amount}
            for name, amount in amounts.items()
        ]
        sources += [{"run_id": run_id, "budget": name} for name in one.op.budgets]
    return {
        "now": max((one.now for one in drafts), default=0),
        **columns(_PAID, paid, "paid_"),
        **columns(_SOURCE, sources, "source_"),
    }


def find_committed(db: Connection, drafts: Sequence[PlannedWrite]) -> list[PlannedWrite]:
    """Of drafts whose statement got no answer, return those that were written."""
    born = [draft.row for draft in drafts if draft.head == "insert_run"]
    holders = (
        {row["id"]: row["session_id"] for row in db.rows(SQL["written_runs"], columns(_BORN, born))}
        if born
        else {}
    )
    lines = [line for draft in drafts if draft.head != "insert_run" for line in draft.lines]
    written = (
        {row["id"] for row in db.rows(SQL["written_lines"], columns(_WRITTEN, lines))}
        if lines
        else set()
    )
    for draft in drafts:
        if (
            draft.head == "insert_run"
            and draft.run_id in holders
            and holders[draft.run_id] != draft.row["session_id"]
        ):
            draft.answer[0].leased = False  # its session was ended meanwhile
    return [
        draft
        for draft in drafts
        if draft.run_id in (holders if draft.head == "insert_run" else written)
    ]


def notify_parents(tx: PostgresTransaction, drafts: Iterable[PlannedWrite]) -> None:
    """Children have ended: wake their parents, or only count where a parent waits for more.
    `tell_parent` for many at once."""
    ended = [
        (draft.parent, draft.op.status == Status.COMPLETED)
        for draft in drafts
        if draft.parent and type(draft.op) is Advance
    ]
    if not ended:
        return
    counts = Counter((parent[0], parent[1]) for parent, _ in ended if parent[2] is not None)
    rows = [
        {"run_id": run_id, "step": step, "children": count}
        for (run_id, step), count in counts.items()
    ]
    found = tx.rows("count_down_many", **columns(_ENDED, rows)) if rows else []
    waiting = {
        (row["run_id"], row["step"]) for row in found if row["remaining"] > 0 and not row["eager"]
    }
    heard = {
        parent[0]
        for parent, completed in ended
        if not completed or parent[2] is None or parent[:2] not in waiting
    }
    later: Any = Later(tx)
    for state in tx.rows("load_states", ids=Texts(heard)) if heard else []:
        if state["finished_at"] is None:
            notify_or_wake(later, state)
    later.make()
