# Generated from connect/workers.py by tools/generate_blocking.py: do not edit.
"""``engine.workers``: the workers of an installation, and the runs that none of them serves."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.connect.calls import Calls
from holdfast.views.workers import UnservedView, WorkerView


class Workers:
    """The workers that an ``Engine`` can see."""

    def __init__(self, calls: Calls) -> None:
        self._calls: Calls = calls

    def list(self) -> list[WorkerView]:
        """Return all workers, alive or dead. If the engine is bound to a namespace, return only
        the workers that serve it."""
        return self._calls.call(lambda parts: parts.workers())

    def unserved(self) -> Sequence[UnservedView]:
        """Return the routes with claimable runs that no live worker serves: the number of runs, the
        offer that is missing, and the remedy."""
        return self._calls.call(lambda parts: parts.unserved())
