"""Durations: what is read, what is refused and why, and how they are shown."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.duration import LONGEST, SECOND, UNITS, parse, show
from holdfast.errors import BadDuration

MINUTE, HOUR, DAY = 60 * SECOND, 3_600 * SECOND, 86_400 * SECOND

READ: list[tuple[Any, int]] = [
    ("50ms", 50_000),
    ("10s", 10 * SECOND),
    ("5m", 5 * MINUTE),
    ("1h", HOUR),
    ("2d", 2 * DAY),
    ("1w", 7 * DAY),
    ("1h30m", 90 * MINUTE),
    ("1h 30m", 90 * MINUTE),
    (" 1 h 30 m ", 90 * MINUTE),
    ("1.5h", 90 * MINUTE),
    (".5s", SECOND // 2),
    ("250us", 250),
    ("250µs", 250),
    ("250μs", 250),
    ("1w2d3h4m5s6ms7us", 9 * DAY + 3 * HOUR + 4 * MINUTE + 5 * SECOND + 6_007),
    ("0s", 0),
    ("0.1us", 0),
    ("PT5M", 5 * MINUTE),
    ("P1DT2H", DAY + 2 * HOUR),
    ("P2W", 14 * DAY),
    ("PT0.5S", SECOND // 2),
    ("PT0,5S", SECOND // 2),
    ("P1D", DAY),
    ("PT1H1M1S", HOUR + MINUTE + SECOND),
    ("P1W1D", 8 * DAY),
    (0, 0),
    (10, 10 * SECOND),
    (0.1, 100_000),
    (1e-6, 1),
    (1e-9, 0),
    (1.5, 1_500_000),
    (timedelta(days=1, microseconds=1), DAY + 1),
    (timedelta(0), 0),
    ("365250d", LONGEST),
]

REFUSED: list[tuple[Any, str]] = [
    ("", "empty"),
    ("   ", "empty"),
    ("10", "unit is missing"),
    ("1h30", "unit is missing"),
    ("h", "a number and a unit"),
    ("ten seconds", "a number and a unit"),
    ("1.2.3s", "a number and a unit"),
    ("1h,30m", "a number and a unit"),
    ("1e3s", "unit 'e' is unknown"),
    ("5M", "unit 'M' is unknown"),
    ("5 min", "unit 'min' is unknown"),
    ("1y", "unit 'y' is unknown"),
    ("30m1h", "large to small"),
    ("5m5m", "large to small"),
    ("-5s", "negative"),
    ("-PT5M", "negative"),
    ("P", "ISO 8601"),
    ("PT", "ISO 8601"),
    ("P1DT", "ISO 8601"),
    ("P1H", "ISO 8601"),
    ("PT1D", "ISO 8601"),
    ("PT5M1H", "ISO 8601"),
    ("P1M", "months and years"),
    ("P1Y", "months and years"),
    ("P1Y2DT5M", "months and years"),
    ("1" * 200 + "s", "too long"),
    ("9" * 90 + "s", "1000 years"),
    ("365251d", "1000 years"),
    ("٣s", "a number and a unit"),
    (-1, "negative"),
    (-0.5, "negative"),
    (timedelta(microseconds=-1), "negative"),
    (timedelta.max, "1000 years"),
    (10**400, "1000 years"),
    (1e308, "1000 years"),
    (-1e308, "negative"),
    (float("nan"), "not finite"),
    (float("inf"), "not finite"),
    (float("-inf"), "not finite"),
    (True, "bool"),
    (None, "NoneType"),
    (b"5s", "bytes"),
    ([5], "list"),
]

SHOWN = [
    (0, "0s"),
    (1, "1us"),
    (50_000, "50ms"),
    (1_500, "1ms 500us"),
    (1_500_000, "1s 500ms"),
    (65 * SECOND, "1m 5s"),
    (2 * DAY + 3 * HOUR, "2d 3h"),
    (2 * DAY + 3 * HOUR + 59 * MINUTE, "2d 3h"),
    (2 * DAY + 59 * MINUTE, "2d"),
    (7 * DAY, "1w"),
    (-65 * SECOND, "-1m 5s"),
]


@pytest.mark.parametrize(("value", "micros"), READ)
def test_a_duration_is_read(value: Any, micros: int) -> None:
    assert parse(value) == micros


@pytest.mark.parametrize(("value", "why"), REFUSED)
def test_what_is_no_duration_is_refused_with_the_reason(value: Any, why: str) -> None:
    with pytest.raises(BadDuration) as refused:
        parse(value)

    assert why in str(refused.value.facts["why"])
    assert "value" in refused.value.facts


@pytest.mark.parametrize(("micros", "text"), SHOWN)
def test_a_duration_is_shown_by_its_two_largest_units(micros: int, text: str) -> None:
    assert show(micros) == text


@given(st.integers(0, LONGEST))
def test_what_is_shown_can_be_read_and_is_cut_off_by_less_than_its_smaller_unit(
    micros: int,
) -> None:
    text = show(micros)

    largest = next((size for size in UNITS.values() if micros >= size), 1)
    smaller = max((size for size in UNITS.values() if size < largest), default=1)
    assert 0 <= micros - parse(text) < smaller or micros == parse(text)


@given(st.integers(0, LONGEST), st.sampled_from(sorted(UNITS)))
def test_whole_numbers_of_a_unit_are_read_exactly(micros: int, unit: str) -> None:
    count = micros // UNITS[unit]

    assert parse(f"{count}{unit}") == count * UNITS[unit]


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=365_250)))
def test_a_timedelta_is_read_exactly(value: timedelta) -> None:
    assert timedelta(microseconds=parse(value)) == value


@given(st.text(max_size=20) | st.floats() | st.integers())
def test_whatever_is_given_is_read_within_bounds_or_refused(value: Any) -> None:
    try:
        micros = parse(value)
    except BadDuration:
        return

    assert type(micros) is int
    assert 0 <= micros <= LONGEST
