"""The buffer of the next commit, by itself."""

import pytest

from holdfast.core.commands import Finish
from holdfast.core.events import Event, EventKind
from holdfast.engine.execution.commit_buffer import LISTS, CommitBuffer


def test_a_new_buffer_is_empty_and_has_no_lists():
    commit = CommitBuffer()

    assert commit.is_empty
    assert not commit.more
    assert commit.taken_ids() == set()


def test_events_and_the_end_are_something_to_commit():
    with_event, with_end = CommitBuffer(), CommitBuffer()
    with_event.events.append(Event(EventKind.TIMER_SET, "a"))
    with_end.finish = Finish("completed")

    assert not with_event.is_empty
    assert not with_end.is_empty
    assert not with_event.more


@pytest.mark.parametrize("name", LISTS)
def test_rows_of_every_kind_are_something_to_commit(name):
    commit = CommitBuffer()
    assert getattr(commit, name) == []
    assert commit.is_empty

    getattr(commit, name).append(7)

    assert not commit.is_empty
    assert commit.has_only(name)
    assert not commit.has_only("no such list")


def test_a_buffer_has_no_other_attributes():
    with pytest.raises(AttributeError):
        _ = CommitBuffer().other
