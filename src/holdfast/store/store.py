"""The store: all operations and queries on one database.

``Store`` is concrete: it composes the queries of the features over any ``Database``. Single reads
and complete sets raise RowDamaged for a damaged row; lists leave damaged rows out and log each of
them once. Every answer is a committed state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from holdfast.core.runs import NewRun
from holdfast.store import check
from holdfast.store.api_keys.queries import ApiKeyQueries
from holdfast.store.audit.queries import AuditQueries
from holdfast.store.budgets.queries import BudgetQueries
from holdfast.store.clock import Clock
from holdfast.store.damage import DamageQueries
from holdfast.store.database import (
    CheckProgress,
    Database,
    Hints,
    Operation,
    ProcessLiveness,
    RowSource,
    Started,
)
from holdfast.store.definitions.queries import DefinitionQueries
from holdfast.store.flows.queries import FlowQueries
from holdfast.store.gates.queries import GateQueries
from holdfast.store.graphs.queries import GraphQueries
from holdfast.store.installation import InstallationQueries
from holdfast.store.keys.queries import KeyQueries
from holdfast.store.lanes.queries import LaneQueries
from holdfast.store.logins.queries import LoginQueries
from holdfast.store.messages.queries import MessageQueries
from holdfast.store.operations.queries import OperationQueries
from holdfast.store.payloads.queries import PayloadQueries
from holdfast.store.reader import Reader
from holdfast.store.resting_tokens.queries import RestingTokenQueries
from holdfast.store.retention.queries import RetentionQueries
from holdfast.store.runs.child_queries import ChildQueries
from holdfast.store.runs.gauges import RunGauges
from holdfast.store.runs.queries import RunQueries
from holdfast.store.runs.session_queries import SessionQueries
from holdfast.store.runs.snapshot_queries import RunSnapshotQueries
from holdfast.store.schedules.queries import ScheduleQueries
from holdfast.store.signals.queries import SignalQueries
from holdfast.store.streams.queries import StreamQueries
from holdfast.store.subscriptions.queries import SubscriptionQueries
from holdfast.store.tasks.queries import TaskQueries
from holdfast.store.waits.queries import WaitQueries


class View:
    """All queries, by feature, over a database or over one snapshot of it."""

    def __init__(
        self,
        source: RowSource,
        keep_routes: Callable[[Collection[int]], None] = lambda routes: None,
    ) -> None:
        reader = Reader(source)
        self._reader: Reader = reader
        self.clock: Clock = source.clock
        # The clock's own method: a step asks for the time several times, and this saves a call.
        self.now: Callable[[], int] = source.clock.now
        self.installation: InstallationQueries = InstallationQueries(reader)
        self.runs: RunQueries = RunQueries(reader, keep_routes)
        self.children: ChildQueries = ChildQueries(reader)
        self.sessions: SessionQueries = SessionQueries(reader)
        self.run_snapshots: RunSnapshotQueries = RunSnapshotQueries(reader)
        self.gauges: RunGauges = RunGauges(reader)
        self.signals: SignalQueries = SignalQueries(reader)
        self.waits: WaitQueries = WaitQueries(reader)
        self.gates: GateQueries = GateQueries(reader)
        self.lanes: LaneQueries = LaneQueries(reader)
        self.budgets: BudgetQueries = BudgetQueries(reader)
        self.streams: StreamQueries = StreamQueries(reader)
        self.subscriptions: SubscriptionQueries = SubscriptionQueries(reader, self.installation)
        self.payloads: PayloadQueries = PayloadQueries(reader)
        self.retention: RetentionQueries = RetentionQueries(reader)
        self.schedules: ScheduleQueries = ScheduleQueries(reader)
        self.tasks: TaskQueries = TaskQueries(reader)
        self.graphs: GraphQueries = GraphQueries(reader)
        self.flows: FlowQueries = FlowQueries(reader)
        self.keys: KeyQueries = KeyQueries(reader)
        self.api_keys: ApiKeyQueries = ApiKeyQueries(reader)
        self.audit: AuditQueries = AuditQueries(reader)
        self.logins: LoginQueries = LoginQueries(reader)
        self.definitions: DefinitionQueries = DefinitionQueries(reader)
        self.messages: MessageQueries = MessageQueries(reader)
        self.resting_tokens: RestingTokenQueries = RestingTokenQueries(reader)
        self.operations: OperationQueries = OperationQueries(reader)

    @property
    def left_out(self) -> list[str]:
        """The damaged rows that lists of this view have left out so far, as texts."""
        return self._reader.left_out


class Store(View):
    """All operations and queries on one database. The verbs of the database are its own."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, database.keep_routes)
        self.database: Database = database
        self.url: str = database.url
        self.overlaps_commits: bool = database.overlaps_commits
        self.liveness: ProcessLiveness = database.liveness
        # Bound methods of the database: a wrapper would cost the hot path a call per commit.
        self.apply: Callable[[Sequence[Operation]], list[Any]] = database.apply
        self.hints: Callable[[], Hints] = database.hints
        self.changed: Callable[[], bool] = database.changed
        self.listen: Callable[[str, Callable[[str | None], None]], bool] = database.listen
        self.start_within: Callable[[Any, Sequence[NewRun]], list[Started]] = database.start_within
        self.apply_within: Callable[[Any, Operation], Any] = database.apply_within
        self.info: Callable[[], dict[str, object]] = database.info
        self.close: Callable[[], None] = database.close

    @contextmanager
    def snapshot(self) -> Iterator[View]:
        """Return a view whose answers all show the committed state at the instant at which the
        context is entered, regardless of later commits. Use it in one thread."""
        with self.database.snapshot() as source:
            yield View(source)

    def check(self, progress: CheckProgress | None = None) -> list[str]:
        """Return a description of every damaged row and of every law that does not hold; empty if
        all is well. *progress* is called for each part that was checked."""
        return self.database.integrity() + check.damage_and_broken_laws(self._reader, progress)

    def check_leases(self) -> list[str]:
        """Return a description of every law about leased runs that does not hold: a check that does
        not read finished runs."""
        return check.broken_laws_of_leases(self._reader)

    def damaged_values(self) -> list[str]:
        """Return a description of every user value that is neither sealed nor JSON. Meant for
        stores whose codec writes JSON."""
        return DamageQueries(self._reader).damaged_values()
