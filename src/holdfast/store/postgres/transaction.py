"""An open transaction, as the operations use it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from holdfast.core.payload import Seal
from holdfast.core.runs import Route
from holdfast.errors import RowDamaged
from holdfast.store.database import Hints, MemberOutcome
from holdfast.store.postgres import clear_values, sealing
from holdfast.store.postgres.arrays import Blobs, Numbers, Texts
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.dialect import SQL, as_list
from holdfast.store.runs.queries import route_values
from holdfast.store.sealing import refusal
from holdfast.store.soundness import checked, sound_rows

Kinds = dict[str, type[list[Any]]]

RUN_COLUMNS: Kinds = {
    "id": Texts,
    "route_id": Numbers,
    "status": Texts,
    "priority": Numbers,
    "generation": Numbers,
    "session_id": Texts,
    "rank": Numbers,
    "wake_at": Numbers,
    "deadline": Numbers,
    "input": Blobs,
    "key": Texts,
    "parent_id": Texts,
    "parent_step": Texts,
    "parent_index": Numbers,
    "on_parent_end": Texts,
    "root_id": Texts,
    "forked_from": Texts,
    "created_at": Numbers,
    "started_at": Numbers,
    "budgets": Texts,
    "share": Texts,
    "graph_id": Texts,
    "schedule": Texts,
    "tick_at": Numbers,
}
"""The columns of a new run, and the type of their arrays."""


_AS_ARRAYS: dict[str, tuple[str, Kinds]] = {
    "insert_frame": (
        "insert_frames",
        {
            "run_id": Texts,
            "seq": Numbers,
            "stream": Numbers,
            "kind": Texts,
            "mode": Texts,
            "name": Texts,
            "data": Blobs,
            "nulls": Blobs,
            "version": Numbers,
            "at": Numbers,
        },
    ),
    "admit": (
        "admit_all",
        {"lane": Texts, "share": Texts, "at": Numbers, "number": Numbers, "count": Numbers},
    ),
    "set_share_clock": ("set_share_clocks", {"lane": Texts, "share": Texts, "vtime": Numbers}),
    "insert_graph": (
        "insert_graphs",
        {
            "id": Texts,
            "namespace": Texts,
            "name": Texts,
            "status": Texts,
            "revision": Numbers,
            "members": Numbers,
            "live": Numbers,
            "events": Numbers,
            "fingerprint": Texts,
            "created_at": Numbers,
        },
    ),
    "insert_member": (
        "insert_members",
        {
            "run_id": Texts,
            "graph_id": Texts,
            "workflow": Texts,
            "state": Texts,
            "missing": Numbers,
            "spec": Blobs,
            "input": Blobs,
            "started_at": Numbers,
        },
    ),
    "insert_group": (
        "insert_groups",
        {
            "run_id": Texts,
            "number": Numbers,
            "need": Numbers,
            "total": Numbers,
            "done": Numbers,
            "lost": Numbers,
            "rest": Texts,
            "state": Texts,
        },
    ),
    "insert_edge": ("insert_edges", {"upstream": Texts, "dependent": Texts, "number": Numbers}),
    "insert_graph_event": (
        "insert_graph_events",
        {
            "graph_id": Texts,
            "seq": Numbers,
            "kind": Texts,
            "member": Texts,
            "data": Blobs,
            "at": Numbers,
        },
    ),
    "insert_outbox": (
        "insert_all_outbox",
        {"graph_id": Texts, "run_id": Texts, "status": Texts, "at": Numbers, "place": Texts},
    ),
    "save_group": (
        "save_groups",
        {"run_id": Texts, "number": Numbers, "done": Numbers, "lost": Numbers, "state": Texts},
    ),
    "append_each": (
        "append_all_each",
        {
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
        },
    ),
    "end_run": (
        "end_runs",
        {
            "run_id": Texts,
            "status": Texts,
            "error": Blobs,
            "now": Numbers,
            "reason": Texts,
            "cause": Texts,
            "by": Texts,
        },
    ),
    "save_cancel": (
        "save_cancels",
        {
            "run_id": Texts,
            "status": Texts,
            "rank": Numbers,
            "wake_at": Numbers,
            "waits": Blobs,
            "reason": Texts,
            "cause": Texts,
            "by": Texts,
            "at": Numbers,
        },
    ),
    "insert_notification": ("insert_notifications", {"session_id": Texts, "run_id": Texts}),
    "start_member": ("start_members", {"run_id": Texts, "now": Numbers, "empty": Blobs}),
    "end_member": ("end_members", {"run_id": Texts, "state": Texts, "now": Numbers, "note": Texts}),
    "stop_member": (
        "stop_members",
        {"run_id": Texts, "state": Texts, "now": Numbers, "note": Texts},
    ),
    "reopen_member": ("reopen_members", {"run_id": Texts, "state": Texts}),
    "add_missing": ("add_all_missing", {"run_id": Texts, "more": Numbers}),
    "save_missing": ("save_all_missing", {"run_id": Texts, "missing": Numbers}),
    "ask_member": ("ask_members", {"run_id": Texts, "now": Numbers, "note": Texts}),
    "count_graph": ("count_graphs", {"id": Texts, "live": Numbers, "events": Numbers}),
    "save_graph": (
        "save_graphs",
        {
            "id": Texts,
            "status": Texts,
            "revision": Numbers,
            "members": Numbers,
            "live": Numbers,
            "events": Numbers,
            "policy": Texts,
            "reason": Texts,
            "summary": Blobs,
            "finished_at": Numbers,
        },
    ),
}
"""Queries that are frequent enough for a variant with arrays: one statement for many rows."""

_RESOLVED = {
    "end_member": "ended_",
    "save_group": "group_",
    "start_member": "started_",
    "count_graph": "graph_",
    "insert_graph_event": "event_",
}
"""The usual writes of a graph resolution, which one statement makes, and their prefixes in it."""

_ALWAYS_RESOLVED = frozenset({"end_member", "count_graph", "insert_graph_event"})


_AT_START = {
    "may_lease_at_start",
    "usage_at_start",
    "forget_admissions",
    "forget_share_admissions",
    "admit",
}
"""Queries of every start: executed as prepared statements, which saves most of the driver's
time."""


def columns(kinds: Kinds, rows: Sequence[dict[str, Any]], prefix: str = "") -> dict[str, object]:
    """Return rows as one array per column.

    A column without values is an empty array: beside longer ones UNNEST fills it up with NULL.
    """
    arrays: dict[str, object] = {}
    for name, kind in kinds.items():
        values = [row[name] for row in rows]
        arrays[prefix + name] = kind() if values.count(None) == len(values) else kind(values)
    return arrays


class PostgresTransaction:
    """An open transaction, as the operations use it."""

    __slots__ = (
        "_db",
        "_known_routes",
        "calls",
        "graphs",
        "hints",
        "member_outcomes",
        "new_routes",
        "now",
        "woken_parents",
    )

    def __init__(self, db: Connection, now: int, known_routes: dict[Route, int]) -> None:
        self._db = db
        self.now = now
        self._known_routes = known_routes
        self.graphs: dict[str, Any] = {}
        self.calls = 0
        """How often user code was called in it."""
        self.hints = Hints()
        self.member_outcomes: list[MemberOutcome] = []
        self.woken_parents: set[str] = set()
        self.new_routes: dict[Route, int] = {}

    @property
    def db(self) -> Connection:
        """Return the connection of the transaction."""
        return self._db

    def rows(self, query: str, **values: object) -> list[Any]:
        return checked(SQL[query], self._fetch(query, values), values)

    def sound_rows(self, query: str, **values: object) -> tuple[list[Any], list[RowDamaged]]:
        return sound_rows(SQL[query], self._fetch(query, values), values)

    def unchecked(self, query: str, **values: object) -> list[Any]:
        """Run a named query whose rows are of several kinds, without checking them."""
        return self._fetch(query, values)

    def _fetch(self, query: str, values: dict[str, object]) -> list[Any]:
        return (
            self._db.rows_within(query, values)
            if query in _AT_START
            else self._db.rows(SQL[query], values)
        )

    def change(self, query: str, **values: object) -> int:
        return (
            self._db.change_within(query, values)
            if query in _AT_START
            else self._db.change(SQL[query], values)
        )

    def many(self, query: str, values: Sequence[dict[str, object]]) -> int:
        # One row as it is: arrays would only make it slower.
        if len(values) < 2:
            return sum(self.change(query, **row) for row in values)
        if query in _AS_ARRAYS:
            query, kinds = _AS_ARRAYS[query]
            return self._db.change_within(query, columns(kinds, values))
        # A pipeline: one round trip for all rows, without a variant of the query for arrays.
        return self._db.many(SQL[query], values)

    def together(self, changes: dict[str, list[dict[str, object]]]) -> None:
        # One statement instead of five; the other kinds may have no rows.
        if changes.keys() >= _ALWAYS_RESOLVED:
            values: dict[str, object] = {}
            for query, prefix in _RESOLVED.items():
                values |= columns(_AS_ARRAYS[query][1], changes.pop(query, []), prefix)
            self._db.change_within("resolve_members", values)
        for query, rows in changes.items():
            self.many(query, rows)

    def insert_runs(self, rows: Sequence[dict[str, object]]) -> set[str]:
        if len(rows) == 1 and rows[0]["session_id"] is None:
            return {str(row["id"]) for row in rows if self._db.change(SQL["insert_run"], row)}
        # A lease at the start needs the variant for many rows, which also checks the session.
        values = {**columns(RUN_COLUMNS, rows), "asked": 1}
        return {row["id"] for row in self._db.rows_within("insert_runs", values)} if rows else set()

    def route_id(self, route: Route) -> int:
        known = self._known_routes.get(route) or self.new_routes.get(route)
        if known is not None:
            return known
        values = route_values(route)
        # Read first: an INSERT that conflicts would use up a number of the sequence each time.
        routes = self._db.rows(SQL["find_route"], values)
        if not routes:
            self._db.change(SQL["insert_route"], values)
            routes = self._db.rows(SQL["find_route"], values)
        self.new_routes[route] = routes[0]["id"]
        self.hints.routes = True
        return self.new_routes[route]

    def as_list(self, items: Iterable[object]) -> object:
        return as_list(items)

    def call(self, body: Callable[[Any], bytes]) -> bytes:
        self.calls += 1
        return self._db.call(body)

    def lock_tables(self) -> None:
        sealing.lock(self._db)

    def seal(self, seal: Seal) -> None:
        sealing.seal(self._db, refusal(seal))

    def unseal(self) -> None:
        sealing.unseal(self._db)

    def refuse_clear_values(self) -> bool:
        return clear_values.refuse_clear_values(self._db)
