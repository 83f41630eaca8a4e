"""Retry policies: how long, how often, and when not at all."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.retry import RETRY_LIMIT, RetryPolicy, decide, policy_from
from holdfast.errors import (
    BadDuration,
    BadOption,
    Fail,
    NotEncodable,
    Retry,
    StepTimeout,
    WrongType,
)

SECOND = 1_000_000
STEADY = RetryPolicy(retries=5, delay=SECOND, factor=2.0, cap=10 * SECOND, jitter=0.0)

dices = st.floats(0, 1, exclude_max=True)


def test_the_delay_doubles_until_it_reaches_the_cap() -> None:
    waits = [STEADY.next_delay(attempt, 0.5) // SECOND for attempt in range(1, 8)]

    assert waits == [1, 2, 4, 8, 10, 10, 10]


def test_a_factor_of_one_keeps_the_delay_fixed() -> None:
    policy = RetryPolicy(delay=SECOND, factor=1.0, jitter=0.0)

    assert {policy.next_delay(attempt, 0.0) for attempt in (1, 2, 50, 10**9)} == {SECOND}


def test_the_dice_spread_the_delay_by_the_jitter() -> None:
    policy = RetryPolicy(delay=SECOND, jitter=0.1)

    assert [policy.next_delay(1, dice) for dice in (0.0, 0.25, 0.5, 0.75)] == [
        900_000,
        950_000,
        1_000_000,
        1_050_000,
    ]


def test_waits_at_the_cap_are_still_spread() -> None:
    policy = RetryPolicy(delay=SECOND, cap=SECOND, jitter=0.1)

    assert [policy.next_delay(9, dice) for dice in (0.0, 0.25, 0.5, 0.75)] == [
        900_000,
        950_000,
        1_000_000,
        950_000,
    ]


@pytest.mark.parametrize("attempt", [1, 1_000, 10**6, 10**18, 10**400])
@pytest.mark.parametrize("factor", [1.0, 1.5, 2.0, 1e300])
def test_huge_attempts_do_not_overflow(attempt: int, factor: float) -> None:
    assert 0 <= RetryPolicy(factor=factor).next_delay(attempt, 0.9) <= RetryPolicy().cap


def test_no_delay_stays_no_delay() -> None:
    assert RetryPolicy(delay=0).next_delay(10**6, 0.9) == 0


@given(
    st.builds(
        RetryPolicy,
        delay=st.integers(0, 10**12),
        factor=st.floats(1, 1e6),
        cap=st.integers(0, 10**12),
        jitter=st.floats(0, 1),
    ),
    st.integers(1, 10_000),
    dices,
)
def test_a_wait_is_within_the_jitter_and_never_beyond_the_cap(
    policy: RetryPolicy, attempt: int, dice: float
) -> None:
    wait = policy.next_delay(attempt, dice)

    steady = RetryPolicy(
        delay=policy.delay, factor=policy.factor, cap=policy.cap, jitter=0.0
    ).next_delay(attempt, dice)
    assert 0 <= wait <= policy.cap
    assert abs(wait - steady) <= steady * policy.jitter + 2


def test_an_error_is_retried_as_often_as_the_policy_says() -> None:
    waits = [decide(STEADY, ValueError(), attempt, 0.5) for attempt in range(1, 8)]

    assert waits == [SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND, 10 * SECOND, None, None]


def test_without_retries_an_error_is_final() -> None:
    assert decide(RetryPolicy(), ValueError(), 1, 0.5) is None


@pytest.mark.parametrize(
    "error", [Fail("no"), NotEncodable(value="x"), WrongType(value="x", why="y")]
)
def test_some_errors_are_never_retried(error: Exception) -> None:
    assert decide(STEADY, error, 1, 0.5) is None


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), asyncio.CancelledError()])
def test_what_is_no_exception_is_never_retried(error: BaseException) -> None:
    assert decide(STEADY, error, 1, 0.5) is None


def test_a_timeout_is_retried() -> None:
    assert decide(STEADY, StepTimeout(), 1, 0.5) == SECOND


@pytest.mark.parametrize(
    ("after", "micros"),
    [("5s", 5 * SECOND), (0, 0), (90, 90 * SECOND), (timedelta(minutes=5), 300 * SECOND)],
)
def test_retry_says_itself_how_long_to_wait_even_beyond_the_cap(after: object, micros: int) -> None:
    assert decide(STEADY, Retry(after=after), 1, 0.9) == micros


def test_retry_without_a_time_waits_as_the_policy_says() -> None:
    assert decide(STEADY, Retry("later"), 3, 0.5) == 4 * SECOND


def test_retry_with_an_unreadable_time_waits_as_the_policy_says() -> None:
    assert decide(STEADY, Retry(after="soon"), 3, 0.5) == 4 * SECOND


def test_retry_is_limited_by_the_policy() -> None:
    assert decide(STEADY, Retry(), 5, 0.5) is not None
    assert decide(STEADY, Retry(), 6, 0.5) is None
    assert decide(STEADY, Retry(after=1), 6, 0.5) is None


def test_retry_without_a_policy_gets_a_limited_number_of_attempts() -> None:
    tried = [
        attempt
        for attempt in range(1, 200)
        if decide(RetryPolicy(), Retry(), attempt, 0.5) is not None
    ]

    assert tried == list(range(1, RETRY_LIMIT))


def test_when_chooses_which_errors_are_retried() -> None:
    policy = RetryPolicy(retries=3, when=lambda error: isinstance(error, OSError))

    assert decide(policy, ConnectionError(), 1, 0.5) is not None
    assert decide(policy, ValueError(), 1, 0.5) is None


def test_when_is_not_asked_about_retry() -> None:
    assert decide(RetryPolicy(retries=3, when=lambda _: False), Retry(), 1, 0.5) is not None


def test_when_that_raises_means_giving_up() -> None:
    def broken(error: Exception) -> bool:
        raise KeyError("oops")

    assert decide(RetryPolicy(retries=3, when=broken), ValueError(), 1, 0.5) is None


def test_a_policy_is_made_of_a_number_and_durations() -> None:
    policy = policy_from(3, delay="500ms", cap=timedelta(minutes=1), factor=1, jitter=0)

    assert policy == RetryPolicy(retries=3, delay=500_000, cap=60 * SECOND, factor=1, jitter=0)


def test_nothing_given_is_the_default_policy() -> None:
    assert policy_from(None) == policy_from() == policy_from(0) == RetryPolicy()


def test_options_replace_those_of_a_policy() -> None:
    assert policy_from(STEADY) == STEADY
    assert policy_from(STEADY, delay=2).delay == 2 * SECOND
    assert policy_from(STEADY, delay=2).retries == STEADY.retries


@pytest.mark.parametrize(
    "options",
    [
        {"retries": -1},
        {"retries": True},
        {"retries": 1.5},
        {"retries": "3"},
        {"factor": 0.99},
        {"factor": float("nan")},
        {"factor": float("inf")},
        {"factor": "2"},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": float("nan")},
        {"jitter": True},
        {"cap": -1},
        {"cap": timedelta(seconds=-1)},
        {"delay": -0.5},
        {"when": "OSError"},
    ],
)
def test_a_senseless_option_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(BadOption) as refused:
        policy_from(**options)

    assert refused.value.facts["option"] in options


@pytest.mark.parametrize(
    "options",
    [{"delay": "soon"}, {"cap": "5 parsecs"}, {"cap": "-5s"}, {"delay": b"1h"}, {"cap": []}],
)
def test_an_unreadable_duration_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(BadDuration):
        policy_from(1, **options)


@pytest.mark.parametrize(
    "options", [{"retries": -1}, {"delay": -1}, {"cap": 1.5}, {"jitter": 2}, {"factor": 0}]
)
def test_a_policy_cannot_be_made_wrong_by_hand_either(options: dict[str, Any]) -> None:
    with pytest.raises(BadOption):
        RetryPolicy(**options)


def test_a_long_delay_is_not_cut_by_a_cap_that_nobody_asked_for():
    assert policy_from(3, delay="1h", jitter=0).next_delay(1, 0.5) == 3_600_000_000
    assert policy_from(3, delay="1h", cap="1m", jitter=0).next_delay(1, 0.5) == 60_000_000


def test_an_unknown_option_of_a_step_is_named_with_the_nearest_one():
    with pytest.raises(BadOption, match="did you mean delay") as refusal:
        policy_from(3, delays="10ms")

    assert refusal.value.facts["option"] == "delays"
