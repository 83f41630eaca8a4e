"""A command together with the decoder of its outcome, shared by ``async def`` and ``def`` code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from holdfast.authoring.replay.sync_program import SyncProgram
from holdfast.core.commands import Command
from holdfast.core.events import Event


class Call(NamedTuple):
    """A command together with the decoder of its outcome.

    *decode* returns the value that the workflow code gets, or raises its error.
    """

    command: Command
    decode: Callable[[Event], Any]


def resolve(program: SyncProgram, call: Call) -> Any:
    """Block the calling workflow thread until the outcome arrives, and return its decoded value."""
    return call.decode(program.call(call.command))
