"""A text that a coroutine interprets, on the replay machinery of Python workflows."""

from __future__ import annotations

import asyncio
from contextlib import closing

import msgspec

from holdfast.authoring.replay.async_program import AsyncProgram
from holdfast.authoring.replay.replay import Compensation
from holdfast.core.commands import RunStep, SetTimer
from holdfast.core.events import Event, EventKind
from holdfast.core.program import recorded_steps
from holdfast.core.retry import RetryPolicy
from holdfast.core.status import Status
from holdfast.testing import Lab

calls: list[str] = []


class TextSource:
    """Knows the commands of a text, and the line of each by its identity."""

    def __init__(self, text: str) -> None:
        lines = enumerate(text.split("\n"), start=1)
        self.identities = {f"{word}@{number}" for number, line in lines for word in line.split()}

    def find_unreachable(self, frames, outcomes):
        return next((event for event in outcomes if event.step not in self.identities), None)

    def place_of(self, step):
        return f"text:{step.rpartition('@')[2]}" if "@" in step else None


class TextWorkflow:
    """One instruction per line: ``sleep``, ``fail``, or the names of steps, which run at once."""

    kind, version, lane, capabilities = "text", "1", "default", ()
    accepts_versions, needs_thread, writes_checkpoints = None, False, False
    signature, schedules = None, ()

    def __init__(self, text: str) -> None:
        self.name, self.text = "interpreted", text

    def program(self, run, context):
        program = AsyncProgram(
            run,
            context,
            TextSource(self.text),
            lambda: self._interpret(program),
            stop_undoing=False,
        )
        return program

    def steps(self, run, history):
        return recorded_steps(history)

    async def _interpret(self, program: AsyncProgram) -> bytes:
        done: list[str] = []
        for number, line in enumerate(self.text.split("\n"), start=1):
            if line == "sleep":
                await program.call(SetTimer(f"sleep@{number}", 3_600_000_000))
            elif line == "fail":
                raise ValueError(f"line {number}")
            else:
                steps = [run_step(f"{word}@{number}", word) for word in line.split()]
                ends: list[Event] = await asyncio.gather(*map(program.call, steps))
                done += [msgspec.json.decode(end.data or b"") for end in ends]
                program.compensations += [
                    Compensation(f"undo {step.id}", lambda id: run_step(id, id)) for step in steps
                ]
        return msgspec.json.encode(done)


def run_step(identity: str, name: str) -> RunStep:
    def call(info, connection):
        calls.append(name)
        return name

    return RunStep(identity, name, call, False, RetryPolicy())


def test_a_text_is_interpreted_and_replayed(database):
    calls.clear()
    with closing(Lab(database, workflows=[TextWorkflow("a b\nsleep\nc")])) as lab:
        run = lab.start("interpreted")
        lab.settle()
        lab.restart()
        assert lab.finish(run) == ["a", "b", "c"]

    assert sorted(calls) == ["a", "b", "c"]


def test_a_text_that_fails_is_compensated(database):
    calls.clear()
    with closing(Lab(database, workflows=[TextWorkflow("a\nb\nfail")])) as lab:
        run = lab.start("interpreted")
        lab.settle()

        assert lab.engine.run(run.id).status is Status.FAILED
    assert calls == ["a", "b", "undo b@2", "undo a@1"]


def test_a_changed_text_diverges_at_its_line_before_anything_new_runs(database):
    calls.clear()
    with closing(Lab(database, workflows=[TextWorkflow("a\nsleep\nb")])) as lab:
        run = lab.start("interpreted")
        lab.settle()
        clock = lab.clock

    with closing(Lab(database, clock=clock, workflows=[TextWorkflow("x\nsleep")])) as lab:
        lab.advance("1h")
        history = lab.history(run)

    assert history[-1].kind == EventKind.RUN_STUCK
    assert history[-1].error.facts["where"] == "text:1"
    assert calls == ["a"]
