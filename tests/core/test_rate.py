"""Rate limits: the guarantee of `admit`, checked over every span of random traffic."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.rate import Rate, admit, next_at, parse_rate, show
from holdfast.errors import BadOption

SECOND = 1_000_000

rates = st.builds(Rate, limit=st.integers(1, 20), per=st.integers(1, 500))
traffic = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 30)), max_size=60)


def played(rate: Rate, arrivals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Let traffic of (pause, wanted) arrive; give (instant, admitted)."""
    now, free_at, gone = 1_000_000, 0, []
    for pause, wanted in arrivals:
        now += pause
        count, free_at = admit(rate, free_at, now, wanted)
        gone.append((now, count))
    return gone


@given(rates, traffic)
def test_no_span_lets_more_go_than_one_burst_and_what_the_rate_earns_in_it(rate: Rate, arrivals: list[tuple[int, int]]) -> None:
    gone = played(rate, arrivals)

    for first, (start, _) in enumerate(gone):
        total = 0
        for end, count in gone[first:]:
            total += count
            assert total <= rate.limit + (end - start) * rate.limit // rate.per


@given(rates, traffic)
def test_no_window_holds_twice_the_limit(rate: Rate, arrivals: list[tuple[int, int]]) -> None:
    gone = played(rate, arrivals)

    for start, _ in gone:
        assert sum(count for at, count in gone if start <= at < start + rate.per) <= 2 * rate.limit - 1


@given(rates, traffic)
def test_an_idle_limit_lets_a_whole_burst_go(rate: Rate, arrivals: list[tuple[int, int]]) -> None:
    now, free_at = 1_000_000, 0
    for pause, wanted in arrivals:
        now += pause
        _, free_at = admit(rate, free_at, now, wanted)

    count, _ = admit(rate, free_at, max(now, free_at), rate.limit + 5)
    assert count == rate.limit


@given(rates, st.integers(0, 10_000), st.integers(0, 10_000))
def test_one_more_may_go_at_the_next_instant_and_not_before(rate: Rate, free_at: int, now: int) -> None:
    at = next_at(rate, free_at, now)

    assert at >= now
    assert admit(rate, free_at, at, 1)[0] == 1
    if at > now:
        assert admit(rate, free_at, at - 1, 1) == (0, free_at)


@given(st.integers(1, 20), st.integers(1, 50), st.integers(1, 100))
def test_a_busy_limit_gives_exactly_its_rate_when_it_divides(limit: int, each: int, rounds: int) -> None:
    rate, now, free_at, total = Rate(limit, limit * each), 0, 0, 0
    for _ in range(rounds):
        now = next_at(rate, free_at, now)
        count, free_at = admit(rate, free_at, now, limit)
        total += count

    assert total == limit + now // each


@given(rates, st.integers(0, 1_000), st.integers(0, 1_000), st.integers(-5, 0))
def test_wanting_nothing_changes_nothing(rate: Rate, free_at: int, now: int, wanted: int) -> None:
    assert admit(rate, free_at, now, wanted) == (0, free_at)


def test_going_one_by_one_is_as_good_as_going_together() -> None:
    rate, free_at = Rate(5, SECOND), 0
    together = admit(rate, 0, 100, 5)

    for _ in range(5):
        count, free_at = admit(rate, free_at, 100, 1)
        assert count == 1

    assert together == (5, free_at)
    assert admit(rate, free_at, 100, 1) == (0, free_at)


def test_a_clock_that_goes_back_lets_nothing_more_go() -> None:
    rate = Rate(2, SECOND)
    _, free_at = admit(rate, 0, 10 * SECOND, 2)

    assert admit(rate, free_at, 9 * SECOND, 2) == (0, free_at)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/s", Rate(10, SECOND)),
        ("100/m", Rate(100, 60 * SECOND)),
        ("5/1h", Rate(5, 3_600 * SECOND)),
        ("3/10s", Rate(3, 10 * SECOND)),
        ("1/d", Rate(1, 86_400 * SECOND)),
        ("7 / 250 ms", Rate(7, 250_000)),
        (" 2/1h30m ", Rate(2, 5_400 * SECOND)),
        ("2/PT1M", Rate(2, 60 * SECOND)),
    ],
)
def test_a_rate_is_read(text: str, rate: Rate) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "/s",
        "10/",
        "0/s",
        "-1/s",
        "1.5/s",
        "10/0s",
        "10/fortnight",
        "10/s/s",
        "10/-1s",
        "ten/s",
        10,
        None,
        "9" * 5000 + "/s",
    ],
)
def test_what_is_no_rate_is_refused_with_a_reason(text: Any) -> None:
    with pytest.raises(BadOption) as refused:
        parse_rate(text)

    assert refused.value.facts["why"]


@pytest.mark.parametrize(
    ("rate", "text"),
    [
        (Rate(10, SECOND), "10/s"),
        (Rate(3, 10 * SECOND), "3/10s"),
        (Rate(5, 5_400 * SECOND), "5/90m"),
        (Rate(1, 14 * 86_400 * SECOND), "1/2w"),
    ],
)
def test_a_rate_is_shown_in_its_largest_whole_unit(rate: Rate, text: str) -> None:
    assert show(rate) == text


@given(st.builds(Rate, limit=st.integers(1, 10**9), per=st.integers(1, 10**15)))
def test_what_is_shown_reads_as_the_same_rate(rate: Rate) -> None:
    assert parse_rate(show(rate)) == rate


@pytest.mark.parametrize(("limit", "per"), [(0, 1), (1, 0), (-1, 1), (True, 1), (1.0, 1)])
def test_a_senseless_rate_cannot_be_made(limit: Any, per: Any) -> None:
    with pytest.raises(BadOption):
        Rate(limit, per)
