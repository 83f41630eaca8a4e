"""Sequences, branches, loops and parallel blocks: the walk through the plan."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from holdfast.authoring.wf import ast
from holdfast.authoring.wf.interpreter.calls import run_call, take_failure, take_result
from holdfast.authoring.wf.interpreter.children import perform_subflow
from holdfast.authoring.wf.interpreter.conditions import facts_of, is_met
from holdfast.authoring.wf.interpreter.failures import BranchStopped, StepFault, Stopped, fail
from holdfast.authoring.wf.interpreter.fanout import run_foreach
from holdfast.authoring.wf.interpreter.gates import run_gate, run_quality_gate
from holdfast.authoring.wf.interpreter.machine import Machine
from holdfast.authoring.wf.interpreter.plan import PlanNode, loop_name
from holdfast.authoring.wf.interpreter.scripts import run_script_node
from holdfast.authoring.wf.interpreter.state import BlockToken, FlowState, Place
from holdfast.authoring.wf.interpreter.waits import run_emit, run_sleep, run_wait
from holdfast.errors.wf_runs import LoopEnded, ParallelFailed

Walk = Callable[[Machine, PlanNode, FlowState, Place], Awaitable[None]]


async def run_sequence(
    machine: Machine, nodes: Sequence[PlanNode], state: FlowState, place: Place
) -> None:
    """Execute nodes one after another. Raises Stopped, BranchStopped."""
    for plan in nodes:
        if place.block is not None and place.block.stopped:
            raise BranchStopped
        await WALKS[type(plan.node)](machine, plan, state, place)


async def _run_if(machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> None:
    if is_met(machine, plan.node.condition, state, place):
        await run_sequence(machine, plan.body, state, place)


async def _run_unless(machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> None:
    if not is_met(machine, plan.node.condition, state, place):
        await run_sequence(machine, plan.body, state, place)


async def _run_block(machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> None:
    await run_sequence(machine, plan.body, state, place)


async def _run_do(machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> None:
    await run_sequence(machine, plan.body, state, inheriting(plan, place))


def inheriting(plan: PlanNode, place: Place) -> Place:
    """Return the place inside a block whose calls inherit its output and snippets."""
    return place._replace(
        schema=plan.schema or place.schema, snippets=place.snippets + plan.snippets
    )


# Loops


def _iteration(plan: PlanNode, place: Place, number: int) -> Place:
    # Not _replace, which costs more than the rest of an iteration.
    return Place(
        f"{place.path}{plan.local}[{number}]/",
        (*place.iterations, number),
        place.schema,
        place.snippets,
        place.extra,
        place.always,
        place.block,
    )


class _StuckCheck:
    """Notices that the facts of a loop have not changed for a number of iterations."""

    def __init__(self, limit: int | None) -> None:
        self._limit: int | None = limit
        self._seen: deque[Any] = deque(maxlen=limit or 1)

    def is_stuck(self, facts: Callable[[], Any]) -> bool:
        if self._limit is None:
            return False
        self._seen.append(facts())
        return len(self._seen) == self._limit and all(
            entry == self._seen[0] for entry in self._seen
        )


async def _run_while(machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> None:
    node: ast.WhileNode = plan.node
    stuck = _StuckCheck(node.stuck_after)
    number = 0
    while is_met(machine, node.condition, state, place):
        if number and stuck.is_stuck(lambda: facts_of(machine, node.condition, state, place)):
            _end_stuck(machine, plan, state)
            return
        if number >= node.max_iterations:
            _end_at_limit(machine, plan, state)
            return
        await run_sequence(machine, plan.body, state, _iteration(plan, place, number))
        number += 1


async def _run_do_while(machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> None:
    node: ast.DoWhileNode = plan.node
    stuck = _StuckCheck(node.stuck_after)
    number = 0
    while True:
        if number >= node.max_iterations:
            _end_at_limit(machine, plan, state)
            return
        await run_sequence(machine, plan.body, state, _iteration(plan, place, number))
        number += 1
        if not is_met(machine, node.condition, state, place):
            return
        if stuck.is_stuck(lambda: facts_of(machine, node.condition, state, place)):
            _end_stuck(machine, plan, state)
            return


def _end_at_limit(machine: Machine, plan: PlanNode, state: FlowState) -> None:
    if plan.node.on_max_iter == "continue":
        return
    fail(
        machine,
        state,
        LoopEnded(
            loop=loop_name(plan.node),
            where=machine.where(plan.line),
            why=f"its condition still holds after max_iterations = {plan.node.max_iterations}",
        ),
    )


def _end_stuck(machine: Machine, plan: PlanNode, state: FlowState) -> None:
    fail(
        machine,
        state,
        LoopEnded(
            loop=loop_name(plan.node),
            where=machine.where(plan.line),
            why=f"it is stuck: nothing has changed for stuck_after = {plan.node.stuck_after}"
            " iterations",
        ),
    )


# Parallel blocks


class _ParallelBranch:
    """One branch of a parallel block."""

    __slots__ = ("error", "plan", "state", "task")

    def __init__(self, plan: PlanNode, state: FlowState) -> None:
        self.plan: PlanNode = plan
        self.state: FlowState = state
        self.task: asyncio.Task[None] | None = None
        self.error: BaseException | None = None


async def _run_parallel(machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> None:
    """Run every node of the block as a branch, and wait for all of them."""
    node: ast.ParallelNode = plan.node
    token = BlockToken(place.block)
    inner = inheriting(plan, place)._replace(block=token)
    branches: list[_ParallelBranch] = []
    skipped = 0
    for child in plan.body:
        if _is_skipped(machine, child, state, inner):
            skipped += 1
        else:
            branches.append(_ParallelBranch(child, state.fork()))
    machine.parallel += 1
    try:
        await _run_branches(machine, branches, inner, token, fail_fast=node.fail_fast)
    finally:
        machine.parallel -= 1
    failed = [branch for branch in branches if branch.error is not None or branch.state.failures]
    for branch in branches:
        state.merge(branch.state)
    succeeded = len(branches) - len(failed) + skipped
    needed = len(plan.body) if node.min_success is None else node.min_success
    if succeeded < needed:
        fail(machine, state, _too_few(machine, plan, failed, succeeded, needed))


def _is_skipped(machine: Machine, child: PlanNode, state: FlowState, place: Place) -> bool:
    node = child.node
    if isinstance(node, ast.CallNode) and node.condition is not None:
        if is_met(machine, node.condition, state, place):
            return False
        machine.mark(place.path + child.local, {"status": "skipped"})
        return True
    if isinstance(node, ast.IfNode):
        return not is_met(machine, node.condition, state, place)
    if isinstance(node, ast.UnlessNode):
        return is_met(machine, node.condition, state, place)
    return False


async def _run_branches(
    machine: Machine,
    branches: Sequence[_ParallelBranch],
    place: Place,
    token: BlockToken,
    *,
    fail_fast: bool,
) -> None:
    """Run the branches until all have ended. After a failure, with *fail_fast*, a branch that is in
    a step finishes that step; the others stop where they wait."""
    for branch in branches:
        coroutine = run_sequence(machine, (branch.plan,), branch.state, place)
        branch.task = asyncio.get_running_loop().create_task(coroutine)
    by_task = {branch.task: branch for branch in branches}
    pending: set[Any] = set(by_task)
    try:
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                _note_end(by_task[task])
            if fail_fast and not token.is_stopped and _has_failed(by_task[task] for task in done):
                token.is_stopped = True
                for task in pending - machine.busy:
                    task.cancel()
    except BaseException:
        for task in pending:
            task.cancel()
        if pending and not machine.program.closing:
            await asyncio.wait(pending)
        raise


def _has_failed(branches: Any) -> bool:
    return any(branch.error is not None or branch.state.failures for branch in branches)


def _note_end(branch: _ParallelBranch) -> None:
    """Note how a branch has ended. Raises any other error than a failure of the text."""
    assert branch.task is not None
    if branch.task.cancelled():
        branch.error = BranchStopped()
        return
    error = branch.task.exception()
    if error is not None and not isinstance(error, Stopped | BranchStopped):
        raise error
    branch.error = error


def _too_few(
    machine: Machine, plan: PlanNode, failed: Sequence[_ParallelBranch], succeeded: int, needed: int
) -> ParallelFailed:
    names = [branch.plan.key or ast.kind_of(branch.plan.node) for branch in failed]
    errors = [
        str(branch.error.error if isinstance(branch.error, Stopped) else branch.state.failures[0])
        for branch in failed
        if isinstance(branch.error, Stopped) or branch.state.failures
    ]
    return ParallelFailed(
        where=machine.where(plan.line),
        succeeded=succeeded,
        needed=needed,
        failed=", ".join(names),
        first=errors[0] if errors else "",
    )


async def _run_subflow(machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> None:
    try:
        result = await perform_subflow(machine, plan, state, place)
    except StepFault as fault:
        await take_failure(machine, plan, state, place, fault)
        return
    take_result(machine, plan, state, place, result)


WALKS: dict[type, Walk] = {
    ast.CallNode: run_call,
    ast.CallWorkflowNode: _run_subflow,
    ast.ScriptNode: run_script_node,
    ast.IfNode: _run_if,
    ast.UnlessNode: _run_unless,
    ast.WhileNode: _run_while,
    ast.DoWhileNode: _run_do_while,
    ast.DoNode: _run_do,
    ast.ParallelNode: _run_parallel,
    ast.GateNode: run_gate,
    ast.QualityGateNode: run_quality_gate,
    ast.AlwaysNode: _run_block,
    ast.ForeachNode: run_foreach,
    ast.SleepNode: run_sleep,
    ast.WaitNode: run_wait,
    ast.EmitNode: run_emit,
}
"""How each kind of node is executed."""
