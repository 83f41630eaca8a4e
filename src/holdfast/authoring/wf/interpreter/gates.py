"""Gates: a decision asked of people or of a resolver, or made by a number.

A gate leaves no result behind: conditions name steps alone, and a step may have the name of the
type of a gate.
"""

from __future__ import annotations

from typing import Any

from holdfast.authoring.wf.ast import FieldRef, GateNode, QualityGateNode
from holdfast.authoring.wf.interpreter.failures import Stopped, fail
from holdfast.authoring.wf.interpreter.machine import Machine, error_of
from holdfast.authoring.wf.interpreter.plan import PlanNode
from holdfast.authoring.wf.interpreter.state import FAILED, FlowState, Place
from holdfast.authoring.wf.variables import substitute
from holdfast.core import typed_json
from holdfast.core.commands import OpenGate
from holdfast.core.events import Event
from holdfast.core.gates.answer import GateOutcome
from holdfast.core.gates.model import GateStatus, GateTerms, Option
from holdfast.core.text import plain_text
from holdfast.errors.wf_runs import GateFailed

LONGEST_OPTION = 1000
MOST_CONFIDENT = 100


async def run_gate(machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> None:
    """Open a gate and wait for its decision. A dry run approves it. Raises Stopped."""
    node: GateNode = plan.node
    identity = place.path + plan.local
    if machine.dry_run:
        machine.mark(identity, {"status": "completed", "dry_run": True})
        return
    variables = state.variables(place.extra)
    terms = GateTerms(
        options=_options(machine, node, state, plan.line),
        quorum=node.min_approvals,
        on_timeout=node.on_timeout,
        kind=node.type,
        least=0,
        mode=node.mode,
        identity=node.identity or machine.arguments.identity,
    )
    prompt = plain_text(substitute(node.prompt, variables).replace("\0", "")).strip()
    event = await machine.call(OpenGate(identity, prompt or node.type, terms, timeout=node.timeout))
    _take_decision(machine, plan, state, event)


def _take_decision(machine: Machine, plan: PlanNode, state: FlowState, event: Event) -> None:
    node: GateNode = plan.node
    if event.error is not None:
        info = error_of(event)
        facts: dict[str, Any] = {"gate": node.type, "where": machine.where(plan.line)}
        if info.type == "GateExpired":
            facts["why"] = "it was not decided in time"
        elif info.type == "GateRejected":
            facts["why"] = "it was rejected"
        else:
            facts["why"] = info.message
        if info.facts.get("feedback"):
            facts["feedback"] = info.facts["feedback"]
        fail(machine, state, GateFailed(**facts))
        return
    outcome = typed_json.decode(event.data or b"{}", GateOutcome)
    if outcome.rejects:
        reasons = [decision.feedback for decision in outcome.decisions if decision.feedback]
        fail(
            machine,
            state,
            GateFailed(
                gate=node.type,
                where=machine.where(plan.line),
                why="it was rejected",
                feedback=reasons[-1] if reasons else "",
            ),
        )
        return
    if outcome.status != GateStatus.EXPIRED:
        state.take_feedback(feedback_of(outcome))


def feedback_of(outcome: GateOutcome) -> str | None:
    """Return what later steps learn of a decision: the selections, else the feedback."""
    agreed = [decision for decision in outcome.decisions if decision.choice == outcome.choice]
    chosen = [
        selection
        for selection in (agreed[0].selections if agreed else ())
        if all(selection in decision.selections for decision in agreed)
    ]
    if not chosen and outcome.choice not in (None, "approve"):
        chosen = [str(outcome.choice)]
    if chosen:
        return ", ".join(chosen)
    feedbacks = [decision.feedback for decision in agreed if decision.feedback]
    if feedbacks:
        return feedbacks[-1]
    return None


def _options(machine: Machine, node: GateNode, state: FlowState, line: int) -> tuple[Option, ...]:
    """Return the options of a gate, from the text or from the output of a step. Raises Stopped."""
    if not isinstance(node.options, FieldRef):
        return tuple(Option(value, label, "approve") for value, label in node.options)
    reference = node.options
    result = state.result(reference.step)
    output = result.output if result is not None else None
    value = output.get(reference.field) if isinstance(output, dict) else None
    pairs = option_pairs(value)
    if not pairs:
        raise Stopped(
            GateFailed(
                gate=node.type,
                where=machine.where(line),
                why=f"{reference.step}.{reference.field} has no options: it must be an object of"
                " texts, a list of texts, or a list of objects with value and label",
            )
        )
    return tuple(Option(option, label, "approve") for option, label in pairs.items())


def option_pairs(value: Any) -> dict[str, str]:
    """Return the options in a field of an output, with their labels; none if it has no options."""
    pairs: dict[str, str] = {}
    if isinstance(value, dict):
        pairs = {str(name): label for name, label in value.items()}
    elif isinstance(value, list):
        for option in value:
            if isinstance(option, dict):
                pairs[option.get("value", "")] = option.get("label") or option.get("value", "")
            else:
                pairs[option] = option
    for option, label in pairs.items():
        texts = (option, label)
        if not all(isinstance(text, str) and 0 < len(text) <= LONGEST_OPTION for text in texts):
            return {}
    return pairs


async def run_quality_gate(
    machine: Machine, plan: PlanNode, state: FlowState, place: Place
) -> None:
    """Decide by the confidence in the output of a step. Raises Stopped."""
    node: QualityGateNode = plan.node
    identity = place.path + plan.local
    result = state.result(node.source.text)
    if result is None:
        confidence = 0
        reason = f"{node.source.text} did not run"
        is_fatal = True
    else:
        confidence, reason = confidence_of(result.output)
        is_fatal = confidence < node.threshold and node.on_fail != "continue"
        if result is FAILED:
            reason = f"{node.source.text} failed"
    if not reason:
        reason = f"confidence {confidence}, threshold {node.threshold}"
    status = "failed" if is_fatal else "completed"
    machine.mark(identity, {"status": status, "reason": reason})
    if is_fatal:
        where = machine.where(plan.line)
        fail(machine, state, GateFailed(gate="quality_gate", where=where, why=reason))


def confidence_of(output: Any) -> tuple[int, str]:
    """Return the confidence in an output, and why it is 0 if it has none."""
    value = output.get("confidence") if isinstance(output, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0, "the output has no number confidence"
    if value != value or value < 0:
        return 0, "the confidence is not a number from 0 to 100"
    return int(min(value, MOST_CONFIDENT)), ""
