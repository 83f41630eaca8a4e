"""Waiting for what an engine does, on its own commits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


def wait_until(engine: Any, condition: Callable[[], bool]) -> None:
    """Return when *condition* holds; it is looked at after every commit of the engine."""
    reached = threading.Event()

    def look(_: object) -> None:
        if condition():
            reached.set()

    engine._parts.writer.listeners.append(look)
    try:
        look(None)
        assert reached.wait(20), condition
    finally:
        engine._parts.writer.listeners.remove(look)


def wait_for(engine: Any, run: Any, status: str) -> None:
    """Return when the run has that status."""
    wait_until(engine, lambda: run.status == status)


def one_lease(leases: Any, **options: Any) -> Any:
    """Claim, and return the one lease that there is."""
    (lease,) = leases.claim(**options)
    return lease
