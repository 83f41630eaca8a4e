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

from holdfast.core.runs import NewRun
from holdfast.core.sessions import Session
from holdfast.store.clock import Clock
from holdfast.store.contract.budgets import (
    BudgetRefused,
    BudgetSpent,
    RaiseBudget,
    ReserveBudget,
    ResetBudget,
    SetBudget,
    SpendBudget,
    SpendRunBudget,
)
from holdfast.store.contract.flows import (
    CreateFlow,
    DeliverFlowEvent,
    FlowOperation,
    FlowReader,
    FlowsWoken,
    MoveFlow,
    ObserveFlowStep,
    PruneFlows,
    WakeFlows,
)
from holdfast.store.contract.gates import (
    DecideGate,
    DelegateGate,
    ExpireGates,
    GateChange,
    GateFilter,
    GateMove,
    ReassignGate,
    UpdateGate,
    WithdrawGate,
)
from holdfast.store.contract.graphs import (
    CancelGraph,
    GraphOperation,
    GraphReader,
    GraphStage,
    ImportGraph,
    NeededResult,
    PruneGraphs,
    ReplayMember,
    ResealMember,
    ResolvedGraphs,
    ResolveGraphs,
    StagedGraph,
    StageGraphs,
    StartedMember,
    SweepStages,
    WriteStagePart,
)
from holdfast.store.contract.growing import AddMembers, Compose, Lease, PreparedMember
from holdfast.store.contract.keys import NeedKey, OfferedKey, ResealKey, RotatedKey, RotateKey
from holdfast.store.contract.leases import (
    ClaimLeases,
    CompleteLeases,
    ExpireAttempts,
    Judge,
    LeasedTask,
    LeaseOperation,
    LeaseReader,
    OverrideRun,
    RenewLeases,
    RevokeLease,
    SetPriority,
    TaskCompletion,
)
from holdfast.store.contract.payloads import (
    ENCRYPTION,
    HALF_COPIED,
    SEALED,
    CopyPayloads,
    EncryptStore,
    EndMaintenance,
    Forget,
    MaintenanceLock,
    PrunableRun,
    RemoveRetention,
    Reseal,
    SaveRetention,
    SaveSetting,
    TakeMaintenanceLock,
    ValueChange,
)
from holdfast.store.contract.reading import (
    NO_HINTS,
    CheckProgress,
    Hints,
    MemberOutcome,
    NextDue,
    RunFilter,
    RunReads,
    RunUpdate,
    SignalArrived,
)
from holdfast.store.contract.runs import (
    Advance,
    Advanced,
    BeginCopy,
    BeginImport,
    Claim,
    ClaimedRuns,
    CopyRuns,
    DebounceStart,
    EndCopy,
    EndSession,
    ExpireRuns,
    FreedRuns,
    Heartbeat,
    ImportRun,
    OpenSession,
    PartlyCancelled,
    Prune,
    Pruned,
    ReplayRun,
    ReplayRuns,
    RequestCancel,
    ResumeRun,
    RevisionChanged,
    SealStore,
    SetAside,
    SetLane,
    SignalRun,
    StagedEvents,
    StageEvents,
    Started,
    StartRuns,
    UnsealStore,
)
from holdfast.store.contract.schedules import (
    BackfillSchedule,
    FireSchedules,
    PauseSchedule,
    RemoveSchedule,
    ResumeSchedule,
    SetSchedule,
    TriggerSchedule,
)
from holdfast.store.contract.streams import Appended, AppendFrames, StoredFrame, StreamReader
from holdfast.store.contract.subscriptions import (
    AddSubscription,
    ClaimWebhooks,
    Consume,
    Consumed,
    EventReader,
    MoveCursor,
    RecordDelivery,
    RedeliverDeadLetters,
    RemoveSubscription,
    ResealWebhook,
    SubscriptionOperation,
)
from holdfast.store.contract.waits import (
    BEFORE,
    MOST_SIGNALS,
    RELEASABLE,
    DeliverSignal,
    ReleaseWait,
    WaitDelivery,
)

RunOperation = (
    StartRuns
    | DebounceStart
    | Advance
    | Claim
    | OpenSession
    | Heartbeat
    | EndSession
    | ExpireRuns
    | SignalRun
    | RequestCancel
    | ResumeRun
    | ReplayRun
    | ReplayRuns
    | Prune
    | SetLane
    | SetAside
    | StageEvents
    | ImportRun
    | BeginCopy
    | BeginImport
    | CopyRuns
    | EndCopy
    | SealStore
    | EncryptStore
    | UnsealStore
)
BudgetOperation = (
    SetBudget | RaiseBudget | ResetBudget | SpendBudget | SpendRunBudget | ReserveBudget
)
PayloadOperation = (
    CopyPayloads
    | Reseal
    | Forget
    | SaveRetention
    | RemoveRetention
    | TakeMaintenanceLock
    | EndMaintenance
    | SaveSetting
)
KeyOperation = NeedKey | RotateKey | ResealKey
GateOperation = DecideGate | DelegateGate | ReassignGate | UpdateGate | WithdrawGate | ExpireGates
ScheduleOperation = (
    SetSchedule
    | PauseSchedule
    | ResumeSchedule
    | RemoveSchedule
    | FireSchedules
    | TriggerSchedule
    | BackfillSchedule
)
WaitOperation = DeliverSignal | ReleaseWait
StreamOperation = AppendFrames
Operation = (
    RunOperation
    | FlowOperation
    | LeaseOperation
    | KeyOperation
    | GateOperation
    | ScheduleOperation
    | WaitOperation
    | BudgetOperation
    | StreamOperation
    | SubscriptionOperation
    | PayloadOperation
    | GraphOperation
)


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


__all__ = [
    "BEFORE",
    "ENCRYPTION",
    "HALF_COPIED",
    "MOST_SIGNALS",
    "NO_HINTS",
    "RELEASABLE",
    "SEALED",
    "AddMembers",
    "AddSubscription",
    "Advance",
    "Advanced",
    "AppendFrames",
    "Appended",
    "BackfillSchedule",
    "BeginCopy",
    "BeginImport",
    "BudgetRefused",
    "BudgetSpent",
    "CancelGraph",
    "CheckProgress",
    "Claim",
    "ClaimLeases",
    "ClaimWebhooks",
    "ClaimedRuns",
    "CompleteLeases",
    "Compose",
    "Consume",
    "Consumed",
    "CopyPayloads",
    "CopyRuns",
    "CreateFlow",
    "DebounceStart",
    "DecideGate",
    "DelegateGate",
    "DeliverFlowEvent",
    "DeliverSignal",
    "EncryptStore",
    "EndCopy",
    "EndMaintenance",
    "EndSession",
    "EventReader",
    "ExpireAttempts",
    "ExpireGates",
    "ExpireRuns",
    "FireSchedules",
    "FlowsWoken",
    "Forget",
    "FreedRuns",
    "GateChange",
    "GateFilter",
    "GateMove",
    "GateOperation",
    "GraphOperation",
    "GraphReader",
    "GraphStage",
    "Heartbeat",
    "Hints",
    "ImportGraph",
    "ImportRun",
    "Judge",
    "Lease",
    "LeasedTask",
    "MaintenanceLock",
    "MemberOutcome",
    "MoveCursor",
    "MoveFlow",
    "NeedKey",
    "NeededResult",
    "NextDue",
    "ObserveFlowStep",
    "OfferedKey",
    "OpenSession",
    "Operation",
    "OverrideRun",
    "PartlyCancelled",
    "PauseSchedule",
    "PreparedMember",
    "PrunableRun",
    "Prune",
    "PruneFlows",
    "PruneGraphs",
    "Pruned",
    "RaiseBudget",
    "ReassignGate",
    "RecordDelivery",
    "RedeliverDeadLetters",
    "ReleaseWait",
    "RemoveRetention",
    "RemoveSchedule",
    "RemoveSubscription",
    "RenewLeases",
    "ReplayMember",
    "ReplayRun",
    "ReplayRuns",
    "RequestCancel",
    "Reseal",
    "ResealKey",
    "ResealMember",
    "ResealWebhook",
    "ReserveBudget",
    "ResetBudget",
    "ResolveGraphs",
    "ResolvedGraphs",
    "ResumeRun",
    "ResumeSchedule",
    "RevisionChanged",
    "RevokeLease",
    "RotateKey",
    "RotatedKey",
    "RunFilter",
    "RunReads",
    "RunUpdate",
    "SaveRetention",
    "SaveSetting",
    "SealStore",
    "SetAside",
    "SetBudget",
    "SetLane",
    "SetPriority",
    "SetSchedule",
    "SignalArrived",
    "SignalRun",
    "SpendBudget",
    "SpendRunBudget",
    "StageEvents",
    "StageGraphs",
    "StagedEvents",
    "StagedGraph",
    "StartRuns",
    "Started",
    "StartedMember",
    "Store",
    "StoredFrame",
    "StreamReader",
    "SweepStages",
    "TakeMaintenanceLock",
    "TaskCompletion",
    "TriggerSchedule",
    "UnsealStore",
    "UpdateGate",
    "ValueChange",
    "View",
    "WaitDelivery",
    "WakeFlows",
    "WithdrawGate",
    "WriteStagePart",
]
