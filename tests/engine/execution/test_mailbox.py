"""The mailbox of an execution, by itself."""

import pytest

from holdfast.core.events import Event, EventKind
from holdfast.engine.execution.findings import TIME
from holdfast.engine.execution.mailbox import Mailbox


def ended(step: str, at: int) -> Event:
    return Event(EventKind.STEP_COMPLETED, step, at=at)


def finding(name: str):
    return lambda events: events.append(Event(EventKind.SIGNAL_RECEIVED, name))


def test_an_outcome_comes_before_a_later_finding():
    mailbox = Mailbox()
    mailbox.add_outcome(ended("a", at=1), None)
    mailbox.add_finding(2, finding("signal"))

    assert mailbox.next_events() == []
    event, _ = mailbox.next_outcome()

    assert event.step == "a"
    assert [event.step for event in mailbox.next_events()] == ["signal"]


def test_an_outcome_waits_for_an_earlier_finding():
    mailbox = Mailbox()
    mailbox.add_outcome(ended("a", at=3), None)
    mailbox.add_finding(2, finding("signal"))

    assert mailbox.next_outcome() is None
    assert [event.step for event in mailbox.next_events()] == ["signal"]


def test_a_committed_fact_wins_over_time_at_the_same_instant():
    mailbox = Mailbox()
    mailbox.add_finding(5, finding("timer"), TIME)
    mailbox.add_finding(5, finding("signal"))

    assert [event.step for event in mailbox.next_events()] == ["signal"]
    assert [event.step for event in mailbox.next_events()] == ["timer"]


def test_a_finding_that_leads_to_nothing_is_passed_over():
    mailbox = Mailbox()
    mailbox.add_finding(1, lambda events: None)
    mailbox.add_finding(2, finding("signal"))

    assert [event.step for event in mailbox.next_events()] == ["signal"]
    assert mailbox.findings == []


def test_the_earliest_check_is_kept():
    mailbox = Mailbox()
    mailbox.schedule_check(7)
    mailbox.schedule_check(None)
    mailbox.schedule_check(9)

    assert mailbox.due_at == 7
    assert not mailbox.is_due(6)
    assert mailbox.is_due(7)


def test_a_notification_wakes_an_execution_that_sleeps():
    mailbox = Mailbox()
    sleeper = mailbox.sleep(None, None)
    sleeper.send(None)
    assert not mailbox.completion.done()

    mailbox.notify()

    assert mailbox.completion.done()
    assert mailbox.is_notified
    assert mailbox.update is None  # it is read within the call, by an execution that resumes there
    with pytest.raises(StopIteration):
        sleeper.send(None)


def test_an_execution_does_not_sleep_while_something_is_reported():
    mailbox = Mailbox()
    mailbox.is_notified = True

    with pytest.raises(StopIteration):
        mailbox.sleep(None, None).send(None)


def test_taken_outcomes_are_in_the_order_of_their_reports_and_gone():
    mailbox = Mailbox()
    for step in ("a", "b"):
        mailbox.add_outcome(ended(step, at=1), None)

    outcomes = mailbox.take_outcomes()
    mailbox.add_outcome(ended("c", at=1), None)

    assert [event.step for event, _ in outcomes] == ["a", "b"]
    assert [event.step for event, _ in mailbox.outcomes] == ["c"]
