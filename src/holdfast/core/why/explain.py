"""One explanation per status."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from holdfast.core.events import Event, EventKind
from holdfast.core.status import Status
from holdfast.core.why.claim import claim_blockers, is_served, nobody
from holdfast.core.why.model import (
    Blocker,
    RunFacts,
    Why,
    away,
    holder_of,
    last_at,
    moment,
    told,
    until,
)
from holdfast.core.why.schedules import started_by
from holdfast.core.why.waits import error_of, error_text, is_due, waits
from holdfast.core.why.workers import Liveness, WorkerView, command_in

UNDO = "undo "
LONGEST = 300
"""Characters of a result that are shown."""

_STEP_ENDS = (
    EventKind.STEP_COMPLETED,
    EventKind.STEP_FAILED,
    EventKind.STEP_RETRIED,
    EventKind.STEP_DROPPED,
    EventKind.STEP_BLOCKED,
)


def explain(facts: RunFacts) -> Why:
    """Say where the run stands, what holds it up, and what would make it go on."""
    found = _STATUSES[facts.run.status](facts)
    deadline = facts.run.deadline
    if deadline is not None and facts.run.finished_at is None:
        text = f"its deadline is {until(deadline, facts.now)}"
        found.blockers.append(Blocker(kind="deadline", text=text, until=deadline))
    found.blockers += started_by(facts.run)
    return found


def _pending(facts: RunFacts) -> Why:
    wake_at = facts.run.wake_at
    if wake_at is None or wake_at <= facts.now:
        blockers = claim_blockers(facts)
        return told(facts, blockers, since=wake_at or last_at(facts))
    text, later = f"{_put_off(facts)} {until(wake_at, facts.now)}", _later(facts)
    helps = (
        not later or facts.leased
    )  # to let it begin helps only if it could; who leases comes and goes
    remedy = f"holdfast release {facts.run.id}" if helps else None
    blocker = Blocker(kind="delay", text=text, since=last_at(facts), until=wake_at, remedy=remedy)
    return told(facts, [blocker, *later], since=last_at(facts))


def _put_off(facts: RunFacts) -> str:
    last = facts.history[-1] if facts.history else None
    if last is not None and last.kind == EventKind.ATTEMPT_FAILED:
        return f"its last attempt failed with {error_text(last.error)}; it is tried again at"
    return "it may not begin before"


def _blocked(facts: RunFacts) -> Why:
    blockers = waits(facts) or [Blocker(kind="blocked", text="it is blocked", since=last_at(facts))]
    blockers[0].remedy = blockers[0].remedy or f"holdfast resume {facts.run.id}"
    return told(facts, blockers, since=last_at(facts))


def _running(facts: RunFacts) -> Why:
    return told(facts, _held(facts), since=last_at(facts))


def _held(facts: RunFacts) -> list[Blocker]:
    """Say who holds the run and whether that worker still beats."""
    seen = holder_of(facts)
    if seen is None:
        text = "it is held by a session that does not exist: the database is not sound"
        return [
            Blocker(
                kind="session", text=text, holder=facts.run.session_id, remedy="holdfast db check"
            )
        ]
    if seen.life is Liveness.GONE:
        return [_lost(facts, seen), *claim_blockers(facts)]
    if seen.life is Liveness.SILENT:
        return [_silent(facts, seen)]
    return [_at_work(facts, seen)]


def _lost(facts: RunFacts, seen: WorkerView) -> Blocker:
    beat = seen.session.beat_at
    text = (
        f"{seen.place}, which held it, is gone; its last heartbeat was at {until(beat, facts.now)}"
    )
    return Blocker(kind="session", text=text, holder=seen.name, since=beat)


def _silent(facts: RunFacts, seen: WorkerView) -> Blocker:
    beat, end = seen.session.beat_at, seen.session.expires_at
    text = (
        f"{seen.place} holds it, but its heartbeat stopped at {until(beat, facts.now)};"
        f" the lease ends at {until(end, facts.now)} and another worker may go on"
    )
    revoke = command_in(facts.run.namespace, "tasks revoke", facts.run.id)
    return Blocker(
        kind="session", text=text, holder=seen.name, since=beat, until=end, remedy=revoke
    )


def _at_work(facts: RunFacts, seen: WorkerView) -> Blocker:
    steps = steps_at_work(facts.history)
    if steps:
        since = steps[0].started_at or steps[0].at
        named = ", ".join(_step(event, facts.now) for event in steps)
        return Blocker(
            kind="step", text=f"{seen.place} is at work on {named}", holder=seen.name, since=since
        )
    if not facts.history:
        return Blocker(
            kind="step",
            text=f"{seen.place} has just begun with it",
            holder=seen.name,
            since=last_at(facts),
        )
    last = facts.history[-1]
    what = f"{last.kind} {last.step}" if last.step else last.kind
    text = f"{seen.place} is at work on it; the last event is {what}, {away(last.at, facts.now)}"
    return Blocker(kind="step", text=text, holder=seen.name, since=last.at)


def _step(event: Event, now: int) -> str:
    since = event.started_at or event.at
    attempt = f", attempt {event.attempt}" if event.attempt > 1 else ""
    return f"step {event.step!r} since {until(since, now)}{attempt}"


def steps_at_work(history: Sequence[Event]) -> list[Event]:
    """Return the notes of steps that began and have not ended."""
    begun: dict[str, Event] = {}
    for event in history:
        if event.kind == EventKind.STEP_STARTED:
            begun[event.step or ""] = event
        elif event.kind in _STEP_ENDS:
            begun.pop(event.step or "", None)
    return list(begun.values())


def _waiting(facts: RunFacts) -> Why:
    return told(facts, _parked(facts), since=last_at(facts))


def _parked(facts: RunFacts) -> list[Blocker]:
    """Say what it waits for; what has happened already needs a worker, and what will happen will
    need one."""
    found = waits(facts) or [Blocker(kind="wait", text="it waits", since=last_at(facts))]
    seen = holder_of(facts)
    held = seen is not None and seen.life is not Liveness.GONE
    if not is_due(facts):
        return found if held else [*found, *_later(facts)]
    if held and seen is not None:
        return [
            *found,
            Blocker(
                kind="session",
                text=f"{seen.place} holds it and goes on in a moment",
                holder=seen.name,
            ),
        ]
    stops = claim_blockers(facts)
    return [*found, *stops] if stops[0].kind == "ready" else [*stops, *found]


def _later(facts: RunFacts) -> list[Blocker]:
    """Nobody is needed now. But warn of what will be needed then."""
    if is_served(facts):
        return []
    first = nobody(facts)[0]
    return [Blocker(kind="worker", text=f"then {first.text}", remedy=first.remedy)]


def _cancelling(facts: RunFacts) -> Why:
    run = facts.run
    asked = next(
        (event for event in reversed(facts.history) if event.kind == EventKind.CANCEL_REQUESTED),
        None,
    )
    since = asked.at if asked is not None else last_at(facts)
    reason = (
        f"it was asked to stop ({run.cancel_reason or 'no reason given'}) and is {_undoing(facts)}"
    )
    if run.session_id is not None:
        blockers = [*(waits(facts) if facts.waits else []), *_held(facts)]
    else:
        blockers = _parked(facts) if facts.waits else claim_blockers(facts)
    force = "to end it at once, with nothing more undone"
    blockers.append(Blocker(kind="force", text=force, remedy=f"holdfast cancel {run.id} --force"))
    return told(facts, blockers, reason, since)


def _undoing(facts: RunFacts) -> str:
    undone = [
        _name(event)
        for event in facts.history
        if event.kind == EventKind.STEP_COMPLETED and _is_undo(event)
    ]
    now = [_name(event) for event in steps_at_work(facts.history) if _is_undo(event)]
    now += [
        str(wait["step"])
        for wait in facts.waits
        if str(wait.get("step", "")).rsplit("/", 1)[-1].startswith(UNDO)
    ]
    so_far = f"; undone so far: {', '.join(undone)}" if undone else ""
    return (f"undoing: {', '.join(now)}" if now else "coming to its end") + so_far


def _is_undo(event: Event) -> bool:
    return (event.step or "").rsplit("/", 1)[-1].startswith(UNDO)


def _name(event: Event) -> str:
    return event.step or event.kind


def _stuck(facts: RunFacts) -> Why:
    run, error = facts.run, error_of(facts.run.error)
    since, resume = last_at(facts), f"holdfast resume {run.id}"
    if error.get("type") == "Diverged":
        return told(facts, _diverged(facts, error["facts"], resume), since=since)
    if error.get("type") == "TooManyCrashes":
        text = f"{error.get('message')}: find out what kills the process, then resume it"
        return told(
            facts, [Blocker(kind="crashes", text=text, since=since, remedy=resume)], since=since
        )
    if error.get("type") == "KeyMissing":
        key = error["facts"].get("key", "")
        text = (
            f"it is encrypted with key {key}, which its worker does not know: start a worker that"
            " does, and it goes on by itself"
        )
        return told(
            facts, [Blocker(kind="key", text=text, since=since, remedy=resume)], since=since
        )
    text = f"it cannot go on: {error_text(run.error)}"
    return told(facts, [Blocker(kind="error", text=text, since=since, remedy=resume)], since=since)


def _diverged(facts: RunFacts, found: dict[str, object], resume: str) -> list[Blocker]:
    if found.get("step") is None:
        text = f"its code does not fit its history: {found.get('why', 'nobody knows where')}"
        return [Blocker(kind="diverged", text=text, since=last_at(facts), remedy=resume)]
    text = (
        f"its code does not fit its history at step {found['step']!r}: recorded is"
        f" {found.get('recorded')}, wanted is {found.get('wanted')}, at {found.get('where')}; mend"
        " the code, then resume it"
    )
    fork = f"holdfast fork {facts.run.id} --from {shlex.quote(str(found['step']))}"
    return [
        Blocker(
            kind="diverged",
            text=text,
            holder=str(found["step"]),
            since=last_at(facts),
            remedy=resume,
        ),
        Blocker(
            kind="fork",
            text="or leave it and begin anew from that step with the code as it is",
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
        return told(facts, [blocker], since=ended)
    text = (
        f"not undone, because the undoing failed: {', '.join(undo_failed)}; undo it by hand before"
        " a replay does it again"
    )
    return told(facts, [blocker, Blocker(kind="undo", text=text)], since=ended)


def _ended(facts: RunFacts) -> str:
    run = facts.run
    if run.status is Status.COMPLETED:
        result = (run.result or b"null").decode("utf-8", "replace")
        return f"it completed with {result if len(result) <= LONGEST else result[:LONGEST] + '...'}"
    if run.status is Status.FAILED:
        return f"it failed with {error_text(run.error)}"
    if run.status is Status.CANCELLED:
        return (
            "it was cancelled:"
            f" {run.cancel_reason or error_of(run.error).get('message') or 'no reason given'}"
        )
    if run.status is Status.EXPIRED:
        told = error_of(run.error).get("message")
        if (
            run.deadline is None and told
        ):  # it was not its deadline: a wait that is given up can let a run expire, too
            return f"it expired: {told}"
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
