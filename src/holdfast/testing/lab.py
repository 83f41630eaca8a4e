"""``Lab``: an engine for tests, on a database file of its own and with a virtual clock.

A month of sleep takes milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from holdfast.connect.blocking.engine import Engine
from holdfast.connect.blocking.run import Run
from holdfast.connect.open_store import open_store
from holdfast.core import duration
from holdfast.core.codec import JsonCodec
from holdfast.core.duration import Duration
from holdfast.core.status import FINAL, Status
from holdfast.engine.worker.worker import Worker
from holdfast.store.sqlite import SqliteDatabase
from holdfast.testing import idle
from holdfast.testing.clock import VirtualClock
from holdfast.testing.engine_internals import internals
from holdfast.testing.fakes import StepFake, fake_step
from holdfast.views.events import EventView
from holdfast.views.text import json_line

T = TypeVar("T")

PATIENCE = 30.0
"""The number of real seconds for which a lab waits for running steps."""

SOON = 2.0
"""The number of real seconds for which a lab waits for running steps before it moves time."""

HOPS = 10_000
"""How often time is moved for one run before the lab raises NeverEnds."""

ASKS = 20
"""How often one `Lab.advance` of at most an hour moves time to the next question to a resolver of
gates. Later questions, and those of a longer time, are one: a resolver may have no answer for
days."""

HOUR = 3_600_000_000
"""Microseconds of an hour."""

UNHURRIED = {"poll": "1h", "session_ttl": "36500d", "name": "lab", "schedules": False}
"""The engine options of a lab: nothing happens because real time passes, only by notification or
when virtual time is due. Schedules in code start runs only when a test asks for it."""


class NeverEnds(AssertionError):
    """A run does not end, however much time passes."""


class Lab:
    """An engine for tests: durable, fast, and with time that stands still until the test moves it.

    ``with Lab() as lab: assert lab.run_to_end(checkout, order) == ...``. The options are the same
    as for ``Engine``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        clock: VirtualClock | None = None,
        store: Any = None,
        **options: Any,
    ) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        if path is None:
            self._folder = tempfile.TemporaryDirectory(prefix="holdfast-lab-")
            path = os.path.join(self._folder.name, "lab.db")
        self.path: str = os.fspath(path)
        self.clock: VirtualClock = clock or VirtualClock()
        self._options: dict[str, Any] = {**UNHURRIED, **options}
        self._fakes: list[StepFake] = []
        self.engine: Engine = self._open(store)

    def _open(self, store: Any = None) -> Engine:
        codec = self._options.get("codec") or JsonCodec()
        store = store or hasty_store(self.path, self.clock, codec.name)
        try:
            engine = Engine(self.path, clock=self.clock, store=store, **self._options)
            engine.work()
        except BaseException:
            store.close()
            raise
        loop = engine._calls.worker_thread.loop
        assert loop is not None
        loop.set_exception_handler(_ignore_crashes)
        return engine

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the engine, and remove its file if the lab created it."""
        self.engine.close(shutdown_timeout=0)
        while self._fakes:
            self._fakes.pop().restore()  # the last one first: a step may have been faked twice
        if self._folder is not None:
            self._folder.cleanup()

    def fake(
        self,
        step: Any,
        work: Callable[..., Any] | None = None,
        *,
        returns: Any = None,
        raises: BaseException | None = None,
    ) -> StepFake:
        """Let *work* do the work of a step or task until the lab is closed; without it, the step
        returns *returns* or raises *raises*. Its calls are recorded and retried as ever. The
        returned object has the arguments of each attempt in ``calls``. Raises BadOption."""
        fake = fake_step(step, work, returns, raises)
        self._fakes.append(fake)
        return fake

    # Actions

    def start(self, workflow: Any, *args: Any, **options: Any) -> Run[Any]:
        """Start a run. The options are the same as for ``Engine.start``."""
        return self.engine.start(workflow, *args, **options)

    def signal(
        self, run: Run[Any] | str, name: str, payload: Any = None, *, key: str | None = None
    ) -> bool:
        """Send a signal to a run."""
        return self.engine.signal(_id(run), name, payload, key=key)

    def advance(self, by: Duration) -> None:
        """Move time forward, and wait until all consequences have happened.

        What falls due in between happens in order, each at its time: a timer that sets another one
        fires before it. Only after 10,000 moves the rest is due at once."""
        end = self.clock.now() + duration.parse(by)
        if self._becomes_idle():
            self._hop_until(end)
        self.clock.advance_to(end)
        self.run_until_idle()

    def _becomes_idle(self) -> bool:
        """Return whether the engine becomes idle soon; a step may be at work until its time is
        over."""
        try:
            self.run_until_idle(SOON)
        except idle.NotIdle:
            return False
        return True

    def _hop_until(self, end: int) -> None:
        asks = 0 if end - self.clock.now() <= HOUR else ASKS
        for _ in range(HOPS):
            instant = self._run_on_loop(self._next_instant())
            ask = self._run_on_loop(self._next_ask()) if asks < ASKS else None
            if ask is not None and (instant is None or ask < instant):
                instant = ask
                asks += 1
            if instant is None or instant >= end or self.is_dead:
                return
            self.clock.advance_to(instant)
            self.run_until_idle()

    def run_until_idle(self, timeout: float = PATIENCE) -> None:
        """Wait until every run has ended, or waits for time, a signal or a person.

        Raises NotIdle after *timeout* real seconds.
        """
        self._run_on_loop(idle.run_until_idle(self._worker, timeout))

    settle = run_until_idle

    def run_to_end(self, workflow: Any, *args: Any, **options: Any) -> Any:
        """Start a run, move time forward whenever nothing else can happen, and return its result.

        Raises NeverEnds, or the error of a run that failed.
        """
        return self.finish(self.start(workflow, *args, **options))

    def finish(self, run: Run[T] | str) -> T:
        """Move time forward until a run has ended, and return its result.

        Raises NeverEnds, or the error of a run that failed.
        """
        handle: Run[T] = self.engine.run(_id(run))
        for _ in range(HOPS):
            self.run_until_idle()
            if handle.status in FINAL | {Status.STUCK}:
                return handle.result(timeout=PATIENCE)
            if not self.hop():
                raise NeverEnds(
                    f"run {handle.id} cannot end by the mere passing of time:"
                    f" {self.explain(handle.id)}"
                )
        raise NeverEnds(
            f"run {handle.id} has not ended after {HOPS} moves of time: {self.explain(handle.id)}"
        )

    def hop(self) -> bool:
        """Move time to the next instant at which something is due; return False if there is
        none."""
        instant = self._run_on_loop(self._next_instant())
        if instant is None:
            return False
        self.clock.advance_to(instant)
        return True

    async def _next_ask(self) -> int | None:
        return self._worker.resolvers.next_ask()

    async def _next_instant(self) -> int | None:
        return idle.next_instant(self._worker)

    # Observations

    def history(self, run: Run[Any] | str) -> list[EventView]:
        """Return the events of a run, in order."""
        return self.engine.run(_id(run)).history()

    def explain(self, run: Run[Any] | str) -> str:
        """Return why a run does not move, with its blockers and waits."""
        why = self.engine.why(_id(run))
        record = self.engine.run(_id(run)).record
        blockers = [str(blocker) for blocker in why.blockers]
        waits = [f"waits={json_line(record.waits)}"] if record.waits else []
        return " ".join([why.reason, *blockers, *waits])

    # Restarts and crashes

    def restart(self) -> None:
        """Close the engine in an orderly way, and open another one on the same file."""
        self.engine.close(shutdown_timeout=0)
        self.engine = self._open()

    def crash(self) -> None:
        """End the engine as if its process were killed now, and open another one on the same
        file."""
        self.abandon()
        self.engine = self._open()

    def abandon(self) -> None:
        """End the engine as if its process were killed now: it writes nothing more, and its locks
        are free."""
        abandon(self.engine)

    @property
    def is_dead(self) -> bool:
        """Whether the engine has crashed."""
        return idle.is_dead(self._worker)

    @property
    def _worker(self) -> Worker:
        worker = internals(self.engine).worker
        assert worker is not None
        return worker

    def _run_on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the engine's loop, and block until it is done."""
        loop = self.engine._calls.worker_thread.loop
        assert loop is not None
        return asyncio.run_coroutine_threadsafe(work, loop).result()


def hasty_store(path: str, clock: VirtualClock, codec: str = "json") -> Any:
    """Open a store that does not wait for the disk, because the data of a test need not survive a
    power failure."""
    store: Any = open_store(path, clock=clock, codec=codec)
    if isinstance(store.database, SqliteDatabase):
        store.database._db.rows("PRAGMA synchronous = OFF")
    return store


def abandon(engine: Engine) -> None:
    """End an engine as if its process were killed: it writes nothing more, its locks are free, its
    threads end."""
    parts = internals(engine)
    loop = engine._calls.worker_thread.loop
    thread = engine._calls.worker_thread.thread
    assert parts.worker is not None and loop is not None and thread is not None
    parts.closed = True
    parts.writer.close()
    # A killed process does not end its session: other workers must detect its death.
    parts.worker.session_id = ""
    asyncio.run_coroutine_threadsafe(parts.worker.kill(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    parts.store.close()


def _ignore_crashes(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an exception as usual, but not a simulated crash, which is a BaseException."""
    error = context.get("exception")
    if error is None or isinstance(error, Exception):
        loop.default_exception_handler(context)


def _id(run: Run[Any] | str) -> str:
    return run if isinstance(run, str) else run.id
