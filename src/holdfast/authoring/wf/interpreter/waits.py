"""Timers, signals and output of the run: ``sleep``, ``wait signal``, ``emit``."""

from __future__ import annotations

from typing import Any

from holdfast.authoring.wf.ast import EmitNode, SleepNode, WaitNode
from holdfast.authoring.wf.interpreter.failures import fail
from holdfast.authoring.wf.interpreter.machine import Machine
from holdfast.authoring.wf.interpreter.plan import PlanNode
from holdfast.authoring.wf.interpreter.state import FAILED, FlowState, Place, StepResult
from holdfast.authoring.wf.variables import substitute
from holdfast.core import duration
from holdfast.core.commands import AwaitSignal, RunStep, SetTimer
from holdfast.core.events import EventKind
from holdfast.core.step_info import StepInfo
from holdfast.core.streams.model import FrameKind
from holdfast.errors import BadDuration
from holdfast.errors.wf_runs import WaitFailed


async def run_sleep(machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> None:
    """Wait for a duration. A dry run does not wait. Raises Stopped."""
    node: SleepNode = plan.node
    identity = place.path + plan.local
    if machine.dry_run:
        machine.mark(identity, {"status": "completed", "dry_run": True})
        return
    text = substitute(node.duration.text, state.variables(place.extra)).strip()
    try:
        length = duration.parse(text)
    except BadDuration:
        where = machine.where(plan.line)
        why = f"{text!r} is not a duration: write it as 90s, 10m or 2d"
        fail(machine, state, WaitFailed(wait="sleep", where=where, why=why))
        return
    await machine.call(SetTimer(identity, max(length, 0)))


async def run_wait(machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> None:
    """Wait for a signal. A dry run does not wait. Raises Stopped."""
    node: WaitNode = plan.node
    identity = place.path + plan.local
    if machine.dry_run:
        machine.mark(identity, {"status": "completed", "dry_run": True})
        _take(machine, state, plan.key, StepResult(["received"]))
        return
    event = await machine.call(AwaitSignal(identity, node.signal, node.timeout))
    if event.kind != EventKind.SIGNAL_TIMED_OUT:
        value = machine.read(event)
        _take(machine, state, plan.key, StepResult(["received"], "", value))
        return
    if node.on_timeout == "continue":
        _take(machine, state, plan.key, StepResult(["timed_out"], status="timed_out"))
        return
    state.results[plan.key] = FAILED
    where = machine.where(plan.line)
    why = f"no signal came within {duration.show(node.timeout or 0)}"
    fail(machine, state, WaitFailed(wait=node.signal, where=where, why=why))


def _take(machine: Machine, state: FlowState, key: str, result: StepResult) -> None:
    state.results[key] = result
    state.last_result = result
    state.take_output(result.output, machine.fixed)


async def run_emit(machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> None:
    """Append a text to the output of the run, once."""
    node: EmitNode = plan.node
    text = substitute(node.text.text, state.variables(place.extra))

    def call(info: StepInfo, connection: Any) -> None:
        if info.sink is not None:
            info.sink.put(info.step, info.attempt, FrameKind.EVENT, text)

    await machine.call(RunStep(place.path + plan.local, "emit", call, False, plan.policy))
