"""Times of timer events: durations, dates and cycles in the calendar of their zone."""

from datetime import UTC, datetime

import pytest

from holdfast.authoring.bpmn.timers import plan_of, read_instant, read_period
from holdfast.errors import BadDuration


def instant(text):
    return read_instant(text)


def shown(micros):
    return datetime.fromtimestamp(micros / 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M")


@pytest.mark.parametrize(
    ("kind", "text", "due"),
    [
        ("timeDuration", "PT90M", "2026-01-31T10:30"),
        ("timeDuration", "P1M", "2026-02-28T09:00"),
        ("timeDuration", "P1Y2M3DT4H", "2027-04-03T13:00"),
        ("timeDate", "2026-03-01T12:00:00+02:00", "2026-03-01T10:00"),
        ("timeDate", "2026-03-01T12:00:00[Europe/Berlin]", "2026-03-01T11:00"),
        ("timeCycle", "R3/PT10M", "2026-01-31T09:10"),
        ("timeCycle", "R/2026-02-01T00:00:00Z/P1D", "2026-02-01T00:00"),
        ("timeCycle", "0 0 12 * * ?", "2026-01-31T12:00"),
        ("timeCycle", "0 0/20 * * * ?", "2026-01-31T09:20"),
    ],
)
def test_a_time_is_due(kind, text, due):
    assert shown(plan_of(kind, text, instant("2026-01-31T09:00:00Z")).at) == due


def dues(text, now="2026-01-31T09:00:00Z", late=None, each=False, most=10):
    plan = plan_of("timeCycle", text, instant(now))
    result = []
    while plan is not None and len(result) < most:
        result.append(shown(plan.at)[5:])
        plan = plan.following(instant(late) if late else plan.at, each)
    return result


def test_a_cycle_counts_from_its_last_due_time():
    assert dues("R3/PT1H") == ["01-31T10:00", "01-31T11:00", "01-31T12:00"]


def test_a_cycle_ends_at_its_end():
    assert dues("R/PT1H/2026-01-31T11:30:00Z") == ["01-31T10:00", "01-31T11:00"]


def test_a_cycle_keeps_the_hour_of_its_zone_when_the_clocks_change():
    cycle = "R3/2026-03-28T09:00:00[Europe/Berlin]/P1D"

    assert dues(cycle) == ["03-28T08:00", "03-29T07:00", "03-30T07:00"]


def test_missed_firings_fire_once_or_each():
    late = "2026-01-31T12:30:00Z"

    assert dues("R5/PT1H", late=late) == [
        "01-31T10:00",
        "01-31T12:00",
        "01-31T13:00",
        "01-31T14:00",
    ]
    assert len(dues("R5/PT1H", late=late, each=True)) == 5


@pytest.mark.parametrize("text", ["PT", "P", "", "1h", "PT5", "P1", "-PT5M", "PTS"])
def test_a_text_that_is_no_duration_is_refused(text):
    with pytest.raises(BadDuration):
        read_period(text)


@pytest.mark.parametrize("text", ["R3", "R/PT0S", "R3/", "x", "R3/x/y/z", "R3/PT1H/never"])
def test_a_text_that_is_no_cycle_is_refused(text):
    with pytest.raises(BadDuration):
        plan_of("timeCycle", text, 0)
