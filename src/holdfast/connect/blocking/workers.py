# Generated from connect/workers.py by tools/generate_blocking.py: do not edit.
"""``engine.workers``: the workers of an installation, and the runs that none of them serves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.connect.calls import Calls
from holdfast.core.sessions import Session

if TYPE_CHECKING:
    from holdfast.core.why.workers import UnservedRoute


class Workers:
    """The workers that an ``Engine`` can see."""

    def __init__(self, calls: Calls) -> None:
        self._calls: Calls = calls

    def list(self) -> list[Session]:
        """Return the sessions of all workers. If the engine is bound to a namespace, return only
        the sessions that serve it."""
        return self._calls.call(lambda parts: parts.workers())

    def unserved(self) -> Sequence[UnservedRoute]:
        """Return the routes with claimable runs that no live worker serves: the number of runs, the
        offer that is missing, and the remedy."""
        return self._calls.call(lambda parts: parts.unserved())
