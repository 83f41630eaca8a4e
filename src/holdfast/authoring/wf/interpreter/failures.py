"""How failures of a text travel: what stops a sequence, and what a recorded failure says."""

from __future__ import annotations

from typing import Any

from holdfast.authoring.wf.interpreter.machine import Machine, error_of
from holdfast.authoring.wf.interpreter.state import FlowState
from holdfast.core.events import Event
from holdfast.core.runs import ErrorInfo
from holdfast.errors import ChildFailed, StepFailed


class Stopped(Exception):
    """The sequence stops: *error* is the error of the run."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error: Exception = error


class BranchStopped(Exception):
    """A branch stops because another branch of its block has failed."""


class StepFault(Exception):
    """A step has failed: its error, and the number of its attempts."""

    def __init__(
        self, info: ErrorInfo, error: Exception, attempts: int, *, is_final: bool = False
    ) -> None:
        super().__init__(info.message)
        self.info: ErrorInfo = info
        self.error: Exception = error
        """The error of the run, if the text does not tolerate the failure."""
        self.attempts: int = attempts
        self.is_final: bool = is_final
        """Whether no option of the text applies: the step was cancelled, not failed."""

    @property
    def reason(self) -> str:
        """The message of the failure."""
        return self.info.message or self.info.type


def step_fault(event: Event) -> StepFault:
    """Return the failure that the outcome of a step records."""
    info = error_of(event)
    details: dict[str, Any] = {"details": info.facts} if info.facts else {}
    if info.cause is not None:
        details["cause"] = info.cause
    error = StepFailed(
        step=event.step, type=info.type, message=info.message, attempts=event.attempt, **details
    )
    error.traceback = info.traceback
    return StepFault(info, error, event.attempt)


def child_fault(event: Event, workflow: str, run_id: str, attempts: int) -> StepFault:
    """Return the failure that the end of a child run records."""
    info = error_of(event)
    context: dict[str, Any] = {
        name: info.facts[name] for name in ("step", "origin") if name in info.facts
    }
    error = ChildFailed(
        workflow=workflow, run=run_id, type=info.type, message=info.message, **context
    )
    error.traceback = info.traceback
    is_final = info.type in ("cancelled", "RunCancelled")
    return StepFault(info, error, attempts, is_final=is_final)


def fail(machine: Machine, state: FlowState, error: Exception) -> None:
    """Stop the sequence with an error; note it if the run keeps going. Raises Stopped."""
    if not machine.arguments.keep_going:
        raise Stopped(error)
    state.failures.append(error)
