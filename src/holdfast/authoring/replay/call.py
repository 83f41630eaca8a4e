"""A command together with what its outcome means to the code that asked: one for both colours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.authoring.replay.sync_program import SyncProgram
from holdfast.core.commands import Command
from holdfast.core.events import Event


class Call(NamedTuple):
    """A command and what to make of its outcome."""

    command: Command
    understand: Callable[[Event], Any]


def resolve(program: SyncProgram, wish: Call) -> Any:
    """Ask, in a thread of the workflow, and return what the outcome means."""
    return wish.understand(program.ask(wish.command))
