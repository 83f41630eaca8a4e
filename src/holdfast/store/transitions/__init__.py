"""Apply every operation, once for both databases: load rows, let the core decide, save rows.

Invariants:
- Operations run inside a transaction that the adapter commits, usually many in one.
- An operation that must be refused is refused before its first write and its first hint, or runs
  inside a savepoint (`may_refuse_late`).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from holdfast.core.runs import Route
from holdfast.store.budgets.operations import (
    RaiseBudget,
    ReserveBudget,
    ResetBudget,
    SetBudget,
    SpendBudget,
    SpendRunBudget,
)
from holdfast.store.database import Operation, Row, Transaction
from holdfast.store.flows.operations import (
    CreateFlow,
    DeliverFlowEvent,
    MoveFlow,
    ObserveFlowStep,
    PruneFlows,
    WakeFlows,
)
from holdfast.store.gates.operations import (
    DecideGate,
    DelegateGate,
    ExpireGates,
    ReassignGate,
    UpdateGate,
    WithdrawGate,
)
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
from holdfast.store.keys.operations import NeedKey, ResealKey, RotateKey
from holdfast.store.lanes.operations import SetLane
from holdfast.store.payloads.operations import CopyPayloads, EncryptStore, Reseal, SaveSetting
from holdfast.store.retention.operations import (
    EndMaintenance,
    Forget,
    RemoveRetention,
    SaveRetention,
    TakeMaintenanceLock,
)
from holdfast.store.runs.operations import (
    Advance,
    BeginCopy,
    BeginImport,
    Claim,
    CopyRuns,
    DebounceStart,
    EndCopy,
    EndSession,
    ExpireRuns,
    Heartbeat,
    ImportRun,
    OpenSession,
    Prune,
    ReplayRun,
    ReplayRuns,
    RequestCancel,
    ResumeRun,
    SealStore,
    SetAside,
    StageEvents,
    StartRuns,
    UnsealStore,
)
from holdfast.store.schedules.operations import (
    BackfillSchedule,
    FireSchedules,
    PauseSchedule,
    RemoveSchedule,
    ResumeSchedule,
    SetSchedule,
    TriggerSchedule,
)
from holdfast.store.signals.operations import SignalRun
from holdfast.store.streams.operations import AppendFrames
from holdfast.store.subscriptions.operations import (
    AddSubscription,
    ClaimWebhooks,
    Consume,
    MoveCursor,
    RecordDelivery,
    RedeliverDeadLetters,
    RemoveSubscription,
    ResealWebhook,
)
from holdfast.store.tasks.operations import (
    ClaimLeases,
    CompleteLeases,
    ExpireAttempts,
    OverrideRun,
    RenewLeases,
    RevokeLease,
    SetPriority,
)
from holdfast.store.transitions import budgets
from holdfast.store.transitions.advancing import (
    advance,
    append_each,
    end_each,
    ended,
    guarded,
    is_end,
    is_one_event,
    line,
    plain_end,
)
from holdfast.store.transitions.claiming import claim
from holdfast.store.transitions.clear_values import encrypt_store
from holdfast.store.transitions.copying import (
    begin_copy,
    begin_import,
    copy_runs,
    end_copy,
    import_run,
    seal_store,
    stage_events,
    unseal_store,
)
from holdfast.store.transitions.damage import set_aside
from holdfast.store.transitions.ending import end_runs
from holdfast.store.transitions.flows import (
    create_flow,
    deliver_flow_event,
    move_flow,
    observe_flow_step,
    prune_flows,
    wake_flows,
)
from holdfast.store.transitions.gates import (
    decide_gate,
    delegate_gate,
    expire_gates,
    reassign_gate,
    update_gate,
    withdraw_gate,
)
from holdfast.store.transitions.gathering import debounce_start
from holdfast.store.transitions.graphs import (
    cancel_graph,
    extend_graph,
    import_graph,
    prune,
    prune_graphs,
    replay_member,
    reseal_member,
    resolve_graphs,
    stage_graphs,
    stage_part,
    sweep_stages,
)
from holdfast.store.transitions.keys import need_key, reseal_key, rotate_key
from holdfast.store.transitions.leases import (
    claim_leases,
    complete_leases,
    expire_attempts,
    override_run,
    renew_leases,
    revoke_lease,
    set_priority,
)
from holdfast.store.transitions.operating import replay_run, replay_runs, resume_run, set_lane
from holdfast.store.transitions.payloads import (
    copy_payloads,
    end_maintenance,
    forget,
    remove_retention,
    reseal,
    save_retention,
    save_setting,
    take_maintenance,
)
from holdfast.store.transitions.schedules import (
    backfill_schedule,
    fire_schedules,
    pause_schedule,
    remove_schedule,
    resume_schedule,
    set_schedule,
    trigger_schedule,
)
from holdfast.store.transitions.sessions import end_session, heartbeat, open_session
from holdfast.store.transitions.signalling import deliver_signal, release_wait, signal_run
from holdfast.store.transitions.starting import start_runs
from holdfast.store.transitions.stopping import expire_runs, request_cancel
from holdfast.store.transitions.streaming import append_frames
from holdfast.store.transitions.subscribing import (
    claim_webhooks,
    consume,
    move_cursor,
    replay_letters,
    reseal_webhook,
    settle_delivery,
    subscribe,
    unsubscribe,
)
from holdfast.store.transitions.touching import write_outbox
from holdfast.store.transitions.transaction import run_from
from holdfast.store.transitions.wait_effects import close_waits
from holdfast.store.waits.operations import DeliverSignal, ReleaseWait

APPLY: dict[type, Callable[[Any, Any], Any]] = {
    StartRuns: start_runs,
    DebounceStart: debounce_start,
    Advance: advance,
    Claim: claim,
    OpenSession: open_session,
    Heartbeat: heartbeat,
    EndSession: end_session,
    ExpireRuns: expire_runs,
    SignalRun: signal_run,
    DeliverSignal: deliver_signal,
    ReleaseWait: release_wait,
    RequestCancel: request_cancel,
    ResumeRun: resume_run,
    ReplayRun: replay_run,
    ReplayRuns: replay_runs,
    Prune: prune,
    SetLane: set_lane,
    SetAside: set_aside,
    StageEvents: stage_events,
    ImportRun: import_run,
    BeginCopy: begin_copy,
    BeginImport: begin_import,
    CopyRuns: copy_runs,
    EndCopy: end_copy,
    SealStore: seal_store,
    EncryptStore: encrypt_store,
    UnsealStore: unseal_store,
    ClaimLeases: claim_leases,
    RenewLeases: renew_leases,
    CompleteLeases: complete_leases,
    ExpireAttempts: expire_attempts,
    RevokeLease: revoke_lease,
    SetPriority: set_priority,
    OverrideRun: override_run,
    CreateFlow: create_flow,
    MoveFlow: move_flow,
    DeliverFlowEvent: deliver_flow_event,
    ObserveFlowStep: observe_flow_step,
    WakeFlows: wake_flows,
    PruneFlows: prune_flows,
    SetBudget: budgets.set_budget,
    RaiseBudget: budgets.raise_budget,
    ResetBudget: budgets.reset_budget,
    SpendBudget: budgets.spend_budget,
    SpendRunBudget: budgets.spend,
    ReserveBudget: budgets.reserve,
    DecideGate: decide_gate,
    DelegateGate: delegate_gate,
    ReassignGate: reassign_gate,
    UpdateGate: update_gate,
    WithdrawGate: withdraw_gate,
    ExpireGates: expire_gates,
    NeedKey: need_key,
    RotateKey: rotate_key,
    ResealKey: reseal_key,
    SetSchedule: set_schedule,
    PauseSchedule: pause_schedule,
    ResumeSchedule: resume_schedule,
    RemoveSchedule: remove_schedule,
    FireSchedules: fire_schedules,
    TriggerSchedule: trigger_schedule,
    BackfillSchedule: backfill_schedule,
    AppendFrames: append_frames,
    AddSubscription: subscribe,
    RemoveSubscription: unsubscribe,
    MoveCursor: move_cursor,
    Consume: consume,
    ClaimWebhooks: claim_webhooks,
    RecordDelivery: settle_delivery,
    RedeliverDeadLetters: replay_letters,
    ResealWebhook: reseal_webhook,
    CopyPayloads: copy_payloads,
    Reseal: reseal,
    Forget: forget,
    SaveRetention: save_retention,
    RemoveRetention: remove_retention,
    TakeMaintenanceLock: take_maintenance,
    EndMaintenance: end_maintenance,
    SaveSetting: save_setting,
    WriteStagePart: stage_part,
    SweepStages: sweep_stages,
    StageGraphs: stage_graphs,
    AddMembers: extend_graph,
    ResolveGraphs: resolve_graphs,
    CancelGraph: cancel_graph,
    ReplayMember: replay_member,
    PruneGraphs: prune_graphs,
    ResealMember: reseal_member,
    ImportGraph: import_graph,
}


_LATE = frozenset(
    {
        ImportRun,
        CopyRuns,
        DebounceStart,
        RotateKey,
        AddSubscription,
        Consume,
        Reseal,
        WriteStagePart,
        StageGraphs,
        AddMembers,
        ReplayMember,
        ReplayRun,
        ReplayRuns,
        ResolveGraphs,
        ImportGraph,
        SealStore,
        UnsealStore,
        EncryptStore,
        StageEvents,
    }
)


def may_refuse_late(op: Operation, routes: Container[Route]) -> bool:
    """Return whether *op* can be refused after its first write, so that it needs a savepoint.

    *routes* are the routes that are known to exist: a start on another one writes its route first.
    """
    if type(op) is Advance:
        if op.body is not None:
            return True
        return bool(op.effects) and any(effect.may_refuse for effect in op.effects)
    if type(op) is StartRuns:
        return len(op.runs) != 1 or op.runs[0].route not in routes
    return type(op) in _LATE


__all__ = [
    "APPLY",
    "Row",
    "Transaction",
    "append_each",
    "close_waits",
    "end_each",
    "end_runs",
    "ended",
    "guarded",
    "is_end",
    "is_one_event",
    "line",
    "may_refuse_late",
    "plain_end",
    "run_from",
    "start_runs",
    "write_outbox",
]
