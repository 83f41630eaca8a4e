"""``crash_everywhere``: run a workflow once per possible crash, and compare the ends.

For every commit of the undisturbed run there is a run that crashes just before it, one that crashes
just after it, and one in which the worker is taken for dead and continues as a zombie. A commit
with a transactional step also gets a crash within it. Some runs crash a second time while they
recover.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.store.runs.operations import Advance
from holdfast.testing.checks import differences, flaws
from holdfast.testing.faults import AFTER, BEFORE, WITHIN, ZOMBIE, Fault, describe, has_effect
from holdfast.testing.lab import Lab
from holdfast.testing.scenario import Scenario, ScenarioResult, ScenarioScript
from holdfast.views.gates import GateView

Signal = str | tuple[str, Any] | Callable[[Lab], object]


class BrokenPromise(AssertionError):
    """After a crash the workflow did not come to the same end as without it."""


class CrashReport(NamedTuple):
    """How many commits and disturbed runs there were, and how long they took."""

    boundaries: int
    runs: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.boundaries} commits, {self.runs} disturbed runs in {self.seconds:.1f} s: all"
            " came to the same end"
        )


def crash_everywhere(
    workflow: Any,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    signals: Sequence[Signal] = (),
    early: bool = False,
    cancel_at: int | str | None = None,
    exact: bool = True,
    setup: Callable[[], object] | None = None,
    check: Callable[[Lab], object] | None = None,
    engine: Mapping[str, Any] | None = None,
    wrap: Callable[[Any], Any] | None = None,
    people: Sequence[Callable[[Lab, GateView], object]] = (),
    database: str | None = None,
    clear: Callable[[], object] | None = None,
    doubles: int = 5,
    zombies: bool = True,
    seed: int = 0,
) -> CrashReport:
    """Run a workflow undisturbed, then once per possible crash. Raises BrokenPromise, with the
    history.

    Each run must come to the same result (or the same failure); no step may run again once its end
    is recorded; histories have no gaps; a failed run is compensated, each compensation once, in
    reverse order.

    Args:
        options: the options of ``Engine.start``.
        signals: sent one by one when the run waits for a signal. An item may be a function of the
            lab, for any other action from outside; after a crash it is called again unless it had
            returned.
        early: send the signals right after the start.
        cancel_at: cancel the run after this step, or after the commit with this number.
        exact: False for a workflow with a race, which may end in more than one way; *check* then
            says which ends are right.
        setup: resets the outside world before each run.
        check: called with the lab at every end.
        engine: the options of ``Engine``.
        wrap: wraps each store, so that the author of a store can see the effect of its errors.
        people: called one by one, with the lab and the oldest open gate, when there is one.
        database: the database to use in place of a temporary file.
        clear: empties *database* before each run.
        doubles: the number of runs with two crashes.
        zombies: whether workers also become zombies.
        seed: the seed for the places of the double crashes.
    """
    script = ScenarioScript(
        workflow,
        args,
        dict(kwargs or {}),
        dict(options or {}),
        [_as_pair(signal) for signal in signals],
        early,
        cancel_at,
        setup or _do_nothing,
        check or _do_nothing,
        dict(engine or {}),
        wrap or _identity,
        list(people),
        clear,
    )
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="holdfast-crash-") as folder:
        trial = _Trial(
            script, database or os.path.join(folder, "crash.db"), exact=exact and cancel_at is None
        )
        runs = trial.run(doubles, zombies, random.Random(seed))
    return CrashReport(len(trial.boundaries), runs, time.perf_counter() - began)


def _as_pair(signal: Signal) -> tuple[str, Any] | Callable[[Lab], object]:
    """Return a signal that is only a name as a name and its payload, None."""
    if not isinstance(signal, str):
        return signal
    return (signal, None)


def _do_nothing(*_: object) -> None:
    return None


def _identity(store: Any) -> Any:
    return store


class _Trial:
    """All scenarios of one script: the undisturbed one, then one per planned crash."""

    def __init__(self, script: ScenarioScript, path: str, *, exact: bool) -> None:
        self.script = script
        self.path = path
        self.exact = exact
        self.expected = self._play([])
        commits = self.expected.ledger.commits
        self.boundaries = {
            number: commit
            for number, commit in enumerate(commits, start=1)
            if has_effect(commit.batch, commit.answers)
        }
        """The commits that a crash could lose, by their numbers."""

    def run(self, doubles: int, zombies: bool, rng: random.Random) -> int:
        """Play all disturbed scenarios and return their number. Raises BrokenPromise."""
        runs = 0
        for faults in self._faults(doubles, zombies, rng):
            self._play(faults)
            runs += 1
        return runs

    def _faults(self, doubles: int, zombies: bool, rng: random.Random) -> Iterator[list[Fault]]:
        """Yield the faults of each scenario, one per engine."""
        for number, commit in self.boundaries.items():
            yield [Fault(number, BEFORE)]
            yield [Fault(number, AFTER)]
            if any(isinstance(op, Advance) and op.body is not None for op in commit.batch):
                yield [Fault(number, WITHIN)]
            if zombies:
                yield [Fault(number, ZOMBIE)]
        last = max(self.boundaries, default=0)
        for _ in range(doubles if last else 0):
            first = rng.choice(list(self.boundaries))
            second = rng.randint(1, last - first + 4)
            yield [
                Fault(first, rng.choice([BEFORE, AFTER])),
                Fault(second, rng.choice([BEFORE, AFTER])),
            ]

    def _play(self, faults: list[Fault]) -> ScenarioResult:
        """Play one scenario and return its result. Raises BrokenPromise."""
        scenario = Scenario(self.script, self.path, faults)
        try:
            result = scenario.play()
        except Exception as error:
            problems = [str(error) or type(error).__name__]
            raise BrokenPromise(self._message(scenario.shown(), faults, problems)) from error
        problems = flaws(result)
        if faults:
            problems += differences(self.expected, result, exact=self.exact)
        if problems:
            raise BrokenPromise(self._message(scenario.shown(), faults, problems))
        return result

    def _message(self, histories: str, faults: list[Fault], problems: list[str]) -> str:
        places = [self._place(fault, index) for index, fault in enumerate(faults)]
        where = ", then ".join(places) or "even without a crash"
        return "\n".join(
            [
                f"{self.script.workflow.name}: {where}:",
                *(f"  {problem}" for problem in problems),
                histories,
            ]
        )

    def _place(self, fault: Fault, index: int) -> str:
        """Describe a fault and its commit; the faults after the first are in the recovery."""
        if index > 0:
            return f"{fault} of the recovery"
        commit = self.boundaries.get(fault.at)
        if commit is None:
            return str(fault)
        return f"{fault} of {max(self.boundaries)} ({describe(commit.batch)})"
