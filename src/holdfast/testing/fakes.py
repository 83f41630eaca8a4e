"""Fakes of steps: another function in place of the function of a step, for the time of a test.

The call of a faked step is recorded, retried and limited like any other; only its work is replaced.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from holdfast.authoring.python.step import Step
from holdfast.authoring.python.task import Task
from holdfast.errors import BadOption


class StepFake:
    """The replacement of one step, with the arguments of each attempt at it."""

    def __init__(self, step: Step[..., Any], work: Callable[..., Any]) -> None:
        self._step: Step[..., Any] = step
        self._original: Callable[..., Any] = step.fn
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        """The positional and the keyword arguments of each attempt, in order."""
        step.fn = self._recording(work)

    def _recording(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of the colour of the step that notes its arguments and calls *work*."""

        def note_and_call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append((args, kwargs))
            return work(*args, **kwargs)

        if not self._step.is_async:
            return note_and_call

        async def note_and_await(*args: Any, **kwargs: Any) -> Any:
            value = note_and_call(*args, **kwargs)
            return await value if inspect.isawaitable(value) else value

        return note_and_await

    def restore(self) -> None:
        """Let the step do its own work again."""
        self._step.fn = self._original


def fake_step(
    step: Any, work: Callable[..., Any] | None, returns: Any, raises: BaseException | None
) -> StepFake:
    """Replace the function of a step or task. Raises BadOption."""
    target = step.step if isinstance(step, Task) else step
    if not isinstance(target, Step):
        why = "pass a function that is decorated with @step or @task"
        raise BadOption(option="step", value=getattr(step, "__name__", repr(step)), why=why)
    if work is not None and (returns is not None or raises is not None):
        raise BadOption(option="fake", step=target.name, why="pass a function, or what it returns")
    if inspect.iscoroutinefunction(work) and not target.is_async:
        why = "the step is a plain function: pass a plain function in its place"
        raise BadOption(option="fake", step=target.name, why=why)

    def answer(*args: Any, **kwargs: Any) -> Any:
        if raises is not None:
            raise raises
        return returns

    return StepFake(target, work or answer)
