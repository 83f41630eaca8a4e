"""A run that stops waits for its children: they undo and end first, and only then does it undo and
end itself."""

from __future__ import annotations

import threading

import pytest

import holdfast
from holdfast import Engine, compensate, step, sync, wait_signal, workflow
from holdfast.errors import RunCancelled, RunExpired, RunFailed
from tests.engine.waiting import wait_for, wait_until

done: list[str] = []
may_undo = threading.Event()


@pytest.fixture(autouse=True)
def _nothing_done():
    done.clear()
    may_undo.set()


@step
def undo_child(what: str) -> None:
    assert may_undo.wait(60)
    done.append(f"undo {what}")


@step
def undo_parent(what: str) -> None:
    done.append(f"undo {what}")


@step
def fail() -> None:
    raise holdfast.Fail("broken")


@workflow(name="stopping_leaf")
async def leaf(name: str) -> None:
    compensate(undo_child, name)
    await wait_signal("never")


@workflow(name="stopping_blocking_leaf")
def blocking_leaf(name: str) -> None:
    compensate(undo_child, name)
    sync.wait_signal("never")


@workflow(name="stopping_branch")
async def branch(name: str) -> None:
    compensate(undo_parent, name)
    await leaf(f"{name}.leaf")


@workflow(name="stopping_calling")
async def calling() -> None:
    compensate(undo_parent, "root")
    await branch("branch")


@workflow(name="stopping_calling_blocking")
def calling_blocking() -> None:
    compensate(undo_parent, "root")
    sync.start(branch, "branch").result()


@workflow(name="stopping_mapping")
async def mapping() -> None:
    compensate(undo_parent, "root")
    await holdfast.map(leaf, ["a", "b", "c"])


@workflow(name="stopping_mapping_blocking")
def mapping_blocking() -> None:
    compensate(undo_parent, "root")
    sync.map(blocking_leaf, ["a", "b", "c"])


async def _fail_on_signal() -> None:
    await wait_signal("fail")
    raise ValueError("one of the branches failed")


def _fail_on_signal_blocking() -> None:
    sync.wait_signal("fail")
    raise ValueError("one of the branches failed")


@workflow(name="stopping_gathering")
async def gathering() -> None:
    compensate(undo_parent, "root")
    await holdfast.gather(leaf("a"), leaf("b"), _fail_on_signal())


@workflow(name="stopping_gathering_blocking")
def gathering_blocking() -> None:
    compensate(undo_parent, "root")
    sync.gather(
        lambda: sync.start(leaf, "a").result(), lambda: blocking_leaf("b"), _fail_on_signal_blocking
    )


@workflow(name="stopping_without_compensation")
async def without_compensation() -> None:
    await holdfast.start(leaf, "a")
    await wait_signal("never")


TREES = pytest.mark.parametrize(
    ("flow", "names"),
    [
        (calling, ["branch.leaf", "branch"]),
        (calling_blocking, ["branch.leaf", "branch"]),
        (mapping, ["a", "b", "c"]),
        (mapping_blocking, ["a", "b", "c"]),
        (without_compensation, ["a"]),
    ],
    ids=["calling", "calling_blocking", "mapping", "mapping_blocking", "without_compensation"],
)
ROOT = {
    calling: ["undo root"],
    calling_blocking: ["undo root"],
    mapping: ["undo root"],
    mapping_blocking: ["undo root"],
    without_compensation: [],
}
"""What the root of a tree undoes."""

GATHERS = pytest.mark.parametrize(
    "flow", [gathering, gathering_blocking], ids=["async", "blocking"]
)


def below(engine, run):
    children = list(engine.runs(parent_id=run.id))
    return [*children, *(deeper for child in children for deeper in below(engine, child))]


def wait_for_leaves(engine, run, names):
    wait_until(
        engine,
        lambda: (
            len(runs := below(engine, run)) == len(names)
            and all(listed_run.status == "waiting" for listed_run in runs)
        ),
    )


def assert_children_ended_first(engine, run, status):
    for child in below(engine, run):
        assert child.status == status
        parent = engine.run(child.parent_id)
        assert "children_ended" in [event.kind for event in engine.run(parent.id).history()]
        assert engine.run(child.id).history()[-1].at <= engine.run(parent.id).history()[-1].at


def undone(names):
    """Return what *names* have undone, in the order in which they must; siblings are in the order
    in which they did."""
    lines = [f"undo {name}" for name in names]
    return lines if "branch" in names else sorted(lines, key=done.index)


@TREES
def test_a_tree_that_is_cancelled_ends_from_the_leaves_up(engine, flow, names):
    run = engine.start(flow)
    wait_for_leaves(engine, run, names)
    run.cancel("enough")
    with pytest.raises(RunCancelled, match="enough"):
        run.result(timeout=60)
    assert done == [*undone(names), *ROOT[flow]]
    assert_children_ended_first(engine, run, "cancelled")


@TREES
def test_a_tree_that_is_cancelled_while_no_worker_is_up_ends_from_the_leaves_up(
    database, flow, names
):
    with Engine(database) as engine:
        run = engine.start(flow)
        wait_for_leaves(engine, run, names)
    idle = Engine(database)
    idle.cancel(run.id, "enough")
    idle.close()
    with Engine(database) as engine:
        with pytest.raises(RunCancelled, match="enough"):
            engine.run(run.id).result(timeout=60)
        assert done == [*undone(names), *ROOT[flow]]
        assert_children_ended_first(engine, run, "cancelled")
        assert engine.database.check() == []


@TREES
def test_a_tree_that_expires_ends_from_the_leaves_up(database, clock, flow, names):
    with Engine(database, clock=clock) as engine:
        run = engine.start(flow, deadline="1d")
        wait_for_leaves(engine, run, names)
    clock.advance("2d")
    with Engine(database, clock=clock) as engine:
        with pytest.raises(RunExpired):
            engine.run(run.id).result(timeout=60)
        assert done == [*undone(names), *ROOT[flow]]
        assert_children_ended_first(engine, run, "expired")
        assert engine.database.check() == []


@GATHERS
def test_a_branch_that_fails_lets_the_children_beside_it_undo_first(engine, flow):
    run = engine.start(flow)
    wait_for_leaves(engine, run, ["a", "b"])
    may_undo.clear()
    run.signal("fail")
    wait_until(engine, lambda: {child.status for child in below(engine, run)} == {"cancelling"})
    wait_for(engine, run, "waiting")
    assert done == []
    may_undo.set()
    with pytest.raises(RunFailed, match="one of the branches failed"):
        run.result(timeout=60)
    assert done == [*undone(["a", "b"]), "undo root"]
    assert_children_ended_first(engine, run, "cancelled")


def test_a_child_of_a_map_that_fails_lets_its_siblings_undo_before_the_parent(engine):
    @workflow(name="stopping_picky")
    async def picky(name: str) -> None:
        compensate(undo_child, name)
        await wait_signal(f"fail {name}")
        await fail.aio()

    @workflow(name="stopping_parent")
    async def parent() -> None:
        compensate(undo_parent, "root")
        await holdfast.map(picky, ["good", "bad"])

    run = engine.start(parent)
    wait_for_leaves(engine, run, ["good", "bad"])
    for child in below(engine, run):
        engine.signal(child.id, "fail bad")
    with pytest.raises(RunFailed):
        run.result(timeout=60)
    assert sorted(done[:2]) == ["undo bad", "undo good"]
    assert done[2:] == ["undo root"]


def test_a_cancellation_does_not_interrupt_a_run_that_waits_for_its_children(engine):
    run = engine.start(gathering)
    wait_for_leaves(engine, run, ["a", "b"])
    may_undo.clear()
    run.signal("fail")
    wait_for(engine, run, "waiting")
    wait_until(engine, lambda: {child.status for child in below(engine, run)} == {"cancelling"})
    assert run.cancel("impatience") == "cancelling"
    wait_until(engine, lambda: "cancel_requested" in kinds(engine, run))
    may_undo.set()
    with pytest.raises(RunFailed, match="one of the branches failed"):
        run.result(timeout=60)
    assert done == [*undone(["a", "b"]), "undo root"]


def test_children_that_are_left_are_not_waited_for(engine):
    @workflow(name="stopping_parent")
    async def parent() -> None:
        await holdfast.start(leaf, "left", on_parent_end="leave")
        await fail.aio()

    run = engine.start(parent)
    with pytest.raises(RunFailed):
        run.result(timeout=60)
    (child,) = below(engine, run)
    wait_for(engine, engine.run(child.id), "waiting")
    assert "children_ended" not in kinds(engine, run)


def test_a_parent_that_has_heard_of_all_ends_records_no_wait(engine):
    @workflow(name="stopping_parent")
    async def parent() -> None:
        compensate(undo_parent, "root")
        await failing()

    @workflow(name="stopping_failing")
    async def failing() -> None:
        raise ValueError("broken")

    run = engine.start(parent)
    with pytest.raises(RunFailed):
        run.result(timeout=60)
    assert "children_ended" not in kinds(engine, run)


def test_a_child_that_is_started_and_forgotten_at_once_ends_first(engine):
    @workflow(name="stopping_parent")
    async def parent() -> None:
        await holdfast.start(leaf, "a")
        raise ValueError("broken")

    run = engine.start(parent)
    with pytest.raises(RunFailed, match="broken"):
        run.result(timeout=60)
    assert_children_ended_first(engine, run, "cancelled")


def test_why_names_the_child_and_an_operator_can_release_the_parent(engine):
    run = engine.start(mapping)
    wait_for_leaves(engine, run, ["a", "b", "c"])
    may_undo.clear()
    run.cancel("enough")
    wait_until(
        engine,
        lambda: (
            "children_end" in [each_blocker.kind for each_blocker in engine.why(run.id).blockers]
        ),
    )
    (blocker,) = [
        each_blocker
        for each_blocker in engine.why(run.id).blockers
        if each_blocker.kind == "children_end"
    ]
    assert "3 are open" in blocker.text
    assert blocker.holder in {child.id for child in below(engine, run)}
    assert f"holdfast waits release {run.id}" in blocker.text
    assert engine.waits.release(run.id) == "end of children"
    with pytest.raises(RunCancelled):
        run.result(timeout=60)
    assert done == ["undo root"]
    (ended,) = [event for event in engine.run(run.id).history() if event.kind == "children_ended"]
    assert ended.data == {"released": True}
    may_undo.set()
    wait_until(engine, lambda: {child.status for child in below(engine, run)} == {"cancelled"})


def kinds(engine, run):
    return [event.kind for event in engine.run(run.id).history()]
