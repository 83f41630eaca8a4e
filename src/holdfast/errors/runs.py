"""Errors about runs: requests that are not possible, and ends other than completion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors.base import (
    HoldfastError,
    UsageError,
    cause_first,
    places_of,
    raised_of,
    sentence_of,
    text_of,
)


class NamespaceBound(UsageError):
    """This engine is bound to a namespace, and the request lies outside it: use an engine that is
    bound to that namespace, or to none."""


class RunNotFound(UsageError):
    """There is no such run: `holdfast runs` lists the runs."""


class RunExists(UsageError):
    """This id or key belongs to a run with another input: choose another id or key, or start with
    the same input."""


class StartIncomplete(UsageError):
    """Only some of these runs were started; ``run_ids`` of this error has their ids: remove the
    reason, then start the other items."""

    run_ids: tuple[str, ...] = ()


class RunFinished(UsageError):
    """The run has ended: `holdfast replay` or `holdfast fork` starts it again."""


class RunNotFinished(UsageError):
    """The run has not ended yet: cancel it first, or wait."""


class RunChanged(UsageError):
    """The run has changed since the caller read it: read it again, then decide."""


class EngineClosed(UsageError):
    """The engine was closed: open a new one."""


def _places(facts: Mapping[str, object]) -> list[str]:
    """Return where the exception of a failed run was raised.

    *origin* is the run that raised it, if that is a descendant of the run.
    """
    return [*places_of(facts), f"run {facts.get('run')}"]


def _reasoned(error: RunFailed) -> str:
    """Return the sentence of an error with the reason that ended the run."""
    sentence = sentence_of(type(error)).rstrip(".")
    reason = text_of(error.facts, "message")
    words = f"{sentence}: {reason}" if reason else sentence
    return f"{words} (run {error.facts.get('run')})"


class RunFailed(HoldfastError):
    """The run did not complete."""

    def _text(self) -> str:
        """Return the exception of user code, and its place: ``ValueError: card expired (in step
        charge, run order-7)``."""
        return cause_first(self.facts, _places(self.facts), sentence_of(RunFailed))

    @property
    def error(self) -> dict[str, Any] | None:
        """The exception of the failing code as data: type, message, traceback; None if there is
        none."""
        error = self.facts.get("error")
        return error if isinstance(error, dict) else None


class RunCancelled(RunFailed):
    """The run was cancelled."""

    def _text(self) -> str:
        return _reasoned(self)


class RunExpired(RunFailed):
    """The run passed its deadline."""

    def _text(self) -> str:
        return _reasoned(self)


class RunStuck(RunFailed):
    """The run cannot continue without an operator: `holdfast why RUN` tells what to do."""

    def _text(self) -> str:
        run_id = self.facts.get("run")
        advice = f"run {run_id} is stuck: `holdfast why {run_id}` tells what to do"
        cause = text_of(self.facts, "cause") or raised_of(self.facts)
        return f"{cause or sentence_of(RunStuck)} ({advice})"


class ChildFailed(HoldfastError):
    """A child run did not complete."""

    traceback: str | None = None
    """The traceback of the exception in the child."""

    def _text(self) -> str:
        """Return the exception of the child's code, and its place, as RunFailed does."""
        return cause_first(self.facts, _places(self.facts), sentence_of(ChildFailed))


class TooManyFailures(HoldfastError):
    """Fewer calls of a map succeeded than it requires."""


class ResultTimeout(HoldfastError, TimeoutError):
    """The run did not end within the timeout of ``result()``: it continues, so wait again."""


class WriteConflict(HoldfastError):
    """Another writer has written the same row, and this write changed nothing: read it again, then
    try again."""


class IllegalMove(HoldfastError):
    """This is not possible in the current status: check the status first."""
