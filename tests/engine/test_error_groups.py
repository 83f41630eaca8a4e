"""Failed runs, grouped by their root cause."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AsyncEngine, step, workflow
from holdfast.errors import BadOption


@step
def look_up(number: int) -> None:
    raise KeyError(f"order {number}") from ConnectionError(f"no route to 10.0.0.{number}")


@workflow(name="grouped.lookup")
async def looking(number: int) -> None:
    await look_up(number)


@workflow(name="grouped.plain")
async def plain(word: str) -> None:
    raise ValueError(word)


@pytest.fixture
def failures(engine):
    runs = [engine.start(looking, number) for number in range(3)]
    runs += [engine.start(plain, word) for word in ("red", "red", "blue")]
    for run in runs:
        run.wait_until("failed", timeout=60)
    return [run.id for run in runs]


def test_runs_with_the_same_cause_form_one_group(engine, failures):
    groups = engine.runs(status="failed").group("error")

    assert [(group.workflow, group.step, group.count) for group in groups] == [
        ("grouped.lookup", "look_up", 3),
        ("grouped.plain", None, 2),
        ("grouped.plain", None, 1),
    ]
    assert groups[0].error == "ConnectionError: no route to 10.0.0.2"
    assert groups[0].example == failures[2]
    assert groups[0].first_at <= groups[0].last_at
    assert groups.next is None


def test_groups_are_read_in_pages_of_runs(engine, failures):
    first = engine.runs(status="failed").group(limit=4)
    rest = engine.runs(status="failed").group(after=first.next, limit=4)

    assert first.next is not None and rest.next is None
    assert sum(group.count for group in [*first, *rest]) == len(failures)


def test_runs_without_an_error_are_left_out(engine):
    assert engine.runs(status="completed").group() == []


@pytest.mark.parametrize("options", [{"by": "colour"}, {"by": 7}, {"limit": 0}, {"limit": "many"}])
def test_wrong_groups_are_refused(engine, options):
    with pytest.raises(BadOption):
        engine.runs().group(**options)


def test_an_asynchronous_engine_groups_too(database, engine, failures):
    async def main() -> int:
        async with AsyncEngine(database, work=False) as other:
            return len(await other.runs(status="failed").group())

    assert asyncio.run(main()) == 3
