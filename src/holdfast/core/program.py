"""The seam between authoring and engine: history in, commands out.

A program is a definition at work in one run. It is begun with the history, then fed one outcome
after another, and each time answers with the commands that are new. A command has a stable
identity: the same one in every replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from holdfast.core.commands import Command
from holdfast.core.events import Event
from holdfast.core.runs import RunRecord
from holdfast.core.streams.model import OutputSink

Report = Callable[[str, Any, Exception | None, int, Any], None]
"""How a program tells the engine, from any thread, what its own attempt at a step came to: step,
value, error, start time, and the purse that it had."""


class Program(Protocol):
    """What code, text and model definitions all turn into."""

    speculative: bool
    asked_time: bool
    """Whether the code has asked for the time since this was last said to be false."""
    report: Report | None
    sink: OutputSink | None
    clock: Callable[[], int]
    """The time of the store, for what the program does by itself."""
    purse: Callable[[str, str | None], Any] | None
    """Gives the purse for an attempt that the program makes by itself: of which step, and what was
    set aside for it."""
    held_up: bool
    """Whether the program may begin no attempt by itself for now, because a budget is spent."""
    is_sure: Callable[[], bool]
    """Returns whether no other worker can hold the run by now. If one can, the program begins no
    attempt by itself: the engine asks the store first. Any thread may call it."""
    steps: int
    """How many ends of steps the program was given. The last event of a completed run says it, so
    that a step that is not in the history can be found."""
    token: Callable[[str, str], str]
    """Returns the token of a wait that was handed out, by its id and the name of the key."""
    life_of: Callable[[str], int]
    """Returns the life of a step, for its idempotency key."""
    epoch: int
    """How often the run has begun again without any of its work: random numbers differ then."""

    async def begin(self, history: Sequence[Event]) -> list[Command]:
        """Replay *history* and return what is wanted now. Raises Diverged before anything new is
        wanted."""

    async def feed(self, events: Sequence[Event]) -> list[Command]:
        """Take the outcomes, in order, and return what is newly wanted."""

    def close(self) -> None:
        """Leave memory. Nothing is recorded; the run can begin again elsewhere."""


class Definition(Protocol):
    """A workflow as the engine knows it."""

    name: str
    version: str
    lane: str
    capabilities: tuple[str, ...]
    serves: frozenset[str] | None
    blocking: bool

    def program(self, run: RunRecord, codec: Any) -> Program:
        """Return a program for *run*, not yet begun."""
