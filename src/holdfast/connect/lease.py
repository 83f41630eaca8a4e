"""One lease: what its holder knows of the run, and what it does with it."""

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
"""How often a patch is made again when somebody else, with the same proof, was quicker."""

Do = Callable[[Request], Any]
Make = Callable[[], Request]


class LeaseInfo:
    """What the holder of a lease knows."""

    _holding: LeaseState
    _desk: TaskService

    @property
    def proof(self) -> str:
        """A text that shows the lease: ``engine.lease(proof)`` takes it up again, in this process
        or in another."""
        return str(self._holding.proof)

    @property
    def idempotency_key(self) -> str:
        """A key for the outside world: the same for every holder and attempt, and a new one if the
        run is replayed after it has completed."""
        return self._holding.idempotency_key

    @property
    def run(self) -> RunRecord:
        """The run, as it was when it was leased."""
        return self._holding.run

    @property
    def attempt(self) -> int:
        """Which attempt this is; the first is 1. A lost one does not count."""
        return self._holding.attempt

    @property
    def waited(self) -> Waited | None:
        """What its last wait came to, if it waited: by which signals, that its time was up, or who
        let it go."""
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
        """The signals that its last wait was met by; those that had come when its time was up."""
        return [] if self._resumed is None else self._resumed.signals

    @property
    def timed_out(self) -> bool:
        """Whether it waited, and what it waited for did not come in time."""
        return self._resumed is not None and self._resumed.how == "timeout"

    @property
    def _resumed(self) -> WaitResult | None:
        if self._holding.resume_error is not None:
            raise self._holding.resume_error
        return self._holding.resumed

    def __repr__(self) -> str:
        return f"<lease {self.proof}>"


class Lease(LeaseInfo):
    """The right to write one run. Each call that ends it says what came of it; made again, it is
    answered the same."""

    def __init__(self, holding: LeaseState, desk: TaskService, do: Do, ttl: Duration) -> None:
        self._holding, self._desk, self._do, self._ttl = holding, desk, do, ttl

    @property
    def input(self) -> Any:
        """The arguments of the run: a list, or an object with ``args`` and ``kwargs``."""
        return self._desk.input(self._holding.run)

    @property
    def cancel_reason(self) -> str | None:
        """Why somebody has asked the run to stop, as it stands now; None when nobody has. Then do
        so: ``cancel()``."""
        return self._desk.cancel_reason(self._holding)

    def renew(self) -> int:
        """Keep the lease, and all others of this holder; return until when, in microseconds since
        1970. Raises LeaseLost when it is too late, or when this run is no longer held by it."""
        held = self._holding
        until: int = self._do(self._desk.renew(held.proof.session_id, self._ttl, held.term, held))
        return until

    # What it shows

    def progress(self, percent: float | None = None, message: str | None = None) -> None:
        """Say how far the run is; what is not said stays as it was. Raises LeaseLost."""
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
        """Append frames to the output of the run, all or none, and return the number of the last
        one. With *place*, the number of frames that this attempt has appended before, a call made
        again is answered the same. Raises LeaseLost."""
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
        """End the run with a result."""
        ended: RunEnded = self._write(lambda: self._desk.complete(self._holding, result))
        return ended

    def fail(
        self, kind: str, message: str, details: Mapping[str, Any] | None = None
    ) -> Retried | RunEnded:
        """Say that this attempt failed: transient, timeout, infrastructure, permanent or
        cancelled."""
        answer: Retried | RunEnded = self._write(
            lambda: self._desk.fail(self._holding, kind, message, details)
        )
        return answer

    def delay(self, until: Moment) -> Deferred:
        """Put the run off for a time, or until one; that is no failure. Raises BadWait."""
        answer: Deferred = self._write(lambda: self._desk.delay(self._holding, until))
        return answer

    def create_wait(self, name: str, *, expires: Moment | None = None) -> LeaseWait:
        """Open a wait that can be handed out, or return the open one of that name: whoever has its
        token may deliver signals to it, already now."""
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
        """Let the run wait for one of these: names of signals, waits, conditions. Whoever claims it
        then sees what came. When time is up: continue, fail, cancel, expire, or escalate. Raises
        BadCondition, BadWait."""
        wanted = self._desk.suspension(self._holding, what, timeout, on_timeout)
        while True:
            answer = self._write(lambda: self._desk.suspend(self._holding, wanted))
            if isinstance(answer, Deferred):
                return answer  # else something reached the run meanwhile: look again

    def cancel(self, reason: str = "cancelled by its holder") -> RunEnded:
        """Stop the run."""
        answer = self.fail("cancelled", reason)
        assert isinstance(answer, RunEnded)
        return answer

    def _refuse_late(self) -> None:
        """A lease that has run out is over, also while nobody has taken the run. Raises
        LeaseLost."""
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
    """The right to write one run, for asyncio programs. What it does is done by a ``Lease``, in a
    thread."""

    def __init__(self, lease: Lease, calls: AsyncCalls) -> None:
        """Open the input of the run, which may have to be read: this is called in a thread."""
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
        """The arguments of the run: a list, or an object with ``args`` and ``kwargs``."""
        if self._sealed is not None:
            raise self._sealed
        return self._input

    async def cancel_reason(self) -> str | None:
        """Return why somebody has asked the run to stop; None when nobody has. Then do so: ``await
        lease.cancel()``."""
        return await self._calls._aside(self._desk.cancel_reason, self._holding)

    async def renew(self) -> int:
        """Keep the lease, and all others of this holder; return until when. Raises LeaseLost when
        it is too late, or when this run is no longer held by it."""
        return await self._calls._aside(self._lease.renew)

    async def progress(self, percent: float | None = None, message: str | None = None) -> None:
        """Say how far the run is; what is not said stays as it was. Raises LeaseLost."""
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
        """Append frames to the output of the run, all or none, and return the number of the last
        one. Raises LeaseLost."""
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
        """End the run with a result."""
        return await self._calls._aside(self._lease.complete, result)

    async def fail(
        self, kind: str, message: str, details: Mapping[str, Any] | None = None
    ) -> Retried | RunEnded:
        """Say that this attempt failed: transient, timeout, infrastructure, permanent or
        cancelled."""
        return await self._calls._aside(self._lease.fail, kind, message, details)

    async def delay(self, until: Moment) -> Deferred:
        """Put the run off for a time, or until one; that is no failure. Raises BadWait."""
        return await self._calls._aside(self._lease.delay, until)

    async def create_wait(self, name: str, *, expires: Moment | None = None) -> LeaseWait:
        """Open a wait that can be handed out, or return the open one of that name."""
        return await self._calls._aside(self._lease.create_wait, name, expires=expires)

    async def suspend(
        self, *what: Any, timeout: Moment | None = None, on_timeout: str = "continue"
    ) -> Deferred:
        """Let the run wait for one of these: names of signals, waits, conditions. Raises
        BadCondition, BadWait."""
        return await self._calls._aside(
            self._lease.suspend, *what, timeout=timeout, on_timeout=on_timeout
        )

    async def cancel(self, reason: str = "cancelled by its holder") -> RunEnded:
        """Stop the run."""
        return await self._calls._aside(self._lease.cancel, reason)


def _moment(instant: int) -> datetime:
    return datetime.fromtimestamp(instant / 1_000_000, UTC)
