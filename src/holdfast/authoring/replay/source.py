"""What the replay machinery asks about the source of the code that it replays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import FrameType
from typing import Protocol

from holdfast.core.events import Event


class CodeSource(Protocol):
    """The source of replayed code: Python functions, or a text that a coroutine interprets."""

    def find_unreachable(
        self, frames: Iterable[FrameType], outcomes: Sequence[Event]
    ) -> Event | None:
        """Return the first of *outcomes* that the code waiting in *frames* can no longer request;
        None if there is none, or if that cannot be known."""

    def place_of(self, step: str) -> str | None:
        """Return the place in the source that issues the command *step*; None if its frame is the
        place."""
