"""``HeldLease``: the writes of the holder of an explicit lease. They block the calling thread;
``Lease`` and ``AsyncLease`` are its faces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from holdfast.connect.components import Components
from holdfast.core import tokens
from holdfast.core.duration import Duration, as_datetime
from holdfast.core.signature import GivenArguments
from holdfast.errors import HoldfastError, LeaseLost, WriteConflict
from holdfast.service import keys
from holdfast.service.instants import Moment
from holdfast.service.requests import Request
from holdfast.service.tasks.lease_state import Deferred, Emitted, LeaseState, Retried, RunEnded
from holdfast.service.tasks.service import TaskService
from holdfast.service.tasks.suspension import LeaseWait
from holdfast.views import runs
from holdfast.views.runs import RunView

MakeRequest = Callable[[], Request[Any]]


class HeldLease:
    """The right to write one run, and the calls of its holder.

    A repeated call gets the answer of the first. A call raises LeaseLost if the lease has expired
    or the run has another holder.
    """

    def __init__(
        self, parts: Components, service: TaskService, state: LeaseState, ttl: Duration
    ) -> None:
        self._parts: Components = parts
        self.service: TaskService = service
        self.state: LeaseState = state
        self._ttl: Duration = ttl
        self._run: RunView | None = None
        self._arguments: GivenArguments | None = None
        self._input_error: HoldfastError | None = None
        # Now and not on use: an input that is stored apart is read from the store.
        try:
            self._arguments = service.arguments(state.run)
        except HoldfastError as error:
            self._input_error = error

    @property
    def arguments(self) -> GivenArguments:
        """The arguments of the run. Raises KeyMissing, BadData, WrongType."""
        if self._arguments is None:
            assert self._input_error is not None
            raise self._input_error
        return self._arguments

    def cancel_reason(self) -> str | None:
        """Return the reason of a requested cancellation; None if there is no request."""
        return self.service.cancel_reason(self.state)

    @property
    def run(self) -> RunView:
        """The run at the time of the lease."""
        if self._run is None:
            self._run = runs.of(self.service.sealer.display.run(self.state.run))
        return self._run

    def renew(self) -> datetime:
        """Renew this lease and all others of its holder, and return their expiry."""
        held = self.state
        expiry = self._parts.commit(
            self.service.terms.renew(held.proof.session_id, self._ttl, held.term, held)
        )
        return as_datetime(expiry)

    # Output

    def progress(self, percent: float | None, message: str | None) -> None:
        """Report the progress of the run."""
        self._write_output(lambda: self.service.output.progress(self.state, percent, message))

    def emit(self, values: tuple[Any, ...], options: Mapping[str, Any]) -> Emitted:
        """Append frames to the output of the run, all of them or none."""
        emitted: Emitted = self._write_output(
            lambda: self.service.output.append(self.state, values, **options)
        )
        return emitted

    # The end of the lease

    def complete(self, result: Any) -> RunEnded:
        """Complete the run with a result."""
        ended: RunEnded = self._write(lambda: self.service.complete(self.state, result))
        return ended

    def complete_alone(self, result: Any) -> RunEnded | LeaseLost:
        """Complete the run. Return LeaseLost instead of raising it."""
        try:
            return self.complete(result)
        except LeaseLost as lost:
            return lost

    def fail(
        self, kind: str, message: str, details: Mapping[str, Any] | None = None
    ) -> Retried | RunEnded:
        """Record that this attempt failed."""
        answer: Retried | RunEnded = self._write(
            lambda: self.service.fail(self.state, kind, message, details)
        )
        return answer

    def cancel(self, reason: str) -> RunEnded:
        """End the run as cancelled."""
        answer = self.fail("cancelled", reason)
        assert isinstance(answer, RunEnded)
        return answer

    def delay(self, until: Moment) -> Deferred:
        """Delay the run for a duration, or until a time."""
        answer: Deferred = self._write(lambda: self.service.delay(self.state, until))
        return answer

    def create_wait(self, name: str, expires: Moment | None) -> LeaseWait:
        """Issue a wait, or return the open wait of that name."""
        self.service.terms.check_stands(self.state)
        known = self.service.suspensions.known_wait(self.state, name)
        if known is not None:
            return known
        if tokens.current(self.service.store.keys.all()) is None:
            self._parts.commit(keys.need(self.service.sealer))
        wait: LeaseWait = self._write(
            lambda: self.service.suspensions.create_wait(self.state, name, expires)
        )
        return wait

    def suspend(self, wanted: tuple[Any, ...], timeout: Moment | None, on_timeout: str) -> Deferred:
        """Suspend the run until one of these is met: names of signals, waits, conditions."""
        suspension = self.service.suspensions.suspension(self.state, wanted, timeout, on_timeout)
        while True:
            answer = self._write(lambda: self.service.suspensions.suspend(self.state, suspension))
            if isinstance(answer, Deferred):
                return answer
            # The revision has changed: a signal may have met the condition. Check it again.

    def _check_not_expired(self) -> None:
        """Raise LeaseLost if the lease has expired, even if the run has no other holder yet."""
        error = self.service.terms.late(self.state)
        if error is not None:
            raise error

    def _write_output(self, make_request: MakeRequest) -> Any:
        """Commit a request that does not end the lease. Raises LeaseLost with the reason."""
        request = make_request()
        try:
            self._check_not_expired()
            return self._parts.commit(request)
        except LeaseLost as refused:
            raise self.service.terms.lost(self.state) from refused

    def _write(self, make_request: MakeRequest) -> Any:
        """Commit a request. If it repeats a committed one, return the first answer; if another
        process has written with the same proof, make the request again. Raises LeaseLost."""
        request = make_request()
        try:
            self._check_not_expired()
            return self._parts.commit(request)
        except LeaseLost as refused:
            return self.service.repeats.explain(self.state, request, refused)
        except WriteConflict:
            if not self.service.repeats.catch_up(self.state):
                raise
        return self._parts.commit(make_request())
