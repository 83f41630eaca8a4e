"""``crash_everywhere``: run a workflow, then run it again and again, each time killed at another
commit, and see that it comes to the same end.

For every commit of the undisturbed run there is a crash just before it, one just after it, and one
in which the worker does not die but is taken for dead and goes on as a zombie. Some crash a second
time while they recover.
"""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.core.gates.model import Gate
from holdfast.store.contract.runs import Advance
from holdfast.testing.checks import differences, flaws
from holdfast.testing.faults import AFTER, BEFORE, WITHIN, ZOMBIE, Fault, describe, has_effect
from holdfast.testing.lab import Lab
from holdfast.testing.scenario import Scenario, ScenarioResult, ScenarioScript

Signal = str | tuple[str, Any] | Callable[[Lab], object]


class BrokenPromise(AssertionError):
    """After a crash the workflow did not do what it does undisturbed."""


class CrashReport(NamedTuple):
    """What was tried."""

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
    people: Sequence[Callable[[Lab, Gate], object]] = (),
    database: str | None = None,
    clear: Callable[[], object] | None = None,
    doubles: int = 5,
    zombies: bool = True,
    seed: int = 0,
) -> CrashReport:
    """Run a workflow undisturbed, then once per crash that could happen to it. Raises
    BrokenPromise, with the history.

    Each time it must come to the same result (or the same failure), no step may run again once its
    end is recorded, histories have no gaps, and what failed is undone: each undo once, in reverse
    order. A workflow with a race in it may end in more than one way: say ``exact=False``, and what
    is right about it in *check*, which is called with the lab at every end.

    *signals* are sent one by one when the run waits for one, or, when *early*, right after the
    start. One may be a function of the lab: whatever somebody does from outside. After a crash it
    is called again unless it had returned. ``cancel_at`` names the step after which, or the number
    of the commit after which, the run is cancelled. *setup* makes the world new before each run.
    *options* are those of ``Engine.start``, *engine* those of ``Engine``. *wrap* puts something
    around each store: whoever writes a store can see what becomes of runs when it misbehaves.
    *people* are called one by one, with the lab and the oldest open gate, when there is one. It all
    happens in a file of its own, or in *database*, which *clear* empties before each run.
    """
    script = ScenarioScript(
        workflow,
        args,
        dict(kwargs or {}),
        dict(options or {}),
        [_signal(one) for one in signals],
        early,
        cancel_at,
        setup or _nothing,
        check or _nothing,
        dict(engine or {}),
        wrap or _same,
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


def _signal(given: Signal) -> tuple[str, Any] | Callable[[Lab], object]:
    return (given, None) if isinstance(given, str) else given


def _nothing(*_: object) -> None:
    return None


def _same(store: Any) -> Any:
    return store


class _Trial:
    """All scenes of one script."""

    def __init__(self, script: ScenarioScript, path: str, *, exact: bool) -> None:
        self.script, self.path, self.exact = script, path, exact
        self.expected = self._play([])
        commits = self.expected.ledger.commits
        found = [
            (number, commit)
            for number, commit in enumerate(commits, start=1)
            if has_effect(commit.batch, commit.answers)
        ]
        self.boundaries = dict(found)

    def run(self, doubles: int, zombies: bool, dice: random.Random) -> int:
        runs = 0
        for plans in self._scenes(doubles, zombies, dice):
            self._play(plans)
            runs += 1
        return runs

    def _scenes(self, doubles: int, zombies: bool, dice: random.Random) -> Iterator[list[Fault]]:
        for number, commit in self.boundaries.items():
            yield [Fault(number, BEFORE)]
            yield [Fault(number, AFTER)]
            if any(isinstance(op, Advance) and op.body is not None for op in commit.batch):
                yield [Fault(number, WITHIN)]
            if zombies:
                yield [Fault(number, ZOMBIE)]
        last = max(self.boundaries, default=0)
        for _ in range(doubles if last else 0):
            first = dice.choice(list(self.boundaries))
            second = dice.randint(1, last - first + 4)
            yield [
                Fault(first, dice.choice([BEFORE, AFTER])),
                Fault(second, dice.choice([BEFORE, AFTER])),
            ]

    def _play(self, plans: list[Fault]) -> ScenarioResult:
        scene = Scenario(self.script, self.path, plans)
        try:
            ending = scene.play()
        except Exception as error:
            raise BrokenPromise(
                self._told(scene.shown(), plans, [str(error) or type(error).__name__])
            ) from error
        wrong = flaws(ending)
        if plans:
            wrong += differences(self.expected, ending, exact=self.exact)
        if wrong:
            raise BrokenPromise(self._told(scene.shown(), plans, wrong))
        return ending

    def _told(self, shown: str, plans: list[Fault], wrong: list[str]) -> str:
        where = (
            ", then ".join(self._where(plan, place) for place, plan in enumerate(plans))
            or "even without a crash"
        )
        return "\n".join(
            [f"{self.script.workflow.name}: {where}:", *(f"  {one}" for one in wrong), shown]
        )

    def _where(self, plan: Fault, place: int) -> str:
        commit = self.boundaries.get(plan.at) if place == 0 else None
        of = (
            f" of {max(self.boundaries)} ({describe(commit.batch)})"
            if commit
            else " of the recovery"
            if place
            else ""
        )
        return f"{plan}{of}"
