"""``AsyncFaces``: asynchronous faces of an open engine, one for each namespace.

The server calls the same namespaces as an asyncio program does, whichever engine it was given: all
faces share the database, the writer and the worker of that engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from holdfast.connect.async_engine import AsyncEngine
from holdfast.connect.blocking.engine import Engine
from holdfast.connect.components import Components
from holdfast.core.validation import checked_text
from holdfast.errors import EngineClosed, NamespaceBound

T = TypeVar("T")

MOST_FACES = 256
"""Namespaces whose faces are kept."""


class AsyncFaces:
    """The faces of an engine. They end with it."""

    def __init__(self, engine: Engine | AsyncEngine) -> None:
        self._engine: Engine | AsyncEngine = engine
        self._base: AsyncEngine | None = None
        self._bound: dict[str, tuple[AsyncEngine, Components]] = {}

    async def parts(self) -> Components:
        """Return the components of the engine, and open the database if no call has done so. Raises
        EngineClosed."""
        if isinstance(self._engine, AsyncEngine):
            parts = await self._engine._calls.opened()
        else:
            parts = self._engine._calls.opened()
        if parts.closed:
            raise EngineClosed(database=parts.store.url)
        return parts

    async def of(self, namespace: str | None) -> AsyncEngine:
        """Return the face of a namespace; the face of the engine itself for None. Raises
        NamespaceBound if the engine is bound to another namespace, EngineClosed."""
        parts = await self.parts()
        only = parts.client.only
        if only is not None and namespace not in (None, only):
            raise NamespaceBound(namespace=only, asked=namespace)
        if self._base is None:
            self._base = self._engine if isinstance(self._engine, AsyncEngine) else _over(parts)
        if namespace in (None, only):
            return self._base
        if namespace not in self._bound:
            if len(self._bound) >= MOST_FACES:
                self._bound.clear()
            self._bound[namespace] = _bound_face(self._base, parts, namespace)
        face, bound = self._bound[namespace]
        bound.worker = parts.worker  # it may have been started meanwhile
        return face

    async def call(self, function: Callable[[Components], T]) -> T:
        """Call a function that reads or writes the database, in a thread."""
        return await (await self.of(None))._calls.call(function)


def _bound_face(
    base: AsyncEngine, parts: Components, namespace: str
) -> tuple[AsyncEngine, Components]:
    bound = parts.bound_to(checked_text("namespace", namespace) or namespace)
    face = _new_face(parts)
    face._calls = base._calls.sharing(bound)
    return face, bound


def _over(parts: Components) -> AsyncEngine:
    """Return a face of a blocking engine, with threads of its own."""
    face = _new_face(parts)
    face._calls = face._calls.sharing(parts)
    parts.on_close.append(face._calls._threads.close)
    return face


def _new_face(parts: Components) -> AsyncEngine:
    """Return an engine whose database is not opened: it will share the one of *parts*."""
    return AsyncEngine(parts.store.url, work=False)
