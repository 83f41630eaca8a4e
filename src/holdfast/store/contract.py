"""What a store promises. Two databases keep these promises; the conformance suite in ``holdfast.testing`` checks them.

All writing goes through ``apply``: a batch of transitions in one transaction, one commit, one answer each. A transition that
is refused changes nothing and harms none of its neighbours. Reads see what was committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.core.records import Child, Dossier, Event, Fanout, Lane, NewRun, Route, Run, Session, Signal
from holdfast.core.status import Status
from holdfast.store.clock import Clock


class StartRuns(msgspec.Struct):
    """Create runs. Answers list[Started], one each. The same id or key with the same input is the same run; with other
    input the whole transition is refused with RunExists."""

    runs: Sequence[NewRun]


class Started(msgspec.Struct):
    """A run that now exists; ``created`` is false when it did before. ``leased`` is true when it was born leased to the session
    that was named: not when it is delayed, when its lane has limits, or when that session was ended."""

    id: str
    created: bool
    leased: bool
    now: int


class Advance(msgspec.Struct, kw_only=True):
    """The holder's write: events, and where the run stands after them. Answers the time of the commit.

    Raises LeaseLost when the generation is not the run's own. When ``revision`` is given and the run has been touched from
    outside since, it answers Changed and writes nothing: look again before parking.
    """

    run_id: str
    generation: int
    events: list[Event] = []
    status: Status | None = None
    revision: int | None = None
    keep: bool = True
    waits: bytes | None = None
    wake_at: int | None = None
    result: bytes | None = None
    error: bytes | None = None
    children: Sequence[NewRun] = ()
    fanouts: Sequence[Fanout] = ()
    taken: Sequence[int] = ()
    body: Callable[[Any], bytes] | None = None
    signals: Sequence[tuple[str, str, bytes, str]] = ()
    cancels: Sequence[tuple[str, str]] = ()
    parent: tuple[str, str, int | None] | None = None
    had_children: bool = False


class Advanced(msgspec.Struct):
    """The write stands. ``now`` is the time of its events, ``data`` what the transactional body returned, ``started`` says of
    each child whether it was created and born leased."""

    now: int
    data: bytes | None = None
    started: list[Started] = []


class Changed(msgspec.Struct):
    """Something reached the run while its holder was parking it; nothing was written."""

    revision: int


class Claim(msgspec.Struct):
    """Make due timers pending, then lease up to ``limit`` ready runs of these routes (id, lane), best rank first, within the
    limits of their lanes. Answers list[Run]; a session that was ended gets none. A run whose worker died twice without any
    progress is leased alone: one such run at a time."""

    session_id: str
    routes: Sequence[tuple[int, str]]
    limit: int


class OpenSession(msgspec.Struct):
    """Register a worker. Answers None."""

    session: Session


class Beat(msgspec.Struct):
    """Prolong a session. Answers False when it was taken over meanwhile."""

    session_id: str
    lifetime: int
    seen_knock: int = 0


class EndSession(msgspec.Struct):
    """Free all that a session held and forget it. ``crashed`` counts against runs that made no progress; past ``limit`` such
    crashes a run is stuck. Answers the ids of the runs that were freed."""

    session_id: str
    crashed: bool
    limit: int = 5


class ExpireRuns(msgspec.Struct):
    """End what has passed its deadline and is not held; answer how many."""

    limit: int = 500


class SignalRun(msgspec.Struct):
    """Leave a signal for a run and wake it if it waits for that name. Answers True, or False when the key came before.
    Raises RunNotFound, RunFinished."""

    run_id: str
    name: str
    payload: bytes
    key: str | None = None


class RequestCancel(msgspec.Struct):
    """Ask a run to stop, and its children with it. One that never started is cancelled at once, and so is any when forced:
    then nothing is undone. Answers the new status. Raises RunNotFound, RunFinished."""

    run_id: str
    reason: str
    force: bool = False


class ResumeRun(msgspec.Struct):
    """Put a stuck run back to work. Answers its status. Raises RunNotFound, IllegalMove."""

    run_id: str


class ReplayRun(msgspec.Struct):
    """Put a finished run back to work, with ``void`` naming the events that no longer count. Raises RunNotFound,
    RunNotFinished."""

    run_id: str
    void: Sequence[int]


class Prune(msgspec.Struct):
    """Delete finished trees of runs that ended before ``before``, looking at ``limit`` roots after the id ``after``.
    Answers Pruned."""

    before: int
    statuses: Sequence[str]
    limit: int = 500
    namespace: str | None = None
    after: str = ""


class Pruned(msgspec.Struct):
    """How many runs went, and where to go on; ``last`` is None at the end."""

    runs: int
    last: str | None


class SetLane(msgspec.Struct):
    """Create a lane or change its limits. Answers None."""

    lane: Lane


class ImportRun(msgspec.Struct):
    """Write a run and its history as they were elsewhere. Answers None. Raises RunExists."""

    run: Run
    tags: dict[str, str]
    events: Sequence[Event]
    signals: Sequence[Signal] = ()


class BeginCopy(msgspec.Struct):
    """Get ready to take in all that another store holds: remove what a copy that did not end has left, have these lanes and no
    others, and from now on be half-copied. Answers None. Raises StoreNotEmpty when there are runs that no such copy brought."""

    lanes: Sequence[Lane]


class CopyRuns(msgspec.Struct):
    """Write runs as they stand elsewhere, with all that belongs to them. Answers None. Raises RunExists."""

    runs: Sequence[Dossier]


class EndCopy(msgspec.Struct):
    """All is here: be half-copied no more. Answers None."""


Transition = (
    StartRuns
    | Advance
    | Claim
    | OpenSession
    | Beat
    | EndSession
    | ExpireRuns
    | SignalRun
    | RequestCancel
    | ResumeRun
    | ReplayRun
    | Prune
    | SetLane
    | ImportRun
    | BeginCopy
    | CopyRuns
    | EndCopy
)


class Filter(msgspec.Struct, kw_only=True):
    """Which runs to list. ``before`` is the id of the last one seen: pages go from new to old."""

    namespace: str | None = None
    statuses: Sequence[str] = ()
    workflow: str | None = None
    tags: dict[str, str] = {}
    since: int | None = None
    until: int | None = None
    worker: str | None = None
    parent_id: str | None = None
    roots: bool = False
    before: str | None = None
    limit: int = 50


class Hints(msgspec.Struct):
    """What a commit touched, told after it: hints where to look, never facts."""

    ready: bool = False
    runs: set[str] = msgspec.field(default_factory=set)
    finished: set[str] = msgspec.field(default_factory=set)


class Reader(Protocol):
    """What can be asked. Every answer is a committed state."""

    def run(self, run_id: str) -> Run | None:
        """The run, or None."""

    def runs(self, which: Filter) -> list[Run]:
        """Runs from new to old."""

    def history(self, run_id: str, after: int = 0) -> list[Event]:
        """The events of a run in order, those with a higher ``seq`` than *after*."""

    def histories(self, run_ids: Sequence[str]) -> dict[str, list[Event]]:
        """The events of several runs, each in order."""

    def signals(self, run_id: str) -> list[Signal]:
        """The signals that no wait has taken, oldest first."""

    def children(self, run_id: str, steps: Sequence[str] | None = None) -> list[Child]:
        """The children of a run, in order; of these steps only, if given."""

    def tags(self, run_id: str) -> dict[str, str]:
        """The tags of a run."""

    def routes(self) -> dict[int, Route]:
        """All routes that runs were ever started on."""

    def sessions(self) -> list[Session]:
        """All sessions that were not ended."""

    def lanes(self) -> list[Lane]:
        """All lanes with settings."""

    def held(self, session_id: str) -> list[tuple[str, int, int]]:
        """The runs a session holds: id, generation, revision."""

    def knocks(self, session_id: str, after: int) -> list[tuple[int, str]]:
        """The runs of this session that were touched from outside, each with a growing number, those above *after*."""

    def next_wake(self) -> int | None:
        """When the next timer or deadline is due, or a spent rate lets the next run go: when it is worth while to look again."""

    def counts(self) -> dict[str, int]:
        """How many runs there are of each status."""

    def dossiers(self, after: str, limit: int, size: int) -> list[Dossier]:
        """All about the next runs whose ids are above *after*, in the order of their ids: at most *limit* of them, and no more
        than *size* bytes unless the first alone has more. Empty at the end."""

    def is_half_copied(self) -> bool:
        """Whether a copy into this store has begun and not ended."""

    def check(self) -> list[str]:
        """Every law that SQL can check and that does not hold, in words. Empty is good."""

    def facts(self) -> dict[str, object]:
        """What `doctor` shows: versions, settings, sizes."""


class Store(Reader, Protocol):
    """A database that holds runs."""

    url: str
    clock: Clock
    """By which it lives: the database's, unless another one was given."""

    def now(self) -> int:
        """The database's clock. It never goes back."""

    def apply(self, batch: Sequence[Transition]) -> list[Any]:
        """Apply all transitions in one transaction and answer each: its result, or the HoldfastError that refused it.
        Raises StoreError when nothing at all was written."""

    def hints(self) -> Hints:
        """What the commits since the last call touched, in this process."""

    def changed(self) -> bool:
        """Whether another process committed since the last call. Cheap."""

    def start_within(self, connection: Any, runs: Sequence[NewRun]) -> list[Started]:
        """Create runs in the caller's own open transaction on the same database."""

    def is_alive(self, session: Session) -> bool | None:
        """Whether the process of a session lives; None when the system cannot tell."""

    def take_slot(self) -> int:
        """Take a place by which others can see that this process lives."""

    def free_slot(self, slot: int) -> None:
        """Give the place back."""

    def close(self) -> None:
        """Let go of the database."""
