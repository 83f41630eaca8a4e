"""Random workflows that crash at random points: the same code never diverges, and changed code
loses no recorded outcome.

A workflow is a tree of steps, sleeps, waits and parallel parts, and one coroutine function walks
it. The world below feeds its program as a worker does: several outcomes may be recorded in one
turn, steps fail, the run is asked to stop.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import HealthCheck, given, settings

import holdfast
from holdfast.core.codec import JsonCodec
from holdfast.core.commands import AwaitSignal, Drop, Finish, RunStep, SetTimer
from holdfast.core.events import Event, EventKind
from holdfast.core.program import OfflineContext
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.errors import Diverged, StepFailed

log: list[str] = []


@holdfast.step
async def a() -> str: ...


@holdfast.step
async def b() -> str: ...


STEPS = {"a": a, "b": b}


async def walk(parts: list[Any]) -> None:
    for kind, *arguments in parts:
        if kind == "step":
            await call(arguments[0])
        elif kind == "sleep":
            await holdfast.sleep("1s")
            log.append("sleep")
        elif kind == "signal":
            log.append(await holdfast.wait_signal("go"))
        elif kind == "undo":
            holdfast.compensate(STEPS[arguments[0]])
        elif kind == "timeout":
            try:
                async with holdfast.timeout("1s"):
                    await walk(arguments[0])
            except TimeoutError:
                log.append("timeout")
        else:
            together = holdfast.gather if kind == "gather" else holdfast.first
            await together(*[walk(branch) for branch in arguments])


async def call(name: str) -> None:
    try:
        log.append(await STEPS[name]())
    except StepFailed as error:
        log.append(error.facts["step"])
        if error.facts["type"] == "fatal":
            raise


@holdfast.workflow
async def tree(parts: list) -> None:
    await walk(parts)


_leaves = st.sampled_from(
    [["step", "a"], ["step", "b"], ["step", "a"], ["sleep"], ["signal"], ["undo", "a"]]
)
_parts = st.recursive(
    st.lists(_leaves, min_size=1, max_size=4),
    lambda inner: st.lists(
        _leaves
        | st.tuples(st.just("gather"), inner, inner)
        | st.tuples(st.just("first"), inner, inner)
        | st.tuples(st.just("timeout"), inner),
        min_size=1,
        max_size=4,
    ),
    max_leaves=8,
)


class World:
    """What a worker and the outside world do to one run."""

    def __init__(self, parts: list[Any], dice: random.Random) -> None:
        self.dice = dice
        self.history: list[Event] = []
        self.open: dict[str, Any] = {}
        self.set: set[str] = set()
        self.dropped: set[str] = set()
        self.finish: Finish | None = None
        self.cancelled = False
        self.program: Any = None
        self.parts = parts

    @classmethod
    def run(cls, parts: list[Any], seed: int, scenario: Callable[[World], Awaitable[None]]) -> None:
        world = cls(parts, random.Random(seed))

        async def closing() -> None:
            try:
                await scenario(world)
            finally:
                world.program.close()

        asyncio.run(closing())

    async def begin(self) -> None:
        """Take the run up from its history, as after a crash."""
        log.clear()
        if self.program is not None:
            self.program.close()
        self.open, self.finish = {}, None
        data = msgspec.json.encode([self.parts])
        run = RunRecord(
            id="r",
            namespace="default",
            workflow="tree",
            version="1",
            lane="default",
            capabilities=(),
            status=Status.RUNNING,
            priority=0,
            input=data,
            generation=1,
            revision=0,
            crashes=0,
            created_at=1,
            started_at=1,
        )
        self.program = tree.program(run, OfflineContext(JsonCodec()))
        self.do(await self.program.begin(list(self.history)))

    def do(self, commands: list[Any]) -> None:
        for command in commands:
            if isinstance(command, Finish):
                self.finish = command
            elif isinstance(command, Drop):
                self.open.pop(command.id, None)
                self.dropped.add(command.id)
            else:
                self.open[command.id] = command
                self.request(command)

    def request(self, command: Any) -> None:
        kind = {SetTimer: EventKind.TIMER_SET, AwaitSignal: EventKind.SIGNAL_AWAITED}.get(
            type(command)
        )
        if kind is not None and command.id not in self.set:
            self.set.add(command.id)
            self.record(Event(kind, command.id, b'{"until":1}'))

    def record(self, event: Event) -> Event:
        event.seq = event.at = len(self.history) + 2
        if event.kind in (EventKind.STEP_COMPLETED, EventKind.STEP_FAILED):
            event.started_at = event.at - 1
        self.history.append(event)
        return event

    async def turn(self) -> None:
        count = min(self.dice.choice([1, 1, 2, 3]), len(self.open))
        ended = [
            self.outcome(self.open.pop(step)) for step in self.dice.sample(sorted(self.open), count)
        ]
        if not self.cancelled and self.dice.random() < 0.04:
            self.cancelled = True
            ended.append(Event(EventKind.CANCEL_REQUESTED, data=b'{"reason":"enough"}'))
        self.do(await self.program.feed([self.record(event) for event in ended]))

    def outcome(self, command: Any) -> Event:
        told = msgspec.json.encode(command.id)
        if isinstance(command, RunStep):
            luck = self.dice.random()
            if luck < 0.8:
                return Event(EventKind.STEP_COMPLETED, command.id, told)
            kind = "fatal" if luck > 0.93 else "mild"
            return Event(
                EventKind.STEP_FAILED,
                command.id,
                error=msgspec.json.encode({"type": kind, "message": "no"}),
            )
        if isinstance(command, SetTimer):
            return Event(EventKind.TIMER_FIRED, command.id)
        return Event(EventKind.SIGNAL_RECEIVED, command.id, told)

    async def play(self, turns: int) -> None:
        """Go on for so many turns, or to the end."""
        while self.finish is None and turns > 0:
            turns -= 1
            await self.turn()


_settings = settings(
    max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@_settings
@given(parts=_parts, seed=st.integers(0, 10**6))
def test_the_same_code_never_diverges(parts, seed):
    async def scenario(world: World) -> None:
        await world.begin()
        while world.finish is None:
            await world.play(world.dice.randint(1, 3))
            before, said, end = set(world.open), sorted(log), world.finish
            await world.begin()
            assert set(world.open) == before and sorted(log) == said
            assert (end is None) == (world.finish is None)

    World.run(parts, seed, scenario)


@_settings
@given(parts=_parts, seed=st.integers(0, 10**6))
def test_changed_code_diverges_or_leaves_nothing_behind(parts, seed):
    async def scenario(world: World) -> None:
        await world.begin()
        await world.play(world.dice.randint(1, 8))
        recorded = {
            event.step
            for event in world.history
            if event.kind in (EventKind.STEP_COMPLETED, EventKind.SIGNAL_RECEIVED)
        }
        heard = recorded & set(log)
        world.dropped.clear()
        world.parts = without_one(parts, world.dice)
        try:
            await world.begin()
            await world.play(1000)
        except Diverged as error:
            assert error.facts["step"] in {event.step for event in world.history}
        else:
            assert heard <= {*log, *world.dropped}

    World.run(parts, seed, scenario)


def without_one(parts: Any, dice: random.Random) -> list[Any]:
    """Return the tree without one of its parts, or without the end of one."""
    place = dice.randrange(len(parts))
    kind, *arguments = parts[place]
    if kind in ("gather", "first", "timeout") and dice.random() < 0.7:
        branch = dice.randrange(len(arguments))
        if arguments[branch]:
            arguments[branch] = without_one(arguments[branch], dice)
            return [*parts[:place], [kind, *arguments], *parts[place + 1 :]]
    return [*parts[:place], *parts[place + 1 :]]


def test_the_model_sees_what_it_should():
    """Both ends of the second property occur: changed code that diverges, and changed code that may
    go on."""
    outcomes = set()

    async def scenario(world: World) -> None:
        await world.begin()
        await world.play(world.dice.randint(0, 2))
        world.parts = world.parts[1:]
        try:
            await world.begin()
            await world.play(1000)
            outcomes.add("ended")
        except Diverged:
            outcomes.add("diverged")

    for seed in range(20):
        World.run([["step", "a"], ["signal"], ["step", "b"]], seed, scenario)

    assert outcomes == {"ended", "diverged"}
