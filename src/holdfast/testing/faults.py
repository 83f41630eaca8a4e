"""A store that counts its commits and, at the one it was told, dies like a killed process or loses
its leases to another."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from holdfast.core.events import EventKind
from holdfast.errors import EngineClosed
from holdfast.store.contract import Operation
from holdfast.store.contract.payloads import SaveSetting
from holdfast.store.contract.runs import (
    Advance,
    Claim,
    EndSession,
    ExpireRuns,
    Heartbeat,
    OpenSession,
    RevisionChanged,
)
from holdfast.testing.recorder import CommitRecorder

BEFORE, WITHIN, AFTER, ZOMBIE = "before", "within", "after", "zombie"

_OF_THE_DEAD = frozenset({"url", "close", "free_slot", "hints", "now", "overlaps"})
"""What may still be called when the process is dead: what the system itself would do."""


class Crash(BaseException):
    """The process dies here."""


class Fault(NamedTuple):
    """At which commit of an engine, and on which side of it, something happens to that engine."""

    at: int
    side: str

    def __str__(self) -> str:
        if self.side == ZOMBIE:
            return f"another worker took over before commit {self.at}"
        return f"a crash {self.side} commit {self.at}"


class FaultyStore:
    """A store between an engine and the real one. What it is not asked to disturb it passes on."""

    def __init__(
        self, store: Any, ledger: CommitRecorder, plan: Fault | None = None, *, engine: int = 0
    ) -> None:
        self._store, self._ledger, self._plan, self._engine = store, ledger, plan, engine
        self._session_id = ""
        self.count = 0
        self.dead = False
        self.lost = False
        self._fate = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        if self.dead and name not in _OF_THE_DEAD:
            raise EngineClosed(why="its process is dead")
        return getattr(self._store, name)

    def apply(self, batch: Sequence[Operation]) -> list[Any]:
        """Apply a batch, or die."""
        if self.dead:
            raise EngineClosed(why="its process is dead")
        self.count += 1
        plan = self._plan  # whoever spares the engine takes it away at any moment
        side = plan.side if plan is not None and plan.at == self.count else None
        self._prepare(batch, side)
        answers = self._applied(batch)
        self._ledger.note(self._engine, batch, answers)
        if (
            not self.lost
        ):  # a zombie sees what happens elsewhere too late to be the one who acts on it
            self._ledger.cancel_when_due(self._store.apply)
        if side == AFTER:
            self._die()
        return answers

    def _applied(self, batch: Sequence[Operation]) -> list[Any]:
        """Apply a batch. A zombie that asks whether its session lives is told that it does: it is
        to find out by itself."""
        if not self.lost:
            return list(self._store.apply(batch))
        answers = iter(self._store.apply([op for op in batch if not isinstance(op, Heartbeat)]))
        return [True if isinstance(op, Heartbeat) else next(answers) for op in batch]

    def spare(self) -> bool:
        """It is over: let nothing happen to this engine any more; False if it has happened
        already."""
        with self._fate:
            self._plan = None
            return not (self.dead or self.lost)

    def _prepare(self, batch: Sequence[Operation], side: str | None) -> None:
        for op in batch:
            if isinstance(op, OpenSession):
                self._session_id = op.session.id
            elif side == WITHIN and isinstance(op, Advance) and op.body is not None:
                op.body = self._fatal(op.body)
        if side == BEFORE:
            self._die()
        elif side == ZOMBIE and self._loses():
            self._store.apply([EndSession(self._session_id, crashed=True)])

    def _fatal(self, body: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
        def die_in_the_transaction(connection: Any) -> bytes:
            result = body(connection)
            self._die()
            return result

        return die_in_the_transaction

    def _loses(self) -> bool:
        """Become a zombie; False if spared at the last moment."""
        with self._fate:
            self.lost = self._plan is not None
            if self.lost:
                self._ledger.zombies.add(self._engine)
            return self.lost

    def _die(self) -> None:
        with self._fate:
            if self._plan is None:
                return  # spared at the last moment
            self.dead = True
            self._ledger.dead.add(self._engine)
            raise Crash(f"{self._plan}")


def has_effect(batch: Sequence[Operation], answers: Sequence[Any]) -> bool:
    """Say whether a commit left anything behind that a crash could lose; an empty claim or a
    heartbeat did not."""
    return any(_has_effect(op, answer) for op, answer in zip(batch, answers, strict=True))


def _has_effect(op: Operation, answer: Any) -> bool:
    if isinstance(op, Heartbeat | OpenSession | SaveSetting) or isinstance(
        answer, Exception | RevisionChanged
    ):
        return False
    return bool(answer) if isinstance(op, Claim | ExpireRuns | EndSession) else True


def describe(batch: Sequence[Operation]) -> str:
    """Say what a commit is about."""
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
