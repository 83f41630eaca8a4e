"""Text workflows beside the same workflows in Python, in one process and by turns: a ratio of their
CPU times does not depend on the load of the machine."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from typing import Any

import holdfast
from bench.place import Place
from holdfast import step, wf, workflow

ANSWER = {"markers": ["more"], "context": "done"}
"""What each step answers, and each executor."""

CALLS = 10


@step
async def work(number: int) -> dict[str, Any]:
    return ANSWER


@workflow
async def ten_calls(inputs: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    for number in range(CALLS):
        answer = await work(number)
    return answer


@workflow
async def loop(inputs: dict[str, Any]) -> int:
    number = 0
    limit = int(inputs["count"])
    while number < limit:
        answer = await work(number)
        if "more" not in answer["markers"]:
            break
        number += 1
    return number


@workflow
async def child(inputs: dict[str, Any]) -> dict[str, Any]:
    return await work(0)


@workflow
async def fanout(inputs: dict[str, Any]) -> int:
    items = [{"item.id": str(number)} for number in range(int(inputs["count"]))]
    return len(await holdfast.map(child, items))


def library(count: int) -> wf.Library:
    """Return the texts; *count* is the number of iterations and of items."""
    texts = wf.Library()
    texts.executor("work")(_work)
    texts.provider("numbers")(lambda ask: [wf.Item(str(number)) for number in range(count)])
    texts.add("workflow ten-texts {\n" + "  call work\n" * CALLS + "}\n", path="ten-texts.wf")
    texts.add(
        f"workflow loop-text {{\n  do {{\n    max_iterations = {count}\n"
        "    on_max_iter = continue\n    call work\n  } while work.more\n}\n",
        path="loop-text.wf",
    )
    texts.add("workflow child-text {\n  call work\n}\n", path="child-text.wf")
    texts.add(
        "workflow fanout-text {\n  foreach each {\n    over = numbers\n"
        f"    max_parallel = {count}\n    workflow = child-text\n  }}\n}}\n",
        path="fanout-text.wf",
    )
    return texts


async def _work(call: wf.Call) -> dict[str, Any]:
    return ANSWER


def by_turns(
    place: Place, turns: int, text: Callable[[], Any], **others: Callable[[], Any]
) -> dict[str, float]:
    """Return the CPU seconds of each, of this process and of the database server, and the median
    of the ratios of *text* to each of the *others*."""
    work = {"text": text, **others}
    taken: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(turns):
        # Each of them comes first now and then: the first may find a colder machine.
        names = [*work][turn % len(work) :] + [*work][: turn % len(work)]
        for name in names:
            taken[name].append(_cpu(place, work[name]))
    figures = {f"{name}_cpu_seconds": statistics.median(taken[name]) for name in work}
    for name in others:
        ratios = [one / other for one, other in zip(taken["text"], taken[name], strict=True)]
        figures[f"{name}_ratio"] = statistics.median(ratios)
    return figures


def _cpu(place: Place, run: Callable[[], Any]) -> float:
    gc.collect()
    with place.meter() as meter:
        run()
    return meter.cpu + meter.server
