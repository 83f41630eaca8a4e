"""Explain the waits of a parked run, one blocker per wait."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.budgets import rules as budget_rules
from holdfast.core.conditions.evaluation import ConditionProgress, issued_waits
from holdfast.core.conditions.model import Condition, SignalToWait
from holdfast.core.events import EventKind
from holdfast.core.gates import rules as gate_rules
from holdfast.core.gates.model import (
    APPROVE,
    CONTINUE,
    FAIL,
    REJECT,
    Gate,
    GateAction,
    GateStatus,
)
from holdfast.core.waits import WaitKind
from holdfast.core.why.model import Blocker, RunFacts, Why, last_at, moment, until
from holdfast.core.why.models import broadcast_wait, external_task, incident, message_wait
from holdfast.core.why.stored_errors import error_text

Wait = Mapping[str, Any]

_CHILDREN = (WaitKind.CHILD, WaitKind.CHILDREN, WaitKind.CHILDREN_END)
_RELEASABLE = (WaitKind.CONDITION, WaitKind.TIMER, WaitKind.RETRY, WaitKind.CHILDREN_END)


def waits(facts: RunFacts) -> list[Blocker]:
    """Return a blocker for each wait of the run: first the ones that nothing but an operator
    ends."""
    ordered = sorted(facts.waits, key=lambda wait: wait.get("kind") != WaitKind.INCIDENT)
    return [_KINDS.get(str(wait.get("kind")), _other)(facts, wait) for wait in ordered]


def is_due(facts: RunFacts) -> bool:
    """Return whether one of the run's waits is over, so that the run only needs a worker to
    continue."""
    return any(_is_over(facts, wait) for wait in facts.waits)


def _is_over(facts: RunFacts, wait: Wait) -> bool:
    limit = wait.get("until")
    if limit is not None and limit <= facts.now:
        return True
    if wait.get("kind") == WaitKind.SIGNAL:
        return wait.get("name") in facts.signals
    if wait.get("kind") == WaitKind.GATE:
        gate, _ = facts.gates.get(str(wait.get("gate")), (None, ()))
        return gate is not None and gate.status != GateStatus.OPEN
    if wait.get("kind") == WaitKind.RETRY:
        return is_released(facts, wait)
    if wait.get("kind") == WaitKind.CONDITION:
        return condition_progress(facts, wait).met or is_released(facts, wait)
    return wait.get("kind") in _CHILDREN and not facts.children.get(str(wait.get("step")))


def _timer(facts: RunFacts, wait: Wait) -> Blocker:
    limit = int(wait["until"])
    state = "its timer was due at"
    remedy = None
    if limit > facts.now:
        state = "it sleeps until"
        remedy = _release(facts, str(wait["step"]))
    text = f"{state} {until(limit, facts.now)}, step {wait['step']!r}"
    return Blocker(kind="timer", text=text, since=last_at(facts), until=limit, remedy=remedy)


def _signal(facts: RunFacts, wait: Wait) -> Blocker:
    name = str(wait["name"])
    limit = wait.get("until")
    if name in facts.signals:
        return Blocker(
            kind="signal",
            text=f"the signal {name!r} has come and is about to be taken",
            since=last_at(facts),
        )
    given_up = "" if limit is None else f"; it gives up at {until(int(limit), facts.now)}"
    return Blocker(
        kind="signal",
        text=f"it waits for the signal {name!r}, which was not sent yet{given_up}",
        holder="the sender of the signal",
        since=last_at(facts),
        until=limit,
        remedy=f"holdfast signal {facts.run.id} {shlex.quote(name)}",
    )


def _gate(facts: RunFacts, wait: Wait) -> Blocker:
    gate_and_entries = facts.gates.get(str(wait.get("gate")))
    if gate_and_entries is None:
        return _other(facts, wait)
    gate, entries = gate_and_entries
    if gate.status != GateStatus.OPEN:
        return Blocker(
            kind="gate",
            text=f"its gate {gate.prompt!r} is {gate.status}; it is about to continue",
            since=gate.closed_at,
        )
    quorum = gate.terms.quorum
    left = gate_rules.missing(gate, entries)
    people = "" if quorum == 1 else f"; {left} more of {quorum} must agree"
    votes = [f"{vote.person}: {vote.choice}" for vote in gate_rules.votes(entries)]
    so_far = f" (so far {', '.join(votes)})" if votes else ""
    then = {FAIL: "it fails", CONTINUE: "it continues without a choice"}.get(
        gate.terms.on_timeout, f"{gate.terms.on_timeout!r} is chosen"
    )
    end = ""
    if gate.deadline is not None:
        end = f"; it gives up at {until(gate.deadline, facts.now)}, then {then}"
    reminders = Counter(
        entry.kind for entry in entries if entry.kind in (GateAction.REMINDED, GateAction.ESCALATED)
    )
    nudges = ", ".join(f"{kind} {count} times" for kind, count in reminders.items())
    if nudges:
        nudges = f"; {nudges}"
    deciders = gate_rules.describe_deciders(gate)
    return Blocker(
        kind="gate",
        text=f"it waits for {deciders} to decide: {gate.prompt!r}{people}{so_far}{end}{nudges}",
        holder=deciders,
        since=gate.opened_at,
        until=gate.deadline,
        remedy=_command(gate),
    )


def _command(gate: Gate) -> str:
    """Return the command that decides a gate, with a role if only roles may decide."""
    choices = gate.choices
    role = f" --role {shlex.quote(gate.roles[0])}" if gate.roles and not gate.assignees else ""
    if APPROVE in choices and REJECT in choices:
        return f"holdfast approve {gate.id} --by NAME{role}"
    return f"holdfast gates decide {gate.id} {shlex.quote(choices[0])} --by NAME{role}"


def _retry(facts: RunFacts, wait: Wait) -> Blocker:
    limit = int(wait["until"])
    step = str(wait["step"])
    attempt = int(wait.get("attempt") or 2)
    failures = [
        event
        for event in facts.history
        if event.kind == EventKind.STEP_RETRIED and event.step == step
    ]
    why = ""
    since = last_at(facts)
    if failures:
        why = f" with {error_text(failures[-1].error)}"
        since = failures[-1].at
    text = f"step {step!r} failed{why}; attempt {attempt} begins"
    if is_released(facts, wait):
        return Blocker(
            kind="retry",
            text=f"{text} in a moment: an operator has released it",
            holder=step,
            since=since,
        )
    remedy = _release(facts, step) if limit > facts.now else None
    return Blocker(
        kind="retry",
        text=f"{text} at {until(limit, facts.now)}",
        holder=step,
        since=since,
        until=limit,
        remedy=remedy,
    )


def _child(facts: RunFacts, wait: Wait) -> Blocker:
    open_children = facts.children.get(str(wait["step"]), ())
    if not open_children:
        return Blocker(
            kind="child",
            text=f"its child {wait.get('run')} has ended; it is about to continue",
            since=last_at(facts),
        )
    child = open_children[0]
    if child.run in facts.external:
        return external_task(facts, wait, child)
    text = f"it waits for its child {child.run} ({child.workflow}), which is {child.status}"
    return _child_blocker(child, text, facts)


def _children(facts: RunFacts, wait: Wait) -> Blocker:
    open_children = facts.children.get(str(wait["step"]), ())
    total = wait.get("of", "all")
    if not open_children:
        return Blocker(
            kind="children",
            text=f"its {total} children have ended; it is about to continue",
            since=last_at(facts),
        )
    first = open_children[0]
    open_count = wait.get("open", len(open_children))
    text = (
        f"it waits for the {total} children of step {wait['step']!r}, of which"
        f" {wait.get('done', 0)} have ended; {open_count} are open, such as {first.run}"
    )
    return _child_blocker(first, f"{text}, which is {first.status}", facts, kind="children")


def _children_end(facts: RunFacts, wait: Wait) -> Blocker:
    if is_released(facts, wait):
        text = "an operator has released its wait for its children; it is about to continue"
        return Blocker(kind=WaitKind.CHILDREN_END, text=text, since=last_at(facts))
    open_children = facts.children.get(str(wait["step"]), ())
    if not open_children:
        return Blocker(
            kind=WaitKind.CHILDREN_END,
            text="its children have ended; it is about to continue",
            since=last_at(facts),
        )
    first = open_children[0]
    open_count = wait.get("open", len(open_children))
    text = f"it stops when its children have ended; {open_count} are open, such as {first.run}"
    blocker = _child_blocker(
        first,
        f"{text} ({first.workflow}), which is {first.status}",
        facts,
        kind=WaitKind.CHILDREN_END,
    )
    blocker.text += f"; {_release(facts, str(wait['step']))} lets it continue without them"
    return blocker


def _child_blocker(child: Why, text: str, facts: RunFacts, kind: str = "child") -> Blocker:
    remedy = child.remedy or f"holdfast why {child.run}"
    whole = f"{text}: {child.reason}"
    return Blocker(kind=kind, text=whole, holder=child.run, since=last_at(facts), remedy=remedy)


def _budget(facts: RunFacts, wait: Wait) -> Blocker:
    name = str(wait["budget"])
    dimension = str(wait["dimension"])
    limit = int(wait["limit"])
    used = int(wait["used"])
    reserved = int(wait.get("reserved") or 0)
    wanted = int(wait.get("wanted") or 0)
    short = max(used + reserved + wanted - limit, 1)
    parts = [f"{budget_rules.show(used)} of {budget_rules.show(limit)} {dimension} are used"]
    if reserved:
        parts.append(f"{budget_rules.show(reserved)} are reserved")
    if wanted:
        parts.append(f"step {wait['step']!r} wants {budget_rules.show(wanted)}")
    reset = wait.get("until")
    next_reset = "" if reset is None else f"; it is reset at {until(int(reset), facts.now)}"
    return Blocker(
        kind="budget",
        text=f"there is no room in the budget {name}: {', '.join(parts)}{next_reset}",
        holder=name,
        since=last_at(facts),
        until=reset,
        remedy=f"holdfast budgets raise {shlex.quote(name)} {dimension}={budget_rules.show(short)}",
    )


def _others(facts: RunFacts, wait: Wait) -> Blocker:
    """Further waits of a kind: its row lists the first ones alone."""
    kind = str(wait.get("of"))
    text = f"it has {wait.get('count')} more waits of the kind {kind}"
    return Blocker(kind=kind, text=text, since=last_at(facts))


def _other(facts: RunFacts, wait: Wait) -> Blocker:
    limit = wait.get("until")
    end = "" if limit is None else f" until {until(int(limit), facts.now)}"
    text = f"it waits for a {wait.get('kind')}{end}"
    return Blocker(kind=str(wait.get("kind")), text=text, since=last_at(facts), until=limit)


_THEN = {
    "fail": "then it fails",
    "cancel": "then the run is cancelled",
    "expire": "then the run expires",
    "continue": "then it continues without them",
    "escalate": "then it needs an operator",
}


def condition_progress(facts: RunFacts, wait: Wait) -> ConditionProgress:
    """Return which parts of the wait's condition the signals that have arrived meet."""
    condition: Condition = typed_json.convert(wait["condition"], Condition)
    addressed = [signal for signal in facts.received if not signal.is_release]
    return ConditionProgress(condition, lambda signal: _plain(signal.payload)).offer_all(addressed)


def _plain(payload: bytes) -> Any:
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_released(facts: RunFacts, wait: Wait) -> bool:
    """Return whether an operator has released the wait."""
    return any(signal.step == wait.get("step") for signal in facts.received)


def _condition(facts: RunFacts, wait: Wait) -> Blocker:
    step = str(wait["step"])
    limit = wait.get("gives_up")
    escalated = wait.get("escalated_at")
    progress = condition_progress(facts, wait)
    if progress.met or is_released(facts, wait):
        cause = "all that it waits for has come" if progress.met else "an operator has released it"
        return Blocker(
            kind="wait",
            text=f"{cause}, step {step!r}; it is about to continue",
            since=last_at(facts),
        )
    text = f"it waits for {', '.join(progress.missing())}{_why_suspended(wait)}, step {step!r}"
    arrived = progress.here()
    if arrived:
        text += f"; {', '.join(arrived)} {'has' if len(arrived) == 1 else 'have'} come"
    if escalated is not None:
        text = f"it has needed an operator since {moment(int(escalated))}: {text}"
    elif limit is not None:
        text += (
            f"; it gives up at {until(int(limit), facts.now)},"
            f" {_THEN.get(str(wait.get('on_timeout')), '')}".rstrip(", ")
        )
    expired = _expired(wait, facts.now)
    if expired:
        text += f"; expired meanwhile: {', '.join(expired)}"
    blocker = Blocker(
        kind="wait",
        text=text,
        holder="a person" if expired else "the sender of the signals",
        since=last_at(facts),
        until=limit,
    )
    if escalated is not None:
        blocker.kind = "person"
        blocker.since = int(escalated)
    needs_operator = wait["condition"].get("type") == "release"
    if needs_operator:
        blocker.kind = "person"
        blocker.holder = "an operator"
    if escalated is not None or expired or needs_operator:
        blocker.remedy = _release(facts, step)
    else:
        blocker.remedy = _remedy(facts, wait, progress)
    return blocker


def _why_suspended(wait: Wait) -> str:
    """Return the reason of a suspension and who asked for it, if its holder gave them."""
    notes = [str(wait["reason"])] if wait.get("reason") else []
    if wait.get("asked_by"):
        notes.append(f"asked by {wait['asked_by']}")
    return f" ({', '.join(notes)})" if notes else ""


def _expired(wait: Wait, now: int) -> list[str]:
    condition: Condition = typed_json.convert(wait["condition"], Condition)
    return [
        leaf.label
        for leaf in issued_waits(condition).values()
        if leaf.until is not None and leaf.until <= now
    ]


def _remedy(facts: RunFacts, wait: Wait, progress: ConditionProgress) -> str:
    leaf = progress.open_leaf()
    if leaf is None:
        return _release(facts, str(wait["step"]))
    name = shlex.quote(leaf.name or (leaf.label if isinstance(leaf, SignalToWait) else ""))
    payload = ""
    if leaf.payload is not None:
        payload = " " + shlex.quote(msgspec.json.encode(leaf.payload).decode())
    target = f" --wait {leaf.wait}" if isinstance(leaf, SignalToWait) else ""
    return f"holdfast signal {facts.run.id} {name}{payload}{target}"


def _release(facts: RunFacts, step: str) -> str:
    """Return the command that releases the wait; it names the step if several could be meant."""
    releasable = [wait for wait in facts.waits if wait.get("kind") in _RELEASABLE]
    command = f"holdfast waits release {facts.run.id}"
    if len(releasable) > 1:
        return f"{command} --step {shlex.quote(step)}"
    return command


_KINDS: dict[str, Callable[[RunFacts, Wait], Blocker]] = {
    WaitKind.TIMER: _timer,
    WaitKind.SIGNAL: _signal,
    WaitKind.OTHERS: _others,
    WaitKind.GATE: _gate,
    WaitKind.CONDITION: _condition,
    WaitKind.RETRY: _retry,
    WaitKind.CHILD: _child,
    WaitKind.CHILDREN: _children,
    WaitKind.CHILDREN_END: _children_end,
    WaitKind.BUDGET: _budget,
    WaitKind.INCIDENT: incident,
    WaitKind.MESSAGE: message_wait,
    WaitKind.BROADCAST: broadcast_wait,
}
