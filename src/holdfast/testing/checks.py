"""The checks of a crash scenario: promises that hold for any workflow, and equal ends."""

from __future__ import annotations

from collections import Counter

import msgspec

from holdfast.core.events import Event, EventKind
from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL, Status
from holdfast.testing.recorder import CommitRecorder
from holdfast.testing.scenario import ScenarioResult

_COMPENSATED = frozenset({Status.FAILED, Status.CANCELLED, Status.EXPIRED})
"""The final statuses of runs whose compensations must have been made."""
_ENDS = (EventKind.STEP_COMPLETED, EventKind.STEP_FAILED)


def flaws(result: ScenarioResult) -> list[str]:
    """Return descriptions of the broken promises that hold for any workflow."""
    problems = [*result.broken, *result.ledger.wrong]
    for run in result.runs:
        history = result.histories[run.id]
        problems += [
            *_gaps(run, history),
            *_repeated(run, history),
            *_wrong_compensations(run, history, result.ledger),
        ]
    return problems


def _gaps(run: RunRecord, history: list[Event]) -> list[str]:
    numbers = [event.seq for event in history]
    if numbers == list(range(1, len(numbers) + 1)):
        return []
    return [f"the history of run {run.id} has gaps: {numbers}"]


def _repeated(run: RunRecord, history: list[Event]) -> list[str]:
    ends = Counter(event.step for event in history if event.kind in _ENDS)
    return [
        f"step {step} of run {run.id} ended {count} times"
        for step, count in ends.items()
        if count > 1
    ]


def _wrong_compensations(run: RunRecord, history: list[Event], ledger: CommitRecorder) -> list[str]:
    """Check that a run which did not complete was compensated, each step once and in reverse order,
    and that a completed run was not."""
    registered = ledger.registered.get(run.id, [])
    expected = registered[::-1] if run.status in _COMPENSATED else []
    ends = [event for event in history if event.kind in _ENDS and event.step in registered]
    made = [event.step for event in ends]
    if run.id in ledger.stops_undoing and ends and ends[-1].kind == EventKind.STEP_FAILED:
        expected = expected[: len(made)]
    if made == expected:
        return []
    return [
        f"run {run.id} is {run.status}: it should have undone {expected}, but it has undone {made}"
    ]


def differences(expected: ScenarioResult, actual: ScenarioResult, *, exact: bool) -> list[str]:
    """Return the differences between the undisturbed run and a disturbed one."""
    problems = []
    if _outcome(expected.run, exact=exact) != _outcome(actual.run, exact=exact):
        problems.append(
            f"the run came to {_shown(actual.run)}, undisturbed it came to {_shown(expected.run)}"
        )
    if exact:
        missing = _steps(expected) - _steps(actual)
        extra = _steps(actual) - _steps(expected)
        problems += [f"step {step} was completed only without the crash" for step in missing]
        problems += [f"step {step} was completed only with the crash" for step in extra]
    return problems


def _outcome(run: RunRecord, *, exact: bool) -> object:
    """Return the part of the end that must be equal: status, error type and result.

    If not *exact*, only whether the run has ended: a workflow with a race may end in several ways.
    """
    if not exact:
        return run.status in FINAL
    result = None if run.result is None else msgspec.json.decode(run.result)
    return run.status, _type(run), result


def _type(run: RunRecord) -> object:
    if run.error is None:
        return None
    return msgspec.json.decode(run.error).get("type")


def _steps(result: ScenarioResult) -> Counter[str | None]:
    return Counter(
        event.step
        for event in result.histories[result.run.id]
        if event.kind == EventKind.STEP_COMPLETED
    )


def _shown(run: RunRecord) -> str:
    return f"{run.status} {(run.result or run.error or b'').decode()[:300]}"
