"""Wait for the effects of an engine: conditions are checked after each of its commits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from holdfast.connect.blocking.run import Run
from holdfast.connect.calls import Calls
from holdfast.connect.open_store import open_store
from holdfast.engine.runtime.notifier import Committed
from holdfast.store.runs.copy_operations import UnsealStore
from holdfast.testing import internals

PATIENCE = 60.0
"""Seconds after which a wait fails. Long, because a wait that succeeds ends at once."""


def wait_until(engine: Any, condition: Callable[[], bool]) -> None:
    """Return when *condition* holds; check it now and after every commit of the engine.

    An error of *condition* is raised here.
    """
    reached, failed = threading.Event(), []

    def look() -> None:
        try:
            if not condition():
                return
        except Exception as error:  # raised below: this runs in a thread of the engine
            failed.append(error)
        reached.set()

    notifier = internals(engine).notifier
    notifier.add(Committed, look)
    try:
        look()
        assert reached.wait(PATIENCE), condition
    finally:
        notifier.remove(Committed, look)
    if failed:
        raise failed[0]


def until(read: Callable[[], Any], what: str = "") -> Any:
    """Return what *read* returns, as soon as that is true: for facts of other processes."""
    pause = threading.Event()
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        answer = read()
        if answer:
            return answer
        pause.wait(0.01)
    raise AssertionError(f"not within {PATIENCE} s: {what or read}")


def wait_for(engine: Any, run: Any, status: str) -> None:
    """Return when the run has *status*."""
    wait_until(engine, lambda: run.status == status)


def one_lease(leases: Any, **options: Any) -> Any:
    """Claim leases, and return the only one."""
    (lease,) = leases.claim(**options)
    return lease


def unseal(path) -> None:
    """Unseal a database that an export has sealed, so that it accepts writes again."""
    with closing(open_store(path, sealed=True)) as store:
        (seal,) = store.apply([UnsealStore()])
    assert seal is not None


def blocking_run(engine, run_id):
    """Return a blocking handle to a run of an ``AsyncEngine``, for the threads of a test."""
    return Run(Calls(internals(engine)), run_id)
