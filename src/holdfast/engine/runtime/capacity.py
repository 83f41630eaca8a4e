"""Keep a worker within its concurrency, however runs become leased to it.

A run is leased to a worker by a claim, or at its start: by a call, as a child, as a member of a
graph. All of these are operations that group commit applies in batches, so they are counted there.

Invariants:
- Before a batch is committed, its claims and starts share the free places: the other new runs are
  created as pending, and claimed later.
- A run that a batch has leased occupies a place as *arriving* until its execution exists.
- ``before``, ``lease_member`` and ``after`` are called by the committing thread, one batch after
  another. Meanwhile the loop resumes executions that have waited in memory: places that the batch
  may lease are *promised*, and not given away twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from holdfast.core.program import Definition
from holdfast.core.runs import NewRun, Route
from holdfast.store.database import Operation
from holdfast.store.graphs.operations import (
    AddMembers,
    ReplayMember,
    ResolveGraphs,
    StageGraphs,
    StartedMember,
)
from holdfast.store.runs.operations import Advance, Advanced, Claim, StartChildren, StartRuns

_LEASING = frozenset(
    {StartRuns, StartChildren, Claim, AddMembers, ReplayMember, ResolveGraphs, StageGraphs}
)
"""Operations and effects that may lease runs."""


class Holder(Protocol):
    """An execution of a run."""

    blocking: bool
    """Whether it occupies a thread."""


class Capacity:
    """Counts the active executions of a worker and the runs that are arriving."""

    def __init__(
        self,
        concurrency: int,
        threads: int,
        executions: Mapping[str, Holder],
        definitions: Callable[[], Mapping[str, Definition]],
        freed: Callable[[], object],
    ) -> None:
        self._concurrency: int = concurrency
        self._threads: int = threads
        self._executions: Mapping[str, Holder] = executions
        self._definitions = definitions
        self._freed = freed
        self._resting: set[object] = set()
        """The executions that wait in memory: they occupy no place."""
        self.is_full: bool = False
        """Whether a claim was cut short: runs may wait for the next place."""
        self.claims_blocking: bool = False
        """Whether the claims of this worker may lease runs that need a thread."""
        self._arriving: dict[str, bool] = {}
        """Leased runs without an execution yet, and whether each needs a thread."""
        self._late: set[str] = set()
        self._places: int = 0
        self._promised: int = 0
        """How many places the batch that is being committed may lease."""
        self._lock = threading.Lock()
        """Held while a place is looked for and taken: by the committing thread, and by the loop."""
        self._free_threads: int | None = None
        self._leases: dict[Route, str | None] = {}

    # Free places

    def room(self) -> int:
        """Return how many more runs may be active; negative if too many are. Waiting runs occupy
        no place."""
        return self._concurrency - len(self._executions) + len(self._resting) - len(self._arriving)

    def has_birthplace(self) -> bool:
        """Return whether a new run may be leased at its start: not if memory is full of waiting
        runs."""
        return len(self._executions) < self._concurrency

    def free_threads(self) -> int:
        """Return how many more executions of blocking workflows may exist: each occupies a
        thread, even while it waits."""
        # Copies: the loop changes both while the committing thread counts.
        held = sum(execution.blocking for execution in list(self._executions.values()))
        return self._threads - held - sum(list(self._arriving.values()))

    def rests(self, execution: object) -> None:
        """Record that an execution begins to wait."""
        self._resting.add(execution)
        if self.is_full:
            self._freed()

    def goes_on(self, execution: object) -> None:
        """Record that an execution continues, or no longer exists."""
        self._resting.discard(execution)

    def take_place(self, execution: object) -> bool:
        """Let a waiting execution continue if a place is free. Return whether it may."""
        with self._lock:
            if self.room() - self._promised <= 0:
                return False
            self._resting.discard(execution)
            return True

    def is_exceeded(self) -> bool:
        """Return whether more runs are active, or about to be, than there are places."""
        with self._lock:
            return self.room() - self._promised < 0

    # Before a batch

    def before(self, ops: Sequence[Operation]) -> bool:
        """Limit the starts and claims of a batch to the free places. Return whether it may lease
        any run."""
        for op in ops:
            # Most record a step, which leases none: they are passed over without a call.
            if (type(op) is not Advance or op.effects) and _may_lease(op):
                break
        else:
            return False
        with self._lock:
            self._distribute(ops)
        return True

    def _distribute(self, ops: Sequence[Operation]) -> None:
        self._places = self.room()
        self._promised = 0
        self._free_threads = None
        if self._leases:
            self._leases.clear()
        for op in ops:
            if type(op) is Advance:
                self._admit(op.children())
            elif type(op) is StartRuns:
                self._admit(op.runs)
            elif type(op) is Claim:
                self._limit(op)

    def _admit(self, runs: Iterable[NewRun]) -> None:
        for run in runs:
            if run.session_id is not None and not self._take(run.route):
                run.session_id = None

    def _take(self, route: Route) -> bool:
        """Take a place for a run of that route, if one is free."""
        if self._places <= 0 or (self._is_blocking(route.workflow) and not self._take_thread()):
            return False
        self._places -= 1
        self._promised += 1
        return True

    def lease_member(self, route: Route, lease: Callable[[Route], str | None]) -> str | None:
        """Take a place for a graph member that starts inside the batch. Return its session, or
        None.

        *lease* returns the session for a route.
        """
        if route not in self._leases:
            self._leases[route] = lease(route)
        session_id = self._leases[route]
        if session_id is None:
            return None
        with self._lock:
            # A waiting execution may have taken a place since the batch began.
            is_free = self.room() - self._promised > 0 and self._take(route)
        if is_free:
            return session_id
        return None

    def _limit(self, claim: Claim) -> None:
        """Limit a claim to the places that are free now: the worker requested it a while ago."""
        free = min(self._places, claim.limit)
        if self.claims_blocking:
            free = min(free, self._threads_left())
        self.is_full = self.is_full or free < claim.limit
        claim.limit = max(free, 0)
        self._places -= claim.limit
        self._promised += claim.limit

    def _take_thread(self) -> bool:
        left = self._threads_left()
        self._free_threads = left - 1
        return left > 0

    def _threads_left(self) -> int:
        if self._free_threads is None:
            self._free_threads = self.free_threads()
        return self._free_threads

    def _is_blocking(self, workflow: str) -> bool:
        definition = self._definitions().get(workflow)
        return definition is not None and definition.needs_thread

    # After a batch

    def after(self, ops: Sequence[Operation], answers: Sequence[Any]) -> None:
        """Record which runs a batch has leased."""
        arriving = {
            run_id: self._is_blocking(workflow)
            for op, answer in zip(ops, answers, strict=True)
            if not isinstance(answer, BaseException)
            for run_id, workflow in _leased(op, answer)
        }
        # Together: at no moment does a leased run count neither as promised nor as arriving.
        with self._lock:
            self._arriving.update(arriving)
            self._promised = 0

    def has(self, run_id: str) -> bool:
        """Return whether the worker has an execution of a run, or is about to. May be called by
        any thread."""
        return run_id in self._executions or run_id in self._arriving

    def arrived(self, run_id: str) -> None:
        """Record that the execution of a run exists, or will not."""
        self._arriving.pop(run_id, None)

    def forget_lost(self) -> bool:
        """Stop counting runs that were already arriving at the last call. Return whether there are
        any.

        The caller that should have handed them over is gone.
        """
        lost = self._late & self._arriving.keys()
        for run_id in lost:
            self.arrived(run_id)
        self._late = set(self._arriving)
        return bool(lost)


def _may_lease(op: Operation) -> bool:
    """Return whether an operation may lease runs."""
    if type(op) is not Advance:
        return type(op) in _LEASING
    return bool(op.effects) and any(type(effect) in _LEASING for effect in op.effects)


def _leased(op: Operation, answer: Any) -> list[tuple[str, str]]:
    """Return the ids of the runs that an operation has leased, with their workflows."""
    if isinstance(op, Claim):
        return [(run.id, run.workflow) for run in answer]
    if isinstance(op, StartRuns):
        started = zip(op.runs, answer, strict=True)
        return [(run.id, run.route.workflow) for run, start in started if start.leased]
    if isinstance(op, Advance):
        if not isinstance(answer, Advanced):
            return []
        started = zip(op.children(), answer.started, strict=False)
        children = [(run.id, run.route.workflow) for run, start in started if start.leased]
        return [*children, *((run.id, run.route.workflow) for run, _ in answer.born)]
    if isinstance(op, StageGraphs):
        return [pair for staged in answer for pair in _members(staged.born)]
    if isinstance(op, AddMembers | ReplayMember | ResolveGraphs):
        return _members(answer.born)
    return []


def _members(born: Sequence[StartedMember]) -> list[tuple[str, str]]:
    return [(member.run.id, member.run.route.workflow) for member in born if member.started.leased]
