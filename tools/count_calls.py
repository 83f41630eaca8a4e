"""Count the Python calls of one step in sequence, with ``Engine`` on SQLite.

The clock of a shared machine says little about a change of some percent; these counts say exactly
how much code a step passes through. Run it with another ``PYTHONPATH`` to count an earlier
revision: ``PYTHONPATH=../before/src python tools/count_calls.py``.
"""

from __future__ import annotations

import os
import tempfile
import threading
from types import FrameType
from typing import Any

import holdfast
from holdfast import Engine, step, workflow

PACKAGE = os.path.dirname(holdfast.__file__) + os.sep

FEW = 100
MANY = 1100
"""The steps of two runs: the difference of their counts leaves out what each run costs once."""


@step
async def one(number: int) -> int:
    return number


@workflow
async def steps(count: int) -> int:
    for number in range(count):
        await one(number)
    return count


class CallCounter:
    """Counts calls of functions of the package in the threads that start after ``install``.

    A coroutine that resumes counts as a call, too.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.changes = 0
        """How many of the calls come from another file."""

    def install(self) -> None:
        """Count from now on, in new threads."""
        threading.setprofile(self._count)

    def _count(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        file = frame.f_code.co_filename
        if file.startswith(PACKAGE):
            self.calls += 1
            caller = frame.f_back
            self.changes += caller is None or caller.f_code.co_filename != file


def calls_per_step() -> tuple[float, float]:
    """Return the calls of a step, and how many of them change the file."""
    counter = CallCounter()
    counts: list[tuple[int, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        counter.install()
        try:
            with Engine(os.path.join(folder, "calls.db")) as engine:
                for count in (FEW, FEW, MANY):  # the first run fills the caches
                    before = (counter.calls, counter.changes)
                    engine.start(steps, count).result()
                    counts.append((counter.calls - before[0], counter.changes - before[1]))
        finally:
            threading.setprofile(None)
    _, few, many = counts
    return (many[0] - few[0]) / (MANY - FEW), (many[1] - few[1]) / (MANY - FEW)


if __name__ == "__main__":
    print("{:.1f} calls, {:.1f} changes of file".format(*calls_per_step()))
