"""Runs in a PostgreSQL database: one writing connection per process, a few for readers, one to
listen.

A connection may be lost at any moment, even while it commits. Then it is made anew, and before
anything is written again we find out what became of what was on its way: nothing is written twice,
and nothing that was answered is lost.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import psycopg

from holdfast.core.runs import NewRun, Route
from holdfast.core.sessions import Session
from holdfast.errors import BadOption, EngineClosed, StoreError, StoreReadOnly, StoreUnavailable
from holdfast.store import process_fork, transitions
from holdfast.store.clock import Clock
from holdfast.store.contract import Operation, Store
from holdfast.store.contract.leases import ClaimLeases
from holdfast.store.contract.reading import NO_HINTS, Hints
from holdfast.store.contract.runs import Claim, ClaimedRuns, Started, StartRuns
from holdfast.store.instants import newest
from holdfast.store.postgres import address, claim, migrate
from holdfast.store.postgres.batch import BatchAttempt, ResolutionFailed
from holdfast.store.postgres.clock import DatabaseClock
from holdfast.store.postgres.commit_markers import CommitMarkers, delete_old
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.dialect import CHANNEL, SQL
from holdfast.store.postgres.errors import (
    UNSENDABLE,
    ConnectionEnded,
    ConnectionLost,
    RetryTransaction,
    translate_error,
)
from holdfast.store.postgres.notifier import SPACE, Notifier
from holdfast.store.postgres.one_statement_signal import (
    Announcer,
    OutgoingSignal,
    leave,
    left,
    outgoing_signal,
)
from holdfast.store.postgres.planned_writes import (
    PlannedWrite,
    find_committed,
    lanes_refused,
    plan_write,
    write_autocommit,
)
from holdfast.store.postgres.reader import PostgresReader
from holdfast.store.postgres.user_transaction import PostgresUserTransaction

FORK_PATIENCE = 5.0
"""Seconds for which a fork waits for the end of a transaction."""

BURY_PATIENCE = 5.0
"""Seconds for which we wait for the end of a session that lost us."""

GRACE = 1.0
"""Seconds for which a lock must be gone before its holder counts as dead: its connection may have
been lost, and be back soon."""

RETURN = 2.0
"""Seconds that processes are given to connect again after the server was lost: no lock survives the
server, so a lock that is missing then says nothing about its holder."""

SEEN = 0.1
"""Seconds for which it is known who lives."""

REMEMBERED = 10_000
"""How many answers are kept for callers who were told that the store is in trouble, and may ask
again."""

LOSSES = 5
"""How many lost connections in a row show that the user code of a transition ends them itself."""

_LOSES = (
    f"the connection was lost {LOSSES} times in a row while it ran: it must not end its connection"
    " or transaction"
)
_TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %(pid)s AND backend_start ="
    " %(since)s"
)


class UncertainWrite(NamedTuple):
    """What was on its way when the connection was lost: a statement, which its own rows tell of, or
    the commit of a transaction, which its marker tells of."""

    drafts: list[PlannedWrite]
    marker: int | None = None
    answers: Sequence[tuple[Operation, Any]] = ()
    hints: Hints | None = None
    letter: OutgoingSignal | None = None


class PostgresStore(PostgresReader):
    """A store in a PostgreSQL database."""

    overlaps = True

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        codec: str = "json",
        create: bool = True,
        listen: str | None = None,
        notify: bool | None = None,
    ) -> None:
        super().__init__(address.read(url, listen=listen, notify=notify), clock or DatabaseClock())
        self.url = self.address.shown
        self.commits = 0
        self._lock, self._quiet = threading.RLock(), False
        self._routes: dict[Route, int] = {}
        self._limited: set[str] = set()
        """Lanes in which nothing was born leased at the first try, since others were last heard
        of."""
        self._hints, self._hints_guard = Hints(), threading.Lock()
        self._has_hints: bool = False
        self._messenger = Notifier(self.address)
        self._doubt: UncertainWrite | None = None
        self._markers = CommitMarkers()
        self._hopeful = False
        """Whether the last of those who lease runs found any, or something was heard since: then
        the next does not look first."""
        self._settled: dict[int, tuple[Operation, Any]] = {}
        self._losses: Counter[int] = Counter()
        """How often the connection was lost after user code of a transition was called, by the
        identity of the transition."""
        self._missing: dict[int, tuple[int, float]] = {}
        self._seen_slots: tuple[float, frozenset[int]] = (-SEEN, frozenset())
        self._writer, self.identity = migrate.open_writer(self._connect, codec, create=create)
        try:
            self._begin_where_others_ended()
        except BaseException as error:
            self._writer.close()
            if isinstance(error, ConnectionLost):
                raise StoreUnavailable(database=self.url, reason=str(error)) from error
            raise
        process_fork.watch(self)

    def _begin_where_others_ended(self) -> None:
        if isinstance(self.clock, DatabaseClock):
            self.clock.measure(self._writer, times=3)
        delete_old(self._writer, self.now())
        latest = self._writer.rows(SQL["newest"])[0]
        written = [latest[name] for name in ("event_at", "run_at", "beat_at")]
        self.clock.not_before(newest(written, self.now()))

    # Writing

    def apply(self, batch: Sequence[Operation]) -> list[Any]:
        """Apply all transitions in one transaction, and answer each."""
        self._refuse_when_closed()
        if len(batch) > 1 and len({id(op) for op in batch}) < len(batch):
            batch = [msgspec.structs.replace(op) for op in batch]
        with self._lock:
            try:
                return self._answered(batch)
            except (StoreError, EngineClosed, MemoryError):
                raise
            except Exception as error:
                if len(batch) == 1:
                    return [self._apply_around_damage(batch[0], error)]
            return [self._alone(op) for op in batch]

    def _only(self, op: Operation) -> Any:
        return self._answered([op])[0]

    def _alone(self, op: Operation) -> Any:
        """One of a batch is faulty, or meets a damaged row: find out which, so that the others are
        not harmed."""
        try:
            return self._only(op)
        except Exception as error:
            return self._answer_to(op, error)

    def _answered(self, batch: Sequence[Operation]) -> list[Any]:
        try:
            self.persist(lambda: self._write([op for op in batch if id(op) not in self._settled]))
        except StoreReadOnly:
            self._writer.close()  # there may be another server by now
            raise
        except UNSENDABLE as error:
            raise translate_error(error, batch[0]) from error
        finally:
            self._losses.clear()
        return [translate_error(self._settled.pop(id(op))[1], op) for op in batch]

    def _write(self, ops: Sequence[Operation]) -> None:
        """Try to write, and settle what was written."""
        db = self._connected()
        now = self.now()
        ops = [op for op in ops if id(op) not in self._settled]
        if not ops or self._nothing_to_claim(db, ops, now):
            return
        signal = outgoing_signal(ops, now) if db.direct else None
        if signal is not None and self._leave(db, signal):
            return
        simple = self._simple(ops, now) if db.direct else []
        if simple and self._write_simply(db, simple):
            return
        left = [op for op in ops if id(op) not in self._settled]
        suspects = [op for op in left if id(op) in self._losses] if self._losses else []
        for op in suspects:
            self._transact(db, BatchAttempt(db, [op], now, self._routes, self._limited))
        left = [op for op in left if id(op) not in self._settled]
        if left:
            self._transact(
                db, BatchAttempt(db, left, now, self._routes, self._limited, drafts=not simple)
            )

    def _simple(self, ops: Sequence[Operation], now: int) -> list[PlannedWrite]:
        """Return the drafts of all of these, if all are one statement together."""
        drafts: list[PlannedWrite] = []
        taken: set[str] = set()
        for op in ops:
            found = plan_write(op, now, self._routes, taken, self._limited)
            if found is None or not found.simple or (drafts and found.head != drafts[0].head):
                return []
            drafts.append(found)
            taken.add(found.run_id)
        return drafts

    def _nothing_to_claim(self, db: Connection, ops: Sequence[Operation], now: int) -> bool:
        """Answer those who claim in vain without a transaction: that is how it is most of the
        time."""
        if self._hopeful and any(isinstance(op, ClaimLeases) for op in ops):
            return False
        if not all(
            isinstance(op, Claim | ClaimLeases) and not claim.is_worth_while(db, op, now)
            for op in ops
        ):
            return False
        self._settle([(op, ClaimedRuns()) for op in ops])
        return True

    def _write_simply(self, db: Connection, drafts: list[PlannedWrite]) -> bool:
        """Write in one statement, which commits itself; say whether its guards let all pass. Those
        that they did are settled."""
        try:
            passed = write_autocommit(db, drafts)
        except ConnectionLost:
            self._doubt = UncertainWrite(drafts)
            raise
        hints = Hints()
        for place in passed:
            hints.add(drafts[place].hints)
        self._settle([(drafts[place].op, drafts[place].answer) for place in passed])
        self._limited.update(
            lanes_refused(one for place, one in enumerate(drafts) if place not in passed)
        )
        if passed:
            self.commits += 1
            self._tell(hints)
            if _worth_telling(hints) and not self._messenger.running:
                with suppress(ConnectionLost, StoreError, psycopg.Error):  # it is only a hint
                    db.alone("tell", {"channel": CHANNEL, "name": self._messenger.name})
        return len(passed) == len(drafts)

    def _leave(self, db: Connection, signal: OutgoingSignal) -> bool:
        """Leave a signal in one statement, which commits itself and tells others; say whether it
        did."""
        teller = Announcer(
            self._messenger.name, self._messenger.session_id, self._messenger.running
        )
        try:
            found = leave(db, signal, teller)
        except ConnectionLost:
            self._doubt = UncertainWrite([], letter=signal)
            raise
        if found is not None:
            self.commits += 1
            self._settle([(signal.op, found[0])])
            self._hint(found[1])
            if found[1].ready and teller.speaks:
                self._messenger.tell()
        return found is not None

    def _transact(self, db: Connection, attempt: BatchAttempt) -> None:
        db.begin(lends=attempt.lends)
        try:
            attempt.write()
            answers = [(op, attempt.answers[place]) for place, op in enumerate(attempt.ops)]
            if attempt.undone:
                db.rollback()
            else:
                self._commit(
                    db,
                    attempt,
                    UncertainWrite([], self._markers.new_id(), answers, attempt.tx.hints),
                )
        except ConnectionEnded as ended:
            self._settle(
                [(attempt.called[-1], BadOption(option="transactional step", why=str(ended)))]
            )
            raise
        except ConnectionLost:
            db.rollback()
            self._suspect(attempt.called)
            raise
        except ResolutionFailed as unsettled:
            db.rollback()
            self._settle([(unsettled.op, unsettled.why)])
            raise RetryTransaction(f"without graphs: {unsettled}") from unsettled
        except BaseException:
            db.rollback()
            raise
        self._settle(answers)
        for op, answer in answers:
            if isinstance(op, ClaimLeases):
                self._hopeful = bool(answer)

    def _suspect(self, ops: Sequence[Operation]) -> None:
        """Take note that the connection was lost after user code of these transitions was called.
        From then on each is written by itself. One that loses it again and again ends it itself,
        and is refused."""
        for op in ops:
            self._losses[id(op)] += 1
            if self._losses[id(op)] >= LOSSES:
                self._settle([(op, BadOption(option="transactional step", why=_LOSES))])

    def _commit(self, db: Connection, attempt: BatchAttempt, doubt: UncertainWrite) -> None:
        assert doubt.marker is not None
        last = self._markers.statements(db, doubt.marker, attempt.tx.now)
        if _worth_telling(attempt.tx.hints) and not self._messenger.running:
            last = f"{last}; SELECT pg_notify('{CHANNEL}', '{self._messenger.name}')"
        try:
            db.commit(also=last)
        except ConnectionLost:
            self._doubt = doubt
            raise
        self._markers.committed(doubt.marker)
        self._committed(attempt)

    def _committed(self, attempt: BatchAttempt) -> None:
        self.commits += 1
        self._routes.update(attempt.tx.new_routes)
        self._tell(attempt.tx.hints)

    def _hint(self, hints: Hints) -> None:
        with self._hints_guard:
            self._hints.add(hints)
            self._has_hints = True

    def _tell(self, hints: Hints) -> None:
        if hints.frames or hints.routes or _worth_telling(hints):
            self._hint(hints)
        if _worth_telling(hints) and self._messenger.running:
            self._messenger.tell()

    def _settle(self, answers: Sequence[tuple[Operation, Any]]) -> None:
        self._settled.update((id(op), (op, answer)) for op, answer in answers)
        while len(self._settled) > REMEMBERED + len(answers):
            del self._settled[next(iter(self._settled))]

    # The writing connection

    def _connected(self) -> Connection:
        """Return the writing connection, made anew if it was lost, with nothing left in doubt."""
        if self._writer.raw.closed:
            self._reconnect()
        self._resolve(self._writer)
        if isinstance(self.clock, DatabaseClock) and self.clock.is_stale():
            self.clock.measure(self._writer)
        return self._writer

    def _reconnect(self) -> None:
        db = self._connect()
        try:
            db.must_be_writable()
            db.find_by_index()
            self._bury(db, self._writer)
        except BaseException:
            db.close()
            raise
        self._writer = db

    def _bury(self, db: Connection, old: Connection) -> None:
        """See to it that the session of a lost connection has ended: it may hold locks, or be just
        about to commit."""
        deadline = time.monotonic() + BURY_PATIENCE
        while old.direct and db.rows(_TERMINATE, {"pid": old.pid, "since": old.since}):
            if time.monotonic() > deadline:
                raise ConnectionLost("the session that was lost has not ended yet")
            time.sleep(0.002)

    def _resolve(self, db: Connection) -> None:
        """Find out what became of what was on its way when the connection was lost."""
        doubt = self._doubt
        if doubt is None:
            return
        if doubt.marker is not None:
            if self._markers.has_committed(db, doubt.marker, self.now()):
                self._settle(doubt.answers)
                self._tell(doubt.hints or Hints())
        elif doubt.letter is not None:
            found = left(db, doubt.letter)
            if found is not None:
                self._settle([(doubt.letter.op, found[0])])
                self._tell(found[1])
        else:
            for written in find_committed(db, doubt.drafts):
                self._settle([(written.op, written.answer)])
                self._tell(written.hints)
        self._doubt = None

    # Being told

    def hints(self) -> Hints:
        """What the commits since the last call touched."""
        if not self._has_hints:
            return NO_HINTS
        with self._hints_guard:
            hints, self._hints = self._hints, Hints()
            self._has_hints = False
        return hints

    def routes(self) -> dict[int, Route]:
        found = super().routes()
        for route, number in list(self._routes.items()):
            if (
                number not in found
            ):  # its row is damaged or gone: what is started from now on gets another one
                self._routes.pop(route, None)
        return found

    def changed(self) -> bool:
        """Whether another process committed since the last call, or may have."""
        self._refuse_when_closed()
        heard = self._messenger.changed()
        self._hopeful = self._hopeful or heard
        if heard:
            self._limited.clear()
        return heard

    def listen(self, session_id: str, call: Callable[[str | None], None]) -> bool:
        """Call when something is heard of other processes."""

        def heard(run_id: str | None) -> None:
            self._hopeful = self._hopeful or run_id is None
            call(run_id)

        self._messenger.listen(session_id, heard)
        return True

    def start_within(self, connection: Any, runs: Sequence[NewRun]) -> list[Started]:
        """Create runs in the caller's own open transaction. None is born leased: who knows when it
        commits?"""
        unleased = [msgspec.structs.replace(run, session_id=None) for run in runs]
        with PostgresUserTransaction(
            connection, self.address.shown, self.identity, self.now()
        ) as tx:
            return transitions.start_runs(tx, StartRuns(unleased))

    # Being alive

    def is_alive(self, session: Session) -> bool | None:
        """Whether the process of a session lives: whether anybody holds the lock that it took. A
        process whose lock is gone, but whose heartbeat goes on, may be unable to connect once more;
        it lives."""
        slot = session.slot
        if slot < 0:
            return None
        if slot in self._messenger.slots or slot in self._locked_slots():
            self._missing.pop(slot, None)
            return True
        beat_at, since = self._missing.get(slot, (None, 0.0))
        if beat_at != session.beat_at:
            since = time.monotonic()
            self._missing[slot] = (session.beat_at, since)
        missing_since = max(since, self._lost_at + RETURN)
        return False if time.monotonic() - missing_since > GRACE else None

    def was_away(self) -> bool:
        """Whether the server was lost until a moment ago: whoever could not beat meanwhile is about
        to connect again."""
        return time.monotonic() - self._lost_at < RETURN + GRACE

    def _locked_slots(self) -> frozenset[int]:
        """Return the places of all who live. One question does for many sessions, and for a
        moment."""
        asked, slots = self._seen_slots
        if time.monotonic() - asked > SEEN:
            slots = frozenset(row["slot"] for row in self._rows("locked_slots", space=SPACE))
            self._seen_slots = (time.monotonic(), slots)
        return slots

    def take_slot(self) -> int:
        """Lock a place by which others see that this process lives."""
        return self._messenger.take_slot()

    def keep_slot(self, slot: int) -> bool:
        """Return whether it is locked; if not, lock it soon."""
        return self._messenger.keep_slot(slot)

    def free_slot(self, slot: int) -> None:
        """Unlock it."""
        self._messenger.free_slot(slot)
        self._seen_slots = (-SEEN, frozenset())

    def close(self) -> None:
        """Let go of the database."""
        if self._closed is not None:
            return
        super().close()
        self._messenger.close()
        with self._lock:
            self._markers.delete(self._writer)
            self._writer.close()

    def before_fork(self) -> None:
        """Wait for the end of a transaction that another thread is in."""
        self._quiet = self._lock.acquire(timeout=FORK_PATIENCE)

    def after_fork(self, *, in_child: bool) -> None:
        """Go on; in the child let go of all connections, without a word to the server."""
        if in_child and self._closed is None:
            self._closed = "the process was forked: open it anew in the child"
            for db in (self._writer, *self._idle):
                db.abandon()
            self._idle.clear()
            self._messenger.abandon()
        if self._quiet:
            self._lock.release()


def _worth_telling(hints: Hints) -> bool:
    return bool(hints.ready or hints.runs or hints.finished or hints.graphs)


if TYPE_CHECKING:
    _promise: type[Store] = PostgresStore
