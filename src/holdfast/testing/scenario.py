"""One run of a workflow from start to end, through as many engines as it takes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from holdfast.authoring import registry
from holdfast.core.events import Event
from holdfast.core.gates.model import OPEN, Gate
from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL, Status
from holdfast.errors import (
    AlreadyDecided,
    EngineClosed,
    GateClosed,
    NotYourGate,
    RunFinished,
    WaitClosed,
)
from holdfast.store.contract import EndSession, GateFilter, RunFilter
from holdfast.testing.clock import VirtualClock
from holdfast.testing.faults import Crash, Fault, FaultyStore
from holdfast.testing.lab import HOPS, Lab, NeverEnds, hasty_store
from holdfast.testing.recorder import RUN, CommitRecorder, RecordingProgram


class ScenarioScript(NamedTuple):
    """What is done in every scene."""

    workflow: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    options: dict[str, Any]
    signals: list[tuple[str, Any] | Callable[[Lab], object]]
    early: bool
    cancel_at: int | str | None
    setup: Callable[[], object]
    check: Callable[[Lab], object]
    engine: dict[str, Any]
    wrap: Callable[[Any], Any]
    people: list[Callable[[Lab, Gate], object]]
    clear: Callable[[], object] | None


class ScenarioResult(NamedTuple):
    """How a scene ended."""

    runs: list[RunRecord]
    histories: dict[str, list[Event]]
    broken: list[str]
    ledger: CommitRecorder

    @property
    def run(self) -> RunRecord:
        """The run that was disturbed."""
        return next(run for run in self.runs if run.id == RUN)


class Scenario:
    """A fresh file, time that begins anew, and one engine after another, each with the fate that
    was planned for it."""

    def __init__(self, script: ScenarioScript, path: str, plans: list[Fault]) -> None:
        self.script, self.path, self._plans = script, path, plans
        self.clock, self.ledger = VirtualClock(), CommitRecorder(script.cancel_at)
        self._sent = 0
        self._decided = 0
        self._aims: dict[int, str] = {}
        self._zombies: list[Lab] = []
        self._histories: dict[str, list[Event]] = {}

    def play(self) -> ScenarioResult:
        """Play it to the end."""
        self._clear()
        self.script.setup()
        try:
            for number, plan in enumerate([*self._plans, None]):
                ending = self._live(number, plan)
                if ending is not None:
                    return ending
        finally:
            for zombie in self._zombies:
                zombie.close()
        raise AssertionError("the last engine has no plan to die")

    def _clear(self) -> None:
        """Begin with an empty database: a copy of one, for that is faster than to make it."""
        if self.script.clear is not None:
            self.script.clear()
            return
        for suffix in ("-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.remove(self.path + suffix)
        empty = f"{self.path}.empty"
        if not os.path.exists(empty):
            hasty_store(empty, self.clock).close()
        shutil.copyfile(empty, self.path)

    def _live(self, number: int, plan: Fault | None) -> ScenarioResult | None:
        """Let an engine go as far as it goes; None if it did not come to the end."""
        store = FaultyStore(
            self.script.wrap(hasty_store(self.path, self.clock)), self.ledger, plan, engine=number
        )
        lab = self._open(store, number)
        if lab is None:
            return None
        try:
            is_performed = self._performed(lab, store)
        except BaseException:
            lab.abandon()  # an engine left open would write to the folder while it is removed
            raise
        if not (is_performed and store.spare()):
            if store.dead:
                lab.abandon()
                self._bury()
            else:
                self._zombies.append(lab)
            return None
        try:
            return self._end(lab)
        finally:
            lab.close()

    def _bury(self) -> None:
        """Beside a file every worker sees at once who has died; elsewhere they would wait, by a
        clock that stands still."""
        if self.script.clear is not None:
            store = hasty_store(self.path, self.clock)
            store.apply([EndSession(session.id, crashed=True) for session in store.sessions()])
            store.close()

    def _open(self, store: FaultyStore, number: int) -> Lab | None:
        known = {**registry.known(), self.script.workflow.name: self.script.workflow}
        watched = [RecordingProgram(one, self.ledger, engine=number) for one in known.values()]
        try:
            return Lab(
                self.path, clock=self.clock, store=store, workflows=watched, **self.script.engine
            )
        except EngineClosed:
            if store.dead:
                return None
            raise

    def _performed(self, lab: Lab, store: FaultyStore) -> bool:
        """Do what the script says; False if the engine died of it or is a zombie now."""
        try:
            return self._perform(lab, store)
        except Crash:
            return False
        except EngineClosed:
            if store.dead:
                return False
            raise

    def _perform(self, lab: Lab, store: FaultyStore) -> bool:
        script = self.script
        lab.settle()
        lab.start(script.workflow.name, *script.args, **script.kwargs, **script.options, id=RUN)
        self.ledger.cancel_when_due(store.apply)
        if script.early:
            self._send(lab, len(script.signals))
        for _ in range(HOPS):
            lab.settle()
            if store.dead or store.lost:
                return False
            if not self._go_on(lab):
                return True
        raise NeverEnds(f"it goes on and on: {lab.explain(RUN)}")

    def _go_on(self, lab: Lab) -> bool:
        """Do the next thing that makes a run move; False if all have ended."""
        unfinished = [
            run for run in lab.engine.runs(limit=10_000) if run.status not in FINAL | {Status.STUCK}
        ]
        if not unfinished:
            return False
        if self._sent < len(self.script.signals) and any(_awaits_signal(run) for run in unfinished):
            self._send(lab, self._sent + 1)
        elif self._decided < len(self.script.people) and self._ask_people(lab):
            self._decided += 1
        elif not lab.hop():
            run = unfinished[-1]
            raise NeverEnds(
                f"run {run.id} of {run.workflow} cannot end by the mere passing of time:"
                f" {lab.explain(run.id)}"
            )
        return True

    def _send(self, lab: Lab, until: int) -> None:
        """Send the next signals. The key makes it safe to send again what may have got lost in a
        crash."""
        while self._sent < until:
            given = self.script.signals[self._sent]
            with suppress(RunFinished, WaitClosed):
                if isinstance(given, tuple):
                    lab.signal(RUN, *given, key=f"signal {self._sent}")
                else:
                    given(lab)
            self._sent += 1

    def _ask_people(self, lab: Lab) -> bool:
        """Let people do the next thing about a gate; what may have got lost in a crash is done
        again, to the same gate."""
        gate = self._aimed_at(lab)
        if gate is None:
            return False
        self._aims[self._decided] = gate.id
        with suppress(GateClosed, AlreadyDecided, NotYourGate):
            self.script.people[self._decided](lab, gate)
        return True

    def _aimed_at(self, lab: Lab) -> Gate | None:
        store = lab.engine._parts.store
        if self._decided in self._aims:
            return store.gate(self._aims[self._decided])
        return next(iter(store.gates(GateFilter(statuses=[OPEN], limit=1))), None)

    def _end(self, lab: Lab) -> ScenarioResult:
        for zombie in self._zombies:
            zombie.settle()
        runs = [lab.engine.run(run.id).record for run in lab.engine.runs(limit=10_000)]
        self._histories = {run.id: lab.history(run.id) for run in runs}
        self.script.check(lab)
        return ScenarioResult(runs, self._histories, lab.engine.check(), self.ledger)

    def shown(self) -> str:
        """Return the histories, for people."""
        with suppress(Exception):
            self._histories = self._histories or self._read()
        return "\n".join(
            line
            for run_id, events in self._histories.items()
            for line in [f"run {run_id}", *map(_line, events)]
        )

    def _read(self) -> dict[str, list[Event]]:
        store = hasty_store(self.path, self.clock)
        try:
            return {run.id: store.history(run.id) for run in store.runs(RunFilter(limit=10_000))}
        finally:
            store.close()


def _awaits_signal(run: RunRecord) -> bool:
    waits = msgspec.json.decode(run.waits or b"[]")
    return run.id == RUN and any(wait.get("kind") in ("signal", "wait") for wait in waits)


def _line(event: Event) -> str:
    attempt = f" attempt {event.attempt}" if event.attempt > 1 else ""
    data = (event.data or event.error or b"").decode("utf-8", "backslashreplace")
    return f"  {event.seq:3} {event.kind} {event.step or ''}{attempt} {data[:100]}".rstrip()
