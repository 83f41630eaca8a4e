"""Operations on runs and sessions, and the answers to them.

Also here: replay and pruning; ``copy_operations.py`` has import and copy. Instants and durations
are microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import msgspec

from holdfast.core.budgets.model import Breach
from holdfast.core.events import Event
from holdfast.core.payload import Fetch, Payload
from holdfast.core.runs import (
    CancelCause,
    Cancellation,
    Fanout,
    NewRun,
    RunRecord,
)
from holdfast.core.sessions import Session
from holdfast.core.status import Status
from holdfast.errors import RowDamaged
from holdfast.store.database import Operation, Started
from holdfast.store.effects import E, Effect, Phase


class StartRuns(Operation):
    """Create runs.

    A run with the id or key of an existing run of the same workflow and the same input is that run:
    it is not created again.

    Answers:
        list[Started]   one per run, in order
    Raises (the whole operation is refused):
        RunExists       the id or key belongs to a run with another input or workflow
        BudgetNotFound  a run names a budget that does not exist
        LaneDraining    the lane of a new run accepts no new runs
    """

    runs: Sequence[NewRun]


class DebounceStart(Operation, kw_only=True):
    """Start a run that collects further starts of its key until it begins.

    The run begins when no start with this key has arrived for ``quiet`` (unless ``size`` is given),
    at the latest ``longest`` after the first start, or with the ``size``-th start. Until then each
    start with the key joins this run: the last input replaces the earlier one, unless ``merge``
    combines them.

    Answers:
        list[Started]  with one element; ``created`` is false if the start joined an existing run
    Raises:
        what StartRuns raises
    """

    may_refuse_late: ClassVar[bool] = True

    run: NewRun
    key: str
    quiet: int
    longest: int
    size: int | None = None
    merge: Callable[[str, bytes, Fetch], tuple[bytes, Sequence[Payload]]] | None = None
    """Return the new input from the id of the run, its stored input and a function that fetches
    payloads. Stored and returned input may both be sealed."""


class Body(msgspec.Struct):
    """A transactional step of the user. ``call`` gets a connection of the transaction; its result
    becomes the data of the first event."""

    call: Callable[[Any], bytes]
    seal: Callable[[bytes, list[Payload]], bytes] | None = None
    """Seals the result, and adds its payloads to the list."""


class Advance(Operation, kw_only=True):
    """Record progress of a run, as the holder of its lease: events, the new status, and the effects
    that are committed together with them.

    Answers:
        Advanced         the write was committed
        RevisionChanged  nothing was written: *revision* was given and the run has changed since, or
                         RequireBudget refuses
        BudgetRefused    nothing was written: ChargeBudget would exceed a hard limit
    Raises:
        LeaseLost        *generation* is not the run's current generation, or the run has no holder
        what its effects raise
    """

    run_id: str
    generation: int
    events: list[Event] = msgspec.field(default_factory=list)
    status: Status | None = None
    """The new status; None if only events are recorded."""
    revision: int | None = None
    """The revision that the holder has seen. A write with a body, or with a status that is not
    final, is refused if the run has another one by now."""
    release: bool = False
    """Whether the holder gives up the lease."""
    waits: bytes | None = None
    """The waits on which the run is parked, as JSON."""
    wake_at: int | None = None
    result: bytes | None = None
    error: bytes | None = None
    # A guard rather than an effect: the run may have joined a graph since its holder read it, and
    # ends without effects are written many at once.
    graph_id: str | None = None
    """The graph whose resolution needs the outcome, if the run ends."""
    effects: Sequence[Effect] = ()
    body: Body | None = None
    payloads: Sequence[Payload] = ()
    """The payloads of the values in this operation, signals included: values that are stored
    separately."""

    def of(self, kind: type[E]) -> list[E]:
        """Return the effects of a kind."""
        return [effect for effect in self.effects if type(effect) is kind]

    def children(self) -> list[NewRun]:
        """Return the children that it starts."""
        return [child for effect in self.of(StartChildren) for child in effect.children]


class StartChildren(Effect):
    """Start children of the run, and count those of its maps."""

    phase: ClassVar[Phase] = Phase.NEW_RUNS
    may_refuse_late: ClassVar[bool] = True
    answers: ClassVar[str | None] = "started"

    children: Sequence[NewRun] = ()
    fanouts: Sequence[Fanout] = ()


class CancelOtherRun(Effect):
    """Ask another run to stop, or the run itself. A run that has ended ignores it."""

    phase: ClassVar[Phase] = Phase.OTHER_RUNS

    run_id: str
    reason: str
    cause: CancelCause = CancelCause.REQUEST
    by: str | None = None

    @property
    def locks(self) -> Sequence[str]:
        return (self.run_id,)


class CancelChildren(Effect):
    """Ask the open children of the run to stop. Children that may outlive their parent go on."""

    phase: ClassVar[Phase] = Phase.OTHER_RUNS
    answers: ClassVar[str | None] = "unasked"

    cancellation: Cancellation


class RecordCanceller(Effect):
    """Record that the holder of the run has cancelled it, unless it was asked to stop before."""

    cancellation: Cancellation


class EndRun(Effect):
    """Report the end of the run. An end that concerns only the graph of the run does not need it.

    A final status ends the run; this effect says what must be notified then.
    """

    phase: ClassVar[Phase] = Phase.END

    parent: tuple[str, str, int | None] | None = None
    """The parent to notify: its run id, the step, and the index in a map."""
    had_children: bool = False
    """Whether the run has started children, which are stopped."""
    scheduled: bool = False
    """Whether a schedule started the run: other ticks of the schedule may wait for its end."""

    @property
    def locks(self) -> Sequence[str]:
        return () if self.parent is None else (self.parent[0],)

    @property
    def notifies_only_parent(self) -> bool:
        """Whether the parent is all that this end concerns."""
        return not (self.had_children or self.scheduled)


def end_of(run: RunRecord, *, had_children: bool) -> EndRun | None:
    """Return the effect that reports the end of a run; None if it concerns only its graph."""
    parent = None
    if run.parent_id is not None:
        parent = (run.parent_id, run.parent_step or "", run.parent_index)
    scheduled = run.schedule is not None
    if parent is None and not had_children and not scheduled:
        return None
    return EndRun(parent, had_children, scheduled)


class Advanced(msgspec.Struct):
    """The write was committed.

    ``now`` is the time of its events, ``data`` the result of the transactional body, ``started``
    has one element per child, and ``breach`` is the hard limit that recorded spending has exceeded.
    """

    now: int
    data: bytes | None = None
    started: list[Started] = []
    breach: Breach | None = None
    born: list[tuple[NewRun, int]] = []
    """The members that were added to the graph and leased at their start, each with the time of the
    start."""
    unasked: bool = False
    """Whether some children have not been asked to stop, because one transaction cannot ask all of
    them. If the write was to end the run, nothing else of it was written: apply it again. Otherwise
    all of it was written: continue with another Advance with CancelChildren."""


class ClaimedRuns(list[RunRecord]):
    """The runs that were leased. If there are none, ``behind`` tells whether runs are ready but
    must wait for other runs of their lane."""

    def __init__(self, runs: Iterable[RunRecord] = (), *, behind: bool = False) -> None:
        super().__init__(runs)
        self.behind = behind


class Claim(Operation):
    """Make runs with due timers pending, then lease up to ``limit`` ready runs of these routes (id,
    lane) to a session: best rank first, within the limits of their lanes.

    A run whose worker died twice without progress of the run is leased alone: a session holds at
    most one such run, so that other runs are not blamed for its crashes.

    Answers:
        ClaimedRuns  empty also if the session has ended
    """

    session_id: str
    routes: Sequence[tuple[int, str]]
    limit: int


class OpenSession(Operation):
    """Register a worker, or change what its session serves.

    Answers:
        None
    Raises:
        StoreHalfCopied  a copy into this store has not ended
    """

    session: Session


class Heartbeat(Operation):
    """Extend a session by ``lifetime``, and delete its notifications up to the number
    ``seen_notification``.

    Answers:
        bool  False if the session has ended, because another process took it over
    """

    session_id: str
    lifetime: int
    seen_notification: int = 0


class EndSession(Operation):
    """Delete a session and release the runs that it held.

    If the session ``crashed``, that counts against runs without progress; a run with more than
    ``limit`` such crashes becomes stuck. Without ``limit``, the crash limit with which the session
    was opened applies.

    Answers:
        FreedRuns  its ``rest`` must be ended next, if there is one
    """

    session_id: str
    crashed: bool
    limit: int | None = None


class FreedRuns(list[str]):
    """The ids of the runs that were released. ``rest`` is a stand-in session that holds the runs
    for which one transaction has no room; None if there are no others."""

    def __init__(self, run_ids: Iterable[str] = (), *, rest: str | None = None) -> None:
        super().__init__(run_ids)
        self.rest = rest


class ExpireRuns(Operation):
    """Stop runs without a holder that are past their deadline: a run that has never started ends,
    another is asked to stop.

    Answers:
        int  how many runs were stopped
    """

    limit: int = 500


class RequestCancel(Operation):
    """Ask a run and its children to stop.

    A run that has never started is cancelled at once. With ``force`` every run is, without its
    compensations.

    Answers:
        Status           the new status
        PartlyCancelled  the runs below are too many for one transaction: apply it again
    Raises:
        RunNotFound      there is no run of this id
        RunFinished      the run has ended
    """

    run_id: str
    reason: str
    force: bool = False
    cause: CancelCause = CancelCause.REQUEST
    by: str | None = None


class PartlyCancelled(msgspec.Struct):
    """The run has this status and some of the runs below it were asked to stop; others remain.

    With ``force``, the run itself ends only with the last of these operations: an ended run would
    not be cancelled again after a crash.
    """

    status: Status


class ResumeRun(Operation):
    """Make a stuck run pending again, or cancelling if it was being cancelled.

    Answers:
        Status       the new status
    Raises:
        RunNotFound  there is no run of this id
        RunFinished  the run has ended
        IllegalMove  the run is not stuck
    """

    run_id: str
    by: str | None = None


class SetTags(Operation):
    """Add tags to a run, change their values, or remove those whose value is None.

    Answers:
        dict[str, str]  all tags of the run
    Raises:
        RunNotFound  there is no run of this id
    """

    run_id: str
    tags: dict[str, str | None]


class ReplayRun(Operation):
    """Make a finished run pending again, together with those of ``children`` that have ended.

    ``void`` are the numbers of the events that no longer count, ``seen`` is the last event on which
    the caller based this decision, ``detach`` are the steps whose children no longer belong to
    them. ``version`` is the version that the run had where the replay begins, if it has changed
    since.

    Answers:
        Status          the new status
    Raises:
        RunNotFound     there is no run of this id
        RunNotFinished  the run, or a child that would have to end first, has not ended
        RunChanged      the history has events after ``seen``
        NotReclaimable  the policy of the task allows no further replay
    """

    may_refuse_late: ClassVar[bool] = True

    run_id: str
    void: Sequence[int]
    seen: int | None = None
    children: Sequence[ReplayRun] = ()
    detach: Sequence[str] = ()
    replayed: Sequence[str] = ()
    """The children that ReplayRuns has already made pending; the history names them."""
    by: str | None = None
    version: str | None = None

    def runs(self) -> Iterator[str]:
        """Yield the ids of the runs that are replayed, this one first."""
        yield self.run_id
        for child in self.children:
            yield from child.runs()


class ReplayRuns(Operation):
    """Make finished runs pending again before the run above them is replayed, if they are too many
    for one transaction. Runs that have not ended are left alone.

    Answers:
        None
    Raises:
        what ReplayRun raises
    """

    may_refuse_late: ClassVar[bool] = True

    replays: Sequence[ReplayRun]


class Prune(Operation):
    """Delete finished trees of runs that ended before ``before``, among the next ``limit`` roots
    after the id ``after``. Unless a workflow is given, graphs that ended before ``before`` are
    deleted, too.

    Answers:
        Pruned
    """

    before: int
    statuses: Sequence[str]
    limit: int = 500
    namespace: str | None = None
    after: str = ""
    workflow: str | None = None


class Pruned(msgspec.Struct):
    """How many runs were deleted, or trimmed by Forget; ``last`` is the id to continue after, None
    at the end."""

    runs: int
    last: str | None


class SetAside(Operation):
    """Set damaged rows aside so that they do not block other work: a run becomes stuck, a schedule
    is paused, a flow is not woken any more. The damaged values stay, for repair.

    Answers:
        int  how many of these rows were not set aside before
    """

    damages: Sequence[RowDamaged]
