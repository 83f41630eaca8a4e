"""Every transition, written once for both databases: load, let the core decide, save.

They run inside a transaction that somebody else commits, many of them in one. A transition that must refuse does so before
its first write and its first hint, or is run inside a savepoint.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from holdfast.core.records import Route
from holdfast.store import contract as c
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
    news_of,
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
from holdfast.store.transitions.gathering import gather_start
from holdfast.store.transitions.graphs import (
    cancel_graph,
    extend_graph,
    import_graph,
    prune,
    prune_graphs,
    replay_member,
    reseal_member,
    settle_graphs,
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
    end_upkeep,
    forget,
    remove_retention,
    reseal,
    save_retention,
    save_setting,
    take_upkeep,
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
from holdfast.store.transitions.sessions import beat, end_session, open_session
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
from holdfast.store.transitions.touching import leave_news
from holdfast.store.transitions.transaction import Row, Transaction, run_from

APPLY: dict[type, Callable[[Any, Any], Any]] = {
    c.StartRuns: start_runs,
    c.GatherStart: gather_start,
    c.Advance: advance,
    c.Claim: claim,
    c.OpenSession: open_session,
    c.Beat: beat,
    c.EndSession: end_session,
    c.ExpireRuns: expire_runs,
    c.SignalRun: signal_run,
    c.DeliverSignal: deliver_signal,
    c.ReleaseWait: release_wait,
    c.RequestCancel: request_cancel,
    c.ResumeRun: resume_run,
    c.ReplayRun: replay_run,
    c.ReplayRuns: replay_runs,
    c.Prune: prune,
    c.SetLane: set_lane,
    c.SetAside: set_aside,
    c.StageEvents: stage_events,
    c.ImportRun: import_run,
    c.BeginCopy: begin_copy,
    c.BeginImport: begin_import,
    c.CopyRuns: copy_runs,
    c.EndCopy: end_copy,
    c.SealStore: seal_store,
    c.EncryptStore: encrypt_store,
    c.UnsealStore: unseal_store,
    c.ClaimLeases: claim_leases,
    c.RenewLeases: renew_leases,
    c.CompleteLeases: complete_leases,
    c.ExpireAttempts: expire_attempts,
    c.RevokeLease: revoke_lease,
    c.SetPriority: set_priority,
    c.OverrideRun: override_run,
    c.CreateFlow: create_flow,
    c.MoveFlow: move_flow,
    c.DeliverFlowEvent: deliver_flow_event,
    c.ObserveFlowStep: observe_flow_step,
    c.WakeFlows: wake_flows,
    c.PruneFlows: prune_flows,
    c.SetBudget: budgets.set_budget,
    c.RaiseBudget: budgets.raise_budget,
    c.ResetBudget: budgets.reset_budget,
    c.SpendBudget: budgets.spend_budget,
    c.Spend: budgets.spend,
    c.Reserve: budgets.reserve,
    c.DecideGate: decide_gate,
    c.DelegateGate: delegate_gate,
    c.ReassignGate: reassign_gate,
    c.UpdateGate: update_gate,
    c.WithdrawGate: withdraw_gate,
    c.ExpireGates: expire_gates,
    c.NeedKey: need_key,
    c.RotateKey: rotate_key,
    c.ResealKey: reseal_key,
    c.SetSchedule: set_schedule,
    c.PauseSchedule: pause_schedule,
    c.ResumeSchedule: resume_schedule,
    c.RemoveSchedule: remove_schedule,
    c.FireSchedules: fire_schedules,
    c.TriggerSchedule: trigger_schedule,
    c.BackfillSchedule: backfill_schedule,
    c.AppendFrames: append_frames,
    c.Subscribe: subscribe,
    c.Unsubscribe: unsubscribe,
    c.MoveCursor: move_cursor,
    c.Consume: consume,
    c.ClaimWebhooks: claim_webhooks,
    c.SettleDelivery: settle_delivery,
    c.ReplayLetters: replay_letters,
    c.ResealWebhook: reseal_webhook,
    c.CopyPayloads: copy_payloads,
    c.Reseal: reseal,
    c.Forget: forget,
    c.SaveRetention: save_retention,
    c.RemoveRetention: remove_retention,
    c.TakeUpkeep: take_upkeep,
    c.EndUpkeep: end_upkeep,
    c.SaveSetting: save_setting,
    c.StagePart: stage_part,
    c.SweepStages: sweep_stages,
    c.StageGraphs: stage_graphs,
    c.ExtendGraph: extend_graph,
    c.SettleGraphs: settle_graphs,
    c.CancelGraph: cancel_graph,
    c.ReplayMember: replay_member,
    c.PruneGraphs: prune_graphs,
    c.ResealMember: reseal_member,
    c.ImportGraph: import_graph,
}


_LATE = frozenset(
    {
        c.ImportRun, c.CopyRuns, c.GatherStart, c.RotateKey, c.Subscribe, c.Consume, c.Reseal, c.StagePart, c.StageGraphs,
        c.ExtendGraph, c.ReplayMember, c.ReplayRun, c.ReplayRuns, c.SettleGraphs, c.ImportGraph, c.SealStore, c.UnsealStore,
        c.EncryptStore, c.StageEvents,
    }
)  # fmt: skip


def may_refuse_late(op: c.Transition, routes: Container[Route]) -> bool:
    """Say whether *op* can be refused after its first write, so that it needs a savepoint. *routes* are those that exist."""
    if type(op) is c.Advance:
        return op.body is not None or bool(op.children) or bool(op.grows)
    if type(op) is c.StartRuns:
        return len(op.runs) != 1 or op.runs[0].route not in routes
    return type(op) in _LATE


__all__ = [
    "APPLY", "Row", "Transaction", "append_each", "end_each", "ended", "guarded", "is_end", "is_one_event", "leave_news", "line",
    "may_refuse_late", "news_of", "run_from", "start_runs",
]  # fmt: skip
