"""``@workflow``: the definition of a durable run as a Python function."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from holdfast.authoring import registry
from holdfast.authoring.python.children import call_child
from holdfast.authoring.python.source import PYTHON
from holdfast.authoring.python.step import Step
from holdfast.authoring.registry import DefinitionSource
from holdfast.authoring.replay.async_program import AsyncProgram
from holdfast.authoring.replay.replay import ReplayProgram, current_program
from holdfast.authoring.replay.sync_program import SyncProgram
from holdfast.core.codec import Codec, same
from holdfast.core.duration import Duration
from holdfast.core.events import Event
from holdfast.core.program import ProgramContext, StepRecord, recorded_steps
from holdfast.core.runs import RunRecord
from holdfast.core.signature import Signature
from holdfast.core.step_info import current_step
from holdfast.core.validation import (
    checked_capabilities,
    checked_flag,
    checked_text,
    checked_versions,
)
from holdfast.errors import BadOption

if TYPE_CHECKING:
    from holdfast.core.schedules.model import ScheduleDeclaration

P = ParamSpec("P")
R = TypeVar("R", covariant=True)


class Workflow(Generic[P, R]):
    """A workflow definition.

    A call by another workflow starts a child run; any other call is a plain function call.
    """

    kind = "python"
    writes_checkpoints = False

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        name: str,
        version: str,
        lane: str,
        capabilities: tuple[str, ...],
        serves: frozenset[str] | None,
        stop_undoing: bool,
        tool: bool | str = False,
    ) -> None:
        self.fn: Callable[P, R] = fn
        self.name: str = name
        self.version: str = version
        self.lane: str = lane
        self.capabilities: tuple[str, ...] = capabilities
        self.accepts_versions: frozenset[str] | None = serves
        self.stop_undoing: bool = stop_undoing
        self.tool: bool | str = tool
        """Whether agents may call it as a tool over MCP: "task" only as a task, "call" never as a
        task."""
        self.is_async: bool = inspect.iscoroutinefunction(fn)
        self.needs_thread: bool = not self.is_async
        self.signature: Signature = Signature(fn)
        self.schedules: list[ScheduleDeclaration] = []
        """The schedules that ``@schedule`` has added."""
        self.workflow: Workflow[P, R] = self
        """The workflow without start options."""
        self.start_options: dict[str, Any] | None = None
        """The options that ``options`` has set apart from the arguments; None without it."""
        functools.update_wrapper(self, fn)

    def options(
        self,
        *,
        id: str | None = None,
        key: str | None = None,
        lane: str | None = None,
        priority: int | None = None,
        delay: Duration | datetime | None = None,
        deadline: Duration | datetime | None = None,
        tags: Mapping[str, str] | None = None,
        capabilities: Iterable[str] | None = None,
        namespace: str | None = None,
        version: str | int | None = None,
        policy: Any = None,
        budget: Any = None,
        share: str | None = None,
        debounce: Duration | None = None,
        max_wait: Duration | None = None,
        batch: int | None = None,
        within: Duration | None = None,
        on_parent_end: str | None = None,
    ) -> Workflow[P, R]:
        """Return the same workflow with options of its start, apart from its arguments.

        ``engine.start(w.options(id="x"), id=3)`` starts run ``x`` with the argument ``id=3``. In a
        workflow, ``w.options(lane="slow")(order)`` calls a child with these options.
        *on_parent_end* is for children only; *key*, *namespace*, *version*, *policy*, *debounce*,
        *max_wait*, *batch* and *within* are for ``engine.start`` only."""
        named = dict(locals())
        named.pop("self")
        other = copy.copy(self)
        other.start_options = {name: value for name, value in named.items() if value is not None}
        return other

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._call(self.fn, args, kwargs)

    def _call(self, fn: Callable[..., R], args: Any, kwargs: Any) -> R:
        program = current_program.get()
        if program is None or current_step.get() is not None:
            return fn(*args, **kwargs)
        return cast(R, call_child(program, self.workflow, args, kwargs, self.start_options or {}))

    def program(self, run: RunRecord, context: ProgramContext) -> ReplayProgram:
        """Return a program for *run*, not yet begun. Raises WrongType or BadData if the function
        cannot take the recorded input."""
        codec = context.codec
        args, kwargs = self.signature.decode_args(codec, run.input)
        if self.is_async:

            async def call() -> bytes:
                return self._encode_result(codec, await cast(Any, self.fn(*args, **kwargs)))

            return AsyncProgram(run, context, PYTHON, call, stop_undoing=self.stop_undoing)
        return SyncProgram(
            run,
            context,
            PYTHON,
            lambda: self._encode_result(codec, self.fn(*args, **kwargs)),
            stop_undoing=self.stop_undoing,
        )

    def steps(self, run: RunRecord, history: Sequence[Event]) -> list[StepRecord]:
        """Return the steps of a run, under their identities; none of the events is void."""
        return recorded_steps(history)

    def _encode_result(self, codec: Codec, value: Any) -> bytes:
        """Return the result as it is stored. Raises NotEncodable, WrongType."""
        data = codec.encode(value, label=f"the result of {self.name}()")
        if not same(value, self.signature.return_type):
            self.signature.decode_result(codec, data)
        return data

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"


def source_of(fn: Callable[..., Any]) -> DefinitionSource:
    """Return the place that defines a function."""
    code = getattr(fn, "__code__", None)
    if code is None:
        return DefinitionSource(fn.__module__, 0, fn.__qualname__, fn.__module__)
    return DefinitionSource(
        code.co_filename, code.co_firstlineno, fn.__qualname__, fn.__module__ or ""
    )


@overload
def workflow(fn: Callable[P, R], /) -> Workflow[P, R]: ...
@overload
def workflow(
    *,
    name: str | None = None,
    version: str | int = "1",
    serves: Iterable[str | int] | None = None,
    lane: str = "default",
    capabilities: Iterable[str] = (),
    stop_undoing_on_failure: bool = False,
    tool: bool | str = False,
) -> Callable[[Callable[P, R]], Workflow[P, R]]: ...
def workflow(
    fn: Any = None,
    /,
    *,
    name: str | None = None,
    version: str | int = "1",
    serves: Iterable[str | int] | None = None,
    lane: str = "default",
    capabilities: Iterable[str] = (),
    stop_undoing_on_failure: bool = False,
    tool: bool | str = False,
) -> Any:
    """Make a function a workflow.

    By default it also continues runs that other versions of it have started; with ``serves``, only
    runs of the versions named there. With ``tool``, agents may call it over MCP. A client that can
    wait for a task gets one, any other client the result; with "task", only the former may call it,
    and with "call", each gets the result."""

    def decorate(fn: Callable[..., Any]) -> Workflow[..., Any]:
        if not callable(fn) or isinstance(fn, Step):
            raise BadOption(option="workflow", value=fn, why="@workflow decorates a plain function")
        if tool not in (True, False, "task", "call"):
            raise BadOption(option="tool", value=tool, known="True, False, task, call")
        own_version, served_versions = checked_versions(version, serves)
        definition: Workflow[..., Any] = Workflow(
            fn,
            name=checked_text("name", name) or fn.__name__,
            version=own_version,
            lane=checked_text("lane", lane) or "default",
            capabilities=checked_capabilities(capabilities),
            serves=served_versions,
            stop_undoing=checked_flag("stop_undoing_on_failure", stop_undoing_on_failure),
            tool=tool,
        )
        registry.register(definition, source_of(fn))
        return definition

    if fn is None:
        return decorate
    return decorate(fn)
