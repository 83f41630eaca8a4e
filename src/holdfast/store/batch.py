"""Apply a batch of operations: the dispatch table, and what both adapters need around it.

Invariants:
- Operations run inside a transaction that the adapter commits, usually many in one.
- An operation that must be refused is refused before its first write and its first hint, or runs
  inside a savepoint (`needs_savepoint`).
- Importing this module registers the effects of all features, because it imports the modules that
  apply their operations.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Container
from typing import Any

from holdfast.core.runs import Route
from holdfast.store.api_keys import apply as api_keys
from holdfast.store.api_keys.operations import AddApiKey, NoteApiKeyUse, RevokeApiKey
from holdfast.store.audit import apply as audit
from holdfast.store.audit.operations import Audited
from holdfast.store.budgets import apply as budgets
from holdfast.store.budgets import effects as budget_effects  # noqa: F401  registers effects
from holdfast.store.budgets import removal, reservations, spend
from holdfast.store.budgets.operations import (
    RaiseBudget,
    RefundRun,
    RemoveBudget,
    ReserveBudget,
    ResetBudget,
    SetBudget,
    SpendBudget,
    SpendRunBudget,
)
from holdfast.store.database import NO_HINTS, BatchTransaction, Hints, Operation
from holdfast.store.definitions.operations import DeployDefinitions, SetDefinitionState
from holdfast.store.flows import apply as flows
from holdfast.store.flows.operations import (
    AppendFlowEvent,
    CreateFlow,
    DeliverFlowEvent,
    DeliverToFlows,
    MoveFlow,
    ObserveFlowStep,
    PruneFlows,
    WakeFlows,
)
from holdfast.store.gates import apply as gates
from holdfast.store.gates.operations import (
    DecideGate,
    DelegateGate,
    ExpireGates,
    ReassignGate,
    UpdateGate,
    WithdrawGate,
)
from holdfast.store.graphs import cancel as graphs_cancel
from holdfast.store.graphs import copy as graphs_copy
from holdfast.store.graphs import extend as graphs_extend
from holdfast.store.graphs import prune as graphs_prune
from holdfast.store.graphs import replay as graphs_replay
from holdfast.store.graphs import resolve as graphs_resolve
from holdfast.store.graphs import stage as graphs_stage
from holdfast.store.graphs import sweep as graphs_sweep
from holdfast.store.graphs.operations import (
    AddMembers,
    CancelGraph,
    ImportGraph,
    PruneGraphs,
    ReplayMember,
    ResealMember,
    ResolveGraphs,
    StageGraphs,
    SweepStages,
    WriteStagePart,
)
from holdfast.store.keys import apply as keys
from holdfast.store.keys.operations import NeedKey, ResealKey, RotateKey
from holdfast.store.lanes import apply as lanes
from holdfast.store.lanes.operations import RemoveLane, SetLane
from holdfast.store.logins import apply as logins
from holdfast.store.logins.operations import AddLogin, EndLogin, TakeLink
from holdfast.store.messages import apply as messages
from holdfast.store.messages.operations import (
    BroadcastPart,
    InstructRun,
    PublishMessage,
    ResealMessage,
    StartWithKept,
)
from holdfast.store.operations import apply as bulk
from holdfast.store.operations.operations import (
    CarryOut,
    ResealOperation,
    StartOperation,
    StopOperation,
)
from holdfast.store.payloads import apply as payloads
from holdfast.store.payloads import encrypt
from holdfast.store.payloads.operations import CopyPayloads, EncryptStore, Reseal, SaveSetting
from holdfast.store.request_keys import apply as request_keys
from holdfast.store.request_keys.operations import ClaimRequestKey, ReleaseRequestKey
from holdfast.store.resting_tokens import effects as token_effects  # noqa: F401  registers effects
from holdfast.store.retention import apply as retention
from holdfast.store.retention.operations import (
    EndMaintenance,
    Forget,
    RemoveRetention,
    SaveRetention,
    TakeMaintenanceLock,
)
from holdfast.store.runs import (
    advance,
    cancel,
    claim,
    copy,
    debounce,
    operate,
    sessions,
    set_aside,
    start,
)
from holdfast.store.runs.copy_operations import (
    BeginCopy,
    BeginImport,
    CopyRuns,
    EndCopy,
    ImportRun,
    SealStore,
    StageEvents,
    UnsealStore,
)
from holdfast.store.runs.operations import (
    Advance,
    Claim,
    DebounceStart,
    EndSession,
    ExpireRuns,
    Heartbeat,
    OpenSession,
    Prune,
    ReplayRun,
    ReplayRuns,
    RequestCancel,
    ResumeRun,
    SetAside,
    SetTags,
    StartRuns,
)
from holdfast.store.schedules import apply as schedules
from holdfast.store.schedules import deployments
from holdfast.store.schedules.operations import (
    BackfillSchedule,
    FireSchedules,
    PauseSchedule,
    RemoveSchedule,
    ResumeSchedule,
    SetSchedule,
    TriggerSchedule,
)
from holdfast.store.signals import apply as signals
from holdfast.store.signals.operations import SignalRun
from holdfast.store.streams import apply as streams
from holdfast.store.streams.operations import AppendFrames
from holdfast.store.subscriptions import apply as subscriptions
from holdfast.store.subscriptions.operations import (
    AddCursor,
    ClaimWebhooks,
    Consume,
    MoveCursor,
    RecordDelivery,
    RedeliverDeadLetters,
    RemoveSubscription,
    ResealWebhook,
    SetWebhook,
)
from holdfast.store.tasks import apply as tasks
from holdfast.store.tasks import operate as task_operate
from holdfast.store.tasks import timeouts
from holdfast.store.tasks.operations import (
    ClaimLeases,
    CompleteLeases,
    ExpireAttempts,
    OverrideRun,
    RenewLeases,
    RevokeLease,
    SetPriority,
)
from holdfast.store.waits import apply as waits
from holdfast.store.waits import effects as wait_effects  # noqa: F401  registers effects
from holdfast.store.waits.operations import DeliverSignal, ReleaseWait

APPLY: dict[type, Callable[[Any, Any], Any]] = {
    # runs
    StartRuns: start.start_runs,
    DebounceStart: debounce.debounce_start,
    Advance: advance.advance,
    Claim: claim.claim,
    OpenSession: sessions.open_session,
    Heartbeat: sessions.heartbeat,
    EndSession: sessions.end_session,
    ExpireRuns: cancel.expire_runs,
    RequestCancel: cancel.request_cancel,
    ResumeRun: operate.resume_run,
    SetTags: operate.set_tags,
    ReplayRun: operate.replay_run,
    ReplayRuns: operate.replay_runs,
    Prune: graphs_prune.prune,
    SetAside: set_aside.set_aside,
    StageEvents: copy.stage_events,
    ImportRun: copy.import_run,
    BeginCopy: copy.begin_copy,
    BeginImport: copy.begin_import,
    CopyRuns: copy.copy_runs,
    EndCopy: copy.end_copy,
    SealStore: copy.seal_store,
    UnsealStore: copy.unseal_store,
    # tasks
    ClaimLeases: tasks.claim_leases,
    RenewLeases: tasks.renew_leases,
    CompleteLeases: tasks.complete_leases,
    ExpireAttempts: timeouts.expire_attempts,
    RevokeLease: task_operate.revoke_lease,
    SetPriority: task_operate.set_priority,
    OverrideRun: task_operate.override_run,
    # graphs
    WriteStagePart: graphs_stage.stage_part,
    SweepStages: graphs_sweep.sweep_stages,
    StageGraphs: graphs_stage.stage_graphs,
    AddMembers: graphs_extend.extend_graph,
    ResolveGraphs: graphs_resolve.resolve_graphs,
    CancelGraph: graphs_cancel.cancel_graph,
    ReplayMember: graphs_replay.replay_member,
    PruneGraphs: graphs_prune.prune_graphs,
    ResealMember: graphs_stage.reseal_member,
    ImportGraph: graphs_copy.import_graph,
    # schedules
    SetSchedule: schedules.set_schedule,
    PauseSchedule: schedules.pause_schedule,
    ResumeSchedule: schedules.resume_schedule,
    RemoveSchedule: schedules.remove_schedule,
    FireSchedules: schedules.fire_schedules,
    TriggerSchedule: schedules.trigger_schedule,
    BackfillSchedule: schedules.backfill_schedule,
    # retention
    Forget: retention.forget,
    SaveRetention: retention.save_retention,
    RemoveRetention: retention.remove_retention,
    TakeMaintenanceLock: retention.take_maintenance,
    EndMaintenance: retention.end_maintenance,
    # bulk operations
    StartOperation: bulk.start_operation,
    CarryOut: bulk.carry_out,
    StopOperation: bulk.stop_operation,
    ResealOperation: bulk.reseal_operation,
    # signals
    SignalRun: signals.signal_run,
    # waits
    DeliverSignal: waits.deliver_signal,
    ReleaseWait: waits.release_wait,
    # gates
    DecideGate: gates.decide_gate,
    DelegateGate: gates.delegate_gate,
    ReassignGate: gates.reassign_gate,
    UpdateGate: gates.update_gate,
    WithdrawGate: gates.withdraw_gate,
    ExpireGates: gates.expire_gates,
    # lanes
    SetLane: lanes.set_lane,
    RemoveLane: lanes.remove_lane,
    # budgets
    SetBudget: budgets.set_budget,
    RaiseBudget: budgets.raise_budget,
    ResetBudget: budgets.reset_budget,
    RemoveBudget: removal.remove_budget,
    RefundRun: removal.refund_run,
    SpendBudget: spend.spend_budget,
    SpendRunBudget: spend.spend_from_run,
    ReserveBudget: reservations.reserve,
    # streams
    AppendFrames: streams.append_frames,
    # subscriptions
    AddCursor: subscriptions.add_cursor,
    SetWebhook: subscriptions.set_webhook,
    RemoveSubscription: subscriptions.unsubscribe,
    MoveCursor: subscriptions.move_cursor,
    Consume: subscriptions.consume,
    ClaimWebhooks: subscriptions.claim_webhooks,
    RecordDelivery: subscriptions.record_delivery,
    RedeliverDeadLetters: subscriptions.replay_letters,
    ResealWebhook: subscriptions.reseal_webhook,
    # payloads
    EncryptStore: encrypt.encrypt_store,
    CopyPayloads: payloads.copy_payloads,
    Reseal: payloads.reseal,
    SaveSetting: payloads.save_setting,
    # keys
    NeedKey: keys.need_key,
    RotateKey: keys.rotate_key,
    ResealKey: keys.reseal_key,
    # API keys, login sessions and idempotency keys
    AddApiKey: api_keys.add_api_key,
    RevokeApiKey: api_keys.revoke_api_key,
    NoteApiKeyUse: api_keys.note_api_key_use,
    AddLogin: logins.add_login,
    TakeLink: logins.take_link,
    EndLogin: logins.end_login,
    ClaimRequestKey: request_keys.claim_request_key,
    ReleaseRequestKey: request_keys.release_request_key,
    # messages
    PublishMessage: messages.publish_message,
    StartWithKept: messages.start_with_kept,
    ResealMessage: messages.reseal_message,
    BroadcastPart: messages.broadcast,
    InstructRun: messages.instruct_run,
    # definitions
    DeployDefinitions: deployments.deploy_definitions,
    SetDefinitionState: deployments.set_definition_state,
    # flows
    CreateFlow: flows.create_flow,
    MoveFlow: flows.move_flow,
    DeliverFlowEvent: flows.deliver_flow_event,
    DeliverToFlows: flows.deliver_to_flows,
    AppendFlowEvent: flows.append_flow_event,
    ObserveFlowStep: flows.observe_flow_step,
    WakeFlows: flows.wake_flows,
    PruneFlows: flows.prune_flows,
}
"""The function that applies each kind of operation."""

APPLY[Audited] = audit.audited(APPLY)


def needs_savepoint(op: Operation, routes: Container[Route]) -> bool:
    """Return whether *op* can be refused after its first write, so that it needs a savepoint.

    *routes* are the routes that are known to exist: a start on another one writes its route first.
    """
    if type(op) is Advance:
        if op.body is not None:
            return True
        return bool(op.effects) and any(effect.may_refuse_late for effect in op.effects)
    if type(op) is StartRuns:
        return len(op.runs) != 1 or op.runs[0].route not in routes
    return op.may_refuse_late


class RestorePoint:
    """The state of a transaction that is kept in memory, as it was at a savepoint.

    A rollback to a savepoint undoes the rows of a refused operation. Its hints, the outcomes of
    members, its routes and the parents that it has woken must go with them: otherwise a later
    operation of the batch would skip a write that was undone.
    """

    __slots__ = ("_hints", "_member_outcomes", "_new_routes", "_tx", "_woken_parents")

    def __init__(self, tx: BatchTransaction) -> None:
        self._tx = tx
        self._hints = tx.hints.copy()
        self._member_outcomes = list(tx.member_outcomes)
        self._new_routes = dict(tx.new_routes)
        self._woken_parents = set(tx.woken_parents)

    def restore(self) -> None:
        """Return to this state. To be called once, after the rollback to the savepoint."""
        self._tx.hints = self._hints
        self._tx.member_outcomes = self._member_outcomes
        self._tx.new_routes = self._new_routes
        self._tx.woken_parents = self._woken_parents


class CollectedHints:
    """The hints of all commits since they were last taken, for any thread."""

    __slots__ = ("_guard", "_has_hints", "_hints")

    def __init__(self) -> None:
        self._hints: Hints = Hints()
        self._guard: threading.Lock = threading.Lock()
        self._has_hints: bool = False

    def add(self, hints: Hints) -> None:
        """Add the hints of a commit."""
        with self._guard:
            self._hints.add(hints)
            self._has_hints = True

    def take(self) -> Hints:
        """Return and reset the hints. Without any, this takes no lock: it is called often."""
        # Read without the lock: hints that are added at this moment are taken by the next call.
        if not self._has_hints:
            return NO_HINTS
        with self._guard:
            hints = self._hints
            self._hints = Hints()
            self._has_hints = False
        return hints


def forget_missing_routes(routes: dict[Route, int], numbers: Collection[int]) -> None:
    """Remove cached routes whose rows are damaged or gone: the next start of such a route creates
    another row."""
    for route, number in list(routes.items()):
        if number not in numbers:
            routes.pop(route, None)
