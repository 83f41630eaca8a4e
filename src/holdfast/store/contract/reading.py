"""The queries of a store about runs and all that belongs to them, and the records that answer them.

Streams, subscriptions, flows, leases and graphs have their queries in their own modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from holdfast.core.budgets.model import Budget, BudgetLine
from holdfast.core.events import Event
from holdfast.core.gates.model import Gate, GateEntry
from holdfast.core.payload import Payload, Seal
from holdfast.core.retention import RetentionRule
from holdfast.core.runs import Cell, ChildRecord, Route, RunRecord, RunSnapshot
from holdfast.core.schedules.model import Schedule, Tick
from holdfast.core.sessions import Lane, Session
from holdfast.core.status import Status
from holdfast.core.tokens import SigningKey
from holdfast.core.waits import Signal, WaitRecord
from holdfast.store.contract.gates import GateFilter
from holdfast.store.contract.payloads import MaintenanceLock, PrunableRun

CheckProgress = Callable[[int, int], None]
"""Called during a check with the number of parts that are done, and of all parts."""


class RunFilter(msgspec.Struct, kw_only=True):
    """Which runs to list, from new to old. ``before`` is the id of the last run of the previous
    page."""

    namespace: str | None = None
    statuses: Sequence[str] = ()
    workflow: str | None = None
    tags: dict[str, str] = {}
    since: int | None = None
    until: int | None = None
    worker: str | None = None
    parent_id: str | None = None
    roots: bool = False
    before: str | None = None
    limit: int = 50


class RunUpdate(msgspec.Struct):
    """The state of a run that its holder must know, at one instant."""

    status: Status
    generation: int
    revision: int
    cancel_reason: str | None
    cancelled_at: int | None
    """When the run was asked to stop; the instant of its deadline, if that was the reason."""
    signals: list[Signal]
    """The signals that no wait has consumed, oldest first."""


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


class NextDue(msgspec.Struct):
    """When to poll next: for parked runs and used-up rates, deadlines, schedules, managed flows,
    attempts of tasks, member outcomes of graphs, and stages of graphs that were given up."""

    work: int | None = None
    deadline: int | None = None
    schedule: int | None = None
    flow: int | None = None
    attempt: int | None = None
    graph: int | None = None
    stage: int | None = None

    @property
    def at(self) -> int | None:
        """The earliest instant. Member outcomes do not count: they are due as soon as
        they exist."""
        times = (self.work, self.deadline, self.schedule, self.flow, self.attempt, self.stage)
        return min((time for time in times if time is not None), default=None)


class RunReads(Protocol):
    """The queries about runs. Every answer is a committed state.

    Single reads and complete sets raise RowDamaged for a damaged row; lists leave damaged rows out
    and log each of them once.
    """

    def run(self, run_id: str) -> RunRecord | None:
        """Return the run, or None."""

    def runs(self, which: RunFilter) -> list[RunRecord]:
        """Return the runs that a filter selects, from new to old."""

    def history(self, run_id: str, after: int = 0) -> list[Event]:
        """Return the events of a run in order whose ``seq`` is above *after*."""

    def runs_by_id(self, run_ids: Sequence[str]) -> list[RunRecord]:
        """Return those of these runs that exist, in any order."""

    def histories(self, run_ids: Sequence[str]) -> dict[str, list[Event]]:
        """Return the events of several runs, each history in order."""

    def glance(self, run_id: str) -> RunUpdate | None:
        """Return what the holder of a run must read after a notification, or None."""

    def glances(self, run_ids: Sequence[str]) -> dict[str, RunUpdate]:
        """Return the same for several runs, by id."""

    def signals(self, run_id: str) -> list[Signal]:
        """Return the signals that no wait has consumed, oldest first."""

    def signals_of(self, run_ids: Sequence[str]) -> dict[str, list[Signal]]:
        """Return the same for several runs, by id."""

    def waits(
        self,
        run_id: str | None = None,
        *,
        escalated: bool = False,
        limit: int = 100,
        namespace: str | None = None,
    ) -> list[WaitRecord]:
        """Return the waits of a run, open and closed, oldest first; without a run, the open waits
        of all runs that have not ended, or of those of a namespace. With *escalated*, only open
        waits that need a person."""

    def wait(self, wait_id: str) -> WaitRecord | None:
        """Return the wait that was issued under this id, or None."""

    def children(self, run_id: str, steps: Sequence[str] | None = None) -> list[ChildRecord]:
        """Return the children of a run in order; with *steps*, of these steps only."""

    def ended_children(self, run_id: str, steps: Sequence[str]) -> list[ChildRecord]:
        """Return the children of these steps that have ended, in any order."""

    def open_children(self, run_id: str, limit: int) -> list[str]:
        """Return the ids of the children that have not ended, and have to end before their parent
        does."""

    def tags(self, run_id: str) -> dict[str, str]:
        """Return the tags of a run."""

    def routes(self) -> dict[int, Route]:
        """Return all routes on which runs were ever started, by id."""

    def sessions(self, limit: int = -1) -> list[Session]:
        """Return the sessions that have not ended, oldest first, those without a process (that only
        hold leases) last; at most *limit*, or all if it is negative."""

    def lanes(self) -> list[Lane]:
        """Return all lanes that have settings."""

    def share_free_at(self, lane: str, share: str) -> int:
        """Return when the rate of a lane allows the next run of a share; 0 or an instant in the
        past if now."""

    def budgets(self) -> list[Budget]:
        """Return all budgets, with their lines. A line whose reset is due is returned with nothing
        used."""

    def budget(self, name: str) -> Budget | None:
        """Return the budget with its lines, or None."""

    def allowances(self, names: Sequence[str]) -> list[BudgetLine]:
        """Return the lines of these budgets. A line whose reset is due is returned with nothing
        used."""

    def spending(self, run_id: str) -> dict[str, dict[str, int]]:
        """Return what a run and each run below it have spent, by run and dimension; of a run that
        is not a root, only its own."""

    def reservations(self, budget: str) -> list[tuple[str, str, str, int, int]]:
        """Return the reservations in a budget: run, key, dimension, amount, and the time
        of each."""

    def gate(self, gate_id: str) -> Gate | None:
        """Return the gate, or None."""

    def gates(self, which: GateFilter) -> list[Gate]:
        """Return the gates that a filter selects, from old to new."""

    def gate_entries(self, gate_id: str) -> list[GateEntry]:
        """Return the log of a gate, in order."""

    def keys(self) -> list[SigningKey]:
        """Return all current and former signing keys, oldest first, with their secrets."""

    def held(self, session_id: str) -> list[tuple[str, int, int]]:
        """Return the runs that a session holds: id, generation, revision."""

    def knocks(self, session_id: str, after: int) -> list[tuple[int, str]]:
        """Return the notifications of a session with a number above *after*: the number and the run
        that changed."""

    def next_wake(self) -> int | None:
        """Return when to poll next: when the next timer, deadline or schedule is due, or a used-up
        rate allows the next run. None if nothing is due."""

    def next_look(self) -> NextDue:
        """Return the same, by kind."""

    def schedule(self, namespace: str, name: str) -> Schedule | None:
        """Return the schedule, or None."""

    def schedules(self) -> list[Schedule]:
        """Return all schedules, by name."""

    def live_runs(self, schedule: Schedule) -> list[str]:
        """Return the runs of a schedule for whose end other ticks of it may have to wait."""

    def runs_of_ticks(self, schedule: Schedule, ticks: Sequence[int]) -> list[Tick]:
        """Return the ticks, each with its run or None."""

    def counts(self) -> dict[str, int]:
        """Return the number of runs by status."""

    def dossiers(self, after: str, limit: int, size: int) -> list[RunSnapshot]:
        """Return snapshots of the next runs above the id *after*, in the order of their ids: at
        most *limit* runs and *size* bytes, but at least one run. Empty at the end."""

    def is_touched(self, run_id: str) -> bool:
        """Return whether something reached a run that its holder had not seen when it parked the
        run."""

    def belongings(self, run_id: str) -> dict[str, list[list[Cell]]]:
        """Return the rows of other tables that belong to a run, by table; tables without such rows
        are left out."""

    def standing(self) -> dict[str, list[list[Cell]]]:
        """Return the rows of all tables that belong to the installation, by table; empty tables are
        left out."""

    def is_half_copied(self) -> bool:
        """Return whether a copy into this store has begun and not ended."""

    def seal(self) -> Seal | None:
        """Return the seal because of which the store refuses writes; None if it is not sealed."""

    def payload(self, digest: bytes) -> Payload | None:
        """Return a payload with all its parts, or None."""

    def payloads_of(self, run_id: str) -> list[bytes]:
        """Return the digests of the payloads to which a run refers."""

    def next_payloads(self, after: bytes, limit: int) -> list[tuple[bytes, int]]:
        """Return the digests of the next payloads above *after*, in order, and the stored bytes of
        each. Empty at the end."""

    def payload_totals(self) -> dict[str, int]:
        """Return how many payloads there are, how many bytes their values have, and how many they
        take."""

    def keys_in_use(self) -> dict[str, int]:
        """Return the ids of all keys with which values are encrypted, and the number of values of
        each."""

    def setting(self, name: str) -> str | None:
        """Return a setting of the installation, or None."""

    def retentions(self) -> list[RetentionRule]:
        """Return all retention rules."""

    def upkeep(self, name: str) -> MaintenanceLock | None:
        """Return the state of a maintenance task; None if no session has ever taken it."""

    def used_bytes(self) -> int:
        """Return the approximate bytes of the data: the figure that deleting reduces."""

    def nth_newest(self, workflow: str, statuses: Sequence[str], number: int) -> int | None:
        """Return when the *number*-th newest finished root of a workflow ended; None if there are
        fewer."""

    def oldest_finished(
        self, workflow: str | None, statuses: Sequence[str], since: int, before: int, limit: int
    ) -> list[PrunableRun]:
        """Return the finished trees whose roots ended from *since* on and before *before*, oldest
        first."""

    def check(self, progress: CheckProgress | None = None) -> list[str]:
        """Return a description of every damaged row and of every law that does not hold; empty if
        all is well. *progress* is called for each part that was checked."""

    def damaged_values(self) -> list[str]:
        """Return a description of every user value that is neither sealed nor JSON. Meant for
        stores whose codec writes JSON."""

    def facts(self) -> dict[str, object]:
        """Return the versions, settings and sizes that `doctor` shows."""
