"""The verdict on a run whose history was replayed by other code, without doing anything.

A dry replay runs the code of a definition against a recorded history. It executes no command and
writes nothing: what the code would ask for next is the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.core import commands as c
from holdfast.core.history import LoadedHistory
from holdfast.core.status import FINAL, Status
from holdfast.core.why.model import brief, moment
from holdfast.errors import Diverged


class Verdict(StrEnum):
    """Whether code fits the history of a run, and what the run would do next."""

    CONTINUES = "continues"
    """The code fits, and asks for something that is not recorded."""
    WAITS = "waits"
    """The code fits, and waits for something that is recorded as awaited."""
    ENDS = "ends"
    """The code fits, and ends the run; a run that has ended, ends as recorded."""
    UNSERVED = "unserved"
    """The definition leaves runs of this version to other workers."""
    FAILS = "fails"
    """The code raises an error that the run has not ended with."""
    DIVERGES = "diverges"
    """The code can no longer ask for something that is recorded."""
    STALLS = "stalls"
    """The code gives no answer: it loops, blocks, or waits for something outside Holdfast."""
    UNLOADABLE = "unloadable"
    """The code cannot take the recorded input, or cannot be begun for another reason."""
    UNREADABLE = "unreadable"
    """The history or the input cannot be read: damaged, encrypted with another key, or deleted."""
    UNKNOWN = "unknown"
    """No named module defines the workflow."""


FITTING = frozenset({Verdict.CONTINUES, Verdict.WAITS, Verdict.ENDS, Verdict.UNSERVED})
"""The verdicts that raise no objection to a deployment."""


class Judgement(msgspec.Struct, kw_only=True):
    """The verdict on one run. ``step``, ``recorded``, ``wanted`` and ``where`` describe a
    divergence: the recorded step, its event, what the code asks for instead, and its line."""

    run_id: str
    workflow: str
    version: str
    status: str
    """The status that the run has in the database."""
    verdict: Verdict
    next: list[str] = []
    """What the code waits for, or asks for next."""
    step: str | None = None
    recorded: str | None = None
    wanted: str | None = None
    where: str | None = None
    why: str | None = None
    """The error, or another explanation of the verdict."""

    @property
    def fits(self) -> bool:
        """Whether the code can continue the run."""
        return self.verdict in FITTING


class JudgementGroup(msgspec.Struct, kw_only=True):
    """The runs of one workflow and version that share a verdict; ``first`` are a few of them."""

    workflow: str
    version: str
    verdict: Verdict
    runs: int = 0
    first: list[Judgement] = []


class JudgementSummary(msgspec.Struct):
    """The judgements of many runs: counts and examples by group, and every objection."""

    judged: int = 0
    groups: dict[tuple[str, str, str], JudgementGroup] = {}
    objections: list[Judgement] = []
    left_out: list[str] = []
    """The damaged rows of runs that could not be judged."""
    others: list[str] = []
    """The workflows with live runs that the code does not define; these runs were not judged."""

    @property
    def fits(self) -> bool:
        """Whether the code can continue every run."""
        return not self.objections and not self.left_out

    def add(self, judgement: Judgement, examples: int = 3) -> None:
        """Count a judgement; a group keeps its first *examples*."""
        key = (judgement.workflow, judgement.version, judgement.verdict.value)
        group = self.groups.get(key)
        if group is None:
            group = JudgementGroup(
                workflow=judgement.workflow, version=judgement.version, verdict=judgement.verdict
            )
            self.groups[key] = group
        self.judged += 1
        group.runs += 1
        if len(group.first) < examples:
            group.first.append(judgement)
        if not judgement.fits:
            self.objections.append(judgement)


_SILENT = (c.RecordDecision, c.Checkpoint, c.Drop, c.Finish)
"""The commands that have no outcome, so that no code waits for them."""

_RECORDED_WAITS = (c.SetTimer, c.AwaitSignal, c.AwaitCondition, c.OpenGate, c.StartMap)
"""The commands that are recorded when they are issued, and wait from then on."""

_WAITS = (c.AwaitChild, c.EndChildren)
"""The commands that wait for something which is recorded under another identity."""


def judge_commands(
    judgement: Judgement, commands: Sequence[c.Command], loaded: LoadedHistory
) -> Judgement:
    """Complete the judgement of a run whose code has replayed the history and then issued
    *commands*."""
    finish = next((command for command in commands if isinstance(command, c.Finish)), None)
    if finish is not None:
        return _judge_end(judgement, finish)
    asked = [command for command in commands if not isinstance(command, _SILENT)]
    if not asked:
        judgement.verdict = Verdict.STALLS
        judgement.why = "the code waits for something that Holdfast does not know"
        return judgement
    recorded = {event.step for event in loaded.events}
    is_waiting = all(
        isinstance(command, _WAITS)
        or (isinstance(command, _RECORDED_WAITS) and command.id in recorded)
        for command in asked
    )
    judgement.verdict = Verdict.WAITS if is_waiting else Verdict.CONTINUES
    judgement.next = [describe(command, loaded) for command in asked]
    if judgement.status == Status.WAITING and any(
        isinstance(command, c.RunStep) and command.is_compensation and command.id not in recorded
        for command in asked
    ):
        # A run that waits has not failed: its history would have led to the compensation, too.
        judgement.verdict = Verdict.FAILS
        judgement.why = "the code raises an error and compensates"
    return judgement


def _judge_end(judgement: Judgement, finish: c.Finish) -> Judgement:
    judgement.verdict = Verdict.ENDS
    judgement.next = [finish.status]
    if finish.error is not None:
        judgement.why = f"{type(finish.error).__name__}: {finish.error}"
    status = Status(judgement.status)
    has_failed = status in FINAL and status is not Status.COMPLETED
    if finish.status == Status.FAILED and not has_failed:
        judgement.verdict = Verdict.FAILS
    elif finish.status == Status.COMPLETED and has_failed:
        judgement.why = f"the recorded run is {status.value}"
    return judgement


def judge_divergence(judgement: Judgement, error: Diverged) -> Judgement:
    """Complete the judgement of a run whose code has diverged."""

    def fact(name: str) -> str | None:
        value = error.facts.get(name)
        return None if value is None else str(value)

    judgement.verdict = Verdict.DIVERGES
    judgement.step = fact("step")
    judgement.recorded = fact("recorded")
    judgement.wanted = fact("wanted")
    judgement.where = fact("where")
    judgement.why = fact("why")
    return judgement


def describe(command: c.Command, loaded: LoadedHistory) -> str:
    """Return a pending command as a text for people."""
    text = _TEXTS.get(type(command), _plain)(command)
    if isinstance(command, c.RunStep):
        return text + _attempt(command, loaded)
    until = loaded.progress.until.get(getattr(command, "id", ""))
    return text if until is None else f"{text}, until {moment(until)}"


def _attempt(command: c.RunStep, loaded: LoadedHistory) -> str:
    attempts = loaded.progress.attempts.get(command.id, 0)
    return f", attempt {attempts + 1}" if attempts else ""


def _step(command: c.RunStep) -> str:
    return f"{'compensation' if command.is_compensation else 'step'} {command.id}"


def _plain(command: c.Command) -> str:
    return f"{type(command).__name__} {getattr(command, 'id', '')}".strip()


_TEXTS: dict[type, Callable[[Any], str]] = {
    c.RunStep: _step,
    c.SetTimer: lambda command: f"timer of {brief(command.after)}",
    c.AwaitSignal: lambda command: f"signal {command.name}",
    c.AwaitCondition: lambda command: f"condition {command.id}",
    c.OpenGate: lambda command: f"gate {command.prompt!r}",
    c.AwaitChild: lambda command: f"child {command.run_id}",
    c.StartChild: lambda command: f"start of a child {command.target.name}",
    c.StartMap: lambda command: f"{len(command.inputs)} children {command.target.name}",
    c.EndChildren: lambda command: "the end of its children",
    c.SendSignal: lambda command: f"sending signal {command.name} to run {command.run_id}",
    c.CancelRun: lambda command: f"cancelling run {command.run_id}",
}
"""The text for each kind of command that people know by other words."""
