"""A workflow of another front end than Python code, with checkpoints, killed before and after each
of its commits."""

from __future__ import annotations

from collections import Counter

from holdfast import workflow
from holdfast.core.events import EventKind
from holdfast.testing.recorder import RUN
from tests.engine.toy_front_end import ListDefinition

world: Counter[int] = Counter()


def double(value: int) -> int:
    world[value] += 1
    return 2 * value


@workflow(name="crash_front_ends.add_one")
async def add_one(value: int) -> int:
    return value + 1


LINES = [
    ("call", "double"),
    ("save", None),
    ("sleep", 60),
    ("await", "go"),
    ("save", None),
    ("run", "crash_front_ends.add_one"),
    ("save", None),
    ("call", "double"),
]


def test_a_list_with_checkpoints_comes_to_the_same_end(crashing):
    lines = ListDefinition("crash_front_ends.lines", LINES, {"double": double})

    report = crashing(lines, 5, signals=[("go", 20)], setup=world.clear, check=_has_checkpoints)

    assert report.boundaries > 5


def test_a_list_that_saves_itself_while_it_waits_comes_to_the_same_end(crashing):
    lines = [("sleep", 60), ("run", "crash_front_ends.add_one"), ("call", "double")]
    saving = ListDefinition("crash_front_ends.saving", lines, {"double": double}, "save")

    report = crashing(saving, 5, signals=["save"], setup=world.clear, exact=False)

    assert report.boundaries > 4


def _has_checkpoints(lab) -> None:
    kinds = [event.kind for event in lab.history(RUN)]
    assert kinds.count(EventKind.CHECKPOINT_WRITTEN) == 3
    assert lab.engine.run(RUN).result(timeout=60) == 42
