"""Looking into a SQLite file without disturbing whoever writes it: as many reading connections as there are readers at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from holdfast.core import claims
from holdfast.core.records import Child, Event, Lane, Route, Run, Session, Signal
from holdfast.core.status import Status
from holdfast.errors import EngineClosed, StoreBusy
from holdfast.store import contract as c
from holdfast.store import reports
from holdfast.store.clock import Clock
from holdfast.store.sqlite.driver import ApswConnection, Busy, Connection, StandardConnection
from holdfast.store.sqlite.sql import LAWS, SQL, as_list, spelled
from holdfast.store.transitions import run_from

FLAWED = (3, 51, 3)
"""SQLite before this version can corrupt a WAL when two connections checkpoint at once."""


class SqliteReader:
    """What can be asked of a SQLite file, by any thread at any time."""

    def __init__(self, path: str, connect: type[StandardConnection] | type[ApswConnection], clock: Clock) -> None:
        self._reader_path, self._open, self.clock = path, connect, clock
        self._idle: list[Connection] = []
        self._closed: str | None = None

    def now(self) -> int:
        """The time by which this store lives."""
        return self.clock.now()

    def _refuse_when_closed(self) -> None:
        if self._closed is not None:
            raise EngineClosed(database=self._reader_path, why=self._closed)

    def _borrow(self) -> Connection:
        self._refuse_when_closed()
        try:
            return self._idle.pop()
        except IndexError:
            return self._open_reader()

    def _open_reader(self) -> Connection:
        db = self._open(self._reader_path)
        db.rows("PRAGMA busy_timeout = 5000")
        db.rows("PRAGMA query_only = 1")
        db.rows("PRAGMA wal_autocheckpoint = 0")  # only the writer checkpoints
        return db

    def _give_back(self, db: Connection) -> None:
        self._idle.append(db)
        if self._closed is not None:  # closed meanwhile, perhaps just now
            self._close_idle()

    def _close_idle(self) -> None:
        """Close what no thread is using; whoever uses one now closes it when done."""
        while self._idle:
            try:
                db = self._idle.pop()
            except IndexError:
                return
            db.close()

    def _rows(self, query: str, **values: object) -> list[Any]:
        return self._ask(SQL[query], values)

    def _ask(self, sql: str, values: Any = ()) -> list[Any]:
        db = self._borrow()
        try:
            return db.rows(sql, values)
        except Busy as error:
            raise StoreBusy(path=self._reader_path) from error
        finally:
            self._give_back(db)

    def run(self, run_id: str) -> Run | None:
        found = self._rows("run", run_id=run_id)
        return run_from(found[0]) if found else None

    def runs(self, which: c.Filter) -> list[Run]:
        sql, values = reports.list_runs(which)
        return [run_from(row) for row in self._ask(spelled(sql), values)]

    def history(self, run_id: str, after: int = 0) -> list[Event]:
        return [_event(row) for row in self._rows("history", run_id=run_id, after=after)]

    def histories(self, run_ids: Sequence[str]) -> dict[str, list[Event]]:
        found: dict[str, list[Event]] = {run_id: [] for run_id in run_ids}
        for row in self._rows("histories", ids=as_list(run_ids)):
            found[row["run_id"]].append(_event(row))
        return found

    def signals(self, run_id: str) -> list[Signal]:
        rows = self._rows("signals", run_id=run_id)
        return [Signal(row["id"], row["name"], bytes(row["payload"]), row["at"]) for row in rows]

    def children(self, run_id: str, steps: Sequence[str] | None = None) -> list[Child]:
        if steps is None:
            return [_child(row) for row in self._rows("children", run_id=run_id)]
        return [_child(row) for step in steps for row in self._rows("children_of_step", run_id=run_id, step=step)]

    def tags(self, run_id: str) -> dict[str, str]:
        return {row["name"]: row["value"] for row in self._rows("tags", run_id=run_id)}

    def routes(self) -> dict[int, Route]:
        return {row["id"]: _route(row) for row in self._rows("routes")}

    def sessions(self) -> list[Session]:
        return [Session(**{**dict(row), "serves": bytes(row["serves"])}) for row in self._rows("sessions")]

    def lanes(self) -> list[Lane]:
        return [_lane(row) for row in self._rows("lanes")]

    def held(self, session_id: str) -> list[tuple[str, int, int]]:
        return [(row["id"], row["generation"], row["revision"]) for row in self._rows("held", session_id=session_id)]

    def knocks(self, session_id: str, after: int) -> list[tuple[int, str]]:
        return [(row["id"], row["run_id"]) for row in self._rows("knocks", session_id=session_id, after=after)]

    def next_wake(self) -> int | None:
        times = [self._rows("next_wake")[0]["wake_at"], self._rows("next_deadline")[0]["deadline"]]
        times.append(claims.next_admission(map(_lane, self._rows("lanes_with_work")), self.now()))
        return min((time for time in times if time is not None), default=None)

    def counts(self) -> dict[str, int]:
        return {row["status"]: row["runs"] for row in self._rows("counts")}

    def check(self) -> list[str]:
        broken = [f"the file is damaged: {row[0]}" for row in map(_values, self._ask("PRAGMA quick_check")) if row[0] != "ok"]
        for law, sql in LAWS.items():
            rows = self._ask(sql)
            shown = ", ".join(str(_values(row)[0]) for row in rows[:5])
            if rows:
                broken.append(f"{law.replace('_', ' ')}: {len(rows)} broken, such as {shown}")
        return broken

    def facts(self) -> dict[str, object]:
        db = self._open
        version = tuple(int(part) for part in db.version.split("."))
        settings = {name: _values(self._ask(f"PRAGMA {name}")[0])[0] for name in ("journal_mode", "page_size")}
        warning = {"warning": "SQLite before 3.51.3 may damage a WAL shared by processes: pip install 'holdfast[sqlite]'"}
        return {
            "database": self._reader_path,
            "driver": db.kind,
            "sqlite": db.version,
            **settings,
            "schema": max(row["number"] for row in self._ask("SELECT number FROM holdfast_migration")),
            "bytes": os.path.getsize(self._reader_path),
            **(warning if version < FLAWED else {}),
        }

    def close(self) -> None:
        self._closed = self._closed or "it was closed"
        self._close_idle()


def _values(row: Any) -> list[Any]:
    return list(row.values()) if isinstance(row, dict) else list(row)


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _event(row: Any) -> Event:
    return Event(
        kind=row["kind"], step=row["step"], data=_bytes(row["data"]), error=_bytes(row["error"]), attempt=row["attempt"],
        started_at=row["started_at"], at=row["at"], seq=row["seq"],
    )  # fmt: skip


def _lane(row: Any) -> Lane:
    return Lane(**{**dict(row), "paused": bool(row["paused"])})


def _child(row: Any) -> Child:
    return Child(
        id=row["id"], parent_step=row["parent_step"], parent_index=row["parent_index"], status=Status(row["status"]),
        result=_bytes(row["result"]), error=_bytes(row["error"]),
    )  # fmt: skip


def _route(row: Any) -> Route:
    capabilities = tuple(row["capabilities"].split(",")) if row["capabilities"] else ()
    return Route(row["namespace"], row["workflow"], row["version"], row["lane"], capabilities)
