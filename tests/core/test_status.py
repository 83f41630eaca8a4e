"""The state machine of a run: every pair of a status and a move, and what follows from the
table."""

from itertools import product

import pytest

from holdfast.core.status import CLAIMABLE, FINAL, HELD, LIVE, NEXT, Move, Status, after
from holdfast.errors import IllegalMove


@pytest.mark.parametrize(("status", "move"), list(product(Status, Move)))
def test_a_move_does_what_the_table_says_or_is_refused(status, move):
    if move in NEXT[status]:
        assert after(status, move) is NEXT[status][move]
        return

    with pytest.raises(IllegalMove) as refused:
        after(status, move)
    assert refused.value.facts == {"status": status.value, "move": move.value}


def test_the_table_knows_every_status_and_needs_every_move():
    assert set(NEXT) == set(Status)
    assert {move for moves in NEXT.values() for move in moves} == set(Move)


def test_the_words_are_those_of_the_design():
    live = ["pending", "blocked", "running", "waiting", "cancelling", "stuck"]

    assert [status.value for status in Status] == [
        *live,
        "completed",
        "failed",
        "cancelled",
        "expired",
        "skipped",
    ]


def test_what_has_ended_can_only_be_replayed():
    assert {
        Status.COMPLETED,
        Status.FAILED,
        Status.CANCELLED,
        Status.EXPIRED,
        Status.SKIPPED,
    } == FINAL
    assert {move for status in FINAL for move in NEXT[status]} == {Move.REPLAY}


def test_what_lives_is_all_else():
    assert set(Status) == LIVE | FINAL
    assert not LIVE & FINAL
    assert not [status for status in LIVE if Move.REPLAY in NEXT[status]]


def test_a_session_holds_what_can_be_lost_with_it():
    assert {Status.RUNNING, Status.WAITING, Status.CANCELLING} == HELD
    assert {status for status in Status if Move.RELEASE in NEXT[status]} == HELD


def test_what_is_pending_or_being_cancelled_can_be_claimed():
    assert {Status.PENDING, Status.CANCELLING} == CLAIMABLE


@pytest.mark.parametrize("status", sorted(LIVE))
@pytest.mark.parametrize("move", [Move.WAKE, Move.CANCEL, Move.END_CANCELLED, Move.EXPIRE])
def test_whatever_lives_can_be_reached_asked_to_stop_and_ended_from_outside(status, move):
    after(status, move)


def test_a_run_that_is_being_cancelled_is_never_at_work_again_unless_a_person_says_so():
    reached, more = set(), {Status.CANCELLING}
    while more:
        reached |= more
        more = {
            to
            for status in more
            for move, to in NEXT[status].items()
            if move not in (Move.RESUME, Move.REPLAY)
        } - reached

    assert reached == {Status.CANCELLING, Status.STUCK} | (FINAL - {Status.SKIPPED})


def test_from_every_live_status_a_run_can_come_to_its_end():
    for start in LIVE:
        reached, more = set(), {start}
        while more:
            reached |= more
            more = {to for status in more for to in NEXT[status].values()} - reached
        assert reached & FINAL, start
