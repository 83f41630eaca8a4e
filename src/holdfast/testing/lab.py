"""``Lab``: an engine on a file of its own, in time that a test moves by hand. A month of sleep
takes milliseconds."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Coroutine
from typing import Any, TypeVar

from holdfast.connect.engine import Engine, Run
from holdfast.connect.open_store import open_store
from holdfast.core.codec import JsonCodec
from holdfast.core.duration import Duration
from holdfast.core.events import Event
from holdfast.core.status import FINAL, Status
from holdfast.engine.worker.worker import Worker
from holdfast.testing import idle
from holdfast.testing.clock import VirtualClock

T = TypeVar("T")

PATIENCE = 30.0
"""Real seconds for which a lab waits for steps that are at work."""

HOPS = 10_000
"""How often time is moved on for one run before it is said to have no end."""

UNHURRIED = {"poll": "1h", "lifetime": "36500d", "name": "lab", "schedules": False}
"""Nothing in a lab happens because real time passes: whatever must happen is told, or due. What the
code would start by itself is started when a test asks for it."""


class NeverEnds(AssertionError):
    """A run cannot end by the mere passing of time."""


class Lab:
    """An engine for tests: everything durable, nothing slow, and time stands still until it is
    moved.

    ``with Lab() as lab: assert lab.run_to_end(checkout, order) == ...``. The options are those of
    ``Engine``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        clock: VirtualClock | None = None,
        store: Any = None,
        **options: Any,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="holdfast-lab-") if path is None else None
        self.path = (
            os.fspath(path)
            if path is not None
            else os.path.join(self._folder.name, "lab.db")
            if self._folder
            else ""
        )
        self.clock = clock or VirtualClock()
        self._options = {**UNHURRIED, **options}
        self.engine = self._open(store)

    def _open(self, store: Any = None) -> Engine:
        store = store or hasty_store(
            self.path, self.clock, (self._options.get("codec") or JsonCodec()).name
        )
        engine = Engine(self.path, clock=self.clock, store=store, **self._options)
        try:
            engine.work()
        except BaseException:
            store.close()
            raise
        assert engine._loop is not None
        engine._loop.set_exception_handler(_quietly)
        return engine

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the engine and remove its file, if the lab made it."""
        self.engine.close(grace=0)
        if self._folder is not None:
            self._folder.cleanup()

    # What a test does

    def start(self, workflow: Any, *args: Any, **options: Any) -> Run[Any]:
        """Start a run. The options are those of ``Engine.start``."""
        return self.engine.start(workflow, *args, **options)

    def signal(
        self, run: Run[Any] | str, name: str, payload: Any = None, *, key: str | None = None
    ) -> bool:
        """Send a signal to a run."""
        return self.engine.signal(_id(run), name, payload, key=key)

    def advance(self, by: Duration) -> None:
        """Let time pass, and wait until all that this leads to has happened."""
        self.clock.advance(by)
        self.settle()

    def settle(self, timeout: float = PATIENCE) -> None:
        """Wait until every run has ended, or waits for time, a signal or a person. Raises
        NotSettled."""
        self._do(idle.run_until_idle(self._worker, timeout))

    def run_to_end(self, workflow: Any, *args: Any, **options: Any) -> Any:
        """Start a run, move time on whenever nothing else can happen, and return its result. Raises
        NeverEnds."""
        return self.finish(self.start(workflow, *args, **options))

    def finish(self, run: Run[T] | str) -> T:
        """Move time on until a run has ended, and return its result or raise why there is none.
        Raises NeverEnds."""
        handle: Run[T] = self.engine.run(_id(run))
        for _ in range(HOPS):
            self.settle()
            if handle.status in FINAL | {Status.STUCK}:
                return handle.result(timeout=PATIENCE)
            if not self.hop():
                raise NeverEnds(
                    f"run {handle.id} cannot end by the mere passing of time:"
                    f" {self.explain(handle.id)}"
                )
        raise NeverEnds(
            f"run {handle.id} goes on and on, after {HOPS} moves of time: {self.explain(handle.id)}"
        )

    def hop(self) -> bool:
        """Move time to the next instant at which something is due; False if there is none."""
        instant = self._do(self._next_instant())
        if instant is None:
            return False
        self.clock.advance_to(instant)
        return True

    async def _next_instant(self) -> int | None:
        return idle.next_instant(self._worker)

    # What a test sees

    def history(self, run: Run[Any] | str) -> list[Event]:
        """Return the events of a run, in order."""
        return self.engine.history(_id(run))

    def explain(self, run: Run[Any] | str) -> str:
        """Say why a run does not move, with what it waits for."""
        why, record = self.engine.why(_id(run)), self.engine.run(_id(run)).record
        blockers = [str(blocker) for blocker in why.blockers]
        waits = [f"waits={record.waits.decode()}"] if record.waits else []
        return " ".join([why.reason, *blockers, *waits])

    # What befalls an engine

    def restart(self) -> None:
        """Close the engine in peace and open another one on the same file."""
        self.engine.close(grace=0)
        self.engine = self._open()

    def crash(self) -> None:
        """End the engine as if its process were killed now, and open another one on the same
        file."""
        self.abandon()
        self.engine = self._open()

    def abandon(self) -> None:
        """End the engine as if its process were killed now: nothing more is written, its locks are
        free."""
        abandon(self.engine)

    @property
    def is_dead(self) -> bool:
        """Whether the engine has crashed."""
        return idle.is_dead(self._worker)

    @property
    def _worker(self) -> Worker:
        worker = self.engine._parts.worker
        assert worker is not None
        return worker

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the engine's loop and wait for it."""
        loop = self.engine._loop
        assert loop is not None
        return asyncio.run_coroutine_threadsafe(work, loop).result()


def hasty_store(path: str, clock: VirtualClock, codec: str = "json") -> Any:
    """Open a store that does not wait for the disk: what a test writes need not outlive a loss of
    power."""
    store: Any = open_store(path, clock=clock, codec=codec)
    if hasattr(store, "_db"):
        store._db.rows("PRAGMA synchronous = OFF")
    return store


def abandon(engine: Engine) -> None:
    """End an engine as if its process were killed: nothing more is written, its locks are free, its
    threads go."""
    parts, loop, thread = engine._parts, engine._loop, engine._thread
    assert parts.worker is not None and loop is not None and thread is not None
    engine._closed = True
    parts.writer.close()
    parts.worker.session_id = ""  # the dead do not say goodbye: others must notice
    asyncio.run_coroutine_threadsafe(parts.worker.kill(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    parts.store.close()


def _quietly(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A crash that a test has ordered needs no traceback in its log."""
    error = context.get("exception")
    if error is None or isinstance(error, Exception):
        loop.default_exception_handler(context)


def _id(run: Run[Any] | str) -> str:
    return run if isinstance(run, str) else run.id
