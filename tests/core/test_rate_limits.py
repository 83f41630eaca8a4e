"""Rate limits: how they are written, and what a window holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.rate_limits import RateLimit, Window, is_within, parse_rate, show
from holdfast.errors import BadOption

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("began", "room"), [(Window(), 3), (Window(10, 9), 2), (Window(10, 7), 0), (Window(10, 0), 0)]
)
def test_a_window_has_room_for_what_has_not_begun_in_it(began: Window, room: int) -> None:
    assert began.room(3) == room


def test_what_begins_is_never_noted_before_what_began_already() -> None:
    assert (Window(1, 0, last_at=100).at(90), Window(1, 0, last_at=100).at(110)) == (100, 110)


def test_what_began_a_whole_window_ago_has_left_it() -> None:
    assert [is_within(SECOND, 0, now) for now in (0, SECOND - 1, SECOND)] == [True, True, False]
    assert not is_within(SECOND, None, 0)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/s", RateLimit(10, SECOND)),
        ("100/m", RateLimit(100, 60 * SECOND)),
        ("5/1h", RateLimit(5, 3_600 * SECOND)),
        ("3/10s", RateLimit(3, 10 * SECOND)),
        ("1/d", RateLimit(1, 86_400 * SECOND)),
        ("7 / 250 ms", RateLimit(7, 250_000)),
        (" 2/1h30m ", RateLimit(2, 5_400 * SECOND)),
        ("2/PT1M", RateLimit(2, 60 * SECOND)),
    ],
)
def test_a_rate_is_read(text: str, rate: RateLimit) -> None:
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
        (RateLimit(10, SECOND), "10/s"),
        (RateLimit(3, 10 * SECOND), "3/10s"),
        (RateLimit(5, 5_400 * SECOND), "5/90m"),
        (RateLimit(1, 14 * 86_400 * SECOND), "1/2w"),
    ],
)
def test_a_rate_is_shown_in_its_largest_whole_unit(rate: RateLimit, text: str) -> None:
    assert show(rate) == text


@given(st.builds(RateLimit, limit=st.integers(1, 10**9), per=st.integers(1, 10**15)))
def test_what_is_shown_reads_as_the_same_rate(rate: RateLimit) -> None:
    assert parse_rate(show(rate)) == rate


@pytest.mark.parametrize(("limit", "per"), [(0, 1), (1, 0), (-1, 1), (True, 1), (1.0, 1)])
def test_a_senseless_rate_cannot_be_made(limit: Any, per: Any) -> None:
    with pytest.raises(BadOption):
        RateLimit(limit, per)
