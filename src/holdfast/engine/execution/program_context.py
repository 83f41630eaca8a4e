"""The services of an execution for its program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core.budgets.ledger import SpendingSink
from holdfast.core.codec import Codec
from holdfast.core.commands import RunStep
from holdfast.core.program import CodeThreads
from holdfast.core.streams.model import OutputSink
from holdfast.core.trace_context import RunTracing
from holdfast.engine.execution.budget_guard import BudgetGuard
from holdfast.engine.execution.state import RunState
from holdfast.engine.runtime.context import WorkerContext

Report = Callable[[str, Any, Exception | None, int, Any], None]
WaitToken = Callable[[str, str], str]


class ExecutionServices:
    """Implements ``ProgramContext`` for one execution.

    Its functions are attributes, so that a program calls the parts of the execution directly.
    """

    __slots__ = (
        "asked_time",
        "code_threads",
        "codec",
        "epoch",
        "keeps_args",
        "lease_is_certain",
        "may_start_attempts",
        "now",
        "output",
        "report",
        "spending",
        "step_life",
        "tracing",
        "wait_token",
    )

    def __init__(
        self,
        state: RunState,
        worker: WorkerContext,
        budget: BudgetGuard,
        output: OutputSink,
        *,
        report: Report,
        wait_token: WaitToken,
    ) -> None:
        self.codec: Codec = worker.codec
        self.output: OutputSink | None = output
        self.may_start_attempts: bool = budget.breach is None and not state.is_about_to_stop()
        self.asked_time: bool = False
        self.epoch: int = state.lives.epoch
        self.keeps_args: bool = worker.keeps_args
        self.tracing: RunTracing | None = worker.writer.metrics.tracing
        self.code_threads: CodeThreads | None = worker.code_threads
        self.now: Callable[[], int] = state.now
        self.spending: Callable[[RunStep], SpendingSink | None] = budget.new_spending
        self.wait_token: WaitToken = wait_token
        self.lease_is_certain: Callable[[], bool] = worker.session_is_certain
        self.step_life: Callable[[str], int] = state.lives.of
        self.report: Report = report
