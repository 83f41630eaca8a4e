"""Decides whether a failed attempt is tried again, and after how long. The dice are thrown by the
caller."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from holdfast.core import duration
from holdfast.core.duration import Duration
from holdfast.errors import BadDuration, BadOption, Fail, Fenced, NotEncodable, Retry, WrongType

RETRY_LIMIT = 100
"""How many attempts a step gets in all when its code raises Retry but its policy allows no
retries."""

_HOPELESS = (Fail, Fenced, NotEncodable, WrongType)


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often and how patiently a step is tried again; *delay* and *cap* are in microseconds.
    Raises BadOption."""

    retries: int = 0
    delay: int = 1_000_000
    factor: float = 2.0
    cap: int = 60_000_000
    jitter: float = 0.1
    when: Callable[[Exception], bool] | None = None

    def __post_init__(self) -> None:
        _whole("retries", self.retries)
        _whole("delay", self.delay)
        _whole("cap", self.cap)
        _between(
            "factor",
            self.factor,
            1.0,
            sys.float_info.max,
            "it must be a finite number of at least 1",
        )
        _between("jitter", self.jitter, 0.0, 1.0, "it must be from 0 to 1")
        if self.when is not None and not callable(self.when):
            raise BadOption(
                option="when", value=self.when, why="it must be a function of the error"
            )

    def next_delay(self, attempt: int, dice: float) -> int:
        """Say how many microseconds to wait after the failure of *attempt* (the first is 1); never
        more than the cap."""
        wait = self._grown(attempt) * (1 + self.jitter * (2 * dice - 1))
        if wait > self.cap:
            wait = (
                2 * self.cap - wait
            )  # folded back, not cut off: at the cap, too, waits must stay spread
        return round(wait)

    def _grown(self, attempt: int) -> float:
        if self.delay == 0:
            return 0.0
        try:
            return min(self.delay * self.factor ** (max(attempt, 1) - 1), float(self.cap))
        except OverflowError:
            return float(self.cap)


def decide(policy: RetryPolicy, error: BaseException, attempt: int, dice: float) -> int | None:
    """Say how many microseconds to wait before the next attempt, or None to give up."""
    if isinstance(error, _HOPELESS) or not isinstance(error, Exception):
        return None
    if isinstance(error, Retry):
        return _asked(policy, error, attempt, dice)
    if attempt > policy.retries or not _wanted(policy, error):
        return None
    return policy.next_delay(attempt, dice)


def policy_from(
    retries: int | RetryPolicy | None = None,
    *,
    delay: Duration | None = None,
    factor: float | None = None,
    cap: Duration | None = None,
    jitter: float | None = None,
    when: Callable[[Exception], bool] | None = None,
) -> RetryPolicy:
    """Make a policy of what a user wrote; options given beside a policy replace those in it. Raises
    BadOption, BadDuration."""
    given: dict[str, Any] = {
        "delay": _micros("delay", delay),
        "factor": factor,
        "cap": _micros("cap", cap),
        "jitter": jitter,
        "when": when,
    }
    policy = (
        retries
        if isinstance(retries, RetryPolicy)
        else RetryPolicy(retries=0 if retries is None else retries)
    )
    if given["delay"] is not None and given["cap"] is None:
        given["cap"] = max(
            policy.cap, given["delay"]
        )  # whoever asks for an hour does not mean a minute
    return msgspec.structs.replace(
        policy, **{name: value for name, value in given.items() if value is not None}
    )


def _asked(policy: RetryPolicy, error: Retry, attempt: int, dice: float) -> int | None:
    if attempt > (policy.retries or RETRY_LIMIT - 1):
        return None
    try:
        return (
            policy.next_delay(attempt, dice) if error.after is None else duration.parse(error.after)  # type: ignore[arg-type]
        )
    except BadDuration:
        return policy.next_delay(
            attempt, dice
        )  # the wish to try again is clear, only its time is not


def _wanted(policy: RetryPolicy, error: Exception) -> bool:
    try:
        return policy.when is None or bool(policy.when(error))
    except Exception:  # a broken question is no reason to go on
        return False


def _micros(option: str, value: Duration | None) -> int | None:
    if value is None:
        return None
    negative = (
        value < timedelta(0)
        if isinstance(value, timedelta)
        else isinstance(value, int | float) and value < 0
    )
    if negative:
        raise BadOption(option=option, value=value, why="it must not be negative")
    return duration.parse(value)


def _whole(option: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadOption(option=option, value=value, why="it must be a whole number")
    if value < 0:
        raise BadOption(option=option, value=value, why="it must not be negative")


def _between(option: str, value: object, low: float, high: float, why: str) -> None:
    if (
        isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high
    ):  # NaN is not between either
        raise BadOption(option=option, value=value, why=why)
