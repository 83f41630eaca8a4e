"""``@workflow``: a function that becomes a durable run when an engine starts it."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from holdfast.authoring.code import registry
from holdfast.authoring.code.async_program import AsyncProgram
from holdfast.authoring.code.children import call_child
from holdfast.authoring.code.program import CodeProgram, current_program
from holdfast.authoring.code.step import Step, current_step
from holdfast.authoring.code.sync_program import SyncProgram
from holdfast.core.codec import Codec, same
from holdfast.core.options import checked_capabilities
from holdfast.core.records import Run
from holdfast.core.signature import Signature
from holdfast.errors import BadOption

P = ParamSpec("P")
R = TypeVar("R")


class Workflow(Generic[P, R]):
    """A workflow definition. Called by another workflow it is a child run; called elsewhere it is just a function."""

    def __init__(
        self, fn: Callable[P, R], *, name: str, version: str, lane: str, capabilities: tuple[str, ...],
        serves: frozenset[str] | None, stop_undoing: bool,
    ) -> None:  # fmt: skip
        self.fn, self.name, self.version, self.lane = fn, name, version, lane
        self.capabilities, self.serves, self.stop_undoing = capabilities, serves, stop_undoing
        self.is_async = inspect.iscoroutinefunction(fn)
        self.blocking = not self.is_async
        self.origin: Callable[..., Any] = fn
        """The function that was decorated."""
        self.signature = Signature(fn)
        self.schedules: list[tuple[str, dict[str, Any]]] = []
        """What ``@schedule`` says about it: names and options."""
        self._reachable: frozenset[str] | None = None
        functools.update_wrapper(self, fn)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._called(self.fn, args, kwargs)

    def _called(self, fn: Callable[..., R], args: Any, kwargs: Any) -> R:
        program = current_program.get()
        if program is None or current_step.get() is not None:
            return fn(*args, **kwargs)
        return cast(R, call_child(program, self, args, kwargs))

    def program(self, run: Run, codec: Codec) -> CodeProgram:
        """Return this workflow at work in *run*, not yet begun."""
        args, kwargs = self.signature.decode_args(codec, run.input)
        if self.is_async:

            async def call() -> bytes:
                return self._encoded(codec, await cast(Any, self.fn(*args, **kwargs)))

            return AsyncProgram(run, codec, self.reachable, call, stop_undoing=self.stop_undoing)
        return SyncProgram(
            run, codec, self.reachable, lambda: self._encoded(codec, self.fn(*args, **kwargs)), stop_undoing=self.stop_undoing
        )

    def _encoded(self, codec: Codec, value: Any) -> bytes:
        """Return the result as it is stored. Raises NotEncodable, WrongType."""
        data = codec.encode(value, what=f"the result of {self.name}()")
        if not same(value, self.signature.return_type):
            self.signature.decode_result(codec, data)
        return data

    def reachable(self) -> frozenset[str]:
        """Return the names of the steps that the code of this workflow can come to, as far as can be seen."""
        if self._reachable is None:
            names: set[str] = set()
            _explore(self.fn, names, set())
            self._reachable = frozenset(names)
        return self._reachable

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"


def _explore(fn: Callable[..., Any], names: set[str], seen: set[int]) -> None:
    """Collect the steps that a function names, and those that the functions it names name."""
    code = getattr(fn, "__code__", None)
    if code is None or id(code) in seen:
        return
    seen.add(id(code))
    around = dict(getattr(fn, "__globals__", {}))
    cells = zip(code.co_freevars, getattr(fn, "__closure__", None) or (), strict=False)
    around |= {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
    for name in _names(code):
        found = around.get(name)
        if isinstance(found, Step):
            names.update({found.name, found.identity or found.name, f"undo {found.name}"})
        elif isinstance(found, types.FunctionType) and found.__module__ == fn.__module__:
            _explore(found, names, seen)
            names.update({found.__name__, f"undo {found.__name__}"})
        elif isinstance(found, types.ModuleType):
            names.update(step.name for step in vars(found).values() if isinstance(step, Step))
    names.update(_strings(code))


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _names(code: types.CodeType) -> set[str]:
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return {*code.co_names, *code.co_freevars}.union(*(_names(const) for const in inner))


def _strings(code: types.CodeType) -> set[str]:
    """Names of steps may stand in the code as text, where they are given by ``options(id=...)``."""
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return {const for const in code.co_consts if isinstance(const, str)}.union(*(_strings(const) for const in inner))


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
) -> Callable[[Callable[P, R]], Workflow[P, R]]: ...
def workflow(
    fn: Any = None, /, *, name: str | None = None, version: str | int = "1", serves: Iterable[str | int] | None = None,
    lane: str = "default", capabilities: Iterable[str] = (), stop_undoing_on_failure: bool = False,
) -> Any:  # fmt: skip
    """Make a function a workflow. By default it also goes on with runs that other versions of it have started; with
    ``serves`` only with those of the versions named."""

    def decorate(fn: Callable[..., Any]) -> Workflow[..., Any]:
        if not callable(fn) or isinstance(fn, Step):
            raise BadOption(option="workflow", value=fn, why="it decorates a function")
        made: Workflow[..., Any] = Workflow(
            fn,
            name=name or fn.__name__,
            version=str(version),
            lane=lane,
            capabilities=checked_capabilities(capabilities),
            serves=None if serves is None else frozenset({str(version), *(str(one) for one in serves)}),
            stop_undoing=stop_undoing_on_failure,
        )
        registry.register(made)
        return made

    return decorate if fn is None else decorate(fn)
