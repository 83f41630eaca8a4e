"""What operations and adapters share: ``Operation``, ``Transaction``, and the hints of a commit.

Operations, queries and SQL are grouped by feature in the packages beside this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.core.payload import Seal
from holdfast.core.runs import Route
from holdfast.core.waits import Signal
from holdfast.errors import RowDamaged


class Operation(msgspec.Struct):
    """A write: data that ``apply`` executes inside a transaction.

    Its docstring lists its answers and the errors that refuse it.
    """


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
    news: list[MemberOutcome]
    """Ends of graph members in this transaction. Those left at its end go to the outbox."""
    told: set[str]
    """Parents that were already woken in this transaction."""
    graphs: dict[str, Row]
    """Graphs that were read and locked in this transaction, and have not changed since."""

    def rows(self, query: str, **values: object) -> list[Row]:
        """Run a named query and return its rows, addressed by column name. Raises RowDamaged."""

    def sifted(self, query: str, **values: object) -> tuple[list[Row], list[RowDamaged]]:
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
