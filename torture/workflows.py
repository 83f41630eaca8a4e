"""Workflows of every shape, whose steps leave an entry in the ledger.

`SHAPES` says for each shape which result a run must have and which steps its history must name, so
that a run with an unrecorded step is found even if its result is right.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import holdfast
from holdfast import (
    Engine,
    Graph,
    compensate,
    first,
    gather,
    info,
    sleep,
    step,
    sync,
    timeout,
    wait_signal,
    workflow,
)
from holdfast.streams import emit
from torture.ledger import Ledger


class ProcessContext:
    """What steps use of the process in which they run; set before an engine works."""

    ledger: Ledger
    engine: Engine
    insert_entry: str
    """The statement with which a transactional step inserts its row; it depends on the database
    driver."""


process = ProcessContext()

FRAMES = 5
"""How many frames one attempt of `talk` emits."""


def effect(kind: str = "effect", **facts: Any) -> None:
    """Leave an entry in the ledger: this attempt of this step has happened."""
    here = info()
    process.ledger.write(
        kind,
        run=here.run_id,
        step=here.step,
        generation=here.generation,
        attempt=here.attempt,
        **facts,
    )


@step
async def act(n: int) -> int:
    effect()
    return n + 1


@step
def act_plainly(n: int) -> int:
    effect()
    return n + 1


@step
async def draw(known: list[str]) -> str:
    """Return a token that no other attempt returns; the ledger keeps those of earlier steps, which
    are recorded by now."""
    effect(known=known)
    return uuid.uuid4().hex


@step
def draw_plainly(known: list[str]) -> str:
    effect(known=known)
    return uuid.uuid4().hex


@step(retries=50, delay="5ms", cap="20ms")
async def flaky(n: int) -> int:
    effect()
    if info().attempt < 3:
        raise ConnectionError("not yet")
    return n + 1


@step
async def undo(n: int) -> None:
    effect()


@step
async def talk(n: int) -> int:
    effect()
    for number in range(FRAMES):
        emit(number, name="frame")
        await asyncio.sleep(0.002)  # so that the frames leave in several commits
    return n + 1


@step(
    retries=1000, delay="20ms", cap="100ms"
)  # a start inside a step is refused while the disk is full
async def start_another(n: int) -> str:
    effect()
    next_id = f"{info().run_id}-next"
    process.engine.start(chain, n, id=next_id)
    process.ledger.write("started", run=next_id, shape="chain", n=n)
    return next_id


@step(
    retries=1000, delay="20ms", cap="100ms"
)  # a start inside a step is refused while the disk is full
def start_another_plainly(n: int) -> str:
    effect()
    next_id = f"{info().run_id}-next"
    process.engine.start(plain_chain, n, id=next_id)
    process.ledger.write("started", run=next_id, shape="plain_chain", n=n)
    return next_id


@step(transactional=True)
def insert(n: int) -> int:
    holdfast.sql.connection().execute(process.insert_entry, (info().run_id, info().step))
    return n + 1


@workflow(name="torture.chain")
async def chain(n: int) -> int:
    for _ in range(10):
        n = await act(n)
    return n


@workflow(name="torture.plain_chain")
def plain_chain(n: int) -> int:
    for _ in range(10):
        n = act_plainly(n)
    sync.sleep("10ms")
    return n


@workflow(name="torture.parallel")
async def parallel(n: int) -> int:
    return sum(await gather(*(act(n) for _ in range(10))))


@workflow(name="torture.leaf")
async def leaf(n: int) -> int:
    return await flaky(n)


@workflow(name="torture.fan_out")
async def fan_out(n: int) -> int:
    return sum(await holdfast.map(leaf, [n] * 5)) + sum(
        await holdfast.map(leaf, [n] * 4, max_parallel=2)
    )


SIGNAL_KEYS = ("0", "1", "2")
"""The keys of the signals that a run of the next workflow waits for."""


@workflow(name="torture.signalled")
async def signalled(n: int) -> int:
    tokens = [await draw([])]
    for _ in SIGNAL_KEYS:
        n += await wait_signal("add")
        tokens.append(await draw(tokens))
    return n + len(set(tokens))


DRAWS = 5
"""How many tokens a run draws."""


@workflow(name="torture.drawer")
async def drawer(n: int) -> int:
    tokens: list[str] = []
    for _ in range(DRAWS):
        tokens.append(await draw(tokens))
    return len(set(tokens))


@workflow(name="torture.plain_drawer")
def plain_drawer(n: int) -> int:
    tokens: list[str] = []
    for _ in range(DRAWS):
        tokens.append(draw_plainly(tokens))
    return len(set(tokens))


@workflow(name="torture.saga")
async def saga(n: int) -> int:
    for _ in range(5):
        compensate(undo, await act(n))
    await sleep("20ms")
    raise ValueError("it was meant to fail")


@workflow(name="torture.race")
async def race(n: int) -> int:
    async def slow() -> int:
        await sleep("1000d")
        return 0

    try:
        async with timeout("10ms"):
            await wait_signal("never")
    except TimeoutError:
        n = await act(n)
    return await first(slow(), act(n))


@workflow(name="torture.talker")
async def talker(n: int) -> int:
    n = await talk(n)
    return await talk(n)


@workflow(name="torture.starter")
async def starter(n: int) -> str:
    await act(n)
    return await start_another(n)


@workflow(name="torture.plain_starter")
def plain_starter(n: int) -> str:
    act_plainly(n)
    return start_another_plainly(n)


@workflow(name="torture.accountant")
async def accountant(n: int) -> int:
    n = await insert.aio(n)
    n = await act(n)
    return await insert.aio(n)


@workflow(name="torture.member")
async def member(*inputs: int) -> int:
    return await act(sum(inputs))


class Shape(NamedTuple):
    """What a run of a shape must come to."""

    workflow: Any
    steps: list[str]
    """The completed steps of its history, sorted."""
    result: Callable[[str, int], Any] | None
    """The result by run id and input; None if the run must fail."""
    in_sequence: list[str]
    """Steps of which each begins only after the one before is recorded."""


def _calls(name: str, count: int) -> list[str]:
    return [name] + [f"{name}#{number}" for number in range(2, count + 1)]


def _shape(
    workflow: Any, steps: list[str], result: Any, in_sequence: list[str] | None = None
) -> Shape:
    return Shape(workflow, sorted(steps), result, steps if in_sequence is None else in_sequence)


_ACTS = _calls("act", 5)
_UNDOS = [name.replace("act", "undo undo") for name in reversed(_ACTS)]

SHAPES: dict[str, Shape] = {
    "chain": _shape(chain, _calls("act", 10), lambda run, n: n + 10),
    "plain_chain": _shape(plain_chain, _calls("act_plainly", 10), lambda run, n: n + 10),
    "drawer": _shape(drawer, _calls("draw", DRAWS), lambda run, n: DRAWS),
    "plain_drawer": _shape(plain_drawer, _calls("draw_plainly", DRAWS), lambda run, n: DRAWS),
    "parallel": _shape(parallel, _calls("act", 10), lambda run, n: 10 * (n + 1), []),
    "fan_out": _shape(fan_out, [], lambda run, n: 9 * (n + 1)),
    "signalled": _shape(signalled, _calls("draw", 4), lambda run, n: n + 3 + 4),
    "saga": _shape(saga, [*_ACTS, *_UNDOS], None),
    "race": _shape(race, _calls("act", 2), lambda run, n: n + 2),
    "talker": _shape(talker, _calls("talk", 2), lambda run, n: n + 2),
    "starter": _shape(starter, ["act", "start_another"], lambda run, n: f"{run}-next"),
    "plain_starter": _shape(
        plain_starter, ["act_plainly", "start_another_plainly"], lambda run, n: f"{run}-next"
    ),
    "accountant": _shape(accountant, ["insert", "act", "insert#2"], lambda run, n: n + 3, ["act"]),
}
"""The shapes of runs that clients start."""

STARTED_TOGETHER = ("chain", "plain_chain", "drawer", "plain_drawer")
"""Shapes of which clients also start several in one commit."""

TASK = "torture.task"
"""The workflow of leased tasks: programs outside do its work."""


def diamond(n: int) -> Graph:
    """Return a graph of four members: one, two that need it, and one that needs both."""
    graph = Graph("diamond")
    top = graph.add(member, n, name="top")
    left = graph.add(member, top.result, name="left")
    right = graph.add(member, top.result, name="right")
    graph.add(member, left.result, right.result, name="bottom")
    return graph


def diamond_result(n: int) -> dict[str, int]:
    """Return the results of the last members of a diamond."""
    return {"bottom": 2 * (n + 2) + 1}
