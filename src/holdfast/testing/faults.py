"""Fault injection: a store that counts commits and, at a planned commit, crashes or loses its
leases to another worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from holdfast.core.events import EventKind
from holdfast.errors import EngineClosed
from holdfast.store.database import Operation
from holdfast.store.effects import RevisionChanged
from holdfast.store.payloads.operations import SaveSetting
from holdfast.store.runs.operations import (
    Advance,
    Claim,
    EndSession,
    ExpireRuns,
    Heartbeat,
    OpenSession,
)
from holdfast.testing.recorder import CommitRecorder

BEFORE = "before"
WITHIN = "within"
AFTER = "after"
ZOMBIE = "zombie"

_OF_THE_DEAD = frozenset(
    {"url", "close", "liveness", "hints", "now", "overlaps_commits", "database"}
)
"""The methods that work after the simulated death of the process: cleanup that an operating system
would do."""


class Crash(BaseException):
    """The simulated death of the process."""


class Fault(NamedTuple):
    """A planned fault: the number of the commit of an engine, and the side of that commit."""

    at: int
    side: str

    def __str__(self) -> str:
        if self.side == ZOMBIE:
            return f"another worker took over before commit {self.at}"
        return f"a crash {self.side} commit {self.at}"


class FaultyStore:
    """A store between an engine and the real store; it passes everything on until its fault."""

    def __init__(
        self, store: Any, ledger: CommitRecorder, plan: Fault | None = None, *, engine: int = 0
    ) -> None:
        self._store: Any = store
        self._ledger: CommitRecorder = ledger
        self._plan: Fault | None = plan
        self._engine: int = engine
        self._session_id: str = ""
        self.count: int = 0
        """How many commits there were."""
        self.dead: bool = False
        self.lost: bool = False
        """Whether another worker has taken over, so that this engine is a zombie."""
        self._fate: threading.Lock = threading.Lock()
        """Guards the decision between the fault and ``spare``: only one of them happens."""

    def __getattr__(self, name: str) -> Any:
        if self.dead and name not in _OF_THE_DEAD:
            raise EngineClosed(why="its process is dead")
        return getattr(self._store, name)

    def apply(self, batch: Sequence[Operation]) -> list[Any]:
        """Apply a batch. Raises Crash at the planned fault, EngineClosed after it."""
        if self.dead:
            raise EngineClosed(why="its process is dead")
        self.count += 1
        plan = self._plan  # read once: spare() may clear it at any moment
        side = plan.side if plan is not None and plan.at == self.count else None
        self._prepare(batch, side)
        answers = self._apply_to_store(batch)
        self._ledger.note(self._engine, batch, answers)
        if not self.lost:  # a zombie reads the other engine's commits too late to act on them
            self._ledger.cancel_when_due(self._store.apply)
        if side == AFTER:
            self._die()
        return answers

    def _apply_to_store(self, batch: Sequence[Operation]) -> list[Any]:
        """Apply a batch, but answer the heartbeats of a zombie as if its session lived: its writes
        must be refused by their generation alone."""
        if not self.lost:
            return list(self._store.apply(batch))
        answers = iter(self._store.apply([op for op in batch if not isinstance(op, Heartbeat)]))
        return [True if isinstance(op, Heartbeat) else next(answers) for op in batch]

    def spare(self) -> bool:
        """Cancel the planned fault; return False if it has happened already."""
        with self._fate:
            self._plan = None
            return not (self.dead or self.lost)

    def _prepare(self, batch: Sequence[Operation], side: str | None) -> None:
        for op in batch:
            if isinstance(op, OpenSession):
                self._session_id = op.session.id
            elif side == WITHIN and isinstance(op, Advance) and op.body is not None:
                op.body.call = self._fatal(op.body.call)
        if side == BEFORE:
            self._die()
        elif side == ZOMBIE and self._session_id and self._become_zombie():
            # Without a session there is nothing that another worker could take over.
            self._store.apply([EndSession(self._session_id, crashed=True)])

    def _fatal(self, body: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
        """Return a body that dies at its end, inside the transaction."""

        def die_in_the_transaction(connection: Any) -> bytes:
            result = body(connection)
            self._die()
            return result

        return die_in_the_transaction

    def _become_zombie(self) -> bool:
        """Become a zombie; return False if the fault was cancelled meanwhile."""
        with self._fate:
            self.lost = self._plan is not None
            if self.lost:
                self._ledger.zombies.add(self._engine)
            return self.lost

    def _die(self) -> None:
        with self._fate:
            if self._plan is None:
                return  # spare() came first
            self.dead = True
            self._ledger.dead.add(self._engine)
            raise Crash(f"{self._plan}")


def has_effect(batch: Sequence[Operation], answers: Sequence[Any]) -> bool:
    """Return whether a commit wrote anything that a crash could lose; an empty claim or a heartbeat
    did not."""
    return any(_has_effect(op, answer) for op, answer in zip(batch, answers, strict=True))


def _has_effect(op: Operation, answer: Any) -> bool:
    if isinstance(op, Heartbeat | OpenSession | SaveSetting) or isinstance(
        answer, Exception | RevisionChanged
    ):
        return False
    if isinstance(op, Claim | ExpireRuns | EndSession):
        return bool(answer)
    return True


def describe(batch: Sequence[Operation]) -> str:
    """Return a readable description of a commit."""
    return ", ".join(_describe(op) for op in batch)


def _describe(op: Operation) -> str:
    if not isinstance(op, Advance):
        return type(op).__name__
    events = [
        f"{event.kind} {event.step or ''}".strip()
        for event in op.events
        if event.kind != EventKind.TIMER_SET
    ]
    return " + ".join(events) or (op.status.value if op.status is not None else "nothing")
