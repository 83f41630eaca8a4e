"""Decide whether a failed attempt is retried, and after which delay. Pure: the caller supplies the
random number for the jitter, as *dice* from 0 to 1."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from holdfast.core import duration
from holdfast.core.duration import Duration
from holdfast.core.text import nearest
from holdfast.errors import BadDuration, BadOption, Fail, Fenced, NotEncodable, Retry, WrongType

RETRY_LIMIT = 100
"""The total number of attempts of a step whose code raises Retry while its policy allows no
retries."""

STEP_OPTIONS = (
    "name",
    "retries",
    "delay",
    "factor",
    "cap",
    "jitter",
    "when",
    "timeout",
    "transactional",
    "capture",
    "keep_args",
)
"""The options of a step, for a message about an unknown one."""

_NEVER_RETRIED = (Fail, Fenced, NotEncodable, WrongType)


class RetryPolicy(msgspec.Struct, frozen=True):
    """The number of retries of a step and their exponential delays; *delay* and *cap* are in
    microseconds. Raises BadOption."""

    retries: int = 0
    delay: int = 1_000_000
    factor: float = 2.0
    cap: int = 60_000_000
    jitter: float = 0.1
    when: Callable[[Exception], bool] | None = None

    def __post_init__(self) -> None:
        _check_count("retries", self.retries)
        _check_count("delay", self.delay)
        _check_count("cap", self.cap)
        _check_range(
            "factor",
            self.factor,
            1.0,
            sys.float_info.max,
            "it must be a finite number of at least 1",
        )
        _check_range("jitter", self.jitter, 0.0, 1.0, "it must be from 0 to 1")
        if self.when is not None and not callable(self.when):
            raise BadOption(
                option="when", value=self.when, why="it must be a function of the error"
            )

    def next_delay(self, attempt: int, dice: float) -> int:
        """Return the microseconds to wait after the failure of *attempt* (the first is 1), at most
        the cap."""
        wait = self._base_delay(attempt) * (1 + self.jitter * (2 * dice - 1))
        if wait > self.cap:
            wait = 2 * self.cap - wait  # mirrored, not cut off: delays at the cap stay spread
        return round(wait)

    def _base_delay(self, attempt: int) -> float:
        if self.delay == 0:
            return 0.0
        try:
            return min(self.delay * self.factor ** (max(attempt, 1) - 1), float(self.cap))
        except OverflowError:
            return float(self.cap)


def decide(policy: RetryPolicy, error: BaseException, attempt: int, dice: float) -> int | None:
    """Return the microseconds to wait before the next attempt, or None to give up."""
    if isinstance(error, _NEVER_RETRIED) or not isinstance(error, Exception):
        return None
    if isinstance(error, Retry):
        return _requested_delay(policy, error, attempt, dice)
    if attempt > policy.retries or not _is_retryable(policy, error):
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
    **unknown: Any,
) -> RetryPolicy:
    """Return the policy for the options of a decorator; options beside a policy replace its own.

    Raises BadOption, BadDuration."""
    if unknown:
        raise _no_such_option(next(iter(unknown)))
    options: dict[str, Any] = {
        "delay": _micros("delay", delay),
        "factor": factor,
        "cap": _micros("cap", cap),
        "jitter": jitter,
        "when": when,
    }
    if isinstance(retries, RetryPolicy):
        policy = retries
    else:
        policy = RetryPolicy(retries=0 if retries is None else retries)
    if options["delay"] is not None and options["cap"] is None:
        # a delay of an hour must not be cut to the default cap of a minute
        options["cap"] = max(policy.cap, options["delay"])
    return msgspec.structs.replace(
        policy, **{name: value for name, value in options.items() if value is not None}
    )


def _no_such_option(option: str) -> BadOption:
    similar = nearest(option, STEP_OPTIONS)
    hint = "" if similar is None else f": did you mean {similar}?"
    known = ", ".join(STEP_OPTIONS)
    return BadOption(option=option, why=f"a step has no such option{hint}", known=known)


def _requested_delay(policy: RetryPolicy, error: Retry, attempt: int, dice: float) -> int | None:
    """Return the delay that a raised Retry asks for, or None if no attempts are left."""
    if attempt > (policy.retries or RETRY_LIMIT - 1):
        return None
    if error.after is None:
        return policy.next_delay(attempt, dice)
    try:
        return duration.parse(error.after)  # type: ignore[arg-type]
    except BadDuration:  # the request to retry is clear, only its delay cannot be read
        return policy.next_delay(attempt, dice)


def _is_retryable(policy: RetryPolicy, error: Exception) -> bool:
    try:
        return policy.when is None or bool(policy.when(error))
    except Exception:  # a predicate that fails does not justify another attempt
        return False


def _micros(option: str, value: Duration | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, timedelta):
        is_negative = value < timedelta(0)
    else:
        is_negative = isinstance(value, int | float) and value < 0
    if is_negative:
        raise BadOption(option=option, value=value, why="it must not be negative")
    return duration.parse(value)


def _check_count(option: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadOption(option=option, value=value, why="it must be a whole number")
    if value < 0:
        raise BadOption(option=option, value=value, why="it must not be negative")


def _check_range(option: str, value: object, low: float, high: float, why: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadOption(option=option, value=value, why=why)
    if not low <= value <= high:  # also refuses NaN
        raise BadOption(option=option, value=value, why=why)
