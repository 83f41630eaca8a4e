"""Functions for workflow code that need no outcome: deterministic values, versioning, compensation.

They are the same for ``async def`` and ``def`` workflows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from holdfast.authoring.python.step import Step, encode_args, run_step
from holdfast.authoring.replay.replay import (
    Compensation,
    ReplayProgram,
    current_program,
    replayable_uuid,
)
from holdfast.core.commands import RunStep
from holdfast.core.events import compensation_of
from holdfast.core.retry import RetryPolicy
from holdfast.core.step_info import current_step
from holdfast.core.validation import checked_name
from holdfast.errors import BadOption, NotInWorkflow


def program_here(call: str) -> ReplayProgram:
    """Return the program whose workflow code calls this. Raises NotInWorkflow."""
    program = current_program.get()
    if program is None or current_step.get() is not None:
        raise NotInWorkflow(call=call)
    return program


def compensate(undo: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
    """Register *undo* as a compensation: it is called if this run fails or is cancelled.

    Compensations run as steps, durably and each once, the last registered one first.
    """
    program = program_here("compensate")
    if not callable(undo):
        raise BadOption(option="undo", value=undo, why="give a step or a function")
    if isinstance(undo, Step):
        fn = undo.fn
        name = undo.name
        settings: Any = undo
    else:
        fn = undo
        name = getattr(undo, "__name__", "undo")
        settings = _COMPENSATION
    identity = program.identify(f"undo {name}")
    role = compensation_of(program.last_completed)
    program.compensations.append(
        Compensation(
            identity,
            lambda identity: _compensation_step(
                program,
                run_step(fn, identity, name, args, kwargs, settings, role),
                args,
                kwargs,
                settings,
            ),
        )
    )


def _compensation_step(
    program: ReplayProgram, command: RunStep, args: Any, kwargs: Any, settings: Any
) -> RunStep:
    """Return the command of a compensation, which keeps its arguments as other steps do."""
    if settings.keep_args or (settings.keep_args is None and program.context.keeps_args):
        command.kept_args = partial(encode_args, program.codec, args, kwargs)
    return command


class _Settings(NamedTuple):
    policy: RetryPolicy
    timeout: int | None
    transactional: bool
    keep_args: bool | None = None


LARGEST_VERSION = 2**62

_COMPENSATION = _Settings(RetryPolicy(retries=5), None, False)
"""The settings of a compensation that is a plain function: more retries than a step has by
default."""


def now() -> datetime:
    """Return the time of the run in UTC, the same in every replay.

    Outside workflow code it is the time of this machine.
    """
    program = current_program.get()
    if program is None or current_step.get() is not None:
        return datetime.now(UTC)
    return datetime.fromtimestamp(program.time() / 1_000_000, UTC)


def random() -> float:
    """Return a number from 0 up to, but not including, 1: the same in every replay."""
    return int.from_bytes(program_here("random").replayable_bytes("random")[:7], "big") / 2**56


def uuid() -> Any:
    """Return a UUID that is the same in every replay."""
    return replayable_uuid(program_here("uuid"))


def patched(name: str) -> bool:
    """Return whether this run takes the new code path.

    It is false only for runs that had passed this point before the patch was deployed.
    """
    program = program_here("patched")
    patch_name = checked_name("name", name)
    return bool(program.record_decision(f"patch {patch_name}", True, False))


def version(name: str, current: int, *, oldest: int = 0) -> int:
    """Return the version of a piece of code that this run follows.

    It is *current* when the run first comes here, and the recorded version from then on; a run that
    is past this point gets *oldest*. Raises BadOption if the code no longer has that version.
    """
    program = program_here("version")
    checked_name("name", name)
    for option, number in (("current", current), ("oldest", oldest)):
        if isinstance(number, bool) or not isinstance(number, int) or abs(number) > LARGEST_VERSION:
            raise BadOption(option=option, value=number, why="a version must be a whole number")
    recorded = int(program.record_decision(f"version {name}", current, oldest))
    if not oldest <= recorded <= current:
        raise BadOption(
            option="version", name=name, recorded=recorded, known=f"{oldest} to {current}"
        )
    return recorded


def list_items(items: Iterable[Any]) -> list[Any]:
    """Return the items of a map as a list. Raises BadOption if they are not iterable."""
    try:
        return list(items)
    except TypeError:
        raise BadOption(
            option="items", value=type(items).__name__, why="give a list or another iterable"
        ) from None
