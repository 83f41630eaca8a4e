"""``AsyncLease``: an explicit lease of a run, and the calls of its holder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from holdfast.authoring.python.waits import Received, Waited
from holdfast.connect.async_calls import AsyncCalls
from holdfast.connect.async_run import AsyncRun
from holdfast.connect.budgets import Amounts
from holdfast.connect.held_lease import HeldLease
from holdfast.connect.start_options import split_options
from holdfast.core.duration import Duration, as_datetime
from holdfast.core.streams.model import FrameKind, StreamMode
from holdfast.core.unset import UNSET
from holdfast.service.instants import Moment
from holdfast.service.tasks.lease_state import Deferred, Emitted, Retried, RunEnded
from holdfast.service.tasks.suspension import LeaseWait
from holdfast.views.budgets import SpentView, spent_of
from holdfast.views.runs import RunView
from holdfast.views.tasks import TaskChildView, child_of


class AsyncLease:
    """The right to write one run.

    The calls that end the lease state the outcome of the attempt. A repeated call gets the answer
    of the first. A call raises LeaseLost if the lease has expired or the run has another holder.
    """

    def __init__(self, calls: AsyncCalls, held: HeldLease) -> None:
        self._calls: AsyncCalls = calls
        self._held: HeldLease = held

    # Properties

    @property
    def proof(self) -> str:
        """The proof of the lease, as text: ``engine.tasks.lease(proof)`` continues it, in this
        process or in another."""
        return str(self._held.state.proof)

    @property
    def idempotency_key(self) -> str:
        """An idempotency key for calls to other systems. All holders and attempts of the run share
        it; a replay of the completed run gets a new one."""
        return self._held.state.idempotency_key

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._held.state.run.id

    @property
    def run(self) -> RunView:
        """The run at the time of the lease."""
        return self._held.run

    @property
    def args(self) -> list[Any]:
        """The positional arguments with which the run was started. Raises KeyMissing, BadData."""
        return self._held.arguments.args

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments with which the run was started. Raises KeyMissing, BadData."""
        return self._held.arguments.kwargs

    @property
    def input(self) -> Any:
        """The arguments as one value: the only argument as it was given, the keywords if there are
        only keywords, None if there is nothing; otherwise an object with ``args`` and ``kwargs``.
        Raises KeyMissing, BadData."""
        return self._held.arguments.value

    @property
    def element(self) -> str | None:
        """The element of the model whose external task this is; None for other tasks."""
        return self._held.element

    @property
    def attempt(self) -> int:
        """The number of this attempt; the first is 1. Attempts whose lease was lost do not
        count."""
        return self._held.state.attempt

    @property
    def healthy(self) -> bool:
        """Whether the lease stands, as far as is known here: it has not ended, has not expired, and
        the background renewal has not found it lost."""
        return self._held.healthy

    @property
    def waited(self) -> Waited | None:
        """The outcome of the run's last wait, None if it has not waited: the signals received, a
        timeout, or the operator who released it. Raises KeyMissing or BadData if it cannot be
        read."""
        outcome = self._held.wait_result
        if outcome is None:
            return None
        value = self._held.service.codec.decode(outcome.value)
        return Waited(outcome.how, tuple(self.signals), value, outcome.by)

    @property
    def signals(self) -> Sequence[Received]:
        """The signals that ended the run's last wait; after a timeout, the signals that had arrived
        by then. Raises KeyMissing or BadData if they cannot be read."""
        outcome = self._held.wait_result
        if outcome is None:
            return []
        decode = self._held.service.codec.decode
        return [
            Received(
                signal.number,
                signal.name,
                decode(signal.payload),
                signal.source,
                as_datetime(signal.at),
                signal.wait_id,
            )
            for signal in outcome.signals
        ]

    @property
    def timed_out(self) -> bool:
        """Whether the run's last wait timed out."""
        outcome = self._held.wait_result
        return outcome is not None and outcome.how == "timeout"

    # Calls while the lease lasts

    async def cancel_reason(self) -> str | None:
        """Return the reason of a requested cancellation, read from the store now; None if there is
        no request. If there is one, call ``cancel()``. Raises LeaseLost."""
        return await self._calls.call(lambda parts: self._held.cancel_reason())

    async def renew(self) -> datetime:
        """Renew this lease and all others of its holder, and return their expiry. Raises LeaseLost
        if they have expired, or if this run has another holder."""
        return await self._calls.call(lambda parts: self._held.renew())

    async def progress(self, percent: float | None = None, message: str | None = None) -> None:
        """Report the progress of the run; a value that is None stays as it was. Raises
        LeaseLost."""
        await self._calls.call(lambda parts: self._held.progress(percent, message))

    async def emit(
        self,
        *values: Any,
        kind: str = FrameKind.EVENT,
        name: str | None = None,
        mode: str = StreamMode.DURABLE,
        keep: int | None = None,
        ttl: Duration | None = None,
        place: int | None = None,
    ) -> Emitted:
        """Append frames to the output of the run, all of them or none. The answer has the number of
        the last frame, how many frames this attempt has appended, and the version of the summary
        after a patch.

        *place* is the number of frames that this attempt has appended before: a repeated call with
        the same place appends nothing and returns the same answer. A run that was suspended or
        delayed continues its attempt, and with it the stream and the summary. Raises LeaseLost.
        """
        options: dict[str, Any] = {
            "kind": kind,
            "name": name,
            "mode": mode,
            "keep": keep,
            "ttl": ttl,
            "place": place,
        }
        return await self._calls.call(lambda parts: self._held.emit(values, options))

    async def create_wait(self, name: str, *, expires: Moment | None = None) -> LeaseWait:
        """Issue a wait, or return the open wait of that name. A program that has its token may
        deliver signals to it, even before the run is suspended. Raises BadWait, LeaseLost."""
        return await self._calls.call(lambda parts: self._held.create_wait(name, expires))

    async def spend(self, amounts: Amounts, *, key: str | None = None) -> SpentView:
        """Spend from all budgets of the run, all amounts or none: ``lease.spend({"tokens": 5})``.
        With a *key* they are counted once per run.

        Without room the call raises BudgetExceeded, after it has done what the budget says: "wait"
        gives back the lease until there is room, "cancel" asks the run to stop, "fail" leaves the
        decision to the holder. Raises UnknownDimension, LeaseLost.
        """
        spent = await self._calls.call(lambda parts: self._held.spend(amounts, key))
        return spent_of(spent.counted, spent.soft)

    async def start(
        self,
        task: Any,
        *args: Any,
        id: str | None = UNSET,
        lane: str | None = UNSET,
        priority: int = UNSET,
        delay: Moment | None = UNSET,
        deadline: Moment | None = UNSET,
        tags: Mapping[str, str] | None = UNSET,
        capabilities: str | Iterable[str] | None = UNSET,
        version: str | int | None = UNSET,
        policy: Any = UNSET,
        budget: Any = UNSET,
        share: str | None = UNSET,
        on_parent_end: str = UNSET,
        **kwargs: Any,
    ) -> AsyncRun[Any]:
        """Start a child of the run; the options are those of ``engine.start``. A call with the *id*
        of a child that was started before returns that child.

        When the run ends, its open children are cancelled, or left alone with
        on_parent_end="leave". Raises BadOption, RunExists, LeaseLost.
        """
        parts = await self._calls.opened()
        task, options, kwargs = split_options(
            task,
            {
                "id": id,
                "lane": lane,
                "priority": priority,
                "delay": delay,
                "deadline": deadline,
                "tags": tags,
                "capabilities": capabilities,
                "version": version,
                "policy": policy,
                "budget": budget,
                "share": share,
                "on_parent_end": on_parent_end,
            },
            kwargs,
        )
        parts.know(task)
        run_id = await self._calls.call(lambda parts: self._held.start(task, args, kwargs, options))
        return AsyncRun(self._calls, run_id)

    async def children(self) -> Sequence[TaskChildView]:
        """Return the children that holders of the run have started, in this order, as they are
        now: ``id``, ``status``, ``result``, ``error``. Raises KeyMissing, BadData."""
        decode = self._held.service.codec.decode
        children = await self._calls.call(lambda parts: self._held.children())
        return [child_of(child, decode) for child in children]

    # The end of the lease

    async def wait_children(self, *, timeout: Moment | None = None) -> Deferred:
        """Give back the lease until all children have ended, one of them has failed, or the
        *timeout* has passed. The next holder finds their results in ``children()``. Raises
        BadOption if there are no children, BadWait, LeaseLost."""
        return await self._calls.call(lambda parts: self._held.wait_children(timeout))

    async def complete(self, result: Any = None) -> RunEnded:
        """Complete the run with a result. Raises LeaseLost."""
        return await self._calls.call(lambda parts: self._held.complete(result))

    async def fail(
        self,
        kind: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        retry_after: Duration | None = None,
    ) -> Retried | RunEnded:
        """Record that this attempt failed. *kind* is "transient", "timeout", "infrastructure",
        "permanent" or "cancelled"; it and the retry policy decide whether the run is retried, after
        *retry_after* if that is given. Raises LeaseLost."""
        return await self._calls.call(
            lambda parts: self._held.fail(kind, message, details, retry_after)
        )

    async def throw(
        self, code: str, message: str = "", variables: Mapping[str, Any] | None = None
    ) -> RunEnded:
        """End an external task with a BPMN error, which the model catches; it is never retried.
        Raises LeaseLost, NotEncodable."""
        return await self._calls.call(lambda parts: self._held.throw(code, message, variables))

    async def delay(self, until: Moment) -> Deferred:
        """Delay the run for a duration, or until a time. The attempt does not count as failed.
        Raises BadWait, LeaseLost."""
        return await self._calls.call(lambda parts: self._held.delay(until))

    async def suspend(
        self,
        *wanted: Any,
        timeout: Moment | None = None,
        on_timeout: str = "continue",
        reason: str | None = None,
        by: str | None = None,
        resume_delay: Duration | None = None,
    ) -> Deferred:
        """Suspend the run until one of these is met: names of signals, waits, conditions such as
        ``any_signal()``. Without any, only an operator's ``engine.waits.release``, or the timeout,
        ends the wait.

        The next holder of the run receives the outcome, *resume_delay* after the signal that met
        the condition. *on_timeout* is "continue", "fail", "cancel", "expire" or "escalate".
        *reason* and *by* are shown to operators. Raises BadCondition, BadOption, BadWait,
        LeaseLost.
        """
        notes = {"reason": reason, "by": by, "resume_delay": resume_delay}
        return await self._calls.call(
            lambda parts: self._held.suspend(wanted, timeout, on_timeout, notes)
        )

    async def cancel(self, reason: str = "cancelled by its holder") -> RunEnded:
        """End the run as cancelled. Raises LeaseLost."""
        return await self._calls.call(lambda parts: self._held.cancel(reason))

    def __repr__(self) -> str:
        return f"<lease {self.proof}>"
