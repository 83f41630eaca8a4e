"""Ask the resolvers of gates: programs that decide in place of people.

A gate whose type has a resolver is open like any other. This job asks the resolver about each such
gate at the resolver's interval, and decides the gate once the resolver has an answer. Until then
nothing is written: no history grows, and no worker holds the run.

The leader asks at the interval; the other workers ask four times more seldom, in case the leader
lacks the resolver. Two answers do no harm: the gate is decided once.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from holdfast.core.gates.model import APPROVE, REJECT, Gate
from holdfast.core.gates.rules import GateDecision
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.engine.runtime.thread_pool import ThreadPool
from holdfast.engine.runtime.timer_queue import TimerQueue
from holdfast.errors import GateClosed, GateNotFound, HoldfastError
from holdfast.store.gates.operations import DecideGate
from holdfast.store.store import Store

log = logging.getLogger("holdfast")

LOOK = 1_000_000
"""Microseconds between two looks for newly opened gates."""

SELDOM = 4
"""How much more seldom a worker asks that is not the leader."""

ANSWER_CHARACTERS = 10_000
"""The longest feedback of a resolver that is kept."""


class KindResolver(Protocol):
    """A registered resolver of gates of one type."""

    @property
    def run(self) -> Callable[[Any], Any]:
        """The function that is asked: it returns an answer, or None while it has none."""

    @property
    def every(self) -> int:
        """Microseconds between two questions."""


AskOf = Callable[[Gate], Any]
"""Returns the question to a resolver about a gate."""


class Leadership(Protocol):
    """The maintenance of the installation, as one worker sees it."""

    @property
    def is_leader(self) -> bool:
        """Whether this worker is the leader, as far as it knows."""


class ResolverContext(Protocol):
    """The worker, as this job sees it."""

    store: Store
    writer: GroupCommit
    timers: TimerQueue
    threads: ThreadPool

    @property
    def leader(self) -> Leadership:
        """Whether this worker is the leader."""


class GateResolvers:
    """Asks the resolvers of this process about open gates."""

    def __init__(self, context: ResolverContext) -> None:
        self._context: ResolverContext = context
        self.resolvers: Callable[[], Mapping[str, KindResolver]] = dict
        """Returns the resolvers by the type of their gates. The engine of the worker sets it."""
        self.ask_of: AskOf = lambda gate: gate
        self._due: dict[str, int] = {}
        """When each gate is asked about next."""
        self._wake: asyncio.Event = asyncio.Event()
        self._warned: set[str] = set()
        self.busy: bool = False

    async def forever(self) -> None:
        """Ask for ever."""
        while True:
            self._wake.clear()
            resolvers = self.resolvers()
            if resolvers:
                self.busy = True
                try:
                    await self._ask_all(resolvers)
                finally:
                    self.busy = False
                self._set_timer()
            await self._wake.wait()

    def next_ask(self) -> int | None:
        """Return when this process asks about a gate next; None if no gate with a resolver is
        open."""
        look = self._context.store.now() + LOOK
        ids = [id for kind in self.resolvers() for id in self._context.store.gates.of_kind(kind)]
        return min((self._due.get(id, look) for id in ids), default=None)

    def _set_timer(self) -> None:
        """Wake up for the next question, and for gates that are opened meanwhile."""
        look = self._context.store.now() + LOOK
        self._context.timers.at(min([look, *self._due.values()]), self._wake.set)

    async def _ask_all(self, resolvers: Mapping[str, KindResolver]) -> None:
        open_gates: set[str] = set()
        for kind, resolver in resolvers.items():
            ids = self._context.store.gates.of_kind(kind)
            open_gates.update(ids)
            for gate_id in ids:
                now = self._context.store.now()
                if self._due.setdefault(gate_id, now) <= now:
                    every = resolver.every * (1 if self._context.leader.is_leader else SELDOM)
                    self._due[gate_id] = now + every
                    await self._ask(kind, resolver, gate_id)
        self._due = {gate: due for gate, due in self._due.items() if gate in open_gates}

    async def _ask(self, kind: str, resolver: KindResolver, gate_id: str) -> None:
        """Ask about one gate. A resolver that fails has no answer yet."""
        gate = self._context.store.gates.get(gate_id)
        if gate is None:
            return
        try:
            answer = await self._call(resolver.run, self.ask_of(gate))
        except Exception as error:
            if kind not in self._warned:
                self._warned.add(kind)
                log.warning("the resolver of %s gates failed, and is asked again: %s", kind, error)
            return
        self._warned.discard(kind)
        if answer is not None:
            await self._decide(kind, gate, answer)

    async def _call(self, run: Callable[[Any], Any], question: Any) -> Any:
        if inspect.iscoroutinefunction(run):
            return await run(question)
        answer = await self._context.threads.run(lambda: run(question))
        if inspect.isawaitable(answer):
            return await answer
        return answer

    async def _decide(self, kind: str, gate: Gate, answer: Any) -> None:
        approves = getattr(answer, "approves", None)
        if not isinstance(approves, bool):
            log.warning("the resolver of %s gates gave no usable answer: %r", kind, answer)
            return
        feedback = answer.feedback
        decision = GateDecision(
            choice=APPROVE if approves else REJECT,
            by=f"resolver:{kind}",
            feedback=None if feedback is None else str(feedback)[:ANSWER_CHARACTERS],
            is_final=True,
        )
        try:
            await self._context.writer.submit(
                DecideGate(run_id=gate.run_id, gate_id=gate.id, decision=decision)
            )
        except (GateClosed, GateNotFound):
            return  # a person was faster
        except HoldfastError as error:
            log.warning("the answer of the resolver of %s gates was refused: %s", kind, error)
