"""Trees of runs that stop, killed before and after each of their commits: children undo before
their parents."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import compensate, step, sync, workflow
from holdfast.testing import crash_everywhere
from holdfast.testing.recorder import RUN

undone: list[str] = []


@step
async def undo(what: str) -> None:
    undone.append(what)


@step
def undo_blocking(what: str) -> None:
    undone.append(what)


@workflow(name="first_leaf")
async def leaf(name: str) -> None:
    compensate(undo, name)
    await holdfast.sleep("30d")


@workflow(name="first_branch")
async def branch(name: str) -> None:
    compensate(undo, name)
    await leaf(f"{name}.leaf")


async def _fails() -> None:
    await holdfast.sleep("1h")
    raise ValueError("broken")


def _fails_blocking() -> None:
    sync.sleep("1h")
    raise ValueError("broken")


@workflow(name="first_gathering")
async def gathering() -> None:
    compensate(undo, "root")
    await holdfast.gather(branch("branch"), _fails())


@workflow(name="first_gathering_blocking")
def gathering_blocking() -> None:
    compensate(undo_blocking, "root")
    sync.gather(lambda: sync.start(branch, "branch").result(), _fails_blocking)


@workflow(name="first_mapping")
async def mapping() -> None:
    compensate(undo, "root")
    await holdfast.map(branch, ["branch", "other"])


@workflow(name="first_starting")
def starting_blocking() -> None:
    compensate(undo_blocking, "root")
    sync.start(branch, "branch")
    sync.sleep("30d")


def children_first(lab) -> None:
    """A step may run twice after a crash, so the first time counts. A run that was cancelled before
    it began undoes nothing."""
    order = list(dict.fromkeys(undone))
    assert not order or order[-1] == "root"
    for name in order:
        leaf_name = f"{name}.leaf"
        assert leaf_name not in order or order.index(leaf_name) < order.index(name)


def cancelled(lab) -> None:
    assert lab.engine.run(RUN).status == "cancelled"
    children_first(lab)


@pytest.mark.parametrize("idle_timeout", [0, 10], ids=["parked", "in memory"])
@pytest.mark.parametrize("shape", [gathering, gathering_blocking], ids=lambda shape: shape.name)
def test_children_undo_before_a_parent_that_fails(shape, idle_timeout):
    crash_everywhere(
        shape,
        setup=undone.clear,
        doubles=1,
        engine={"idle_timeout": idle_timeout},
        check=children_first,
    )


@pytest.mark.parametrize("at", [3, 4])
@pytest.mark.parametrize("shape", [mapping, starting_blocking], ids=lambda shape: shape.name)
def test_children_undo_before_a_parent_that_is_cancelled(shape, at):
    crash_everywhere(shape, setup=undone.clear, doubles=1, cancel_at=at, check=cancelled)


def test_children_undo_before_a_parent_that_expires():
    crash_everywhere(
        mapping, setup=undone.clear, doubles=1, options={"deadline": "1d"}, check=children_first
    )
