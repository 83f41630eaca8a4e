"""Random sound models: every instance ends, no token is lost, and crashes change nothing."""

from __future__ import annotations

from hypothesis import given, note, settings
from hypothesis import strategies as st

from holdfast.authoring.bpmn.token_machine.machine import TokenMachine
from holdfast.authoring.bpmn.token_machine.migration import (
    ProcessVersion,
    continue_migrated,
    plan_migration,
)
from holdfast.authoring.bpmn.token_machine.snapshot import restore, snapshot_of
from holdfast.errors import BpmnError
from tests.bpmn.engine_world import EngineWorld
from tests.bpmn.pure_world import PureWorld
from tests.bpmn.random_models import EXAMPLES, blocks, model_of_block, renamed


def work(n):
    return {"n": n + 2}


def throw(n):
    if n % 2:
        raise BpmnError("E")
    return {}


HANDLERS = {"random-work": work, "random-throw": throw}
CHOICES = st.lists(st.integers(0, 7), min_size=3, max_size=8)
START = {"n": 1}
MOVES = 400


def drive(world, run, choices, at_rest=lambda move: None):
    """Complete tasks and let time pass, as the choices say, until the instance ends."""
    for move in range(MOVES):
        if world.ended(run):
            return
        at_rest(move)
        choice = choices[move % len(choices)]
        tasks = sorted(world.open_tasks(), key=lambda task: (task.element, task.wait_id))
        if tasks and (choice or move % 2):
            world.complete(tasks[choice % len(tasks)], {"n": choice})
        else:
            world.advance("PT1H")
    raise AssertionError("the instance does not end")


class Tasks:
    """The tasks of a world with an id that sorts the same in every world."""

    def __init__(self, world):
        self._world = world

    def __getattr__(self, name):
        return getattr(self._world, name)

    def open_tasks(self):
        return [_Task(task) for task in self._world.open_tasks()]

    def complete(self, task, variables):
        self._world.complete(task.task, variables)


class _Task:
    def __init__(self, task):
        self.task = task
        self.element = task.element
        self.wait_id = task.wait if hasattr(task, "wait") else task.id


def pure(block, prefix=""):
    world = PureWorld([model_of_block(block, prefix)], HANDLERS)
    assert not world.refused
    return world


def check_accounts(trace):
    """Check that every token that entered an element has left it."""
    for element, entry in trace.elements.items():
        assert entry.active == 0, element
        assert entry.entered == entry.completed + entry.cancelled, element


def end_of(world, run):
    return world.variables(run), world.completed(run)


@given(block=blocks(), choices=CHOICES)
@settings(max_examples=EXAMPLES * 4, deadline=None)
def test_every_instance_ends_with_every_token_accounted_for(block, choices):
    world = pure(block)
    run = world.start("random", START)

    drive(Tasks(world), run, choices)

    state = world.instances[run].machine.state
    assert not state.tokens and not state.waits and not state.runs
    check_accounts(state.trace)


@given(block=blocks(), choices=CHOICES)
@settings(max_examples=EXAMPLES * 2, deadline=None)
def test_a_state_that_is_stored_and_restored_at_every_rest_goes_on_alike(block, choices):
    plain = pure(block)
    run = plain.start("random", START)
    drive(Tasks(plain), run, choices)
    world = pure(block)
    world.start("random", START)

    def reload(move):
        instance = world.instances[run]
        before = instance.machine.state
        after = TokenMachine(before.graph, before.bind, now=before.now)
        restore(after.state, snapshot_of(before, {}))
        after.state.trace = before.trace
        assert snapshot_of(after.state, {}) == snapshot_of(before, {})
        instance.machine = after

    drive(Tasks(world), run, choices, reload)

    assert end_of(world, run) == end_of(plain, run)


@given(block=blocks(), choices=CHOICES, when=st.integers(0, 5))
@settings(max_examples=EXAMPLES * 2, deadline=None)
def test_a_migration_to_a_renamed_model_changes_nothing_but_names(block, choices, when):
    plain = pure(block)
    run = plain.start("random", START)
    drive(Tasks(plain), run, choices)
    world = pure(block)
    world.start("random", START)
    other = pure(block, "z-")
    names = renamed(world.graphs["random"], "z-")
    version = ProcessVersion(
        version="2", graph=other.graphs["random"], bind=other.binders["random"]
    )

    def migrate(move):
        if move != when:
            return
        machine = world.instances[run].machine
        plan, state = plan_migration(machine.state, version, names)
        note(plan)
        assert state is not None
        machine.state = state
        continue_migrated(machine)
        world.settle()

    drive(Tasks(world), run, choices, migrate)

    assert world.variables(run) == plain.variables(run)
    check_accounts(world.instances[run].machine.state.trace)


@given(block=blocks(), choices=CHOICES)
@settings(max_examples=max(EXAMPLES // 8, 3), deadline=None)
def test_the_engine_comes_to_the_same_end_with_and_without_crashes(block, choices):
    ends = []
    for kills in (False, True):
        world = EngineWorld([model_of_block(block)], HANDLERS, kills=kills)
        try:
            assert not world.refused
            run = world.start("random", START)

            def check(move, world=world):
                if move < 2:
                    assert world.check() == []

            drive(Tasks(world), run, choices, check)
            check_accounts(world.models.trace(run))
            assert world.check() == []
            ends.append(end_of(world, run))
        finally:
            world.close()
    plain = pure(block)
    drive(Tasks(plain), plain.start("random", START), choices)

    assert ends[0] == ends[1] == end_of(plain, "random-1")
