"""The contract of a store: its operations, its queries, and the protocol ``Store``.

Two adapters implement it, for SQLite and for PostgreSQL. The conformance suite in
``holdfast.testing`` checks it.

Invariants:
- All writes go through ``apply``: a batch of operations in one transaction, with one commit and
  one answer per operation.
- A refused operation changes nothing, and does not affect the other operations of its batch.
- Queries see committed states only.
- Each operation is a struct whose docstring lists its answers and the errors that refuse it.
- Instants and durations are microseconds; instants count from 1970 and come from the clock of the
  store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from holdfast.core.budgets.model import Budget, BudgetLine
from holdfast.core.events import Event
from holdfast.core.flows.model import FlowEventRecord, FlowRecord, FlowStepRecord
from holdfast.core.gates.model import Gate, GateEntry
from holdfast.core.graphs.model import (
    GraphEvent,
    GraphRecord,
    GraphSnapshot,
    GroupRecord,
    MemberRecord,
)
from holdfast.core.payload import Payload, Seal
from holdfast.core.retention import RetentionRule
from holdfast.core.runs import Cell, ChildRecord, NewRun, Route, RunRecord, RunSnapshot
from holdfast.core.schedules.model import Schedule, Tick
from holdfast.core.sessions import Lane, Session
from holdfast.core.streams.model import Progress, StreamRecord
from holdfast.core.subscriptions import DeadLetter, EventCursor, EventFilter, RunEvent, Subscription
from holdfast.core.tokens import SigningKey
from holdfast.core.waits import Signal, WaitRecord
from holdfast.store.clock import Clock
from holdfast.store.database import CheckProgress, Hints, Operation, Started
from holdfast.store.gates.operations import GateFilter
from holdfast.store.graphs.operations import NeededResult
from holdfast.store.retention.operations import MaintenanceLock, PrunableRun
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.queries import NextDue, RunUpdate
from holdfast.store.streams.operations import StoredFrame


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

    def last_checkpoint(self, run_id: str) -> int:
        """Return the ``seq`` of the last checkpoint of a run; 0 if it has none, or was replayed
        after it."""

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

    def budget_lines(self, names: Sequence[str]) -> list[BudgetLine]:
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

    def notifications(self, session_id: str, after: int) -> list[tuple[int, str]]:
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

    def maintenance_lock(self, name: str) -> MaintenanceLock | None:
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


class GraphReader(Protocol):
    """Queries about graphs."""

    def graph(self, graph_id: str) -> GraphRecord | None:
        """Return the graph, or None."""

    def graphs(
        self,
        namespace: str,
        *,
        status: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[GraphRecord]:
        """Return graphs from new to old. The page begins after the id ``before``."""

    def whole_graph(self, graph_id: str) -> GraphSnapshot | None:
        """Return the graph with all its members, groups and edges, by the ids of their runs; or
        None. Raises RowDamaged if an edge names a member that does not exist."""

    def graphs_by_id(self, graph_ids: Sequence[str]) -> list[GraphRecord]:
        """Return those of the graphs that exist, in any order."""

    def last_runs(self, graph_ids: Sequence[str]) -> list[RunRecord]:
        """Return the runs of the members on which no other member depends, by id."""

    def member(self, run_id: str) -> MemberRecord | None:
        """Return the member whose run has, or will have, this id; or None."""

    def groups_of_member(self, run_id: str) -> list[GroupRecord]:
        """Return the edge groups for which a member waits."""

    def needed_by(self, run_id: str) -> list[NeededResult]:
        """Return the upstreams of a member."""

    def graph_events(self, graph_id: str, after: int = 0, limit: int = 1000) -> list[GraphEvent]:
        """Return the audit trail of a graph above the number *after*, in order."""

    def members_to_seal(self, after: str, limit: int) -> list[tuple[str, bytes]]:
        """Return the next waiting members above the id *after*, with their inputs as stored."""


class FlowReader(Protocol):
    """Queries about flows."""

    def flow(self, flow_id: str) -> FlowRecord | None:
        """Return the flow, or None."""

    def flows(
        self,
        namespace: str,
        *,
        owner: str | None = None,
        status: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[FlowRecord]:
        """Return flows: of an owner from new to old, of a status by the time of their last change,
        otherwise the last changed first. The page begins after ``before``, the id of the last flow
        of the previous page."""

    def flow_steps(self, flow_id: str) -> list[FlowStepRecord]:
        """Return the steps of a flow in the order in which they were first observed."""

    def flow_events(self, flow_id: str, limit: int) -> list[FlowEventRecord]:
        """Return the audit trail of a flow, newest first."""

    def next_flow(self) -> int | None:
        """Return when the next timer of a flow is due; None if there is none."""


class LeaseReader(Protocol):
    """Queries about leases."""

    def next_attempt_end(self) -> int | None:
        """Return when the next attempt exceeds its timeout; None if none can."""


class StreamReader(Protocol):
    """Queries about the output of runs."""

    def frames(
        self,
        run_id: str,
        after: int = 0,
        *,
        until: int | None = None,
        limit: int = 1000,
        step: str | None = None,
        best_effort: bool = True,
    ) -> list[StoredFrame]:
        """Return the frames of a run in order whose ``seq`` is above *after* and not above *until*;
        with *step*, of this step only. Without *best_effort*, frames of that mode are left out."""

    def streams(self, run_id: str) -> list[StreamRecord]:
        """Return the streams of a run in the order in which they were opened."""

    def progress(self, run_id: str) -> Progress | None:
        """Return the last progress that a run reported; None if it never did."""


class EventReader(Protocol):
    """Queries about the events of all runs, and about subscriptions."""

    def installation(self) -> str:
        """Return the id of this installation, which its cursors contain."""

    def place(self, start: EventCursor | str) -> EventCursor:
        """Return the cursor that ``beginning`` or ``now`` stands for."""

    def events(
        self, after: EventCursor, which: EventFilter, window: int = 500
    ) -> tuple[list[RunEvent], EventCursor]:
        """Return the matching events among the next *window* events, in order, and the cursor to
        continue from.

        An event that commits late is returned late, but never skipped; events of one run keep their
        order.
        """

    def subscription(self, name: str) -> Subscription | None:
        """Return the subscription, or None."""

    def subscriptions(self) -> list[Subscription]:
        """Return all subscriptions."""

    def letters(self, name: str, *, again: bool = False, limit: int = 1000) -> list[DeadLetter]:
        """Return the dead letters of a webhook, oldest first; with *again*, only letters that are
        marked for another delivery."""


class View(RunReads, GraphReader, FlowReader, LeaseReader, StreamReader, EventReader, Protocol):
    """All queries of a store."""


class Store(View, Protocol):
    """A database that holds runs."""

    url: str
    clock: Clock
    """The clock of the store: the database's, unless another one was given."""
    overlaps: bool
    """Whether a commit mostly waits for I/O outside this process, so that Python can do other work
    meanwhile."""

    def now(self) -> int:
        """Return the time of the store's clock. It never goes back."""

    def apply(self, batch: Sequence[Operation]) -> list[Any]:
        """Apply all operations in one transaction, and return one answer per operation: its result,
        or the HoldfastError that refused it.

        Raises StoreError if nothing at all was written.
        """

    def snapshot(self) -> AbstractContextManager[View]:
        """Return a view whose answers all show the committed state at the instant at which the
        context is entered, regardless of later commits. Use it in one thread."""

    def hints(self) -> Hints:
        """Return and reset what the commits of this process have changed since the last call."""

    def changed(self) -> bool:
        """Return whether another process has committed since the last call. Cheap."""

    def listen(self, session_id: str, call: Callable[[str | None], None]) -> bool:
        """Call *call*, from any thread, when another process commits; return False if the store
        cannot notify, so that the caller must poll.

        The argument is the id of a run of *session_id*, a session of this process, that another
        process has notified; or None for any other commit: then the caller asks ``changed``. A
        signal that this process leaves for a run of that session is not announced to other
        processes.
        """

    def start_within(self, connection: Any, runs: Sequence[NewRun]) -> list[Started]:
        """Create runs in the caller's open transaction on the same database. Raises what StartRuns
        raises."""

    def is_alive(self, session: Session) -> bool | None:
        """Return whether the process of a session is alive; None if that cannot be determined."""

    def was_away(self) -> bool:
        """Return whether the database was unreachable until a moment ago, so that heartbeats of
        live processes may be overdue."""

    def take_slot(self) -> int:
        """Take a slot by which other processes can see that this process is alive."""

    def keep_slot(self, slot: int) -> bool:
        """Take the slot again if it was lost. Return whether other processes can see by it that
        this process is alive; while they cannot, the worker sends heartbeats more often. Cheap."""

    def free_slot(self, slot: int) -> None:
        """Release the slot."""

    def close(self) -> None:
        """Close all connections to the database."""
