"""A front end that is not Python code: the promises of the seam, and of checkpoints."""

from __future__ import annotations

from contextlib import closing

import pytest

from holdfast import Engine, Fail, wait_signal, workflow
from holdfast.codecs import Encrypted
from holdfast.connect.open_store import open_store
from holdfast.core.events import Event, EventKind
from holdfast.core.status import Status
from holdfast.engine.worker.claimed_runs import history_to_load
from holdfast.service.copy import copy_store
from holdfast.store.runs.operations import EndSession
from holdfast.testing import Lab, internals
from tests.engine.toy_front_end import ListDefinition

LINES = [
    ("call", "double"),
    ("save", None),
    ("sleep", 3600),
    ("await", "go"),
    ("save", None),
    ("run", "toy.add_one"),
    ("call", "double"),
]
FAILING = [("call", "double"), ("save", None), ("call", "fail"), ("call", "double")]
calls: list[object] = []
broken: list[str] = []


def double(value: int) -> int:
    calls.append(value)
    return 2 * value


def fail(value: int) -> int:
    if broken:
        raise Fail(broken[0])
    return value


@workflow(name="toy.add_one")
async def add_one(value: int) -> int:
    return value + 1


@workflow(name="toy.parked")
async def parked(value: int) -> int:
    return await wait_signal("end", type=int)


FUNCTIONS = {"double": double, "fail": fail}
toy = ListDefinition("toy.list", LINES, FUNCTIONS)
failing = ListDefinition("toy.failing", FAILING, FUNCTIONS)
waiting = ListDefinition("toy.waiting", [("sleep", 3600), ("call", "double")], FUNCTIONS, "save")
above = ListDefinition("toy.above", [("run", "toy.parked"), ("call", "double")], FUNCTIONS, "save")
SERVED = [toy, failing, waiting, above, add_one, parked]


@pytest.fixture(autouse=True)
def _clear():
    calls.clear()
    broken.clear()


@pytest.fixture
def lab(database):
    with closing(Lab(database, workflows=SERVED)) as lab:
        yield lab
        assert lab.engine.database.check() == []


def kinds(lab: Lab, run_id: str) -> list[str]:
    return [event.kind for event in lab.history(run_id)]


def loaded(lab: Lab, run_id: str) -> list[Event]:
    """Return what the next holder of the run reads."""
    return history_to_load(internals(lab.engine).store, run_id)


def take_over(lab: Lab) -> None:
    """Kill the worker, let its death be known, and go on with another one."""
    lab.abandon()
    with closing(open_store(lab.path, clock=lab.clock)) as store:
        store.apply([EndSession(session.id, crashed=True) for session in store.sessions.all()])
    lab.engine = lab._open()
    lab.settle()


def to_the_signal(lab: Lab, **options) -> str:
    run = lab.start(toy, 5, **options)
    lab.settle()
    lab.advance("1h")
    return run.id


def test_a_list_of_instructions_is_a_workflow_with_a_child_in_python(lab):
    run_id = to_the_signal(lab)
    lab.signal(run_id, "go", 20)

    assert lab.finish(run_id) == 42
    assert calls == [5, 21]
    assert kinds(lab, run_id).count(EventKind.CHECKPOINT_WRITTEN) == 2
    steps = lab.engine.run(run_id).steps()
    calls_of_steps = [step for step in steps if step.kind == EventKind.STEP_COMPLETED]
    assert [(step.id, step.status) for step in calls_of_steps] == [
        ("double#0", "completed"),
        ("double#6", "completed"),
    ]


def test_a_run_continues_from_its_last_checkpoint_alone(lab):
    run_id = to_the_signal(lab)
    checkpoint = next(e for e in lab.history(run_id) if e.kind == EventKind.CHECKPOINT_WRITTEN)
    take_over(lab)

    assert loaded(lab, run_id)[0].seq == checkpoint.seq
    lab.signal(run_id, "go", 20)
    assert lab.finish(run_id) == 42
    assert calls == [5, 21]


def test_a_timer_that_began_before_a_checkpoint_keeps_its_time(lab):
    """The event of the timer is not read again: the checkpoint has its instant."""
    run = lab.start(waiting, 1)
    lab.settle()
    lab.advance("30m")
    lab.signal(run, "save")
    lab.settle()
    lab.restart()
    lab.settle()

    assert EventKind.TIMER_SET not in [event.kind for event in loaded(lab, run.id)]
    lab.advance("30m")
    assert lab.engine.run(run.id).result(timeout=60) == 2


def test_a_child_that_began_before_a_checkpoint_is_not_started_again(lab):
    run = lab.start(above, 1)
    lab.settle()
    lab.signal(run, "save")
    lab.settle()
    take_over(lab)

    (child,) = list(lab.engine.runs(workflow="toy.parked"))
    lab.signal(child.id, "end", 4)
    assert lab.finish(run.id) == 8


def test_a_replay_keeps_the_checkpoint_before_the_failure(lab):
    broken.append("no")
    run = lab.start(failing, 5)
    lab.settle()
    assert lab.engine.run(run.id).status is Status.FAILED

    broken.clear()
    lab.engine.replay(run.id)

    assert lab.finish(run.id) == 20
    assert calls == [5, 10]
    events = [event for event in lab.history(run.id) if not event.void]
    assert [event.kind for event in events].count(EventKind.CHECKPOINT_WRITTEN) == 1


def test_a_replay_from_a_step_voids_the_checkpoints_after_it(lab):
    run_id = to_the_signal(lab)
    lab.signal(run_id, "go", 20)
    lab.finish(run_id)

    lab.engine.replay(run_id, from_step="double#0")
    lab.settle()
    lab.advance("1h")
    lab.signal(run_id, "go", 1)

    assert lab.finish(run_id) == 4
    assert calls == [5, 21, 5, 2]


def test_a_replayed_run_is_read_whole_until_its_next_checkpoint(lab):
    run_id = to_the_signal(lab)
    lab.signal(run_id, "go", 20)
    lab.finish(run_id)
    lab.engine.replay(run_id, from_step="toy.add_one#5")
    take_over(lab)

    assert lab.finish(run_id) == 42
    assert calls == [5, 21, 21]
    assert loaded(lab, run_id)[0].seq == 1


def test_a_fork_takes_over_the_checkpoints_before_its_step(lab):
    run_id = to_the_signal(lab)
    lab.signal(run_id, "go", 20)
    lab.finish(run_id)

    fork = lab.engine.fork(run_id, from_step="double#6")

    assert lab.finish(fork.id) == 42
    assert calls == [5, 21, 21]
    assert kinds(lab, fork.id).count(EventKind.CHECKPOINT_WRITTEN) == 2


def test_a_fork_leaves_out_a_checkpoint_that_knows_an_open_child(lab):
    run = lab.start(above, 1)
    lab.settle()
    lab.signal(run, "save")
    lab.settle()
    lab.signal(run, "save")
    lab.settle()

    fork = lab.engine.fork(run.id, from_step="save#1")
    lab.settle()
    children = {child.parent_id: child for child in lab.engine.runs(workflow="toy.parked")}
    own = children[fork.id]
    lab.signal(own.id, "end", 4)

    assert lab.finish(fork.id) == 8
    assert lab.engine.run(run.id).status is Status.WAITING
    assert EventKind.CHECKPOINT_WRITTEN not in kinds(lab, fork.id)


def test_the_state_is_sealed_like_every_value_and_moves_to_a_new_key(database):
    keys = {"k1": b"1" * 32, "k2": b"2" * 32}
    with closing(Lab(database, workflows=SERVED, codec=Encrypted(keys, "k1"))) as lab:
        run_id = to_the_signal(lab, id="sealed")
        stored = internals(lab.engine).store.runs.history(run_id)
        data = next(e.data for e in stored if e.kind == EventKind.CHECKPOINT_WRITTEN)
        assert b"state" not in data
    with closing(Engine(database, workflows=[], codec=Encrypted(keys, "k2"))) as engine:
        assert engine.keys.rekey().unreadable == {}

    only = Encrypted({"k2": keys["k2"]}, "k2")
    with closing(Lab(database, workflows=SERVED, codec=only, clock=lab.clock)) as lab:
        lab.signal(run_id, "go", 20)
        assert lab.finish(run_id) == 42


def test_a_copy_of_the_database_continues_from_the_checkpoint(database, tmp_path):
    lab = Lab(database, workflows=SERVED)
    run_id = to_the_signal(lab)
    lab.abandon()
    target = str(tmp_path / "copy.db")
    with closing(open_store(lab.path, clock=lab.clock)) as store:
        store.apply([EndSession(session.id, crashed=True) for session in store.sessions.all()])
        copy_store(store, lambda: open_store(target, clock=lab.clock, half_copied=True))

    with closing(Lab(target, workflows=SERVED, clock=lab.clock)) as copy:
        checkpoint = loaded(copy, run_id)[0]
        copy.signal(run_id, "go", 20)
        assert (checkpoint.kind, copy.finish(run_id)) == (EventKind.CHECKPOINT_WRITTEN, 42)


def test_a_list_is_served_by_its_name_alone(database):
    with Engine(database, workflows=SERVED) as engine:
        assert engine.start("toy.failing", 3).result(timeout=60) == 12
