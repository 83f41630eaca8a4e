"""Errors of steps, and the two errors that user code raises: Fail and Retry."""

from __future__ import annotations

from holdfast.errors.base import (
    HoldfastError,
    UsageError,
    cause_first,
    sentence_of,
    text_of,
    with_facts,
)


class StepNotFound(UsageError):
    """The run has no such step: `holdfast show RUN` lists its steps."""


class StepFailed(HoldfastError):
    """A step failed and is not retried any more."""

    traceback: str | None = None
    """The traceback of the last attempt."""

    def _text(self) -> str:
        """Return the exception of the last attempt, and its place: ``ValueError: card expired (in
        step charge, attempt 3)``."""
        places = [f"step {self.facts.get('step')}", f"attempt {self.facts.get('attempts')}"]
        return cause_first(self.facts, places, sentence_of(type(self)))


class StepTimeout(HoldfastError):
    """An attempt at the step took longer than its timeout: raise it, or divide the step."""


def _message_fact(message: object) -> dict[str, object]:
    return {} if isinstance(message, str) and not message else {"message": message}


def _own_words(error: HoldfastError) -> str:
    """Return the message that user code gave, or the sentence of the class, and the other facts."""
    facts = dict(error.facts)
    message = text_of(facts, "message")
    if message:
        del facts["message"]
    return with_facts(message or sentence_of(type(error)), facts)


class Fail(HoldfastError):
    """The step failed and asks not to be retried."""

    def __init__(self, message: str = "", **facts: object) -> None:
        super().__init__(**_message_fact(message), **facts)

    def _text(self) -> str:
        return _own_words(self)


class Retry(HoldfastError):
    """The step failed and asks to be retried."""

    def __init__(self, message: str = "", *, after: object = None, **facts: object) -> None:
        self.after = after
        delay = {} if after is None else {"after": after}
        super().__init__(**_message_fact(message), **delay, **facts)

    def _text(self) -> str:
        return _own_words(self)

    def __reduce__(self) -> tuple[object, ...]:
        return (Retry, (str(self.facts.get("message", "")),))
