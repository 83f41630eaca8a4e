"""The interface between authoring and engine: history in, commands out.

A program is the execution of a definition in one run. The engine begins it with the history and
then feeds it one outcome after another; each time the program returns the new commands. A command
has a stable identity: the same one in every replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from holdfast.core.commands import Command
from holdfast.core.events import Event
from holdfast.core.runs import RunRecord
from holdfast.core.streams.model import OutputSink

Report = Callable[[str, Any, Exception | None, int, Any], None]
"""Report to the engine, from any thread, the outcome of an attempt that the program made itself:
step, value, error, start time, and the spending of the attempt."""


class Program(Protocol):
    """The execution of one run, the same for code, text and model definitions."""

    speculative: bool
    asked_time: bool
    """Whether the code has asked for the time since the engine last set this to false."""
    report: Report | None
    sink: OutputSink | None
    clock: Callable[[], int]
    """Returns the time of the store, in microseconds, for attempts that the program makes
    itself."""
    purse: Callable[[str, str | None], Any] | None
    """Returns the spending of an attempt that the program makes itself, given its step and the
    reservation of the step, if any."""
    held_up: bool
    """Whether the program must not begin an attempt by itself, because a budget is exhausted."""
    is_sure: Callable[[], bool]
    """Returns whether no other worker can hold the run by now. If one can, the program begins no
    attempt by itself: the engine asks the store first. Any thread may call it."""
    steps: int
    """The number of step outcomes that the program has received. The last event of a completed run
    records it, so that a check can detect a step that is missing from the history."""
    token: Callable[[str, str], str]
    """Returns the token of an issued wait, given the id of the wait and the name of the key."""
    life_of: Callable[[str], int]
    """Returns the life of a step, for its idempotency key."""
    epoch: int
    """How often the run has restarted without any of its completed work; part of the seed of random
    numbers, which differ after each restart."""

    async def begin(self, history: Sequence[Event]) -> list[Command]:
        """Replay *history* and return the pending commands. Raises Diverged before it returns any
        new command."""

    async def feed(self, events: Sequence[Event]) -> list[Command]:
        """Process the outcomes in order and return the new commands."""

    def close(self) -> None:
        """Release the memory of the program. Nothing is recorded; the run can continue
        elsewhere."""


class Definition(Protocol):
    """A workflow as the engine sees it."""

    name: str
    version: str
    lane: str
    capabilities: tuple[str, ...]
    serves: frozenset[str] | None
    blocking: bool

    def program(self, run: RunRecord, codec: Any) -> Program:
        """Return a new program for *run*, on which `begin` was not called yet."""
