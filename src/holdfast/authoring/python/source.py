"""Python functions as the source of replayed code: which recorded outcomes they can still request.

The search in ``reachability`` finds the names that the code can still call; this module knows which
name leads to which outcome.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from types import FrameType

from holdfast.core.event_table import STEP_ENDS
from holdfast.core.events import Event, EventKind

_CHILDREN = frozenset({EventKind.CHILD_STARTED, EventKind.CHILD_ENDED})
_VERBS = {
    EventKind.GATE_CLOSED: "gate",
    EventKind.SIGNAL_RECEIVED: "wait_signal",
    EventKind.SIGNAL_TIMED_OUT: "wait_signal",
    EventKind.WAIT_CREATED: "create_wait",
    EventKind.WAIT_RELEASED: "wait_for",
    EventKind.WAIT_SATISFIED: "wait_for",
    EventKind.WAIT_TIMED_OUT: "wait_for",
}
"""The public function that the code calls to get an outcome of each kind."""
_NUMBER = re.compile(r"#[0-9]+$")


class PythonSource:
    """The source of ``async def`` and ``def`` workflows."""

    __slots__ = ()

    def find_unreachable(
        self, frames: Iterable[FrameType], outcomes: Sequence[Event]
    ) -> Event | None:
        """Return the first of *outcomes* that the code waiting in *frames* can no longer request;
        None if there is none, or if that cannot be known."""
        from holdfast.authoring.python.reachability import (
            names_ahead,  # on use: it is seldom needed
        )

        names = names_ahead(frames)
        if names is None:
            return None
        return next((event for event in outcomes if not is_ahead(event, names)), None)

    def place_of(self, step: str) -> str | None:
        """Return None: the frame of the code is the place."""
        return None


PYTHON = PythonSource()


def is_ahead(outcome: Event, names: Collection[str]) -> bool:
    """Return whether code that can call *names* can request the outcome, judging by names only."""
    identity = _NUMBER.sub("", outcome.step or "")
    if outcome.kind in STEP_ENDS:
        return any(name in names for name in _suffixes(identity))
    if outcome.kind in _CHILDREN:
        started = identity.removesuffix(" end").rpartition("run ")[2]
        other_way = ".result" if outcome.kind == EventKind.CHILD_ENDED else "start"
        return started in names or other_way in names
    if outcome.kind == EventKind.MAP_ENDED:
        return identity.rpartition("map ")[2] in names
    if outcome.kind == EventKind.TIMER_FIRED:
        return branchless(identity) != "sleep" or "sleep" in names
    verb = _VERBS.get(outcome.kind)
    return verb is None or verb in names


def _suffixes(identity: str) -> Iterator[str]:
    """Yield the names that an identity may end with.

    There are several because a name may contain slashes, which also separate branches.
    """
    while identity:
        yield identity
        identity = identity.partition("/")[2]


def branchless(identity: str) -> str:
    """Return an identity without the path of its branches."""
    return identity.rpartition("/")[2]
