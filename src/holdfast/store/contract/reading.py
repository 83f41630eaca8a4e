"""What can be asked of a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from holdfast.core.budgets.model import Budget, BudgetLine
from holdfast.core.events import Event
from holdfast.core.gates.model import Gate, GateEntry
from holdfast.core.payload import Payload, Seal
from holdfast.core.retention import RetentionRule
from holdfast.core.runs import Cell, ChildRecord, Route, RunRecord, RunSnapshot
from holdfast.core.schedules.model import Schedule, Tick
from holdfast.core.sessions import Lane, Session
from holdfast.core.status import Status
from holdfast.core.tokens import SigningKey
from holdfast.core.waits import Signal, WaitRecord
from holdfast.store.contract.gates import GateFilter
from holdfast.store.contract.payloads import MaintenanceLock, PrunableRun

CheckProgress = Callable[[int, int], None]
"""Told how much of how much is checked."""


class RunFilter(msgspec.Struct, kw_only=True):
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


class RunUpdate(msgspec.Struct):
    """What has reached a run, at one instant."""

    status: Status
    generation: int
    revision: int
    cancel_reason: str | None
    cancelled_at: int | None
    """When the run was asked to stop: the instant of its deadline, if that was the reason."""
    signals: list[Signal]
    """Those that no wait has taken, oldest first."""


class SignalArrived(msgspec.Struct):
    """A signal to a run that this process holds, and the revision that the run has by it: whoever
    has seen all that came before need not look."""

    run_id: str
    generation: int
    revision: int
    signal: Signal


class Hints(msgspec.Struct):
    """What a commit touched, told after it: hints where to look, never facts."""

    ready: bool = False
    runs: set[str] = msgspec.field(default_factory=set)
    finished: set[str] = msgspec.field(default_factory=set)
    frames: set[str] = msgspec.field(default_factory=set)
    subscriptions: bool = False
    graphs: bool = False
    """Whether there are news for graphs."""
    delivered: list[SignalArrived] = msgspec.field(default_factory=list)
    """Signals to runs that are not among *runs*, in their order."""
    routes: bool = False
    """Whether there are new routes, or other limits of lanes."""

    def add(self, others: Hints) -> None:
        """Add others to these."""
        self.ready |= others.ready
        self.runs |= others.runs
        self.finished |= others.finished
        self.frames |= others.frames
        self.subscriptions |= others.subscriptions
        self.graphs |= others.graphs
        self.delivered += others.delivered
        self.routes |= others.routes

    def copy(self) -> Hints:
        """Return the same, to go back to."""
        sets = (set(self.runs), set(self.finished), set(self.frames))
        return Hints(
            self.ready, *sets, self.subscriptions, self.graphs, list(self.delivered), self.routes
        )


NO_HINTS = Hints()
"""What a commit touched that touched nothing which another part of this process waits for. It is
shared: do not add to it."""


class MemberOutcome(msgspec.Struct):
    """The end of a member that its graph has not heard of. With a *place* the graph has begun to
    hear of it: the dependents up to that one, in the order of their ids, are settled."""

    run_id: str
    status: str
    result: bytes | None = None
    place: str | None = None


class NextDue(msgspec.Struct):
    """When it is worth while to look again: for parked runs and spent rates, deadlines, schedules,
    managed flows, attempts of tasks, news for graphs, and stages of graphs that were given up."""

    work: int | None = None
    deadline: int | None = None
    schedule: int | None = None
    flow: int | None = None
    attempt: int | None = None
    graph: int | None = None
    stage: int | None = None

    @property
    def at(self) -> int | None:
        """The first of them that time brings."""
        times = (self.work, self.deadline, self.schedule, self.flow, self.attempt, self.stage)
        return min((time for time in times if time is not None), default=None)


class RunReads(Protocol):
    """What can be asked. Every answer is a committed state."""

    def run(self, run_id: str) -> RunRecord | None:
        """The run, or None."""

    def runs(self, which: RunFilter) -> list[RunRecord]:
        """Runs from new to old."""

    def history(self, run_id: str, after: int = 0) -> list[Event]:
        """The events of a run in order, those with a higher ``seq`` than *after*."""

    def runs_by_id(self, run_ids: Sequence[str]) -> list[RunRecord]:
        """Those of these runs that there are, in any order."""

    def histories(self, run_ids: Sequence[str]) -> dict[str, list[Event]]:
        """The events of several runs, each in order."""

    def glance(self, run_id: str) -> RunUpdate | None:
        """What whoever holds a run must know when something has reached it, or None."""

    def glances(self, run_ids: Sequence[str]) -> dict[str, RunUpdate]:
        """The same for several runs, by their ids."""

    def signals(self, run_id: str) -> list[Signal]:
        """The signals that no wait has taken, oldest first."""

    def signals_of(self, run_ids: Sequence[str]) -> dict[str, list[Signal]]:
        """The same for several runs."""

    def waits(
        self,
        run_id: str | None = None,
        *,
        escalated: bool = False,
        limit: int = 100,
        namespace: str | None = None,
    ) -> list[WaitRecord]:
        """The waits of a run, oldest first, open and closed; without a run, the open ones of all
        runs that live, or of those of a namespace. Of these, only those that need a person, if so
        asked."""

    def wait(self, wait_id: str) -> WaitRecord | None:
        """The wait that was handed out under that id, or None."""

    def children(self, run_id: str, steps: Sequence[str] | None = None) -> list[ChildRecord]:
        """The children of a run, in order; of these steps only, if given."""

    def ended_children(self, run_id: str, steps: Sequence[str]) -> list[ChildRecord]:
        """Those of the children of these steps that have ended, in no order."""

    def open_children(self, run_id: str, limit: int) -> list[str]:
        """The ids of children that have not ended and must end before their parent does."""

    def tags(self, run_id: str) -> dict[str, str]:
        """The tags of a run."""

    def routes(self) -> dict[int, Route]:
        """All routes that runs were ever started on."""

    def sessions(self, limit: int = -1) -> list[Session]:
        """The sessions that were not ended, oldest first, those that only hold leases (without a
        process) last: all, or at most *limit*."""

    def lanes(self) -> list[Lane]:
        """All lanes with settings."""

    def share_free_at(self, lane: str, share: str) -> int:
        """When one more run of a share may begin by the rate of its lane; past or 0 when one may
        now."""

    def budgets(self) -> list[Budget]:
        """All budgets, with their lines. One whose time to be reset has come has used nothing."""

    def budget(self, name: str) -> Budget | None:
        """The budget, or None."""

    def allowances(self, names: Sequence[str]) -> list[BudgetLine]:
        """The lines of these budgets. One whose time to be reset has come has used nothing."""

    def spending(self, run_id: str) -> dict[str, dict[str, int]]:
        """What a run and each below it have spent, by run and dimension; of a run that is no root,
        only itself."""

    def reservations(self, budget: str) -> list[tuple[str, str, str, int, int]]:
        """Who has set something aside in a budget: run, key, dimension, amount, and since when."""

    def gate(self, gate_id: str) -> Gate | None:
        """The gate, or None."""

    def gates(self, which: GateFilter) -> list[Gate]:
        """Gates from old to new."""

    def gate_entries(self, gate_id: str) -> list[GateEntry]:
        """What was done to a gate, in order."""

    def keys(self) -> list[SigningKey]:
        """All keys that sign tokens or did so, oldest first, with their secrets."""

    def held(self, session_id: str) -> list[tuple[str, int, int]]:
        """The runs a session holds: id, generation, revision."""

    def knocks(self, session_id: str, after: int) -> list[tuple[int, str]]:
        """The runs of this session that were touched from outside, each with a growing number,
        those above *after*."""

    def next_wake(self) -> int | None:
        """When the next timer, deadline or schedule is due, or a spent rate lets the next run go:
        when it is worth while to look again."""

    def next_look(self) -> NextDue:
        """The same, told apart."""

    def schedule(self, namespace: str, name: str) -> Schedule | None:
        """The schedule, or None."""

    def schedules(self) -> list[Schedule]:
        """All schedules, by name."""

    def live_runs(self, schedule: Schedule) -> list[str]:
        """The runs of a schedule for whose end its other ticks may have to wait."""

    def runs_of_ticks(self, schedule: Schedule, ticks: Sequence[int]) -> list[Tick]:
        """The ticks, each with the run that it has."""

    def counts(self) -> dict[str, int]:
        """How many runs there are of each status."""

    def dossiers(self, after: str, limit: int, size: int) -> list[RunSnapshot]:
        """All about the next runs whose ids are above *after*, in the order of their ids: at most
        *limit* of them, and no more than *size* bytes unless the first alone has more. Empty at the
        end."""

    def is_touched(self, run_id: str) -> bool:
        """Whether something has reached a run that its holder had not looked at when the run was
        parked."""

    def belongings(self, run_id: str) -> dict[str, list[list[Cell]]]:
        """The rows of the other tables that belong to a run, by table; without those that have
        none."""

    def standing(self) -> dict[str, list[list[Cell]]]:
        """The rows of all tables that belong to the installation, by table; without those that have
        none."""

    def is_half_copied(self) -> bool:
        """Whether a copy into this store has begun and not ended."""

    def seal(self) -> Seal | None:
        """Why this store takes no writes; None when it takes them."""

    def payload(self, digest: bytes) -> Payload | None:
        """A value that is kept apart, with all its parts; None when there is none."""

    def payloads_of(self, run_id: str) -> list[bytes]:
        """The digests of the payloads that a run refers to."""

    def next_payloads(self, after: bytes, limit: int) -> list[tuple[bytes, int]]:
        """The digests of the next payloads above *after*, in order, and how many bytes each takes.
        Empty at the end."""

    def payload_totals(self) -> dict[str, int]:
        """How many payloads there are, how many bytes their values have, and how many they take."""

    def keys_in_use(self) -> dict[str, int]:
        """The ids of all keys that some value is encrypted with, and how many values that are."""

    def setting(self, name: str) -> str | None:
        """What was noted about the installation under that name."""

    def retentions(self) -> list[RetentionRule]:
        """All retention rules."""

    def upkeep(self, name: str) -> MaintenanceLock | None:
        """Who has a duty; None when nobody ever took it."""

    def used_bytes(self) -> int:
        """How many bytes the data takes, about: what deleting makes less."""

    def nth_newest(self, workflow: str, statuses: Sequence[str], number: int) -> int | None:
        """When the *number*-th newest of the finished roots of a workflow ended; None when there
        are not so many."""

    def oldest_finished(
        self, workflow: str | None, statuses: Sequence[str], since: int, before: int, limit: int
    ) -> list[PrunableRun]:
        """The finished trees whose roots ended from *since* on and before *before*, the oldest
        first."""

    def check(self, progress: CheckProgress | None = None) -> list[str]:
        """Every damaged row, and every law that does not hold, in words. Empty is good. *progress*
        is told of each law that was looked at."""

    def damaged_values(self) -> list[str]:
        """Every value of a user that is neither sealed nor JSON, in words: what to ask where the
        codec is that of JSON."""

    def facts(self) -> dict[str, object]:
        """What `doctor` shows: versions, settings, sizes."""
