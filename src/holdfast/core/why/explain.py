"""Explain where a run stands: one function per status, in the table at the end."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from holdfast.core.events import Event, EventKind, is_compensation
from holdfast.core.runs import CancelCause, RunRecord, StuckCause
from holdfast.core.status import Status
from holdfast.core.why.claim import claim_blockers, is_served, no_worker_blockers
from holdfast.core.why.model import (
    Blocker,
    RunFacts,
    Why,
    away,
    explanation,
    holder_of,
    last_at,
    moment,
    until,
)
from holdfast.core.why.schedules import started_by
from holdfast.core.why.stored_errors import error_of, error_text
from holdfast.core.why.waits import is_due, waits
from holdfast.core.why.workers import Liveness, WorkerFacts, command_in

LONGEST = 300
"""The maximum number of characters of a result that an explanation shows."""

_STEP_ENDS = (
    EventKind.STEP_COMPLETED,
    EventKind.STEP_FAILED,
    EventKind.STEP_RETRIED,
    EventKind.STEP_DROPPED,
    EventKind.STEP_BLOCKED,
)


def explain(facts: RunFacts) -> Why:
    """Return where the run stands, its blockers, and the command that lets it continue."""
    why = _STATUSES[facts.run.status](facts)
    deadline = facts.run.deadline
    if deadline is not None and facts.run.finished_at is None:
        text = f"its deadline is {until(deadline, facts.now)}"
        why.blockers.append(Blocker(kind="deadline", text=text, until=deadline))
    why.blockers += started_by(facts.run)
    return why


def _pending(facts: RunFacts) -> Why:
    wake_at = facts.run.wake_at
    if wake_at is None or wake_at <= facts.now:
        blockers = claim_blockers(facts)
        return explanation(facts, blockers, since=wake_at or last_at(facts))
    text = f"{_delay_text(facts)} {until(wake_at, facts.now)}"
    later = _later_blockers(facts)
    # a release helps only if a worker could start the run; remote workers come and go
    is_startable = not later or facts.leased
    remedy = f"holdfast waits release {facts.run.id}" if is_startable else None
    blocker = Blocker(kind="delay", text=text, since=last_at(facts), until=wake_at, remedy=remedy)
    return explanation(facts, [blocker, *later], since=last_at(facts))


def _delay_text(facts: RunFacts) -> str:
    last = facts.history[-1] if facts.history else None
    if last is not None and last.kind == EventKind.ATTEMPT_FAILED:
        return f"its last attempt failed with {error_text(last.error)}; it is tried again at"
    return "it may not begin before"


def _blocked(facts: RunFacts) -> Why:
    blockers = waits(facts) or [Blocker(kind="blocked", text="it is blocked", since=last_at(facts))]
    blockers[0].remedy = blockers[0].remedy or f"holdfast resume {facts.run.id}"
    return explanation(facts, blockers, since=last_at(facts))


def _running(facts: RunFacts) -> Why:
    return explanation(facts, _holder_blockers(facts), since=last_at(facts))


def _holder_blockers(facts: RunFacts) -> list[Blocker]:
    """Return the blocker that names the holder of the run and tells whether its heartbeats
    arrive."""
    worker = holder_of(facts)
    if worker is None:
        text = "it is held by a session that does not exist: the database is not sound"
        return [
            Blocker(
                kind="session", text=text, holder=facts.run.session_id, remedy="holdfast db check"
            )
        ]
    if worker.life is Liveness.GONE:
        return [_lost(facts, worker), *claim_blockers(facts)]
    if worker.life is Liveness.SILENT:
        return [_silent(facts, worker)]
    return [_at_work(facts, worker)]


def _lost(facts: RunFacts, worker: WorkerFacts) -> Blocker:
    beat = worker.session.beat_at
    last_beat = until(beat, facts.now)
    text = f"{worker.place}, which held it, is gone; its last heartbeat was at {last_beat}"
    return Blocker(kind="session", text=text, holder=worker.name, since=beat)


def _silent(facts: RunFacts, worker: WorkerFacts) -> Blocker:
    beat = worker.session.beat_at
    end = worker.session.expires_at
    text = (
        f"{worker.place} holds it, but its heartbeat stopped at {until(beat, facts.now)};"
        f" the lease ends at {until(end, facts.now)} and another worker may continue it"
    )
    revoke = command_in(facts.run.namespace, "tasks revoke", facts.run.id)
    return Blocker(
        kind="session", text=text, holder=worker.name, since=beat, until=end, remedy=revoke
    )


def _at_work(facts: RunFacts, worker: WorkerFacts) -> Blocker:
    steps = steps_at_work(facts.history)
    if steps:
        since = steps[0].started_at or steps[0].at
        named = ", ".join(_step_text(event, facts.now) for event in steps)
        return Blocker(
            kind="step",
            text=f"{worker.place} is at work on {named}",
            holder=worker.name,
            since=since,
        )
    if not facts.history:
        return Blocker(
            kind="step",
            text=f"{worker.place} has just begun with it",
            holder=worker.name,
            since=last_at(facts),
        )
    last = facts.history[-1]
    event = f"{last.kind} {last.step}" if last.step else last.kind
    text = f"{worker.place} is at work on it; the last event is {event}, {away(last.at, facts.now)}"
    return Blocker(kind="step", text=text, holder=worker.name, since=last.at)


def _step_text(event: Event, now: int) -> str:
    since = event.started_at or event.at
    attempt = f", attempt {event.attempt}" if event.attempt > 1 else ""
    return f"step {event.step!r}, which began at {until(since, now)}{attempt}"


def steps_at_work(history: Sequence[Event]) -> list[Event]:
    """Return the start events of the steps that have not ended."""
    begun: dict[str, Event] = {}
    for event in history:
        if event.kind == EventKind.STEP_STARTED:
            begun[event.step or ""] = event
        elif event.kind in _STEP_ENDS:
            begun.pop(event.step or "", None)
    return list(begun.values())


def _waiting(facts: RunFacts) -> Why:
    return explanation(facts, _parked_blockers(facts), since=last_at(facts))


def _parked_blockers(facts: RunFacts) -> list[Blocker]:
    """Return the waits of a parked run and, if no worker holds it, what it needs to be claimed: now
    if a wait is over already, else later."""
    blockers = waits(facts) or [Blocker(kind="wait", text="it waits", since=last_at(facts))]
    worker = holder_of(facts)
    held = worker is not None and worker.life is not Liveness.GONE
    if not is_due(facts):
        if held:
            return blockers
        return [*blockers, *_later_blockers(facts)]
    if held and worker is not None:
        return [
            *blockers,
            Blocker(
                kind="session",
                text=f"{worker.place} holds it and continues it in a moment",
                holder=worker.name,
            ),
        ]
    of_claim = claim_blockers(facts)
    if of_claim[0].kind == "ready":
        return [*blockers, *of_claim]
    return [*of_claim, *blockers]


def _later_blockers(facts: RunFacts) -> list[Blocker]:
    """Return a warning if no live worker could continue the run once its wait is over."""
    if is_served(facts):
        return []
    first = no_worker_blockers(facts)[0]
    return [Blocker(kind="worker", text=f"then {first.text}", remedy=first.remedy)]


_CANCELLERS: dict[str, str] = {
    CancelCause.DEADLINE: " by its deadline",
    CancelCause.PARENT: " with its parent",
    CancelCause.UNAWAITED: " by its parent",
    CancelCause.BUDGET: " by its budget",
    CancelCause.GRAPH: " by its graph",
    CancelCause.SCHEDULE: " by its schedule",
    CancelCause.HOLDER: " by its holder",
}


def canceller(run: RunRecord) -> str:
    """Return who or what asked a run to stop, for a sentence; empty if that is not known."""
    if run.cancelled_by is not None:
        return f" by {run.cancelled_by}"
    return _CANCELLERS.get(run.cancel_cause or "", "")


def _cancelling(facts: RunFacts) -> Why:
    run = facts.run
    request = next(
        (event for event in reversed(facts.history) if event.kind == EventKind.CANCEL_REQUESTED),
        None,
    )
    since = request.at if request is not None else last_at(facts)
    reason = (
        f"it was asked to stop{canceller(run)} ({run.cancel_reason or 'no reason given'})"
        f" and is {_compensation_progress(facts)}"
    )
    if run.session_id is not None:
        blockers = [*waits(facts), *_holder_blockers(facts)]
    elif facts.waits:
        blockers = _parked_blockers(facts)
    else:
        blockers = claim_blockers(facts)
    force = "to end it at once, with nothing more undone"
    blockers.append(Blocker(kind="force", text=force, remedy=f"holdfast cancel {run.id} --force"))
    return explanation(facts, blockers, reason, since)


def _compensation_progress(facts: RunFacts) -> str:
    undone = [
        _name(event)
        for event in facts.history
        if event.kind == EventKind.STEP_COMPLETED and is_compensation(event.role)
    ]
    now = [_name(event) for event in steps_at_work(facts.history) if is_compensation(event.role)]
    compensations = {event.step for event in facts.history if is_compensation(event.role)}
    now += [str(wait["step"]) for wait in facts.waits if wait.get("step") in compensations]
    so_far = f"; undone so far: {', '.join(undone)}" if undone else ""
    state = f"undoing: {', '.join(now)}" if now else "coming to its end"
    return state + so_far


def _name(event: Event) -> str:
    return event.step or event.kind


def _stuck(facts: RunFacts) -> Why:
    run = facts.run
    error = error_of(run.error)
    since = last_at(facts)
    resume = f"holdfast resume {run.id}"
    if error.get("type") == "Diverged":
        return explanation(facts, _diverged(facts, error["facts"], resume), since=since)
    if error.get("type") == "TooManyCrashes":
        text = f"{error.get('message')}: find out what kills the process, then resume it"
        return explanation(
            facts, [Blocker(kind="crashes", text=text, since=since, remedy=resume)], since=since
        )
    if run.stuck_cause == StuckCause.KEY_MISSING:
        key = error["facts"].get("key", "")
        text = (
            f"it is encrypted with key {key}, which its worker does not know: start a worker that"
            " does, and it continues by itself"
        )
        return explanation(
            facts, [Blocker(kind="key", text=text, since=since, remedy=resume)], since=since
        )
    text = f"it cannot continue: {error_text(run.error)}"
    return explanation(
        facts, [Blocker(kind="error", text=text, since=since, remedy=resume)], since=since
    )


def _diverged(facts: RunFacts, details: dict[str, object], resume: str) -> list[Blocker]:
    if details.get("step") is None:
        text = f"its code does not fit its history: {details.get('why', 'the step is not known')}"
        return [Blocker(kind="diverged", text=text, since=last_at(facts), remedy=resume)]
    text = (
        f"its code does not fit its history at step {details['step']!r}: recorded is"
        f" {details.get('recorded')}, wanted is {details.get('wanted')}, at {details.get('where')};"
        " fix the code, then resume it"
    )
    fork = f"holdfast fork {facts.run.id} --from {shlex.quote(str(details['step']))}"
    return [
        Blocker(
            kind="diverged",
            text=text,
            holder=str(details["step"]),
            since=last_at(facts),
            remedy=resume,
        ),
        Blocker(
            kind="fork",
            text="or leave it and start a fork from that step with the code as it is",
            remedy=fork,
        ),
    ]


def _final(facts: RunFacts) -> Why:
    run = facts.run
    ended = run.finished_at or last_at(facts)
    blocker = Blocker(
        kind="ended", text=_ended(facts), since=ended, remedy=f"holdfast replay {run.id}"
    )
    undo_failed = error_of(run.error)["facts"].get("undo_failed")
    if not undo_failed:
        return explanation(facts, [blocker], since=ended)
    text = (
        f"these compensations failed: {', '.join(undo_failed)}; undo their steps by hand before you"
        " replay the run"
    )
    return explanation(facts, [blocker, Blocker(kind="undo", text=text)], since=ended)


def _ended(facts: RunFacts) -> str:
    run = facts.run
    if run.status is Status.COMPLETED:
        result = (run.result or b"null").decode("utf-8", "replace")
        if len(result) > LONGEST:
            result = result[:LONGEST] + "..."
        return f"it completed with {result}"
    if run.status is Status.FAILED:
        return f"it failed with {error_text(run.error)}"
    if run.status is Status.CANCELLED:
        reason = run.cancel_reason or error_of(run.error).get("message") or "no reason given"
        return f"it was cancelled{canceller(run)}: {reason}"
    if run.status is Status.EXPIRED:
        message = error_of(run.error).get("message")
        if run.deadline is None and message:  # the timeout of a wait can let a run expire, too
            return f"it expired: {message}"
        return "it passed its deadline" + (f" of {moment(run.deadline)}" if run.deadline else "")
    return f"it was {run.status.value}"


_STATUSES: dict[Status, Callable[[RunFacts], Why]] = {
    Status.PENDING: _pending,
    Status.BLOCKED: _blocked,
    Status.RUNNING: _running,
    Status.WAITING: _waiting,
    Status.CANCELLING: _cancelling,
    Status.STUCK: _stuck,
    Status.COMPLETED: _final,
    Status.FAILED: _final,
    Status.CANCELLED: _final,
    Status.EXPIRED: _final,
    Status.SKIPPED: _final,
}
