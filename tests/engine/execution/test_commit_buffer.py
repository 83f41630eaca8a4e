"""The buffer of the next commit, by itself."""

import pytest

from holdfast.core.commands import Finish
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import Fanout, NewRun, Route
from holdfast.engine.execution.commit_buffer import CommitBuffer
from holdfast.store.runs.operations import CancelOtherRun, StartChildren
from holdfast.store.signals.operations import TakeSignals


def new_run(run_id):
    return NewRun(id=run_id, route=Route("default", "w", "1", "default"), input=b"[]")


def test_a_new_buffer_is_empty_and_has_no_effects():
    commit = CommitBuffer()

    assert commit.is_empty
    assert not commit.has_effects
    assert commit.effects == []
    assert commit.children == ()
    assert commit.taken_ids() == set()


def test_events_and_the_end_are_something_to_commit():
    with_event, with_end = CommitBuffer(), CommitBuffer()
    with_event.events.append(Event(EventKind.TIMER_SET, "a"))
    with_end.finish = Finish("completed")

    assert not with_event.is_empty
    assert not with_end.is_empty
    assert not with_event.has_effects


def test_an_effect_is_something_to_commit():
    commit = CommitBuffer()

    commit.add(CancelOtherRun("r2", "no"))

    assert not commit.is_empty
    assert commit.effects == [CancelOtherRun("r2", "no")]
    assert commit.has_only(CancelOtherRun)
    assert not commit.has_only(TakeSignals)


def test_effects_are_found_by_their_kind():
    commit = CommitBuffer()

    commit.take([1, 2])
    commit.add(CancelOtherRun("r2", "no"))
    commit.take([3])

    assert commit.of(CancelOtherRun) == [CancelOtherRun("r2", "no")]
    assert commit.taken_ids() == {1, 2, 3}


def test_all_children_are_started_by_one_effect():
    commit = CommitBuffer()

    commit.start([new_run("a")])
    commit.start([new_run("b"), new_run("c")], Fanout("map", 2, eager=False))

    (effect,) = commit.effects
    assert isinstance(effect, StartChildren)
    assert [child.id for child in commit.children] == ["a", "b", "c"]
    assert effect.fanouts == [Fanout("map", 2, eager=False)]


def test_effects_that_are_committed_in_portions_leave_the_buffer():
    commit = CommitBuffer()
    for number in range(5):
        commit.add(CancelOtherRun(f"r{number}", "no"))

    portion = commit.drop(CancelOtherRun, 2)

    assert [cancel.run_id for cancel in portion] == ["r0", "r1"]
    assert [cancel.run_id for cancel in commit.of(CancelOtherRun)] == ["r2", "r3", "r4"]


def test_a_buffer_has_no_other_attributes():
    with pytest.raises(AttributeError):
        CommitBuffer().other = 1
