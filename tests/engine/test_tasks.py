"""Tasks: a run of a single step, started from anywhere, done by whoever offers what it needs."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Engine, map, start, sync, task, workflow
from holdfast.errors import BadOption, ChildFailed, RunFailed
from holdfast.testing import crash_everywhere


@task(retries=2, delay="1ms", lane="pictures")
def reduce_size(size: int) -> int:
    if holdfast.info().attempt == 1:
        raise ValueError("not yet")
    return size // 2


@task
async def enlarge(size: int) -> int:
    return size * 2


@task(capabilities=["cuda"])
def trace_rays(size: int) -> str:
    return f"rendered {size}"


@task
def hopeless(size: int) -> int:
    raise holdfast.Fail("no")


@workflow
async def resize_all(size: int) -> list[object]:
    handle = await start(enlarge, size)
    return [
        await reduce_size(size),
        await enlarge(size),
        await map(enlarge, [1, 2]),
        await handle.result(),
    ]


@sync.workflow
def resize_plainly(size: int) -> list[int]:
    return [reduce_size(size), enlarge(size)]


@workflow
async def resize_badly(size: int) -> str:
    try:
        await hopeless(size)
    except ChildFailed as failure:
        return str(failure.facts["type"])
    return "well"


def test_a_task_is_a_run_by_itself(engine):
    run = engine.start(reduce_size, 8)

    assert run.result(timeout="20s") == 4
    assert run.record.lane == "pictures"
    assert [event.kind for event in run.history()] == [
        "step_retried",
        "step_completed",
        "run_completed",
    ]


def test_a_task_is_called_started_and_mapped_by_workflows_of_both_colours(engine):
    assert engine.start(resize_all, 8).result(timeout="20s") == [4, 16, [2, 4], 16]
    assert engine.start(resize_plainly, 8).result(timeout="20s") == [4, 16]


def test_a_task_that_fails_is_seen_by_its_workflow(engine):
    assert engine.start(resize_badly, 1).result(timeout="20s") == "Fail"
    with pytest.raises(RunFailed):
        engine.start(hopeless, 1).result(timeout="20s")


def test_a_task_is_done_by_a_worker_that_offers_what_it_needs(engine, database):
    run = engine.start(trace_rays, 3)
    assert run.status == "pending"
    with Engine(database, capabilities=["cuda"]):
        assert run.result(timeout="20s") == "rendered 3"


def test_elsewhere_a_task_is_a_function():
    assert trace_rays(3) == "rendered 3"
    assert repr(trace_rays) == "<task trace_rays>"


def test_what_is_no_function_is_no_task():
    with pytest.raises(BadOption):
        task(enlarge)
    with pytest.raises(BadOption):
        task(3)  # type: ignore[call-overload]


def test_a_task_survives_a_crash_at_every_commit():
    crash_everywhere(reduce_size, 8)
    crash_everywhere(resize_all, 8)
