"""``HeldLease``: the writes of the holder of an explicit lease. They block the calling thread;
``Lease`` and ``AsyncLease`` are its faces."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from holdfast.connect.components import Components
from holdfast.connect.lease_renewal import LeaseRenewal
from holdfast.core import tokens
from holdfast.core.budgets.model import Breach, OnBreach
from holdfast.core.budgets.rules import breach_error
from holdfast.core.duration import Duration, as_datetime
from holdfast.core.messages import element_of
from holdfast.core.runs import ChildRecord
from holdfast.core.signature import GivenArguments
from holdfast.errors import HoldfastError, LeaseLost, WriteConflict
from holdfast.service import keys
from holdfast.service.instants import Moment
from holdfast.service.requests import Request
from holdfast.service.tasks.lease_state import (
    ChildrenLeft,
    Deferred,
    Emitted,
    LeaseState,
    Retried,
    RunEnded,
    WaitResult,
)
from holdfast.service.tasks.service import TaskService
from holdfast.service.tasks.suspension import LeaseWait
from holdfast.store.budgets.operations import BudgetSpent
from holdfast.store.effects import RevisionChanged
from holdfast.store.runs.operations import Advance
from holdfast.views import runs
from holdfast.views.runs import RunView

log = logging.getLogger("holdfast")

MakeRequest = Callable[[], Request[Any]]


class HeldLease:
    """The right to write one run, and the calls of its holder.

    A repeated call gets the answer of the first. A call raises LeaseLost if the lease has expired
    or the run has another holder.
    """

    def __init__(
        self,
        parts: Components,
        service: TaskService,
        state: LeaseState,
        ttl: Duration,
        renewal: LeaseRenewal | None = None,
    ) -> None:
        self._parts: Components = parts
        self.service: TaskService = service
        self.state: LeaseState = state
        self._ttl: Duration = ttl
        self._renewal: LeaseRenewal | None = renewal
        self.is_open: bool = True
        """Whether the lease has neither ended nor been lost, as far as its holder knows."""
        self._run: RunView | None = None
        self._arguments: GivenArguments | None = None
        self._input_error: HoldfastError | None = None
        # Now and not on use: an input that is stored apart is read from the store.
        try:
            self._arguments = service.arguments(state.run)
        except HoldfastError as error:
            self._input_error = error
        if renewal is not None:
            renewal.watch(self)

    @property
    def wait_result(self) -> WaitResult | None:
        """The outcome of the run's last wait. Raises the error with which it could not be read."""
        if self.state.resume_error is not None:
            raise self.state.resume_error
        return self.state.resumed

    @property
    def healthy(self) -> bool:
        """Whether the lease stands, as far as is known here: it has not ended, has not been lost,
        and has not expired."""
        return self.is_open and self.state.term.until >= self.service.store.now()

    def lose(self, error: LeaseLost) -> None:
        """Learn that the lease is lost. The next call of its holder is refused by the store."""
        log.warning("a lease is lost: %s", error)
        self.close()

    def close(self) -> None:
        """Note that the lease is over, so that it is not renewed any more."""
        self.is_open = False
        if self._renewal is not None:
            self._renewal.forget(self)

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

    def spend(self, amounts: Mapping[str, Any], key: str | None) -> BudgetSpent:
        """Spend from the budgets of the run. Raises BudgetExceeded after the reaction that the
        budget asks for."""
        checked = self.service.spending.amounts(self.state, amounts)
        while True:
            answer = self._write_output(
                lambda: self.service.spending.spend(self.state, checked, key)
            )
            if isinstance(answer, BudgetSpent):
                return answer
            if self._react(answer.breach, checked):
                raise breach_error(answer.breach, checked)

    def _react(self, breach: Breach, amounts: dict[str, int]) -> bool:
        """Do what a budget asks for when it has no room. Return False if there is room by now."""
        spending = self.service.spending
        if breach.on_breach == OnBreach.FAIL:
            return True
        if breach.on_breach == OnBreach.CANCEL:
            self._write(lambda: spending.ask_to_stop(self.state, breach))
            return True
        blocked = self._write(lambda: spending.block(self.state, breach, amounts))
        return not isinstance(blocked, RevisionChanged)

    # Children

    def start(
        self,
        task: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> str:
        """Start a child of the run, and return its id."""
        known = self.service.children.known(self.state, options.get("id"))
        if known is not None:
            self.service.terms.check_stands(self.state)
            return known
        child: str = self._write(
            lambda: self.service.children.start(self.state, task, args, kwargs, options)
        )
        return child

    def children(self) -> list[ChildRecord]:
        """Return the children that holders of the run have started, as they are now."""
        if not self.state.has_children:
            return []
        return self.service.children.of_run(self.state)

    def wait_children(self, timeout: Moment | None) -> Deferred:
        """Give back the lease until the children have ended."""
        while True:
            answer = self._write(lambda: self.service.children.wait(self.state, timeout))
            if isinstance(answer, Deferred):
                return answer
            # The revision has changed: a child may have ended. Look at them again.

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
        self,
        kind: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        retry_after: Duration | None = None,
    ) -> Retried | RunEnded:
        """Record that this attempt failed."""
        answer: Retried | RunEnded = self._write(
            lambda: self.service.fail(self.state, kind, message, details, retry_after)
        )
        return answer

    def throw(self, code: str, message: str, variables: Mapping[str, Any] | None) -> RunEnded:
        """End the external task of a model with a BPMN error."""
        answer: RunEnded = self._write(
            lambda: self.service.throw(self.state, code, message, variables)
        )
        return answer

    @property
    def element(self) -> str | None:
        """The element of the model that the task belongs to."""
        step = self.state.run.parent_step
        return None if step is None else element_of(step)

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

    def suspend(
        self,
        wanted: tuple[Any, ...],
        timeout: Moment | None,
        on_timeout: str,
        notes: Mapping[str, Any],
    ) -> Deferred:
        """Suspend the run until one of these is met: names of signals, waits, conditions. *notes*
        are the reason, who asked, and the delay before the run resumes."""
        suspension = self.service.suspensions.suspension(
            self.state, wanted, timeout, on_timeout, **notes
        )
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
            try:
                return self._parts.commit(request)
            except WriteConflict:  # another process with the same proof has written meanwhile
                if not self.service.repeats.catch_up(self.state):
                    raise
            return self._parts.commit(make_request())
        except LeaseLost as refused:
            self.close()
            raise self.service.terms.lost(self.state) from refused

    def _write(self, make_request: MakeRequest) -> Any:
        """Commit a request. If it repeats a committed one, return the first answer; if another
        process has written with the same proof, make the request again. Raises LeaseLost."""
        request = make_request()
        try:
            self._check_not_expired()
            return self._commit(request)
        except LeaseLost as refused:
            self.close()
            return self.service.repeats.explain(self.state, request, refused)
        except WriteConflict:
            if not self.service.repeats.catch_up(self.state):
                raise
        return self._commit(make_request())

    def _commit(self, request: Request[Any]) -> Any:
        """Commit a request; an end as often as it takes to ask all children to stop."""
        while True:
            answer = self._parts.commit(request)
            if isinstance(answer, ChildrenLeft):
                continue
            is_end = isinstance(request.op, Advance) and request.op.status is not None
            if is_end and not isinstance(answer, RevisionChanged):
                self.close()
            return answer
