"""Errors about runs: requests that are not possible, and ends other than completion."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError


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
    """Another call has replayed the run at the same time, and it has ended again: read it again,
    then decide."""


class EngineClosed(UsageError):
    """The engine was closed: open a new one."""


class RunFailed(HoldfastError):
    """The run did not complete."""

    @property
    def error(self) -> dict[str, object] | None:
        """The exception of the failing code as data: type, message, traceback; None if there is
        none."""
        error = self.facts.get("error")
        return error if isinstance(error, dict) else None


class RunCancelled(RunFailed):
    """The run was cancelled."""


class RunExpired(RunFailed):
    """The run passed its deadline."""


class RunStuck(RunFailed):
    """The run cannot continue without an operator: `holdfast why RUN` tells what to do."""


class ChildFailed(HoldfastError):
    """A child run did not complete."""


class TooManyFailures(HoldfastError):
    """Fewer calls of a map succeeded than it requires."""


class ResultTimeout(HoldfastError, TimeoutError):
    """The run did not end within the timeout of ``result()``: it continues, so wait again."""


class WriteConflict(HoldfastError):
    """Another writer has written the same row, and this write changed nothing: read it again, then
    try again."""


class IllegalMove(HoldfastError):
    """This is not possible in the current status: check the status first."""
