"""A crash scenario: one run of a workflow from start to end, through as many engines as needed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any, NamedTuple

import msgspec

from holdfast.authoring import registry
from holdfast.core.events import Event
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
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import EndSession
from holdfast.testing.clock import VirtualClock
from holdfast.testing.engine_internals import internals
from holdfast.testing.faults import Crash, Fault, FaultyStore
from holdfast.testing.lab import HOPS, Lab, NeverEnds, hasty_store
from holdfast.testing.recorder import RUN, CommitRecorder, RecordingProgram
from holdfast.views.gates import GateView


class ScenarioScript(NamedTuple):
    """The part that all scenarios of one ``crash_everywhere`` share; its docstring explains the
    fields."""

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
    people: list[Callable[[Lab, GateView], object]]
    clear: Callable[[], object] | None


class ScenarioResult(NamedTuple):
    """The end of a scenario: runs, histories, broken laws of the database, and the record."""

    runs: list[RunRecord]
    histories: dict[str, list[Event]]
    broken: list[str]
    ledger: CommitRecorder

    @property
    def run(self) -> RunRecord:
        """The run that the scenario disturbed."""
        return next(run for run in self.runs if run.id == RUN)


class Scenario:
    """An empty database, a new virtual clock, and one engine after another, each with its planned
    fault; the last one has none."""

    def __init__(self, script: ScenarioScript, path: str, plans: list[Fault]) -> None:
        self.script: ScenarioScript = script
        self.path: str = path
        self._plans: list[Fault] = plans
        self.clock: VirtualClock = VirtualClock()
        self.ledger: CommitRecorder = CommitRecorder(script.cancel_at)
        self._sent: int = 0
        """How many signals of the script were sent."""
        self._decided: int = 0
        """How many people of the script have acted."""
        self._gate_ids: dict[int, str] = {}
        """The gate on which each of the people acts, by the index of the person."""
        self._zombies: list[Lab] = []
        self._has_died: bool = False
        """Whether the last engine has died, and its session is to be ended."""
        self._histories: dict[str, list[Event]] = {}

    def play(self) -> ScenarioResult:
        """Run engines, one after another, until all runs have ended. Raises NeverEnds."""
        self._clear()
        self.script.setup()
        try:
            for number, plan in enumerate([*self._plans, None]):
                result = self._run_engine(number, plan)
                if result is not None:
                    return result
        finally:
            for zombie in self._zombies:
                zombie.close()
        raise AssertionError("the last engine has no planned fault, and yet it did not finish")

    def _clear(self) -> None:
        """Begin with an empty database: a copy of an empty one, which saves creating the schema."""
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

    def _run_engine(self, number: int, plan: Fault | None) -> ScenarioResult | None:
        """Run an engine until all runs have ended; return None if its fault came first."""
        inner = hasty_store(self.path, self.clock)
        if self._has_died:
            self._end_dead_sessions(inner)
        store = FaultyStore(self.script.wrap(inner), self.ledger, plan, engine=number)
        lab = self._open(store, number)
        if lab is None:
            return None
        try:
            is_complete = self._try_script(lab, store)
        except BaseException:
            lab.abandon()  # an engine left open would write to the folder while it is removed
            raise
        if not (is_complete and store.spare()):
            if store.dead:
                lab.abandon()
                self._has_died = True
            else:
                self._zombies.append(lab)
            return None
        try:
            return self._result(lab)
        finally:
            lab.close()

    def _end_dead_sessions(self, store: Any) -> None:
        """End the sessions of dead engines in a database that is not a file.

        With a file, workers detect at once which processes have died. With a server they would
        wait for the expiry of the session, and the virtual clock stands still.
        """
        if self.script.clear is not None:
            sessions = store.sessions.all()
            store.apply([EndSession(session.id, crashed=True) for session in sessions])
        self._has_died = False

    def _open(self, store: FaultyStore, number: int) -> Lab | None:
        known = {**registry.unique_definitions(), self.script.workflow.name: self.script.workflow}
        recording = [
            RecordingProgram(workflow, self.ledger, engine=number) for workflow in known.values()
        ]
        try:
            return Lab(
                self.path, clock=self.clock, store=store, workflows=recording, **self.script.engine
            )
        except (Crash, EngineClosed):  # opening commits, too, as when a database becomes encrypted
            if store.dead:
                return None
            raise

    def _try_script(self, lab: Lab, store: FaultyStore) -> bool:
        """Execute the script; return False if the engine died meanwhile or is a zombie now."""
        try:
            return self._execute_script(lab, store)
        except Crash:
            return False
        except EngineClosed:
            if store.dead:
                return False
            raise

    def _execute_script(self, lab: Lab, store: FaultyStore) -> bool:
        """Start the run and move it until all runs have ended; return False after a fault.

        Raises NeverEnds.
        """
        script = self.script
        lab.run_until_idle()
        lab.start(script.workflow.name, *script.args, **script.kwargs, **script.options, id=RUN)
        self.ledger.cancel_when_due(store.apply)
        if script.early:
            self._send(lab, len(script.signals))
        for _ in range(HOPS):
            lab.run_until_idle()
            if store.dead or store.lost:
                return False
            if not self._advance(lab):
                return True
        raise NeverEnds(f"run {RUN} has not ended after {HOPS} moves of time: {lab.explain(RUN)}")

    def _advance(self, lab: Lab) -> bool:
        """Make a run move: by a signal, a person, or time; return False if all have ended.

        Raises NeverEnds if none of them can.
        """
        unfinished = [
            run
            for run in internals(lab.engine).store.runs.find(RunFilter(limit=10_000))
            if run.status not in FINAL | {Status.STUCK}
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
        """Send the signals up to number *until*. A signal that a crash may have lost is sent again,
        which is safe because of its key."""
        while self._sent < until:
            signal = self.script.signals[self._sent]
            with suppress(RunFinished, WaitClosed):
                if isinstance(signal, tuple):
                    lab.signal(RUN, *signal, key=f"signal {self._sent}")
                else:
                    signal(lab)
            self._sent += 1

    def _ask_people(self, lab: Lab) -> bool:
        """Let the next person act on a gate; return False if there is none.

        After a crash, which may have lost the action, the person acts again on the same gate.
        """
        gate = self._gate_to_decide(lab)
        if gate is None:
            return False
        self._gate_ids[self._decided] = gate.id
        with suppress(GateClosed, AlreadyDecided, NotYourGate):
            self.script.people[self._decided](lab, gate)
        return True

    def _gate_to_decide(self, lab: Lab) -> GateView | None:
        if self._decided in self._gate_ids:
            return lab.engine.gates.get(self._gate_ids[self._decided])
        return next(iter(lab.engine.gates.list(limit=1)), None)

    def _result(self, lab: Lab) -> ScenarioResult:
        # Zombies get the chance to write first: the checks must find out if they could.
        for zombie in self._zombies:
            zombie.run_until_idle()
        parts = internals(lab.engine)
        runs = [
            parts.sealer.opener.run(run) for run in parts.store.runs.find(RunFilter(limit=10_000))
        ]
        self._histories = {run.id: parts.client.history(run.id) for run in runs}
        self.script.check(lab)
        return ScenarioResult(runs, self._histories, lab.engine.database.check(), self.ledger)

    def shown(self) -> str:
        """Return the histories as readable text; empty if they cannot be read."""
        with suppress(Exception):
            self._histories = self._histories or self._read_histories()
        return "\n".join(
            line
            for run_id, events in self._histories.items()
            for line in [f"run {run_id}", *map(_line, events)]
        )

    def _read_histories(self) -> dict[str, list[Event]]:
        with closing(hasty_store(self.path, self.clock)) as store:
            return {
                run.id: store.runs.history(run.id)
                for run in store.runs.find(RunFilter(limit=10_000))
            }


def _awaits_signal(run: RunRecord) -> bool:
    waits = msgspec.json.decode(run.waits or b"[]")
    return run.id == RUN and any(wait.get("kind") in ("signal", "wait") for wait in waits)


def _line(event: Event) -> str:
    attempt = f" attempt {event.attempt}" if event.attempt > 1 else ""
    data = (event.data or event.error or b"").decode("utf-8", "backslashreplace")
    return f"  {event.seq:3} {event.kind} {event.step or ''}{attempt} {data[:100]}".rstrip()
