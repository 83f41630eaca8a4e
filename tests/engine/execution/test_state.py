"""The state of a run in execution, by itself."""

import msgspec

from holdfast.core.events import Event, EventKind
from holdfast.core.history import HistoryProgress, load
from holdfast.core.runs import PAST_DEADLINE, RunRecord
from holdfast.core.status import Status
from holdfast.engine.execution.state import RunState


def state(**more: object) -> RunState:
    run = RunRecord(
        id="r1",
        namespace="default",
        workflow="w",
        version="1",
        lane="default",
        capabilities=(),
        status=Status.RUNNING,
        priority=0,
        input=b"",
        generation=1,
        revision=4,
        crashes=0,
        created_at=0,
        **more,
    )
    return RunState(run, lambda: 10)


def test_a_request_to_stop_is_recorded_once_it_is_seen():
    it = state()
    it.cancelling = True
    assert it.is_about_to_stop()

    event = it.request_stop("not needed", expire=True, wait="a")

    assert event.kind == EventKind.CANCEL_REQUESTED
    assert msgspec.json.decode(event.data) == {
        "reason": "not needed",
        "expire": True,
        "wait": "a",
    }
    assert not it.is_about_to_stop()
    assert it.cancellation_of_children() == PAST_DEADLINE
    assert it.active_status() is Status.CANCELLING


def test_a_run_past_its_deadline_is_about_to_stop():
    assert state(deadline=10).is_about_to_stop()
    assert not state(deadline=11).is_about_to_stop()


def test_events_are_dated_and_numbered_once():
    it = state()
    events = [Event(EventKind.TIMER_SET, "a"), Event(EventKind.TIMER_FIRED, "a", at=3)]

    it.set_times(events)
    it.number(events)

    assert [(event.at, event.seq) for event in events] == [(10, 1), (3, 2)]
    assert it.seq == 2


def test_the_state_is_recalled_from_a_history():
    history = [
        Event(EventKind.CHILD_STARTED, "child", seq=1),
        Event(EventKind.CANCEL_REQUESTED, data=b'{"reason":"why","expire":false}', seq=2),
    ]
    it = state()

    it.recall(history, load(history))

    assert (it.seq, it.had_children, it.cancel_seen, it.stopped_by) == (2, True, True, "why")


def test_what_one_run_without_a_history_notes_is_unknown_to_the_others():
    it, other = state(), state()

    it.note_called("a")

    assert it.progress.called == {"a"}
    assert other.progress == HistoryProgress()
    assert state().progress == HistoryProgress()
