"""``Lease`` and ``AsyncLease``: an explicit lease of a run, and the calls of its holder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from holdfast.authoring.python.waits import Received, Waited
from holdfast.connect.calls import AsyncCalls
from holdfast.core import tokens
from holdfast.core.duration import Duration
from holdfast.core.runs import RunRecord
from holdfast.core.streams.model import FrameKind, StreamMode
from holdfast.core.waits import Signal
from holdfast.errors import BadOption, HoldfastError, LeaseLost, WriteConflict
from holdfast.service import keys
from holdfast.service.runs import Moment, Request
from holdfast.service.tasks.lease_state import Deferred, LeaseState, Retried, RunEnded, WaitResult
from holdfast.service.tasks.service import TaskService
from holdfast.service.tasks.suspension import LeaseWait

TRIES = 20
"""The maximum number of attempts to append a patch while another process with the same proof
appends patches, too."""

Do = Callable[[Request], Any]
MakeRequest = Callable[[], Request]


class LeaseInfo:
    """The properties of a lease that ``Lease`` and ``AsyncLease`` share."""

    _state: LeaseState
    _service: TaskService

    @property
    def proof(self) -> str:
        """The proof of the lease, as text: ``engine.lease(proof)`` continues it, in this process or
        in another."""
        return str(self._state.proof)

    @property
    def idempotency_key(self) -> str:
        """An idempotency key for calls to other systems. All holders and attempts of the run share
        it; a replay of the completed run gets a new one."""
        return self._state.idempotency_key

    @property
    def run(self) -> RunRecord:
        """The run at the time of the lease."""
        return self._state.run

    @property
    def attempt(self) -> int:
        """The number of this attempt; the first is 1. Attempts whose lease was lost do not
        count."""
        return self._state.attempt

    @property
    def waited(self) -> Waited | None:
        """The outcome of the run's last wait, None if it has not waited: the signals received, a
        timeout, or the operator who released it. Raises KeyMissing or BadData if it cannot be
        read."""
        outcome = self._resumed
        if outcome is None:
            return None
        decode = self._service.codec.decode
        signals = tuple(
            Received(
                signal.number,
                signal.name,
                decode(signal.payload),
                signal.source,
                _moment(signal.at),
                signal.wait_id,
            )
            for signal in outcome.signals
        )
        return Waited(outcome.how, signals, decode(outcome.value), outcome.by)

    @property
    def signals(self) -> Sequence[Signal]:
        """The signals that ended the run's last wait; after a timeout, the signals that had arrived
        by then."""
        return [] if self._resumed is None else self._resumed.signals

    @property
    def timed_out(self) -> bool:
        """Whether the run's last wait timed out."""
        return self._resumed is not None and self._resumed.how == "timeout"

    @property
    def _resumed(self) -> WaitResult | None:
        """The outcome of the run's last wait. Raises the error with which it could not be read."""
        if self._state.resume_error is not None:
            raise self._state.resume_error
        return self._state.resumed

    def __repr__(self) -> str:
        return f"<lease {self.proof}>"


class Lease(LeaseInfo):
    """The right to write one run.

    The calls that end the lease state the outcome of the attempt. A repeated call gets the answer
    of the first. A call raises LeaseLost if the lease has expired or the run has another holder.
    """

    def __init__(self, state: LeaseState, service: TaskService, do: Do, ttl: Duration) -> None:
        self._state: LeaseState = state
        self._service: TaskService = service
        self._do: Do = do
        self._ttl: Duration = ttl

    @property
    def input(self) -> Any:
        """The arguments of the run: a list, or an object with ``args`` and ``kwargs``. Raises
        KeyMissing, BadData."""
        return self._service.input(self._state.run)

    @property
    def cancel_reason(self) -> str | None:
        """The reason of a requested cancellation, read from the store now; None if there is no
        request. If there is one, call ``cancel()``. Raises LeaseLost."""
        return self._service.cancel_reason(self._state)

    def renew(self) -> int:
        """Renew this lease and all others of its holder, and return their expiry in microseconds
        since 1970. Raises LeaseLost if they have expired, or if this run has another holder."""
        held = self._state
        until: int = self._do(
            self._service.renew(held.proof.session_id, self._ttl, held.term, held)
        )
        return until

    # Output

    def progress(self, percent: float | None = None, message: str | None = None) -> None:
        """Report the progress of the run; a value that is None stays as it was. Raises
        LeaseLost."""
        self._write_output(lambda: self._service.frames.progress(self._state, percent, message))

    def emit(
        self,
        *values: Any,
        kind: str = FrameKind.EVENT,
        name: str | None = None,
        mode: str = StreamMode.DURABLE,
        keep: int | None = None,
        ttl: Duration | None = None,
        place: int | None = None,
    ) -> int:
        """Append frames to the output of the run, all of them or none, and return the number of the
        last frame.

        *place* is the number of frames that this attempt has appended before: a repeated call with
        the same place appends nothing and returns the same number. Raises LeaseLost.
        """
        options: dict[str, Any] = {
            "kind": kind,
            "name": name,
            "mode": mode,
            "keep": keep,
            "ttl": ttl,
            "place": place,
        }
        for left in reversed(range(TRIES)):
            try:
                last: int = self._write_output(
                    lambda: self._service.frames.append(self._state, values, **options)
                )
            except BadOption as error:
                # "since": another process with the same proof has appended a patch meanwhile.
                if not left or error.facts.get("option") != "since":
                    raise
            else:
                return last
        raise AssertionError

    # The end of the lease

    def complete(self, result: Any = None) -> RunEnded:
        """Complete the run with a result. Raises LeaseLost."""
        ended: RunEnded = self._write(lambda: self._service.complete(self._state, result))
        return ended

    def fail(
        self, kind: str, message: str, details: Mapping[str, Any] | None = None
    ) -> Retried | RunEnded:
        """Record that this attempt failed. *kind* is "transient", "timeout", "infrastructure",
        "permanent" or "cancelled"; it and the retry policy decide whether the run is retried.
        Raises LeaseLost."""
        answer: Retried | RunEnded = self._write(
            lambda: self._service.fail(self._state, kind, message, details)
        )
        return answer

    def delay(self, until: Moment) -> Deferred:
        """Delay the run for a duration, or until a time. The attempt does not count as failed.
        Raises BadWait, LeaseLost."""
        answer: Deferred = self._write(lambda: self._service.delay(self._state, until))
        return answer

    def create_wait(self, name: str, *, expires: Moment | None = None) -> LeaseWait:
        """Issue a wait, or return the open wait of that name. A program that has its token may
        deliver signals to it, even before the run is suspended. Raises BadWait, LeaseLost."""
        self._service.check_stands(self._state)
        known = self._service.known_wait(self._state, name)
        if known is not None:
            return known
        if tokens.current(self._service.store.keys.all()) is None:
            self._do(keys.need(self._service.sealer))
        wait: LeaseWait = self._write(lambda: self._service.create_wait(self._state, name, expires))
        return wait

    def suspend(
        self, *what: Any, timeout: Moment | None = None, on_timeout: str = "continue"
    ) -> Deferred:
        """Suspend the run until one of these is met: names of signals, waits, conditions.

        The next holder of the run receives the outcome. *on_timeout* is "continue", "fail",
        "cancel", "expire" or "escalate". Raises BadCondition, BadWait, LeaseLost.
        """
        suspension = self._service.suspension(self._state, what, timeout, on_timeout)
        while True:
            answer = self._write(lambda: self._service.suspend(self._state, suspension))
            if isinstance(answer, Deferred):
                return answer
            # The revision has changed: a signal may have met the condition. Check it again.

    def cancel(self, reason: str = "cancelled by its holder") -> RunEnded:
        """End the run as cancelled. Raises LeaseLost."""
        answer = self.fail("cancelled", reason)
        assert isinstance(answer, RunEnded)
        return answer

    def _check_not_expired(self) -> None:
        """Raise LeaseLost if the lease has expired, even if the run has no other holder yet."""
        error = self._service.late(self._state)
        if error is not None:
            raise error

    def _write_output(self, make_request: MakeRequest) -> Any:
        """Commit a request that does not end the lease. Raises LeaseLost with the reason."""
        request = make_request()
        try:
            self._check_not_expired()
            return self._do(request)
        except LeaseLost as refused:
            raise self._service.lost(self._state) from refused

    def _write(self, make_request: MakeRequest) -> Any:
        """Commit a request. If it repeats a committed one, return the first answer; if another
        process has written with the same proof, make the request again. Raises LeaseLost."""
        request = make_request()
        try:
            self._check_not_expired()
            return self._do(request)
        except LeaseLost as refused:
            return self._service.explain(self._state, request, refused)
        except WriteConflict:
            if not self._service.caught_up(self._state):
                raise
        return self._do(make_request())


class AsyncLease(LeaseInfo):
    """The right to write one run, for asyncio programs. Each call is a call of a ``Lease``, made in
    a thread."""

    def __init__(self, lease: Lease, calls: AsyncCalls) -> None:
        """Decode the input of the run, which may read the store: create this object in a thread."""
        self._lease = lease
        self._calls = calls
        self._state = lease._state
        self._service = lease._service
        self._input: Any = None
        self._input_error: Exception | None = None
        try:
            self._input = lease.input
        except HoldfastError as error:
            self._input_error = error

    @property
    def input(self) -> Any:
        """The arguments of the run: a list, or an object with ``args`` and ``kwargs``. Raises
        KeyMissing, BadData."""
        if self._input_error is not None:
            raise self._input_error
        return self._input

    async def cancel_reason(self) -> str | None:
        """Return the reason of a requested cancellation; None if there is no request. If there is
        one, ``await lease.cancel()``. Raises LeaseLost."""
        return await self._calls._aside(self._service.cancel_reason, self._state)

    async def renew(self) -> int:
        """Renew this lease and all others of its holder, and return their expiry in microseconds
        since 1970. Raises LeaseLost if they have expired, or if this run has another holder."""
        return await self._calls._aside(self._lease.renew)

    async def progress(self, percent: float | None = None, message: str | None = None) -> None:
        """Report the progress of the run; a value that is None stays as it was. Raises
        LeaseLost."""
        await self._calls._aside(self._lease.progress, percent, message)

    async def emit(
        self,
        *values: Any,
        kind: str = FrameKind.EVENT,
        name: str | None = None,
        mode: str = StreamMode.DURABLE,
        keep: int | None = None,
        ttl: Duration | None = None,
        place: int | None = None,
    ) -> int:
        """Append frames to the output of the run, as ``Lease.emit`` does, and return the number of
        the last frame. Raises LeaseLost."""
        return await self._calls._aside(
            self._lease.emit,
            *values,
            kind=kind,
            name=name,
            mode=mode,
            keep=keep,
            ttl=ttl,
            place=place,
        )

    async def complete(self, result: Any = None) -> RunEnded:
        """Complete the run with a result. Raises LeaseLost."""
        return await self._calls._aside(self._lease.complete, result)

    async def fail(
        self, kind: str, message: str, details: Mapping[str, Any] | None = None
    ) -> Retried | RunEnded:
        """Record that this attempt failed. *kind* is "transient", "timeout", "infrastructure",
        "permanent" or "cancelled"; it and the retry policy decide whether the run is retried.
        Raises LeaseLost."""
        return await self._calls._aside(self._lease.fail, kind, message, details)

    async def delay(self, until: Moment) -> Deferred:
        """Delay the run for a duration, or until a time. The attempt does not count as failed.
        Raises BadWait, LeaseLost."""
        return await self._calls._aside(self._lease.delay, until)

    async def create_wait(self, name: str, *, expires: Moment | None = None) -> LeaseWait:
        """Issue a wait, or return the open wait of that name, as ``Lease.create_wait`` does."""
        return await self._calls._aside(self._lease.create_wait, name, expires=expires)

    async def suspend(
        self, *what: Any, timeout: Moment | None = None, on_timeout: str = "continue"
    ) -> Deferred:
        """Suspend the run until one of these is met: names of signals, waits, conditions, as
        ``Lease.suspend`` does. Raises BadCondition, BadWait, LeaseLost."""
        return await self._calls._aside(
            self._lease.suspend, *what, timeout=timeout, on_timeout=on_timeout
        )

    async def cancel(self, reason: str = "cancelled by its holder") -> RunEnded:
        """End the run as cancelled. Raises LeaseLost."""
        return await self._calls._aside(self._lease.cancel, reason)


def _moment(instant: int) -> datetime:
    return datetime.fromtimestamp(instant / 1_000_000, UTC)
