"""End the engines and processes that a failed test leaves behind.

An engine that works on would take the runs of later tests, and write into folders that are removed.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

from holdfast.connect.components import Components
from holdfast.connect.worker_thread import WorkerThread

RUN = "HOLDFAST_TEST_RUN"
"""The environment variable by which the processes of a test run are known."""
TEST = "PYTEST_CURRENT_TEST"
"""The environment variable in which pytest names the test, and which its processes inherit."""
PATIENCE = 10.0
"""Seconds for each engine to end."""


def end_engines() -> int:
    """End every engine of this process that is still open, and return their number."""
    threads = [item for item in gc.get_objects() if isinstance(item, WorkerThread)]
    open_threads = [thread for thread in threads if _is_working(thread)]
    for worker_thread in open_threads:
        _in_time(partial(_stop, worker_thread))
    components = [item for item in gc.get_objects() if isinstance(item, Components)]
    open_components = [parts for parts in components if not parts.closed]
    for parts in open_components:
        parts.closed = True
        _in_time(parts.store.close)
    return len({id(thread._parts) for thread in open_threads} | set(map(id, open_components)))


def _is_working(worker_thread: WorkerThread) -> bool:
    thread = worker_thread.thread
    return thread is not None and thread.is_alive()


def _stop(worker_thread: WorkerThread) -> None:
    """Stop a worker without a word to the database, which may be gone."""
    parts = worker_thread._parts
    loop = worker_thread.loop
    thread = worker_thread.thread
    assert loop is not None
    assert thread is not None
    parts.closed = True
    parts.writer.close()
    if parts.worker is not None:
        asyncio.run_coroutine_threadsafe(parts.worker.kill(), loop).result(PATIENCE)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE)
    parts.store.close()


def _in_time(work) -> None:
    """Do some work, and go on without it if it fails or hangs: the test has failed already."""

    def attempt() -> None:
        with suppress(Exception):
            work()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(PATIENCE)


def end_processes(test: str) -> int:
    """Kill every process that the body of a test has started, directly or not, and return their
    number. Does nothing where a system has no /proc."""
    run = f"{RUN}={os.environ.get(RUN, '')}".encode()
    name = f"{TEST}={test} (call)".encode()
    killed = 0
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            if int(folder.name) != os.getpid() and run in environment and name in environment:
                os.kill(int(folder.name), signal.SIGKILL)
                killed += 1
    return killed
