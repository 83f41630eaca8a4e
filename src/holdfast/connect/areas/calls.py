"""What every area needs of its engine."""

from __future__ import annotations

from typing import Any

from holdfast.connect.parts import Parts
from holdfast.engine.client import Request


class Calls:
    """A part of ``Engine``."""

    _parts: Parts

    def _do(self, request: Request) -> Any:
        """Commit what is asked and return the answer."""
        raise NotImplementedError


class AsyncCalls:
    """A part of ``AsyncEngine``."""

    _parts: Parts

    async def _do(self, request: Request) -> Any:
        """Commit what is asked and return the answer."""
        raise NotImplementedError
