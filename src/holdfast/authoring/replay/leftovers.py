"""Recorded outcomes that the code of a workflow has not asked for.

Replaying the code that recorded a history leaves none: each outcome is asked for before its turn,
or was dropped by the code itself. Changed code may leave some for a while, because a step that was
added before a recorded one runs first. The code has diverged once an outcome that it must ask for
can no longer be asked for:

- the workflow ends, however it ends;
- it begins to compensate, while the outcome does not belong to a compensation;
- it asks for something new after it has passed the place of the outcome: its branch has asked for
  something that was recorded as requested after that outcome;
- it asks for something new, and no live code leads to the step, the child or the verb of the
  outcome any more.

An outcome need not be asked for if it was recorded after an event that a later replay declared
void: the code may have got there only because of the failure that the replay repeats.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from holdfast.core.commands import RunStep
from holdfast.core.event_table import ANSWERS, REQUESTS
from holdfast.core.events import Event, EventKind

UNDO = "undo "
STEPS = ANSWERS[RunStep]

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
"""What the code calls to get such an outcome."""
_NUMBER = re.compile(r"#[0-9]+$")


class _Replayed(msgspec.Struct):
    void: list[int] = []
    since: int | None = None


class Leftovers:
    """The outcomes of one history that the code has not asked for yet."""

    def __init__(self, history: Sequence[Event]) -> None:
        self._history: Sequence[Event] = history
        self.events: dict[str, Event] = {}
        """By step. The engine looks at each turn of a run whether there are any."""
        self._asked: set[str] = set()
        self._optional: list[range] = _repeated(history)

    def keep(self, event: Event) -> None:
        """Keep an outcome until the code asks for it."""
        self.events[event.step or ""] = event

    def take(self, step: str) -> Event | None:
        """Return the outcome of *step*, once."""
        return self.events.pop(step, None)

    def has(self, step: str) -> bool:
        return step in self.events

    def note_asked(self, step: str) -> None:
        """The code has asked for something that the history knows."""
        self._asked.add(step)

    def required(self) -> list[Event]:
        """Return the outcomes that the code must still ask for, in the order of the history."""
        return [
            event
            for event in self.events.values()
            if not any(event.seq in seqs for seqs in self._optional)
        ]

    def is_passed(self, outcome: Event) -> bool:
        """Return whether the branch of *outcome* has asked for something that was requested after
        it."""
        branch = branch_of(outcome.step or "")
        return any(
            event.step in self._asked
            and branch_of(event.step or "") == branch
            and _requested_after(event, outcome)
            for event in self._history
        )


def _requested_after(event: Event, outcome: Event) -> bool:
    if event.kind in REQUESTS:
        return event.seq > outcome.seq
    if event.kind in STEPS and event.attempt == 1 and event.started_at is not None:
        return event.started_at > outcome.at
    return False


def _repeated(history: Iterable[Event]) -> list[range]:
    """Return the parts of the history in which a replay has repeated something."""
    found: list[range] = []
    for event in history:
        if event.kind == EventKind.RUN_REPLAYED:
            replayed = msgspec.json.decode(event.data or b"{}", type=_Replayed)
            since = (
                min(replayed.void, default=event.seq) if replayed.since is None else replayed.since
            )
            found.append(range(since, event.seq))
    return found


def branch_of(step: str) -> str:
    """Return the path of branches in which a step was called."""
    return step.rpartition("/")[0]


def is_ahead(outcome: Event, names: Collection[str]) -> bool:
    """Return whether code that can call *names* can ask for the outcome, as far as names tell."""
    identity = _NUMBER.sub("", outcome.step or "")
    if outcome.kind in STEPS:
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
    """Yield the names that an identity may end with: a name may have slashes, as the path of
    branches has."""
    while identity:
        yield identity
        identity = identity.partition("/")[2]


def branchless(identity: str) -> str:
    """Return an identity without the path of its branches."""
    return identity.rpartition("/")[2]


def is_undo(step: str) -> bool:
    """Return whether an identity is that of a compensation."""
    return step.rpartition("/")[2].startswith(UNDO)
