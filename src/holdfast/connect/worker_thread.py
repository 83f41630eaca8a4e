"""``WorkerThread``: the thread in which the worker of an engine executes runs."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress

from holdfast.connect import operation_procedures
from holdfast.connect.components import Components
from holdfast.engine.runtime.program_loop import ProgramLoop
from holdfast.engine.worker.worker import Worker
from holdfast.errors import EngineClosed

log = logging.getLogger("holdfast")


class WorkerThread:
    """Starts the worker of an engine in a thread with a loop of its own, and stops it."""

    def __init__(self, parts: Components) -> None:
        self._parts: Components = parts
        self.thread: threading.Thread | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Task[None] | None = None

    def start(self, program_loop: ProgramLoop | None = None) -> None:
        """Start the worker and wait until it is ready. Async user code runs on *program_loop*, if
        that is given, else on the loop of the thread. Raises EngineClosed, and the error with which
        the worker failed to start. Repeated calls do nothing."""
        if self._parts.closed:
            raise EngineClosed(database=self._parts.store.url)
        if self.thread is not None:
            return
        ready = threading.Event()
        errors: list[BaseException] = []
        self.thread = threading.Thread(
            target=self._run,
            args=(ready, errors, program_loop),
            name="holdfast engine",
            daemon=True,
        )
        self.thread.start()
        ready.wait()
        if errors:
            self.thread = None
            raise errors[0]

    def _run(
        self, ready: threading.Event, errors: list[BaseException], program_loop: ProgramLoop | None
    ) -> None:
        """Run the worker on a new loop until it is stopped. *errors* receives the error with which
        it failed to start; *ready* is set in either case."""
        loop = asyncio.new_event_loop()
        self.loop = loop
        if program_loop is not None:
            program_loop.lost = self._stop_after_program_loop
        try:
            worker = self._parts.new_worker(program_loop)
            operation_procedures.attach(self._parts, worker)
            loop.run_until_complete(worker.start())
        except BaseException as error:
            errors.append(error)
            loop.close()
            return
        finally:
            ready.set()
        try:
            _run_forever(loop)
        finally:
            loop.close()

    def _stop_after_program_loop(self) -> None:
        """Stop the worker because the program closed its loop before this engine, so that other
        workers continue the runs. This is called on the loop of the worker."""
        worker = self._parts.worker
        loop = self.loop
        assert worker is not None
        assert loop is not None
        if self._stop is not None:
            return  # the engine is being closed
        log.warning(
            "the program closed its event loop before its AsyncEngine: the worker stops, and its"
            " runs continue elsewhere"
        )
        self._stop = loop.create_task(worker.kill())
        self._stop.add_done_callback(lambda done: loop.stop())

    def _begin_to_stop(
        self, worker: Worker, loop: asyncio.AbstractEventLoop, shutdown_timeout: float | None
    ) -> None:
        """Stop the worker, and then its loop, unless that has begun already. Call it on that
        loop."""
        if self._stop is None:
            self._stop = loop.create_task(worker.stop(shutdown_timeout=shutdown_timeout))
            self._stop.add_done_callback(lambda done: loop.stop())

    def stop(self, shutdown_timeout: float | None) -> None:
        """Stop the worker, if it was started, and wait until its thread has ended. Executing steps
        have *shutdown_timeout* seconds to end."""
        worker = self._parts.worker
        loop = self.loop
        thread = self.thread
        if thread is None or worker is None or loop is None or not thread.is_alive():
            return
        with suppress(RuntimeError):  # the loop may have ended meanwhile
            loop.call_soon_threadsafe(self._begin_to_stop, worker, loop, shutdown_timeout)
        thread.join()

    def check_stopped(self) -> None:
        """Raise the error with which the worker stopped, if there was one."""
        if self._stop is not None and not self._stop.cancelled():
            self._stop.result()


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped. If a task raises SystemExit or KeyboardInterrupt, asyncio
    also ends the loop: here that would stop all runs, so the loop is entered again."""
    while True:
        try:
            loop.run_forever()
            return
        except (KeyboardInterrupt, SystemExit) as error:
            log.error(
                "a task or callback of a step raised %s; the engine continues",
                type(error).__name__,
                exc_info=error,
            )
