"""Waiting for what an engine does, on its own commits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

from holdfast.connect.open_store import open_store
from holdfast.store.contract import UnsealStore

PATIENCE = 60.0
"""Seconds after which something that should come to pass will not: long, for nobody waits longer
than it takes."""


def wait_until(engine: Any, condition: Callable[[], bool]) -> None:
    """Return when *condition* holds; it is looked at after every commit of the engine. Raises what
    it raises."""
    reached, failed = threading.Event(), []

    def look(_: object) -> None:
        try:
            if not condition():
                return
        except Exception as error:  # in a thread of the engine, which has nothing to do with it
            failed.append(error)
        reached.set()

    engine._parts.writer.listeners.append(look)
    try:
        look(None)
        assert reached.wait(PATIENCE), condition
    finally:
        engine._parts.writer.listeners.remove(look)
    if failed:
        raise failed[0]


def wait_for(engine: Any, run: Any, status: str) -> None:
    """Return when the run has that status."""
    wait_until(engine, lambda: run.status == status)


def one_lease(leases: Any, **options: Any) -> Any:
    """Claim, and return the one lease that there is."""
    (lease,) = leases.claim(**options)
    return lease


def unseal(path) -> None:
    """Let a database accept writes that an export has sealed."""
    with closing(open_store(path, sealed=True)) as store:
        (seal,) = store.apply([UnsealStore()])
    assert seal is not None
