"""What a store promises. Two databases keep these promises; the conformance suite in ``holdfast.testing`` checks them.

All writing goes through ``apply``: a batch of transitions in one transaction, one commit, one answer each. A transition that
is refused changes nothing and harms none of its neighbours. Reads see what was committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from holdfast.core.records import NewRun, Session
from holdfast.store.clock import Clock
from holdfast.store.contract.budgets import RaiseBudget, Refused, Reserve, ResetBudget, SetBudget, Spend, SpendBudget, Spent
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
    Born,
    CancelGraph,
    GraphReader,
    GraphTransition,
    ImportGraph,
    Needed,
    PruneGraphs,
    ReplayMember,
    ResealMember,
    Settled,
    SettleGraphs,
    Stage,
    Staged,
    StageGraphs,
    StagePart,
    SweepStages,
)
from holdfast.store.contract.growing import Compose, ExtendGraph, Lease, Prepared
from holdfast.store.contract.keys import NeedKey, OfferedKey, ResealKey, Rotated, RotateKey
from holdfast.store.contract.leases import (
    ClaimLeases,
    CompleteLeases,
    Completion,
    ExpireAttempts,
    Judge,
    Leased,
    LeaseReader,
    LeaseTransition,
    OverrideRun,
    RenewLeases,
    RevokeLease,
    SetPriority,
)
from holdfast.store.contract.payloads import (
    ENCRYPTION,
    HALF_COPIED,
    SEALED,
    Change,
    CopyPayloads,
    Doomed,
    EncryptStore,
    EndUpkeep,
    Forget,
    RemoveRetention,
    Reseal,
    SaveRetention,
    SaveSetting,
    TakeUpkeep,
    Upkeep,
)
from holdfast.store.contract.reading import NO_HINTS, Checked, Delivered, Filter, Glance, Hints, Look, News, Reader
from holdfast.store.contract.runs import (
    Advance,
    Advanced,
    Beat,
    BeginCopy,
    BeginImport,
    Changed,
    Claim,
    Claimed,
    CopyRuns,
    EndCopy,
    EndSession,
    ExpireRuns,
    Freed,
    GatherStart,
    ImportRun,
    OpenSession,
    PartlyCancelled,
    Prune,
    Pruned,
    ReplayRun,
    ReplayRuns,
    RequestCancel,
    ResumeRun,
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
    ClaimWebhooks,
    Consume,
    Consumed,
    EventReader,
    MoveCursor,
    ReplayLetters,
    ResealWebhook,
    SettleDelivery,
    Subscribe,
    SubscriptionTransition,
    Unsubscribe,
)
from holdfast.store.contract.waits import (
    BEFORE,
    MOST_SIGNALS,
    RELEASABLE,
    WAIT_TOKEN,
    DeliverSignal,
    Delivery,
    ReleaseWait,
)

RunTransition = (
    StartRuns
    | GatherStart
    | Advance
    | Claim
    | OpenSession
    | Beat
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
BudgetTransition = SetBudget | RaiseBudget | ResetBudget | SpendBudget | Spend | Reserve
PayloadTransition = CopyPayloads | Reseal | Forget | SaveRetention | RemoveRetention | TakeUpkeep | EndUpkeep | SaveSetting
KeyTransition = NeedKey | RotateKey | ResealKey
GateTransition = DecideGate | DelegateGate | ReassignGate | UpdateGate | WithdrawGate | ExpireGates
ScheduleTransition = (
    SetSchedule | PauseSchedule | ResumeSchedule | RemoveSchedule | FireSchedules | TriggerSchedule | BackfillSchedule
)
WaitTransition = DeliverSignal | ReleaseWait
StreamTransition = AppendFrames
Transition = (
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


class View(Reader, GraphReader, FlowReader, LeaseReader, StreamReader, EventReader, Protocol):
    """All that can be asked of a database that holds runs."""


class Store(View, Protocol):
    """A database that holds runs."""

    url: str
    clock: Clock
    """By which it lives: the database's, unless another one was given."""
    overlaps: bool
    """Whether a commit mostly waits for others to do it, so that Python may do something else meanwhile."""

    def now(self) -> int:
        """The database's clock. It never goes back."""

    def apply(self, batch: Sequence[Transition]) -> list[Any]:
        """Apply all transitions in one transaction and answer each: its result, or the HoldfastError that refused it.
        Raises StoreError when nothing at all was written."""

    def snapshot(self) -> AbstractContextManager[View]:
        """All answers of the view show one committed state, that of the instant at which the snapshot is entered, whatever is
        committed meanwhile. Use it in one thread."""

    def hints(self) -> Hints:
        """What the commits since the last call touched, in this process."""

    def changed(self) -> bool:
        """Whether another process committed since the last call. Cheap."""

    def listen(self, session_id: str, call: Callable[[str | None], None]) -> bool:
        """Call, from any thread, when another process touches a run of that session, which is of this process, with the id of
        the run; or has committed something else, with None: then ask ``changed``. Nobody else is told of a signal that this
        process leaves for a run of that session. False when it cannot: then ask now and then."""

    def start_within(self, connection: Any, runs: Sequence[NewRun]) -> list[Started]:
        """Create runs in the caller's own open transaction on the same database."""

    def is_alive(self, session: Session) -> bool | None:
        """Whether the process of a session lives; None when the system cannot tell."""

    def was_away(self) -> bool:
        """Whether the database was out of reach until a moment ago, so that heartbeats of live processes may be overdue."""

    def take_slot(self) -> int:
        """Take a place by which others can see that this process lives."""

    def keep_slot(self, slot: int) -> bool:
        """Restore a lost place. Return whether others can see by it that this process lives; while they cannot, the worker beats
        more often. Cheap."""

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
    "WAIT_TOKEN",
    "Advance",
    "Advanced",
    "AppendFrames",
    "Appended",
    "BackfillSchedule",
    "Beat",
    "BeginCopy",
    "BeginImport",
    "Born",
    "CancelGraph",
    "Change",
    "Changed",
    "Checked",
    "Claim",
    "ClaimLeases",
    "ClaimWebhooks",
    "Claimed",
    "CompleteLeases",
    "Completion",
    "Compose",
    "Consume",
    "Consumed",
    "CopyPayloads",
    "CopyRuns",
    "CreateFlow",
    "DecideGate",
    "DelegateGate",
    "DeliverFlowEvent",
    "DeliverSignal",
    "Delivered",
    "Delivery",
    "Doomed",
    "EncryptStore",
    "EndCopy",
    "EndSession",
    "EndUpkeep",
    "EventReader",
    "ExpireAttempts",
    "ExpireGates",
    "ExpireRuns",
    "ExtendGraph",
    "Filter",
    "FireSchedules",
    "FlowsWoken",
    "Forget",
    "Freed",
    "GateChange",
    "GateFilter",
    "GateMove",
    "GateTransition",
    "GatherStart",
    "Glance",
    "GraphReader",
    "GraphTransition",
    "Hints",
    "ImportGraph",
    "ImportRun",
    "Judge",
    "Lease",
    "Leased",
    "Look",
    "MoveCursor",
    "MoveFlow",
    "NeedKey",
    "Needed",
    "News",
    "ObserveFlowStep",
    "OfferedKey",
    "OpenSession",
    "OverrideRun",
    "PartlyCancelled",
    "PauseSchedule",
    "Prepared",
    "Prune",
    "PruneFlows",
    "PruneGraphs",
    "Pruned",
    "RaiseBudget",
    "Reader",
    "ReassignGate",
    "Refused",
    "ReleaseWait",
    "RemoveRetention",
    "RemoveSchedule",
    "RenewLeases",
    "ReplayLetters",
    "ReplayMember",
    "ReplayRun",
    "ReplayRuns",
    "RequestCancel",
    "Reseal",
    "ResealKey",
    "ResealMember",
    "ResealWebhook",
    "Reserve",
    "ResetBudget",
    "ResumeRun",
    "ResumeSchedule",
    "RevokeLease",
    "RotateKey",
    "Rotated",
    "SaveRetention",
    "SaveSetting",
    "SealStore",
    "SetAside",
    "SetBudget",
    "SetLane",
    "SetPriority",
    "SetSchedule",
    "SettleDelivery",
    "SettleGraphs",
    "Settled",
    "SignalRun",
    "Spend",
    "SpendBudget",
    "Spent",
    "Stage",
    "StageEvents",
    "StageGraphs",
    "StagePart",
    "Staged",
    "StagedEvents",
    "StartRuns",
    "Started",
    "Store",
    "StoredFrame",
    "StreamReader",
    "Subscribe",
    "SweepStages",
    "TakeUpkeep",
    "Transition",
    "TriggerSchedule",
    "UnsealStore",
    "Unsubscribe",
    "UpdateGate",
    "Upkeep",
    "View",
    "WakeFlows",
    "WithdrawGate",
]
