"""Modifications, migrations and checkpoints of the runs of models: killed before and after each
commit, and taken over by another worker before it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from holdfast import bpmn
from holdfast.authoring.bpmn import program
from holdfast.connect.blocking import models as blocking_models
from holdfast.core.events import EventKind
from holdfast.errors import BadOption, NotThere, TaskClosed, Unanswered
from holdfast.store.database import Operation
from holdfast.store.messages.operations import InstructRun
from holdfast.store.runs.operations import Advance
from holdfast.testing import Lab, internals
from holdfast.testing.clock import VirtualClock
from holdfast.testing.faults import AFTER, BEFORE, ZOMBIE, Fault
from holdfast.testing.recorder import CommitRecorder
from tests.bpmn.models import boundary, flows, process_of, timer
from tests.crash.stages import Stage, databases
from tests.engine.waiting import PATIENCE

NAME = "crash_instructions"


@bpmn.handler("crash-instructions-pack")
def pack() -> dict:
    return {"packed": True}


def model(first: str) -> bytes:
    """Return a process whose first task has this id: a person, a handler, another person."""
    tasks = f'<startEvent id="s"/><userTask id="{first}"/><userTask id="last"/>'
    packs = '<serviceTask id="pack" camunda:topic="crash-instructions-pack"/>'
    late = boundary("late", first, timer("timeDuration", "PT1H"), interrupting=False)
    return process_of(
        tasks + packs + late + flows(f"s {first}", f"{first} pack", "pack last", "late last"), NAME
    )


def complete_all(lab: Lab) -> None:
    """Complete all tasks, as often as that opens others. A worker that has lost the run cannot end
    it: the next one does."""
    run = lab.engine.run("r")
    deadline = time.monotonic() + PATIENCE
    while run.status != "completed" and not internals(lab.engine).store.lost:
        assert time.monotonic() < deadline, run.why()
        for task in lab.engine.models.tasks():
            with suppress(TaskClosed):
                lab.engine.models.complete(task.id, {"by": "ann"}, by="ann")
        lab.settle()


def begin(lab: Lab) -> None:
    lab.engine.models.deploy(model("a"))
    lab.engine.start(NAME, {"x": 1}, id="r")


def modify(lab: Lab) -> None:
    (token,) = lab.engine.models.tokens("r")
    if token.element != "a":
        return
    try:
        lab.engine.models.modify("r", bpmn.move(token.id, "pack"), by="ann", reason="late")
    except Unanswered:
        pass  # a worker that has lost the run does not answer
    except NotThere:
        # the instruction of an engine that lost the run was applied meanwhile
        assert all(token.element != "a" for token in lab.engine.models.tokens("r"))


def migrate(lab: Lab) -> None:
    lab.engine.models.deploy(model("b"))
    run = lab.engine.run("r")
    if run.record.version == "1":
        try:
            migration = lab.engine.models.migrate("r", 2, {"a": "b"}, by="ann")
            assert migration.refused == {}
        except Unanswered:
            pass  # a worker that has lost the run does not answer
        except BadOption:
            assert run.record.version == "2"  # an earlier instruction was applied meanwhile


def wait_an_hour(lab: Lab) -> None:
    lab.advance("PT1H")


SCRIPTS: dict[str, tuple[list[Callable[[Lab], None]], dict[str, int]]] = {
    "modify": ([begin, modify, complete_all], {"a": 0, "pack": 1, "last": 1}),
    "migrate": ([begin, migrate, complete_all], {"b": 1, "pack": 1, "last": 1}),
    "checkpoint": ([begin, wait_an_hour, complete_all], {"a": 1, "pack": 1, "last": 2}),
}


def play(database: str, script: str, plans: list[Fault]) -> CommitRecorder:
    """Play a script with crashes, and check its end; return what was committed."""
    acts, completed = SCRIPTS[script]
    seen: dict[str, object] = {}

    def look(lab: Lab) -> None:
        seen["result"] = lab.engine.run("r").result(timeout=PATIENCE)
        trace = lab.engine.models.trace("r").elements
        seen["completed"] = {id: trace[id].completed for id in completed}
        seen["check"] = lab.engine.database.check()

    stage = Stage(database, [*acts, look], plans, [], VirtualClock())
    with stage.played() as store:
        kinds = [event.kind for event in store.runs.history("r")]
    assert seen["result"] == {"x": 1, "packed": True, "by": "ann"}
    assert seen["completed"] == completed
    assert seen["check"] == []
    assert kinds.count(EventKind.VERSION_CHANGED) == (script == "migrate")
    assert kinds.count(EventKind.STEP_COMPLETED) == 1
    assert EventKind.CHECKPOINT_WRITTEN in kinds or script == "modify"
    return stage.ledger


def is_concerned(op: Operation) -> bool:
    """Return whether an operation gives or applies an instruction, or writes a checkpoint."""
    if not isinstance(op, Advance):
        return isinstance(op, InstructRun)
    kinds = {event.kind for event in op.events}
    return bool(kinds & {EventKind.INSTRUCTED, EventKind.CHECKPOINT_WRITTEN})


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.timeout(300)
def test_an_instruction_and_a_checkpoint_survive_every_crash(
    kind, script, request, tmp_path, monkeypatch
):
    if script == "checkpoint":
        monkeypatch.setattr(program, "CHECKPOINT_AFTER", 1)
    with databases(kind, request, tmp_path) as fresh:
        commits = enumerate(play(fresh(), script, []).commits, start=1)
        boundaries = [number for number, commit in commits if any(map(is_concerned, commit.batch))]
        assert len(boundaries) >= 2
        plans = [Fault(number, AFTER) for number in boundaries]
        if kind == "sqlite":
            plans += [Fault(number, BEFORE) for number in boundaries]
        for plan in plans:
            play(fresh(), script, [plan])
        monkeypatch.setattr(blocking_models, "PATIENCE", 0.2)
        for number in boundaries:
            play(fresh(), script, [Fault(number, ZOMBIE)])
