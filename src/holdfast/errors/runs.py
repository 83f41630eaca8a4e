"""Errors about runs: what may be asked of them, and how they ended."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError


class NamespaceBound(UsageError):
    """This engine is bound to a namespace and this lies outside it: use an engine that is bound to
    that namespace, or to none."""


class RunNotFound(UsageError):
    """There is no such run: `holdfast runs` lists what there is."""


class RunExists(UsageError):
    """This id or key already belongs to a run with other input: choose another one, or start with
    the same input."""


class StartIncomplete(UsageError):
    """Only some of these runs were started: ``run_ids`` of this error are theirs. Mend the reason,
    then start the other items."""

    run_ids: tuple[str, ...] = ()


class RunFinished(UsageError):
    """The run has ended: `holdfast replay` or `holdfast fork` can start from it again."""


class RunNotFinished(UsageError):
    """The run has not ended yet: cancel it first, or wait."""


class RunChanged(UsageError):
    """The run was replayed by another call at the same time, and has ended again: look at it again,
    then decide."""


class EngineClosed(UsageError):
    """The engine was closed: open a new one."""


class RunFailed(HoldfastError):
    """The run did not complete."""

    @property
    def error(self) -> dict[str, object] | None:
        """What the failing code raised: type, message, traceback."""
        error = self.facts.get("error")
        return error if isinstance(error, dict) else None


class RunCancelled(RunFailed):
    """The run was cancelled."""


class RunExpired(RunFailed):
    """The run passed its deadline."""


class RunStuck(RunFailed):
    """The run cannot go on without a person: `holdfast why RUN` says what to do."""


class ChildFailed(HoldfastError):
    """A child run did not complete."""


class TooManyFailures(HoldfastError):
    """Too many of the mapped calls failed."""


class ResultTimeout(HoldfastError, TimeoutError):
    """The run has not ended within the time given; it goes on."""


class WriteConflict(HoldfastError):
    """Another writer has written the same row: this write changed nothing; read again, then try
    again."""


class IllegalMove(HoldfastError):
    """This cannot happen in this status."""
