"""What can be done to runs, sessions and lanes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from holdfast.core.budgets.model import Breach, SpendEntry
from holdfast.core.events import Event
from holdfast.core.payload import Fetch, Payload, Seal
from holdfast.core.runs import Cell, Fanout, NewRun, RunRecord, RunSnapshot
from holdfast.core.sessions import Lane, Session
from holdfast.core.status import Status
from holdfast.core.streams.model import Output
from holdfast.core.waits import Signal, WaitRecord
from holdfast.errors import RowDamaged
from holdfast.store.contract.gates import GateMove
from holdfast.store.contract.growing import AddMembers
from holdfast.store.contract.waits import MOST_SIGNALS


class StartRuns(msgspec.Struct):
    """Create runs. Answers list[Started], one each. The same id or key with the same input is the
    same run; with other input the whole transition is refused with RunExists."""

    runs: Sequence[NewRun]


class Started(msgspec.Struct):
    """A run that now exists; ``created`` is false when it did before. ``leased`` is true when it
    was born leased to the session that was named: not when it is delayed, when its lane has limits,
    or when that session was ended."""

    id: str
    created: bool
    leased: bool
    now: int


class DebounceStart(msgspec.Struct, kw_only=True):
    """Start a run that begins when no further start of its key has come for ``quiet``, or
    ``longest`` after the first, or with the ``size``-th. Until then each start of that key goes
    into it: the last input stands, or what ``merge`` makes of it. Answers list[Started], one."""

    run: NewRun
    key: str
    quiet: int
    longest: int
    size: int | None = None
    merge: Callable[[str, bytes, Fetch], tuple[bytes, Sequence[Payload]]] | None = None
    """Makes the new input of the one that is there; it may be sealed, and so may what comes of
    it."""


class Advance(msgspec.Struct, kw_only=True):
    """The holder's write: events, and where the run stands after them. Answers the time of the
    commit.

    Raises LeaseLost when the generation is not the run's own. When ``revision`` is given and the
    run has been touched from outside since, it answers Changed and writes nothing: look again
    before parking. So it does when the run is to be blocked and there is room for all its
    ``demands`` in its ``budgets``. When there is no room for what it ``spends`` it answers Refused
    and writes nothing; facts among that are counted in any case. With such spending it has events
    and no status. ``settles`` are the keys of what was set aside and is no longer. Waits are named
    by their steps; ``closed`` also says by what. A transactional body that spends is rolled back
    without room: BudgetExceeded.
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
    child_cancels: Sequence[str] = ()
    """The reasons for which it cancels its open children; those that are left when their parent
    ends are not cancelled."""
    opened: Sequence[WaitRecord] = ()
    reopened: Sequence[str] = ()
    escalated: Sequence[str] = ()
    closed: Sequence[tuple[str, str]] = ()
    parent: tuple[str, str, int | None] | None = None
    had_children: bool = False
    budgets: tuple[str, ...] = ()
    spends: Sequence[SpendEntry] = ()
    settles: Sequence[str] = ()
    settles_all: bool = False
    demands: Sequence[dict[str, int]] = ()
    gates: Sequence[GateMove] = ()
    scheduled: bool = False
    """It ends a run that a schedule has started: others of its ticks may wait for that."""
    grows: Sequence[AddMembers] = ()
    """What it adds to the graph that it is a member of."""
    output: Output | None = None
    closes: str | None = None
    """Why the streams of its attempt are closed: the holder of a lease may not know of all that its
    helpers have put out."""
    alarm: int | None = None
    """When somebody must see to a wait of a run that nobody holds."""
    payloads: Sequence[Payload] = ()
    """What is kept apart of the values here, the signals among them."""
    seal: Callable[[bytes, list[Payload]], bytes] | None = None
    """What seals the data that ``body`` returns."""


class Advanced(msgspec.Struct):
    """The write stands. ``now`` is the time of its events, ``data`` what the transactional body
    returned, ``started`` says of each child whether it was created and born leased, ``breach``
    which hard limit is passed by what was spent."""

    now: int
    data: bytes | None = None
    started: list[Started] = []
    breach: Breach | None = None
    born: list[tuple[NewRun, int]] = []
    """The members that it has added to its graph and that were born leased, with when."""
    unasked: bool = False
    """Whether more children are to be asked to stop than one transaction can. If the write was to
    end the run, nothing else of it was written: apply it again. Otherwise all of it stands, and
    another write with ``child_cancels`` goes on."""


class RevisionChanged(msgspec.Struct):
    """Something reached the run while its holder was parking it; nothing was written."""

    revision: int


class ClaimedRuns(list[RunRecord]):
    """Runs that were leased; if there are none, *behind* says whether some are ready, but must wait
    for others of their lane."""

    def __init__(self, runs: Iterable[RunRecord] = (), *, behind: bool = False) -> None:
        super().__init__(runs)
        self.behind = behind


class Claim(msgspec.Struct):
    """Make due timers pending, then lease up to ``limit`` ready runs of these routes (id, lane),
    best rank first, within the limits of their lanes. Answers Claimed; a session that was ended
    gets none. A run whose worker died twice without any progress is leased alone: one such run at a
    time."""

    session_id: str
    routes: Sequence[tuple[int, str]]
    limit: int


class OpenSession(msgspec.Struct):
    """Register a worker. Answers None. Raises StoreHalfCopied before a copy into the store has
    ended."""

    session: Session


class Heartbeat(msgspec.Struct):
    """Prolong a session. Answers False when it was taken over meanwhile."""

    session_id: str
    lifetime: int
    seen_knock: int = 0


class EndSession(msgspec.Struct):
    """Free all that a session held and forget it. ``crashed`` counts against runs that made no
    progress; past ``limit`` such crashes a run is stuck. Without a limit that of the session itself
    holds, whoever ends it. Answers Freed: if the session held more than one transaction can free,
    its stand-in holds the rest and must be ended next."""

    session_id: str
    crashed: bool
    limit: int | None = None


class FreedRuns(list[str]):
    """The ids of the runs that were freed; *rest* is the session that holds the others, None if
    there are none."""

    def __init__(self, run_ids: Iterable[str] = (), *, rest: str | None = None) -> None:
        super().__init__(run_ids)
        self.rest = rest


class ExpireRuns(msgspec.Struct):
    """End what has passed its deadline and is not held; answer how many."""

    limit: int = 500


class SignalRun(msgspec.Struct):
    """Leave a signal for a run, or for a wait of that run, and wake it if that is what it waits
    for. Answers Delivery. Raises RunNotFound, RunFinished, TooManySignals; with a wait,
    WaitNotFound, WaitClosed, WaitExpired."""

    run_id: str
    name: str
    payload: bytes
    key: str | None = None
    source: str | None = None
    wait_id: str | None = None
    limit: int = MOST_SIGNALS
    payloads: Sequence[Payload] = ()


class RequestCancel(msgspec.Struct):
    """Ask a run to stop, and its children with it. One that never started is cancelled at once, and
    so is any when forced: then nothing is undone. Answers the new status, or PartlyCancelled when
    the runs below it are too many for one transaction: then the same transition, applied again,
    goes on. Raises RunNotFound, RunFinished."""

    run_id: str
    reason: str
    force: bool = False


class PartlyCancelled(msgspec.Struct):
    """The run has this status, and some of the runs below it were asked to stop; others are left. A
    run that is to be ended by force is only asked before the last transition."""

    status: Status


class ResumeRun(msgspec.Struct):
    """Put a stuck run back to work. Answers its status. Raises RunNotFound, IllegalMove."""

    run_id: str


class ReplayRun(msgspec.Struct):
    """Put a finished run back to work, and the ``children`` that have ended with it. ``void`` names
    the events that no longer count, ``seen`` the last event that this was decided by, ``detach``
    the steps whose children no longer belong to them. Raises RunNotFound, RunNotFinished,
    RunChanged, NotReclaimable."""

    run_id: str
    void: Sequence[int]
    seen: int | None = None
    children: Sequence[ReplayRun] = ()
    detach: Sequence[str] = ()
    replayed: Sequence[str] = ()
    """The children that ReplayRuns has put back to work before: the history names them."""

    def runs(self) -> Iterator[str]:
        """Yield the runs that are replayed, this one first."""
        yield self.run_id
        for child in self.children:
            yield from child.runs()


class ReplayRuns(msgspec.Struct):
    """Put finished runs back to work that are below another one, which is replayed after them:
    where they are too many for one transaction. Those that are at work are left alone. Answers
    None. Raises what ReplayRun raises."""

    replays: Sequence[ReplayRun]


class Prune(msgspec.Struct):
    """Delete finished trees of runs that ended before ``before``, looking at ``limit`` roots after
    the id ``after``. Answers Pruned."""

    before: int
    statuses: Sequence[str]
    limit: int = 500
    namespace: str | None = None
    after: str = ""
    workflow: str | None = None


class Pruned(msgspec.Struct):
    """How many runs went, and where to go on; ``last`` is None at the end."""

    runs: int
    last: str | None


class SetLane(msgspec.Struct):
    """Create a lane or change its limits. Answers None."""

    lane: Lane


class SetAside(msgspec.Struct):
    """Keep damaged rows from holding anything else up: a run becomes stuck, a schedule is paused, a
    flow is woken no more. Answers how many rows were not aside before."""

    damages: Sequence[RowDamaged]


class StageEvents(msgspec.Struct):
    """Write the next events of a stage, which no reader sees before ImportRun copies them to a run.
    Answers None; events that are there already are not written again. Raises StageGone when the
    stage was given up."""

    stage_id: str
    events: Sequence[Event]


class StagedEvents(msgspec.Struct):
    """The first events of a history, which earlier transactions have written: how many they are,
    and the digests of their values that are kept apart."""

    stage_id: str
    count: int
    digests: Collection[bytes] = ()


class ImportRun(msgspec.Struct):
    """Write a run and its history as they were elsewhere. Answers None. Raises RunExists,
    RunNotFound when a payload is gone, and StageGone when the staged events are not whole."""

    run: RunRecord
    tags: dict[str, str]
    events: Sequence[Event]
    signals: Sequence[Signal] = ()
    below: dict[str, list[list[Cell]]] = {}
    payloads: Sequence[Payload] = ()
    touched: bool = False
    """Whether something has reached the run elsewhere that its holder had not looked at: here
    somebody must look."""
    staged: StagedEvents | None = None
    """The events before ``events``, where all of them are too many for one transaction."""


class BeginCopy(msgspec.Struct):
    """Get ready to take in all that another store holds: remove what a copy that did not end has
    left, have these lanes and no others, and these rows of what else belongs to the installation,
    and from now on be half-copied. Answers None. Raises StoreNotEmpty when there are runs that no
    such copy brought, StoreInUse when a session is open."""

    lanes: Sequence[Lane]
    standing: dict[str, list[list[Cell]]] = {}
    copy_id: str = ""
    """What the seal of the source calls this copy."""


class BeginImport(msgspec.Struct):
    """Get ready to take in some runs of another store: from now on be half-copied, until
    ``EndCopy``. Answers None. Raises StoreNotEmpty when there are runs, StoreInUse when a session
    is open."""


class CopyRuns(msgspec.Struct):
    """Write runs as they stand elsewhere, with all that belongs to them. Answers None. Raises
    RunExists."""

    runs: Sequence[RunSnapshot]


class EndCopy(msgspec.Struct):
    """All is here: be half-copied no more, and take no writes if there is a ``seal``. Answers
    None."""

    seal: Seal | None = None


class SealStore(msgspec.Struct):
    """Take no writes from now on, whichever process makes them, if ``check`` returns true. No
    transaction can write while it is called, and all can read. Answers what it returned."""

    seal: Seal
    check: Callable[[], bool]


class UnsealStore(msgspec.Struct):
    """Take writes again. Answers the seal; None if there was none."""
