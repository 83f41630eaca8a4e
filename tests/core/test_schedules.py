"""When schedules tick, whatever the clocks do; and what is done about ticks that are due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.schedules import plan, rules
from holdfast.core.schedules.model import Schedule, delay_of
from holdfast.errors import BadSchedule

SECOND = 1_000_000
HOUR = 3600 * SECOND
YEAR = 365 * 24 * HOUR


def micros(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * SECOND


def rule(zone: str = "UTC", anchor: int = 0, **given) -> rules.TickRule:
    return rules.read(rules.rule_text(given, zone), zone, anchor)


def walk(found: rules.TickRule, zone: str, start: str, count: int) -> list[str]:
    """The next ticks, as the clock of the zone shows them."""
    instant, shown = micros(start), []
    for _ in range(count):
        instant = found.after(instant)
        shown.append(
            datetime.fromtimestamp(instant // SECOND, ZoneInfo(zone)).strftime("%m-%d %H:%M:%S%z")
        )
    return shown


BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


@pytest.mark.parametrize(
    ("cron", "zone", "start", "ticks"),
    [
        # A time of the day that does not exist: when the clock is put forward, once.
        (
            "30 2 * * *",
            BERLIN,
            "2026-03-28T12:00+01:00",
            ["03-29 03:00:00+0200", "03-30 02:30:00+0200"],
        ),
        (
            "0,15,30 2 * * *",
            BERLIN,
            "2026-03-28T12:00+01:00",
            ["03-29 03:00:00+0200", "03-30 02:00:00+0200"],
        ),
        (
            "30 2,3 * * *",
            BERLIN,
            "2026-03-28T12:00+01:00",
            ["03-29 03:00:00+0200", "03-29 03:30:00+0200"],
        ),
        (
            "30 2 * * *",
            NEW_YORK,
            "2026-03-07T12:00-05:00",
            ["03-08 03:00:00-0400", "03-09 02:30:00-0400"],
        ),
        (
            "15 30 2 * * *",
            NEW_YORK,
            "2026-03-07T12:00-05:00",
            ["03-08 03:00:00-0400", "03-09 02:30:15-0400"],
        ),
        # A time of the day that comes twice: the first time.
        (
            "30 2 * * *",
            BERLIN,
            "2026-10-24T12:00+02:00",
            ["10-25 02:30:00+0200", "10-26 02:30:00+0100"],
        ),
        (
            "30 1 * * *",
            NEW_YORK,
            "2026-10-31T12:00-04:00",
            ["11-01 01:30:00-0400", "11-02 01:30:00-0500"],
        ),
        (
            "0 30 1 * * *",
            NEW_YORK,
            "2026-10-31T12:00-04:00",
            ["11-01 01:30:00-0400", "11-02 01:30:00-0500"],
        ),
        # The passing of time: what the clock skips does not tick, what it shows twice ticks twice.
        (
            "*/30 * * * *",
            BERLIN,
            "2026-03-29T01:15+01:00",
            ["03-29 01:30:00+0100", "03-29 03:00:00+0200"],
        ),
        (
            "0 * * * *",
            NEW_YORK,
            "2026-03-08T00:30-05:00",
            ["03-08 01:00:00-0500", "03-08 03:00:00-0400"],
        ),
        (
            "*/30 * * * *",
            BERLIN,
            "2026-10-25T02:15+02:00",
            [
                "10-25 02:30:00+0200",
                "10-25 02:00:00+0100",
                "10-25 02:30:00+0100",
                "10-25 03:00:00+0100",
            ],
        ),
        (
            "*/20 1 * * *",
            NEW_YORK,
            "2026-11-01T01:30-04:00",
            [
                "11-01 01:40:00-0400",
                "11-01 01:00:00-0500",
                "11-01 01:20:00-0500",
                "11-01 01:40:00-0500",
                "11-02 01:00:00-0500",
            ],
        ),
        (
            "*/30 59 * * * *",
            NEW_YORK,
            "2026-11-01T01:59:15-04:00",
            ["11-01 01:59:30-0400", "11-01 01:59:00-0500", "11-01 01:59:30-0500"],
        ),
        # Days are unharmed.
        (
            "0 0 * * *",
            "America/Havana",
            "2026-03-07T12:00-05:00",
            ["03-08 01:00:00-0400", "03-09 00:00:00-0400"],
        ),
        (
            "0 9 * * 1-5",
            BERLIN,
            "2026-03-27T12:00+01:00",
            ["03-30 09:00:00+0200", "03-31 09:00:00+0200"],
        ),
        (
            "@daily",
            BERLIN,
            "2026-10-24T12:00+02:00",
            ["10-25 00:00:00+0200", "10-26 00:00:00+0100"],
        ),
        (
            "0 12 L * *",
            BERLIN,
            "2026-02-01T00:00+01:00",
            ["02-28 12:00:00+0100", "03-31 12:00:00+0200"],
        ),
    ],
)
def test_a_cron_follows_the_clock_of_its_zone(cron, zone, start, ticks):
    assert walk(rule(zone, cron=cron), zone, start, len(ticks)) == ticks


CRONS = st.sampled_from(
    [
        "* * * * *",
        "*/7 * * * *",
        "0 * * * *",
        "30 2 * * *",
        "0,30 1-3 * * *",
        "15 1 * * 0",
        "0 */5 * * *",
        "59 23 31 12 *",
        "*/20 * * * * *",
        "7 30 2 * * *",
        "0 0 29 2 *",
        "0 9 * * 1-5",
        "0 0 1 * 1",
        "30 0-3 * 3,10,11 *",
        "*/15 1 1 11 *",
    ]
)
ZONES = st.sampled_from(
    [
        "UTC",
        BERLIN,
        NEW_YORK,
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "America/Havana",
        "Africa/Casablanca",
        "Pacific/Apia",
    ]
)
RULES = st.one_of(
    st.builds(lambda cron, zone: (rule(zone, cron=cron), cron), CRONS, ZONES),
    st.builds(
        lambda every: (rule(interval=every, anchor=micros("2026-01-01T00:00Z")), every),
        st.integers(1, 10**6),
    ),
    st.builds(
        lambda period, zone, count: (
            rule(zone, repeat=f"R{count}/2026-01-31T02:30:00/{period}"),
            period,
        ),
        st.sampled_from(["P1D", "P1M", "P1W", "PT45M", "P1DT1H", "P1Y"]),
        ZONES,
        st.sampled_from(["", "1", "5", "1000"]),
    ),
    st.builds(
        lambda days: (
            rule(dates=[datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=day) for day in days]),
            days,
        ),
        st.lists(st.integers(0, 20_000), min_size=1, max_size=20),
    ),
)
INSTANTS = st.integers(micros("2024-06-01T00:00Z"), micros("2029-06-01T00:00Z"))


@settings(deadline=None, max_examples=400)
@given(RULES, INSTANTS)
def test_ticks_never_go_back_and_none_is_there_twice(named, instant):
    found = named[0]

    last, following = found.upto(instant), found.after(instant)

    assert last is None or last <= instant
    assert following is None or following > instant
    if following is not None:
        assert found.upto(following) == following
        assert found.upto(following - 1) == last
    if last is not None:
        assert found.after(last - 1) == last
        assert found.after(last) == following


@settings(deadline=None, max_examples=60)
@given(CRONS, INSTANTS)
def test_without_clock_changes_the_clock_shows_each_tick(cron, instant):
    found, shown = rule(cron=cron), rule("Asia/Kathmandu", cron=cron)
    ahead = (5 * 3600 + 45 * 60) * SECOND

    assert shown.after(instant) == found.after(instant + ahead) - ahead


def test_an_iso_repetition_counts_by_the_calendar_from_its_start():
    monthly = rule(BERLIN, repeat="R4/2026-01-31T02:30:00/P1M")

    assert walk(monthly, BERLIN, "2026-01-01T00:00Z", 4) == [
        "01-31 02:30:00+0100",
        "02-28 02:30:00+0100",
        "03-31 02:30:00+0200",
        "04-30 02:30:00+0200",
    ]
    assert monthly.after(micros("2026-04-30T00:30Z")) is None


def test_an_iso_repetition_without_a_start_begins_one_period_from_now():
    assert [rule(repeat="R2/PT10M", anchor=0).after(t * 600 * SECOND) for t in (0, 1, 2)] == [
        600 * SECOND,
        1200 * SECOND,
        None,
    ]


def test_a_day_of_the_calendar_may_have_23_hours():
    daily = rule(BERLIN, repeat="R/2026-03-28T12:00:00/P1D")
    first, second, third = (
        micros(f"2026-03-{day}") for day in ("28T12:00+01:00", "29T12:00+02:00", "30T12:00+02:00")
    )

    assert (daily.after(first), daily.after(second), second - first) == (second, third, 23 * HOUR)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"cron": "61 * * * *"}, "its minute cannot be read"),
        ({"cron": "0 0 30 2 *"}, "its day-of-month cannot be read, or never comes"),
        ({"cron": "* * *"}, "it has 3 fields"),
        ({"cron": "whenever"}, "it has 1 fields"),
        ({"cron": 5}, "it must be a text"),
        ({"interval": "-5m"}, "it is negative"),
        ({"interval": 0}, "a second or longer"),
        ({"interval": "often"}, "a number and a unit are expected"),
        ({"cron": "* * * * *", "interval": "5m"}, "not cron and interval"),
        ({}, "give one of cron, interval, dates and repeat"),
        ({"dates": []}, "give 1 to 10000"),
        ({"dates": "2026-01-01"}, "a list of dates"),
        ({"dates": ["soon"]}, "it must be a date and time"),
        ({"repeat": "R5/P1X"}, "use R/PT10M"),
        ({"repeat": "R0/P1D"}, "at least once"),
        ({"repeat": "R/2026-13-01/P1D"}, "month"),
        ({"repeat": "R/PT0S"}, "a second or longer"),
    ],
)
def test_a_rule_that_makes_no_sense_says_which_and_why(given, told):
    with pytest.raises(BadSchedule, match=told):
        rules.rule_text(given, "UTC")


@pytest.mark.parametrize("zone", ["Europe/Bärlin", "", "../etc/passwd", "Europe"])
def test_an_unknown_zone_is_named(zone):
    with pytest.raises(BadSchedule, match="no time zone"):
        rules.rule_text({"cron": "* * * * *"}, zone)


# What is due


def schedule(given, *, zone="UTC", now=0, **options) -> Schedule:
    written = rules.rule_text(given, zone)
    made = Schedule(
        namespace="default",
        name="s",
        workflow="w",
        version="1",
        lane="default",
        input=b"[]",
        rule=written,
        zone=zone,
        anchor=now,
        **options,
    )
    made.next_at = plan.rule_of(made).after(now)
    return made


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(
        [{"cron": "*/7 * * * *"}, {"cron": "30 2 * * *"}, {"interval": "90s"}, {"repeat": "R9/P1D"}]
    ),
    st.sampled_from(["UTC", BERLIN, NEW_YORK]),
    st.sampled_from(["once", "all", "none"]),
    st.integers(0, 60),
    INSTANTS,
    st.lists(st.integers(0, 200 * HOUR), min_size=1, max_size=15),
)
def test_however_late_somebody_looks_each_tick_is_seen_to_once_and_in_order(
    given, zone, misfire, jitter, begin, waits
):
    made = schedule(
        given, zone=zone, now=begin, misfire=misfire, catch_up=20, jitter=jitter * SECOND
    )
    now, started = begin, []
    for wait in waits:
        now += wait
        due = plan.due(made, now)
        assert len(due.ticks) <= (20 if misfire == "all" else 1)
        if due.missed is not None and due.ticks:
            assert due.missed[0] <= due.missed[1] < due.ticks[0]
        following = plan.first_not_due(made, now)
        assert following is None or following + delay_of(made, following) > now
        assert (
            following is None
            or not due.ticks
            or following == plan.rule_of(made).after(due.ticks[-1])
        )
        started += due.ticks
        made.next_at = following

    assert all(before < after for before, after in pairwise(started))
    assert all(begin < tick <= now for tick in started)


def test_a_year_of_missed_seconds_starts_a_bounded_number():
    made = schedule({"cron": "* * * * * *"}, now=0, misfire="all", catch_up=1000)

    due = plan.due(made, YEAR)

    assert due.ticks == [YEAR - back * SECOND for back in reversed(range(1000))]
    assert due.missed == (SECOND, YEAR - 1000 * SECOND)
    assert plan.first_not_due(made, YEAR) == YEAR + SECOND


def test_none_lets_a_tick_be_a_little_late():
    made = schedule({"interval": "1h"}, now=0, misfire="none", grace=60 * SECOND)

    assert plan.due(made, HOUR + 60 * SECOND).ticks == [HOUR]
    assert plan.due(made, HOUR + 61 * SECOND) == plan.DueTicks([], (HOUR, HOUR))
    assert plan.due(made, 2 * HOUR + SECOND) == plan.DueTicks([2 * HOUR], (HOUR, HOUR))


def test_a_jitter_is_the_same_whenever_one_looks_and_differs_from_tick_to_tick():
    made = schedule({"interval": "1h"}, now=0, jitter=600 * SECOND)
    delays = [delay_of(made, tick) for tick in range(HOUR, 50 * HOUR, HOUR)]

    assert delays == [delay_of(made, tick) for tick in range(HOUR, 50 * HOUR, HOUR)]
    assert len(set(delays)) > 40
    assert all(0 <= delay < 600 * SECOND for delay in delays)
    assert plan.due(made, HOUR + delays[0] - 1).ticks == []
    assert plan.due(made, HOUR + delays[0]).ticks == [HOUR]
    assert plan.wake_at(made) == HOUR + delays[0]


def test_a_rule_is_shown_to_people():
    texts = [
        rules.describe_rule(rules.rule_text(given, "UTC"))
        for given in (
            {"cron": "0 9 * * *"},
            {"interval": "90s"},
            {"dates": ["2026-01-01"]},
            {"repeat": "R/P1D"},
        )
    ]
    assert texts == [
        "every day at 09:00 (cron 0 9 * * *)",
        "every 1m 30s",
        "1 date",
        "repeat R/P1D",
    ]
    assert msgspec.json.decode(rules.rule_text({"cron": " 0  9 * * * "}, "UTC")) == {
        "cron": "0 9 * * *"
    }


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("0 3 * * *", "every day at 03:00"),
        ("@hourly", "every hour"),
        ("@monthly", "on day 1 of the month at 00:00"),
        ("30 9,17 * * MON-FRI", "on weekdays at 09:30 and 17:30"),
        ("0 0 * * 6,7", "on weekends at 00:00"),
        ("0 8 * * 1,3", "on Monday and Wednesday at 08:00"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/10 9-17 * * 1-5", "every 10 minutes from 09:00 to 17:59 on weekdays"),
        ("5 * * * *", "every hour at minute 5"),
        ("0 */6 * * *", "every 6 hours"),
        ("0 9-17 * * *", "every hour from 09:00 to 17:00"),
        ("0 12 1,15 JAN,JUL *", "on days 1 and 15 of the month in January and July at 12:00"),
        ("0 0 12 L * *", "on the last day of the month at 12:00"),
        ("* * * * *", "every minute"),
        ("0 0 1 * 1", None),
        ("0 0 * * 1#2", None),
        ("0 0 LW * *", None),
        ("1-9/2 * * * *", None),
        ("0,30 1-9 * * *", None),
        ("* 1,5 * * *", None),
        ("30 * * * * *", None),
        ("*/5 1,5 * * *", None),
    ],
)
def test_a_cron_expression_is_said_in_words_or_as_it_is(expression, words):
    text = rules.describe_rule(rules.rule_text({"cron": expression}, "UTC"))

    expected = f"cron {expression}" if words is None else f"{words} (cron {expression})"
    assert text == expected
