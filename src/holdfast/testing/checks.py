"""What is right and wrong about the end of a crash scenario."""

from __future__ import annotations

from collections import Counter

import msgspec

from holdfast.core.events import Event, EventKind
from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL, Status
from holdfast.testing.recorder import CommitRecorder
from holdfast.testing.scenario import ScenarioResult

_UNDOING = frozenset({Status.FAILED, Status.CANCELLED, Status.EXPIRED})
_ENDS = (EventKind.STEP_COMPLETED, EventKind.STEP_FAILED)


def flaws(ending: ScenarioResult) -> list[str]:
    """Return the promises that were broken, whatever the workflow is about."""
    wrong = [*ending.broken, *ending.ledger.wrong]
    for run in ending.runs:
        history = ending.histories[run.id]
        wrong += [
            *_gaps(run, history),
            *_repeated(run, history),
            *_undoing(run, history, ending.ledger),
        ]
    return wrong


def _gaps(run: RunRecord, history: list[Event]) -> list[str]:
    numbers = [event.seq for event in history]
    return (
        []
        if numbers == list(range(1, len(numbers) + 1))
        else [f"the history of run {run.id} has gaps: {numbers}"]
    )


def _repeated(run: RunRecord, history: list[Event]) -> list[str]:
    ends = Counter(event.step for event in history if event.kind in _ENDS)
    return [
        f"step {step} of run {run.id} ended {count} times"
        for step, count in ends.items()
        if count > 1
    ]


def _undoing(run: RunRecord, history: list[Event], ledger: CommitRecorder) -> list[str]:
    """What failed is undone, in reverse order, once; what completed is not."""
    registered = ledger.registered.get(run.id, [])
    wanted = registered[::-1] if run.status in _UNDOING else []
    undone = [event for event in history if event.kind in _ENDS and event.step in registered]
    found = [event.step for event in undone]
    if run.id in ledger.stops_undoing and undone and undone[-1].kind == EventKind.STEP_FAILED:
        wanted = wanted[: len(found)]
    return (
        []
        if found == wanted
        else [
            f"run {run.id} is {run.status}: it should have undone {wanted}, but it has undone"
            f" {found}"
        ]
    )


def differences(expected: ScenarioResult, ending: ScenarioResult, *, exact: bool) -> list[str]:
    """Return in what a disturbed run differs from the undisturbed one."""
    wrong = []
    if _outcome(expected.run, exact=exact) != _outcome(ending.run, exact=exact):
        wrong.append(
            f"the run came to {_shown(ending.run)}, undisturbed it came to {_shown(expected.run)}"
        )
    if exact:
        missing, extra = _steps(expected) - _steps(ending), _steps(ending) - _steps(expected)
        wrong += [f"step {step} was completed only without the crash" for step in missing]
        wrong += [f"step {step} was completed only with the crash" for step in extra]
    return wrong


def _outcome(run: RunRecord, *, exact: bool) -> object:
    """A workflow with a race in it may fail or complete, and may complete with this or that; but it
    ends."""
    if not exact:
        return run.status in FINAL
    return run.status, _type(run), None if run.result is None else msgspec.json.decode(run.result)


def _type(run: RunRecord) -> object:
    return None if run.error is None else msgspec.json.decode(run.error).get("type")


def _steps(ending: ScenarioResult) -> Counter[str | None]:
    return Counter(
        event.step
        for event in ending.histories[ending.run.id]
        if event.kind == EventKind.STEP_COMPLETED
    )


def _shown(run: RunRecord) -> str:
    return f"{run.status} {(run.result or run.error or b'').decode()[:300]}"
