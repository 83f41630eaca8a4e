"""``@task``: a step function that is a run by itself.

Any process can start it; any worker that offers the required capabilities can do it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar, cast, overload

from holdfast.authoring import registry
from holdfast.authoring.python.step import Step
from holdfast.authoring.python.workflow import Workflow, source_of
from holdfast.core import duration
from holdfast.core.duration import Duration
from holdfast.core.retry import RetryPolicy, policy_from
from holdfast.core.signature import Signature
from holdfast.core.validation import (
    checked_capabilities,
    checked_flag,
    checked_text,
    checked_versions,
)
from holdfast.errors import BadOption

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Task(Workflow[P, R]):
    """The definition of a run of a single step.

    A call by a workflow starts a child run, which any capable worker may do; any other call is a
    plain function call.
    """

    def __init__(
        self,
        step: Step[P, R],
        *,
        name: str,
        version: str,
        lane: str,
        capabilities: tuple[str, ...],
        serves: frozenset[str] | None,
    ) -> None:
        async def work(*args: Any, **kwargs: Any) -> Any:
            return await step.aio(*args, **kwargs)

        super().__init__(
            cast(Callable[P, R], work),
            name=name,
            version=version,
            lane=lane,
            capabilities=capabilities,
            serves=serves,
            stop_undoing=False,
        )
        self.step: Step[P, R] = step
        self.signature = Signature(step.fn)
        functools.update_wrapper(self, step.fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._call(self.step.fn, args, kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name}>"


@overload
def task(fn: Callable[P, R], /) -> Task[P, R]: ...
@overload
def task(
    *,
    name: str | None = None,
    version: str | int = "1",
    serves: Iterable[str | int] | None = None,
    lane: str = "default",
    capabilities: Iterable[str] = (),
    retries: int | RetryPolicy | None = None,
    delay: Duration = ...,
    factor: float = ...,
    cap: Duration = ...,
    jitter: float = ...,
    when: Callable[[Exception], bool] | None = None,
    timeout: Duration | None = None,
    transactional: bool = False,
    keep_args: bool | None = None,
) -> Callable[[Callable[P, R]], Task[P, R]]: ...
def task(
    fn: Any = None,
    /,
    *,
    name: str | None = None,
    version: str | int = "1",
    serves: Iterable[str | int] | None = None,
    lane: str = "default",
    capabilities: Iterable[str] = (),
    retries: Any = None,
    timeout: Any = None,
    transactional: bool = False,
    keep_args: bool | None = None,
    **policy: Any,
) -> Any:
    """Make a function a task: a step that can be started by itself, and that any worker with the
    capabilities can do."""

    def decorate(fn: Callable[..., Any]) -> Task[..., Any]:
        if not callable(fn) or isinstance(fn, Step | Workflow):
            raise BadOption(option="task", value=fn, why="@task decorates a plain function")
        task_name = checked_text("name", name) or fn.__name__
        own_version, served_versions = checked_versions(version, serves)
        limit = duration.parse_optional(timeout)
        step: Step[..., Any] = Step(
            fn,
            task_name,
            policy_from(retries, **policy),
            limit,
            checked_flag("transactional", transactional),
            keep_args=None if keep_args is None else checked_flag("keep_args", keep_args),
        )
        definition: Task[..., Any] = Task(
            step,
            name=task_name,
            version=own_version,
            lane=checked_text("lane", lane) or "default",
            capabilities=checked_capabilities(capabilities),
            serves=served_versions,
        )
        registry.register(definition, source_of(fn))
        return definition

    if fn is None:
        return decorate
    return decorate(fn)
