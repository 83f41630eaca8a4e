"""Explicit leases: what a program that is no Python function does with a run, as transitions, and what their answers mean.

The holder's writes are plain advances, as quick as those of any worker. Only when one is refused does anybody look why: a
call that was made before, by the same holder and with the same outcome, is answered the same.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core import duration, leases
from holdfast.core.duration import Duration
from holdfast.core.leases import FailureKind, Proof, TaskPolicy
from holdfast.core.records import Event, Kind, Route, Run, Session, Signal
from holdfast.core.status import FINAL, Status
from holdfast.engine.client import Client, Moment, Request, instant
from holdfast.engine.ids import new_id
from holdfast.errors import BadOption, LeaseLost
from holdfast.store import contract as c

NOBODY = TaskPolicy()


class Retried(msgspec.Struct, frozen=True):
    """The attempt is made again, at ``at`` (microseconds since 1970)."""

    at: int


class Ended(msgspec.Struct, frozen=True):
    """The run is over."""

    status: Status


class Put(msgspec.Struct, frozen=True):
    """The run is put off, or waits; somebody will claim it again."""

    status: Status
    until: int | None


class Holding:
    """A run that is held by an explicit lease, as far as its holder knows."""

    def __init__(self, proof: Proof, run: Run, seq: int, policy: TaskPolicy) -> None:
        self.proof, self.run, self.seq, self.policy = proof, run, seq, policy
        self.signals: list[Signal] = []
        self.timed_out = False
        self.awaited: str | None = None
        self.failures = leases.Failures()
        self.answered: Any = None
        """What the last call came to, once this lease is over."""


class LeaseDesk:
    """Turns what holders and operators ask into transitions."""

    def __init__(self, client: Client) -> None:
        self._client, self.store, self.codec = client, client.store, client.codec

    @property
    def namespace(self) -> str:
        return self._client.namespace

    # Sessions and claims

    def session(
        self, worker: str, ttl: Duration, workflows: Sequence[str] | None, lanes: Sequence[str] | None
    ) -> tuple[Session, int]:
        """Return a session for a holder, and its lifetime. It has no process that could be looked at: it lives while it is
        renewed."""
        lifetime = duration.parse(ttl)
        if not workflows and not lanes:
            raise BadOption(option="workflows", why="say which workflows, or which lanes, these leases are for")
        if lifetime <= 0:
            raise BadOption(option="ttl", value=ttl, why="a lease lasts longer than nothing")
        now = self.store.now()
        session = Session(
            id=new_id(), worker=worker or socket.gethostname(), host=socket.gethostname(), pid=0, slot=-1, started_at=now,
            beat_at=now, expires_at=now + lifetime, serves=b"{}",
        )  # fmt: skip
        return session, lifetime

    def routes(
        self, workflows: Sequence[str] | None, lanes: Sequence[str] | None, capabilities: Sequence[str]
    ) -> list[tuple[int, str]]:
        """Return the routes that a holder can serve, in this namespace. It says what it serves, so that it does not take what
        Python workers do."""

        def fits(route: Route) -> bool:
            return (
                route.namespace == self.namespace
                and (workflows is None or route.workflow in workflows)
                and (lanes is None or route.lane in lanes)
                and set(route.capabilities) <= set(capabilities)
            )

        return [(number, route.lane) for number, route in self.store.routes().items() if fits(route)]

    def dead_sessions(self, own: str) -> list[c.EndSession]:
        """Return what frees the runs of those who are gone: a holder looks after others, too."""
        now = self.store.now()
        gone = [one for one in self.store.sessions() if one.id != own and one.expires_at < now]
        return [c.EndSession(one.id, crashed=True) for one in gone]

    def holding(self, session_id: str, leased: c.Leased) -> Holding:
        """Return a lease that was just claimed."""
        run = leased.run
        policy = NOBODY if leased.policy is None else msgspec.json.decode(leased.policy, type=TaskPolicy)
        held = Holding(Proof(run.id, run.generation, session_id), run, leased.seq, policy)
        if leased.seq:
            self._look_back(held)
        return held

    def _look_back(self, held: Holding) -> None:
        history = self.store.history(held.run.id)
        held.failures = leases.failures_in(history)
        awaited = next((event for event in reversed(history) if event.kind == Kind.SIGNAL_AWAITED), None)
        answered = {event.step for event in history if event.kind in (Kind.SIGNAL_RECEIVED, Kind.SIGNAL_TIMED_OUT)}
        if awaited is None or awaited.step in answered:
            return
        names = msgspec.json.decode(awaited.data or b"{}").get("names", [])
        found = [signal for signal in self.store.signals(held.run.id) if signal.name in names]
        held.signals = self._client.vault.signals(held.run.id, found)
        held.timed_out = not held.signals
        held.awaited = awaited.step

    def awoken(self, held: Holding) -> Request | None:
        """Return what records that a wait is over, once, before its holder hears of it."""
        if not held.signals and not held.timed_out:
            return None
        step = held.awaited
        events = [Event(Kind.SIGNAL_RECEIVED, step, signal.payload) for signal in held.signals]
        taken = [signal.id for signal in held.signals]
        return self._write(held, events or [Event(Kind.SIGNAL_TIMED_OUT, step)], None, status=Status.RUNNING, taken=taken)

    def again(self, text: object) -> Holding:
        """Return the lease that a proof shows, as long as it stands. Raises BadLease, LeaseLost."""
        proof = leases.read_proof(text)
        run = self._run(proof)
        history = self.store.history(proof.run_id)
        seq = history[-1].seq if history else 0
        held = Holding(proof, run, seq, self._policy(run.id))
        held.failures = leases.failures_in(history)
        return held

    def _policy(self, run_id: str) -> TaskPolicy:
        rows = self.store.belongings(run_id).get("task", [])
        return msgspec.json.decode(rows[0][0], type=TaskPolicy) if rows else NOBODY  # type: ignore[arg-type]

    def _run(self, proof: Proof) -> Run:
        run = self.store.run(proof.run_id)
        if run is None or run.namespace != self.namespace:
            raise LeaseLost(run=proof.run_id, generation=proof.generation, why="there is no such lease")
        return run

    # What a holder does

    def complete(self, held: Holding, result: Any) -> Request:
        """End the run well."""
        data = self.codec.encode(result, what="the result")
        ended = Ended(Status.COMPLETED)
        return self._write(held, [Event(Kind.RUN_COMPLETED)], ended, status=Status.COMPLETED, result=data)

    def fail(self, held: Holding, kind: str, message: str, details: Mapping[str, Any] | None) -> Request:
        """Say that the attempt failed; what follows is as the kind and the policy say."""
        if kind not in set(FailureKind):
            raise BadOption(option="kind", value=kind, known=", ".join(FailureKind))
        error = msgspec.json.encode({"type": kind, "message": message, "facts": dict(details or {})})
        wait = leases.decide(held.policy, FailureKind(kind), held.failures, random.random())
        until = None if wait is None else self.store.now() + wait
        failed = Event(Kind.ATTEMPT_FAILED, None, msgspec.json.encode({"kind": kind, "until": until}), error)
        if until is not None:
            return self._write(held, [failed], Retried(until), status=Status.PENDING, keep=False, wake_at=until if wait else None)
        cancelled = kind == FailureKind.CANCELLED
        status = Status.CANCELLED if cancelled else Status.FAILED
        over = Event(Kind.RUN_CANCELLED if cancelled else Kind.RUN_FAILED, error=error)
        return self._write(held, [failed, over], Ended(status), status=status, error=error)

    def delay(self, held: Holding, until: Moment) -> Request:
        """Put the run off; it is no failed attempt."""
        at = instant(until, self.store.now())
        event = Event(Kind.RUN_DELAYED, None, msgspec.json.encode({"until": at}))
        return self._write(held, [event], Put(Status.PENDING, at), status=Status.PENDING, keep=False, wake_at=at)

    def suspend(self, held: Holding, names: Sequence[str], timeout: Duration | None) -> Request:
        """Let the run wait for one of these signals; whoever claims it next is told which came."""
        if not names or not all(isinstance(name, str) and name for name in names):
            raise BadOption(option="signals", value=list(names), why="name the signals that end the wait")
        until = None if timeout is None else self.store.now() + duration.parse(timeout)
        step = f"wait {held.proof.generation}"
        event = Event(Kind.SIGNAL_AWAITED, step, msgspec.json.encode({"names": list(names), "until": until}))
        waits = [{"kind": "signal", "name": name, "step": step, "until": until} for name in names]
        run = self._run(held.proof)
        if any(signal.name in names for signal in self.store.signals(held.run.id)):  # it came before the wait
            return self._write(held, [event], Put(Status.PENDING, None), status=Status.PENDING, keep=False)
        return self._write(
            held, [event], Put(Status.WAITING, until), status=Status.WAITING, keep=False, waits=msgspec.json.encode(waits),
            wake_at=until, revision=run.revision,
        )  # fmt: skip

    def _write(self, held: Holding, events: list[Event], outcome: Any, **place: Any) -> Request:
        for number, event in enumerate(events, start=held.seq + 1):
            event.seq = number
        run, parent = held.run, None
        if run.parent_id is not None and place["status"] in FINAL:
            parent = (run.parent_id, run.parent_step or "", run.parent_index)
        op = c.Advance(run_id=run.id, generation=held.proof.generation, events=events, parent=parent, **place)

        def understand(answer: Any) -> Any:
            held.seq += len(events)
            held.answered = outcome
            return answer if isinstance(answer, c.Changed) else outcome

        return Request(op, understand)

    def explain(self, held: Holding, request: Request, refused: LeaseLost) -> Any:
        """A write was refused: answer as before if it is the same one again, else raise LeaseLost with what has happened."""
        op = request.op
        assert isinstance(op, c.Advance)
        run = self._run(held.proof)
        if self._is_the_same(op, run):
            return self._first_answer(op, run) or request.understand(None)
        why = "the run has ended" if run.status in FINAL else "the lease was taken back, or ran out"
        raise LeaseLost(run=run.id, generation=held.proof.generation, why=why, status=run.status.value) from refused

    def _first_answer(self, op: c.Advance, run: Run) -> Any:
        """Return what the first of two equal calls was answered, where it depends on when it was made."""
        if op.status in FINAL:
            return None
        last = self.store.history(run.id)[-1]
        until = msgspec.json.decode(last.data or b"{}").get("until")
        return Retried(until) if last.kind == Kind.ATTEMPT_FAILED else Put(op.status or run.status, until)

    def _is_the_same(self, op: c.Advance, run: Run) -> bool:
        if run.generation != op.generation or run.session_id is not None:
            return False
        if op.status in FINAL:
            run = self._client.vault.run(run)
            return (run.status, run.result, run.error) == (op.status, op.result, op.error)
        history = self._client.vault.events(run.id, self.store.history(run.id)[-len(op.events) :])
        last = [(event.kind, event.step, event.error) for event in history]
        return last == [(event.kind, event.step, event.error) for event in op.events]

    # What operators do

    def revoke(self, run_id: str, reason: str, session_id: str | None) -> Request:
        """Take a run from its holder; the answer is whether anybody held it."""
        return Request(c.RevokeLease(run_id=run_id, namespace=self.namespace, reason=reason, session_id=session_id), bool)

    def priority(self, run_id: str, priority: int) -> Request:
        """Change the priority of a run; the answer is the old one."""
        if isinstance(priority, bool) or not isinstance(priority, int) or not -1000 <= priority <= 1000:
            raise BadOption(option="priority", value=priority, why="it is a whole number from -1000 to 1000")
        return Request(c.SetPriority(run_id=run_id, namespace=self.namespace, priority=priority), int)

    def override(self, run_id: str, reason: str, *, result: Any, failed: bool) -> Request:
        """End a run as an operator says."""
        if not reason:
            raise BadOption(option="reason", why="say why: it is kept in the history")
        error = msgspec.json.encode({"type": "Overridden", "message": reason}) if failed else None
        data = None if failed else self.codec.encode(result, what="the result")
        status = Status.FAILED if failed else Status.COMPLETED
        op = c.OverrideRun(
            run_id=run_id, namespace=self.namespace, status=status, reason=reason, result=data, error=error
        )  # fmt: skip
        return Request(op, Status)

    def input(self, run: Run) -> Any:
        """Return the arguments of a run as plain data."""
        return self.codec.decode(self._client.vault.open(run.input, f"the input of run {run.id}"))


def told(held: Holding) -> dict[str, Any]:
    """Return a lease as plain data, for programs that read JSON."""
    run = held.run
    return {
        "lease": str(held.proof),
        "run": run.id,
        "workflow": run.workflow,
        "lane": run.lane,
        "generation": held.proof.generation,
        "attempt": held.failures.retried + 1,
    }
