"""``internals``: the components of an engine, for tests that look behind its calls."""

from __future__ import annotations

from holdfast.connect.async_engine import AsyncEngine
from holdfast.connect.blocking.engine import Engine
from holdfast.connect.components import Components


def internals(engine: Engine | AsyncEngine) -> Components:
    """Return the store, the writer, the services and the worker of an engine. It opens the database
    of an ``AsyncEngine`` that is not open yet, which blocks."""
    return engine._calls.open()
