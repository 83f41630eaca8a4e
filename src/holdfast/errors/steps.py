"""Errors of steps, and the two errors that user code raises: Fail and Retry."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError


class StepNotFound(UsageError):
    """The run has no such step: `holdfast show RUN` lists its steps."""


class StepFailed(HoldfastError):
    """A step failed and is not retried any more."""


class StepTimeout(HoldfastError):
    """An attempt at the step took longer than its timeout."""


def _message_fact(message: object) -> dict[str, object]:
    return {} if isinstance(message, str) and not message else {"message": message}


class Fail(HoldfastError):
    """The step failed and asks not to be retried."""

    def __init__(self, message: str = "", **facts: object) -> None:
        super().__init__(**_message_fact(message), **facts)


class Retry(HoldfastError):
    """The step failed and asks to be retried."""

    def __init__(self, message: str = "", *, after: object = None, **facts: object) -> None:
        self.after = after
        delay = {} if after is None else {"after": after}
        super().__init__(**_message_fact(message), **delay, **facts)

    def __reduce__(self) -> tuple[object, ...]:
        return (Retry, (str(self.facts.get("message", "")),))
