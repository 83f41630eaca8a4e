"""All operations of the HTTP API, and the methods of the engine that have none, with the reason."""

from __future__ import annotations

import inspect

from holdfast.server import remote_workers
from holdfast.server.operation import OWNERS, HttpOperation
from holdfast.server.routes import (
    bulk,
    drawings,
    events,
    flows,
    gates,
    graphs,
    installation,
    models,
    runs,
    simple,
    workflows,
)

OPERATIONS: tuple[HttpOperation, ...] = (
    *runs.OPERATIONS,
    *bulk.OPERATIONS,
    *drawings.OPERATIONS,
    *graphs.OPERATIONS,
    *workflows.OPERATIONS,
    *models.OPERATIONS,
    *events.OPERATIONS,
    *flows.OPERATIONS,
    *gates.OPERATIONS,
    *simple.OPERATIONS,
    *installation.OPERATIONS,
    *remote_workers.OPERATIONS,
)
"""The operation table. ``docs/guides/server.md`` says how to add one."""

SAME_AS: dict[str, str] = {
    "engine.run": "run.record",
    "engine.runs": "runs.page",
    "engine.signal": "run.signal",
    "engine.cancel": "run.cancel",
    "engine.resume": "run.resume",
    "engine.replay": "run.replay",
    "engine.why": "run.why",
    "engine.fork": "run.fork",
    "runs.first": "runs.page",
    "run.wait_until": "run.result",
    "tasks.attempts": "run.attempts",
    "waits.release": "run.release",
    "graphs.open": "graphs.get",
    "tasks.worker": "server.open_remote_worker",
    "tasks.claim": "server.claim",
    "tasks.lease": "lease.renew",
}
"""Methods that another operation stands for."""

NOT_OVER_HTTP: dict[str, str] = {
    "engine.work": "a worker executes code; the server has none",
    "engine.close": "a client does not close the database of the server",
    "events.consume": "the callback writes in the transaction that moves the cursor",
    "database.backup": "it writes a file on the machine of the server",
}
"""Methods without an operation, with the reason."""


def without_operation() -> list[str]:
    """Return the public methods of the engine that have no operation, for the test of the table."""
    covered = {operation.name for operation in OPERATIONS} | set(SAME_AS) | set(NOT_OVER_HTTP)
    public = {
        f"{owner}.{verb}"
        for owner, kind in OWNERS.items()
        for verb, _ in inspect.getmembers(kind, inspect.isfunction)
        if not verb.startswith("_")
    }
    return sorted(public - covered)
