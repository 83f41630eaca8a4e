"""The pending commands of a run and their heap of instants, by themselves."""

from holdfast.core.commands import SetTimer
from holdfast.engine.execution.mailbox import Mailbox
from holdfast.engine.execution.pending.base import PendingCommands
from holdfast.engine.execution.pending.timers import PendingTimer


def timer(step: str, until: int) -> PendingTimer:
    return PendingTimer(SetTimer(step, 0), until)


def scheduled(*timers: PendingTimer) -> tuple[PendingCommands, Mailbox]:
    pending, mailbox = PendingCommands(), Mailbox()
    for one in timers:
        pending.add(one)
        pending.schedule(one, mailbox)
    return pending, mailbox


def test_the_commands_whose_time_has_come_are_found_in_order():
    pending, mailbox = scheduled(timer("c", 9), timer("a", 3), timer("b", 5))

    assert mailbox.due_at == 3
    assert [due.command.id for due in pending.pop_due(5)] == ["a", "b"]
    assert pending.next_due() == 9
    assert pending.pop_due(5) == []


def test_a_command_that_ended_or_has_another_instant_is_not_due():
    dropped, moved = timer("a", 3), timer("b", 3)
    pending, mailbox = scheduled(dropped, moved)

    pending.drop("a")
    moved.until = 8
    pending.schedule(moved, mailbox)

    assert pending.pop_due(3) == []
    assert pending.next_due() == 8
    assert pending.is_dropped("a")


def test_an_outcome_is_taken_once():
    one = timer("a", 3)
    pending, _ = scheduled(one)

    assert pending.take(one)
    assert not pending.take(one)
    assert not pending
    assert pending.next_due() is None


def test_a_dropped_command_no_longer_begins():
    one = timer("a", 3)
    pending, _ = scheduled(one)
    pending.launches.append(one)

    assert not pending.only_wait()
    assert pending.drop("a") is one
    assert pending.launches == []
    assert pending.only_wait()
