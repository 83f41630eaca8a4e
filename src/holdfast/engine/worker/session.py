"""Describe the session of a worker to other processes: its name, place and offer."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import msgspec

from holdfast.core.program import Definition
from holdfast.core.sessions import Session
from holdfast.engine.runtime.settings import WorkerSettings


def session_of(
    session_id: str,
    slot: int,
    settings: WorkerSettings,
    definitions: Mapping[str, Definition],
    stored: Mapping[str, list[str]],
    now: int,
) -> Session:
    """Return the session of a worker of this process that serves these workflows, and these
    versions of stored ones."""
    workflows = {name: _versions(definition) for name, definition in definitions.items()}
    for name, versions in stored.items():
        own = workflows.get(name, [])
        if own is not None:
            workflows[name] = sorted({*own, *versions})
    serves = {
        "workflows": workflows,
        "lanes": settings.lanes,
        "capabilities": settings.capabilities,
        "namespace": settings.namespace,
        "concurrency": settings.concurrency,
        "crash_limit": settings.crash_limit,
        "session_ttl": settings.session_ttl,
    }
    host = socket.gethostname()
    return Session(
        id=session_id,
        worker=settings.name or f"{host}-{os.getpid()}",
        host=host,
        pid=os.getpid(),
        slot=slot,
        started_at=now,
        beat_at=now,
        expires_at=now + settings.session_ttl,
        serves=msgspec.json.encode(serves),
    )


def _versions(definition: Definition) -> list[str] | None:
    accepted = definition.accepts_versions
    if accepted is None:
        return None
    return sorted(accepted)
