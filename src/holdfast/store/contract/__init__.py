"""What a store promises. Two databases keep these promises; the conformance suite in
``holdfast.testing`` checks them.

All writing goes through ``apply``: a batch of transitions in one transaction, one commit, one
answer each. A transition that is refused changes nothing and harms none of its neighbours. Reads
see what was committed.
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
    FlowReader,
    FlowsWoken,
    FlowTransition,
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
    GraphReader,
    GraphStage,
    GraphTransition,
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
    LeaseReader,
    LeaseTransition,
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
    SubscriptionTransition,
)
from holdfast.store.contract.waits import (
    BEFORE,
    MOST_SIGNALS,
    RELEASABLE,
    DeliverSignal,
    ReleaseWait,
    WaitDelivery,
)

RunTransition = (
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
BudgetTransition = (
    SetBudget | RaiseBudget | ResetBudget | SpendBudget | SpendRunBudget | ReserveBudget
)
PayloadTransition = (
    CopyPayloads
    | Reseal
    | Forget
    | SaveRetention
    | RemoveRetention
    | TakeMaintenanceLock
    | EndMaintenance
    | SaveSetting
)
KeyTransition = NeedKey | RotateKey | ResealKey
GateTransition = DecideGate | DelegateGate | ReassignGate | UpdateGate | WithdrawGate | ExpireGates
ScheduleTransition = (
    SetSchedule
    | PauseSchedule
    | ResumeSchedule
    | RemoveSchedule
    | FireSchedules
    | TriggerSchedule
    | BackfillSchedule
)
WaitTransition = DeliverSignal | ReleaseWait
StreamTransition = AppendFrames
Operation = (
    RunTransition
    | FlowTransition
    | LeaseTransition
    | KeyTransition
    | GateTransition
    | ScheduleTransition
    | WaitTransition
    | BudgetTransition
    | StreamTransition
    | SubscriptionTransition
    | PayloadTransition
    | GraphTransition
)


class View(RunReads, GraphReader, FlowReader, LeaseReader, StreamReader, EventReader, Protocol):
    """All that can be asked of a database that holds runs."""


class Store(View, Protocol):
    """A database that holds runs."""

    url: str
    clock: Clock
    """By which it lives: the database's, unless another one was given."""
    overlaps: bool
    """Whether a commit mostly waits for others to do it, so that Python may do something else
    meanwhile."""

    def now(self) -> int:
        """The database's clock. It never goes back."""

    def apply(self, batch: Sequence[Operation]) -> list[Any]:
        """Apply all transitions in one transaction and answer each: its result, or the
        HoldfastError that refused it. Raises StoreError when nothing at all was written."""

    def snapshot(self) -> AbstractContextManager[View]:
        """All answers of the view show one committed state, that of the instant at which the
        snapshot is entered, whatever is committed meanwhile. Use it in one thread."""

    def hints(self) -> Hints:
        """What the commits since the last call touched, in this process."""

    def changed(self) -> bool:
        """Whether another process committed since the last call. Cheap."""

    def listen(self, session_id: str, call: Callable[[str | None], None]) -> bool:
        """Call, from any thread, when another process touches a run of that session, which is of
        this process, with the id of the run; or has committed something else, with None: then ask
        ``changed``. Nobody else is told of a signal that this process leaves for a run of that
        session. False when it cannot: then ask now and then."""

    def start_within(self, connection: Any, runs: Sequence[NewRun]) -> list[Started]:
        """Create runs in the caller's own open transaction on the same database."""

    def is_alive(self, session: Session) -> bool | None:
        """Whether the process of a session lives; None when the system cannot tell."""

    def was_away(self) -> bool:
        """Whether the database was out of reach until a moment ago, so that heartbeats of live
        processes may be overdue."""

    def take_slot(self) -> int:
        """Take a place by which others can see that this process lives."""

    def keep_slot(self, slot: int) -> bool:
        """Restore a lost place. Return whether others can see by it that this process lives; while
        they cannot, the worker beats more often. Cheap."""

    def free_slot(self, slot: int) -> None:
        """Give the place back."""

    def close(self) -> None:
        """Let go of the database."""


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
    "GateTransition",
    "GraphReader",
    "GraphStage",
    "GraphTransition",
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
