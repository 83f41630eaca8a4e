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
Make = Callable[[], Request]


class LeaseInfo:
    """The properties of a lease that ``Lease`` and ``AsyncLease`` share."""

    _holding: LeaseState
    _desk: TaskService

    @property
    def proof(self) -> str:
        """The proof of the lease, as text: ``engine.lease(proof)`` continues it, in this process or
        in another."""
        return str(self._holding.proof)

    @property
    def idempotency_key(self) -> str:
        """An idempotency key for calls to other systems. All holders and attempts of the run share
        it; a replay of the completed run gets a new one."""
        return self._holding.idempotency_key

    @property
    def run(self) -> RunRecord:
        """The run at the time of the lease."""
        return self._holding.run

    @property
    def attempt(self) -> int:
        """The number of this attempt; the first is 1. Attempts whose lease was lost do not
        count."""
        return self._holding.attempt

    @property
    def waited(self) -> Waited | None:
        """The outcome of the run's last wait, None if it has not waited: the signals received, a
        timeout, or the operator who released it. Raises KeyMissing or BadData if it cannot be
        read."""
        found = self._resumed
        if found is None:
            return None
        decode = self._desk.codec.decode
        signals = tuple(
            Received(
                one.number, one.name, decode(one.payload), one.source, _moment(one.at), one.wait_id
            )
            for one in found.signals
        )
        return Waited(found.how, signals, decode(found.value), found.by)

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
        if self._holding.resume_error is not None:
            raise self._holding.resume_error
        return self._holding.resumed

    def __repr__(self) -> str:
        return f"<lease {self.proof}>"


class Lease(LeaseInfo):
    """The right to write one run.

    The calls that end the lease state the outcome of the attempt. A repeated call gets the answer
    of the first. A call raises LeaseLost if the lease has expired or the run has another holder.
    """

    def __init__(self, holding: LeaseState, desk: TaskService, do: Do, ttl: Duration) -> None:
        self._holding, self._desk, self._do, self._ttl = holding, desk, do, ttl

    @property
    def input(self) -> Any:
        """The arguments of the run: a list, or an object with ``args`` and ``kwargs``. Raises
        KeyMissing, BadData."""
        return self._desk.input(self._holding.run)

    @property
    def cancel_reason(self) -> str | None:
        """The reason of a requested cancellation, read from the store now; None if there is no
        request. If there is one, call ``cancel()``. Raises LeaseLost."""
        return self._desk.cancel_reason(self._holding)

    def renew(self) -> int:
        """Renew this lease and all others of its holder, and return their expiry in microseconds
        since 1970. Raises LeaseLost if they have expired, or if this run has another holder."""
        held = self._holding
        until: int = self._do(self._desk.renew(held.proof.session_id, self._ttl, held.term, held))
        return until

    # What it shows

    def progress(self, percent: float | None = None, message: str | None = None) -> None:
        """Report the progress of the run; a value that is None stays as it was. Raises
        LeaseLost."""
        self._show(lambda: self._desk.frames.progress(self._holding, percent, message))

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
                last: int = self._show(
                    lambda: self._desk.frames.append(self._holding, values, **options)
                )
            except BadOption as error:
                if not left or error.facts.get("option") != "since":
                    raise
            else:
                return last
        raise AssertionError

    # What ends it

    def complete(self, result: Any = None) -> RunEnded:
        """Complete the run with a result. Raises LeaseLost."""
        ended: RunEnded = self._write(lambda: self._desk.complete(self._holding, result))
        return ended

    def fail(
        self, kind: str, message: str, details: Mapping[str, Any] | None = None
    ) -> Retried | RunEnded:
        """Record that this attempt failed. *kind* is "transient", "timeout", "infrastructure",
        "permanent" or "cancelled"; it and the retry policy decide whether the run is retried.
        Raises LeaseLost."""
        answer: Retried | RunEnded = self._write(
            lambda: self._desk.fail(self._holding, kind, message, details)
        )
        return answer

    def delay(self, until: Moment) -> Deferred:
        """Delay the run for a duration, or until a time. The attempt does not count as failed.
        Raises BadWait, LeaseLost."""
        answer: Deferred = self._write(lambda: self._desk.delay(self._holding, until))
        return answer

    def create_wait(self, name: str, *, expires: Moment | None = None) -> LeaseWait:
        """Issue a wait, or return the open wait of that name. A program that has its token may
        deliver signals to it, even before the run is suspended. Raises BadWait, LeaseLost."""
        self._desk.check_stands(self._holding)
        known = self._desk.known_wait(self._holding, name)
        if known is not None:
            return known
        if tokens.current(self._desk.store.keys()) is None:
            self._do(keys.need(self._desk.sealer))
        wait: LeaseWait = self._write(lambda: self._desk.create_wait(self._holding, name, expires))
        return wait

    def suspend(
        self, *what: Any, timeout: Moment | None = None, on_timeout: str = "continue"
    ) -> Deferred:
        """Suspend the run until one of these is met: names of signals, waits, conditions.

        The next holder of the run receives the outcome. *on_timeout* is "continue", "fail",
        "cancel", "expire" or "escalate". Raises BadCondition, BadWait, LeaseLost.
        """
        wanted = self._desk.suspension(self._holding, what, timeout, on_timeout)
        while True:
            answer = self._write(lambda: self._desk.suspend(self._holding, wanted))
            if isinstance(answer, Deferred):
                return answer  # else something reached the run meanwhile: look again

    def cancel(self, reason: str = "cancelled by its holder") -> RunEnded:
        """End the run as cancelled. Raises LeaseLost."""
        answer = self.fail("cancelled", reason)
        assert isinstance(answer, RunEnded)
        return answer

    def _refuse_late(self) -> None:
        """Raise LeaseLost if the lease has expired, even if the run has no other holder yet."""
        late = self._desk.late(self._holding)
        if late is not None:
            raise late

    def _show(self, make: Make) -> Any:
        request = make()
        try:
            self._refuse_late()
            return self._do(request)
        except LeaseLost as refused:
            raise self._desk.lost(self._holding) from refused

    def _write(self, make: Make) -> Any:
        request = make()
        try:
            self._refuse_late()
            return self._do(request)
        except LeaseLost as refused:
            return self._desk.explain(self._holding, request, refused)
        except WriteConflict:
            if not self._desk.caught_up(self._holding):
                raise
        return self._do(make())


class AsyncLease(LeaseInfo):
    """The right to write one run, for asyncio programs. Each call is a call of a ``Lease``, made in
    a thread."""

    def __init__(self, lease: Lease, calls: AsyncCalls) -> None:
        """Decode the input of the run, which may read the store: create this object in a thread."""
        self._lease, self._calls = lease, calls
        self._holding, self._desk = lease._holding, lease._desk
        self._input: Any = None
        self._sealed: Exception | None = None
        try:
            self._input = lease.input
        except HoldfastError as error:
            self._sealed = error

    @property
    def input(self) -> Any:
        """The arguments of the run: a list, or an object with ``args`` and ``kwargs``. Raises
        KeyMissing, BadData."""
        if self._sealed is not None:
            raise self._sealed
        return self._input

    async def cancel_reason(self) -> str | None:
        """Return the reason of a requested cancellation; None if there is no request. If there is
        one, ``await lease.cancel()``. Raises LeaseLost."""
        return await self._calls._aside(self._desk.cancel_reason, self._holding)

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
