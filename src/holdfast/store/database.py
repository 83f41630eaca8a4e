"""The contract of a database adapter: ``Database``, ``Transaction``, and what they exchange.

An adapter knows how its database commits, reads, notifies and locks. It knows no feature:
operations, queries and SQL are written once for all adapters, in the packages beside this module.
Two adapters implement the contract, for SQLite and for PostgreSQL; the conformance suite in
``holdfast.testing`` checks it.

Invariants:
- All writes go through ``apply``: a batch of operations in one transaction, with one commit and
  one answer per operation.
- A refused operation changes nothing, and does not affect the other operations of its batch.
- Reads see committed states only.
- Instants and durations are microseconds; instants count from 1970 and come from the clock of the
  database.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from holdfast.core.payload import Seal
from holdfast.core.runs import NewRun, Route
from holdfast.core.sessions import Session
from holdfast.core.waits import Signal
from holdfast.errors import RowDamaged
from holdfast.store.clock import Clock


class Operation(msgspec.Struct):
    """A write: data that ``apply`` executes inside a transaction.

    Its docstring lists its answers and the errors that refuse it.
    """

    may_refuse_late: ClassVar[bool] = False
    """Whether applying it may raise after a write, so that it needs a savepoint."""


class SettingsChanged(msgspec.Struct):
    """The answer to an operation that replaces settings, if they have changed since its caller read
    them. Nothing was written: the caller reads them again and merges its changes into them."""


CheckProgress = Callable[[int, int], None]
"""Called during a check with the number of parts that are done, and of all parts."""


class SignalArrived(msgspec.Struct):
    """A signal to a run that this process holds, and the revision that the run has with it. A
    holder that has seen everything before this revision need not read the run."""

    run_id: str
    generation: int
    revision: int
    signal: Signal


class Hints(msgspec.Struct):
    """What a commit changed, for other parts of this process. Hints tell where to read; they are
    not facts."""

    ready: bool = False
    """Whether runs may be claimable, or something is due earlier than before."""
    runs: set[str] = msgspec.field(default_factory=set)
    """Held runs whose holders are notified."""
    finished: set[str] = msgspec.field(default_factory=set)
    """Runs and graphs that have ended."""
    frames: set[str] = msgspec.field(default_factory=set)
    """Runs that have new output."""
    subscriptions: bool = False
    """Whether webhooks were added, or have letters to deliver again."""
    graphs: bool = False
    """Whether the outbox of graphs has member outcomes."""
    delivered: list[SignalArrived] = msgspec.field(default_factory=list)
    """Signals to runs that are not among *runs*, in order."""
    routes: bool = False
    """Whether there are new routes, or changed limits of lanes."""

    def add(self, others: Hints) -> None:
        """Merge other hints into these."""
        self.ready |= others.ready
        self.runs |= others.runs
        self.finished |= others.finished
        self.frames |= others.frames
        self.subscriptions |= others.subscriptions
        self.graphs |= others.graphs
        self.delivered += others.delivered
        self.routes |= others.routes

    def copy(self) -> Hints:
        """Return a copy, to which a rollback can return."""
        return Hints(
            ready=self.ready,
            runs=set(self.runs),
            finished=set(self.finished),
            frames=set(self.frames),
            subscriptions=self.subscriptions,
            graphs=self.graphs,
            delivered=list(self.delivered),
            routes=self.routes,
        )


NO_HINTS = Hints()
"""The hints of a commit that changed nothing for which another part of this process waits. The
object is shared: do not add to it."""


class MemberOutcome(msgspec.Struct):
    """The end of a member that is not yet applied to its graph.

    With a *place*, it is applied in part: to the dependents up to that id, in the order of their
    ids.
    """

    graph_id: str
    run_id: str
    status: str
    result: bytes | None = None
    place: str | None = None


class Started(msgspec.Struct):
    """A run that exists after the operation.

    ``created`` is false if the run existed before. ``leased`` is true if the run was created with a
    lease for the session named in NewRun. It is false if the start is delayed, if the run does not
    fit into the limits of its lane, or if that session has ended.
    """

    id: str
    created: bool
    leased: bool
    now: int


Row = Any


class Transaction(Protocol):
    """An open transaction in one of the databases."""

    now: int
    hints: Hints
    member_outcomes: list[MemberOutcome]
    """Ends of graph members in this transaction. Those left at its end go to the outbox."""
    woken_parents: set[str]
    """Parents that were already woken in this transaction."""
    graphs: dict[str, Row]
    """Graphs that were read and locked in this transaction, and have not changed since."""

    def rows(self, query: str, **values: object) -> list[Row]:
        """Run a named query and return its rows, addressed by column name. Raises RowDamaged."""

    def sound_rows(self, query: str, **values: object) -> tuple[list[Row], list[RowDamaged]]:
        """Run a named query. Return its sound rows, and the damage of the others."""

    def change(self, query: str, **values: object) -> int:
        """Run a named query and return how many rows it changed."""

    def many(self, query: str, values: Sequence[dict[str, object]]) -> int:
        """Run a named query once per set of values and return how many rows changed in all."""

    def together(self, changes: dict[str, list[dict[str, object]]]) -> None:
        """Run several named queries, each once per set of values.

        No two of them may change the same column of a row: a database may run them as one
        statement.
        """

    def insert_runs(self, rows: Sequence[dict[str, object]]) -> set[str]:
        """Create the runs whose id and key are new, in order, and return their ids."""

    def route_id(self, route: Route) -> int:
        """Return the id of a route, creating it when it is new."""

    def as_list(self, items: Iterable[object]) -> object:
        """Return *items* as the list parameter of this database."""


class BatchTransaction(Transaction, Protocol):
    """The transaction in which an adapter applies a batch.

    It is separate from ``Transaction`` because a caller's own transaction, in which runs are
    started, offers none of this.
    """

    new_routes: dict[Route, int]
    """Routes that were created in this transaction, and are known to others after its commit."""

    def call(self, body: Callable[[Any], bytes]) -> bytes:
        """Let a user's function write in this transaction. It can neither commit nor roll back."""

    def lock_tables(self) -> None:
        """Block all other writers until this transaction ends. Readers are not blocked."""

    def seal(self, seal: Seal) -> None:
        """Make the database refuse every write of every process, with StoreSealed."""

    def unseal(self) -> None:
        """Make the database accept writes again."""

    def refuse_clear_values(self) -> bool:
        """Make the database refuse values in clear from every process, with CodecMismatch.

        Return whether it does.
        """


class Dialect(NamedTuple):
    """The SQL of one database."""

    name: str
    queries: Mapping[str, str]
    """All named queries."""
    spelled: Callable[[str], str]
    """Return a statement of the .sql files, or one that is composed from parts, for this database.
    """
    as_list: Callable[[Iterable[object]], object]
    """Return a list as a parameter."""
    garbled: tuple[type[Exception], ...]
    """The exceptions of the driver for a value with which the database cannot compute."""


class RowSource(Protocol):
    """A database, or a snapshot of it, that can be read."""

    @property
    def dialect(self) -> Dialect:
        """The SQL of this database."""

    @property
    def clock(self) -> Clock:
        """The clock of the store: the database's, unless another one was given."""

    def fetch(self, sql: str, values: Any = ()) -> list[Row]:
        """Return the rows of a statement in the dialect of this database, addressed by column
        name."""


class ProcessLiveness(Protocol):
    """Shows which processes are alive. Each worker holds a slot, which its death releases."""

    def is_alive(self, session: Session) -> bool | None:
        """Return whether the process of a session is alive; None if that cannot be determined."""

    def was_away(self) -> bool:
        """Return whether the database was unreachable until a moment ago, so that heartbeats of
        live processes may be overdue."""

    def acquire(self) -> int:
        """Take a slot by which other processes can see that this process is alive."""

    def keep(self, slot: int) -> bool:
        """Take the slot again if it was lost. Return whether other processes can see by it that
        this process is alive; while they cannot, the worker sends heartbeats more often. Cheap."""

    def release(self, slot: int) -> None:
        """Release the slot."""


class Database(RowSource, Protocol):
    """A database that holds runs."""

    @property
    def url(self) -> str:
        """The address, without a password."""

    @property
    def overlaps_commits(self) -> bool:
        """Whether a commit mostly waits for I/O outside this process, so that Python can do other
        work meanwhile."""

    @property
    def liveness(self) -> ProcessLiveness:
        """The slots by which processes see each other."""

    def apply(self, batch: Sequence[Operation]) -> list[Any]:
        """Apply all operations in one transaction, and return one answer per operation: its result,
        or the HoldfastError that refused it.

        Raises StoreError if nothing at all was written.
        """

    def snapshot(self) -> AbstractContextManager[RowSource]:
        """Return a source whose rows all show the committed state at the instant at which the
        context is entered, regardless of later commits. Use it in one thread."""

    def hints(self) -> Hints:
        """Return and reset what the commits of this process have changed since the last call."""

    def changed(self) -> bool:
        """Return whether another process has committed since the last call. Cheap."""

    def listen(self, session_id: str, call: Callable[[str | None], None]) -> bool:
        """Call *call*, from any thread, when another process commits; return False if the database
        cannot notify, so that the caller must poll.

        The argument is the id of a run of *session_id*, a session of this process, that another
        process has notified; or None for any other commit: then the caller asks ``changed``. A
        signal that this process leaves for a run of that session is not announced to other
        processes.
        """

    def start_within(self, connection: Any, runs: Sequence[NewRun]) -> list[Started]:
        """Create runs in the caller's open transaction on the same database. Raises what StartRuns
        raises."""

    def apply_within(self, connection: Any, op: Operation) -> Any:
        """Apply an operation on a managed flow in the caller's open transaction on the same
        database, and return its answer. Raises what the operation raises; then the transaction is
        as it was before the call."""

    def keep_routes(self, numbers: Collection[int]) -> None:
        """Forget the cached numbers of routes that are not among *numbers*: their rows are gone, so
        that the next start creates them again."""

    def integrity(self) -> list[str]:
        """Describe the damage to files and indexes that the database itself can find."""

    def info(self) -> dict[str, object]:
        """Return the versions, settings and sizes that `doctor` shows."""

    def close(self) -> None:
        """Close all connections."""
