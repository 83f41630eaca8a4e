"""``ForegroundWorker``: the worker of an engine in a process that does nothing else.

``Engine.work`` serves runs in a thread beside a program. Here the worker has the loop of the
process itself, which saves that thread, and tells its caller which runs have ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.connect import operation_procedures, run_views
from holdfast.connect.async_engine import AsyncEngine
from holdfast.connect.blocking.engine import Engine
from holdfast.connect.components import Components
from holdfast.connect.engine_options import settings_from
from holdfast.engine.runtime.settings import WorkerSettings
from holdfast.engine.worker.worker import Worker
from holdfast.store.database import Hints
from holdfast.views.runs import RunView


class ForegroundWorker:
    """Serves the runs of an engine on the running loop, until it is stopped."""

    def __init__(self, engine: Engine | AsyncEngine) -> None:
        self._parts: Components = engine._calls.open()
        self._worker: Worker | None = None
        self._ended: list[str] = []

    @property
    def is_taken(self) -> bool:
        """Whether the engine has started a worker of its own."""
        return self._parts.worker is not None

    @property
    def settings(self) -> WorkerSettings:
        """The settings of the worker."""
        return self._parts.settings

    def change_settings(self, options: Mapping[str, Any]) -> None:
        """Replace settings of the engine, before the start. Raises BadOption."""
        changed = settings_from(dict(options))
        self._parts.settings = msgspec.structs.replace(
            self._parts.settings, **{name: getattr(changed, name) for name in options}
        )

    @property
    def name(self) -> str:
        """The name under which the worker is registered; it must be started."""
        session_id = None if self._worker is None else self._worker.session_id
        sessions = self._parts.store.sessions.all()
        names = [session.worker for session in sessions if session.id == session_id]
        return names[0] if names else self.settings.name

    @property
    def workflows(self) -> list[str]:
        """The names of the workflows that it serves."""
        return sorted(self._parts.definitions())

    @property
    def url(self) -> str:
        """The database."""
        return self._parts.store.url

    def facts(self) -> dict[str, Any]:
        """Return facts about the driver and the file or server."""
        return self._parts.store.info()

    async def start(self) -> None:
        """Begin to serve runs. Raises the error with which the worker failed to start."""
        self._parts.notifier.on_commit.append(self._on_commit)
        self._worker = self._parts.new_worker()
        operation_procedures.attach(self._parts, self._worker)
        await self._worker.start()

    async def stop(self) -> None:
        """Let running steps end, within their timeout, and release all leases."""
        if self._worker is not None:
            await self._worker.stop()

    async def kill(self) -> None:
        """Stop at once; interrupted steps run again on another worker."""
        if self._worker is not None:
            await self._worker.kill()

    def close(self) -> None:
        """Close the database."""
        self._parts.close()

    def _on_commit(self, hints: Hints) -> None:
        self._ended.extend(hints.finished)

    def take_ended(self) -> list[str]:
        """Return the ids of the runs that ended in this process since the last call."""
        ended = self._ended
        self._ended = []
        return ended

    def runs(self, run_ids: Sequence[str]) -> list[RunView]:
        """Return those of these runs that exist, in their order."""
        records = {run.id: run for run in self._parts.store.runs.by_id(run_ids)}
        return run_views.listed(
            self._parts, [records[run_id] for run_id in run_ids if run_id in records]
        )
