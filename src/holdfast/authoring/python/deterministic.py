"""What a workflow can ask for, once for both colours: a command, and what its outcome means to the
code."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from holdfast.authoring.python.step import Step, current_step, run_step
from holdfast.authoring.replay.replay import Compensation, ReplayProgram, current_program
from holdfast.core.retry import RetryPolicy
from holdfast.core.validation import checked_name
from holdfast.errors import BadOption, NotInWorkflow


def program_here(call: str) -> ReplayProgram:
    """Return the program that is being run. Raises NotInWorkflow."""
    found = current_program.get()
    if found is None or current_step.get() is not None:
        raise NotInWorkflow(call=call)
    return found


# Telling others


# What needs no outcome


def compensate(undo: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
    """Should this run fail or be cancelled, call *undo* then: in reverse order, durably, each
    once."""
    program = program_here("compensate")
    if not callable(undo):
        raise BadOption(option="undo", value=undo, why="it must be a step or a function")
    fn, settings = (undo.fn, undo) if isinstance(undo, Step) else (undo, _UNDO)
    name = undo.name if isinstance(undo, Step) else getattr(undo, "__name__", "undo")
    identity = program.identify(f"undo {name}")
    program.undos.append(
        Compensation(
            identity, lambda identity: run_step(fn, identity, name, args, kwargs, settings)
        )
    )


class _Settings(NamedTuple):
    policy: RetryPolicy
    timeout: int | None
    transactional: bool


LARGEST_VERSION = 2**62

_UNDO = _Settings(RetryPolicy(retries=5), None, False)
"""A plain function that undoes is tried harder than one that does."""


def now() -> datetime:
    """Return the time of the run: the same in every replay. Outside a workflow, the time."""
    program = current_program.get()
    if program is None or current_step.get() is not None:
        return datetime.now(UTC)
    return datetime.fromtimestamp(program.time() / 1_000_000, UTC)


def random() -> float:
    """Return a number from 0 up to 1 that is the same in every replay."""
    return int.from_bytes(program_here("random").dice("random")[:7], "big") / 2**56


def uuid() -> Any:
    """Return a UUID that is the same in every replay."""
    return program_here("uuid").uuid()


def patched(name: str) -> bool:
    """Say whether this run takes the new way: true for all but those that are past this point
    already."""
    return bool(program_here("patched").mark(f"patch {checked_name('name', name)}", True, False))


def version(name: str, current: int, *, oldest: int = 0) -> int:
    """Return the version of a piece of code that this run follows: *current*, or what it was when
    the run came by."""
    program = program_here("version")
    checked_name("name", name)
    for option, number in (("current", current), ("oldest", oldest)):
        if isinstance(number, bool) or not isinstance(number, int) or abs(number) > LARGEST_VERSION:
            raise BadOption(option=option, value=number, why="it is a whole number")
    found = int(program.mark(f"version {name}", current, oldest))
    if not oldest <= found <= current:
        raise BadOption(option="version", name=name, recorded=found, known=f"{oldest} to {current}")
    return found


def listed(items: Iterable[Any]) -> list[Any]:
    """Return the items of a map; refuse what is none."""
    try:
        return list(items)
    except TypeError:
        raise BadOption(
            option="items", value=type(items).__name__, why="it must be a list, or the like"
        ) from None
