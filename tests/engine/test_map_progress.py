"""The progress of a ``map``: how many of its children have ended, without reading them."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import wait_signal, workflow
from holdfast.errors import RunCancelled
from holdfast.testing import internals
from holdfast.views.steps import MapProgressView
from tests.engine.waiting import wait_until


@workflow
async def mapped_part(n: int) -> int:
    if n < 3:
        return n
    await wait_signal("go")
    return n


@pytest.mark.parametrize("limit", [None, 2])
def test_a_run_and_its_step_show_how_many_children_have_ended(engine, limit):
    @workflow
    async def whole() -> list[int]:
        return await holdfast.map(mapped_part, range(6), max_parallel=limit)

    run = engine.start(whole)
    wait_until(engine, lambda: run.status == "waiting" and ended(engine, run) == 3)

    (wait,) = run.record.waits
    assert (wait["done"], wait["open"], wait["of"]) == (3, 3, 6)
    (item,) = run.steps()
    assert item.progress == MapProgressView(3, 6)
    assert "6 children of step" in str(run.why().blockers[0])
    assert "of which 3 have ended" in str(run.why().blockers[0])

    run.cancel("enough")
    with pytest.raises(RunCancelled):
        run.result(timeout=30)


def ended(engine, run) -> int:
    return internals(engine).store.children.map_progress(run.id).get("map mapped_part", 0)
