"""Who is claimed next, and what becomes of what a session held."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import claiming
from holdfast.core.claiming import PRIORITY_STEP, Claimable
from holdfast.core.sessions import Lane
from holdfast.core.status import Status

NOW = 1_750_000_000_000_000
SECOND = 1_000_000


def ready(*lanes):
    return [Claimable(rank=place, id=f"r{place}", lane=lane) for place, lane in enumerate(lanes)]


def chosen(runs, lanes=(), held=None, limit=10, begins=None):
    left = claiming.places(lanes, held or {}) | {
        (claiming.BEGIN, lane, share): room for (lane, share), room in (begins or {}).items()
    }
    picked, taken = claiming.choose(
        runs, {lane.name: lane for lane in lanes}, left, now=NOW, limit=limit
    )
    return [run.id for run in picked], {
        account[1:]: count for account, count in taken.items() if account[0] == claiming.BEGIN
    }


def test_a_point_of_priority_is_worth_a_minute_of_waiting():
    assert claiming.rank(NOW, 1) == claiming.rank(NOW - 60 * SECOND, 0)
    assert claiming.rank(NOW, 5) < claiming.rank(NOW, 0) < claiming.rank(NOW, -5)


@given(st.integers(0, 100), st.integers(0, 100))
def test_whatever_its_priority_a_run_is_outranked_only_for_a_while(low, more):
    wait = more * PRIORITY_STEP + 1

    assert claiming.rank(NOW, low) < claiming.rank(NOW + wait, low + more)


def test_the_smallest_rank_goes_first_and_the_id_decides_between_equals():
    runs = [Claimable(2, "c", "l"), Claimable(1, "b", "l"), Claimable(1, "a", "l")]

    assert chosen(runs) == (["a", "b", "c"], {})
    assert chosen(runs, limit=1) == (["a"], {})
    assert chosen(runs, limit=0) == ([], {})


def test_of_those_that_may_have_killed_their_worker_one_is_chosen():
    runs = [
        Claimable(1, "a", "l"),
        Claimable(2, "b", "l", suspect=True),
        Claimable(3, "c", "l", suspect=True),
        Claimable(4, "d", "l"),
    ]

    assert chosen(runs)[0] == ["a", "b", "d"]


def test_a_lane_without_settings_has_no_limits():
    assert chosen(ready("x", "x"))[0] == ["r0", "r1"]


def test_a_lane_admits_what_is_left_of_its_places():
    lane = Lane(name="x", concurrency=3)

    assert chosen(ready("x", "y", "x", "x"), [lane], {"x": 1})[0] == ["r0", "r1", "r2"]
    assert chosen(ready("x"), [lane], {"x": 3})[0] == []
    assert chosen(ready("x"), [lane], {"x": 9})[0] == []


def test_a_paused_lane_admits_none():
    assert chosen(ready("x", "y"), [Lane(name="x", paused=True)])[0] == ["r1"]


def test_a_rate_is_spent_by_what_is_claimed_and_by_nothing_else():
    lane = Lane(name="x", rate_limit=4, rate_per=SECOND, concurrency=2)

    assert chosen(ready(*"xxxx"), [lane], begins={("x", ""): 4}) == (["r0", "r1"], {("x", ""): 2})
    assert chosen(ready(*"xyxx"), [lane], begins={("x", ""): 1}) == (["r0", "r1"], {("x", ""): 1})
    assert chosen(ready("y"), [lane])[1] == {}


def test_a_run_that_comes_back_within_the_window_is_not_counted_again():
    lane = Lane(
        name="x", rate_limit=1, rate_per=SECOND, share_rate_limit=1, share_rate_per=60 * SECOND
    )
    begun = [
        ("new", None),
        ("back", NOW - SECOND + 1),
        ("late", NOW - SECOND),
        ("old", NOW - 60 * SECOND),
    ]
    runs = [
        Claimable(place, name, "x", share="a", started_at=at)
        for place, (name, at) in enumerate(begun)
    ]

    assert chosen(runs, [lane], begins={("x", ""): 0, ("x", "a"): 0}) == (["back"], {})
    assert chosen(runs[2:], [lane], begins={("x", ""): 2, ("x", "a"): 0}) == (
        ["late"],
        {("x", ""): 1},
    )
    assert chosen(runs[3:], [lane], begins={("x", ""): 2, ("x", "a"): 1}) == (
        ["old"],
        {("x", ""): 1, ("x", "a"): 1},
    )


@given(
    st.lists(st.sampled_from("xyz"), max_size=30),
    st.integers(0, 10),
    st.integers(0, 10),
    st.integers(0, 12),
)
def test_no_lane_gets_more_than_it_has_places_and_none_keeps_another_waiting(
    names, places, held, limit
):
    lanes = [Lane(name="x", concurrency=places), Lane(name="y", paused=True)]

    ids, _ = chosen(ready(*names), lanes, {"x": held}, limit)

    got = [names[int(run_id[1:])] for run_id in ids]
    assert got.count("x") <= max(places - held, 0)
    assert got.count("y") == 0
    assert len(ids) == min(limit, names.count("z") + min(names.count("x"), max(places - held, 0)))
    assert ids == sorted(ids, key=lambda run_id: int(run_id[1:]))


def test_places_are_counted_only_where_a_lane_limits_them():
    assert claiming.count_needed([Lane(name="x"), Lane(name="y", concurrency=0)])
    assert not claiming.count_needed([Lane(name="x", paused=True)])


@pytest.mark.parametrize(
    ("waits", "answer"),
    [
        (None, False),
        (b"[]", False),
        (b'[{"kind":"timer","step":"s","until":5}]', False),
        (b'[{"kind":"signal","name":"other"}]', False),
        (b'[{"kind":"gate","name":"paid"}]', False),
        (b'[{"kind":"timer"},{"kind":"signal","name":"paid"}]', True),
    ],
)
def test_a_signal_ends_a_wait_for_its_name(waits, answer):
    assert claiming.waits_for_signal(waits, "paid") is answer


def state(status, **options):
    plain = {
        "status": status.value,
        "priority": 2,
        "crashes": 0,
        "crash_seq": None,
        "waits": None,
        "revision": 4,
    }
    return {**plain, "seen_revision": None, **options}


def fate(state, *, crashed=False, last_seq=7, limit=3, last_progress=None):
    progress = last_seq if last_progress is None else last_progress
    return claiming.recovery_decision(
        state, last_seq=last_seq, last_progress=progress, crashed=crashed, limit=limit, now=NOW
    )


@pytest.mark.parametrize("crashed", [False, True])
def test_what_was_at_work_can_be_claimed_again(crashed):
    for status, then in ((Status.RUNNING, Status.PENDING), (Status.CANCELLING, Status.CANCELLING)):
        got = fate(state(status), crashed=crashed)

        assert (got.status, got.rank, got.crashes) == (then, claiming.rank(NOW, 2), int(crashed))


@pytest.mark.parametrize("crashed", [False, True])
@pytest.mark.parametrize("status", [Status.WAITING, Status.CANCELLING])
def test_what_waited_goes_on_waiting_unless_something_came(status, crashed):
    waiting = state(status, waits=b"[]", seen_revision=4, crashes=1, crash_seq=7)

    assert fate(waiting, crashed=crashed) == claiming.RecoveryDecision(status, None, 1, 7)
    woken = fate({**waiting, "revision": 5}, crashed=crashed)
    assert (woken.status, woken.rank) == (
        {Status.WAITING: Status.PENDING}.get(status, status),
        claiming.rank(NOW, 2),
    )
    assert woken.crashes == 1


def test_who_parked_without_saying_what_it_had_seen_is_woken():
    assert fate(state(Status.WAITING, waits=b"[]")).status is Status.PENDING


def test_crashes_without_progress_add_up_until_the_run_is_stuck():
    first = fate(state(Status.RUNNING), crashed=True)
    second = fate(
        state(Status.RUNNING, crashes=first.crashes, crash_seq=first.crash_seq), crashed=True
    )
    third = fate(
        state(Status.RUNNING, crashes=second.crashes, crash_seq=second.crash_seq), crashed=True
    )

    assert [item.crashes for item in (first, second, third)] == [1, 2, 3]
    assert (third.status, third.rank) == (Status.STUCK, None)
    assert msgspec.json.decode(third.stuck)["facts"] == {"crashes": 3}


def test_progress_makes_crashes_count_from_the_start():
    assert (
        fate(state(Status.RUNNING, crashes=2, crash_seq=6), crashed=True, last_seq=7).crashes == 1
    )


def test_lines_that_show_no_progress_leave_the_count_as_it_is():
    assert (
        fate(
            state(Status.RUNNING, crashes=1, crash_seq=6), crashed=True, last_seq=9, last_progress=5
        ).crashes
        == 2
    )


def test_a_peaceful_end_neither_counts_nor_forgives():
    got = fate(state(Status.RUNNING, crashes=2, crash_seq=6), last_seq=7)

    assert (got.crashes, got.crash_seq) == (2, 6)
