"""What a parked run waits for, one blocker per wait."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.core.budgets import rules as budget_rules
from holdfast.core.conditions.evaluation import ConditionProgress, issued_waits
from holdfast.core.conditions.model import Condition, SignalToWait
from holdfast.core.events import EventKind
from holdfast.core.gates import rules as gate_rules
from holdfast.core.gates.model import APPROVE, CONTINUE, FAIL, OPEN, REJECT, GateAction
from holdfast.core.runs import CHILDREN_END
from holdfast.core.why.model import Blocker, RunFacts, Why, last_at, moment, until

Wait = Mapping[str, Any]


def waits(facts: RunFacts) -> list[Blocker]:
    """Say what each wait of the run waits for."""
    return [_KINDS.get(str(wait.get("kind")), _other)(facts, wait) for wait in facts.waits]


def is_due(facts: RunFacts) -> bool:
    """Say whether what the run waits for has happened, so that it only needs somebody to go on with
    it."""
    return any(_happened(facts, wait) for wait in facts.waits)


def _happened(facts: RunFacts, wait: Wait) -> bool:
    limit = wait.get("until")
    if limit is not None and limit <= facts.now:
        return True
    if wait.get("kind") == "signal":
        return wait.get("name") in facts.signals
    if wait.get("kind") == "gate":
        gate, _ = facts.gates.get(str(wait.get("gate")), (None, ()))
        return gate is not None and gate.status != OPEN
    if wait.get("kind") == "retry":
        return is_released(facts, wait)
    if wait.get("kind") == "wait":
        return tally_of(facts, wait).met or is_released(facts, wait)
    return wait.get("kind") in ("child", "children", CHILDREN_END) and not facts.children.get(
        str(wait.get("step"))
    )


def _timer(facts: RunFacts, wait: Wait) -> Blocker:
    limit = int(wait["until"])
    sleeps = limit > facts.now
    text = (
        f"{'it sleeps until' if sleeps else 'its timer is due since'} {until(limit, facts.now)},"
        f" step {wait['step']!r}"
    )
    remedy = _release(facts, str(wait["step"])) if sleeps else None
    return Blocker(kind="timer", text=text, since=last_at(facts), until=limit, remedy=remedy)


def _signal(facts: RunFacts, wait: Wait) -> Blocker:
    name, limit = str(wait["name"]), wait.get("until")
    if name in facts.signals:
        return Blocker(
            kind="signal",
            text=f"the signal {name!r} has come and is about to be taken",
            since=last_at(facts),
        )
    given_up = "" if limit is None else f"; it gives up at {until(int(limit), facts.now)}"
    return Blocker(
        kind="signal",
        text=f"it waits for the signal {name!r}, which somebody must send{given_up}",
        holder="whoever sends the signal",
        since=last_at(facts),
        until=limit,
        remedy=f"holdfast signal {facts.run.id} {shlex.quote(name)}",
    )


def _gate(facts: RunFacts, wait: Wait) -> Blocker:
    found = facts.gates.get(str(wait.get("gate")))
    if found is None:
        return _other(facts, wait)
    gate, entries = found
    if gate.status != OPEN:
        return Blocker(
            kind="gate",
            text=f"its gate {gate.prompt!r} is {gate.status}; it is about to go on",
            since=gate.closed_at,
        )
    needs, left = gate.terms.quorum, gate_rules.missing(gate, entries)
    people = "" if needs == 1 else f"; {left} more of {needs} must agree"
    told = [f"{vote.person}: {vote.choice}" for vote in gate_rules.votes(entries)]
    so_far = f" (so far {', '.join(told)})" if told else ""
    then = {FAIL: "it fails", CONTINUE: "it goes on without a choice"}.get(
        gate.terms.on_timeout, f"{gate.terms.on_timeout!r} is chosen"
    )
    end = (
        ""
        if gate.deadline is None
        else f"; it gives up at {until(gate.deadline, facts.now)}, then {then}"
    )
    nudged = [
        entry.kind for entry in entries if entry.kind in (GateAction.REMINDED, GateAction.ESCALATED)
    ]
    nudges = (
        f"; {', '.join(f'{kind} {nudged.count(kind)} times' for kind in dict.fromkeys(nudged))}"
        if nudged
        else ""
    )
    who = gate_rules.told_who(gate)
    return Blocker(
        kind="gate",
        text=f"it waits for {who} to decide: {gate.prompt!r}{people}{so_far}{end}{nudges}",
        holder=who,
        since=gate.opened_at,
        until=gate.deadline,
        remedy=_command(gate.id, gate.choices),
    )


def _command(gate_id: str, choices: tuple[str, ...]) -> str:
    if APPROVE in choices and REJECT in choices:
        return f"holdfast approve {gate_id} --by NAME"
    return f"holdfast decide {gate_id} {shlex.quote(choices[0])} --by NAME"


def _retry(facts: RunFacts, wait: Wait) -> Blocker:
    limit, step, attempt = int(wait["until"]), str(wait["step"]), int(wait.get("attempt") or 2)
    failures = [
        event
        for event in facts.history
        if event.kind == EventKind.STEP_RETRIED and event.step == step
    ]
    why = f" with {error_text(failures[-1].error)}" if failures else ""
    since = failures[-1].at if failures else last_at(facts)
    text = f"step {step!r} failed{why}; attempt {attempt} begins"
    if is_released(facts, wait):
        return Blocker(
            kind="retry", text=f"{text} in a moment: a person has let it", holder=step, since=since
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
    run_id, found = str(wait.get("run")), facts.children.get(str(wait["step"]), ())
    if not found:
        return Blocker(
            kind="child",
            text=f"its child {run_id} has ended; it is about to go on",
            since=last_at(facts),
        )
    return _below(
        found[0],
        f"it waits for its child {found[0].run} ({found[0].workflow}), which is {found[0].status}",
        facts,
    )


def _children(facts: RunFacts, wait: Wait) -> Blocker:
    found = facts.children.get(str(wait["step"]), ())
    total = wait.get("of", "all")
    if not found:
        return Blocker(
            kind="children",
            text=f"its {total} children have ended; it is about to go on",
            since=last_at(facts),
        )
    first, open_now = found[0], wait.get("open", len(found))
    text = (
        f"it waits for the {total} children of step {wait['step']!r}; {open_now} are open, such as"
        f" {first.run}"
    )
    return _below(first, f"{text}, which is {first.status}", facts, kind="children")


def _children_end(facts: RunFacts, wait: Wait) -> Blocker:
    if is_released(facts, wait):
        text = "an operator has released its wait for its children; it is about to go on"
        return Blocker(kind=CHILDREN_END, text=text, since=last_at(facts))
    found = facts.children.get(str(wait["step"]), ())
    if not found:
        return Blocker(
            kind=CHILDREN_END,
            text="its children have ended; it is about to go on",
            since=last_at(facts),
        )
    first = found[0]
    text = (
        f"it stops when its children have ended; {wait.get('open', len(found))} are open, such as"
        f" {first.run}"
    )
    blocker = _below(
        first, f"{text} ({first.workflow}), which is {first.status}", facts, kind=CHILDREN_END
    )
    blocker.text += f"; {_release(facts, str(wait['step']))} lets it go on without them"
    return blocker


def _below(child: Why, text: str, facts: RunFacts, kind: str = "child") -> Blocker:
    remedy = child.remedy or f"holdfast why {child.run}"
    whole = f"{text}: {child.reason}"
    return Blocker(kind=kind, text=whole, holder=child.run, since=last_at(facts), remedy=remedy)


def _budget(facts: RunFacts, wait: Wait) -> Blocker:
    name, dimension, limit = str(wait["budget"]), str(wait["dimension"]), int(wait["limit"])
    used, aside, wanted = (
        int(wait["used"]),
        int(wait.get("reserved") or 0),
        int(wait.get("wanted") or 0),
    )
    short = max(used + aside + wanted - limit, 1)
    parts = [f"{budget_rules.show(used)} of {budget_rules.show(limit)} {dimension} are used"]
    parts += [f"{budget_rules.show(aside)} are set aside"] if aside else []
    parts += [f"step {wait['step']!r} wants {budget_rules.show(wanted)}"] if wanted else []
    reset = wait.get("until")
    again = "" if reset is None else f"; it is reset at {until(int(reset), facts.now)}"
    return Blocker(
        kind="budget",
        text=f"there is no room in the budget {name}: {', '.join(parts)}{again}",
        holder=name,
        since=last_at(facts),
        until=reset,
        remedy=f"holdfast budgets raise {shlex.quote(name)} {dimension}={budget_rules.show(short)}",
    )


def _other(facts: RunFacts, wait: Wait) -> Blocker:
    limit = wait.get("until")
    text = f"it waits for a {wait.get('kind')}" + (
        "" if limit is None else f" until {until(int(limit), facts.now)}"
    )
    return Blocker(kind=str(wait.get("kind")), text=text, since=last_at(facts), until=limit)


_THEN = {
    "fail": "then it fails",
    "cancel": "then the run is cancelled",
    "expire": "then the run expires",
    "continue": "then it goes on without them",
    "escalate": "then it is put to a person",
}


def tally_of(facts: RunFacts, wait: Wait) -> ConditionProgress:
    """Say what of a condition is met by the signals that have come."""
    condition: Condition = msgspec.convert(wait["condition"], Condition)
    addressed = [signal for signal in facts.heard if signal.step is None]
    return ConditionProgress(condition, lambda signal: _plain(signal.payload)).offer_all(addressed)


def _plain(payload: bytes) -> Any:
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_released(facts: RunFacts, wait: Wait) -> bool:
    """Say whether a person has let a wait go."""
    return any(signal.step == wait.get("step") for signal in facts.heard)


def _condition(facts: RunFacts, wait: Wait) -> Blocker:
    step, limit, escalated = str(wait["step"]), wait.get("gives_up"), wait.get("escalated_at")
    tally = tally_of(facts, wait)
    if tally.met or is_released(facts, wait):
        came = "all that it waits for has come" if tally.met else "a person has let it go"
        return Blocker(
            kind="wait", text=f"{came}, step {step!r}; it is about to go on", since=last_at(facts)
        )
    text = f"it waits for {', '.join(tally.missing())}, step {step!r}"
    here = tally.here()
    text += f"; {', '.join(here)} {'has' if len(here) == 1 else 'have'} come" if here else ""
    if escalated is not None:
        text = f"it needs a person since {moment(int(escalated))}: {text}"
    elif limit is not None:
        text += (
            f"; it gives up at {until(int(limit), facts.now)},"
            f" {_THEN.get(str(wait.get('on_timeout')), '')}".rstrip(", ")
        )
    gone = _expired(wait, facts.now)
    text += f"; expired meanwhile: {', '.join(gone)}" if gone else ""
    return Blocker(
        kind="wait" if escalated is None else "person",
        text=text,
        holder="whoever sends the signals" if not gone else "a person",
        since=last_at(facts) if escalated is None else int(escalated),
        until=limit,
        remedy=(
            _remedy(facts, wait, tally) if escalated is None and not gone else _release(facts, step)
        ),
    )


def _expired(wait: Wait, now: int) -> list[str]:
    condition: Condition = msgspec.convert(wait["condition"], Condition)
    return [
        one.label
        for one in issued_waits(condition).values()
        if one.until is not None and one.until <= now
    ]


def _remedy(facts: RunFacts, wait: Wait, tally: ConditionProgress) -> str:
    leaf = tally.open_leaf()
    if leaf is None:
        return _release(facts, str(wait["step"]))
    name = shlex.quote(leaf.name or (leaf.label if isinstance(leaf, SignalToWait) else ""))
    payload = (
        ""
        if leaf.payload is None
        else " " + shlex.quote(msgspec.json.encode(leaf.payload).decode())
    )
    to = f" --wait {leaf.wait}" if isinstance(leaf, SignalToWait) else ""
    return f"holdfast signal {facts.run.id} {name}{payload}{to}"


def _release(facts: RunFacts, step: str) -> str:
    several = (
        sum(wait.get("kind") in ("wait", "timer", "retry", CHILDREN_END) for wait in facts.waits)
        > 1
    )
    return f"holdfast release {facts.run.id}" + (f" --step {shlex.quote(step)}" if several else "")


_KINDS: dict[str, Callable[[RunFacts, Wait], Blocker]] = {
    "timer": _timer,
    "signal": _signal,
    "gate": _gate,
    "wait": _condition,
    "retry": _retry,
    "child": _child,
    "children": _children,
    CHILDREN_END: _children_end,
    "budget": _budget,
}


def error_of(data: bytes | None) -> dict[str, Any]:
    """Return a stored error as a dictionary that has facts, whatever is stored."""
    try:
        found = msgspec.json.decode(data or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    error = found if isinstance(found, dict) else {}
    return error if isinstance(error.get("facts"), dict) else {**error, "facts": {}}


def error_text(data: bytes | None) -> str:
    """Write a stored error in one line."""
    error = error_of(data)
    whole = f"{error.get('type', 'an error')}: {error.get('message', '')}".rstrip(": ")
    return " ".join(whole.split())
