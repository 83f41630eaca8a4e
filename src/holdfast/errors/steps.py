"""Errors of steps, and the two that user code raises: Fail and Retry."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError


class StepNotFound(UsageError):
    """The run has no such step: `holdfast show RUN` lists its steps."""


class StepFailed(HoldfastError):
    """A step failed and will not be tried again."""


class StepTimeout(HoldfastError):
    """The step took longer than its timeout."""


def _told(message: object) -> dict[str, object]:
    return {} if isinstance(message, str) and not message else {"message": message}


class Fail(HoldfastError):
    """The step says that trying again is of no use."""

    def __init__(self, message: str = "", **facts: object) -> None:
        super().__init__(**_told(message), **facts)


class Retry(HoldfastError):
    """The step asks to be tried again."""

    def __init__(self, message: str = "", *, after: object = None, **facts: object) -> None:
        self.after = after
        super().__init__(**_told(message), **({} if after is None else {"after": after}), **facts)

    def __reduce__(self) -> tuple[object, ...]:
        return (Retry, (str(self.facts.get("message", "")),))
